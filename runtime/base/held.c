/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held: see held.h. A holder locks the whole file, and who removes it the first byte, so one can be told from the
 * other. A lock that is not free is not waited for, but who makes a file waits a little for others to remove an old
 * one.
 */
#include "base/held.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_NS CLOCK_NS_PER_S /* with others who remove the file: they may wait for a processor meanwhile */
#define PAUSE_NS 50000

enum way { HOLDS, REMOVES };

static struct flock lock_of(enum way way)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = way == HOLDS ? 0 : 1};
}

bool held_is(int fd)
{
    struct flock lock = lock_of(HOLDS);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_len == 0;
}

static bool take(int fd, enum way way)
{
    struct flock lock = lock_of(way);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Whether it is a file of this user. */
static bool is_mine(int fd, struct stat *opened)
{
    return fstat(fd, opened) == 0 && S_ISREG(opened->st_mode) && opened->st_uid == geteuid();
}

/* Whether the name leads to the open file, which is this user's. */
static bool is_at(int fd, const char *path)
{
    struct stat opened, there;
    return is_mine(fd, &opened) && lstat(path, &there) == 0 && opened.st_dev == there.st_dev &&
           opened.st_ino == there.st_ino;
}

/* As held_remove; *is_busy: somebody else removes it now, or has done so. */
static bool remove_file(const char *path, bool *is_busy)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat opened;
    bool is_removed = false;
    *is_busy = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return false;
    if (!take(fd, REMOVES))
        *is_busy = !held_is(fd);
    else if (is_at(fd, path))
        is_removed = unlink(path) == 0;
    else
        *is_busy = is_mine(fd, &opened); /* it was removed since it was opened */
    close(fd);
    return is_removed;
}

bool held_remove(const char *path)
{
    bool is_busy;
    return remove_file(path, &is_busy);
}

int held_make(const char *path)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    do {
        bool is_busy = true;
        errno = 0;
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 && take(fd, HOLDS) && is_at(fd, path))
            return fd;
        const int error = errno;
        if (fd >= 0 && error != EAGAIN && error != EACCES && is_at(fd, path)) { /* no such locks are to be had here */
            unlink(path);
            close(fd);
            errno = error;
            return -1;
        }
        if (fd >= 0)
            close(fd); /* another one removes it, since nobody held it yet */
        else if (errno != EEXIST)
            return -1;
        else if (remove_file(path, &is_busy))
            continue;
        if (!is_busy)
            break;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    } while (clock_now_ns() < until);
    errno = EEXIST;
    return -1;
}
