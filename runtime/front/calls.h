/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: the calls that were accepted and have not ended, known outside of the protocol core too: so that when the
 * reactor is stuck inside MPI, another thread can end them. A short lock; a fixed number of places.
 */
#ifndef BATON_FRONT_CALLS_H
#define BATON_FRONT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ring.h"
#include "core/core.h"

struct calls;

/** NULL: out of memory. */
struct calls *calls_create(uint32_t most);
void calls_destroy(struct calls *c);

/**
 * Enters a call and hands it over: pushes its record into the ring. s->place says where it is. False: the ring is full,
 * and the call never was. There is a place for each: the caller has counted. Any thread.
 */
bool calls_submit(struct calls *c, struct core_submit *s, struct ring *ring);

/** The ids of calls that were ended by calls_abandon and are open in the core still: each is given once. */
uint32_t calls_told(struct calls *c, baton_id_t *ids, uint32_t max);

/**
 * An event of a call is about to be handed out. True: it goes out as it is, or as it was changed: an end that was told
 * already by calls_abandon becomes the BATON_EVENT_QUIET that follows it. False: it was told already, drop the record.
 */
bool calls_pass(struct calls *c, struct core_submit *s);

/**
 * Makes an end for each call that has none: new records with quarantined events, put before *ends, the caller's. Returns
 * how many there were. Any thread.
 */
uint32_t calls_abandon(struct calls *c, uint64_t now, int error, const char *detail, struct core_submit **ends);

#endif
