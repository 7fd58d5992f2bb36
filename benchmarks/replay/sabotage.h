/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sabotage: one request that is broken on purpose, so that the replay shows that it finds what it claims to find.
 *
 *   flip   one bit of one element, before the offer
 *   head   two heads of some tokens in each other's place, before the offer
 *   short  the last tokens of the request's blocks left as poison, before the offer
 *   late   with --stream: nothing is in place before the last step, whatever is said. What is found shows that bytes
 *          move while prefill goes on
 *   stale  after the offer and before it is read, another request's bytes, as if the blocks had been used again
 *
 * "Before it is read" needs a signal from the prefill ranks to the decode ranks: the gate, an offer of one token under
 * a key of its own that follows the broken blocks. The decode ranks want the gate first, then the request.
 */
#ifndef REPLAY_SABOTAGE_H
#define REPLAY_SABOTAGE_H

#include "replay/engine.h"

/** Whether this request is the one that is broken. With --stream, it is one that is offered while its prefill
   goes on. */
bool sabotage_hits(const struct engine *e, uint32_t request);
/** Whether its bytes are in place only with the last step. */
bool sabotage_is_late(const struct engine *e, uint32_t request);
/** Whether this request is broken in the way that needs the gate. */
bool sabotage_needs_gate(const struct engine *e, uint32_t request);

/** If asked for, breaks what is filled of a request before it is offered. May be called after each step. */
void sabotage_prepared(const struct engine *e, const struct slot *s);
/** The same after all of it was offered. */
void sabotage_offered(struct engine *e, const struct slot *s);

#endif
