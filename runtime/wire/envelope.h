/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * envelope: the 16 bytes in front of every control message: its number, how many of the other side's were consumed, and
 * a hash of envelope and message. The counts of one pair of ranks are kept here too, so that flow control and what
 * damage does to it can be tested without a network.
 *
 * A rank of wire version 1 neither sends nor checks hashes (envelope_counts.hashed is false). Damage in a message of
 * such a rank is found only as far as a field makes no sense; a damaged number costs a few messages (number.h).
 */
#ifndef BATON_WIRE_ENVELOPE_H
#define BATON_WIRE_ENVELOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/number.h"

#define ENVELOPE_BYTES 16u
#define ENVELOPE_CREDITS 32u /* messages to one peer whose consumption is unconfirmed, at most */
#define ENVELOPE_CONFIRM 16u /* consumed and not told: an envelope alone is owed */

/** What one rank counts of its messages with one peer. Modulo 2^32. */
struct envelope_counts {
    uint32_t sent, confirmed;    /* messages to it; how many it says it consumed */
    uint32_t consumed, returned; /* messages from it; how many it was told of */
    struct number from;          /* of the messages from it, counted from 1; its last is `consumed` */
    bool hashed;                 /* both sides speak a version with hashes */
};

static inline bool envelope_has_credit(const struct envelope_counts *c)
{
    return c->sent - c->confirmed < ENVELOPE_CREDITS;
}

static inline bool envelope_is_owed(const struct envelope_counts *c)
{
    return c->consumed - c->returned >= ENVELOPE_CONFIRM;
}

/**
 * Writes the envelope of the next message, whose `bytes` bytes lie behind it in `packet`; 0 bytes: an envelope alone.
 * The counts change by envelope_sent, once it is out.
 */
void envelope_seal(const struct envelope_counts *c, uint8_t *packet, uint32_t bytes);
void envelope_sent(struct envelope_counts *c, bool alone);

enum envelope_kind { ENVELOPE_REFUSED, ENVELOPE_ALONE, ENVELOPE_MESSAGE };

/**
 * Takes the envelope off what came: `bytes` in all, the envelope included. REFUSED: *why says what is wrong with it.
 * The channel loses and repeats nothing, so a number ahead of its turn means that what came before was damaged: those
 * count as consumed (*why says so, and the message is taken), or the sender would run out of credits. A number that
 * came before, or lies further ahead than there are credits, is refused, unless it follows one that was refused so.
 */
enum envelope_kind envelope_open(struct envelope_counts *c, const uint8_t *in, uint32_t bytes, const char **why);

#endif
