/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * envelope: the 24 bytes in front of every control message that goes over a network:
 *
 *   at 0   magic, "BCTL"
 *      4   from: who speaks; 8: to whom. Both are peers' numbers in the directory (core/ground.h). Whoever hands a
 *          packet on leaves them as they are, so who speaks is not always who brings it
 *     12   the message's number, and at 16 how many of the other side's messages were consumed: of this pair of peers
 *     20   bit 0: nothing follows. The other 31 bits are a hash of envelope and message
 *
 * The counts of a pair stand here too, so that tests of flow control and of damage need no network.
 */
#ifndef BATON_WIRE_ENVELOPE_H
#define BATON_WIRE_ENVELOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/sequence.h"

#define ENVELOPE_BYTES 24u
#define ENVELOPE_CREDITS 32u /* messages to one peer that it has not confirmed, at most */
#define ENVELOPE_CONFIRM 16u /* after so many unconfirmed messages from a peer it is owed an envelope alone */

/** What one rank counts of its messages with one peer. Modulo 2^32. */
struct envelope_counts {
    uint32_t sent, confirmed;    /* messages to the peer; how many of them it confirmed */
    uint32_t consumed, returned; /* messages from the peer; how many of them were confirmed to it */
    struct sequence from;        /* numbers of the messages from the peer, from 1; the last is `consumed` */
};

static inline bool envelope_has_credit(const struct envelope_counts *c)
{
    return c->sent - c->confirmed < ENVELOPE_CREDITS;
}

static inline bool envelope_is_owed(const struct envelope_counts *c)
{
    return c->consumed - c->returned >= ENVELOPE_CONFIRM;
}

struct envelope_route {
    uint32_t from, to;
};

/**
 * Writes the envelope of the next message into `packet`, where the message's `bytes` bytes lie behind it already. 0
 * bytes: an envelope alone. Call envelope_sent once the packet is out: only then do the counts change.
 */
void envelope_seal(const struct envelope_counts *c, struct envelope_route route, uint8_t *packet, uint32_t bytes);
void envelope_sent(struct envelope_counts *c, bool alone);

/**
 * From whom to whom a packet says that it goes, before anything of it was checked: so that its reader finds the counts
 * of that pair, or refuses it. False: it is too short, or has no envelope.
 */
bool envelope_read_route(const uint8_t *in, uint32_t bytes, struct envelope_route *out);

enum envelope_kind { ENVELOPE_REFUSED, ENVELOPE_ALONE, ENVELOPE_MESSAGE };

/**
 * Checks the envelope of a packet that came, by the counts of its route; `bytes` counts the envelope too. REFUSED: *why
 * says what is wrong. The channel loses and repeats nothing. So if the number is ahead of its turn, the messages before
 * it were damaged. They count as consumed, else the sender would run out of credits; the message is taken, and *why
 * tells of the others. A number that came before, or that is further ahead than there are credits, is refused, unless
 * it is one more than the number that was refused last.
 */
enum envelope_kind envelope_open(struct envelope_counts *c, const uint8_t *in, uint32_t bytes, const char **why);

#endif
