/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start: each step is checked by this rank alone, then agreed on by all, so that every rank returns the same error and
 * none waits alone. Where caches come late, the first half makes the segments and the reactor's thread, and the second
 * half follows in that thread once all ranks have declared theirs.
 */
#include "front/start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "front/areas.h"
#include "front/cache.h"
#include "front/context.h"
#include "observe/timeline.h"
#include "verdict/verdict.h"
#include "wire/card.h"
#include "wire/row.h"

/* My metadata behind the segment's first page: board, arena, card, area (front/areas.h), and buffers for staging. */
struct layout {
    uint64_t board, arena, card, area, stage, end;
};

static uint64_t aligned(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}

static int agree(const struct baton *b, const char *step, int local)
{
    return b->on.world->agree(b->on.world->self, step, local);
}

static bool is_lost(const struct baton *b)
{
    return b->on.world->is_lost(b->on.world->self);
}

static struct layout layout_of(const struct baton *b)
{
    const struct settings *s = &b->settings;
    struct layout l = {.board = GROUND_META_OFFSET};
    l.arena = aligned(l.board + s->leases * 8);
    l.card = aligned(l.arena + s->table_bytes);
    uint64_t area = aligned(l.card + WIRE_CARD_MAX),
             area_bytes = areas_bytes((uint32_t)s->leases, b->on.ground->places);
    l.area = s->handoff > 0 ? area : 0;
    l.stage = (area + (s->handoff > 0 ? area_bytes : 0) + 4095) & ~UINT64_C(4095);
    l.end = l.stage + (b->start.stages ? s->stage_bytes : 0);
    return l;
}

static void bind_near(void *base, uint64_t bytes, void *arg)
{
    const struct baton *b = arg;
    if (b->place.numa != TOPO_UNKNOWN && topo_bind_memory(base, bytes, b->place.numa) != 0)
        log_line(&b->log, LOG_DEBUG, "memory is not bound to NUMA node %u: first touch decides", b->place.numa);
}

/* Injected faults are about messages by MPI, unless they are asked for here too. Peers must be told of lanes. */
static bool has_lanes(const struct baton *b)
{
    return b->settings.handoff == 2 || (b->settings.handoff == 1 && getenv("BATON_FAULT") == NULL);
}

/* Writes the card into the segment; returns its length or an error. */
static int card_write(struct baton *b, const struct layout *l)
{
    struct wire_card card = {.member = b->number,
                             .board_offset = l->board,
                             .board_slots = (uint32_t)b->settings.leases,
                             .arena_offset = l->arena,
                             .arena_bytes = b->settings.table_bytes,
                             .features = has_lanes(b) ? WIRE_CARD_LANES : 0,
                             .index_offset = l->area,
                             .words_offset = l->area,
                             .index_slots = l->area > 0 ? (uint32_t)b->settings.leases : 0,
                             .words_slots = l->area > 0 ? b->on.ground->places : 0,
                             .pool_offset = b->on.ground->pool_offset,
                             .segment = (uint64_t)(uintptr_t)b->on.ground->segment};
    if (b->cache != NULL) {
        card.has_geometry = 1;
        card.geometry = b->cache->geometry;
        card.pool_bytes = cache_pool_bytes(b->cache);
    }
    if (b->cache != NULL && b->cache->own != NULL) {
        card.num_regions = b->cache->own->num;
        card.regions = b->cache->own->regions;
    }
    int n = wire_card_encode(&card, b->on.ground->segment + l->card, WIRE_CARD_MAX);
    return n < 0 ? error_set(n, "the cache's description is longer than a card of %u bytes", WIRE_CARD_MAX) : n;
}

