/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: a watchdog thread that makes no MPI call and looks whether the reactor's turns end. MPI cannot be interrupted:
 * where a turn lasts longer than BATON_STALL_MS (an operation on a dead rank that never returns, say), every open call
 * is ended here, its blocks in quarantine, and what the engine calls is refused until the turn ends after all.
 */
#include "front/context.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "observe/failure.h"

static void give(void *arg, struct core_submit *s)
{
    struct baton *b = arg;
    reactor_count(b, &s->event);
    failure_log(&b->stall_failures, &b->log, clock_now_ns(),
                &(struct failure){.what = s->kind == CORE_OFFER ? "offer" : "want",
                                  .reason = baton_errname(s->event.error),
                                  .key = s->event.key,
                                  .peer = s->event.peer,
                                  .age_ns = s->event.total_ns,
                                  .detail = s->event.detail});
    while (!reactor_publish(b, s)) /* each call has its places; a poller that was interrupted may still keep a cell */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void look(struct baton *b)
{
    uint64_t began = atomic_load_explicit(&b->turn_ns, memory_order_acquire), now = clock_now_ns();
    bool is = began != 0 && now - began > b->settings.stall_ms * CLOCK_NS_PER_MS;
    bool was = atomic_exchange_explicit(&b->stalled, is, memory_order_relaxed);
    char detail[96];
    if (is) { /* at each look: a call may have slipped in */
        snprintf(detail, sizeof detail, "the reactor has been inside MPI for %llu ms",
                 (unsigned long long)((now - began) / CLOCK_NS_PER_MS));
        uint32_t n = calls_abandon(b->calls, now, BATON_ESTALL, detail, give, b);
        if (n > 0 || !was)
            log_line(&b->log, LOG_ERROR, "%s: %u open calls end, their blocks in quarantine", detail, n);
    } else if (was) {
        log_line(&b->log, LOG_WARN, "the reactor goes on");
    }
}

static void *stall_main(void *arg)
{
    struct baton *b = arg;
    uint64_t pause = b->settings.stall_ms * CLOCK_NS_PER_MS / 4;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until); /* what sem_timedwait counts by */
        until.tv_sec += (time_t)(pause / 1000000000);
        until.tv_nsec += (long)(pause % 1000000000);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_timedwait(&b->rest, &until) == 0)
            return NULL;
        if (errno == ETIMEDOUT)
            look(b);
    }
}

int stall_watch_start(struct baton *b)
{
    if (pthread_create(&b->watchdog, NULL, stall_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the watchdog thread could not be made");
    pthread_setname_np(b->watchdog, "baton-watchdog");
    b->watched = true;
    return 0;
}

void stall_watch_stop(struct baton *b)
{
    if (!b->watched)
        return;
    sem_post(&b->rest);
    pthread_join(b->watchdog, NULL);
    b->watched = false;
}
