/* SPDX-License-Identifier: BSD-3-Clause */
/* turns: see turns.h. */
#include "front/context.h"

#include <sched.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/task.h"
#include "shm/rings.h"

#define LENT_NS (50 * CLOCK_NS_PER_US) /* for how long calls begin turns between two polls, and a worker at one end */
#define SPINNING_NS (100 * CLOCK_NS_PER_US) /* who has polled for so long polls on */
#define HELPS_NS (10 * CLOCK_NS_PER_US)     /* and who has for so long helps copy workers */
#define HEARD_NS (10 * CLOCK_NS_PER_MS)     /* for how long turns are made after a ring from another node */
#define APART_NS (50 * CLOCK_NS_PER_US)     /* polls with longer pauses do not follow each other at once */
#define UNRUNG_NS (50 * CLOCK_NS_PER_US)    /* so long after a turn who only polls makes one, though nobody rang */
#define LATE_NS (2 * CLOCK_NS_PER_MS)       /* a reactor that wakes later than so has no CPU */
#define TURNS_A_TRANSFER 4                  /* of one whose answers come later: take it, move it, prove it, end it */
#define BLOCKS_MOST 4096                    /* of a call that a caller's turn takes: about 10 us for their tables */

void turns_init(struct turns *t)
{
    *t = (struct turns){.can_lend = false};
    owned_init(&t->lock);
}

/* When a ring is made that a reactor puts off: events that follow each other put it off no further. */
static uint64_t late_ns(const struct baton *b, uint64_t owed_ns)
{
    const uint64_t woke_ns = b->loop.woke_ns;
    return (owed_ns < woke_ns ? owed_ns : woke_ns) + TURNS_AWAKE_NS;
}

static uint64_t owed_ns(const struct turns *t)
{
    return atomic_load_explicit(&t->owed_ns, memory_order_relaxed);
}

static uint64_t woken_ns(const struct turns *t)
{
    return atomic_load_explicit(&t->woken_ns, memory_order_relaxed);
}

uint64_t turns_due_ns(const struct baton *b)
{
    const uint64_t owed = owed_ns(&b->loop.turns);
    return owed != 0 ? late_ns(b, owed) : UINT64_MAX;
}

/*
 * An engine waits for the call that makes a transfer and for the poll that takes its event. So these ring nobody for
 * what can wait: a poll that finds nothing does, or the reactor's next turn, if that comes soon. A reactor that has
 * just woken its engine, perhaps on this very CPU, puts such rings off too.
 */
static bool puts_off(const struct baton *b, uint64_t now)
{
    const struct turns *t = &b->loop.turns;
    const uint64_t owed = owed_ns(t);
    if (turns_are_lent(t))
        return woken_ns(t) < t->last_ns + TURNS_OWED_NS;
    return now < late_ns(b, owed != 0 ? owed : now);
}

void turns_ring(struct baton *b, uint64_t now)
{
    struct turns *t = &b->loop.turns;
    struct rings *rings = paths_rings(b->paths);
    rings_ring(rings, puts_off(b, now) ? RINGS_NOW : RINGS_LATER);
    if (!rings_wait(rings))
        atomic_store_explicit(&t->owed_ns, 0, memory_order_relaxed);
    else if (owed_ns(t) == 0)
        atomic_store_explicit(&t->owed_ns, now, memory_order_relaxed);
}

void turns_ring_all(struct baton *b)
{
    rings_ring(paths_rings(b->paths), RINGS_LATER);
    atomic_store_explicit(&b->loop.turns.owed_ns, 0, memory_order_relaxed);
}

uint32_t turns_look(struct baton *b)
{
    uint32_t rings = bell_read(ground_bell(b->on.ground));
    atomic_store_explicit(&b->loop.turns.seen, rings, memory_order_relaxed);
    return rings;
}

