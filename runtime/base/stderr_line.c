/* SPDX-License-Identifier: BSD-3-Clause */
/* stderr_line: see the header. */
#include "base/stderr_line.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Tries again only after a signal before the first byte. */
static ssize_t write_plainly(const char *line, size_t length)
{
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, length);
    } while (written < 0 && errno == EINTR);
    return written;
}

static bool is_file(void)
{
    struct stat s;
    return fstat(STDERR_FILENO, &s) == 0 && S_ISREG(s.st_mode);
}

static bool has_room(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1;
}

/*
 * Pipes and sockets bear a write that does not wait (RWF_NOWAIT), whoever else writes there. A file never waits for
 * long, but may say so. Of a terminal only poll(2) tells, as of a pipe before Linux 6.4: another writer may take the
 * room in between.
 */
static ssize_t write_now(const char *line, size_t length)
{
    const struct iovec all = {(void *)(uintptr_t)line, length};
    ssize_t written = pwritev2(STDERR_FILENO, &all, 1, -1, RWF_NOWAIT);
    if (written >= 0 || errno == EPIPE)
        return written;
    return (errno == EAGAIN ? is_file() : has_room()) ? write_plainly(line, length) : -1;
}

bool stderr_line(const char *line, size_t length)
{
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const bool was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    const bool is_written = write_now(line, length) >= 0;
    if (!is_written && errno == EPIPE && !was_pending)
        sigtimedwait(&pipe, NULL, &(struct timespec){0}); /* the one that this write has raised */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_written;
}
