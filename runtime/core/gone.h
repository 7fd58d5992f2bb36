/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gone: members that go, and engines with them. An engine is gone with the first of its ranks: wants of it end at once,
 * and offers that it had begun to take. What is known of its ranks stays until all have gone and nobody has anything to
 * do with them: then other members may have their indexes.
 *
 * core.c hands it the events. It owns nothing.
 */
#ifndef BATON_CORE_GONE_H
#define BATON_CORE_GONE_H

#include "core/core.h"

/** A member has left its engine, which is gone by the directory. Its own loss is news of peer.c. */
void gone_member(struct core *core, const struct port_event *left);

#endif
