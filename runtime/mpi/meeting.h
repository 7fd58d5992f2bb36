/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting: a barrier of all ranks that does not block, and that some ranks may come to much later, or never. Each rank
 * tells rank 0 that it is there, and rank 0 tells all once they are. It is no step (steps.h), so a rank that stops
 * waiting may take steps with the others.
 *
 * One thread at a time.
 */
#ifndef BATON_MPI_MEETING_H
#define BATON_MPI_MEETING_H

#include "mpi/steps.h"

struct meeting {
    bool has_begun;
    bool *came; /* rank 0: by rank */
    int num_came;
    MPI_Request *sends; /* rank 0: by rank; others: one */
};

/**
 * 0 when every rank has called it, BATON_EAGAIN before; call it until then. With `late`, BATON_ETIMEDOUT instead of
 * BATON_EAGAIN, and rank 0 names those that did not come. *m zeroed before the first call.
 */
int meeting_wait(struct meeting *m, const struct steps *s, const char *what, bool late);
/** Frees what is MPI's no more. */
void meeting_fini(struct meeting *m, const struct steps *s);

#endif
