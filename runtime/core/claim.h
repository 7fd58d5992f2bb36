/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * claim: which of my blocks belong to open wants (BATON_PARANOID). Owns one bit for each block of the cache. want.c
 * claims a want's blocks when it is submitted and leaves them when it has ended. Pure.
 */
#ifndef BATON_CORE_CLAIM_H
#define BATON_CORE_CLAIM_H

#include "core/call.h"

struct claims;

/** Makes *claims at first (NULL). 0; BATON_EINVAL: a block belongs to another want, with *why; or BATON_ENOMEM. */
int claim_take(struct claims **claims, const baton_geometry_t *g, const struct call *call, struct plan_why *why);
void claim_leave(struct claims *claims, const baton_geometry_t *g, const struct call *call);
void claims_destroy(struct claims *claims);

#endif
