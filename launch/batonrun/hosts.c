/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts: see hosts.h. */
#include "batonrun/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batonrun/descriptor.h"

int hosts_make_file(const char *text, char path[HOSTS_PATH_BYTES])
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, HOSTS_PATH_BYTES, "%s/batonrun-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    int error = descriptor_write(fd, text, strlen(text));
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0)
        return 0;
    unlink(path);
    errno = error;
    return -1;
}
