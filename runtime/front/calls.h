/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: the calls that were accepted and have not ended, known outside of the protocol core too: so that when the
 * reactor is stuck inside MPI, another thread can end them. A short lock; a fixed number of places.
 */
#ifndef BATON_FRONT_CALLS_H
#define BATON_FRONT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct calls;

/** NULL: out of memory. */
struct calls *calls_create(uint32_t most);
void calls_destroy(struct calls *c);

/** Enters an accepted call; s->place says where. There is a place for each: the caller has counted. */
void calls_enter(struct calls *c, struct core_submit *s);

/**
 * An event of a call is about to be handed out. True: it goes out as it is, or as it was changed: an end that was told
 * already by calls_abandon becomes the BATON_EVENT_QUIET that follows it. False: it was told already, drop the record.
 */
bool calls_pass(struct calls *c, struct core_submit *s);

/** Takes a call that failed to be handed over out again. */
void calls_forget(struct calls *c, struct core_submit *s);

/**
 * Makes an end for each call that has none: a new record with a quarantined event, given to `give`, which owns it.
 * Returns how many there were. Any thread.
 */
uint32_t calls_abandon(struct calls *c, uint64_t now, int error, const char *detail,
                       void (*give)(void *arg, struct core_submit *s), void *arg);

#endif
