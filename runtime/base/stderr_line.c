/* SPDX-License-Identifier: BSD-3-Clause */
/* stderr_line: see the header. */
#include "base/stderr_line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define TRIES 100 /* for a thread that has just written: a write to a file takes microseconds */

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
 * By a description of its own, which alone does not wait. A terminal is writable as soon as it has any room, and waits
 * for the rest of a line. Another user's cannot be opened: there only poll(2) tells.
 */
static ssize_t write_elsewhere(const char *line, size_t length)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    const int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0)
        return poll(&out, 1, 0) == 1 ? write_plainly(STDERR_FILENO, line, length) : -1;
    const ssize_t written = write_plainly(own, line, length);
    const int cause = errno;
    close(own);
    errno = cause;
    return written;
}

/* `cause`: why it could not be written at once. */
static ssize_t write_by_kind(const char *line, size_t length, int cause)
{
    struct stat s;
    const mode_t mode = fstat(STDERR_FILENO, &s) == 0 ? s.st_mode : 0;
    if (S_ISREG(mode))
        return write_plainly(STDERR_FILENO, line, length);
    if (S_ISSOCK(mode))
        return send(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    errno = cause;
    return cause == EAGAIN ? -1 : write_elsewhere(line, length);
}

/*
 * Pipes and sockets bear a write that does not wait. Files, terminals, and pipes that have a name may not know of it,
 * and what is asked of them may wait: for a file system that is frozen, or a server that is gone. One thread at most is
 * in there for long, and lines of all others are left out meanwhile.
 */
static ssize_t write_now(const char *line, size_t length)
{
    static atomic_flag is_writing = ATOMIC_FLAG_INIT;
    const struct iovec all = {(void *)(uintptr_t)line, length};
    ssize_t written = pwritev2(STDERR_FILENO, &all, 1, -1, RWF_NOWAIT);
    const int cause = errno;
    if (written >= 0 || cause == EPIPE)
        return written;
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(&is_writing, memory_order_relaxed); tries++) {
        errno = EAGAIN;
        if (tries == TRIES)
            return -1;
        sched_yield();
    }
    written = write_by_kind(line, length, cause);
    atomic_flag_clear_explicit(&is_writing, memory_order_relaxed);
    return written;
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
