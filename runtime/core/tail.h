/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tail: zeros behind a want's tokens, to the end of their last blocks (BATON_WANT_ZERO_TAIL). A copy worker stores them
 * while the legs move: no leg writes there. The want has its end only when that is over, however it ends.
 *
 * want.c begins and stops a tail; core.c hands on that a worker is done. tail.c knows no want: it gives back the
 * pointer.
 */
#ifndef BATON_CORE_TAIL_H
#define BATON_CORE_TAIL_H

#include "core/call.h"
#include "core/op.h"

struct tail;
struct want;

/** 0 or BATON_ENOMEM. */
int tails_create(struct core *core);
void tails_destroy(struct core *core);

/** 0 with *out (NULL: there is nothing to zero), or an error, with *why. */
int tail_begin(struct core *core, struct want *want, const struct call *call, struct tail **out, struct plan_why *why);
/** True: it is gone. False: a worker has it, and tail_end follows. NULL is gone. */
bool tail_stop(struct core *core, struct tail *t);
/** A worker is done. Whose it was. */
struct want *tail_end(struct core *core, struct tail *t);
/** Hands tails to the workers. */
void tails_run(struct core *core);

#endif
