/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * number: messages are numbered, and each number is taken once. The channel keeps the order, so a number is good if it
 * is one of the next few; some may be missing. Any other number is doubted and not taken. A damaged number must not
 * cut the sender off: where a number is one more than the one in doubt, both are believed, and counting goes on from
 * there. So a damaged number costs a message or two, whatever it is.
 */
#ifndef BATON_WIRE_NUMBER_H
#define BATON_WIRE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Modulo 2^32. All zeros: the next number is 1. */
struct number {
    uint32_t last;  /* the number that was taken last */
    uint32_t doubt; /* the number in doubt, */
    bool doubts;    /* if there is one */
};

/** Whether `number` is taken: it is one of the next `ahead`, or one more than the number in doubt. */
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
