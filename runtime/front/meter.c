/* SPDX-License-Identifier: BSD-3-Clause */
/* meter: see meter.h. */
#include "front/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

static uint64_t real_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts); /* other processes compare it, on other hosts too */
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static void introduce(struct baton *b)
{
    struct metrics_body *body = metrics_body(b->loop.meter.metrics);
    body->rank = b->on.ground->self;
    body->ranks = b->on.ground->num_peers;
    body->pid = (uint64_t)getpid();
    body->index = b->log.index;
    body->life = atomic_load_explicit(&b->log.life, memory_order_relaxed);
    body->began_ns = body->renewed_ns = real_now_ns();
    snprintf(body->engine, sizeof body->engine, "%s", b->who.engine);
    snprintf(body->host, sizeof body->host, "%s", b->place.host);
    snprintf(body->version, sizeof body->version, "%s", BATON_VERSION_STRING);
}

/* All ranks of a world know the first one's number: the world has a name by that where nobody gave it one. */
int meter_start(struct baton *b, char *(*lookup)(const char *variable))
{
    struct meter *m = &b->loop.meter;
    const char *given = lookup(METER_VARIABLE);
    char own[METRICS_NAME_BYTES];
    if (given != NULL && given[0] == '\0')
        return 0;
    if (given != NULL && !metrics_name_is_good(given))
        return error_set(BATON_ESETTING,
                         METER_VARIABLE "=\"%.80s\" must have 1 to %d letters, digits or ._-, or be empty", given,
                         METRICS_NAME_BYTES - 1);
    snprintf(own, sizeof own, "%016" PRIx64, b->directory->rows[0].number);
    m->metrics = metrics_create(b->directory->num_engines);
    if (m->metrics == NULL)
        return error_set(BATON_ENOMEM, "no memory for metrics");
    metrics_pages_sweep(METRICS_ROOT);
    int error =
        metrics_page_create(METRICS_ROOT, given != NULL ? given : own, b->on.ground->self, given != NULL, &m->page);
    if (error != 0) {
        log_line(&b->log, LOG_WARN, "no page of metrics can be made in " METRICS_ROOT ": %s", strerror(error));
        metrics_destroy(m->metrics);
        m->metrics = NULL;
        return 0;
    }
    introduce(b);
    metrics_page_renew(m->page, metrics_body(m->metrics), metrics_take_changes(m->metrics));
    return 0;
}

void meter_fini(struct meter *m)
{
    metrics_page_destroy(m->page);
    metrics_destroy(m->metrics);
    m->page = NULL;
    m->metrics = NULL;
}

void meter_hear(struct baton *b, const struct outcome *outcome)
{
    const baton_event_t *event = &outcome->event;
    struct metrics *m = b->loop.meter.metrics;
    const struct directory *d = b->directory;
    if (event->type == BATON_EVENT_WANT && event->status == BATON_STATUS_DONE)
        metrics_want(m, event->path_bytes, event->total_ns);
    if (!events_is_failure(event) || outcome->peer < 0)
        return;
    const struct directory_engine *engine = d->engines[d->engine_of[outcome->peer]];
    metrics_failure(m, (struct metrics_engine){engine->index, engine->name, engine->life}, event->error);
}

static void renew(struct baton *b)
{
    struct meter *m = &b->loop.meter;
    struct metrics_body *body = metrics_body(m->metrics);
    baton_stats_t all;
    stats_read(b, &all);
    metrics_set_stats(m->metrics, &all);
    body->stalls = atomic_load_explicit(&m->stalls, memory_order_relaxed);
    body->renewed_ns = real_now_ns();
    body->is_closed = m->is_closing;
    metrics_page_renew(m->page, body, metrics_take_changes(m->metrics));
    /* A stall that the watchdog tells of at this moment is over: it looked at the turn before. */
    if (atomic_exchange_explicit(&m->is_stalled, false, memory_order_acquire)) /* its page before this one's */
        metrics_page_stall(m->page, 0);
    m->news_ns = 0;
}

void meter_news(struct meter *m, uint64_t now)
{
    if (m->metrics != NULL && m->news_ns == 0)
        m->news_ns = now;
}

void meter_take(struct baton *b, uint64_t now)
{
    struct meter *m = &b->loop.meter;
    if (m->metrics == NULL)
        return;
    meter_news(m, now);
    if (now >= meter_due_ns(m) && !turns_are_lent(&b->loop.turns))
        renew(b);
}

uint64_t meter_due_ns(const struct meter *m)
{
    if (m->is_closing || atomic_load_explicit(&m->is_stalled, memory_order_relaxed))
        return 0;
    return m->news_ns != 0 ? m->news_ns + METER_NS : UINT64_MAX;
}

void meter_stall(struct meter *m, uint64_t inside_ns)
{
    if (m->metrics == NULL)
        return;
    atomic_fetch_add_explicit(&m->stalls, 1, memory_order_relaxed);
    metrics_page_stall(m->page, real_now_ns() - inside_ns);
    atomic_store_explicit(&m->is_stalled, true, memory_order_release);
}