static bool has_rung(const struct baton *b)
{
    return bell_read(ground_bell(b->on.ground)) != atomic_load_explicit(&b->loop.turns.seen, memory_order_relaxed);
}

/* Where such a call is queued, no other thread makes turns until the reactor has taken it. */
static bool has_long(const struct turns *t)
{
    return atomic_load_explicit(&t->has_long, memory_order_relaxed);
}

/* Whether more happens by itself in the next turn. */
static bool goes_on(const struct baton *b)
{
    return b->port->path.busy(b->port->path.self) || !mpsc_is_empty(&b->submits) || b->loop.is_cut;
}

/*
 * Makes turns until nothing more happens by itself. It begins none later than `most_ns` from `began`, but makes up to
 * TURNS_A_TRANSFER of them in any case: to wake the reactor for the end of a transfer takes longer than that. False:
 * the reactor is needed for the rest.
 */
static bool turn_here(struct baton *b, enum turns_by by, uint64_t began, uint64_t most_ns)
{
    struct turns *t = &b->loop.turns;
    const uint64_t least = count_of(&t->count[by]) + TURNS_A_TRANSFER;
    bool active = true;
    atomic_store_explicit(&t->is_lent, true, memory_order_relaxed);
    paths_lend(b->paths, true);
    t->last_ns = began;
    while (active && !has_long(t) && (t->last_ns - began < most_ns || count_of(&t->count[by]) < least)) {
        turns_look(b);
        count_add(&t->count[by], 1);
        active = reactor_turn(b, t->last_ns) && goes_on(b);
        t->last_ns = clock_now_ns();
    }
    atomic_store_explicit(&t->is_lent, false, memory_order_relaxed);
    paths_lend(b->paths, false);
    return !active && !b->loop.is_cut && !reactor_must_poll(b) && core_next_ns(b->core) >= woken_ns(t);
}

/* Without the lock, around a use of the bell: MPI may free it once a reactor was abandoned (turns_rest). */
static bool may_ring(struct baton *b)
{
    atomic_fetch_add_explicit(&b->loop.turns.ringing, 1, memory_order_seq_cst);
    return !atomic_load_explicit(&b->loop.abandon, memory_order_seq_cst);
}

static void has_rung_it(struct baton *b)
{
    atomic_fetch_sub_explicit(&b->loop.turns.ringing, 1, memory_order_release);
}

/* A reactor that was abandoned does not sleep. */
void turns_wake(struct baton *b)
{
    if (b->on.mode == BATON_PROGRESS_CALLER) /* nobody sleeps on the bell */
        return;
    if (may_ring(b))
        bell_ring(ground_bell(b->on.ground));
    has_rung_it(b);
}

/* Takes the lock for turns of a thread of the engine, if turns are lent, and to this one. */
static bool take_turns(struct turns *t, uint64_t now)
{
    if (!t->can_lend || has_long(t) || task_rank(now) < t->least_rank || !owned_try(&t->lock))
        return false;
    if (atomic_load_explicit(&t->is_open, memory_order_relaxed))
        return true;
    owned_give(&t->lock);
    return false;
}

/*
 * Whether a copy worker is woken to make the turns of a call: it most likely has to copy its bytes anyway. If the offer
 * comes later, or the bytes come in short legs, that was one wake-up too many. The core learns of the call only once
 * the worker runs, and it may have to wait for a CPU: so a call with a deadline within the reactor's longest sleep is
 * not left to it.
 */
static bool is_for_worker(const struct baton *b, uint64_t bytes, uint64_t left_ns)
{
    return b->loop.turns.can_lend && bytes > b->settings.inline_bytes && !has_long(&b->loop.turns) &&
           left_ns > b->settings.sleep_us * CLOCK_NS_PER_US && paths_ask(b->paths);
}

