/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor: see descriptor.h. */
#include "batonrun/descriptor.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool descriptor_await(int fd, short event, int most_ms)
{
    const int64_t until = now_ms() + most_ms;
    struct pollfd p = {.fd = fd, .events = event};
    int left = most_ms, n;
    while ((n = poll(&p, 1, left)) < 0 && errno == EINTR)
        if (most_ms >= 0)
            left = until > now_ms() ? (int)(until - now_ms()) : 0;
    return n > 0;
}

bool descriptor_read(int fd, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        const ssize_t n = read(fd, at, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

int descriptor_write(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EAGAIN) /* whoever shares it made it nonblocking */
            descriptor_await(fd, POLLOUT, -1);
        else if (n < 0 && errno != EINTR)
            return errno;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}
