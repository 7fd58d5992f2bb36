/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay: a thread that hands on what the launcher writes to its standard error, and takes the ranks' reports out of it.
 * It wakes the main thread by SIGCHLD when a rank has failed, when every rank was told to end, and when every rank has
 * ended.
 */
#ifndef BATON_LAUNCH_RELAY_H
#define BATON_LAUNCH_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/latch.h"
#include "batonrun/child.h"
#include "batonrun/report.h"

struct relay {
    struct report_stream stream;
    int ends[2];         /* of the pipe: ours, the launcher's */
    atomic_int least;    /* an enum report_kind: every rank has reported this much, or more */
    atomic_bool failed;  /* some rank failed although nobody had told it to end */
    atomic_bool writing; /* it may be that nobody reads what is handed on */
    pthread_t thread;
    struct latch ended; /* the thread has handed on all */
};

/** 0 or an errno. `tag` and `reports` must outlive the relay. */
int relay_open(struct relay *r, const char *tag, struct report *reports, uint32_t ranks);

/** Call it once the launcher has its end of the pipe, in the thread that waits for it. 0 or an errno. */
int relay_start(struct relay *r);

/**
 * After the launcher has ended: hands on what is left. That takes a second at most where another process keeps the pipe
 * open, or as long as the reader of standard error needs; past `limit_ns`, or once this process was asked to end, a
 * second. Then the reports are the caller's.
 */
void relay_finish(struct relay *r, struct child *launcher, uint64_t limit_ns);

#endif
