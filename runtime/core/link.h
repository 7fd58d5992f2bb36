/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: who serves whom. Owns one link to each producer engine that was wanted: BUILDING while it is found out who
 * serves whom, IDLE, SHAKING while cards are read, READY, or REFUSED for good. Its contacts are the ranks that serve
 * me; spares are contacts with other ranks that can take the place of one that failed. It owns also the targets: one
 * contact for each rank that I write to.
 *
 * Wants queue behind a link by a struct queued of their own: link.c knows no want. What a card changed is a result that
 * core.c hands on.
 */
#ifndef BATON_CORE_LINK_H
#define BATON_CORE_LINK_H

#include "core/contact.h"

struct link;

enum link_state { LINK_BUILDING, LINK_IDLE, LINK_SHAKING, LINK_READY, LINK_REFUSED };

/** Why a link is REFUSED. */
struct link_refusal {
    int error;
    int32_t peer;
    struct plan_why why;
};

/** 0 or BATON_ENOMEM. */
int links_create(struct core *core);
void links_destroy(struct core *core);

/** Forgets what is known of that engine: no want, push or check uses it any more. */
void links_forget(struct core *core, uint32_t engine);

/** The link to that producer engine; NULL, with *error and *why: it has none and never will, or there is no memory. */
struct link *link_of(struct core *core, uint32_t engine, int *error, struct plan_why *why);
enum link_state link_state(const struct link *link);
const struct link_refusal *link_refusal(const struct link *link);
/** No rank of the engine holds a part that is wanted. Its one contact may tell that the caches do not match at all. */
bool link_lacks(const struct link *link);
/** The ranks that serve me. */
uint32_t link_num_contacts(const struct link *link);
struct contact *link_contact(const struct link *link, uint32_t i);
/** Ranks that hold a part of what I want and are not read; and their number. None while it is BUILDING. */
const uint32_t *link_spares(const struct link *link, uint32_t *num);
/**
 * Ranks that nobody of my engine reads, where I am the one to tell them; and their number. None while it is BUILDING.
 */
const uint32_t *link_idle(const struct link *link, uint32_t *num);
/** A rank whose card has not come. -1: all have. */
int32_t link_missing(const struct link *link);
/** The calls that wait for the link to that engine, as baton_stats tells them. False: none does. */
bool link_pending(const struct core *core, uint32_t engine, uint64_t now, baton_pending_t *out);

/** `want` waits until it is READY or REFUSED. */
void link_queue(struct core *core, struct link *link, struct queued *want);
/** Stops waiting. No-op if it does not wait. */
void link_unqueue(struct core *core, struct link *link, struct queued *want);
/** Takes the first that waits. NULL: none. */
struct queued *link_take(struct link *link);

/** What a card has changed: a target or a spare contact has another state, or its link is READY or REFUSED now. */
enum link_news { LINK_NOTHING, LINK_TARGET, LINK_SPARE, LINK_SETTLED };
enum link_news link_on_card(struct core *core, struct contact *c, const struct port_event *e);

/** The contact by which I write to `peer`, or NULL with *error. */
struct contact *target_of(struct core *core, uint32_t peer, int *error);
/** The contact by which `rank` can take the place of one that failed; NULL: it does not hold all of that one's part. */
struct contact *link_spare(struct core *core, const struct contact *failed, uint32_t rank);

#endif
