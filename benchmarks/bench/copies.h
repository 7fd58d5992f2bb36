/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies: how fast scattered runs are copied from one pool into another, by one thread or by a crew, in turn by the C
 * library's memcpy and by streaming stores; the better of the two medians is the limit.
 */
#ifndef BENCH_COPIES_H
#define BENCH_COPIES_H

#include "bench/samples.h"
#include "bench/crew.h"
#include "plan/plan.h"

struct copies {
    const char *source;
    char *target;
    struct plan_run *runs; /* room for so many as copies_init was told: the caller fills them in */
    struct samples way[2]; /* memcpy, streaming */
    uint64_t turns;
    uint32_t count; /* runs of the measurement under way */
};

/** Maps every page of the source into this process, so that no measurement pays for page faults. 0, or -1: no
 * memory. */
int copies_init(struct copies *c, const char *source, uint64_t bytes, char *target, uint32_t room);
void copies_fini(struct copies *c);

/** Forgets the samples. */
void copies_reset(struct copies *c);
/** Copies the first `count` runs, by the way whose turn it is; NULL: alone. 0, or -1: no memory for the sample. */
int copies_measure(struct copies *c, struct crew *crew, uint32_t count);
/** The better way's median; 0 without samples. *way names that way. */
uint64_t copies_best_ns(struct copies *c, const char **way);

#endif
