/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet: what the ranks of the replay tell each other by MPI before and after the blocks move: who they are, whether one
 * of them has an error, and what they counted. Every wait has a deadline. If a rank does not come, the process ends,
 * since MPI cannot be finalised without that rank.
 */
#ifndef REPLAY_MEET_H
#define REPLAY_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "replay/roster.h"
#include "replay/tally.h"
#include "option/why.h"

struct meet {
    MPI_Comm comm;
    int rank, size;
    uint64_t deadline_ns; /* of all waits, on this rank's clock */
    baton_t *progress;    /* a context that needs the caller's thread, and so makes progress during waits. NULL: none */
    enum side side;       /* this rank's */
    uint32_t engine;      /* its number among the engines of that side */
    struct roster roster;
};

int meet_init(struct meet *m, MPI_Comm comm);
void meet_fini(struct meet *m);
void meet_deadline(struct meet *m, uint64_t ms);

/** Tells every rank's place to all, and numbers the engines of each side in order of rank. 0 or -1, on each rank. */
int meet_roster(struct meet *m, const baton_open_params_t *self, struct why *why);

/** Agrees on errors: 0 if rc is 0 on all ranks; else -1 on all, with the sentence of the lowest rank that has one. */
int meet_agree(struct meet *m, int rc, struct why *why);

void meet_barrier(struct meet *m);
/** A barrier, and the moment when all begin: one moment where all ranks have one clock, else about that. */
uint64_t meet_start_ns(struct meet *m);
/** Gives all ranks rank 0's number. */
void meet_tell(struct meet *m, int *number);
/** Adds all ranks' numbers; the sums replace rank 0's. */
void meet_sum(struct meet *m, uint64_t *numbers, size_t count);
void meet_sum_u32(struct meet *m, uint32_t *numbers, size_t count);
/** The largest of all ranks' numbers replace rank 0's. */
void meet_most(struct meet *m, uint64_t *numbers, size_t count);
/** Gathers all ranks' samples at rank 0 in *all (malloc). 0, or -1 if rank 0 has no memory. */
int meet_gather(struct meet *m, const struct tally_samples *mine, struct tally_samples *all);

/** Whether all ranks are on one machine, and so have one monotonic clock. */
bool meet_on_one_machine(struct meet *m);

/** The number of ranks of this node whose threads may run on exactly the same CPUs as this one's, with itself. */
int meet_cpu_sharers(struct meet *m);

#endif
