/* SPDX-License-Identifier: BSD-3-Clause */
/* listen: see listen.h. */
#include "batonrun/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batonrun/child.h"
#include "batonrun/hosts.h"
#include "batonrun/lines.h"

#define SLICE_MS 100
#define SECOND_NS UINT64_C(1000000000)
#define LEAVE_NS SECOND_NS     /* from the last answer to TERM */
#define END_NS (3 * SECOND_NS) /* from TERM to KILL, for the launcher and for what it leaves behind */

struct ear {
    const struct listener *listener;
    int signal; /* that asked this process to end; 0: none did */
    struct lines lines;
};

static void take_line(void *ear, char *line)
{
    const struct ear *e = ear;
    if (!e->listener->take(e->listener->arg, line))
        fprintf(stderr, "%s\n", line);
}

/* Until all have answered, the other end is closed, a signal asks this process to end, or the time is up. */
static void listen_to(struct ear *e, const struct child *launcher, int fd, uint64_t end)
{
    while (!e->listener->is_done(e->listener->arg) && child_now_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, SLICE_MS);
        if (p.revents != 0 && !lines_read(&e->lines, fd, take_line, e))
            break;
        int number = child_wait(launcher, 0);
        if (child_is_ending(number)) {
            e->signal = number;
            return;
        }
    }
    lines_finish(&e->lines, take_line, e);
}

/* It has nothing left to do once all have answered, and ends by itself. Told to end, Hydra would complain at length. */
static void end_launcher(struct ear *e, const struct child *launcher)
{
    int status;
    bool done = e->signal == 0 && e->listener->is_done(e->listener->arg), told = false;
    uint64_t term = child_now_ns() + (done ? LEAVE_NS : 0), end = term + END_NS;
    while (!child_ended(launcher, &status)) {
        uint64_t now = child_now_ns();
        if (!told && now >= term) {
            kill(launcher->pid, SIGTERM);
            told = true;
        }
        if (now > end + END_NS)
            return; /* not even a KILL ends it: it hangs in the kernel */
        if (now > end)
            kill(launcher->pid, SIGKILL);
        int number = child_wait(launcher, now + SLICE_MS * 1000000u);
        if (child_is_ending(number)) {
            e->signal = number;
            term = now;
        }
    }
    for (end = child_now_ns() + END_NS; !child_none_left() && child_now_ns() < end;) {
        child_signal_all(SIGKILL);
        child_wait(launcher, child_now_ns() + SLICE_MS * 1000000u);
    }
}

/* 0, or an errno: the command could not be run. */
static int run(struct ear *e, char **argv, uint64_t end)
{
    struct child launcher;
    int ends[2], nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), error = nothing < 0 ? errno : 0;
    if (error == 0 && pipe2(ends, O_CLOEXEC) != 0)
        error = errno;
    if (error != 0) {
        if (nothing >= 0)
            close(nothing);
        return error;
    }
    child_adopt();
    error = child_start(&launcher, argv, SIGTERM, nothing, ends[1]);
    close(nothing);
    close(ends[1]);
    if (error == 0) {
        listen_to(e, &launcher, ends[0], end);
        end_launcher(e, &launcher);
        child_release(&launcher);
    }
    close(ends[0]);
    return error;
}

int listen_run(const struct listener *l, const struct launcher *launcher, const struct launch *what,
               uint32_t patience_s, struct why *why)
{
    struct ear ear = {.listener = l};
    struct command c = {0};
    char path[HOSTS_PATH_BYTES];
    char *hosts = launcher_host_file(launcher, what);
    if (hosts != NULL && hosts_make_file(hosts, path) != 0) {
        free(hosts);
        return why_set(why, "the file of hosts cannot be written: %s", strerror(errno));
    }
    launcher_command(launcher, what, hosts != NULL ? path : NULL, &c);
    command_use_variables(&c);
    int error = run(&ear, c.argv, child_now_ns() + patience_s * SECOND_NS);
    if (hosts != NULL)
        unlink(path);
    free(hosts);
    if (ear.signal != 0)
        raise(ear.signal); /* as if it came now */
    int rc = error == 0 ? 0 : why_set(why, "%s cannot be run: %s", c.argv[0], strerror(error));
    command_fini(&c);
    return rc;
}
