/* SPDX-License-Identifier: BSD-3-Clause */
/* probe: see probe.h. */
#include "launch/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/layout.h"
#include "launch/child.h"
#include "launch/hosts.h"
#include "launch/launcher.h"
#include "launch/node.h"

#define TAG "@baton-machine"
#define LINE_BYTES (MACHINE_TEXT_BYTES + 64)
#define SLICE_MS 100
#define PATIENCE_NS (60 * (uint64_t)1000000000)

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
    return write(STDERR_FILENO, line, (size_t)length) == length ? 0 : 1;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

struct asked {
    const struct allocation *allocation;
    struct machine *machines;
    uint32_t answers;
    int signal;       /* that asked this process to end; 0: none did */
    char reason[128]; /* of the first host that cannot say what it is */
    char line[LINE_BYTES];
    size_t length;
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

/* A line of another kind is the launcher's own, and is handed on. */
static void take_line(struct asked *a)
{
    int rank, at = 0;
    a->line[a->length] = '\0';
    if (sscanf(a->line, TAG " %d %n", &rank, &at) != 1 || at == 0) {
        if (a->length > 0)
            fprintf(stderr, "%s\n", a->line);
    } else if (rank >= 0 && (uint32_t)rank < a->allocation->num_hosts && a->machines[rank].num_cores == 0) {
        take_answer(a, (uint32_t)rank, a->line + at);
    }
    a->length = 0;
}

/* False: the other end is closed. */
static bool read_some(struct asked *a, int fd)
{
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] == '\n')
            take_line(a);
        else if (a->length + 1 < sizeof a->line)
            a->line[a->length++] = bytes[i];
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Until all have answered, the other end is closed, a signal asks this process to end, or the time is up. */
static void listen_to(struct asked *a, const struct child *launcher, int fd)
{
    uint64_t end = child_now_ns() + PATIENCE_NS;
    while (a->answers < a->allocation->num_hosts && child_now_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, SLICE_MS);
        if (p.revents != 0 && !read_some(a, fd))
            break;
        int number = child_wait(launcher, 0);
        if (child_is_ending(number)) {
            a->signal = number;
            return;
        }
    }
    take_line(a);
}

/* It has nothing left to do once all have answered. Nothing of it outlives this. */
static void end_launcher(struct asked *a, const struct child *launcher)
{
    int status;
    uint64_t end = child_now_ns() + 3000000000u;
    for (bool told = false; !child_ended(launcher, &status); told = true) {
        if (!told)
            kill(launcher->pid, SIGTERM);
        int number = child_wait(launcher, child_now_ns() + SLICE_MS * 1000000u);
        if (child_is_ending(number))
            a->signal = number;
        if (child_now_ns() > end)
            kill(launcher->pid, SIGKILL);
    }
    for (end = child_now_ns() + 3000000000u; !child_none_left() && child_now_ns() < end;) {
        child_signal_all(SIGKILL);
        child_wait(launcher, child_now_ns() + SLICE_MS * 1000000u);
    }
}

static int ask(struct asked *a, char **argv, struct why *why)
{
    struct child launcher;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return why_set(why, "the hosts cannot be asked: %s", strerror(errno));
    child_adopt();
    int error = child_start(&launcher, argv, SIGTERM, ends[1]);
    close(ends[1]);
    if (error == 0) {
        listen_to(a, &launcher, ends[0]);
        end_launcher(a, &launcher);
        child_release(&launcher);
    }
    close(ends[0]);
    if (error == 0 && a->signal != 0)
        raise(a->signal); /* as if it came now */
    return error == 0 ? 0 : why_set(why, "%s cannot be run: %s", argv[0], strerror(error));
}

/* ---- what came --------------------------------------------------------------------------------------------------- */

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
    return why_set(why, "%u of %u hosts did not say what they are, \"%.80s\" first%s", silent, a->num_hosts,
                   a->hosts[first].name, reason);
}

static int make_host_file(const struct launcher *l, const struct launch *what, char path[HOSTS_PATH_BYTES],
                          struct why *why)
{
    char *text = launcher_host_file(l, what);
    int rc = text != NULL ? hosts_make_file(text, path) : -1;
    free(text);
    return rc == 0 ? 0 : why_set(why, "the file of hosts cannot be written: %s", strerror(errno));
}

int probe_hosts(const struct allocation *allocation, const struct probe_way *way, struct machine *machines,
                struct why *why)
{
    char path[HOSTS_PATH_BYTES];
    struct command c = {0};
    const char **names = calloc((size_t)allocation->num_hosts + 1, sizeof *names);
    struct asked *a = calloc(1, sizeof *a);
    int rc = names != NULL && a != NULL ? 0 : why_set(why, "no memory for %u hosts", allocation->num_hosts);
    for (uint32_t i = 0; rc == 0 && i < allocation->num_hosts; i++)
        names[i] = allocation->hosts[i].name;
    char *shim[] = {(char *)(uintptr_t)way->self, PROBE_OPTION, NULL};
    struct launch what = {.ranks = allocation->num_hosts, .hosts = names, .words = way->words, .shim = shim};
    if (rc == 0)
        rc = make_host_file(way->launcher, &what, path, why);
    if (rc == 0) {
        launcher_command(way->launcher, &what, path, &c);
        command_use_variables(&c);
        a->allocation = allocation;
        a->machines = machines;
        rc = ask(a, c.argv, why);
        unlink(path);
    }
    if (rc == 0)
        rc = count_silent(allocation, machines, a->reason, why);
    command_fini(&c);
    free(names);
    free(a);
    return rc;
}
