/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave: how a member leaves, seen from the protocol. In a world of MPI it owns whether this rank closes, whether it
 * watches the others meanwhile, and the first rank found without which the world must close. core.c hands it LEAVE
 * messages and losses; the functions by which front/ closes (core_leave, core_loss, core_tell_left) are in core.h.
 */
#ifndef BATON_CORE_LEAVE_H
#define BATON_CORE_LEAVE_H

#include "core/core.h"
#include "wire/message.h"

/** 0 or BATON_ENOMEM. */
int leave_create(struct core *core);
void leave_destroy(struct core *core);

void leave_on_message(struct core *core, uint32_t rank, const struct wire_message *m);
/** That rank was lost, or died. */
void leave_on_loss(struct core *core, uint32_t rank);

#endif
