/* SPDX-License-Identifier: BSD-3-Clause */
/* lines: see lines.h. */
#include "batonrun/lines.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

bool lines_read(struct lines *l, int fd, lines_take_fn take, void *arg)
{
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] == '\n')
            lines_finish(l, take, arg);
        else if (l->length + 1 < sizeof l->line)
            l->line[l->length++] = bytes[i];
    return n > 0 || (n < 0 && errno == EINTR);
}

void lines_finish(struct lines *l, lines_take_fn take, void *arg)
{
    size_t length = l->length;
    l->line[length] = '\0';
    l->length = 0;
    if (length > 0)
        take(arg, l->line);
}

static void nap(void)
{
    struct timespec left = {.tv_nsec = 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void lines_drain(int fd, unsigned patience_ms)
{
    int left;
    for (unsigned ms = 0; ms < patience_ms && ioctl(fd, FIONREAD, &left) == 0 && left > 0; ms++)
        nap();
}
