/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post: messages to other ranks and from them. Owns the messages that the port cannot take yet: they wait here, in
 * order for each peer. At most 4 x BATON_REQUESTS wait, half of that for one peer; the first one for a peer always may.
 * More are dropped, which is safe because whoever needs an answer sends its message again. Each message has a number,
 * and one that came before is not taken again.
 *
 * Every file that sends a message calls it; core.c opens what comes.
 */
#ifndef BATON_CORE_POST_H
#define BATON_CORE_POST_H

#include "core/core.h"
#include "core/counts.h"
#include "wire/message.h"

struct post;

/** Counts messages in *stats. *config and *stats outlive it. NULL: out of memory. */
struct post *post_create(const struct core_config *config, struct counts *stats);
void post_destroy(struct post *p);

/**
 * Fills what every message has, and sends it in the version that the peer speaks. Types that it cannot know are
 * dropped.
 */
void post_send(struct post *p, uint32_t peer, struct wire_message *m);
/** Sends what waited, as far as the port takes it. */
void post_flush(struct post *p);
/** A message to that peer waits, other than a speaker's. */
bool post_waits(const struct post *p, uint32_t peer);
/** A speaker's message to that peer waits: other speakers wait for it. */
bool post_is_speaking(const struct post *p, uint32_t peer);
/** The last message to that peer is a speaker's. */
void post_spoken(struct post *p, uint32_t peer);
/** How many wait, to all peers. */
uint32_t post_waiting(const struct post *p);
/** That peer is dead: nothing is sent to it any more. */
void post_close(struct post *p, uint32_t peer);
/** Another member may have that rank. */
void post_forget(struct post *p, uint32_t peer);

/** Decodes a message that came into *m. False: there is nothing to act on (malformed, of another life, seen before). */
bool post_open(struct post *p, const struct port_event *e, struct wire_message *m);
/** A message that makes no sense is counted and logged. */
void post_refuse(struct post *p, uint32_t peer, const struct wire_message *m, const char *why);

/**
 * The pause after this one before a word is sent again: twice as long, up to 16 times resend_ms. 0: the first.
 */
uint64_t post_pause_ns(const struct post *p, uint64_t pause_ns);

/** The number of the last message to that peer. */
uint32_t post_last(const struct post *p, uint32_t peer);
/** Whether the message of that number waits for nothing any more, or never did. */
bool post_has_left(const struct post *p, uint32_t peer, uint32_t number);

#endif