void turns_call(struct baton *b, uint64_t now, uint64_t blocks, uint64_t bytes, uint64_t left_ns)
{
    struct turns *t = &b->loop.turns;
    uint64_t spent = atomic_load_explicit(&t->lent_ns, memory_order_relaxed);
    bool done = false;
    if (blocks > BLOCKS_MOST)
        atomic_store_explicit(&t->has_long, true, memory_order_relaxed);
    if (is_for_worker(b, bytes, left_ns))
        return;
    if (spent < LENT_NS && take_turns(t, now)) {
        const uint64_t began = clock_now_ns(); /* under the lock: the core's clock never goes back */
        done = turn_here(b, TURNS_CALL, began, LENT_NS - spent);
        atomic_store_explicit(&t->lent_ns, spent + t->last_ns - began, memory_order_relaxed);
        owned_give(&t->lock);
    }
    if (!done)
        turns_wake(b);
}

/* The polls of the calling thread, of any context. */
static _Thread_local struct {
    uint64_t polled_ns;      /* when a poll last found nothing */
    uint64_t spins_since_ns; /* since when polls have followed each other at once */
} polls;

/* A poll that found nothing: for how long its thread has done nothing else than polling. */
static uint64_t spun_ns(uint64_t now)
{
    if (now > polls.polled_ns + APART_NS)
        polls.spins_since_ns = now;
    polls.polled_ns = now;
    return now - polls.spins_since_ns;
}

/* Such a thread is faster than a reactor that must wake. Without the lock: it may lose its CPU at any moment. */
static void attend(struct baton *b, uint64_t now)
{
    struct turns *t = &b->loop.turns;
    const uint64_t woken = woken_ns(t);
    atomic_store_explicit(&t->attended_ns, now, memory_order_relaxed);
    if (woken <= now + TURNS_OWED_NS) {
        bell_attend(ground_bell(b->on.ground), now);
    } else if (atomic_load_explicit(&t->hurried_ns, memory_order_relaxed) != woken) {
        atomic_store_explicit(&t->hurried_ns, woken, memory_order_relaxed);
        bell_ring(ground_bell(b->on.ground)); /* it sleeps again, for less */
        turns_look(b);
    }
}

/*
 * A thread that does nothing but poll waits for the turns of another thread, which may need this very CPU. Without a
 * yield here the other one would wait for the next tick of the system's clock, if it was woken, or until this thread is
 * preempted, if it yielded between two turns.
 */
static void give_way(uint64_t spun)
{
    if (spun < SPINNING_NS)
        return;
    sched_yield();
    polls.polled_ns = clock_now_ns(); /* however long that took, it spins on */
}

/* Whether a reactor that has slept or yielded should have made a turn for some time: it gets no CPU. */
static bool is_late(const struct turns *t, uint64_t now)
{
    const uint64_t woken = woken_ns(t);
    return woken != 0 && now > woken + LATE_NS;
}

/*
 * Whether it is time for a turn: the bell has rung since the last one, or the reactor should have made one. Rings for
 * what readers' words tell are put off, since they would wake somebody. A thread that does nothing but poll is awake:
 * it looks for them itself.
 */
static bool is_due(const struct baton *b, uint64_t now, uint64_t spun)
{
    return has_rung(b) || is_late(&b->loop.turns, now) ||
           (spun >= SPINNING_NS && now > reactor_turned_ns(b) + UNRUNG_NS);
}

/* A turn for a poll that found nothing, or rings that are owed. Under the lock. True: a turn was made. */
static bool turn_for_poll(struct baton *b, uint64_t spun)
{
    struct turns *t = &b->loop.turns;
    const uint64_t now = clock_now_ns(), owed = owed_ns(t);
    const bool turns = is_due(b, now, spun);
    if (owed != 0 && (!turns || now > owed + TURNS_OWED_NS))
        turns_ring_all(b);
    if (turns && !turn_here(b, TURNS_POLL, now, LENT_NS)) {
        bell_ring(ground_bell(b->on.ground));
        turns_look(b); /* that one woke the reactor, and is not for the next poll */
    }
    return turns;
}

