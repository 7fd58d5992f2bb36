/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team: what the ranks of one engine do together, as a table of functions. The model and the serving loop call it;
 * mates.c fills it by MPI, a test by threads. All ranks of the engine make the same calls in the same order. A call
 * returns 0, or -1: a rank of the engine is lost, and none of these calls works any more.
 */
#ifndef ENGINE_TEAM_H
#define ENGINE_TEAM_H

#include <stdint.h>

#include "engine/shape.h"

struct team {
    struct seat seat;
    void *self;
    /** Adds the ranks' numbers within this pipeline stage. Not called with a TP of 1. */
    int (*sum)(void *self, int64_t *numbers, uint64_t count);
    /** Takes the hidden state of the stage before. Not called on the first stage. */
    int (*receive)(void *self, float *hidden, uint64_t count);
    /** Gives it to the next one. Not called on the last stage. */
    int (*send)(void *self, const float *hidden, uint64_t count);
};

/** A team of one rank. */
static inline struct team team_of_one(void)
{
    return (struct team){.seat = {.tp = 1, .pp = 1}};
}

#endif
