/* SPDX-License-Identifier: BSD-3-Clause */
/* stderr_line: see the header. */
#include "base/stderr_line.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Tries again only after a signal before the first byte. */
static ssize_t write_plainly(int fd, const char *line, size_t length)
{
    ssize_t written;
    do {
        written = write(fd, line, length);
    } while (written < 0 && errno == EINTR);
    return written;
}

/*
 * What waits for the disk may wait for long: where a file system is frozen, or a server is gone. One thread at most is
 * in there at a time, and lines of all others are left out.
 */
static ssize_t write_file(const char *line, size_t length)
{
    static atomic_flag is_writing = ATOMIC_FLAG_INIT;
    errno = EAGAIN;
    if (atomic_flag_test_and_set_explicit(&is_writing, memory_order_relaxed))
        return -1;
    const ssize_t written = write_plainly(STDERR_FILENO, line, length);
    atomic_flag_clear_explicit(&is_writing, memory_order_relaxed);
    return written;
}

/*
 * By a description of its own, which alone does not wait. A terminal is writable as soon as it has any room, and waits
 * for the rest of a line.
 */
static ssize_t write_elsewhere(const char *line, size_t length)
{
    const int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0)
        return -1;
    const ssize_t written = write_plainly(own, line, length);
    const int cause = errno;
    close(own);
    errno = cause;
    return written;
}

/* Pipes and sockets bear a write that does not wait; terminals, and pipes that have a name, do not know of it. */
static ssize_t write_now(const char *line, size_t length)
{
    const struct iovec all = {(void *)(uintptr_t)line, length};
    struct stat s;
    const bool is_file = fstat(STDERR_FILENO, &s) == 0 && S_ISREG(s.st_mode);
    if (is_file)
        return write_file(line, length);
    const ssize_t written = pwritev2(STDERR_FILENO, &all, 1, -1, RWF_NOWAIT);
    return written >= 0 || errno == EPIPE || errno == EAGAIN ? written : write_elsewhere(line, length);
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