static void row_write(const struct baton *b, const struct layout *l, uint32_t card_bytes, uint8_t *out)
{
    struct wire_row row = {.role = (uint8_t)b->who.role,
                           .tp = (uint16_t)b->who.tp,
                           .pp = (uint16_t)b->who.pp,
                           .tp_rank = (uint16_t)b->who.tp_rank,
                           .pp_rank = (uint16_t)b->who.pp_rank,
                           .node = b->on.world->node,
                           .package = b->place.package,
                           .numa = b->place.numa,
                           .number = b->number,
                           .card_offset = l->card,
                           .card_bytes = card_bytes,
                           .verdicts = (uint8_t)b->who.verdicts,
                           .rules = PLAN_RULES,
                           .features = cache_features(b->cache)};
    memcpy(row.engine, b->who.engine, sizeof row.engine);
    _Static_assert(sizeof b->place.host == sizeof row.host, "a host's name has one size");
    memcpy(row.host, b->place.host, sizeof row.host);
    if (b->cache != NULL) {
        row.num_boxes = plan_boxes(&b->cache->geometry, row.box);
        row.model = geometry_model(&b->cache->geometry);
        row.block_tokens = b->cache->geometry.groups[0].block_tokens;
    }
    wire_row_encode(&row, out);
}

/* Of this engine: what names this rank elsewhere has it. relaxed: it is a number that orders nothing. */
static void learn_life(struct baton *b)
{
    const struct directory *d = b->directory;
    const uint64_t life = d->engines[d->engine_of[b->on.ground->self]]->life;
    atomic_store_explicit(&b->log.life, life, memory_order_relaxed);
    timeline_add_life(b->log.timeline, life);
}

static int directory_build(struct baton *b, const struct layout *l)
{
    uint8_t row[WIRE_ROW_BYTES];
    struct plan_why why = {{0}};
    uint8_t *rows = malloc((size_t)b->on.ground->num_peers * WIRE_ROW_BYTES);
    int card_bytes = rows == NULL ? error_set(BATON_ENOMEM, "no memory for the directory") : card_write(b, l);
    int rc = agree(b, "card", card_bytes < 0 ? card_bytes : 0);
    if (rc == 0) {
        b->on.net->sync(b->on.net->self);
        row_write(b, l, (uint32_t)card_bytes, row);
        rc = b->on.world->exchange(b->on.world->self, row, WIRE_ROW_BYTES, rows);
    }
    if (rc == 0) {
        rc = directory_of_world(rows, b->on.ground->num_peers, &b->directory, &why);
        if (rc == 0)
            rc = fleet_publish_all(b->fleet, b->directory, b->on.ground->self);
        if (rc != 0)
            error_set(rc, "%s", why.text);
        else
            learn_life(b);
        rc = agree(b, "directory", rc);
    }
    if (!is_lost(b)) /* else MPI may still write there */
        free(rows);
    return rc;
}

static int paths_build(struct baton *b, const struct layout *l)
{
    const struct paths_wish wish = {.ground = b->on.ground,
                                    .net = b->on.net,
                                    .settings = &b->settings,
                                    .log = &b->log,
                                    .directory = b->directory,
                                    .cpus = binding_cpus(&b->binding),
                                    .look = turns_worker,
                                    .arg = b,
                                    .board_offset = l->board,
                                    .area_offset = l->area,
                                    .has_lanes = has_lanes(b),
                                    .stage_offset = l->stage,
                                    .stage_bytes = l->end - l->stage,
                                    .cache = b->cache,
                                    .driver = b->start.driver.copy != NULL ? &b->start.driver : NULL};
    int rc = agree(b, "paths", paths_create(&wish, &b->paths));
    if (rc != 0)
        return rc;
    paths_open(b->paths);
    rc = agree(b, "places", 0);
    if (rc == 0)
        paths_meet(b->paths);
    return rc;
}

static int core_build(struct baton *b, const struct layout *l)
{
    if (!events_know_ranks(&b->events, b->on.ground->num_peers))
        return error_set(BATON_ENOMEM, "no memory for the counts of %u ranks", b->on.ground->num_peers);
    int rc = meter_start(b, getenv);
    if (rc != 0)
        return rc;
    rc = faults_create(getenv("BATON_FAULT"), b->on.ground->self, paths_port(b->paths), b->on.ground->num_peers,
                       cache_touchable(b->cache), b->settings.handoff == 2, &b->faults);
    if (rc != 0)
        return rc;
    b->port = b->faults != NULL ? faults_port(b->faults) : paths_port(b->paths);
    b->loop.turns.can_lend =
        b->on.mode != BATON_PROGRESS_CALLER && b->port->handoff != NULL && paths_can_lend(b->paths);
    struct core_config config = {.settings = &b->settings,
                                 .directory = b->directory,
                                 .self = b->on.ground->self,
                                 .geometry = b->cache != NULL ? &b->cache->geometry : NULL,
                                 .path = paths_table(b->paths),
                                 .path_out = paths_table_out(b->paths),
                                 .arena = b->on.ground->segment + l->arena,
                                 .arena_bytes = b->settings.table_bytes,
                                 .port = b->port,
                                 .log = &b->log,
                                 .metrics = b->loop.meter.metrics};
    rc = core_create(&config, &b->core);
    if (rc == 0)
        rc = verdicts_create(b->core);
    return rc == 0 ? 0 : error_set(rc, "no memory for the protocol's tables");
}

