/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting: a barrier of all ranks that does not block. Some ranks may come much later, or never. Each rank tells rank 0
 * that it has come, or that it closes instead. Rank 0 alone decides the outcome:
 *
 *   all have come
 *   a rank closes, or the process of a rank on rank 0's node has ended: decided at once
 *   some have not come BATON_WRAP_MS after the first rank: the end of a rank on another node is noticed in this way
 *
 * It tells all ranks, also those that have not come, so the outcome is the same on all. A meeting is no step (steps.h):
 * ranks that wait in it may still take steps together.
 *
 * One thread at a time, but meeting_missing any.
 */
#ifndef BATON_MPI_MEETING_H
#define BATON_MPI_MEETING_H

#include <stdatomic.h>

#include "base/process.h"
#include "mpi/steps.h"

struct meeting_word;

struct meeting {
    uint64_t since_ns;             /* when this rank came; at rank 0, when the first one did. 0: not yet */
    uint64_t decided_ns;           /* when this rank knew the outcome. 0: not yet */
    struct meeting_word *word;     /* the outcome; at rank 0, MPI's while `sends` are open */
    struct meeting_word *farewell; /* others: that this rank closes. MPI's while `sends` are open */
    atomic_bool *came;             /* rank 0: by rank */
    int num_came;
    bool is_late;              /* rank 0 has said who is missing */
    struct process *processes; /* rank 0: by rank, those of its node; others: rank 0's */
    uint64_t looked_ns;        /* when it was last seen that these live */
    MPI_Request *sends;        /* rank 0: by rank; others: that this rank is here, and that it closes */
};

/** *m zeroed before. Local: 0 or BATON_ENOMEM. */
int meeting_init(struct meeting *m, const struct steps *s);
/** The process that `rank` is, on this node; 0: not known. After meeting_init. */
void meeting_watch(struct meeting *m, const struct steps *s, int rank, int process);

/**
 * 0: every rank is here. BATON_EAGAIN: not yet; call it until then, also while this rank is not here. BATON_ETIMEDOUT,
 * on all ranks: some did not come in time, and the sentence names them. BATON_ECLOSED, on all ranks: one of them
 * closes, and the sentence is its own (meeting_close). BATON_EPEER, on all ranks: the process of a rank on rank 0's
 * node has ended; where it is rank 0's own, on the ranks of its node. If rank 0 itself is silent, the others give up
 * with BATON_ETIMEDOUT, each for itself, BATON_START_MS later.
 */
int meeting_wait(struct meeting *m, const struct steps *s, const char *what, bool is_here);
/**
 * This rank closes, and will not come or stay: the calling thread's error sentence names it. All ranks hear so at once,
 * unless they have decided before. The outcome is returned as meeting_wait does, or BATON_ETIMEDOUT: rank 0 did not
 * answer until `until_ns`. After it, meeting_wait is not called.
 */
int meeting_close(struct meeting *m, const struct steps *s, const char *what, uint64_t until_ns);
/** At rank 0: "missing: ", and the ranks that have not come. Elsewhere empty. */
void meeting_missing(const struct meeting *m, const struct steps *s, char *text, size_t size);
/** Where the ranks close: frees what is MPI's no more. */
void meeting_fini(struct meeting *m, const struct steps *s);

#endif
