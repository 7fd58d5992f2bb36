/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closing: how a context comes to rest, and when it stops waiting for that.
 *
 * All transfers end, then this rank goes on to answer the others until every rank is quiet. It waits for
 * BATON_CLOSE_MS at most; and for two more seconds at most, once a rank is known to be lost. For calls that were given
 * up, once no others are left, it waits two more seconds at most, and then for the other ranks as always.
 *
 * Only the thread that makes turns touches this; after its end, the thread that closes the context.
 */
#ifndef BATON_FRONT_CLOSING_H
#define BATON_FRONT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

struct baton;

struct closing {
    bool begun;
    uint64_t until_ns;    /* when it stops waiting */
    uint64_t given_up_ns; /* when it stops waiting for calls that were given up */
    int64_t loss;         /* the rank without which it closes; -1: none */
    uint64_t loss_ns;     /* when a loss was first known */
    bool leave_failed;    /* MPI failed as this rank told rank 0 that it is quiet */
    bool lost;            /* a rank or the control channel is lost */
};

void closing_init(struct closing *c);

/** Ends all transfers. Turns go on. */
void closing_begin(struct baton *b, uint64_t now);

/** After each turn. 0: this rank may stop. BATON_EAGAIN: it must go on. BATON_EPEER: it stops without being quiet. */
int closing_step(struct baton *b, uint64_t now);

static inline bool closing_has_begun(const struct closing *c)
{
    return c->begun;
}

/** After the last step: whether a rank or the control channel is lost. Then no collective may follow. */
static inline bool closing_is_alone(const struct closing *c)
{
    return c->lost;
}

/** How long closing may still take. */
uint64_t closing_left_ms(const struct closing *c, uint64_t now);

#endif
