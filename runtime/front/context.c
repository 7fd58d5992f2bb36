/* SPDX-License-Identifier: BSD-3-Clause */
/* context: opening, closing, describing. */
#include "front/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/forked.h"
#include "base/textbuf.h"
#include "base/sized.h"
#include "front/inside.h"
#include "observe/timeline.h"
#include "topo/obstacle.h"

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
    if ((p->flags & ~(uint32_t)(BATON_OPEN_CACHE_LATER | BATON_OPEN_ENGINES)) != 0)
        return error_set(BATON_EINVAL, "flags %u has bits that are unknown", p->flags);
    if (p->progress < BATON_PROGRESS_AUTO || p->progress > BATON_PROGRESS_CALLER)
        return error_set(BATON_EINVAL, "progress %d is no mode", (int)p->progress);
    return 0;
}

/* Of a new member: any but 0. Of two contexts that ever were, none have the same, whatever their clocks say. */
static int number_new(uint64_t *number)
{
    do
        if (getrandom(number, sizeof *number, 0) != sizeof *number)
            return error_set(BATON_ESYSTEM, "no random number for this context: %s", strerror(errno));
    while (*number == 0);
    return 0;
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
    struct mpsc_item *item;
    timeline_destroy(b->log.timeline);
    b->log.timeline = NULL;
    log_settle(&b->log, true);
    log_limits_destroy(b->log.limits);
    while ((item = mpsc_pop(&b->submits)) != NULL)
        call_free(call_of_item(item));
    events_fini(&b->events);
    meter_fini(&b->loop.meter);
    reactor_fini(&b->loop);
    caller_fini(&b->caller);
    cache_free(b->cache);
    fleet_destroy(b->fleet);
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
    b->log = (struct logger){.level = (enum log_level)settings->log,
                             .rank = -1,
                             .index = params->pp_rank * params->tp + params->tp_rank,
                             .sink = log_default.sink,
                             .sink_user = log_default.user,
                             .limits = log_limits_create()};
    snprintf(b->log.engine, sizeof b->log.engine, "%.*s", BATON_ENGINE_NAME_MAX - 1, params->engine);
    reactor_init(&b->loop);
    stall_init(&b->stall);
    snapshot_init(&b->snapshot);
    mpsc_init(&b->submits, 2 * (uint32_t)settings->requests); /* calls, and words on them: cancel, ready, append */
    bool leads = params->tp_rank == 0 && params->pp_rank == 0;
    bool hears = params->verdicts == BATON_VERDICTS_ALL || (params->verdicts == BATON_VERDICTS_LEADER && leads);
    admission_init(&b->admission, (uint32_t)settings->requests, (uint32_t)settings->leases, hears);
    bool has_events = events_init(&b->events, admission_most_events(&b->admission));
    b->calls = calls_create(admission_most_calls(&b->admission));
    b->fleet = fleet_create();
    caller_init(&b->caller);
    bool is_open =
        params->progress == BATON_PROGRESS_THREAD ||
        caller_open(&b->caller, events_fd(&b->events)); /* AUTO: which thread level MPI gives is not known yet */
    if (b->log.limits == NULL || !has_events || b->calls == NULL || b->fleet == NULL || !is_open) {
        context_free(b);
        return NULL;
    }
    return b;
}

static void warn_of_misspelt(const struct baton *b)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        char nearest[SETTING_SPELLING_MAX];
        if (settings_nearest(*entry, nearest))
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

/* An engine runs on without its timeline. */
static void make_timeline(struct baton *b)
{
    const char *path = getenv("BATON_TRACE");
    const struct timeline_wish wish = {.path = path,
                                       .rank = b->on.ground->self,
                                       .workers = (uint32_t)b->settings.copy_workers,
                                       .index = b->log.index,
                                       .engine = b->who.engine,
                                       .host = b->place.host,
                                       .cpus = binding_cpus(&b->binding),
                                       .bytes = TIMELINE_BYTES,
                                       .records = TIMELINE_RECORDS,
                                       .log = &b->log};
    if (path != NULL && path[0] != '\0' && timeline_create(&wish, &b->log.timeline) != 0)
        log_each(&b->log, LOG_ERROR, "BATON_TRACE has no effect: %s", baton_errmsg());
}

/* In a forked child MPI is not even asked. */
static int may_open(void)
{
    if (forked_is())
        return error_set(BATON_ESTATE, "MPI belongs to the process that this one was forked from: open contexts in "
                                       "programs that are executed, not in forked children");
    return 0;
}

