/* SPDX-License-Identifier: BSD-3-Clause */
/* reactor: see reactor.h. */
#include "front/context.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/task.h"
#include "base/thread.h"
#include "observe/timeline.h"
#include "shm/rings.h"

#define SUBMITS_A_TURN 64
#define SUBMITS_A_LENT_TURN 4            /* a caller does not do the work of all others */
#define RESTED_NS (20 * CLOCK_NS_PER_MS) /* after so long without a turn that did something, none is expected soon */
#define SLEEP_LEAST_NS (20 * CLOCK_NS_PER_US)
#define KEPT_NS (1 * CLOCK_NS_PER_MS)      /* how long it sleeps at most while it keeps an outcome that waits */
#define GIVE_WAY_NS (20 * CLOCK_NS_PER_US) /* an idle reactor spins no longer before it yields between its turns */
#define REST_NS                                                                                                        \
    (500 * CLOCK_NS_PER_MS) /* how long MPI_Finalize waits for operations under way, where baton_close was not called */
#define REFRESH_NS (1 * CLOCK_NS_PER_MS) /* how long a reader waits for the turn under way */
#define LOOK_NS (100 * CLOCK_NS_PER_MS)  /* how often closing looks whether the reactor still makes turns */
#define ABANDON_NS (5 * CLOCK_NS_PER_S)  /* how long MPI_Finalize waits for the turn under way */

/* ---- a turn ------------------------------------------------------------------------------------------------------ */

static bool drain(struct baton *b)
{
    struct mpsc_item *item;
    const bool is_lent = turns_are_lent(&b->loop.turns);
    int n = 0, most = is_lent ? SUBMITS_A_LENT_TURN : SUBMITS_A_TURN;
    if (!is_lent) /* one that comes at this moment rings again */
        atomic_store_explicit(&b->loop.turns.has_long, false, memory_order_relaxed);
    while (n < most && (item = mpsc_pop(&b->submits)) != NULL) {
        struct call *call = call_of_item(item);
        if (call_ends(call) && calls_is_given_up(b->calls, call->end.place)) /* while it was queued */
            core_decline(b->core, clock_now_ns(), call, BATON_ESTALL, "no turns were made");
        else
            core_submit(b->core, clock_now_ns(), call);
        n++;
    }
    look_take(&b->loop.hearing.calls, (uint64_t)n, n < most);
    return n > 0;
}

static void begin_look(struct baton *b, uint64_t now)
{
    struct loop *l = &b->loop;
    if (l->hearing.look_ns != 0)
        return;
    l->hearing.look_ns = now;
    look_begin(&l->hearing.calls, mpsc_held(&b->submits));
    b->port->path.look(b->port->path.self);
}

/* All that had come by then was taken. */
static uint64_t heard_ns(struct baton *b)
{
    struct loop *l = &b->loop;
    if (look_has_ended(&l->hearing.calls) && b->port->path.has_looked(b->port->path.self)) {
        l->hearing.heard_ns = l->hearing.look_ns;
        l->hearing.look_ns = 0;
    }
    return l->hearing.heard_ns;
}

/* Taken before a sleep, every stats_ms, and for who reads (reactor_refresh). */
static void take_snapshot(struct baton *b, uint64_t now)
{
    struct loop *l = &b->loop;
    meter_take(b, now);
    if (!snapshot_put(&b->snapshot, b->core, now)) /* a thread reads: the next turn takes it */
        return;
    l->snapshot_due_ns = now + b->settings.stats_ms * CLOCK_NS_PER_MS;
    l->snapshot_is_stale = false;
    atomic_store_explicit(&l->snapshot_is_wanted, false, memory_order_relaxed);
    /* Release: who sees the number finds the snapshot. */
    atomic_fetch_add_explicit(&l->snapshots, 1, memory_order_release);
}

/* At the end of a turn. Turns of other threads are short. */
static bool snapshot_is_due(struct baton *b, uint64_t now)
{
    struct loop *l = &b->loop;
    if (turns_are_lent(&l->turns))
        return false;
    return (l->snapshot_is_stale && now >= l->snapshot_due_ns) || now >= meter_due_ns(&l->meter) ||
           atomic_load_explicit(&l->snapshot_is_wanted, memory_order_relaxed);
}

void reactor_refresh(struct baton *b)
{
    struct loop *l = &b->loop;
    const uint64_t until = clock_now_ns() + REFRESH_NS;
    const uint32_t before = atomic_load_explicit(&l->snapshots, memory_order_acquire);
    atomic_store_explicit(&l->snapshot_is_wanted, true, memory_order_relaxed);
    if (!l->is_threaded || b->state != CONTEXT_STARTED)
        return;
    turns_wake(b);
    while (atomic_load_explicit(&l->snapshots, memory_order_acquire) == before && clock_now_ns() < until)
        sched_yield();
}

