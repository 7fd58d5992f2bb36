/* SPDX-License-Identifier: BSD-3-Clause */
/* program: see program.h. */
#include "batonrun/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batonrun/child.h"

#define PATIENCE_NS (5 * (uint64_t)1000000000)

extern char **environ;

static int obstacle_of(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return errno;
    if (S_ISDIR(s.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

int program_obstacle(const char *name)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return obstacle_of(name);
    while (at != NULL && *at != '\0') {
        int length = (int)strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, at, name);
        if (obstacle_of(path) == 0)
            return 0;
        at += length + (at[length] == ':');
    }
    return ENOENT;
}

bool program_exists(const char *name)
{
    return program_obstacle(name) == 0;
}

static void read_text(int fd, char *text, size_t room)
{
    uint64_t end = child_now_ns() + PATIENCE_NS, now;
    size_t length = 0;
    while (length + 1 < room && (now = child_now_ns()) < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n =
            poll(&p, 1, (int)((end - now) / 1000000u) + 1) == 1 ? read(fd, text + length, room - 1 - length) : 0;
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    text[length] = '\0';
}

bool program_version(const char *name, char *text, size_t room)
{
    char *argv[] = {(char *)(uintptr_t)name, "--version", NULL};
    int ends[2], raw;
    pid_t pid;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool started = child_spawn(&pid, argv, environ, ends[1]) == 0;
    close(ends[1]);
    if (started) {
        read_text(ends[0], text, room);
        kill(-pid, SIGKILL);
        child_reap(pid, &raw);
    }
    close(ends[0]);
    return text[0] != '\0';
}
