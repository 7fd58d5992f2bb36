/* SPDX-License-Identifier: BSD-3-Clause */
/* with_fabric: what the tests that use the mpi room by its fabric share. */
#ifndef BATON_TESTS_WITH_FABRIC_H
#define BATON_TESTS_WITH_FABRIC_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "harness.h"
#include "mpi/fabric.h"
#include "mpi/windows.h"

#define META_BYTES 65536u
#define POOL_BYTES (UINT64_C(3) << 20)
#define EVENTS 16
#define PATIENCE_NS (UINT64_C(20000) * CLOCK_NS_PER_MS)

static struct settings settings;
static struct logger logger;

static inline uint32_t me(void)
{
    return (uint32_t)harness.rank;
}

static inline struct fabric *opened(void)
{
    struct fabric *f = NULL;
    if (!CHECK_EQ(fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, 0, &f), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
    return f;
}

static inline int start_with(struct fabric *f, uint64_t meta_bytes, uint64_t pool_bytes, uint64_t memory_limit)
{
    return f->calls.start(f, &(const struct world_segment){meta_bytes, pool_bytes, memory_limit, NULL, NULL});
}

static inline struct fabric *started(void)
{
    struct fabric *f = opened();
    int error = start_with(f, META_BYTES, POOL_BYTES, 0);
    if (error == 0)
        error = f->calls.selftest(f, 0, 0);
    if (!CHECK_EQ(error, 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return f;
}

static inline uint8_t *pool_of(const struct fabric *f)
{
    return f->ground.segment + f->ground.pool_offset;
}

/* Who owns a segment, in its first page: the process's id, and the namespace of such ids (mpi/windows.c). */
static inline uint64_t *owner_of(const struct fabric *f)
{
    return (uint64_t *)(f->ground.segment + WINDOWS_PROCESS_OFFSET);
}

/* A rank on another node, or this rank where there is none. Where nodes are equal, each rank has one reader at most. */
static inline uint32_t far_peer(const struct fabric *f)
{
    for (uint32_t i = 0; i < f->ground.num_peers; i++) {
        uint32_t r = (me() + f->ground.num_peers / 2 + i) % f->ground.num_peers;
        if (f->world.node_of[r] != f->world.node_of[me()])
            return r;
    }
    return me();
}

static inline uint8_t byte_at(uint32_t rank, uint64_t offset)
{
    return (uint8_t)((offset * UINT64_C(0x9e3779b97f4a7c15) + rank * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 56);
}

static inline void fill_pool(const struct fabric *f)
{
    for (uint64_t i = 0; i < POOL_BYTES; i++)
        pool_of(f)[i] = byte_at(me(), i);
}

/* Waits for all ranks, and answers them meanwhile. Counts the events that come, and drops them. */
static inline int meet(struct fabric *f)
{
    struct port_event events[EVENTS];
    MPI_Request all;
    int done = 0, strays = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!done) {
        int n = f->net.path.progress(f, events, EVENTS);
        if (!CHECK(n >= 0))
            break;
        strays += n;
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    }
    return strays;
}

/* What baton_describe says of the fabric. */
static inline void describe(const struct fabric *f, struct textbuf *out)
{
    f->calls.describe(f, out);
    f->net.describe(f, out);
}

/* The next event; zeroed if none comes in time. */
static inline struct port_event next_event(struct fabric *f)
{
    struct port_event e = {0};
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    while (f->net.path.progress(f, &e, 1) == 0 && clock_now_ns() < deadline)
        ;
    return e;
}

static inline void closed(struct fabric *f)
{
    CHECK_EQ(meet(f), 0);
    CHECK_EQ(f->calls.close(f, 0), 0);
}

/** Begins the program: harness, settings, logger. */
static inline void fabric_tests_begin(int *argc, char ***argv)
{
    harness_begin(argc, argv);
    if (settings_read(&settings, environ) != 0) {
        fprintf(stderr, "%s\n", baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    logger = (struct logger){.level = (enum log_level)settings.log, .rank = harness.rank};
}

#endif
