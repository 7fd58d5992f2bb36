/* SPDX-License-Identifier: BSD-3-Clause */
/* scatter: scattered block ids (walks), and how fast scattered runs are copied from one pool into another (copies). */
#ifndef BENCH_SCATTER_H
#define BENCH_SCATTER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "plan/plan.h"

/* ---- walks ------------------------------------------------------------------------------------------------------- */

/*
 * A walk is one random order of all ids of a cache, and each draw takes the next ids of it. So every draw is scattered
 * and has no id twice, and a block comes again only after all others. If the cache is several times the processor's, no
 * draw finds its blocks there. A draw is a function of seed and place: both ends of a transfer compute it, and no table
 * has to be sent.
 */
struct walk {
    uint32_t num_blocks;
    uint32_t *order;
};

/** Fails without memory. *seed goes on to that of the next walk. */
void walk_init(struct walk *w, uint32_t num_blocks, uint64_t *seed);
void walk_fini(struct walk *w);

/** `count` (at most num_blocks) ids from place `start` of the walk on; start may be any number. */
void walk_draw(const struct walk *w, uint64_t start, uint32_t count, uint32_t *out);

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/*
 * From a pool that is mapped here by the C library's memcpy or by streaming stores; from a process's own memory by
 * process_vm_readv(2), up to 1,024 runs a call. By the caller alone, or each thread of a crew does a part: all of them
 * are awake when the clock starts.
 */
struct crew {
    unsigned num; /* the caller too; 0: none was started */
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t round; /* under the lock; changes when work begins */
    bool ends;      /* under the lock */
    atomic_uint next, awake, done;
    atomic_bool go;
};

struct copies {
    const char *source;
    char *target;
    int process;           /* whose memory the source is; 0: it is mapped here */
    struct plan_run *runs; /* the caller fills them in */
    struct iovec *mine, *theirs;
    struct crew crew;
    unsigned way;
    uint32_t count; /* runs of the measurement under way */
};

/**
 * For `most` runs at a time. Maps every page of the source's `bytes` into this process, so that no measurement pays for
 * page faults, unless they are of another `process`. Fails without memory.
 */
void copies_init(struct copies *c, const char *source, int process, uint64_t bytes, char *target, uint32_t most);
/** Starts a crew of as many threads as Baton has copy workers (BATON_COPY_WORKERS). */
void copies_share(struct copies *c);
/** Of zeroed ones too. */
void copies_fini(struct copies *c);

/** How many ways there are, and what one is called. */
unsigned copies_ways(const struct copies *c);
const char *copies_way_name(const struct copies *c, unsigned way);

/** Copies the first `count` runs: the nanoseconds. */
uint64_t copies_run(struct copies *c, unsigned way, uint32_t count);

#endif
