/* SPDX-License-Identifier: BSD-3-Clause */
/* query: what the engine hears and reads, in any thread: events, engines, handshakes under way, statistics. None
 * waits. */
#include "front/context.h"

#include <stddef.h>
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
    int own = caller_fd(&b->caller);
    return own >= 0 ? own : events_fd(&b->events);
}

/* The i-th element of an array of the caller's, whose elements have that size. */
static void *at(void *array, int i, size_t size)
{
    return (unsigned char *)array + (size_t)i * size;
}

/* Engines have come or gone: the event tells of the newest version. */
static void take_engines(const struct baton *b, void *out, size_t size)
{
    const baton_event_t event = {
        .type = BATON_EVENT_ENGINES, .status = BATON_STATUS_DONE, .version = fleet_number(b->fleet)};
    sized_fill(&event, sizeof event, out, size);
}

static int take_events(struct baton *b, void *events, int max, size_t size)
{
    struct outcome *outcome;
    int n = 0;
    while (n < max && (outcome = events_take(&b->events)) != NULL) {
        void *out = at(events, n++, size);
        if (events_is_engines(&b->events, outcome)) {
            take_engines(b, out, size);
            continue;
        }
        sized_fill(&outcome->event, sizeof outcome->event, out, size);
        admission_polled(&b->admission, &outcome->event);
        outcome_free(outcome);
    }
    events_poll_end(&b->events, (uint32_t)n);
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
    if (b->state == CONTEXT_STARTED && caller_is_mine(b))
        caller_turn(b);
    int n = take_events(b, events, max, size);
    if (b->state == CONTEXT_STARTED && turns_polled(b, n > 0))
        n = take_events(b, events, max, size);
    return n;
}

int baton_progress(baton_t *b)
{
    int rc = context_check(b);
    if (rc == 0 && b->state == CONTEXT_WAITING)
        caller_take(&b->caller);
    if (rc == 0)
        rc = context_check_started(b);
    if (rc != 0)
        return rc;
    if (b->on.mode != BATON_PROGRESS_CALLER)
        return error_set(BATON_ESTATE, "the reactor thread makes progress by itself");
    caller_turn(b);
    return (int)events_waiting(&b->events);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

static int check_list(const struct baton *b, const void *out, int max, size_t size, const char *type)
{
    int rc = context_check_started(b);
    if (rc == 0 && ((out == NULL && max > 0) || max < 0))
        rc = error_set(BATON_EINVAL, "out must not be NULL, max not negative");
    return rc != 0 ? rc : sized_check(size, type);
}

static baton_engine_t engine_of(const struct fleet_engine *engine)
{
    baton_engine_t out = {.role = engine->role,
                          .tp = engine->tp,
                          .pp = engine->pp,
                          .num_ranks = engine->num_ranks,
                          .distance = engine->ranks[engine->nearest].distance,
                          .nearest = engine->nearest,
                          .life = engine->life};
    memcpy(out.name, engine->name, sizeof out.name);
    return out;
}

int baton_engines_sized(const baton_t *b, uint64_t *version, void *out, int max, size_t size)
{
    unsigned place;
    const int rc = check_list(b, out, max, size, "baton_engine_t");
    if (rc != 0)
        return rc;
    const struct fleet_version *v = fleet_read(b->fleet, &place);
    const int num = (int)v->num_engines;
    for (int i = 0; i < num && i < max; i++) {
        const baton_engine_t engine = engine_of(v->engines[i]);
        sized_fill(&engine, sizeof engine, at(out, i, size), size);
    }
    if (version != NULL)
        *version = v->number;
    fleet_done(b->fleet, place);
    return num;
}

static baton_engine_rank_t rank_of(const struct fleet_engine *engine, uint32_t i)
{
    const struct fleet_rank *rank = &engine->ranks[i];
    baton_engine_rank_t out = {.number = rank->number,
                               .pp_rank = i / engine->tp,
                               .tp_rank = i % engine->tp,
                               .distance = rank->distance,
                               .world_rank = (int32_t)rank->rank};
    _Static_assert(sizeof out.host == WIRE_HOST_MAX, "a host's name has one size");
    snprintf(out.host, sizeof out.host, "%s", rank->host);
    return out;
}

int baton_engine_ranks_sized(const baton_t *b, const char *engine, void *out, int max, size_t size)
{
    unsigned place;
    int rc = check_list(b, out, max, size, "baton_engine_rank_t");
    if (rc == 0 && engine == NULL)
        rc = error_set(BATON_EINVAL, "engine must not be NULL");
    if (rc != 0)
        return rc;
    const struct fleet_engine *found = fleet_named(fleet_read(b->fleet, &place), engine);
    const int num = found != NULL ? (int)found->num_ranks : BATON_EENGINE;
    for (int i = 0; i < num && i < max; i++) {
        const baton_engine_rank_t rank = rank_of(found, (uint32_t)i);
        sized_fill(&rank, sizeof rank, at(out, i, size), size);
    }
    fleet_done(b->fleet, place);
    return num >= 0 ? num : error_set(num, "no engine is called %.63s", engine);
}

/* ---- readings ---------------------------------------------------------------------------------------------------- */

static int check_asked(const struct baton *b, const baton_stats_t *asked)
{
    if ((asked->pending == NULL && asked->max_pending > 0) || (asked->peer_stats == NULL && asked->num_peers > 0))
        return error_set(BATON_EINVAL,
                         "pending and peer_stats must not be NULL where max_pending and num_peers are not 0");
    int rc = asked->num_peers > 0 ? context_check_started(b) : 0;
    if (rc != 0)
        return rc;
    const uint32_t size = b->on.ground->num_peers;
    if (asked->num_peers > 0 && (asked->first_peer >= size || asked->num_peers > size - asked->first_peer))
        return error_set(BATON_EINVAL, "%u ranks from rank %u on, of a world of %u", asked->num_peers,
                         asked->first_peer, size);
    return 0;
}

static baton_peer_stats_t peer_of(const struct baton *b, uint32_t rank)
{
    baton_peer_stats_t out = {.path = paths_table(b->paths)[rank]};
    snprintf(out.engine, sizeof out.engine, "%s", b->directory->engines[b->directory->engine_of[rank]]->name);
    events_reasons_of(&b->events, rank, out.reasons);
    for (unsigned i = 0; i < BATON_REASONS; i++)
        out.failures += out.reasons[i];
    return out;
}

int baton_stats(baton_t *b, baton_stats_t *stats)
{
    baton_stats_t own, counts;
    int rc = context_check(b);
    if (rc == 0)
        rc = sized_take(stats, "baton_stats_t", &own, sizeof own);
    if (rc == 0)
        rc = check_asked(b, &own);
    if (rc != 0)
        return rc;
    stats_read(b, &counts);
    memcpy(&own, &counts, offsetof(baton_stats_t, pending)); /* behind them stands what is asked for */
    own.num_pending = 0;
    if (own.max_pending > 0) {
        reactor_refresh(b);
        own.num_pending = snapshot_pending(&b->snapshot, own.pending, own.max_pending);
    }
    for (uint32_t i = 0; i < own.num_peers; i++)
        own.peer_stats[i] = peer_of(b, own.first_peer + i);
    sized_give_back(&own, sizeof own, stats);
    return 0;
}
