/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closing: how a context comes to rest, and when it stops waiting for that.
 *
 * All transfers end, then this rank goes on to answer the others until every rank is quiet. Once a rank is known to be
 * lost, or nothing is left but calls that were given up, there is little to wait for: two more seconds.
 *
 * The thread that makes turns; after its end, the closing thread.
 */
#ifndef BATON_FRONT_CLOSING_H
#define BATON_FRONT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

struct baton;

struct closing {
    bool begun;
    uint64_t until_ns;    /* waits no longer */
    int64_t loss;         /* the rank without which it closes; -1: none */
    uint64_t loss_ns;     /* when a loss was first known */
    bool leave_failed;    /* MPI did, towards rank 0 */
    bool waits_for_quiet; /* of calls that were given up, and for nothing else */
    bool lost;            /* a rank, or the control channel */
};

void closing_init(struct closing *c);

/** Ends everything. Turns go on. */
void closing_begin(struct baton *b, uint64_t now);

/** After a turn: 0: this rank may stop; BATON_EAGAIN: it must go on; BATON_EPEER: it does not come to rest, and stops. */
int closing_step(struct baton *b, uint64_t now);

static inline bool closing_has_begun(const struct closing *c)
{
    return c->begun;
}

/** After the last step: a rank or the control channel is lost, so that no collective may follow. */
static inline bool closing_is_alone(const struct closing *c)
{
    return c->lost;
}

/** How much of the time that it may take is left, in ms. */
uint64_t closing_left_ms(const struct closing *c, uint64_t now);

#endif
