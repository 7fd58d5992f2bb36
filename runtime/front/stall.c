/* SPDX-License-Identifier: BSD-3-Clause */
/* stall: see stall.h. */
#include "front/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/task.h"
#include "base/thread.h"
#include "observe/failure.h"

/* The failures that were told. They are logged afterwards: a log that blocks must not hold up the end of a call. */
struct told {
    struct events *events;
    struct queue lines; /* of outcomes, to be logged */
};

#define AGAIN_NS (STALL_LATE_NS / 2) /* how soon a look follows that found something, but could not judge it */
#define DETAIL_BYTES 112
#define STOP_NS (5 * CLOCK_NS_PER_S) /* how long it may take to end */

void stall_init(struct stall *s)
{
    *s = (struct stall){.is_watching = false};
    bell_init(&s->bell);
    latch_init(&s->ended);
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
                                               .peer_engine = e->peer_engine,
                                               .peer_rank = e->peer_rank,
                                               .age_ns = e->total_ns,
                                               .detail = e->detail});
        outcome_free(line);
    }
    return n;
}

/*
 * Since when a turn has been due that has not ended; 0: none is due. Between its turns the reactor sleeps or yields,
 * and holds no lock. If it has not begun a turn at the time for which it planned one, it gets no CPU, or waits for
 * another thread's turn.
 */
static uint64_t stuck_since(const struct baton *b, uint64_t now)
{
    const uint64_t began = reactor_turn_ns(b);
    const uint64_t woken = atomic_load_explicit(&b->loop.turns.woken_ns, memory_order_relaxed);
    const uint64_t ended = reactor_turned_ns(b), between = woken > ended ? woken : ended;
    const uint64_t since = began != 0 ? began : b->loop.is_threaded ? between : 0;
    return since < now ? since : 0;
}

/* Whether the turn under way is one of Baton's own threads, which may be inside MPI. */
static bool is_own_turn(const struct baton *b)
{
    return reactor_turn_ns(b) != 0 && !turns_are_lent(&b->loop.turns);
}

/*
 * Calls that were due before this time need no watchdog. While turns are made, that is when the last one began: the
 * core judges all that was due by then, as soon as it has heard what came before. While none are, it is the time up to
 * which the core has judged.
 */
static uint64_t judged_ns(const struct baton *b, uint64_t now)
{
    const uint64_t since = stuck_since(b, now);
    return since != 0 && now >= since + STALL_LATE_NS ? reactor_judged_ns(b) : reactor_turned_ns(b);
}

static void describe(const struct baton *b, uint64_t now, char detail[DETAIL_BYTES])
{
    const uint64_t since = stuck_since(b, now);
    const uint32_t holder = owned_by(&b->loop.turns.lock);
    char time[32] = "";
    if (since != 0)
        snprintf(time, sizeof time, " for %llu ms", (unsigned long long)((now - since) / CLOCK_NS_PER_MS));
    if (is_own_turn(b) && !atomic_load_explicit(&b->stall.is_off_cpu, memory_order_relaxed))
        snprintf(detail, DETAIL_BYTES, "the reactor has been inside %s%s", b->on.net->name, time);
    else if (is_own_turn(b))
        snprintf(detail, DETAIL_BYTES, "the reactor has stood still%s: it sleeps inside %s, or has no CPU", time,
                 b->on.net->name);
    else if (holder != 0)
        snprintf(detail, DETAIL_BYTES, "thread %lu, which makes Baton's turn, has been without a CPU%s",
                 (unsigned long)holder, time);
    else
        snprintf(detail, DETAIL_BYTES, "the reactor has been without a CPU%s", time);
}

/* Gives up wants that are due and that no turn has judged. */
static void give_up_late(struct baton *b, uint64_t now)
{
    char detail[DETAIL_BYTES];
    describe(b, now, detail);
    give_up(b, now,
            &(struct calls_reason){.judged_ns = judged_ns(b, now),
                                   .due_ns = clock_before(now, STALL_LATE_NS),
                                   .wants_only = true,
                                   .status = BATON_STATUS_EXPIRED,
                                   .error = BATON_ETIMEDOUT,
                                   .detail = detail});
}

