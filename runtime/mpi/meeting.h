/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting: a barrier of all ranks that does not block, and that some ranks may come to much later, or never. Each rank
 * tells rank 0 that it is there. Rank 0 alone decides: that all have come, or BATON_WRAP_MS after the first one that
 * they have not. It tells all ranks, also those that have not come, so that the outcome is one. A meeting is no step
 * (steps.h): ranks that wait for others may still take steps with them.
 *
 * One thread at a time.
 */
#ifndef BATON_MPI_MEETING_H
#define BATON_MPI_MEETING_H

#include "mpi/steps.h"

struct meeting_word;

struct meeting {
    uint64_t since_ns;         /* when this rank came; at rank 0, when the first one did. 0: not yet */
    bool is_decided;           /* rank 0 */
    struct meeting_word *word; /* MPI's while `sends` are open */
    bool *came;                /* rank 0: by rank */
    int num_came;
    MPI_Request *sends; /* rank 0: by rank; others: one */
};

/** *m zeroed before. Local: 0 or BATON_ENOMEM. */
int meeting_init(struct meeting *m, const struct steps *s);

/**
 * 0: every rank is here. BATON_EAGAIN: not yet; call it until then, also while this rank is not here. BATON_ETIMEDOUT,
 * on all ranks: some did not come in time, and the sentence names them. If rank 0 itself is silent, the others give up
 * with BATON_ETIMEDOUT, each for itself, BATON_START_MS later.
 */
int meeting_wait(struct meeting *m, const struct steps *s, const char *what, bool is_here);
/** Where the ranks close: frees what is MPI's no more. */
void meeting_fini(struct meeting *m, const struct steps *s);

#endif
