/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reactor: the loop. One thread makes all of Baton's MPI calls after start (or the caller's: see lend.c).
 *
 * A turn drains submissions, collects what happened on the paths, steps the core and hands out events. Between turns it
 * idles by degrees: it spins BATON_SPIN_US; then, where MPI must be polled for something under way (rma requests,
 * messages, or a lease that a peer reads through this process' progress), it yields; else it sleeps on the doorbell,
 * which submissions, copy workers and peers of this node ring. A sleep lasts until the next timer at most, and a quarter
 * of the time that nothing has happened, up to BATON_IDLE_US (BATON_SLEEP_US where every peer shares the node): what
 * rings no doorbell is late by a quarter of its wait at most, and a long idle process costs next to nothing.
 */
#include "front/context.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define SUBMITS_A_TURN 64
#define EVENTS_A_TURN 64
#define ABANDON_NS (5 * CLOCK_NS_PER_S) /* that MPI_Finalize waits for the reactor's turn */
#define SLEEP_LEAST_NS (20 * CLOCK_NS_PER_US)
#define REST_NS (500 * CLOCK_NS_PER_MS) /* in MPI_Finalize without baton_close */
#define LOOK_NS (100 * CLOCK_NS_PER_MS) /* in closing: how often the reactor is looked at */
#define LOSS_GRACE_MS 2000              /* in closing, once a rank is known to be lost */

/* ---- scheduling -------------------------------------------------------------------------------------------------- */

struct sched_attributes { /* sched_setattr(2) has no wrapper in the C library of older systems */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/*
 * A short slice brings the thread back to a core sooner among computing threads (Linux 6.12 and later; ignored before),
 * and needs no privilege. A raised priority does more, where it is permitted.
 */
static void ask_for_slice(const struct settings *s)
{
    struct sched_attributes a = {.size = sizeof a, .policy = SCHED_OTHER, .runtime = s->slice_us * 1000};
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0);
    if (errno != 0)
        nice = 0;
    a.nice = nice - (int)s->nice < -20 ? -20 : nice - (int)s->nice;
    if (syscall(SYS_sched_setattr, 0, &a, 0) == 0)
        return;
    a.nice = nice;
    syscall(SYS_sched_setattr, 0, &a, 0); /* an older system refuses: the usual slice then */
}

/* ---- a turn ------------------------------------------------------------------------------------------------------ */

static bool drain(struct baton *b)
{
    struct call *call;
    int n = 0;
    while (n < SUBMITS_A_TURN && (call = ring_pop(b->submits)) != NULL) {
        if (call_ends(call) && calls_is_given_up(b->calls, call->end.place)) /* while it was in the ring */
            core_decline(b->core, clock_now_ns(), call, BATON_ESTALL, "the reactor was inside MPI");
        else
            core_submit(b->core, clock_now_ns(), call);
        n++;
    }
    return n > 0;
}

/* What any thread may read: brought up to date when events are handed out, before a sleep, and every BATON_STATS_MS. */
static void snapshot(struct baton *b, uint64_t now)
{
    baton_stats_t stats;
    struct fabric_counts fabric = fabric_counts(b->fabric);
    core_stats(b->core, &stats);
    stats.messages_received += fabric.messages_bad;
    stats.messages_bad += fabric.messages_bad;
    stats.flushes = fabric.flushes;
    stats.settled = fabric.settled;
    stats.poisoned = fabric.poisoned;
    stats.reads_parked = fabric.parked;
    stats.verdicts_lost += b->verdicts_lost;
    stats.turns = b->turns;
    stats.sleeps = b->sleeps;
    memcpy(stats.peers, b->peers, sizeof stats.peers);
    pthread_mutex_lock(&b->snapshot_lock);
    b->stats = stats;
    b->num_pending = core_pending(b->core, now, b->pending, SNAPSHOT_PENDING);
    pthread_mutex_unlock(&b->snapshot_lock);
    b->snapshot_due = now + b->settings.stats_ms * CLOCK_NS_PER_MS;
    b->snapshot_stale = false;
}

#define COUNTED(name, number, message) _Static_assert(-(number) < BATON_REASONS, "BATON_REASONS is too small");
BATON_ERRNO_MAP(COUNTED)
#undef COUNTED

/* By its reason. Under snapshot_lock. */
static void count(struct baton *b, int error, int32_t peer)
{
    unsigned reason = error > -BATON_REASONS ? (unsigned)-error : 0; /* a peer's build may know more of them */
    if (error == 0)
        return;
    b->reasons[reason]++;
    if (peer >= 0 && b->reasons_of[peer] == NULL)
        b->reasons_of[peer] = calloc(BATON_REASONS, sizeof *b->reasons);
    if (peer >= 0 && b->reasons_of[peer] != NULL)
        b->reasons_of[peer][reason]++;
}

/* What the reactor did before (fences, the raised generation) happens before the pop that hands the event out: the
 * ring's release and acquire. */
static bool publish(struct baton *b, struct outcome *outcome)
{
    uint64_t one = 1;
    atomic_fetch_add_explicit(&b->waiting, 1, memory_order_relaxed);
    if (!ring_push(b->events, outcome)) {
        atomic_fetch_sub_explicit(&b->waiting, 1, memory_order_relaxed);
        return false;
    }
    ssize_t written = write(b->event_fd, &one, sizeof one); /* fails only when it is readable anyway */
    (void)written;
    return true;
}

bool reactor_tell(struct baton *b, struct outcome *outcome)
{
    int error = outcome->event.error; /* it is the poller's once it is in the ring */
    int32_t peer = outcome->event.peer;
    pthread_mutex_lock(&b->snapshot_lock); /* who has seen an event sees it counted */
    bool is = publish(b, outcome);
    if (is)
        count(b, error, peer);
    pthread_mutex_unlock(&b->snapshot_lock);
    return is;
}

/* Counts an event that is to go out. False: it is not told, or was told already. */
static bool goes_out(struct baton *b, struct outcome *outcome)
{
    const baton_event_t *e = &outcome->event;
    if (!admission_tell(&b->admission, e)) {
        if (b->verdicts_lost++ == 0)
            log_line(&b->log, LOG_ERROR, "verdicts are lost: %llu wait to be polled (BATON_REQUESTS)",
                     (unsigned long long)b->settings.requests);
        return false;
    }
    if (e->type == BATON_EVENT_VERDICT)
        return true;
    if (!calls_pass(b->calls, outcome))
        return false;
    if (e->given_up) /* it was counted then */
        return true;
    pthread_mutex_lock(&b->snapshot_lock);
    count(b, e->error, e->peer);
    pthread_mutex_unlock(&b->snapshot_lock);
    return true;
}

static bool hand_out(struct baton *b)
{
    if (b->held == NULL && !core_has_outcome(b->core))
        return false;
    snapshot(b, clock_now_ns()); /* first, so that who has seen an event sees it counted */
    while (b->held != NULL || core_has_outcome(b->core)) {
        if (b->held == NULL) {
            struct outcome *outcome = core_take(b->core);
            if (!goes_out(b, outcome)) {
                outcome_free(outcome);
                continue;
            }
            b->held = outcome;
        }
        /* The ring has places for each open call, but a poller that was interrupted in its pop may still keep its cell:
         * then the next turn tries again. */
        if (!publish(b, b->held))
            break;
        b->held = NULL;
    }
    return true;
}

/* The turn before lasted so long that the watchdog gave up calls: they end here too, and will be quiet soon. */
static void give_up_told(struct baton *b, uint64_t now)
{
    struct calls_end ends[SUBMITS_A_TURN];
    uint32_t n;
    if (!atomic_exchange_explicit(&b->told, false, memory_order_acquire))
        return;
    while ((n = calls_given_up(b->calls, ends, SUBMITS_A_TURN)) > 0)
        for (uint32_t i = 0; i < n; i++)
            core_give_up(b->core, now, ends[i].id, ends[i].status, ends[i].error, "the reactor was inside MPI");
    if (atomic_exchange_explicit(&b->stalled, false, memory_order_relaxed))
        log_line(&b->log, LOG_WARN, "the reactor goes on");
}

bool reactor_turn(struct baton *b)
{
    struct port_event events[EVENTS_A_TURN];
    atomic_store_explicit(&b->turn_ns, clock_now_ns(), memory_order_release);
    bool active = drain(b);
    int n = paths_progress(b->paths, events, EVENTS_A_TURN);
    b->lost |= fabric_failed(b->fabric);
    uint64_t now = clock_now_ns();
    if (b->faults != NULL)
        n = faults_filter(b->faults, now, events, n);
    core_step(b->core, now, events, n);
    give_up_told(b, now);
    active |= n > 0;
    active |= hand_out(b);
    b->turns++;
    b->snapshot_stale |= active;
    if (b->snapshot_stale && now >= b->snapshot_due)
        snapshot(b, now);
    atomic_store_explicit(&b->turn_ns, 0, memory_order_release);
    return active;
}

/* ---- idling ------------------------------------------------------------------------------------------------------ */

static bool must_poll(const struct baton *b)
{
    return fabric_busy(b->fabric) > 0 || core_is_serving(b->core) || paths_pending(b->paths) ||
           (b->faults != NULL && faults_pending(b->faults));
}

uint64_t reactor_rest_ns(struct baton *b, uint64_t idle_since)
{
    uint64_t now = clock_now_ns(), due = core_next_ns(b->core);
    uint64_t cap = (fabric_nodes(b->fabric) > 1 ? b->settings.idle_us : b->settings.sleep_us) * CLOCK_NS_PER_US;
    uint64_t most = (now - idle_since) / 4;
    if (now - idle_since < b->settings.spin_us * CLOCK_NS_PER_US || must_poll(b) || due <= now)
        return 0;
    if (most < SLEEP_LEAST_NS)
        most = SLEEP_LEAST_NS;
    if (most > cap)
        most = cap;
    if (due - now < most)
        most = due - now;
    if (b->snapshot_stale)
        snapshot(b, now);
    b->sleeps++;
    return most;
}

static void idle(struct baton *b, uint32_t seen, uint64_t idle_since)
{
    uint64_t rest = reactor_rest_ns(b, idle_since);
    if (rest > 0)
        bell_sleep(fabric_bell(b->fabric), seen, rest);
    else if (clock_now_ns() - idle_since >= b->settings.spin_us * CLOCK_NS_PER_US)
        sched_yield();
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void close_why(struct baton *b, const char *why)
{
    pthread_mutex_lock(&b->snapshot_lock);
    snprintf(b->close_why, sizeof b->close_why, "%s", why);
    pthread_mutex_unlock(&b->snapshot_lock);
}

/* A rank is lost: what had to do with it may never come to rest, and the others' has little to wait for. */
static void note_loss(struct baton *b, uint64_t now)
{
    int64_t lost = core_loss(b->core);
    uint64_t until = now + LOSS_GRACE_MS * CLOCK_NS_PER_MS;
    if (lost < 0 || lost == b->loss)
        return;
    if (b->loss < 0) {
        b->loss_ns = now;
        b->close_until = least(b->close_until, until);
    }
    b->loss = lost;
    char name[128], why[WHY_BYTES];
    core_rank_name(b->core, (uint32_t)lost, name, sizeof name);
    snprintf(why, sizeof why, "%s is lost", name);
    close_why(b, why);
    log_line(&b->log, LOG_WARN, "closing without the other ranks: %s", why);
}

/* Nothing is left but calls that were given up: there is little to wait for. */
static void note_given_up(struct baton *b, uint64_t now)
{
    uint64_t until = now + LOSS_GRACE_MS * CLOCK_NS_PER_MS;
    if (b->waits_for_quiet || core_is_quiet(b->core) || !core_is_given_up(b->core))
        return;
    b->waits_for_quiet = true;
    b->close_until = b->close_until < until ? b->close_until : until;
}

/*
 * After core_shut, between turns: 0 where this rank may stop, BATON_EAGAIN where it must go on: until it is quiet, and then
 * until every rank is, since they may need its answers. Where one is lost it stays for another beat, so that all that it
 * knows of that reaches the others, and what they know comes here. BATON_EPEER: it does not come to rest.
 */
static int wind_up(struct baton *b, uint64_t now)
{
    if (b->state == CONTEXT_STARTED)
        note_loss(b, now);
    note_given_up(b, now);
    bool late = now > b->close_until;
    if (!core_is_quiet(b->core) || fabric_busy(b->fabric) > 0)
        return late ? BATON_EPEER : BATON_EAGAIN;
    if (b->state != CONTEXT_STARTED || b->lost)
        return 0; /* where start failed it failed everywhere */
    if (b->loss >= 0 && !late && now - b->loss_ns < b->settings.beat_ms * CLOCK_NS_PER_MS)
        return BATON_EAGAIN;
    b->lost = b->loss >= 0 || (b->leave_failed && late);
    int rc = b->lost ? 0 : b->leave_failed ? BATON_EAGAIN : fabric_leave(b->fabric, late);
    if (rc == BATON_EAGAIN || rc == 0)
        return rc;
    close_why(b, baton_errmsg());
    log_line(&b->log, LOG_ERROR, "%s", baton_errmsg());
    b->lost = late;
    if (late)
        return 0;
    b->leave_failed = true; /* rank 0 cannot be reached: soon it is known whether it is lost */
    b->close_until = least(b->close_until, now + (b->settings.peer_ms + LOSS_GRACE_MS) * CLOCK_NS_PER_MS);
    return BATON_EAGAIN;
}

static void shut(struct baton *b)
{
    uint64_t now = clock_now_ns();
    drain(b);
    core_shut(b->core, now);
    if (b->state == CONTEXT_STARTED)
        core_leave(b->core, now);
    b->shut = true;
    b->close_until = now + b->settings.close_ms * CLOCK_NS_PER_MS;
}

/*
 * MPI is being finalised: it frees windows once every rank is past this point, and a read that is served then takes from
 * memory that is gone. So what is under way here comes to its end first, if it does so soon.
 */
static void come_to_rest(struct baton *b)
{
    uint64_t until = clock_now_ns() + REST_NS;
    core_shut(b->core, clock_now_ns());
    while ((core_is_busy(b->core) || fabric_busy(b->fabric) > 0) && clock_now_ns() < until)
        if (!reactor_turn(b))
            sched_yield();
}

static void *reactor_main(void *arg)
{
    struct baton *b = arg;
    uint64_t idle_since = 0;
    while (sem_wait(&b->go) != 0 && errno == EINTR)
        continue;
    ask_for_slice(&b->settings);
    if (b->state == CONTEXT_STARTED)
        core_greet(b->core, clock_now_ns());
    while (!atomic_load_explicit(&b->abandon, memory_order_acquire)) {
        uint32_t seen = bell_look(fabric_bell(b->fabric));
        bool active = reactor_turn(b);
        if (!b->shut && atomic_load_explicit(&b->stop, memory_order_acquire)) {
            shut(b);
            active = true;
        }
        int rc = b->shut ? wind_up(b, clock_now_ns()) : BATON_EAGAIN;
        if (rc != BATON_EAGAIN) {
            b->restless = rc != 0;
            break;
        }
        if (active)
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = clock_now_ns();
        else
            idle(b, seen, idle_since);
    }
    if (atomic_load_explicit(&b->abandon, memory_order_acquire) && b->state != CONTEXT_OPEN)
        come_to_rest(b);
    latch_open(&b->ended);
    return NULL;
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

int reactor_start(struct baton *b)
{
    if (fabric_mode(b->fabric) == BATON_PROGRESS_CALLER)
        return 0;
    if (thread_start(&b->thread, "baton-reactor", reactor_main, b) != 0)
        return error_set(BATON_ESYSTEM, "the reactor thread could not be made");
    b->threaded = true;
    return 0;
}

static int stop_in_caller(struct baton *b)
{
    int rc;
    reactor_turn(b);
    shut(b);
    while ((rc = wind_up(b, clock_now_ns())) == BATON_EAGAIN)
        if (!reactor_turn(b))
            sched_yield();
    return rc;
}

/*
 * Waits for the thread's end. False: it did not come, or MPI does not return: one turn has lasted BATON_PEER_MS. Looks
 * are counted, not the clock, so that a pause of the whole process counts as one.
 */
static bool await_end(struct baton *b)
{
    uint64_t until = clock_now_ns() + 2 * CLOCK_NS_PER_S + b->settings.close_ms * CLOCK_NS_PER_MS, turn = 0;
    uint64_t looks = 0, most = b->settings.peer_ms * CLOCK_NS_PER_MS / LOOK_NS;
    while (!latch_wait(&b->ended, clock_now_ns() + LOOK_NS)) {
        uint64_t now_in = atomic_load_explicit(&b->turn_ns, memory_order_acquire);
        looks = now_in != 0 && now_in == turn ? looks + 1 : 0;
        turn = now_in;
        if (looks > most || clock_now_ns() > until)
            return false;
    }
    return true;
}

int reactor_stop(struct baton *b)
{
    if (b->core == NULL)
        return 0;
    if (!b->threaded)
        return stop_in_caller(b);
    atomic_store_explicit(&b->stop, true, memory_order_release);
    sem_post(&b->go); /* where start failed after the thread was made */
    bell_ring(fabric_bell(b->fabric));
    if (!await_end(b))
        return BATON_EPEER;
    pthread_join(b->thread, NULL);
    b->threaded = false;
    return b->restless ? BATON_EPEER : 0;
}

void reactor_abandon(void *arg)
{
    struct baton *b = arg;
    log_line(&b->log, LOG_ERROR, "MPI_Finalize was called and baton_close was not called: open transfers get no event");
    b->state = CONTEXT_LEFT;
    if (!b->threaded)
        return;
    atomic_store_explicit(&b->abandon, true, memory_order_release);
    sem_post(&b->go);
    bell_ring(fabric_bell(b->fabric));
    if (!latch_wait(&b->ended, clock_now_ns() + ABANDON_NS)) {
        log_line(&b->log, LOG_ERROR, "the reactor is inside MPI and could not be stopped");
        return;
    }
    pthread_join(b->thread, NULL);
    b->threaded = false;
}
