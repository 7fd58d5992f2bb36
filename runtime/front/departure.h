/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * departure: how a context leaves a world of MPI. All ranks do so together, since windows can be freed only by all. It
 * is the second part of closing; by the first (closing.h) this rank comes to rest.
 *
 * Then this rank goes on to answer the others until every rank is at rest. It waits for BATON_CLOSE_MS at most; and for
 * two more seconds at most, once a rank is known to be lost. Both parts are bounded by this: a rank may be lost from
 * the beginning of closing on, and then transfers with it may never come to rest.
 *
 * Called by closing.c alone, and by its threads.
 */
#ifndef BATON_FRONT_DEPARTURE_H
#define BATON_FRONT_DEPARTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "front/snapshot.h"

struct baton;

struct departure {
    uint64_t until_ns;      /* when this rank stops waiting */
    int64_t loss;           /* the rank without which it leaves; -1: none */
    uint64_t loss_ns;       /* when a loss was first known */
    bool leave_failed;      /* MPI failed as this rank told rank 0 that it is at rest */
    bool is_lost;           /* a rank or the control channel is lost: no collective may follow */
    char why[SNAPSHOT_WHY]; /* what is known of that, for the sentence of baton_close */
};

/** Takes back what MPI_Finalize would call (core/world.h). */
void departure_prepare(struct baton *b);

/** Closing begins: from now on this rank finds out who is lost. */
void departure_begin(struct baton *b, uint64_t now);
/** After each turn: what is lost by now. Returns when this rank stops waiting for its own rest. */
uint64_t departure_look(struct baton *b, uint64_t now);
/** After that, and at rest. 0: this rank may stop; else BATON_EAGAIN: it must go on. */
int departure_step(struct baton *b, uint64_t now);

/** See closing.h. This rank's part in agreements of start that are left is over now. */
int departure_check(struct baton *b, int rest);
int departure_end(struct baton *b, int local);

#endif
