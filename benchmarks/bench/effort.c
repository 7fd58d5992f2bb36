/* SPDX-License-Identifier: BSD-3-Clause */
/* effort: see effort.h. A thread's files in /proc/self/task are described in proc(5). */
#include "bench/effort.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench/fail.h"

/* Calls take(line, arg) with each line of a thread's file. A thread that has ended has none. */
static void each_line(const char *thread, const char *name, void (*take)(const char *line, void *arg), void *arg)
{
    char path[320], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, name);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        take(line, arg);
    if (file != NULL)
        fclose(file);
}

static void take_name(const char *line, void *arg)
{
    *(bool *)arg = strncmp(line, "baton-", 6) == 0;
}

static void take_time(const char *line, void *arg)
{
    struct effort *out = arg;
    uint64_t ns;
    if (sscanf(line, "%" SCNu64, &ns) == 1)
        out->cpu_ns += ns;
}

/* A thread that gives up its processor of its own will sleep. */
static void take_switches(const char *line, void *arg)
{
    struct effort *out = arg;
    uint64_t switches;
    if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &switches) == 1)
        out->wakeups += switches;
}

void effort_read(struct effort *out)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    if (threads == NULL)
        fail("cannot read /proc/self/task");
    *out = (struct effort){0};
    while ((entry = readdir(threads)) != NULL) {
        bool is_batons = false;
        each_line(entry->d_name, "comm", take_name, &is_batons);
        if (!is_batons)
            continue;
        each_line(entry->d_name, "schedstat", take_time, out);
        each_line(entry->d_name, "status", take_switches, out);
    }
    closedir(threads);
}