/* Decides what becomes of an outcome. CALLS_HELD_BACK also if there is no room for it. */
static enum calls_passing clear(struct baton *b, struct outcome *outcome)
{
    const baton_event_t *e = &outcome->event;
    const enum calls_passing passing = e->type == BATON_EVENT_VERDICT ? CALLS_PASS : calls_pass(b->calls, outcome);
    if (passing == CALLS_LATER || admission_tell(&b->admission, e))
        return passing;
    if (count_of(&b->loop.verdicts_lost) == 0)
        log_line(&b->log, LOG_ERROR, "verdicts are lost: %llu wait to be polled (BATON_REQUESTS)",
                 (unsigned long long)b->settings.requests);
    count_add(&b->loop.verdicts_lost, 1);
    return CALLS_HELD_BACK;
}

/* Of verdicts the timeline tells nothing. */
static void trace(struct baton *b, const baton_event_t *event)
{
    if (b->log.timeline != NULL && event->type != BATON_EVENT_VERDICT)
        timeline_add(b->log.timeline, &(struct timeline_record){.kind = TIMELINE_REPORTED,
                                                                .ns = clock_now_ns(),
                                                                .id = event->id,
                                                                .what = (uint8_t)event->status,
                                                                .error = (int16_t)event->error,
                                                                .name = baton_event_name(event->type),
                                                                .bytes = event->bytes});
}

/* Hands out the outcome that is held. False: it has to wait for a later turn. */
static bool publish(struct baton *b)
{
    struct loop *l = &b->loop;
    if (!l->kept.is_passed) {
        const enum calls_passing passing = clear(b, l->kept.outcome);
        if (passing == CALLS_LATER)
            return false;
        if (passing == CALLS_HELD_BACK) {
            outcome_free(l->kept.outcome);
            l->kept.outcome = NULL;
            return true;
        }
        l->kept.is_passed = true;
        trace(b, &l->kept.outcome->event);
    }
    if (!events_put(&b->events, l->kept.outcome))
        return false;
    l->kept.outcome = NULL;
    return true;
}

static bool hand_out(struct baton *b, uint64_t now)
{
    struct loop *l = &b->loop;
    if ((l->kept.outcome == NULL && !core_has_outcome(b->core)) || paths_hold_events(b->paths))
        return false;
    meter_news(&l->meter, now);
    bool any = false, goes_on = true;
    while (goes_on && (l->kept.outcome != NULL || core_has_outcome(b->core))) {
        if (l->kept.outcome == NULL) {
            l->kept.outcome = core_take(b->core);
            l->kept.is_passed = false;
            meter_hear(b, l->kept.outcome);
        }
        goes_on = publish(b);
        any |= goes_on;
    }
    return any;
}

/* A turn lasted so long that the watchdog gave up calls. They end in the core too, and will be quiet soon. */
static void end_given_up(struct baton *b, uint64_t now)
{
    struct calls_end ends[SUBMITS_A_TURN];
    uint32_t n;
    if (!stall_take_given_up(&b->stall))
        return;
    const bool was_stalled = stall_end(b);
    /* MPI does not hold what is left of this turn: calls that come from now on must not be given up for its sake. */
    atomic_store_explicit(&b->loop.turn_ns, clock_now_ns(), memory_order_release);
    while ((n = calls_given_up(b->calls, ends, SUBMITS_A_TURN)) > 0)
        for (uint32_t i = 0; i < n; i++)
            core_give_up(b->core, now, ends[i].id, ends[i].status, ends[i].error, "no turns were made");
    if (was_stalled)
        log_line(&b->log, LOG_WARN, "the reactor goes on");
}

/* Whether all that can happen rings the bell of a thread that sleeps on it, and not before it has happened. */
static bool is_rung(const struct baton *b)
{
    return !b->on.net->has_nodes && b->loop.is_threaded;
}