int context_open_on(const baton_open_params_t *params,
                    int (*find)(void *arg, const struct opening *o, struct footing *out), void *arg, baton_t **out)
{
    if (may_open() != 0)
        return BATON_ESTATE;
    baton_open_params_t own;
    struct settings settings;
    struct binding binding = {.wished = ""};
    struct baton *b = NULL;
    if (params == NULL || out == NULL)
        return error_set(BATON_EINVAL, "params and out must not be NULL");
    int local = sized_take(params, "baton_open_params_t", &own, sizeof own);
    if (local == 0)
        local = params_check(&own);
    int rc = settings_read(&settings, environ);
    if (local == 0)
        local = rc;
    if (local == 0)
        local = binding_read(&binding, getenv);
    const int watched = forked_watch();
    if (local == 0 && watched != 0)
        local = error_set(BATON_ESYSTEM, "forked children could not be told apart: %s", strerror(watched));
    if (rc != 0) /* the default settings are good enough to tell the other ranks of the error */
        settings_read(&settings, NULL);
    b = context_create(&own, &settings);
    if (b == NULL && local == 0)
        local = error_set(BATON_ENOMEM, "no memory for a context");
    if (local == 0)
        local = number_new(&b->number);
    struct logger none = {.level = LOG_NONE, .rank = -1}; /* and without a context the other ranks are told, too */
    const struct opening o = {&settings, own.progress, b != NULL ? &b->log : &none, local};
    struct footing on;
    rc = find(arg, &o, &on);
    if (b == NULL)
        return rc;
    if (rc != 0) {
        context_free(b);
        return rc;
    }
    b->on = on;
    b->log.rank = (int)b->on.ground->self;
    if (b->on.mode != BATON_PROGRESS_CALLER)
        caller_fini(&b->caller);
    topo_find(NULL, NULL, &b->place);
    b->binding = binding;
    b->place.cpus = binding_count(&b->binding, b->place.cpus);
    if (b->who.tp_rank == 0 && b->who.pp_rank == 0) { /* the ranks of an engine usually have the same surroundings */
        warn_of_misspelt(b);
        warn_of_obstacles(b);
    }
    make_timeline(b);
    *out = b;
    return 0;
}

int context_check(const struct baton *b)
{
    if (b == NULL)
        return error_set(BATON_EINVAL, "the context must not be NULL");
    if (forked_is())
        return error_set(BATON_ESTATE, "the context belongs to the process that this one was forked from");
    return 0;
}

int context_check_started(const struct baton *b)
{
    const int rc = context_check(b);
    if (rc != 0)
        return rc;
    const enum context_state state = b->state;
    switch (state) {
    case CONTEXT_OPEN:
        return error_set(BATON_ESTATE, "call baton_start first");
    case CONTEXT_WAITING:
        return error_set(BATON_EAGAIN, "not every rank has declared its cache: ask baton_cache_ready");
    case CONTEXT_STARTED:
        return 0;
    case CONTEXT_FAILED:
        return error_set(BATON_ESTATE, "start has failed: %s", b->start.why);
    case CONTEXT_LEFT:
        break;
    }
    return error_set(BATON_ESTATE, "MPI was finalised before");
}

void context_tell_engines(struct baton *b)
{
    if ((b->who.flags & BATON_OPEN_ENGINES) != 0)
        events_put_engines(&b->events);
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

/*
 * In a forked child, which closes its copies of the descriptors. All else stays until it ends. What other threads
 * change was copied in the middle of a change; MPI, the segments and the names of files are the parent's; and where the
 * child was made by _Fork or clone, a lock of malloc may be held by a thread that is not there.
 */
static int forget(struct baton *b)
{
    events_forget(&b->events);
    caller_fini(&b->caller);
    b->on.net->forget(b->on.net->self);
    timeline_forget(b->log.timeline);
    return 0;
}

int baton_close(baton_t *b)
{
    if (b == NULL)
        return error_set(BATON_EINVAL, "b must not be NULL");
    if (forked_is())
        return forget(b);
    if (b->state == CONTEXT_LEFT)
        return error_set(BATON_ESTATE, "MPI was finalised before: call baton_close first");
    closing_prepare(b);
    int rc = reactor_stop(b);
    if (!stall_watch_stop(b) && rc == 0) {
        rc = BATON_EPEER;
        snapshot_put_why(&b->snapshot, "the watchdog's thread does not end");
    }
    rc = closing_check(b, rc);
    if (rc != 0)
        return rc;
    rc = paths_destroy(b->paths);
    core_destroy(b->core);
    faults_destroy(b->faults);
    rc = closing_end(b, rc);
    if (rc != 0)
        cache_leave(b->cache);
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
    const uint8_t *segment = b->on.ground->peers[peer].mapped;
    bool is_wrapped = b->cache != NULL && b->cache->own != NULL; /* then the peers' caches are too */
    /* All segments have the same layout if all ranks have the same settings. Tools make sure of that. */
    return segment != NULL && !is_wrapped ? (const char *)segment + b->on.ground->pool_offset : NULL;
}

const struct ground *baton_inside_ground(const baton_t *b)
{
    return b->on.ground;
}

int baton_describe(const baton_t *b, char *text, size_t size)
{
    const int rc = context_check(b);
    if (rc != 0)
        return rc;
    if (text == NULL && size > 0)
        return error_set(BATON_EINVAL, "text must not be NULL");
    if (b->state != CONTEXT_STARTED)
        return error_set(BATON_ESTATE, "describe after baton_start");
    struct textbuf out = {text, size, 0};
    if (b->on.world != NULL)
        b->on.world->describe(b->on.world->self, &out);
    b->on.net->describe(b->on.net->self, &out);
    cache_describe(b->cache, &b->start.driver, &out);
    paths_describe(b->paths, &out);
    textbuf_print(&out, "place: host %s, NUMA node %d, %u CPUs\n", b->place.host,
                  b->place.numa == TOPO_UNKNOWN ? -1 : (int)b->place.numa, b->place.cpus);
    binding_describe(b, &out);
    return out.length;
}
