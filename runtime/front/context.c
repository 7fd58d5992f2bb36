/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: opening, declaring, starting and closing. Each step of start is checked by this rank alone, then agreed on
 * by all, so that every rank returns the same error and none waits alone.
 */
#include "front/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "front/inside.h"
#include "topo/obstacle.h"
#include "wire/card.h"
#include "wire/row.h"
#include "wire/version.h"
#include "verdict/verdict.h"

/* ---- open -------------------------------------------------------------------------------------------------------- */

static bool name_is_good(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strnlen(name, BATON_ENGINE_NAME_MAX);
    return n > 0 && n < BATON_ENGINE_NAME_MAX && strspn(name, allowed) == n;
}

static int params_check(const baton_open_params_t *p)
{
    if (!name_is_good(p->engine))
        return error_set(BATON_EINVAL, "engine must have 1 to %d letters, digits or ._-", BATON_ENGINE_NAME_MAX - 1);
    if (p->role < BATON_ROLE_PREFILL || p->role > BATON_ROLE_BOTH)
        return error_set(BATON_EINVAL, "role %d is none of prefill, decode, both", (int)p->role);
    if (p->tp == 0 || p->pp == 0 || (uint64_t)p->tp * p->pp > BATON_ENGINE_RANKS_MAX)
        return error_set(BATON_EINVAL, "tp %u x pp %u must be 1 to %d ranks", p->tp, p->pp, BATON_ENGINE_RANKS_MAX);
    if (p->tp_rank >= p->tp || p->pp_rank >= p->pp)
        return error_set(BATON_EINVAL, "tp_rank %u of %u, pp_rank %u of %u lies outside", p->tp_rank, p->tp, p->pp_rank,
                         p->pp);
    if (p->verdicts < BATON_VERDICTS_NONE || p->verdicts > BATON_VERDICTS_LEADER)
        return error_set(BATON_EINVAL, "verdicts %d is none of none, all, leader", (int)p->verdicts);
    if (p->reserved != 0)
        return error_set(BATON_EINVAL, "reserved must be 0");
    if (p->progress < BATON_PROGRESS_AUTO || p->progress > BATON_PROGRESS_CALLER)
        return error_set(BATON_EINVAL, "progress %d is no mode", (int)p->progress);
    return 0;
}

static uint64_t incarnation_new(uint32_t rank)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts); /* it only has to differ from those of earlier starts of this rank */
    uint64_t ns = (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
    return (ns ^ ((uint64_t)rank << 48)) | UINT64_C(1) << 63; /* never 0 */
}

/*
 * Where contexts that are opened later write their log. Each context copies it when it is created, so that no thread of
 * Baton's own reads it.
 */
static struct {
    baton_log_fn sink;
    void *user;
} log_default;

void baton_log_set(baton_log_fn callback, void *user)
{
    log_default.sink = callback;
    log_default.user = user;
}

static void context_free(struct baton *b)
{
    struct call *call;
    log_settle(&b->log, true);
    log_limits_destroy(b->log.limits);
    while (b->submits != NULL && (call = ring_pop(b->submits)) != NULL)
        call_free(call);
    ring_destroy(b->submits);
    events_fini(&b->events);
    reactor_fini(&b->loop);
    lend_fini(&b->lent);
    if (b->cache != NULL)
        free((void *)b->cache->geometry.tensors);
    free(b->cache);
    directory_destroy(b->directory);
    snapshot_fini(&b->snapshot);
    calls_destroy(b->calls);
    free(b);
}

static struct baton *context_create(const baton_open_params_t *params, const struct settings *settings)
{
    struct baton *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->who = *params;
    b->settings = *settings;
    b->log = (struct logger){.level = (enum log_level)settings->log_level,
                             .rank = -1,
                             .sink = log_default.sink,
                             .sink_user = log_default.user,
                             .limits = log_limits_create()};
    reactor_init(&b->loop);
    closing_init(&b->closing);
    stall_init(&b->stall);
    snapshot_init(&b->snapshot);
    b->submits = ring_create(2 * settings->requests); /* calls, and words about them: cancel, ready, append */
    bool leads = params->tp_rank == 0 && params->pp_rank == 0;
    bool hears = params->verdicts == BATON_VERDICTS_ALL || (params->verdicts == BATON_VERDICTS_LEADER && leads);
    admission_init(&b->admission, (uint32_t)settings->requests, (uint32_t)settings->leases, hears);
    bool has_events = events_init(&b->events, admission_most_events(&b->admission));
    b->calls = calls_create(admission_most_calls(&b->admission));
    lend_init(&b->lent);
    bool lent = params->progress == BATON_PROGRESS_THREAD ||
                lend_open(&b->lent, events_fd(&b->events)); /* AUTO: which thread level MPI gives is not known yet */
    if (b->log.limits == NULL || b->submits == NULL || !has_events || b->calls == NULL || !lent) {
        context_free(b);
        return NULL;
    }
    return b;
}

