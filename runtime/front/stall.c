/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: a watchdog thread that makes no MPI call and looks whether the reactor's turns end. MPI cannot be interrupted.
 * While a turn lasts, calls are given up here when their time is over; where it lasts longer than BATON_STALL_MS (an
 * operation on a dead rank that never returns, say), all of them are, and what the engine calls is refused until the
 * turn ends after all.
 */
#include "front/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "observe/failure.h"

/* What was told, to be logged after the calls' lock was let go: a log that blocks must hold up nobody. */
struct told {
    struct baton *b;
    struct outcome *lines;
};

static bool tell(void *arg, struct outcome *outcome)
{
    struct told *t = arg;
    struct outcome *line = malloc(sizeof *line);
    if (line == NULL)
        return false;
    *line = *outcome;
    if (!reactor_tell(t->b,
                      outcome)) { /* each call has its places; a poller that was interrupted may still keep a cell */
        free(line);
        return false;
    }
    line->next = t->lines;
    t->lines = line;
    return true;
}

/* Gives up calls, and tells of it. Returns how many. */
static uint32_t give_up(struct baton *b, uint64_t now, const struct calls_reason *why)
{
    struct told told = {.b = b};
    struct outcome *line;
    uint32_t n = calls_give_up(b->calls, now, why, tell, &told);
    if (n > 0) {
        atomic_store_explicit(&b->told, true, memory_order_release); /* the reactor ends them when it goes on */
        log_line(&b->log, LOG_ERROR, "%s: %u calls are given up", why->detail, n);
    }
    while ((line = told.lines) != NULL) {
        const baton_event_t *e = &line->event;
        told.lines = line->next;
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
    uint64_t began = atomic_load_explicit(&b->turn_ns, memory_order_acquire), now = clock_now_ns();
    uint64_t inside = began != 0 && now > began ? now - began : 0;
    bool is = inside > b->settings.stall_ms * CLOCK_NS_PER_MS;
    bool was = atomic_exchange_explicit(&b->stalled, is, memory_order_relaxed);
    char detail[96];
    if (inside <= pause) /* it keeps the promise itself */
        return;
    snprintf(detail, sizeof detail, "the reactor has been inside MPI for %llu ms",
             (unsigned long long)(inside / CLOCK_NS_PER_MS));
    give_up(b, now,
            &(struct calls_reason){clock_before(now, b->settings.quiet_ms * CLOCK_NS_PER_MS), BATON_STATUS_EXPIRED,
                                   BATON_ETIMEDOUT, detail});
    if (!is)
        return;
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
        if (latch_wait(&b->rest, before + pause))
            return NULL;
        log_settle(&b->log, false);
        if (clock_now_ns() - before < 2 * pause) /* else the whole process stood still, and the reactor with it */
            look(b, pause);
    }
}

int stall_watch_start(struct baton *b)
{
    if (thread_start(&b->watchdog, "baton-watchdog", stall_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the watchdog thread could not be made");
    b->watched = true;
    return 0;
}

void stall_watch_stop(struct baton *b)
{
    if (!b->watched)
        return;
    latch_open(&b->rest);
    pthread_join(b->watchdog, NULL);
    b->watched = false;
}
