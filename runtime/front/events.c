/* SPDX-License-Identifier: BSD-3-Clause */
/* events: see events.h. */
#include "front/events.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define COUNTED(name, number, message) _Static_assert(-(number) < BATON_REASONS, "BATON_REASONS is too small");
BATON_ERRNO_MAP(COUNTED)
#undef COUNTED

bool events_init(struct events *e, uint32_t most)
{
    *e = (struct events){.outcomes = mpmc_create(most), .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    return e->outcomes != NULL && e->fd >= 0;
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
    while (e->outcomes != NULL && (outcome = mpmc_pop(e->outcomes)) != NULL)
        outcome_free(outcome);
    mpmc_destroy(e->outcomes);
    if (e->fd >= 0)
        close(e->fd);
    for (uint32_t i = 0; e->reasons_of != NULL && i < e->num_ranks; i++)
        free(atomic_load_explicit(&e->reasons_of[i], memory_order_relaxed));
    free(e->reasons_of);
}

void events_forget(struct events *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
}

bool events_is_failure(const baton_event_t *event)
{
    return event->error != 0 && event->type != BATON_EVENT_VERDICT && !event->given_up;
}

/* The counts of a rank's failures, made with its first one. NULL: no memory. */
static events_count_t *counts_of(struct events *e, int32_t peer)
{
    events_count_t *none = NULL, *counts = atomic_load_explicit(&e->reasons_of[peer], memory_order_acquire);
    if (counts != NULL)
        return counts;
    counts = calloc(BATON_REASONS, sizeof *counts);
    /* release: whoever finds them finds them cleared. */
    if (atomic_compare_exchange_strong_explicit(&e->reasons_of[peer], &none, counts, memory_order_acq_rel,
                                                memory_order_acquire))
        return counts;
    free(counts);
    return none;
}

/* By one more or (-1) one less. relaxed: what is put after it, by a release, orders it. */
static void count(struct events *e, int error, int32_t peer, uint64_t more)
{
    const unsigned reason =
        error > -BATON_REASONS ? (unsigned)-error : 0; /* a later version's peer may send an unknown one */
    events_count_t *of_peer = peer >= 0 ? counts_of(e, peer) : NULL;
    atomic_fetch_add_explicit(&e->reasons[reason], more, memory_order_relaxed);
    if (of_peer != NULL && (more == 1 || of_peer[reason] > 0)) /* there was no memory to count it before */
        atomic_fetch_add_explicit(&of_peer[reason], more, memory_order_relaxed);
}

/*
 * Counted before it is written: whoever is woken by the write finds the count, and reads. What a read returns is the
 * sum of all writes since the read before, and is taken off the count. So a write that is counted and not made yet
 * stays counted, and the next poll reads it. A poll after the write that found no count would leave the descriptor
 * readable. A thread that is cancelled here ends afterwards: else others would sleep beside an event.
 */
static void make_readable(struct events *e)
{
    const uint64_t one = 1;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    atomic_fetch_add_explicit(&e->written, one, memory_order_release);
    if (write(e->fd, &one, sizeof one) != sizeof one) /* it never waits, so no signal ends it */
        atomic_fetch_sub_explicit(&e->written, one, memory_order_relaxed);
    pthread_setcancelstate(cancel_state, NULL);
}

static bool is_empty(const struct events *e)
{
    return mpmc_is_empty(e->outcomes) && !atomic_load_explicit(&e->engines_waits, memory_order_relaxed);
}

/*
 * Either this finds what was put, or the put finds that somebody watches: each side writes its word, then reads the
 * other's, with a sequentially consistent fence in between.
 */
void events_watch(struct events *e)
{
    if (atomic_load_explicit(&e->is_watched, memory_order_relaxed) ||
        atomic_exchange_explicit(&e->is_watched, true, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (!is_empty(e))
        make_readable(e);
}

bool events_are_watched(const struct events *e)
{
    return atomic_load_explicit(&e->is_watched, memory_order_relaxed);
}

/* Something was put. */
static void announce(struct events *e)
{
    atomic_thread_fence(memory_order_seq_cst); /* see events_watch */
    if (atomic_load_explicit(&e->is_watched, memory_order_relaxed) && !is_empty(e))
        make_readable(e); /* else a poller that was awake has taken it */
}

/* What the caller did before (fences, the raised generation) happens before the poller takes the event: the queue
 * orders that by release and acquire. */
bool events_put(struct events *e, struct outcome *outcome)
{
    const int error = outcome->event.error;
    const int32_t peer = outcome->peer;
    const bool is_failure = events_is_failure(&outcome->event); /* in the queue, the outcome is the poller's */
    atomic_fetch_add_explicit(&e->waiting, 1, memory_order_relaxed);
    if (is_failure)
        count(e, error, peer, 1); /* before it is put: whoever has taken it finds it counted */
    if (!mpmc_push(e->outcomes, outcome)) {
        atomic_fetch_sub_explicit(&e->waiting, 1, memory_order_relaxed);
        if (is_failure)
            count(e, error, peer, (uint64_t)-1);
        return false;
    }
    announce(e);
    return true;
}

/*
 * Who finds that it waits already leaves it at that: the exchange of the poller that takes it comes later, and acquires
 * what was published before this one.
 */
void events_put_engines(struct events *e)
{
    atomic_fetch_add_explicit(&e->waiting, 1, memory_order_relaxed);
    if (atomic_exchange_explicit(&e->engines_waits, true, memory_order_acq_rel))
        atomic_fetch_sub_explicit(&e->waiting, 1, memory_order_relaxed);
    else
        announce(e);
}

/* Reads what was written. True: there was something. */
static bool make_quiet(struct events *e)
{
    uint64_t count;
    int cancel_state;
    if (atomic_load_explicit(&e->written, memory_order_acquire) == 0)
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const bool has_read = read(e->fd, &count, sizeof count) == sizeof count;
    if (has_read)
        atomic_fetch_sub_explicit(&e->written, count, memory_order_relaxed);
    pthread_setcancelstate(cancel_state, NULL);
    return has_read;
}

struct outcome *events_take(struct events *e)
{
    if (atomic_load_explicit(&e->engines_waits, memory_order_relaxed) &&
        atomic_exchange_explicit(&e->engines_waits, false, memory_order_acq_rel))
        return &e->engines;
    return mpmc_pop(e->outcomes);
}

bool events_is_engines(const struct events *e, const struct outcome *taken)
{
    return taken == &e->engines;
}

/*
 * Who leaves events behind leaves the descriptor readable, for others who sleep on it. Who found none reads it, and
 * looks once more: an event may have come in between, whose write was read here. Until then this thread may lose its
 * CPU, and only that event waits for it. Who has read sees is_watched, by the count that the writer had added before.
 */
void events_poll_end(struct events *e, uint32_t taken)
{
    if (taken > 0)
        atomic_fetch_sub_explicit(&e->waiting, taken, memory_order_relaxed);
    if (atomic_load_explicit(&e->written, memory_order_relaxed) > 0 && is_empty(e) && make_quiet(e) && !is_empty(e))
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

static void read_counts(const events_count_t *counts, uint64_t out[BATON_REASONS])
{
    for (unsigned i = 0; i < BATON_REASONS; i++)
        out[i] = counts != NULL ? atomic_load_explicit(&counts[i], memory_order_relaxed) : 0;
}

void events_reasons(const struct events *e, uint64_t out[BATON_REASONS])
{
    read_counts(e->reasons, out);
}

void events_reasons_of(const struct events *e, uint32_t rank, uint64_t out[BATON_REASONS])
{
    read_counts(atomic_load_explicit(&e->reasons_of[rank], memory_order_acquire), out);
}
