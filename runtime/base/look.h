/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * look: whether a queue that hands out a bounded number at a time has handed out all that lay in it at some moment. The
 * look begins then. It ends when the queue was found empty, or has handed out as many as it can have held: it is first
 * in, first out. So a queue that is refilled without end holds up nobody who waits for the end of a look.
 */
#ifndef BATON_BASE_LOOK_H
#define BATON_BASE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

/** Zeroed: no look is under way. */
struct looking {
    uint64_t left; /* so many may still lie there that lay there when the look began */
};

/** `held`: the queue holds no more now. */
static inline void look_begin(struct looking *l, uint64_t held)
{
    l->left = held;
}

/** So many were handed out; is_empty: then none was left. */
static inline void look_take(struct looking *l, uint64_t num, bool is_empty)
{
    l->left = is_empty || num >= l->left ? 0 : l->left - num;
}

static inline bool look_has_ended(const struct looking *l)
{
    return l->left == 0;
}

#endif
