/* SPDX-License-Identifier: BSD-3-Clause */
/* probe: see probe.h. */
#include "batonrun/probe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/layout.h"
#include "batonrun/descriptor.h"
#include "batonrun/listen.h"
#include "batonrun/node.h"

#define TAG "@baton-machine"
#define LINE_BYTES (MACHINE_TEXT_BYTES + 64)
/* How long hosts have to answer. That this is enough for large trees of daemons is assumed. */
#define PATIENCE_S(hosts) (60 + (hosts) / 10)

int probe_main(void)
{
    char text[MACHINE_TEXT_BYTES], line[LINE_BYTES];
    struct machine m;
    struct profile_facts facts = {0};
    struct why why;
    int rc = machine_read(&m, MACHINE_HERE, NULL, &why);
    _Static_assert(sizeof m.facts == NODE_TEXT_BYTES, "the facts of a node");
    node_look("", BATON_MPI_PLUGINS, &facts);
    node_write(&facts, m.facts);
    if (rc == 0 && !machine_write(&m, text))
        rc = why_set(&why, "its description is too long");
    machine_fini(&m);
    /* One write, which nothing comes in between. */
    int length = snprintf(line, sizeof line, "\n" TAG " %d %s%s\n", layout_world_rank(getenv), rc == 0 ? "" : "!",
                          rc == 0 ? text : why.text);
    return descriptor_write(STDERR_FILENO, line, (size_t)length) == 0 ? 0 : 1;
}

/* ---- what came --------------------------------------------------------------------------------------------------- */

struct asked {
    const struct allocation *allocation;
    struct machine *machines;
    uint32_t answers;
    char reason[128]; /* of the first host that cannot say what it is */
};

static void take_answer(struct asked *a, uint32_t host, const char *text)
{
    struct machine m;
    struct why why;
    a->answers++;
    if (text[0] == '!' && a->reason[0] == '\0')
        snprintf(a->reason, sizeof a->reason, ": %.100s", text + 1);
    if (machine_parse(&m, text, &why) == 0)
        a->machines[host] = m;
    else
        machine_fini(&m);
}

static bool take_line(void *asked, char *line)
{
    struct asked *a = asked;
    int rank, at = 0;
    if (sscanf(line, TAG " %d %n", &rank, &at) != 1 || at == 0)
        return false;
    if (rank >= 0 && (uint32_t)rank < a->allocation->num_hosts && a->machines[rank].num_cores == 0)
        take_answer(a, (uint32_t)rank, line + at);
    return true;
}

static bool have_all_answered(const void *asked)
{
    const struct asked *a = asked;
    return a->answers >= a->allocation->num_hosts;
}

/* The launcher gives up all hosts where one cannot be reached. */
static const char one_at_a_time[] =
    "; check the hosts one at a time (--host NAME --check), and leave out those that cannot be reached";

static int count_silent(const struct allocation *a, const struct machine *machines, const char *reason, struct why *why)
{
    uint32_t silent = 0, first = 0;
    for (uint32_t i = a->num_hosts; i-- > 0;)
        if (machines[i].num_cores == 0) {
            silent++;
            first = i;
        }
    if (silent == 0)
        return 0;
    return why_set(why, "%u of %u hosts did not say what they are, \"%.80s\" first%s%s", silent, a->num_hosts,
                   a->hosts[first].name, reason, a->num_hosts > 1 ? one_at_a_time : "");
}

int probe_hosts(const struct allocation *allocation, const struct probe_way *way, struct machine *machines,
                struct why *why)
{
    struct launch_host *hosts = calloc((size_t)allocation->num_hosts + 1, sizeof *hosts);
    struct asked a = {.allocation = allocation, .machines = machines};
    if (hosts == NULL)
        return why_set(why, "no memory for %u hosts", allocation->num_hosts);
    for (uint32_t i = 0; i < allocation->num_hosts; i++)
        hosts[i] = (struct launch_host){allocation->hosts[i].name, allocation->hosts[i].group};
    char *shim[] = {(char *)(uintptr_t)way->self, PROBE_OPTION, NULL};
    const struct launch what = {.ranks = allocation->num_hosts, .hosts = hosts, .words = way->words, .shim = shim};
    const struct listener listener = {take_line, have_all_answered, &a};
    int rc = listen_run(&listener, way->launcher, &what, PATIENCE_S(what.ranks), why);
    free(hosts);
    return rc == 0 ? count_silent(allocation, machines, a.reason, why) : -1;
}
