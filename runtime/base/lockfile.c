/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockfile: see lockfile.h. A holder locks the whole file, and a process that removes it locks the first byte, so the
 * two can be told apart. Nobody waits for a lock, but whoever makes a file waits a little for others to remove an old
 * one.
 */
#include "base/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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

bool lockfile_is(int fd)
{
    struct flock lock = lock_of(HOLDS);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_len == 0;
}

enum answer { TAKEN, OTHERS, NO_LOCKS };

static enum answer take(int fd, enum way way)
{
    struct flock lock = lock_of(way);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return TAKEN;
    return errno == EAGAIN || errno == EACCES ? OTHERS : NO_LOCKS;
}

/* Whether it is a file of this user. */
static bool is_mine(int fd)
{
    struct stat opened;
    return fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid();
}

/* Whether the name leads to the open file. */
static bool is_at(int fd, const char *path)
{
    struct stat opened, there;
    return fstat(fd, &opened) == 0 && lstat(path, &there) == 0 && opened.st_dev == there.st_dev &&
           opened.st_ino == there.st_ino;
}

/* As lockfile_remove; *is_busy: somebody else removes it now, or has done so. */
static bool remove_file(const char *path, bool *is_busy)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_removed = false;
    *is_busy = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return false;
    if (take(fd, REMOVES) == OTHERS)
        *is_busy = !lockfile_is(fd);
    else if (is_mine(fd) && is_at(fd, path))
        is_removed = unlink(path) == 0;
    else
        *is_busy = is_mine(fd); /* it was removed since it was opened */
    close(fd);
    return is_removed;
}

bool lockfile_remove(const char *path)
{
    bool is_busy;
    return remove_file(path, &is_busy);
}

/* A file that this process has just made is its own, even if the file system names another owner. */
static int make(const char *path, bool needs_locks)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    do {
        bool is_busy = true;
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
        const enum answer answer = fd >= 0 ? take(fd, HOLDS) : OTHERS;
        const int error = errno;
        if (answer == NO_LOCKS && needs_locks && is_at(fd, path)) {
            unlink(path);
            close(fd);
            errno = error;
            return -1;
        }
        if (answer != OTHERS && is_at(fd, path))
            return fd;
        if (fd >= 0)
            close(fd); /* another one removes it, since nobody held it yet */
        else if (remove_file(path, &is_busy))
            continue;
        if (!is_busy)
            break;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    } while (clock_now_ns() < until);
    errno = EEXIST;
    return -1;
}

int lockfile_make(const char *path)
{
    return make(path, true);
}

int lockfile_make_anyway(const char *path)
{
    return make(path, false);
}

void lockfile_drop(int fd)
{
    struct flock lock = lock_of(HOLDS);
    lock.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &lock);
    close(fd);
}

const char *lockfile_why(const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0)
        return strerror(errno);
    if (S_ISLNK(there.st_mode))
        return "that is a link, and links are not followed";
    if (!S_ISREG(there.st_mode))
        return "that is no regular file";
    if (there.st_uid != geteuid())
        return "that is another user's file";
    return access(path, R_OK | W_OK) == 0 ? "another context is writing it" : strerror(errno);
}
