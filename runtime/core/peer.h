/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: what this rank knows of every other rank: its state, and whether it said that it leaves.
 *
 *   heard   it answers, or has not been silent for long
 *   lost    it was silent for too long, or is dead: its transfers were ended. A silent rank may come back
 *   dead    its process is known to have ended: it never comes back
 *   ended   it is dead, and nothing that it has sent is still on its way here
 *
 * Whoever has business with a rank says so, by peer_begin or peer_hold, and ends that by peer_end: only then is the
 * rank asked for beats. A loss is news, which core.c takes and hands on to all that have business. peer.c calls none of
 * them.
 */
#ifndef BATON_CORE_PEER_H
#define BATON_CORE_PEER_H

#include "core/core.h"
#include "wire/message.h"

/** 0 or BATON_ENOMEM. */
int peers_create(struct core *core);
void peers_destroy(struct core *core);

/** Business with it begins: 0, BATON_EPEER (it is lost) or BATON_ENOMEM. */
int peer_begin(struct core *core, uint32_t rank);
/** The same with a rank that is known, lost or not. */
void peer_hold(struct core *core, uint32_t rank);
void peer_end(struct core *core, uint32_t rank);
/** So that it can be held: 0 or BATON_ENOMEM. */
int peer_know(struct core *core, uint32_t rank);

/** There was business with it. */
bool peer_is_known(const struct core *core, uint32_t rank);
bool peer_is_lost(const struct core *core, uint32_t rank);
bool peer_is_dead(const struct core *core, uint32_t rank);
/** It is dead, and nothing that it sent or was asked for can land here any more. */
bool peer_is_ended(const struct core *core, uint32_t rank);
/** It said that it leaves without the others, so its end is no loss. */
void peer_leave(struct core *core, uint32_t rank);
bool peer_has_left(const struct core *core, uint32_t rank);
/**
 * The member has gone for good: it is dead, or has left. `is_quiet`: nothing that it sent or was asked for can land
 * here any more.
 */
void peer_go(struct core *core, uint32_t rank, bool is_dead, bool is_quiet);
/** Of one that has gone: there is no business with it, and nothing of it can land here. */
bool peer_is_over(const struct core *core, uint32_t rank);
/** Another member may have its rank. */
void peer_forget(struct core *core, uint32_t rank);

/** A step begins, with all that had come by then. */
void peers_watch(struct core *core, uint64_t heard_ns);
/** Takes a rank that was lost, or died, since: its transfers are to end, then peer_loss_handled is due. False: none. */
bool peer_take_loss(struct core *core, uint32_t *rank);
void peer_loss_handled(struct core *core, uint32_t rank);

/** Sends a beat; with `ask`, the peer answers with one. */
void peer_beat(struct core *core, uint32_t rank, bool ask);
/** A message from it came. */
void peer_heard(struct core *core, uint32_t rank);
void peer_on_beat(struct core *core, uint32_t rank, const struct wire_message *m);
void peer_on_inquiry(struct core *core, uint32_t rank, const struct wire_message *m);
void peer_on_witness(struct core *core, uint32_t rank, const struct wire_message *m);

#endif