bool reactor_turn(struct baton *b, uint64_t began)
{
    struct loop *l = &b->loop;
    atomic_store_explicit(&l->turn_ns, began, memory_order_release);
    begin_look(b, began);
    bool active = drain(b);
    if (active && !turns_are_lent(&l->turns) &&
        paths_may_take_long(b->paths)) { /* what the calls began goes on meanwhile */
        paths_wake(b->paths);
        rings_ring(paths_rings(b->paths), RINGS_NOW);
    }
    int n = b->port->path.progress(b->port->path.self, l->events, LOOP_EVENTS);
    uint64_t now = clock_now_ns();
    core_step(b->core, now, heard_ns(b), l->events, n);
    paths_wake(b->paths);
    end_given_up(b, now);
    const bool tells = hand_out(b, now);
    active |= n > 0 || tells;
    if (active)
        l->woke_ns = tells && is_rung(b) && events_are_watched(&b->events) ? now : 0;
    l->is_cut = n == LOOP_EVENTS || l->kept.outcome != NULL;
    turns_ring(b, now);
    if (!turns_are_lent(&l->turns)) /* no message left this rank */
        b->on.net->ring(b->on.net->self);
    count_add(&l->num_turns, 1);
    l->snapshot_is_stale |= active;
    if (snapshot_is_due(b, now))
        take_snapshot(b, now);
    atomic_store_explicit(&l->judged_ns, l->hearing.heard_ns, memory_order_relaxed);
    atomic_store_explicit(&l->turns.ended_ns, began, memory_order_relaxed);
    atomic_store_explicit(&l->turn_ns, 0, memory_order_release);
    return active;
}

/* ---- idling ------------------------------------------------------------------------------------------------------ */

bool reactor_must_poll(const struct baton *b)
{
    return core_is_serving(b->core) || b->port->path.busy(b->port->path.self);
}

/*
 * Notes rings to and from other nodes since the last turn. What they announce comes later than they do: the thread's
 * sleeps are short at first. It does not yield meanwhile: where CPUs are few, others need one for that very message.
 */
static void look_at_rings(struct baton *b)
{
    struct loop *l = &b->loop;
    const uint32_t rings = b->on.net->rings(b->on.net->self);
    if (rings != l->rings)
        l->rung_ns = clock_now_ns();
    l->rings = rings;
}

/* How long a thread sleeps that all rings. Where calls or polls made turns of late, rings may be put off again. */
static uint64_t rung_rest_ns(const struct baton *b, uint64_t now, uint64_t idle_since)
{
    const struct turns *t = &b->loop.turns;
    const uint64_t attended = atomic_load_explicit(&t->attended_ns, memory_order_relaxed);
    const uint64_t lent = t->last_ns > attended ? t->last_ns : attended;
    const uint64_t since = lent > idle_since ? lent : idle_since;
    return now < since + RESTED_NS ? TURNS_OWED_NS : UINT64_MAX;
}

/* A sleep of so many nanoseconds, or a shorter one: the page of metrics shows what has happened soon after it did. */
static uint64_t till_meter(const struct baton *b, uint64_t now, uint64_t rest)
{
    uint64_t due = meter_due_ns(&b->loop.meter);
    return due < now + rest ? (due > now ? due - now : 1) : rest;
}

/* How long the thread spins for what follows closely: not at all where its engine may wait for this CPU. */
static uint64_t spin_ns(const struct baton *b)
{
    return b->loop.woke_ns != 0 ? 0 : b->settings.spin_us * CLOCK_NS_PER_US;
}

uint64_t reactor_rest_ns(struct baton *b, uint64_t idle_since)
{
    uint64_t now = clock_now_ns(), due = core_next_ns(b->core), ring = turns_due_ns(b);
    const bool wakes = is_rung(b) || b->on.net->is_rung(b->on.net->self);
    const bool has_bells = wakes && !closing_has_begun(&b->closing); /* MPI's own steps ring nobody */
    uint64_t cap = (has_bells ? b->settings.sleep_us : b->settings.idle_us) * CLOCK_NS_PER_US;
    const uint64_t rung = b->loop.rung_ns;
    const uint64_t quiet_since = (has_bells && b->loop.is_threaded) || rung > idle_since ? rung : idle_since;
    if (ring < due)
        due = ring;
    /* What is kept waits for another thread, which may need this CPU. */
    if (b->loop.kept.outcome != NULL && !reactor_must_poll(b))
        return now - idle_since < KEPT_NS ? SLEEP_LEAST_NS : KEPT_NS;
    if (now - idle_since < spin_ns(b) || reactor_must_poll(b) || due <= now)
        return 0;
    uint64_t most = is_rung(b) || b->loop.turns.can_lend ? rung_rest_ns(b, now, idle_since) : UINT64_MAX;
    if (!is_rung(b) && (now - quiet_since) / 4 < most)
        most = (now - quiet_since) / 4;
    if (most < SLEEP_LEAST_NS)
        most = SLEEP_LEAST_NS;
    if (most > cap)
        most = cap;
    if (due - now < most)
        most = due - now;
    if (b->loop.snapshot_is_stale)
        take_snapshot(b, now);
    count_add(&b->loop.num_sleeps, 1);
    return till_meter(b, now, most);
}

