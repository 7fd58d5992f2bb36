/* SPDX-License-Identifier: BSD-3-Clause */
/* with_tune: tunables in this process's environment, beside those that whoever started it has set. */
#ifndef BATON_TESTS_WITH_TUNE_H
#define BATON_TESTS_WITH_TUNE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The value that BATON_TUNE gives the tunable, up to a comma or the end; NULL: it does not name it. */
static inline const char *tuned(const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = getenv("BATON_TUNE"); at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

/** From now on BATON_TUNE gives the tunable this value; NULL: it does not name it. */
static inline void tune(const char *name, const char *value)
{
    const size_t length = strlen(name);
    const char *at = getenv("BATON_TUNE");
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (at = at != NULL ? at : ""; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            fprintf(out, "%.*s,", (int)strcspn(at, ","), at);
    if (value != NULL)
        fprintf(out, "%s=%s,", name, value);
    fclose(out);
    if (bytes > 0) {
        text[bytes - 1] = '\0'; /* the last comma */
        setenv("BATON_TUNE", text, 1);
    } else {
        unsetenv("BATON_TUNE");
    }
    free(text);
}

#endif
