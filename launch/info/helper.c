/* SPDX-License-Identifier: BSD-3-Clause */
/* helper: see helper.h. */
#include "info/helper.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "info/line.h"
#include "batonrun/program.h"

#define SECOND_NS UINT64_C(1000000000)
#define GRACE_NS (12 * SECOND_NS) /* from TERM to KILL: batonrun takes 10 s at most */

/* ---- what it prints ---------------------------------------------------------------------------------------------- */

struct listener {
    struct helper *helper;
    struct line_reader reader;
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

/* ---- the program ------------------------------------------------------------------------------------------------- */

void helper_run(struct helper *h, char *const argv[], char *const envp[], unsigned deadline_s)
{
    struct listener l = {.helper = h};
    const struct program_way way = {.argv = argv,
                                    .envp = envp,
                                    .hears_output = true,
                                    .last_signal = SIGTERM,
                                    .patience_ns = deadline_s * SECOND_NS,
                                    .grace_ns = GRACE_NS,
                                    .take = take_line,
                                    .arg = &l};
    struct child program;
    *h = (struct helper){.status = 127};
    child_hold(&program);
    const struct program_end end = program_hear(&way, &program);
    child_release(&program);
    info_take(&h->info, &l.reader.info);
    info_fini(&l.reader.info);
    h->is_whole = l.reader.is_whole;
    h->is_late = end.is_late;
    if (end.error != 0)
        snprintf(h->said, sizeof h->said, "%s: %s\n", argv[0], strerror(end.error));
    else
        h->status = end.status;
    if (end.is_left)
        info_problem(&h->info, "a process that baton-info started has not ended 5 s after SIGKILL",
                     "find it (ps -eo pid,stat,wchan:32,args); in state D it waits for a driver or a file system that "
                     "does not answer",
                     NULL);
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
    const ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    char *end = slash != NULL ? slash + 1 : path;
    snprintf(end, size - (size_t)(end - path), "%s", name); /* one that is cut is not found, and the page says so */
}

bool helper_ask(struct info *i, const char *name, const char *argument, unsigned deadline_s, const char *what,
                const char *remedy)
{
    char path[PATH_MAX];
    struct helper h;
    helper_path(name, path, sizeof path);
    helper_run(&h, (char *const[]){path, (char *)(uintptr_t)argument, NULL}, environ, deadline_s);
    info_take(i, &h.info);
    info_fini(&h.info);
    if (h.status == 0 && h.is_whole)
        return true;
    helper_blame(&h, i, what, remedy);
    return false;
}
