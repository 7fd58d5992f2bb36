/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contact: one peer rank that this one exchanges blocks with in one direction. Owns its card (NEEDED, READING, GOOD
 * once it was decoded and checked and the plan of the pair compiled, or REFUSED for good) and what follows from it: the
 * plan, and where things lie. A card that does not come is tried again with growing pauses.
 *
 * Contacts are made and kept by link.c. Legs and pushes wait for a contact by a struct queued of their own; movers and
 * checks read its plan and places.
 */
#ifndef BATON_CORE_CONTACT_H
#define BATON_CORE_CONTACT_H

#include "core/core.h"
#include "core/op.h"
#include "core/queue.h"

struct contact;
struct link;

/** Block tables in a peer's arena, as a message named them. */
struct peer_table {
    uint32_t slot, entries;
    uint64_t generation, offset;
};

/** Where things lie at a peer, by its card: offsets in its segment, and its cache. */
struct peer_layout {
    uint64_t board_offset, arena_offset, arena_bytes;
    uint32_t board_slots;
    struct path_regions *regions;
};

struct link *contact_link(const struct contact *c);
uint32_t contact_peer(const struct contact *c);
bool contact_is_good(const struct contact *c);
/** Why it is refused; NULL: it is not. */
const char *contact_refusal(const struct contact *c);
/** Once it is good: the plan from the producer's cache to the consumer's. */
const struct plan *contact_plan(const struct contact *c);
const struct peer_layout *contact_layout(const struct contact *c);
/** For a source. Bit i is set: the rank of index i in my engine reads from it too. */
const uint8_t *contact_readers(const struct contact *c);
/** Whether a table that its rank names lies within what its card said. */
bool contact_holds(const struct contact *c, const struct peer_table *table);

/** Reads the card of a target or spare, unless it is known or asked for. */
void contact_want(struct core *core, struct contact *c);
/** The same, and `who` waits until it is good or refused. */
void contact_wait(struct core *core, struct contact *c, struct queued *who);
/** Stops waiting. When nobody waits, a reading under way is given up. No-op if it does not wait. */
void contact_leave(struct core *core, struct contact *c, struct queued *who);
/** Takes the first that waits. NULL: none. */
struct queued *contact_take(struct contact *c);

/** A card came. 0: it is good now; BATON_EGEOMETRY, with *why: it cannot match; BATON_EAGAIN: neither. For link.c. */
int contact_on_card(struct core *core, struct contact *c, const struct port_event *e, struct plan_why *why);
/** It is refused. For link.c. */
void contact_refuse(struct core *core, struct contact *c, const struct plan_why *why);
/** Gives up a reading under way; a card that came stays known. For link.c. */
void contact_rest(struct core *core, struct contact *c);
void contact_fini(struct core *core, struct contact *c);

#endif
