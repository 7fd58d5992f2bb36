/* SPDX-License-Identifier: BSD-3-Clause */
/* events: see events.h. */
#include "front/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define COUNTED(name, number, message) _Static_assert(-(number) < BATON_REASONS, "BATON_REASONS is too small");
BATON_ERRNO_MAP(COUNTED)
#undef COUNTED

bool events_init(struct events *e, uint32_t most)
{
    *e = (struct events){.ring = ring_create(most), .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    pthread_mutex_init(&e->lock, NULL);
    return e->ring != NULL && e->fd >= 0;
}

bool events_know_ranks(struct events *e, uint32_t num_ranks)
{
    e->num_ranks = num_ranks;
    e->reasons_of = calloc(num_ranks, sizeof *e->reasons_of);
    return e->reasons_of != NULL;
}

void events_fini(struct events *e)
{
    struct outcome *outcome;
    while (e->ring != NULL && (outcome = ring_pop(e->ring)) != NULL)
        outcome_free(outcome);
    ring_destroy(e->ring);
    if (e->fd >= 0)
        close(e->fd);
    for (uint32_t i = 0; e->reasons_of != NULL && i < e->num_ranks; i++)
        free(e->reasons_of[i]);
    free(e->reasons_of);
    pthread_mutex_destroy(&e->lock);
}

bool events_is_failure(const baton_event_t *event)
{
    return event->error != 0 && event->type != BATON_EVENT_VERDICT && !event->given_up;
}

/* The caller holds the lock. */
static void count(struct events *e, int error, int32_t peer)
{
    unsigned reason =
        error > -BATON_REASONS ? (unsigned)-error : 0; /* a peer of a later version may send an unknown one */
    e->reasons[reason]++;
    if (peer >= 0 && e->reasons_of[peer] == NULL)
        e->reasons_of[peer] = calloc(BATON_REASONS, sizeof *e->reasons);
    if (peer >= 0 && e->reasons_of[peer] != NULL)
        e->reasons_of[peer][reason]++;
}

/*
 * Counted before it is written: whoever is woken by the write finds the count, and reads. What a read returns is the
 * sum of all writes since the read before, and is taken off the count. So a write that is counted and not made yet
 * stays counted, and the next poll reads it. A poll after the write that found no count would leave the descriptor
 * readable.
 */
static void make_readable(struct events *e)
{
    const uint64_t one = 1;
    atomic_fetch_add_explicit(&e->written, one, memory_order_release);
    if (write(e->fd, &one, sizeof one) != sizeof one) /* it never waits, so no signal ends it */
        atomic_fetch_sub_explicit(&e->written, one, memory_order_relaxed);
}

/* Under the lock, as each put is: either this finds what was put, or the put finds that somebody watches. */
void events_watch(struct events *e)
{
    if (atomic_load_explicit(&e->is_watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&e->lock);
    bool was = atomic_exchange_explicit(&e->is_watched, true, memory_order_relaxed);
    bool is_late = !was && !ring_is_empty(e->ring);
    pthread_mutex_unlock(&e->lock);
    if (is_late)
        make_readable(e);
}

bool events_are_watched(const struct events *e)
{
    return atomic_load_explicit(&e->is_watched, memory_order_relaxed);
}

/* What the caller did before (fences, the raised generation) happens before the poller takes the event: the ring orders
 * that by release and acquire. */
bool events_put(struct events *e, struct outcome *outcome)
{
    bool failure = events_is_failure(&outcome->event); /* once it is in the ring, the outcome is the poller's */
    int error = outcome->event.error;
    int32_t peer = outcome->event.peer;
    atomic_fetch_add_explicit(&e->waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(&e->lock);
    bool put = ring_push(e->ring, outcome), is_watched = atomic_load_explicit(&e->is_watched, memory_order_relaxed);
    if (put && failure)
        count(e, error, peer);
    pthread_mutex_unlock(&e->lock);
    if (put && is_watched && !ring_is_empty(e->ring)) /* else a poller that was awake has taken it */
        make_readable(e);
    if (!put)
        atomic_fetch_sub_explicit(&e->waiting, 1, memory_order_relaxed);
    return put;
}

void events_poll_begin(struct events *e)
{
    uint64_t count;
    if (atomic_load_explicit(&e->written, memory_order_acquire) == 0)
        return;
    /* Cleared before the ring is read, so that what is pushed later makes the descriptor readable again. */
    if (read(e->fd, &count, sizeof count) == sizeof count)
        atomic_fetch_sub_explicit(&e->written, count, memory_order_relaxed);
}

struct outcome *events_take(struct events *e)
{
    return ring_pop(e->ring);
}

void events_poll_end(struct events *e, uint32_t taken, bool had_enough)
{
    if (taken > 0)
        atomic_fetch_sub_explicit(&e->waiting, taken, memory_order_relaxed);
    /* Whoever got NULL leaves nothing but what is still being pushed, and its put writes afterwards. Whoever cleared
     * the descriptor sees that it is watched, by the count of whoever had written. */
    if (had_enough && atomic_load_explicit(&e->is_watched, memory_order_relaxed) && !ring_is_empty(e->ring))
        make_readable(e);
}

int events_fd(const struct events *e)
{
    return e->fd;
}

uint32_t events_waiting(const struct events *e)
{
    return atomic_load_explicit(&e->waiting, memory_order_relaxed);
}

void events_reasons(struct events *e, uint64_t out[BATON_REASONS])
{
    pthread_mutex_lock(&e->lock);
    memcpy(out, e->reasons, sizeof e->reasons);
    pthread_mutex_unlock(&e->lock);
}

void events_reasons_of(struct events *e, uint32_t rank, uint64_t out[BATON_REASONS])
{
    pthread_mutex_lock(&e->lock);
    if (e->reasons_of[rank] != NULL)
        memcpy(out, e->reasons_of[rank], sizeof e->reasons);
    else
        memset(out, 0, sizeof e->reasons);
    pthread_mutex_unlock(&e->lock);
}
