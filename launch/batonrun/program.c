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

#include "base/clock.h"

#define SECOND_NS UINT64_C(1000000000)
#define SLICE_MS 100
#define LEAVE_NS SECOND_NS /* for a program that has said all to end by itself */
#define VERSION_NS (5 * SECOND_NS)

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
    char path[PATH_MAX], usual[PATH_MAX] = "";
    const char *at = getenv("PATH");
    int obstacle = ENOENT;
    if (strchr(name, '/') != NULL)
        return obstacle_of(name);
    if (at == NULL && confstr(_CS_PATH, usual, sizeof usual) > 0)
        at = usual;
    for (bool more = at != NULL && name[0] != '\0'; more;) {
        const int length = (int)strcspn(at, ":");
        const int bytes = snprintf(path, sizeof path, "%.*s%s%s", length, at, length > 0 ? "/" : "", name);
        const int own = (size_t)bytes < sizeof path ? obstacle_of(path) : ENAMETOOLONG;
        if (own == 0)
            return 0;
        if (own == EACCES || own == EISDIR)
            obstacle = own;
        more = at[length] == ':';
        at += length + more;
    }
    return obstacle;
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

/* Why hearing a program ends. */
enum cause { CLOSED, DONE, LATE, ASKED };

struct ear {
    const struct program_way *way;
    struct child *program;
    int fd;
    struct lines lines;
};

/* `causes`: beside CLOSED and LATE, those that count, by their bits. */
static enum cause hear(struct ear *e, unsigned causes, uint64_t deadline)
{
    const struct program_way *way = e->way;
    for (;;) {
        struct pollfd p = {.fd = e->fd, .events = POLLIN};
        if ((causes & 1u << DONE) != 0 && way->is_done != NULL && way->is_done(way->arg))
            return DONE;
        if ((causes & 1u << ASKED) != 0 && e->program->asked != 0)
            return ASKED;
        uint64_t now = clock_now_ns();
        if (now >= deadline)
            return LATE;
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        if (poll(&p, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS) > 0 &&
            !lines_read(&e->lines, e->fd, way->take, way->arg))
            return CLOSED;
        int number = child_wait(e->program, 0);
        if (number == SIGUSR1 || number == SIGUSR2) /* what they mean is up to the ranks, and there are none yet */
            e->program->asked = number;
    }
}

/* Hydra would complain at length if it were told to end where it has nothing left to do, so it may end by itself. */
static void hear_to_the_end(struct ear *e, struct program_end *end)
{
    const struct program_way *way = e->way;
    enum cause cause = hear(e, 1u << DONE | 1u << ASKED, clock_now_ns() + way->patience_ns);
    end->is_late = cause == LATE;
    if (cause == DONE)
        cause = hear(e, 1u << ASKED, clock_now_ns() + LEAVE_NS);
    if (cause != CLOSED) {
        kill(e->program->pid, SIGTERM);
        hear(e, 0, clock_now_ns() + way->grace_ns);
    }
    end->is_left = !child_clear(e->program, 0, 0);
    end->is_late |= !e->program->has_ended;
    end->status = e->program->status;
    lines_finish(&e->lines, way->take, way->arg);
}

struct program_end program_hear(const struct program_way *way, struct child *program)
{
    struct ear e = {.way = way, .program = program};
    struct program_end end = {0};
    int ends[2], nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        end.error = errno;
        if (nothing >= 0)
            close(nothing);
        return end;
    }
    const struct child_way own = {.envp = way->envp,
                                  .input = nothing,
                                  .output = way->hears_output ? ends[1] : 0,
                                  .errors = ends[1],
                                  .last_signal = way->last_signal};
    e.fd = ends[0];
    end.error = child_start(program, way->argv, &own);
    close(nothing);
    close(ends[1]);
    if (end.error == 0)
        hear_to_the_end(&e, &end);
    close(ends[0]);
    return end;
}

/* ---- versions ---------------------------------------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t room;
};

static void add_line(void *arg, char *line)
{
    struct text *t = arg;
    size_t used = strlen(t->bytes);
    snprintf(t->bytes + used, t->room - used, "%s\n", line);
}

bool program_version(const char *name, char *text, size_t room)
{
    char *argv[] = {(char *)(uintptr_t)name, "--version", NULL};
    struct text t = {text, room};
    const struct program_way way = {.argv = argv,
                                    .hears_output = true,
                                    .last_signal = SIGKILL,
                                    .patience_ns = VERSION_NS,
                                    .take = add_line,
                                    .arg = &t};
    struct child program;
    text[0] = '\0';
    child_hold(&program);
    program_hear(&way, &program);
    child_release(&program);
    return text[0] != '\0';
}
