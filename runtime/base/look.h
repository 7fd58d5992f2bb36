/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * look: marks a moment in a first-in-first-out queue that hands out a bounded number of items at a time, and tells when
 * all items that lay there at that moment were handed out. A look begins at the moment. It ends when the queue was
 * found empty, or has handed out as many items as it can have held then. So a look ends although the queue is refilled
 * without end.
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
