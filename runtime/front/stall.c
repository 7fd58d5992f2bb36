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
#include "base/thread.h"
#include "observe/failure.h"

/* After the calls' lock was let go: a log that blocks must hold up nobody. */
static void tell(struct baton *b, struct core_submit *s)
{
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
    if (!is)
        return;
    snprintf(detail, sizeof detail, "the reactor has been inside MPI for %llu ms",
             (unsigned long long)((now - began) / CLOCK_NS_PER_MS));
    struct core_submit *ends = NULL, *s;
    uint32_t n = calls_abandon(b->calls, now, BATON_ESTALL, detail, &ends); /* at each look: one may have slipped in */
    if (n > 0)
        atomic_store_explicit(&b->told, true, memory_order_release); /* the reactor gives them up when it goes on */
    if (n > 0 || !was)
        log_line(&b->log, LOG_ERROR, "%s: %u open calls end, their blocks in quarantine", detail, n);
    while ((s = ends) != NULL) {
        ends = s->next;
        tell(b, s);
    }
}

static void *stall_main(void *arg)
{
    struct baton *b = arg;
    uint64_t pause = b->settings.stall_ms * CLOCK_NS_PER_MS / 4;
    for (;;) {
        uint64_t before = clock_now_ns(), due = before + pause;
        struct timespec until = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)};
        int rc;
        while ((rc = sem_clockwait(&b->rest, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR)
            continue;
        if (rc == 0)
            return NULL;
        if (clock_now_ns() - before < 2 * pause) /* else the whole process stood still, and the reactor with it */
            look(b);
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
    sem_post(&b->rest);
    pthread_join(b->watchdog, NULL);
    b->watched = false;
}
