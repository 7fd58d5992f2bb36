/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events: on their way to the engine, and counted by their reasons.
 *
 * Any thread puts and takes. Whoever has taken an event finds it counted: the lock is held around each put and its count.
 * Nothing here waits for a poller; admission.h says why there is always a place.
 */
#ifndef BATON_FRONT_EVENTS_H
#define BATON_FRONT_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ring.h"
#include "core/outcome.h"

struct events {
    struct ring *ring;        /* of outcomes */
    int fd;                   /* readable while there are any */
    _Atomic uint32_t waiting; /* in the ring */
    pthread_mutex_t lock;     /* over what follows */
    uint64_t reasons[BATON_REASONS];
    uint64_t **reasons_of; /* by rank: as many; NULL where nothing failed */
    uint32_t num_ranks;
};

/** False: the system gives no memory or no descriptor; events_fini is due all the same. */
bool events_init(struct events *e, uint32_t most);
/** Before the first event: events may name ranks below this. False: out of memory. */
bool events_know_ranks(struct events *e, uint32_t num_ranks);
/** Also frees what nobody took. */
void events_fini(struct events *e);

/** Hands an outcome to the pollers. False: no place now, since a poller was interrupted while it took one. Never waits. */
bool events_put(struct events *e, struct outcome *outcome);

/** A poller begins; it takes outcomes until it has enough or there are none (NULL), and ends with how many it took. */
void events_poll_begin(struct events *e);
struct outcome *events_take(struct events *e);
void events_poll_end(struct events *e, uint32_t taken);

/** Readable while there are any. */
int events_fd(const struct events *e);
uint32_t events_waiting(const struct events *e);
/** Failures by -error: of all events, and of those that named one rank. */
void events_reasons(struct events *e, uint64_t out[BATON_REASONS]);
void events_reasons_of(struct events *e, uint32_t rank, uint64_t out[BATON_REASONS]);

#endif
