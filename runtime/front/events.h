/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events: the queue of events on their way to the engine, and the counts of failures by reason.
 *
 * Any thread puts, any thread takes, and any thread reads the counts. There is no lock. A thread that stops in the
 * midst of taking an event holds up the others once the queue has gone round to its place (base/mpmc.h). A failure is
 * counted before its event is put: whoever has taken an event finds it counted. Nothing here waits for a poller:
 * admission.h says why there is always a place.
 */
#ifndef BATON_FRONT_EVENTS_H
#define BATON_FRONT_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mpmc.h"
#include "core/outcome.h"

typedef _Atomic uint64_t events_count_t;

struct events {
    struct mpmc *outcomes;
    struct outcome engines;     /* what is taken where engines have come or gone */
    _Atomic bool engines_waits; /* it is to be taken, before the others */
    int fd;                     /* readable while there are any, if somebody watches it */
    _Atomic bool is_watched;    /* somebody may sleep on it */
    _Atomic uint64_t written;   /* to it and not read from it yet, and what is about to be written */
    _Atomic uint32_t waiting;   /* to be taken */
    events_count_t reasons[BATON_REASONS];
    _Atomic(events_count_t *) *reasons_of; /* the same by rank; NULL: none of its calls failed */
    uint32_t num_ranks;
};

/** False: no memory or no descriptor. events_fini must be called in either case. */
bool events_init(struct events *e, uint32_t most);
/** Must be called before the first event: events name ranks below num_ranks. False: out of memory. */
bool events_know_ranks(struct events *e, uint32_t num_ranks);
/** Also frees the outcomes that nobody took. */
void events_fini(struct events *e);

/** In a forked child, instead of events_fini: closes its copy of the descriptor, and touches nothing else. */
void events_forget(struct events *e);

/** Queues an outcome. Never waits. False: there is no place yet, since a poller was interrupted while it took one. */
bool events_put(struct events *e, struct outcome *outcome);

/**
 * Engines have come or gone, and a poller is to hear it: once, however often this is called until it does. It needs no
 * place. Never waits.
 */
void events_put_engines(struct events *e);
/** Whether what was taken tells of engines. It is not to be freed, and the engines that are read now are the newest. */
bool events_is_engines(const struct events *e, const struct outcome *taken);

/** A failure counts once: not with a verdict, and not with the end of a call that was given up before. */
bool events_is_failure(const baton_event_t *event);

/** A poller takes outcomes until it has enough or gets NULL, and says in the end how many it took. */
struct outcome *events_take(struct events *e);
void events_poll_end(struct events *e, uint32_t taken);

int events_fd(const struct events *e);
/**
 * From now on it is readable while there are any: somebody may sleep on it. Until then no event writes to it. It is
 * hardly ever readable for none: only where a poller that was awake takes an event just before its put writes, and then
 * once.
 */
void events_watch(struct events *e);
/** Whether somebody does, who may be woken by the next event. */
bool events_are_watched(const struct events *e);
uint32_t events_waiting(const struct events *e);
/** Counts of failures, by -error: all, and those whose event names that rank. */
void events_reasons(const struct events *e, uint64_t out[BATON_REASONS]);
void events_reasons_of(const struct events *e, uint32_t rank, uint64_t out[BATON_REASONS]);

#endif