void stall_help(struct baton *b, uint64_t now)
{
    const uint64_t since = stuck_since(b, now);
    if (since != 0 && now >= since + STALL_LATE_NS && !is_own_turn(b))
        give_up_late(b, now);
}

/* ---- the watchdog ------------------------------------------------------------------------------------------------ */

/* Notes whether the thread of a turn of Baton's own has hardly run since the look before. */
static void look_at_cpu(struct baton *b, uint64_t now)
{
    struct stall *s = &b->stall;
    const uint64_t turn = is_own_turn(b) ? reactor_turn_ns(b) : 0;
    const uint64_t ran = turn != 0 ? task_ran_ns(owned_by(&b->loop.turns.lock)) : 0;
    const bool is_off =
        turn != 0 && turn == s->seen_turn_ns && ran != 0 && ran - s->seen_ran_ns < (now - s->seen_ns) / 8;
    atomic_store_explicit(&s->is_off_cpu, is_off, memory_order_relaxed);
    s->seen_turn_ns = turn;
    s->seen_ns = now;
    s->seen_ran_ns = ran;
}

/* The turn under way does not end. */
static void look_at_turn(struct baton *b, uint64_t now, uint64_t pause)
{
    const uint64_t began = reactor_turn_ns(b), since = stuck_since(b, now);
    const uint64_t excused = since == b->stall.excused_since_ns ? b->stall.excused_ns : 0;
    const uint64_t inside = began != 0 && now > began + excused ? now - began - excused : 0;
    const bool was = atomic_load_explicit(&b->stall.turn_ns, memory_order_relaxed) == began;
    char detail[DETAIL_BYTES];
    if (since == 0 || now <= since + pause + excused) /* the reactor itself gives calls up in time */
        return;
    describe(b, now, detail);
    give_up(b, now,
            &(struct calls_reason){.due_ns = clock_before(now, b->settings.quiet_ms * CLOCK_NS_PER_MS + excused),
                                   .status = BATON_STATUS_EXPIRED,
                                   .error = BATON_ETIMEDOUT,
                                   .detail = detail});
    if (inside <= b->settings.stall_ms * CLOCK_NS_PER_MS || reactor_turn_ns(b) != began)
        return;
    atomic_store_explicit(&b->stall.turn_ns, began, memory_order_relaxed);
    if (!was)
        meter_stall(&b->loop.meter, inside);
    uint32_t n =
        give_up(b, now,
                &(struct calls_reason){
                    .due_ns = UINT64_MAX, .status = BATON_STATUS_FAILED, .error = BATON_ESTALL, .detail = detail});
    if (n == 0 && !was)
        log_line(&b->log, LOG_ERROR, "%s", detail);
}

/* When the next call that the core has not judged will be late. */
static uint64_t next_late_ns(struct baton *b, uint64_t now)
{
    const uint64_t due = b->loop.is_threaded ? calls_next_due_ns(b->calls, judged_ns(b, now)) : UINT64_MAX;
    return due < UINT64_MAX - STALL_LATE_NS ? due + STALL_LATE_NS : UINT64_MAX;
}

/* Every look checks for late calls. Whether a turn lasts too long is checked once a pause at most. */
static void look(struct baton *b, uint64_t now, uint64_t pause)
{
    struct stall *s = &b->stall;
    look_at_cpu(b, now);
    if (next_late_ns(b, now) <= now && (!is_own_turn(b) || atomic_load_explicit(&s->is_off_cpu, memory_order_relaxed)))
        give_up_late(b, now);
    if (now < s->paused_ns + pause)
        return;
    s->paused_ns = now;
    look_at_turn(b, now, pause);
}

