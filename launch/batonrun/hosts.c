/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts: see hosts.h. */
#include "batonrun/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int hosts_make_file(const char *text, char path[HOSTS_PATH_BYTES])
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, HOSTS_PATH_BYTES, "%s/batonrun-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    int fd = mkstemp(path);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int failed = fputs(text, out) < 0;
    if (fclose(out) == 0 && !failed)
        return 0;
    unlink(path);
    return -1;
}
