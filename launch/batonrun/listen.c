/* SPDX-License-Identifier: BSD-3-Clause */
/* listen: see listen.h. */
#include "batonrun/listen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batonrun/complain.h"
#include "batonrun/hosts.h"
#include "batonrun/program.h"

#define SECOND_NS UINT64_C(1000000000)
#define GRACE_NS (3 * SECOND_NS) /* for the launcher to end its processes on all hosts */

static void take_line(void *listener, char *line)
{
    const struct listener *l = listener;
    if (!l->take(l->arg, line))
        fprintf(stderr, "%s\n", line);
}

static bool is_done(const void *listener)
{
    const struct listener *l = listener;
    return l->is_done(l->arg);
}

int listen_run(const struct listener *l, const struct launcher *launcher, const struct launch *what,
               uint32_t patience_s, struct why *why)
{
    struct listener own = *l;
    struct command c = {0};
    struct child program;
    char path[HOSTS_PATH_BYTES];
    char *hosts = launcher_host_file(launcher, what);
    child_hold(&program); /* from here on no signal ends this process before the file is gone */
    if (hosts != NULL && hosts_make_file(hosts, path) != 0) {
        why_set(why, "the file of hosts cannot be written: %s", strerror(errno));
        free(hosts);
        child_release(&program);
        return -1;
    }
    launcher_command(launcher, what, hosts != NULL ? path : NULL, &c);
    command_use_variables(&c);
    const struct program_way way = {.argv = c.argv,
                                    .last_signal = SIGTERM,
                                    .patience_ns = patience_s * SECOND_NS,
                                    .grace_ns = GRACE_NS,
                                    .take = take_line,
                                    .is_done = is_done,
                                    .arg = &own};
    const struct program_end end = program_hear(&way, &program);
    if (hosts != NULL)
        unlink(path);
    free(hosts);
    child_release(&program);
    if (end.is_left)
        complain(0, "some processes of %s could not be ended", c.argv[0]);
    int rc = end.error == 0 ? 0 : why_set(why, "%s cannot be run: %s", c.argv[0], strerror(end.error));
    command_fini(&c);
    return rc;
}
