/* SPDX-License-Identifier: BSD-3-Clause */
/* helper: see helper.h. */
#include "info/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "info/line.h"
#include "batonrun/child.h"
#include "batonrun/lines.h"

#define SECOND_NS UINT64_C(1000000000)
#define GRACE_NS (12 * SECOND_NS) /* from TERM to KILL: batonrun takes 10 s at most */
#define KILL_S 5                  /* a process that is still there after KILL waits in the kernel, perhaps for ever */

/* ---- what it prints ---------------------------------------------------------------------------------------------- */

struct listener {
    struct helper *helper;
    struct line_reader reader;
    struct lines lines;
};

/* Keeps the last lines as far as there is room, without what is of no use to a reader. */
static void keep(struct helper *h, const char *line)
{
    size_t used = strlen(h->said), more = strlen(line) + 1;
    if (line[strspn(line, "- ")] == '\0' || more > sizeof h->said / 2)
        return;
    while (used + more >= sizeof h->said) {
        size_t first = strcspn(h->said, "\n") + 1;
        memmove(h->said, h->said + first, used - first + 1);
        used -= first;
    }
    snprintf(h->said + used, sizeof h->said - used, "%s\n", line);
}

static void take_line(void *listener, char *line)
{
    struct listener *l = listener;
    if (line_rank(line) >= 0)
        line_take(&l->reader, line);
    else
        keep(l->helper, line);
}

/* Until the program and all that it started have closed the other end, or the deadline has passed. */
static bool listen_until(struct listener *l, int fd, uint64_t deadline)
{
    for (uint64_t now; (now = child_now_ns()) < deadline;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) > 0 && !lines_read(&l->lines, fd, take_line, l))
            return true;
    }
    return false;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* False: the program has not ended. */
static bool take_status(struct helper *h, pid_t pid)
{
    int raw = 0;
    pid_t ended = waitpid(pid, &raw, WNOHANG);
    if (ended == pid)
        h->status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    return ended == pid || (ended < 0 && errno != EINTR);
}

/* Ends the program and what it left behind, which became ours. */
static void kill_all(struct helper *h, pid_t pid)
{
    char what[128];
    uint64_t deadline = child_now_ns() + KILL_S * SECOND_NS;
    bool has_ended = false;
    kill(-pid, SIGKILL);
    for (; child_now_ns() < deadline; usleep(1000)) {
        has_ended = has_ended || take_status(h, pid);
        if (has_ended && child_none_left())
            return;
        child_signal_all(SIGKILL);
    }
    h->is_late |= !has_ended;
    snprintf(what, sizeof what, "a process that baton-info started has not ended %d s after SIGKILL", KILL_S);
    info_problem(&h->info, what,
                 "find it (ps -eo pid,stat,wchan:32,args); in state D it waits for a driver or a file system that does "
                 "not answer",
                 NULL);
}

/* The pipe is closed as soon as all have ended, so a program that closes it early is waited for no longer. */
static void end(struct helper *h, struct listener *l, pid_t pid, int fd)
{
    if (h->is_late) {
        kill(pid, SIGTERM);
        if (!listen_until(l, fd, child_now_ns() + GRACE_NS))
            kill(-pid, SIGKILL);
    }
    kill_all(h, pid);
}

void helper_run(struct helper *h, char *const argv[], char *const envp[], unsigned deadline_s)
{
    struct listener l = {.helper = h};
    int ends[2];
    pid_t pid;
    *h = (struct helper){.status = 127};
    child_adopt();
    int error = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (error == 0) {
        error = child_spawn(&pid, argv, envp, ends[1]);
        close(ends[1]);
        if (error == 0) {
            h->is_late = !listen_until(&l, ends[0], child_now_ns() + deadline_s * SECOND_NS);
            end(h, &l, pid, ends[0]);
        }
        close(ends[0]);
    }
    lines_finish(&l.lines, take_line, &l);
    if (error != 0)
        snprintf(h->said, sizeof h->said, "%s: %s\n", argv[0], strerror(error));
    info_take(&h->info, &l.reader.info);
    info_fini(&l.reader.info);
    h->is_whole = l.reader.is_whole;
}

void helper_blame(const struct helper *h, struct info *i, const char *what, const char *remedy)
{
    char text[512];
    if (h->is_late)
        snprintf(text, sizeof text, "%s did not end in time", what);
    else if (h->status > 128)
        snprintf(text, sizeof text, "%s was ended by signal %d", what, h->status - 128);
    else
        snprintf(text, sizeof text, "%s ended with status %d", what, h->status);
    info_problem(i, text, remedy, h->said);
}

void helper_path(const char *name, char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    snprintf(path, size, "%s/%s", self, name);
}
