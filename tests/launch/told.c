/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded: this process is asked to end as soon as it has made a temporary file. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int mkstemp(char *path)
{
    int (*made)(char *);
    *(void **)&made = dlsym(RTLD_NEXT, "mkstemp");
    int fd = made != NULL ? made(path) : -1;
    raise(SIGTERM);
    return fd;
}
