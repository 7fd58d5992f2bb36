/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringing: whether the ranks of different nodes can wake each other (doorbell.h). They agree on it at start. A rank
 * whose rings are not answered later goes back to looking for messages by itself, and says so.
 */
#ifndef BATON_MPI_RINGING_H
#define BATON_MPI_RINGING_H

#include <stdbool.h>

#include "mpi/doorbell.h"
#include "mpi/world.h"

struct textbuf;

struct ringing {
    struct doorbell doorbell;
    bool listens;     /* ranks of other nodes ring this one, as far as they can be reached */
    char why_not[80]; /* if not: why */
    bool was_rung;    /* when that was last told */
};

/** See doorbell of core/world.h; *r zeroed before. doorbell_close ends it. */
int ringing_open(struct ringing *r, struct world *w, doorbell_rung_fn *rung, void *arg, const char *cpus);
/** Whether ranks of other nodes ring this one, and all that were rung have answered. */
bool ringing_is_rung(const struct ringing *r);
/** At the end of a turn: sends what it owes. */
void ringing_flush(struct ringing *r, const struct world *w);
/** A line of text, where there are several nodes. */
void ringing_describe(const struct ringing *r, const struct world *w, struct textbuf *p);

#endif