/*
 * If the bell has rung since the last turn, what came is at hand sooner than the reactor. Else looks at the bell again.
 */
static bool look_for_poll(struct baton *b, uint64_t now, uint64_t spun)
{
    const bool wants = owed_ns(&b->loop.turns) != 0 || is_due(b, now, spun);
    if (!wants && spun >= SPINNING_NS)
        attend(b, now);
    return wants;
}

/* What a thread that does nothing but poll waits for: copy workers may have it. */
static bool helps(struct baton *b, uint64_t spun)
{
    int cancel_state;
    if (spun < HELPS_NS)
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* else a copy that it has begun never ends */
    const bool helped = paths_help(b->paths);
    pthread_setcancelstate(cancel_state, NULL);
    if (!helped)
        return false;
    polls.polled_ns = clock_now_ns(); /* however long that took, it spins on */
    return true;
}

bool turns_polled(struct baton *b, bool any)
{
    struct turns *t = &b->loop.turns;
    if (atomic_load_explicit(&t->lent_ns, memory_order_relaxed) != 0)
        atomic_store_explicit(&t->lent_ns, 0, memory_order_relaxed);
    if (any || !b->loop.is_threaded)
        return false;
    const uint64_t now = clock_now_ns(), spun = spun_ns(now);
    const bool is_taken = owned_by(&t->lock) != 0;
    bool wants = false, helped = false, turned = false;
    if (t->can_lend && !has_long(t) && !is_taken && task_rank(now) >= t->least_rank) {
        const bool may = may_ring(b) && atomic_load_explicit(&t->is_open, memory_order_relaxed);
        wants = may && look_for_poll(b, now, spun);
        helped = may && !wants && helps(b, spun);
        has_rung_it(b);
        if (!wants)
            return helped;
    }
    if (wants && take_turns(t, now)) {
        turned = turn_for_poll(b, spun);
        owned_give(&t->lock);
    } else {
        give_way(spun); /* whoever has the lock looks for itself, or the next poll does */
    }
    return turned;
}

bool turns_rest(struct baton *b, uint64_t until_ns)
{
    while (atomic_load_explicit(&b->loop.turns.ringing, memory_order_seq_cst) != 0) {
        if (clock_now_ns() > until_ns)
            return false;
        sched_yield();
    }
    return true;
}

void turns_worker(void *arg, bool runs_out)
{
    struct baton *b = arg;
    struct turns *t = &b->loop.turns;
    bool done = false;
    const uint64_t now = clock_now_ns();
    if (runs_out && take_turns(t, now)) {
        done = turn_here(b, TURNS_WORKER, clock_now_ns(), LENT_NS);
        owned_give(&t->lock);
    }
    if (!done)
        turns_wake(b);
}

/* Turns while anything happens, and for as long after it as the reactor spins. */
static void turns_for_ring(struct baton *b)
{
    struct turns *t = &b->loop.turns;
    const uint64_t spin_ns = b->settings.spin_us * CLOCK_NS_PER_US, began = clock_now_ns();
    uint64_t now = began, active_ns = began;
    while (now < began + HEARD_NS && !reactor_must_end(&b->loop) &&
           (now - active_ns <= spin_ns || reactor_must_poll(b))) {
        turns_look(b);
        count_add(&t->count[TURNS_DOORBELL], 1);
        if (reactor_turn(b, now))
            active_ns = now;
        else if (reactor_must_poll(b))
            sched_yield();
        now = clock_now_ns();
    }
}

void turns_rung(void *arg)
{
    struct baton *b = arg;
    struct turns *t = &b->loop.turns;
    if (owned_try(&t->lock)) {
        if (t->is_open && !paths_has_driver(b->paths))
            turns_for_ring(b);
        owned_give(&t->lock);
    }
    turns_wake(b); /* what the ring told of may come later than it, and more without one */
}