/*
 * The reactor waits for whoever makes turns. A thread of the engine may have lost its CPU in one: then the reactor
 * gives up what is due meanwhile. A wait that lasts longer than it should may be a pause of the whole process: then it
 * begins anew.
 */
static void take_turns(struct baton *b)
{
    unsigned waits = 0;
    uint64_t began = clock_now_ns();
    while (!owned_take(&b->loop.turns.lock, began + STALL_LATE_NS / 2)) {
        const uint64_t now = clock_now_ns();
        waits = now < began + STALL_LATE_NS ? waits + 1 : 0;
        if (waits > 1)
            stall_help(b, now);
        began = clock_now_ns();
    }
}

static void idle(struct baton *b, uint32_t seen, uint64_t idle_since)
{
    struct turns *t = &b->loop.turns;
    uint64_t rest = reactor_rest_ns(b, idle_since);
    uint64_t spin = spin_ns(b) < GIVE_WAY_NS ? spin_ns(b) : GIVE_WAY_NS;
    bool yields = rest == 0 && clock_now_ns() - idle_since >= spin;
    if (rest == 0 && !yields)
        return;
    atomic_store_explicit(&t->woken_ns, clock_now_ns() + rest, memory_order_relaxed);
    owned_give(&t->lock);
    if (yields)
        sched_yield();
    else
        bell_sleep(ground_bell(b->on.ground), seen, rest);
    take_turns(b);
    atomic_store_explicit(&t->woken_ns, 0, memory_order_relaxed);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void begin_closing(struct baton *b)
{
    drain(b);
    closing_begin(b, clock_now_ns());
}

/*
 * MPI is being finalised. It frees windows once every rank is past this point, and a read that is served after that
 * would read freed memory. So operations under way end first, if they do so soon.
 */
static void come_to_rest(struct baton *b)
{
    uint64_t until = clock_now_ns() + REST_NS;
    core_shut(b->core, clock_now_ns());
    while ((core_is_busy(b->core) || b->on.net->path.busy(b->on.net->self)) && clock_now_ns() < until)
        if (!reactor_turn(b, clock_now_ns()))
            sched_yield();
}

/* The core is at rest: what it has come to is final. */
static void take_last_snapshot(struct baton *b)
{
    b->loop.meter.is_closing = true;
    take_snapshot(b, clock_now_ns());
}

static void *reactor_main(void *arg)
{
    struct baton *b = arg;
    struct loop *l = &b->loop;
    uint64_t idle_since = 0;
    while (sem_wait(&l->go) != 0 && errno == EINTR)
        continue;
    thread_ask(b->settings.slice_us, b->settings.nice);
    bool is_whole = b->core != NULL || (b->start.is_late && late_run(b) == 0);
    if (!is_whole) { /* the caches did not come, or start failed before there were all */
        latch_open(&l->ended);
        return NULL;
    }
    take_turns(b);
    l->turns.is_open = true;
    while (!atomic_load_explicit(&l->abandon, memory_order_acquire)) {
        const uint32_t seen = turns_look(b);
        look_at_rings(b);
        bool active = reactor_turn(b, clock_now_ns());
        if (!closing_has_begun(&b->closing) && atomic_load_explicit(&l->stop, memory_order_acquire)) {
            l->turns.is_open = false;
            begin_closing(b);
            active = true;
        }
        int rc = closing_has_begun(&b->closing) ? closing_step(b, l->hearing.heard_ns) : BATON_EAGAIN;
        if (rc != BATON_EAGAIN) {
            l->gave_up = rc != 0;
            break;
        }
        if (active)
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = clock_now_ns();
        else
            idle(b, seen, idle_since);
    }
    l->turns.is_open = false;
    if (atomic_load_explicit(&l->abandon, memory_order_acquire) && b->state != CONTEXT_OPEN)
        come_to_rest(b);
    turns_ring_all(b); /* also for what was sent behind the last turn */
    take_last_snapshot(b);
    owned_give(&l->turns.lock);
    latch_open(&l->ended);
    return NULL;
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

void reactor_init(struct loop *l)
{
    *l = (struct loop){.is_threaded = false};
    sem_init(&l->go, 0, 0);
    turns_init(&l->turns);
    latch_init(&l->ended);
}

void reactor_fini(struct loop *l)
{
    outcome_free(l->kept.outcome);
    sem_destroy(&l->go);
}

int reactor_start(struct baton *b)
{
    if (b->on.mode == BATON_PROGRESS_CALLER)
        return 0;
    const int rank = task_rank(0); /* the reactor's too, until it asks for more; it never is a real-time thread */
    b->loop.turns.least_rank = rank < TASK_NORMAL ? rank : TASK_NORMAL;
    if (thread_start(&b->loop.thread, "baton-reactor", binding_cpus(&b->binding), reactor_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the reactor thread could not be made");
    b->loop.is_threaded = true;
    return 0;
}

void reactor_go(struct baton *b)
{
    sem_post(&b->loop.go);
}

bool reactor_must_end(const struct loop *l)
{
    return atomic_load_explicit(&l->stop, memory_order_acquire) ||
           atomic_load_explicit(&l->abandon, memory_order_acquire);
}

uint64_t reactor_turn_ns(const struct baton *b)
{
    return atomic_load_explicit(&b->loop.turn_ns, memory_order_acquire);
}

uint64_t reactor_judged_ns(const struct baton *b)
{
    return atomic_load_explicit(&b->loop.judged_ns, memory_order_relaxed);
}

uint64_t reactor_turned_ns(const struct baton *b)
{
    return atomic_load_explicit(&b->loop.turns.ended_ns, memory_order_relaxed);
}

static int stop_in_caller(struct baton *b)
{
    int rc;
    reactor_turn(b, clock_now_ns());
    begin_closing(b);
    while ((rc = closing_step(b, b->loop.hearing.heard_ns)) == BATON_EAGAIN)
        if (!reactor_turn(b, clock_now_ns()))
            sched_yield();
    turns_ring_all(b);
    take_last_snapshot(b);
    return rc;
}

/*
 * Waits until the thread ends. False: it does not, or it is stuck inside MPI: one turn has lasted BATON_PEER_MS. Both
 * times are counted in looks, not read from the clock, so that a pause of the whole process counts as one look.
 */
static bool await_end(struct baton *b)
{
    const uint64_t most = (2 * CLOCK_NS_PER_S + b->settings.close_ms * CLOCK_NS_PER_MS) / LOOK_NS,
                   most_inside = b->settings.peer_ms * CLOCK_NS_PER_MS / LOOK_NS;
    uint64_t looks = 0, inside = 0, turn = 0;
    while (!latch_wait(&b->loop.ended, clock_now_ns() + LOOK_NS)) {
        uint64_t now_in = reactor_turn_ns(b);
        inside = now_in != 0 && now_in == turn ? inside + 1 : 0;
        turn = now_in;
        if (inside > most_inside || ++looks > most)
            return false;
    }
    return true;
}

int reactor_stop(struct baton *b)
{
    struct loop *l = &b->loop;
    if (!l->is_threaded)
        return b->core != NULL ? stop_in_caller(b) : 0;
    atomic_store_explicit(&l->stop, true, memory_order_release);
    sem_post(&l->go); /* the thread still waits for it if start failed after the thread was made */
    bell_ring(ground_bell(b->on.ground));
    if (!await_end(b))
        return BATON_EPEER;
    pthread_join(l->thread, NULL);
    l->is_threaded = false;
    return l->gave_up ? BATON_EPEER : 0;
}

/* False: the thread is inside MPI, or another one still uses its bell. */
static bool abandon_thread(struct baton *b)
{
    struct loop *l = &b->loop;
    atomic_store_explicit(&l->abandon, true, memory_order_seq_cst);
    sem_post(&l->go);
    bell_ring(ground_bell(b->on.ground));
    const bool has_ended = latch_wait_for(&l->ended, ABANDON_NS);
    if (!has_ended || !turns_rest(b, clock_now_ns() + ABANDON_NS)) {
        log_line(&b->log, LOG_ERROR, "%s%s and could not be stopped",
                 has_ended ? "a thread rings the reactor's bell" : "the reactor is inside ",
                 has_ended ? "" : b->on.net->name);
        return false;
    }
    pthread_join(l->thread, NULL);
    l->is_threaded = false;
    return true;
}

void reactor_abandon(void *arg)
{
    struct baton *b = arg;
    log_line(&b->log, LOG_ERROR, "MPI_Finalize was called and baton_close was not called: open transfers get no event");
    b->state = CONTEXT_LEFT;
    if (!b->loop.is_threaded) {
        b->on.world->hurry(b->on.world->self, b->settings.close_ms);
        late_close(b); /* first: other ranks that wait for caches may be in this agreement, and in no other one */
    }
    /* Before MPI can abort. If a thread makes turns, this ends the one that hears rings, and logs. */
    b->on.world->finalize(b->on.world->self);
    if (b->loop.is_threaded && abandon_thread(b)) {
        b->on.world->silence(b->on.world->self); /* it may have begun to listen since */
        late_close(b);
    }
}