/*
 * When to look next, after a look at `looked`: after a pause, or as soon as a want will be late. It publishes the later
 * time before it searches the calls, so that a call which is queued meanwhile is not missed (see stall_expect).
 */
static uint64_t plan_look(struct baton *b, uint64_t looked, uint64_t pause)
{
    struct stall *s = &b->stall;
    const uint64_t last = s->was_late ? looked + pause : s->paused_ns + pause;
    atomic_store_explicit(&s->looks_ns, last, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t until = s->was_late ? last : next_late_ns(b, looked);
    if (until > last)
        until = last;
    if (until < looked + AGAIN_NS)
        until = looked + AGAIN_NS;
    atomic_store_explicit(&s->looks_ns, until, memory_order_relaxed);
    return until;
}

/*
 * Whether the watchdog itself looks later than planned. The whole process may have been paused then, so it judges
 * nobody for a pause; but for one pause only, unless it is late by a whole pause again. The time by which it was late
 * is not counted against a turn that was due all that time. Against a turn that became due meanwhile, only the time
 * since then is not counted.
 */
static bool is_late(struct baton *b, uint64_t planned, uint64_t now, uint64_t pause)
{
    struct stall *s = &b->stall;
    s->was_late = now > planned + (s->was_late && pause > STALL_LATE_NS ? pause : STALL_LATE_NS);
    if (!s->was_late)
        return false;
    s->paused_ns = now;
    s->seen_turn_ns = 0; /* what its thread ran before says nothing */
    const uint64_t since = stuck_since(b, now), from = since > planned ? since : planned;
    s->excused_ns = now - from + (since == s->excused_since_ns ? s->excused_ns : 0);
    s->excused_since_ns = since;
    return true;
}

static void *stall_main(void *arg)
{
    struct baton *b = arg;
    struct stall *s = &b->stall;
    const uint64_t quiet_ms = b->settings.quiet_ms, stall_ms = b->settings.stall_ms;
    const uint64_t pause = (quiet_ms < stall_ms ? quiet_ms : stall_ms) * CLOCK_NS_PER_MS / 4;
    uint64_t looked = s->paused_ns = clock_now_ns();
    for (;;) {
        const uint32_t seen = bell_read(&s->bell);
        if (atomic_load_explicit(&s->must_end, memory_order_acquire))
            break;
        const uint64_t until = plan_look(b, looked, pause), before = clock_now_ns();
        if (before < until)
            bell_sleep(&s->bell, seen, until - before);
        const uint64_t now = clock_now_ns();
        if (now < until) /* it was rung: it ends, or looks sooner */
            continue;
        log_settle(&b->log, false);
        if (!is_late(b, until, now, pause))
            look(b, now, pause);
        looked = now;
    }
    latch_open(&s->ended);
    return NULL;
}

/*
 * The fence orders the call's entry in the table before the look at the plan, against the one in plan_look: either this
 * sees the plan, or the watchdog the call.
 */
void stall_expect(struct baton *b, uint64_t due_ns)
{
    struct stall *s = &b->stall;
    atomic_thread_fence(memory_order_seq_cst);
    if (due_ns + STALL_LATE_NS < atomic_load_explicit(&s->looks_ns, memory_order_relaxed))
        bell_ring(&s->bell);
}

int stall_watch_start(struct baton *b)
{
    struct stall *s = &b->stall;
    if (thread_start(&s->thread, "baton-watchdog", NULL, stall_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the watchdog thread could not be made");
    s->is_watching = true;
    return 0;
}

bool stall_watch_stop(struct baton *b)
{
    struct stall *s = &b->stall;
    if (!s->is_watching)
        return true;
    atomic_store_explicit(&s->must_end, true, memory_order_release);
    bell_ring(&s->bell);
    if (!latch_wait_for(&s->ended, STOP_NS))
        return false;
    pthread_join(s->thread, NULL);
    s->is_watching = false;
    return true;
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
