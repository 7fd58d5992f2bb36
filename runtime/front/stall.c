/* SPDX-License-Identifier: BSD-3-Clause */
/* stall: see stall.h. */
#include "front/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "observe/failure.h"

/* What was told. It is logged once the calls' lock is free: a log that blocks must not hold up other threads. */
struct told {
    struct events *events;
    struct queue lines; /* of outcomes, to be logged */
};

void stall_init(struct stall *s)
{
    *s = (struct stall){.is_watching = false};
    latch_init(&s->rest);
}

static bool tell(void *arg, struct outcome *outcome)
{
    struct told *t = arg;
    struct outcome *line = malloc(sizeof *line);
    if (line == NULL)
        return false;
    *line = *outcome;
    if (!events_put(t->events, outcome)) {
        free(line);
        return false;
    }
    queue_join(&t->lines, &line->due);
    return true;
}

/* Gives up calls, tells the engine, and logs it. Returns how many. */
static uint32_t give_up(struct baton *b, uint64_t now, const struct calls_reason *why)
{
    struct told told = {.events = &b->events};
    struct queued *due;
    uint32_t n = calls_give_up(b->calls, now, why, tell, &told);
    if (n > 0) {
        atomic_store_explicit(&b->stall.has_given_up, true, memory_order_release);
        log_line(&b->log, LOG_ERROR, "%s: %u calls are given up", why->detail, n);
    }
    while ((due = queue_take(&told.lines)) != NULL) {
        struct outcome *line = outcome_of_due(due);
        const baton_event_t *e = &line->event;
        failure_log(&b->log, &(struct failure){.what = e->of == BATON_EVENT_OFFER ? "offer" : "want",
                                               .reason = baton_errname(e->error),
                                               .key = e->key,
                                               .peer = e->peer,
                                               .age_ns = e->total_ns,
                                               .detail = e->detail});
        outcome_free(line);
    }
    return n;
}

static void look(struct baton *b, uint64_t pause)
{
    uint64_t began = reactor_turn_ns(b), now = clock_now_ns();
    uint64_t inside = began != 0 && now > began ? now - began : 0;
    bool is = inside > b->settings.stall_ms * CLOCK_NS_PER_MS;
    bool was = atomic_load_explicit(&b->stall.turn_ns, memory_order_relaxed) == began;
    char detail[96];
    if (inside <= pause) /* the reactor itself gives calls up in time */
        return;
    snprintf(detail, sizeof detail, "the reactor has been inside MPI for %llu ms",
             (unsigned long long)(inside / CLOCK_NS_PER_MS));
    give_up(b, now,
            &(struct calls_reason){clock_before(now, b->settings.quiet_ms * CLOCK_NS_PER_MS), BATON_STATUS_EXPIRED,
                                   BATON_ETIMEDOUT, detail});
    if (!is || reactor_turn_ns(b) != began)
        return;
    atomic_store_explicit(&b->stall.turn_ns, began, memory_order_relaxed);
    if (!was)
        meter_stall(&b->loop.meter, inside);
    uint32_t n = give_up(b, now, &(struct calls_reason){UINT64_MAX, BATON_STATUS_FAILED, BATON_ESTALL, detail});
    if (n == 0 && !was)
        log_line(&b->log, LOG_ERROR, "%s", detail);
}

static void *stall_main(void *arg)
{
    struct baton *b = arg;
    uint64_t quiet_ms = b->settings.quiet_ms, stall_ms = b->settings.stall_ms;
    uint64_t pause = (quiet_ms < stall_ms ? quiet_ms : stall_ms) * CLOCK_NS_PER_MS / 4;
    for (;;) {
        uint64_t before = clock_now_ns();
        if (latch_wait(&b->stall.rest, before + pause))
            return NULL;
        log_settle(&b->log, false);
        if (clock_now_ns() - before < 2 * pause) /* else the whole process was paused */
            look(b, pause);
    }
}

int stall_watch_start(struct baton *b)
{
    struct stall *s = &b->stall;
    if (thread_start(&s->thread, "baton-watchdog", NULL, stall_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the watchdog thread could not be made");
    s->is_watching = true;
    return 0;
}

void stall_watch_stop(struct baton *b)
{
    struct stall *s = &b->stall;
    if (!s->is_watching)
        return;
    latch_open(&s->rest);
    pthread_join(s->thread, NULL);
    s->is_watching = false;
}

/* By the turn, not by a flag: the watchdog may look late, when that turn is over. */
bool stall_is_on(const struct baton *b)
{
    uint64_t turn = atomic_load_explicit(&b->stall.turn_ns, memory_order_relaxed);
    return turn != 0 && turn == reactor_turn_ns(b) &&
           turn != atomic_load_explicit(&b->stall.over_ns, memory_order_relaxed);
}

/* Acquire, after the release in give_up: the reactor sees which calls were given up. */
bool stall_take_given_up(struct stall *s)
{
    return atomic_load_explicit(&s->has_given_up,
                                memory_order_relaxed) && /* an exchange costs more than the rest of it */
           atomic_exchange_explicit(&s->has_given_up, false, memory_order_acquire);
}

bool stall_end(struct baton *b)
{
    uint64_t turn = reactor_turn_ns(b);
    atomic_store_explicit(&b->stall.over_ns, turn, memory_order_relaxed);
    return atomic_load_explicit(&b->stall.turn_ns, memory_order_relaxed) == turn;
}