/* ---- the two halves ---------------------------------------------------------------------------------------------- */

/* The segments: what does not depend on caches that come late. */
static int first_half(struct baton *b, const struct layout *l)
{
    const struct world_segment wish = {l->end - GROUND_META_OFFSET, cache_pool_bytes(b->cache), b->place.memory_bytes,
                                       bind_near, b};
    int rc = b->on.world->start(b->on.world->self, &wish);
    if (rc == 0 && l->area > 0) /* MPI may hand out memory of an earlier context again */
        memset(b->on.ground->segment + l->area, 0, l->stage - l->area);
    if (rc == 0 && b->cache != NULL && b->cache->own == NULL)
        cache_place(b->cache, b->on.ground->segment + b->on.ground->pool_offset);
    return rc;
}

/* All ranks know of all whether memory that engines own is to be reached from other nodes. */
static bool must_expose(const struct baton *b)
{
    const struct directory *d = b->directory;
    uint32_t r = 0;
    while (r < d->num_ranks && !cache_is_exposed(d->rows[r].features))
        r++;
    return r < d->num_ranks && b->on.net->has_nodes;
}

/*
 * What no rank of an engine holds is not moved, and no want misses it: the heads of a rank that were counted wrongly,
 * say. The first rank with a cache warns.
 */
static void warn_of_gaps(const struct baton *b)
{
    const struct directory_engine *e = b->directory->engines[b->directory->engine_of[b->on.ground->self]];
    struct plan_why why;
    uint32_t first = 0;
    while (first < e->num_ranks && e->members[first].num_boxes == 0)
        first++;
    if (first == e->num_ranks || e->ranks[first] != b->on.ground->self)
        return;
    if (plan_check_whole(&b->cache->geometry, e->members, e->num_ranks, &why) == BATON_ESOURCE)
        log_line(&b->log, LOG_WARN, "engine %s has a part of the model only, and nothing else is moved to it: %s",
                 b->who.engine, why.text);
}

/* Who the ranks are, what they hold and how it is reached. Blocks for milliseconds, and for a rank that is slower. */
static int second_half(struct baton *b, const struct layout *l)
{
    const struct path_regions none = {0};
    int rc = directory_build(b, l);
    if (rc == 0)
        warn_of_gaps(b);
    if (rc == 0 && must_expose(b))
        rc = b->on.world->expose(b->on.world->self,
                                 cache_is_exposed(cache_features(b->cache)) ? cache_regions(b->cache) : &none);
    if (rc == 0)
        rc = b->on.world->doorbell(b->on.world->self, turns_rung, b, binding_cpus(&b->binding));
    if (rc == 0)
        rc = b->on.world->selftest(b->on.world->self, l->stage, l->end - l->stage);
    if (rc == 0)
        rc = paths_build(b, l);
    if (rc == 0)
        rc = agree(b, "core", core_build(b, l));
    if (rc == 0)
        rc = agree(b, "watchdog", stall_watch_start(b));
    if (rc == 0 && b->cache != NULL && b->cache->own != NULL)
        memory_own_settle(b->cache->own); /* every rank of the node has looked */
    return rc;
}

static int start_listening(struct baton *b)
{
    int rc = reactor_start(b);
    return rc == 0 ? b->on.world->on_finalize(b->on.world->self, reactor_abandon, b) : rc;
}

/*
 * In the thread that makes turns, or one that has asked whether caches are ready. The state comes last: from then on
 * other threads may make turns too. A context that MPI_Finalize left meanwhile stays so.
 */
