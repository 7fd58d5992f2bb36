/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: see the header. The engine's thread runs all of it, but for what holds a reactor still: that is asked for by
 * the main thread, and the reactor's thread waits. That state is static, since the linker's wrapper gets no pointer to
 * it: one context at a time.
 */
#include "bench/context.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "bench/fail.h"
#include "core/port.h"

#define ASLEEP_NS 20000000L /* after which a reactor that has made no turn is asleep */

void context_set(const char *variable, const char *value)
{
    if ((value != NULL ? setenv(variable, value, 1) : unsetenv(variable)) != 0)
        fail("the environment does not take %s", variable);
}

void context_open(struct bench *b, struct context *c, const baton_open_params_t *self, struct blocks *cache,
                  const struct own *own)
{
    baton_open_params_t params = *self;
    *c = (struct context){.patience_ms = CONTEXT_PATIENCE_MS, .hears = b->options.latency.verdicts};
    if (c->hears)
        params.verdicts = BATON_VERDICTS_ALL;
    if (b->options.pin)
        pin_to(&b->pin, b->pin.reactor);
    fail_on(baton_open(b->world, &params, &c->baton), "baton_open");
    if (cache && own && own->kind != OWN_SLAB)
        own_wrap(own, c->baton, &cache->geometry, &c->cache);
    else if (cache)
        fail_on(baton_cache_create(c->baton, &cache->geometry, BATON_MEMORY_HOST, &c->cache), "baton_cache_create");
    fail_on(baton_start(c->baton), "baton_start");
    if (b->options.pin)
        pin_to(&b->pin, b->pin.caller);
    if (cache)
        c->pool = cache->base = own && own->kind != OWN_SLAB ? own->bases[0] : baton_cache_base(c->cache);
    if (b->busy.wanted && !b->busy.running)
        busy_start(&b->busy, &b->pin);
    effort_meter_init(&c->meter, &b->busy);
}

void context_close(struct bench *b, struct context *c)
{
    busy_stop(&b->busy);
    int rc = baton_close(c->baton);
    if (rc == BATON_EPEER)
        b->lost = true;
    else
        fail_on(rc, "baton_close");
    *c = (struct context){0};
}

void context_note(struct bench *b, const struct context *c)
{
    int length = baton_describe(c->baton, NULL, 0);
    if (!b->report.active || length <= 0)
        return;
    char *text = room((size_t)length + 1, 1);
    baton_describe(c->baton, text, (size_t)length + 1);
    report_text(&b->report, text);
    free(text);
}

bool context_await(const struct context *c, baton_event_t *event, uint64_t timeout_ms)
{
    struct pollfd fd = {.fd = c->polls ? -1 : baton_event_fd(c->baton), .events = POLLIN};
    uint64_t end = 0; /* the first poll comes before the first look at the clock: it may find the event */
    for (;;) {
        int n = baton_poll(c->baton, event, 1);
        fail_on(n, "baton_poll");
        if (n == 1)
            return true;
        uint64_t now = clock_now_ns();
        if (end == 0)
            end = now + timeout_ms * CLOCK_NS_PER_MS;
        if (now >= end)
            return false;
        if (c->polls)
            continue;
        uint64_t left_ms = (end - now) / CLOCK_NS_PER_MS + 1;
        if (poll(&fd, 1, left_ms > 1000000 ? 1000000 : (int)left_ms) < 0 && errno != EINTR)
            fail("poll on the event descriptor failed");
    }
}

baton_id_t context_offer(const struct context *c, const char *key, const uint32_t *ids, uint32_t count, uint32_t flags)
{
    baton_id_t id;
    baton_offer_params_t p = {.size = sizeof p,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = ids, .num_blocks = count}},
                              .num_tokens = count * BLOCKS_TOKENS,
                              .ttl_ms = c->patience_ms,
                              .flags = flags};
    fail_on(baton_offer(c->baton, &p, &id), "baton_offer");
    return id;
}

baton_id_t context_want(const struct context *c, const char *engine, const char *key, const uint32_t *ids,
                        uint32_t count, baton_mode_t mode, void *user)
{
    baton_id_t id;
    baton_want_params_t p = {.size = sizeof p,
                             .key = key,
                             .engine = engine,
                             .num_tables = 1,
                             .tables = {{.blocks = ids, .num_blocks = count}},
                             .num_tokens = count * BLOCKS_TOKENS,
                             .timeout_ms = c->patience_ms,
                             .mode = mode,
                             .user = user};
    fail_on(baton_want(c->baton, &p, &id), "baton_want");
    return id;
}

/* Takes an event of that type, which is about a call of the type `of`. */
static void take(const struct context *c, baton_event_type_t type, baton_event_type_t of, baton_event_t *event)
{
    const char *what = baton_event_name(type), *call = baton_event_name(of);
    if (!context_await(c, event, CONTEXT_PATIENCE_MS))
        fail("no event \"%s\" of a call of baton_%s for %u ms", what, call, CONTEXT_PATIENCE_MS);
    if (event->type != type || (type == BATON_EVENT_VERDICT && event->of != of))
        fail("the event \"%s\" of %s (%s: %s) came in place of \"%s\" of a call of baton_%s",
             baton_event_name(event->type), event->key, baton_errname(event->error), event->detail, what, call);
    if (event->status != BATON_STATUS_DONE)
        fail("the %s %s ended as %s: %s", what, event->key, baton_errname(event->error), event->detail);
}

void context_take(const struct context *c, baton_event_type_t type, baton_event_t *event)
{
    baton_event_t verdict;
    take(c, type, type, event);
    if (!c->hears)
        return;
    take(c, BATON_EVENT_VERDICT, type, &verdict);
    if (verdict.id != event->id)
        fail("a verdict on %s came in place of that on %s", verdict.key, event->key);
}

void context_await_offers(const struct context *c, uint32_t count)
{
    baton_event_t event;
    while (count > 0) {
        if (!context_await(c, &event, CONTEXT_PATIENCE_MS))
            fail("an offer did not end");
        count -= event.type == BATON_EVENT_OFFER;
    }
}

void context_end_offers(const struct context *c, const baton_id_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        fail_on(baton_cancel(c->baton, ids[i]), "baton_cancel");
    context_await_offers(c, count);
}

baton_path_t context_path(const baton_event_t *event)
{
    baton_path_t only = BATON_PATH_NONE;
    for (int path = 0; path < BATON_PATHS; path++) {
        if (event->path_bytes[path] == 0)
            continue;
        if (only != BATON_PATH_NONE)
            return BATON_PATH_NONE;
        only = (baton_path_t)path;
    }
    return only;
}

/* ---- a reactor that holds still ---------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool wanted; /* every turn reads it without the lock: a late read costs one turn */
static bool waiting;       /* under the lock */

struct control;

int __real_control_progress(struct control *c, struct port_event *events, int max);
int __wrap_control_progress(struct control *c, struct port_event *events, int max);

static void wait_if_asked(void)
{
    if (!atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    waiting = true;
    pthread_cond_broadcast(&changed);
    while (atomic_load_explicit(&wanted, memory_order_relaxed))
        pthread_cond_wait(&changed, &lock);
    waiting = false;
    pthread_mutex_unlock(&lock);
}

int __wrap_control_progress(struct control *c, struct port_event *events, int max)
{
    wait_if_asked();
    return __real_control_progress(c, events, max);
}

void halt_begin(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ASLEEP_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!waiting && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&lock);
}

void halt_end(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, false, memory_order_relaxed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