static void warn_of_misspelt(const struct baton *b)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *nearest = settings_nearest(*entry);
        if (nearest != NULL)
            log_each(&b->log, LOG_WARN, "%.*s in the environment is not a setting and has no effect; the nearest is %s",
                     (int)strcspn(*entry, "="), *entry, nearest);
    }
}

static void warn_of_obstacles(const struct baton *b)
{
    struct obstacle found[OBSTACLES_MAX];
    unsigned n = obstacles_find(&b->place, found);
    for (unsigned i = 0; i < n; i++)
        log_each(&b->log, LOG_WARN, "%s: %s", found[i].what, found[i].remedy);
}

int baton_open(MPI_Comm comm, const baton_open_params_t *params, baton_t **out)
{
    baton_open_params_t own;
    struct settings settings;
    struct binding binding = {.wished = ""};
    struct baton *b = NULL;
    if (params == NULL || out == NULL)
        return error_set(BATON_EINVAL, "params and out must not be NULL");
    int local = sized_take(params, "baton_open_params_t", &own, sizeof own);
    if (local == 0)
        local = params_check(&own);
    int rc = settings_read(&settings, getenv);
    if (local == 0)
        local = rc;
    if (local == 0)
        local = binding_read(&binding, getenv);
    if (rc != 0) { /* the default settings are good enough to tell the other ranks of the error */
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%s", baton_errmsg());
        for (unsigned i = 0; i < settings_count; i++)
            ((uint64_t *)&settings)[i] = settings_table[i].preset;
        error_set(rc, "%s", sentence);
    }
    b = context_create(&own, &settings);
    if (b == NULL)
        return error_set(BATON_ENOMEM, "no memory for a context");
    rc = fabric_open(comm, &b->settings, own.progress, &b->log, local, &b->fabric);
    if (rc != 0) {
        context_free(b);
        return rc;
    }
    b->log.rank = (int)fabric_rank(b->fabric);
    if (fabric_mode(b->fabric) != BATON_PROGRESS_CALLER)
        lend_fini(&b->lent);
    b->incarnation = incarnation_new(fabric_rank(b->fabric));
    topo_find(NULL, &b->place);
    b->binding = binding;
    b->place.cpus = binding_count(&b->binding, b->place.cpus);
    if (b->who.tp_rank == 0 && b->who.pp_rank == 0) { /* the ranks of an engine usually have the same surroundings */
        warn_of_misspelt(b);
        warn_of_obstacles(b);
    }
    *out = b;
    return 0;
}

int baton_open_f(int comm, const baton_open_params_t *params, baton_t **out)
{
    MPI_Comm own;
    int rc = fabric_comm(comm, &own);
    return rc != 0 ? rc : baton_open(own, params, out);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

int baton_cache_create(baton_t *b, const baton_geometry_t *given, baton_memory_t memory, baton_cache_t **out)
{
    baton_geometry_t own, *geometry = &own;
    struct plan_why why;
    if (b == NULL || given == NULL || out == NULL)
        return error_set(BATON_EINVAL, "b, geometry and out must not be NULL");
    if (b->state != CONTEXT_OPEN)
        return error_set(BATON_ESTATE, "declare the cache before baton_start");
    if (memory != BATON_MEMORY_HOST)
        return error_set(BATON_ENOSYS, "this version allocates host memory only");
    if (b->cache != NULL)
        return error_set(BATON_ENOSYS, "this version has one cache a context");
    int rc = sized_take(given, "baton_geometry_t", geometry, sizeof *geometry);
    if (rc != 0)
        return rc;
    rc = geometry_check(geometry, &geometry->bytes, 1, &why);
    if (rc != 0)
        return error_set(rc, "geometry: %s", why.text);
    if (geometry->model[0] == '\0')
        return error_set(BATON_EINVAL, "geometry: model must not be empty");
    struct baton_cache *cache = calloc(1, sizeof *cache);
    baton_tensor_t *tensors = malloc(geometry->num_tensors * sizeof *tensors);
    if (cache == NULL || tensors == NULL) {
        free(cache);
        free(tensors);
        return error_set(BATON_ENOMEM, "no memory for the geometry");
    }
    memcpy(tensors, geometry->tensors, geometry->num_tensors * sizeof *tensors);
    cache->geometry = *geometry;
    cache->geometry.tensors = tensors;
    *out = b->cache = cache;
    return 0;
}

int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory, void *const bases[],
                     const uint64_t bytes[], uint32_t num_regions, baton_cache_t **out)
{
    (void)b, (void)geometry, (void)memory, (void)bases, (void)bytes, (void)num_regions, (void)out;
    return error_set(BATON_ENOSYS,
                     "this version cannot expose memory that the engine owns: allocate one slab by baton_cache_create");
}