static void begin_turns(struct baton *b, enum context_state from)
{
    binding_check(b);
    if (b->on.mode == BATON_PROGRESS_CALLER)
        caller_start(&b->caller);
    atomic_store_explicit(&b->start.is_whole, true, memory_order_release);
    atomic_compare_exchange_strong(&b->state, &from, CONTEXT_STARTED);
    context_tell_engines(b); /* who hears it may ask for them */
}

/* The sentence of the error stays, for calls that come later. */
static void fail(struct baton *b, enum context_state from)
{
    snprintf(b->start.why, sizeof b->start.why, "%s", baton_errmsg());
    atomic_compare_exchange_strong(&b->state, &from, CONTEXT_FAILED);
}

/* Whether all ranks have declared theirs, and whether bytes may have to be staged between any two. */
static int look_at_caches(struct baton *b, bool is_declared, bool *all)
{
    bool is_ours = is_declared && (b->cache == NULL || b->cache->own == NULL);
    const int mine[2] = {is_declared, is_ours};
    int least[2] = {0, 0};
    int rc = b->on.world->least(b->on.world->self, "caches are declared", mine, least);
    *all = least[0] != 0;
    b->start.stages = least[1] == 0;
    return rc;
}

/* The second half waits from now on, for caches that come late. */
static void late_begin(struct baton *b, bool is_declared)
{
    struct start *l = &b->start;
    atomic_store_explicit(&l->ready, BATON_EAGAIN, memory_order_relaxed);
    atomic_store_explicit(&l->is_declared, is_declared, memory_order_relaxed);
    l->is_late = true;
    b->state = CONTEXT_WAITING;
}

int baton_start(baton_t *b)
{
    int rc = context_check(b);
    if (rc != 0)
        return rc;
    if (b->state == CONTEXT_LEFT)
        return context_check_started(b);
    int local = b->state == CONTEXT_OPEN     ? 0
                : b->state == CONTEXT_FAILED ? context_check_started(b)
                                             : error_set(BATON_ESTATE, "started already");
    bool is_declared = b->cache != NULL || (b->who.flags & BATON_OPEN_CACHE_LATER) == 0, all = false;
    rc = agree(b, "start", local);
    if (rc == 0)
        rc = look_at_caches(b, is_declared, &all);
    struct layout l = layout_of(b);
    if (rc == 0)
        rc = first_half(b, &l);
    if (rc == 0)
        rc = all ? second_half(b, &l) : agree(b, "meeting", b->on.world->meet_init(b->on.world->self));
    if (rc == 0)
        rc = agree(b, "reactor", start_listening(b)); /* every rank can receive before any rank sends */
    if (rc != 0) {
        if (local == 0)
            fail(b, CONTEXT_OPEN);
        return rc;
    }
    caller_take(&b->caller);
    if (all)
        begin_turns(b, CONTEXT_OPEN);
    else
        late_begin(b, is_declared);
    reactor_go(b);
    return 0;
}

/* ---- caches that come late --------------------------------------------------------------------------------------- */

#define LATE_PAUSE_NS (1 * CLOCK_NS_PER_MS)

int late_check(const struct baton *b)
{
    bool is_late = b->state == CONTEXT_WAITING && (b->who.flags & BATON_OPEN_CACHE_LATER) != 0;
    if (b->state == CONTEXT_OPEN || is_late)
        return 0;
    if (b->state == CONTEXT_FAILED || b->state == CONTEXT_LEFT)
        return context_check_started(b);
    return error_set(BATON_ESTATE, "declare the cache before baton_start, or open with BATON_OPEN_CACHE_LATER");
}

void late_declared(struct baton *b)
{
    if (b->state != CONTEXT_WAITING)
        return;
    /* Release: the thread that goes on sees the cache. */
    atomic_store_explicit(&b->start.is_declared, true, memory_order_release);
    if (b->on.mode == BATON_PROGRESS_THREAD)
        bell_ring(ground_bell(b->on.ground));
}

static int late_end(struct baton *b, int rc)
{
    if (rc == 0)
        begin_turns(b, CONTEXT_WAITING);
    else
        fail(b, CONTEXT_WAITING);
    /* Release: whoever sees this may use all that the second half made. */
    atomic_store_explicit(&b->start.ready, rc, memory_order_release);
    return rc;
}

