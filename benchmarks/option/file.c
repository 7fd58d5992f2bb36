/* SPDX-License-Identifier: BSD-3-Clause */
/* file: see file.h. Pages of the room that are not used cost nothing. */
#include "option/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

char *file_read(const char *path, size_t most, size_t *length)
{
    FILE *f = fopen(path, "re");
    char *text = f != NULL ? malloc(most + 1) : NULL;
    const size_t n = text != NULL ? fread(text, 1, most + 1, f) : 0;
    const int error = n > most ? EFBIG : text == NULL || ferror(f) ? errno : 0;
    if (f != NULL)
        fclose(f);
    if (error != 0) {
        free(text);
        errno = error;
        return NULL;
    }
    text[n] = '\0';
    if (length != NULL)
        *length = n;
    char *shrunk = realloc(text, n + 1);
    return shrunk != NULL ? shrunk : text;
}