void *baton_cache_base(const baton_cache_t *cache)
{
    return cache != NULL ? cache->base : NULL;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* My metadata behind the segment's first page: board, arena, card. */
struct layout {
    uint64_t board, arena, card, end;
};

static uint64_t aligned(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}

static struct layout layout_of(const struct settings *s)
{
    struct layout l = {.board = FABRIC_META_OFFSET};
    l.arena = aligned(l.board + s->leases * 8);
    l.card = aligned(l.arena + s->table_bytes);
    l.end = l.card + WIRE_CARD_MAX;
    return l;
}

static void bind_near(void *base, uint64_t bytes, void *arg)
{
    const struct baton *b = arg;
    if (b->place.numa != TOPO_UNKNOWN && topo_bind_memory(base, bytes, b->place.numa) != 0)
        log_line(&b->log, LOG_DEBUG, "memory is not bound to NUMA node %u: first touch decides", b->place.numa);
}

/* Writes the card into the segment; returns its length or an error. */
static int card_write(struct baton *b, const struct layout *l)
{
    struct wire_card card = {.incarnation = b->incarnation,
                             .board_offset = l->board,
                             .board_slots = (uint32_t)b->settings.leases,
                             .arena_offset = l->arena,
                             .arena_bytes = b->settings.table_bytes,
                             .pool_offset = fabric_pool_offset(b->fabric)};
    memcpy(card.host, b->place.host, sizeof card.host);
    if (b->cache != NULL) {
        card.has_geometry = 1;
        card.geometry = b->cache->geometry;
        card.pool_bytes = b->cache->geometry.bytes;
    }
    int n = wire_card_encode(&card, fabric_segment(b->fabric) + l->card, WIRE_CARD_MAX);
    return n < 0 ? error_set(n, "the cache's description is longer than a card of %u bytes", WIRE_CARD_MAX) : n;
}

static void row_write(const struct baton *b, const struct layout *l, uint32_t card_bytes, uint8_t *out)
{
    struct wire_row row = {.role = (uint8_t)b->who.role,
                           .tp = (uint16_t)b->who.tp,
                           .pp = (uint16_t)b->who.pp,
                           .tp_rank = (uint16_t)b->who.tp_rank,
                           .pp_rank = (uint16_t)b->who.pp_rank,
                           .node = fabric_node(b->fabric, fabric_rank(b->fabric)),
                           .package = b->place.package,
                           .numa = b->place.numa,
                           .incarnation = b->incarnation,
                           .card_offset = l->card,
                           .card_bytes = card_bytes,
                           .verdicts = (uint8_t)b->who.verdicts,
                           .rules = PLAN_RULES,
                           .features = WIRE_ROW_HOSTS};
    memcpy(row.engine, b->who.engine, sizeof row.engine);
    if (b->cache != NULL) {
        row.num_boxes = plan_boxes(&b->cache->geometry, row.box);
        row.model = geometry_model(&b->cache->geometry);
        row.block_tokens = b->cache->geometry.groups[0].block_tokens;
    }
    wire_row_encode(&row, out);
}

/* Where a rank's build does not know of this exchange, hosts have no names for any rank. */
static int hosts_exchange(struct baton *b)
{
    const struct directory *d = b->directory;
    _Static_assert(sizeof b->place.host == sizeof d->hosts[0], "a host's name has one size");
    for (uint32_t r = 0; r < d->num_ranks; r++)
        if ((d->rows[r].features & WIRE_ROW_HOSTS) == 0)
            return 0;
    int rc = fabric_exchange(b->fabric, b->place.host, sizeof b->place.host, d->hosts);
    for (uint32_t r = 0; r < d->num_ranks; r++)
        d->hosts[r][sizeof d->hosts[r] - 1] = '\0';
    return rc;
}

static int directory_build(struct baton *b, const struct layout *l)
{
    uint8_t row[WIRE_ROW_BYTES];
    struct plan_why why = {{0}};
    uint8_t *rows = malloc((size_t)fabric_size(b->fabric) * WIRE_ROW_BYTES);
    int card_bytes = rows == NULL ? error_set(BATON_ENOMEM, "no memory for the directory") : card_write(b, l);
    int rc = fabric_agree(b->fabric, "card", card_bytes < 0 ? card_bytes : 0);
    if (rc == 0) {
        fabric_sync(b->fabric);
        row_write(b, l, (uint32_t)card_bytes, row);
        rc = fabric_exchange(b->fabric, row, WIRE_ROW_BYTES, rows);
    }
    if (rc == 0) {
        rc = directory_create(rows, fabric_size(b->fabric), &b->directory, &why);
        if (rc != 0)
            error_set(rc, "%s", why.text);
        rc = fabric_agree(b->fabric, "directory", rc);
    }
    if (rc == 0)
        rc = hosts_exchange(b);
    for (uint32_t i = 0; rc == 0 && i < fabric_size(b->fabric); i++)
        if (directory_version(b->directory, fabric_rank(b->fabric), i) >= WIRE_HASHES)
            fabric_hash(b->fabric, i);
    free(rows);
    return rc;
}

static int core_build(struct baton *b, const struct layout *l)
{
    int rc = paths_create(b->fabric, &b->settings, binding_cpus(&b->binding), l->board, &b->paths);
    if (!events_know_ranks(&b->events, fabric_size(b->fabric)))
        return error_set(BATON_ENOMEM, "no memory for the counts of %u ranks", fabric_size(b->fabric));
    if (rc != 0)
        return error_set(rc, "the copy workers could not be started");
    for (uint32_t i = 0; i < fabric_size(b->fabric); i++)
        b->peers[paths_table(b->paths)[i]]++;
    rc = faults_create(getenv("BATON_FAULT"), fabric_rank(b->fabric), paths_port(b->paths), fabric_size(b->fabric),
                       fabric_segment(b->fabric) + fabric_pool_offset(b->fabric), &b->faults);
    if (rc != 0)
        return rc;
    b->port = b->faults != NULL ? faults_port(b->faults) : paths_port(b->paths);
    struct core_config config = {.settings = &b->settings,
                                 .directory = b->directory,
                                 .self = fabric_rank(b->fabric),
                                 .geometry = b->cache != NULL ? &b->cache->geometry : NULL,
                                 .path = paths_table(b->paths),
                                 .arena = fabric_segment(b->fabric) + l->arena,
                                 .arena_bytes = b->settings.table_bytes,
                                 .port = b->port,
                                 .log = &b->log,
                                 .host = b->place.host};
    rc = core_create(&config, &b->core);
    if (rc == 0)
        rc = verdicts_create(b->core);
    return rc == 0 ? 0 : error_set(rc, "no memory for the protocol's tables");
}

static int start_listening(struct baton *b)
{
    int rc = reactor_start(b);
    return rc == 0 ? fabric_on_finalize(b->fabric, reactor_abandon, b) : rc;
}

int baton_start(baton_t *b)
{
    if (b == NULL)
        return error_set(BATON_EINVAL, "b must not be NULL");
    int local = b->state == CONTEXT_OPEN ? 0 : error_set(BATON_ESTATE, "started already, or a former start failed");
    struct layout l = layout_of(&b->settings);
    uint64_t pool = b->cache != NULL ? b->cache->geometry.bytes : 0;
    int rc = fabric_agree(b->fabric, "start", local);
    if (rc == 0)
        rc = fabric_start(b->fabric, l.end - FABRIC_META_OFFSET, pool, b->place.memory_bytes, bind_near, b);
    if (rc == 0)
        rc = directory_build(b, &l);
    if (rc == 0)
        rc = fabric_selftest(b->fabric);
    if (rc == 0)
        rc = fabric_agree(b->fabric, "core", core_build(b, &l));
    if (rc == 0)
        rc = fabric_agree(b->fabric, "watchdog", stall_watch_start(b));
    if (rc == 0)
        rc = fabric_agree(b->fabric, "reactor", start_listening(b)); /* every rank can receive before any rank sends */
    if (rc != 0) {
        if (local == 0)
            b->state = CONTEXT_FAILED;
        return rc;
    }
    if (b->cache != NULL)
        b->cache->base = fabric_segment(b->fabric) + fabric_pool_offset(b->fabric);
    binding_check(b);
    b->state = CONTEXT_STARTED;
    if (fabric_mode(b->fabric) == BATON_PROGRESS_CALLER) {
        core_greet(b->core, clock_now_ns());
        lend_start(&b->lent);
    }
    reactor_go(b);
    return 0;
}

int context_check_started(const struct baton *b)
{
    if (b == NULL)
        return error_set(BATON_EINVAL, "the context must not be NULL");
    if (b->state != CONTEXT_STARTED)
        return error_set(BATON_ESTATE, "call baton_start first");
    return 0;
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

int baton_close(baton_t *b)
{
    if (b == NULL)
        return error_set(BATON_EINVAL, "b must not be NULL");
    char why[SNAPSHOT_WHY];
    if (b->state == CONTEXT_LEFT)
        return error_set(BATON_ESTATE, "MPI was finalised before: call baton_close first");
    if (fabric_on_finalize(b->fabric, NULL, NULL) != 0)
        log_line(&b->log, LOG_WARN, "%s", baton_errmsg());
    int rc = reactor_stop(b);
    stall_watch_stop(b);
    snapshot_why(&b->snapshot, why);
    if (rc !=
        0) /* the thread is inside MPI and still uses all of this: nothing is freed, the process is about to end */
        return fabric_leave_open(b->fabric, why[0] != '\0' ? why : "transfers did not come to rest");
    bool alone =
        closing_is_alone(&b->closing); /* all ranks agree on this, so that no rank waits for the others in vain */
    if (closing_has_begun(&b->closing))
        fabric_hurry(b->fabric, closing_left_ms(&b->closing, clock_now_ns()));
    paths_destroy(b->paths);
    core_destroy(b->core);
    faults_destroy(b->faults);
    if (alone)
        rc = fabric_leave_open(b->fabric, why[0] != '\0' ? why : "the control channel failed");
    else
        rc = fabric_close(b->fabric); /* all ranks agree first: none frees what another may still read */
    context_free(b);
    return rc;
}

void baton_exit(int status)
{
    fflush(NULL);
    _exit(status);
}

/* ---- for the project's own tools --------------------------------------------------------------------------------- */

const char *baton_inside_peer_pool(const baton_t *b, uint32_t peer)
{
    const uint8_t *segment = fabric_mapped(b->fabric, peer, NULL);
    /* All segments have the same layout if all ranks have the same settings. Tools make sure of that. */
    return segment != NULL ? (const char *)segment + fabric_pool_offset(b->fabric) : NULL;
}

struct fabric *baton_inside_fabric(const baton_t *b)
{
    return b->fabric;
}

int baton_describe(const baton_t *b, char *text, size_t size)
{
    if (b == NULL || (text == NULL && size > 0))
        return error_set(BATON_EINVAL, "b and text must not be NULL");
    if (b->state != CONTEXT_STARTED)
        return error_set(BATON_ESTATE, "describe after baton_start");
    char paths[128];
    paths_describe(b->paths, paths, sizeof paths);
    int n = fabric_describe(b->fabric, text, size);
    size_t used = n > 0 && (size_t)n < size ? (size_t)n : size;
    int more =
        snprintf(size > used ? text + used : NULL, size - used, "paths: %s\nplace: host %s, NUMA node %d, %u CPUs\n",
                 paths, b->place.host, b->place.numa == TOPO_UNKNOWN ? -1 : (int)b->place.numa, b->place.cpus);
    used = used + (size_t)more < size ? used + (size_t)more : size;
    return n + more + binding_describe(b, size > used ? text + used : NULL, size - used);
}
