/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence: messages are numbered, and each number is accepted once. The channel keeps the order, so a number is good
 * if it is one of the next few; some may be missing. Any other number is doubted and not accepted. A damaged number
 * must not cut the sender off: where a number is one more than the one in doubt, both are believed, and counting goes
 * on from there. So a damaged number costs a message or two, whatever it is.
 */
#ifndef BATON_WIRE_SEQUENCE_H
#define BATON_WIRE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

/** Modulo 2^32. All zeros: the next number is 1. */
struct sequence {
    uint32_t last;  /* the number that was accepted last */
    uint32_t doubt; /* the number in doubt, */
    bool doubts;    /* if there is one */
};

/** Whether `number` is accepted: it is one of the next `ahead`, or one more than the number in doubt. */
static inline bool sequence_accept(struct sequence *s, uint32_t number, uint32_t ahead)
{
    bool follows = number - s->last - 1 < ahead, believed = s->doubts && number == s->doubt + 1;
    s->doubts = !follows && !believed;
    if (s->doubts)
        s->doubt = number;
    else
        s->last = number;
    return !s->doubts;
}

#endif
