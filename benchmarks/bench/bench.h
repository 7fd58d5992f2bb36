/* SPDX-License-Identifier: BSD-3-Clause */
/* bench: what one run of the program consists of. main owns it and hands it to the operation. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

#include "baton.h"
#include "bench/options.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/roster.h"

struct bench {
    struct options options;
    struct roster roster;
    struct pin pin;
    struct busy busy;
    struct watcher watcher;
    MPI_Comm world;         /* of the contexts that are opened */
    struct report report;   /* active on the consumer's rank */
    int prefill, decode;    /* the engines under measurement, by their place in the roster */
    int producer, consumer; /* their first ranks in the world */
    int status;             /* the exit status: 0, or 1 once something was wrong */
    bool lost;              /* a context closed without a peer: MPI must not be finalised */
};

static inline bool bench_is_producer(const struct bench *b)
{
    return b->roster.rank == b->producer;
}

static inline bool bench_is_consumer(const struct bench *b)
{
    return b->roster.rank == b->consumer;
}

/** "shm", "cma", "rma" or "staged", by which bytes come; "none": none have. */
static inline const char *bench_path_name(baton_path_t path)
{
    static const char *const names[BATON_PATHS] = {[BATON_PATH_NONE] = "none",
                                                   [BATON_PATH_SHM] = "shm",
                                                   [BATON_PATH_RMA] = "rma",
                                                   [BATON_PATH_CMA] = "cma",
                                                   [BATON_PATH_STAGED] = "staged"};
    return names[path];
}

/* The operations: each is collective over all ranks, and sets status where something is wrong. */
#define OPERATION_DECLARATION(op, word, run) void run(struct bench *b); /* the same function for several is no error */
OPERATIONS_MAP(OPERATION_DECLARATION)

#endif
