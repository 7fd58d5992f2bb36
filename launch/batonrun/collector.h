/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collector: reads the metrics of a job's ranks on one host once a second and writes them to a file that Prometheus
 * reads (--metrics). It never waits for a rank. The file is replaced in one step, so a reader finds a whole one, and it
 * stays when the job has ended: its last counts are the job's.
 *
 * Or it answers at an endpoint (metrics/endpoint.h), on batonrun's host alone, by what the pages say at that moment.
 *
 * On batonrun's host a thread of batonrun does it. On another host a thread of a shim does: of the first that claims
 * the pages there. When its rank ends, another one takes its place. A file system that has gone holds up these threads
 * alone.
 */
#ifndef BATON_LAUNCH_COLLECTOR_H
#define BATON_LAUNCH_COLLECTOR_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"
#include "metrics/pages.h"
#include "metrics/server.h"

struct collector {
    char file[PATH_MAX]; /* empty: nothing is written */
    bool answers;        /* at an endpoint; where it does not, and there is no file, nothing is told */
    const char *job;     /* outlives it */
    struct pages pages;
    int claim; /* -1: another process collects on this host */
    bool is_running, complained;
    pthread_t thread;
    struct latch end, ended;
    struct server server;
};

/* ---- batonrun's -------------------------------------------------------------------------------------------------- */

/** Before the ranks are started. `file`: or an endpoint; NULL: none. 0, or an errno: it cannot be used. */
int collector_open(struct collector *c, const char *file, const char *job);
/** Makes the thread; where that fails, the file is written in the end alone. */
void collector_start(struct collector *c);
/** Once all ranks have ended: reads and writes a last time, and removes the ranks' pages. */
void collector_close(struct collector *c);

/* ---- a shim's ---------------------------------------------------------------------------------------------------- */

/**
 * `file`: batonrun's; this host has its own name in it, "job.prom" is "job.n1.prom", since hosts may share a folder.
 * NULL: none.
 */
void collector_join(struct collector *c, const char *file, const char *job);
/** Once a second: begins to write the file if no other process of this host does. Never waits for the file. */
void collector_step(struct collector *c);
/** The shim's rank has ended: a last time, for this shim. The pages of a job go with its last rank on this host. */
void collector_leave(struct collector *c);

#endif