/* Every rank agrees once: those that go on, and those that close instead. So none goes on without the others. */
static int late_agree(struct baton *b, int local)
{
    b->start.has_agreed = true;
    return agree(b, "caches that come late", local);
}

/* One look. BATON_EAGAIN: not all ranks have declared their caches yet. */
static int late_step(struct baton *b)
{
    int rc = b->on.world->meet(b->on.world->self, atomic_load_explicit(&b->start.is_declared, memory_order_acquire));
    if (rc == BATON_EAGAIN)
        return rc;
    const struct layout layout = layout_of(b);
    if (rc == 0)
        rc = late_agree(b, 0);
    return late_end(b, rc == 0 ? second_half(b, &layout) : rc);
}

int start_forgo(struct baton *b)
{
    if (b->state != CONTEXT_OPEN)
        return 0;
    int rc = agree(b, "start",
                   error_set(BATON_ECLOSED, "engine %s on host %s closes before baton_start: was its cache refused?",
                             b->who.engine, b->place.host));
    return is_lost(b) ? rc : 0;
}

int late_close(struct baton *b)
{
    char met[256];
    if (!b->start.is_late || b->start.has_agreed)
        return 0;
    uint64_t until = clock_now_ns() + b->settings.close_ms * CLOCK_NS_PER_MS;
    error_set(BATON_ECLOSED, "rank %u (engine %s, host %s) closes before all ranks have declared their caches",
              b->on.ground->self, b->who.engine, b->place.host);
    int rc = b->on.world->meet_close(b->on.world->self, until);
    if (rc == BATON_EPEER)
        return rc;
    snprintf(met, sizeof met, "%s", baton_errmsg());
    uint64_t now = clock_now_ns();
    b->on.world->hurry(b->on.world->self, until > now ? (until - now) / CLOCK_NS_PER_MS : 0);
    int agreed =
        late_agree(b, error_set(BATON_ECLOSED, "the context closes before all ranks have declared their caches"));
    if (!is_lost(b))
        return 0;
    return rc == 0 ? agreed : error_set(agreed, "not all ranks came to close (BATON_CLOSE_MS); before, %s", met);
}

int late_run(struct baton *b)
{
    const struct loop *l = &b->loop;
    struct bell *bell = ground_bell(b->on.ground);
    int rc = BATON_EAGAIN;
    while (rc == BATON_EAGAIN && !reactor_must_end(l)) {
        uint32_t seen = bell_read(bell);
        rc = late_step(b);
        if (rc == BATON_EAGAIN)
            bell_sleep(bell, seen, LATE_PAUSE_NS);
    }
    return rc;
}

/* Whether MPI bears that the calling thread goes on with the start. */
static bool late_may(const struct baton *b)
{
    return b->on.mode != BATON_PROGRESS_CALLER || caller_is_mine(b) || b->on.world->bears_threads;
}

/* One look in the caller's thread, unless another thread is at it. */
static void late_lend(struct baton *b)
{
    if (!owned_try(&b->start.look))
        return;
    if (b->state == CONTEXT_WAITING)
        late_step(b);
    owned_give(&b->start.look);
}

int baton_cache_ready(baton_t *b)
{
    int rc = context_check(b);
    if (rc != 0)
        return rc;
    struct start *l = &b->start;
    enum context_state state = b->state;
    if (state == CONTEXT_LEFT)
        return context_check_started(b);
    const bool may = state != CONTEXT_WAITING || late_may(b);
    if (state == CONTEXT_WAITING && may && b->on.mode == BATON_PROGRESS_CALLER)
        late_lend(b);
    rc = atomic_load_explicit(&l->ready, memory_order_acquire);
    if (rc == BATON_EAGAIN && !may)
        return error_set(rc, "the thread that lends itself has not gone on yet: baton_progress makes this one it");
    if (rc == BATON_EAGAIN) {
        char missing[128];
        b->on.world->meet_missing(b->on.world->self, missing, sizeof missing);
        return error_set(rc, "not every rank has declared its cache%s%s", missing[0] != '\0' ? "; " : "", missing);
    }
    if (rc != 0)
        return error_set(rc, "%s", l->why);
    return state == CONTEXT_WAITING ? 0 : context_check_started(b);
}
