/* SPDX-License-Identifier: BSD-3-Clause */
/* report: what the engine hears and reads, in any thread: events, engines, handshakes under way, statistics. None
 * waits. */
#include "front/context.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"

/* ---- events ------------------------------------------------------------------------------------------------------ */

int baton_event_fd(const baton_t *b)
{
    const int rc = context_check(b);
    if (rc != 0)
        return rc;
    events_watch((struct events *)&b->events); /* the context is no constant: baton_open made it */
    int lent = lend_fd(&b->lent);
    return lent >= 0 ? lent : events_fd(&b->events);
}

/* The i-th element of an array of the caller's, whose elements have that size. */
static void *at(void *array, int i, size_t size)
{
    return (unsigned char *)array + (size_t)i * size;
}

static int take_events(struct baton *b, void *events, int max, size_t size)
{
    struct outcome *outcome;
    int n = 0;
    events_poll_begin(&b->events);
    while (n < max && (outcome = events_take(&b->events)) != NULL) {
        sized_fill(&outcome->event, sizeof outcome->event, at(events, n++, size), size);
        admission_polled(&b->admission, &outcome->event);
        outcome_free(outcome);
    }
    events_poll_end(&b->events, (uint32_t)n, n == max);
    return n;
}

int baton_poll_sized(baton_t *b, void *events, int max, size_t size)
{
    int rc = context_check(b);
    if (rc == 0 && ((events == NULL && max > 0) || max < 0))
        rc = error_set(BATON_EINVAL, "events must not be NULL, max not negative");
    if (rc == 0)
        rc = sized_check(size, "baton_event_t");
    if (rc != 0)
        return rc;
    if (b->state == CONTEXT_STARTED && lend_is_mine(b))
        lend_turn(b);
    int n = take_events(b, events, max, size);
    if (b->state == CONTEXT_STARTED && turns_polled(b, n > 0))
        n = take_events(b, events, max, size);
    return n;
}

int baton_progress(baton_t *b)
{
    int rc = context_check(b);
    if (rc == 0 && b->state == CONTEXT_WAITING)
        lend_take(&b->lent);
    if (rc == 0)
        rc = context_check_started(b);
    if (rc != 0)
        return rc;
    if (fabric_mode(b->fabric) != BATON_PROGRESS_CALLER)
        return error_set(BATON_ESTATE, "the reactor thread makes progress by itself");
    lend_turn(b);
    return (int)events_waiting(&b->events);
}

/* ---- the world ------------------------------------------------------------------------------------------------ */

static int check_rank(const baton_t *b, uint32_t rank)
{
    if (rank >= fabric_size(b->fabric))
        return error_set(BATON_EINVAL, "rank %u of a world of %u", rank, fabric_size(b->fabric));
    return 0;
}

int baton_distance(const baton_t *b, uint32_t rank)
{
    int rc = context_check_started(b);
    if (rc == 0)
        rc = check_rank(b, rank);
    return rc != 0 ? rc : (int)directory_distance(b->directory, fabric_rank(b->fabric), rank);
}

static baton_engine_t engine_of(const baton_t *b, const struct directory_engine *engine)
{
    const struct directory *d = b->directory;
    const struct wire_row *first = &d->rows[engine->ranks[0]];
    uint32_t nearest = directory_nearest(d, fabric_rank(b->fabric), engine);
    baton_engine_t out = {.role = (baton_role_t)first->role,
                          .tp = first->tp,
                          .pp = first->pp,
                          .ranks = engine->ranks,
                          .hosts = engine->hosts,
                          .nearest = nearest,
                          .distance = directory_distance(d, fabric_rank(b->fabric), nearest)};
    memcpy(out.name, engine->name, sizeof out.name);
    return out;
}

int baton_engines_sized(const baton_t *b, void *out, int max, size_t size)
{
    int rc = context_check_started(b);
    if (rc == 0 && ((out == NULL && max > 0) || max < 0))
        rc = error_set(BATON_EINVAL, "out must not be NULL, max not negative");
    if (rc == 0)
        rc = sized_check(size, "baton_engine_t");
    if (rc != 0)
        return rc;
    int num = (int)b->directory->num_engines;
    for (int i = 0; i < num && i < max; i++) {
        baton_engine_t engine = engine_of(b, &b->directory->engines[i]);
        sized_fill(&engine, sizeof engine, at(out, i, size), size);
    }
    return num;
}

/* ---- readings ---------------------------------------------------------------------------------------------------- */

int baton_pending_sized(baton_t *b, void *out, int max, size_t size)
{
    baton_pending_t pending[SNAPSHOT_PENDING];
    int rc = context_check(b);
    if (rc == 0 && ((out == NULL && max > 0) || max < 0))
        rc = error_set(BATON_EINVAL, "out must not be NULL, max not negative");
    if (rc == 0)
        rc = sized_check(size, "baton_pending_t");
    if (rc != 0)
        return rc;
    reactor_refresh(b);
    int n = snapshot_pending(&b->snapshot, pending);
    if (n > max)
        n = max;
    for (int i = 0; i < n; i++)
        sized_fill(&pending[i], sizeof pending[i], at(out, i, size), size);
    return n;
}

int baton_stats_sized(baton_t *b, void *out, size_t size)
{
    baton_stats_t stats;
    int rc = context_check(b);
    if (rc == 0 && out == NULL)
        rc = error_set(BATON_EINVAL, "out must not be NULL");
    if (rc == 0)
        rc = sized_check(size, "baton_stats_t");
    if (rc != 0)
        return rc;
    stats_read(b, &stats);
    sized_fill(&stats, sizeof stats, out, size);
    return 0;
}

int baton_peer_stats_sized(baton_t *b, uint32_t rank, void *out, size_t size)
{
    int rc = context_check_started(b);
    if (rc == 0 && out == NULL)
        rc = error_set(BATON_EINVAL, "out must not be NULL");
    if (rc == 0)
        rc = sized_check(size, "baton_peer_stats_t");
    if (rc == 0)
        rc = check_rank(b, rank);
    if (rc != 0)
        return rc;
    baton_peer_stats_t stats = {.path = paths_table(b->paths)[rank]};
    snprintf(stats.engine, sizeof stats.engine, "%s", b->directory->engines[b->directory->engine_of[rank]].name);
    events_reasons_of(&b->events, rank, stats.reasons);
    for (unsigned i = 0; i < BATON_REASONS; i++)
        stats.failures += stats.reasons[i];
    sized_fill(&stats, sizeof stats, out, size);
    return 0;
}
