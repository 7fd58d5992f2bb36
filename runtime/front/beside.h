/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beside: the net (core/net.h) as turns use it, of which those that are lent (front/turns.h) stand beside it: they call
 * nothing that may reach MPI. What such a turn has for the net waits for the next turn that is not lent, which does it
 * first.
 *
 *   send                  the message is queued, in order: at most BESIDE_LETTERS to one peer, then BATON_EAGAIN
 *   read, board, settle,
 *   room, move            BATON_EAGAIN
 *   progress              nothing
 *   park                  looks, which calls nothing of MPI
 *   ended                 it is not known
 *   sync                  it is owed, and no event may be handed out meanwhile (beside_owes)
 *
 * It is all of whoever makes turns.
 */
#ifndef BATON_FRONT_BESIDE_H
#define BATON_FRONT_BESIDE_H

#include "core/net.h"
#include "wire/envelope.h"

/** As many as one peer has credits for: more could not leave at once. */
#define BESIDE_LETTERS ENVELOPE_CREDITS

struct beside;
struct logger;

/** The net and the log outlive it. NULL: no memory. */
struct beside *beside_create(const struct net *net, uint32_t num_peers, struct logger *log);
/** What is queued is dropped. NULL is allowed. */
void beside_destroy(struct beside *b);
/** Another member may have the index of that peer: what is queued for it is dropped. */
void beside_forget(struct beside *b, uint32_t peer);

/** What paths use of a net, as described above: path, `send`, `sync`, `room`, `move`. Other functions are NULL. */
const struct net *beside_net(const struct beside *b);

/** Whether turns are lent from now on. */
void beside_lend(struct beside *b, bool is_lent);
bool beside_is_lent(const struct beside *b);

/**
 * Something was stored into my segment. Peers that hear of it by a message find it: that is sent behind a sync.
 * `is_known`: they may look for it already, so it is synced now.
 */
void beside_store(struct beside *b, bool is_known);
/** Makes what peers of the net have put here visible to this thread. False: a turn that is lent cannot. */
bool beside_see(struct beside *b);
/** A sync is owed, which turns that are lent leave to others. */
bool beside_owes(const struct beside *b);

#endif
