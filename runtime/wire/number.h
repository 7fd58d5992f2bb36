/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * number: which of the numbers that one side counts up is the next. The channels that carry them keep the order, so a
 * number that was seen came before and is not taken again; some may be missing in between. A damaged number must not
 * cut a sender off: one that lies far ahead or came before is not taken, but where the number after it follows
 * directly, the two are believed and counting goes on from there. So a damaged number costs a message or two, whatever
 * it says.
 */
#ifndef BATON_WIRE_NUMBER_H
#define BATON_WIRE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Modulo 2^32. Zeroed: 1 is the next. */
struct number {
    uint32_t last;  /* the last that was taken */
    uint32_t doubt; /* the last that was not */
    bool doubts;
};

/** Whether `number` is taken: it is one of the next `ahead`, or follows the one in doubt directly. */
static inline bool number_take(struct number *n, uint32_t number, uint32_t ahead)
{
    bool follows = number - n->last - 1 < ahead, believed = n->doubts && number == n->doubt + 1;
    n->doubts = !follows && !believed;
    if (n->doubts)
        n->doubt = number;
    else
        n->last = number;
    return !n->doubts;
}

#endif
