/* SPDX-License-Identifier: BSD-3-Clause */
/* turns: see turns.h. */
#include "front/context.h"

#include <sched.h>

#include "base/bell.h"
#include "base/clock.h"
#include "shm/rings.h"

#define LENT_NS (50 * CLOCK_NS_PER_US) /* for how long calls begin turns between two polls, and a worker at one end */
#define SPINNING_NS (100 * CLOCK_NS_PER_US) /* who has polled for so long polls on */
#define HEARD_NS (10 * CLOCK_NS_PER_MS)     /* for how long turns are made after a ring from another node */
#define APART_NS (50 * CLOCK_NS_PER_US)     /* polls with longer pauses do not follow each other at once */
#define TURNS_A_TRANSFER 4                  /* to take it, move it, read its generation and end it */
#define BLOCKS_MOST 4096                    /* of a call that a caller's turn takes: about 10 us for their tables */

void turns_init(struct turns *t)
{
    *t = (struct turns){.can_lend = false};
    pthread_mutex_init(&t->lock, NULL);
}

void turns_fini(struct turns *t)
{
    pthread_mutex_destroy(&t->lock);
}

/* When a ring is made that a reactor puts off: events that follow each other put it off no further. */
static uint64_t late_ns(const struct baton *b, uint64_t owed_ns)
{
    const uint64_t woke_ns = b->loop.woke_ns;
    return (owed_ns < woke_ns ? owed_ns : woke_ns) + TURNS_AWAKE_NS;
}

uint64_t turns_due_ns(const struct baton *b)
{
    return b->loop.turns.owed_ns != 0 ? late_ns(b, b->loop.turns.owed_ns) : UINT64_MAX;
}

/*
 * What can wait is not rung by the call that makes a transfer nor by the poll that takes its event, which are what an
 * engine waits for: by a poll that finds nothing, or by the reactor's next turn, if it makes one soon. Nor is it rung
 * by a reactor that has just woken its engine, perhaps on this very core.
 */
static bool puts_off(const struct baton *b, uint64_t now)
{
    const struct turns *t = &b->loop.turns;
    if (t->is_lent)
        return t->woken_ns < t->last_ns + TURNS_OWED_NS;
    return now < late_ns(b, t->owed_ns != 0 ? t->owed_ns : now);
}

void turns_ring(struct baton *b, uint64_t now)
{
    struct turns *t = &b->loop.turns;
    struct rings *rings = paths_rings(b->paths);
    rings_ring(rings, puts_off(b, now) ? RINGS_NOW : RINGS_LATER);
    if (!rings_wait(rings))
        t->owed_ns = 0;
    else if (t->owed_ns == 0)
        t->owed_ns = now;
}

void turns_ring_all(struct baton *b)
{
    rings_ring(paths_rings(b->paths), RINGS_LATER);
    b->loop.turns.owed_ns = 0;
}

uint32_t turns_look(struct baton *b)
{
    uint32_t rings = bell_look(fabric_bell(b->fabric));
    atomic_store_explicit(&b->loop.turns.seen, rings, memory_order_relaxed);
    return rings;
}

static bool has_rung(const struct baton *b)
{
    return bell_look(fabric_bell(b->fabric)) != atomic_load_explicit(&b->loop.turns.seen, memory_order_relaxed);
}

/* Where such a call is queued, no other thread makes turns until the reactor has taken it. */
static bool has_long(const struct turns *t)
{
    return atomic_load_explicit(&t->has_long, memory_order_relaxed);
}

/* Whether more happens by itself in the next turn. */
static bool goes_on(const struct baton *b)
{
    return b->port->path.busy(b->port->path.self) || !ring_is_empty(b->submits) || b->loop.is_cut;
}

/*
 * Turns from now on until nothing more happens by itself, begun for so long, or four of them where these take longer: a
 * reactor that is woken for the end of a transfer takes longer than its bytes. False: the reactor is needed.
 */
static bool turn_here(struct baton *b, enum turns_by by, uint64_t began, uint64_t most_ns)
{
    struct turns *t = &b->loop.turns;
    const uint64_t least = t->count[by] + TURNS_A_TRANSFER;
    bool active = true;
    t->is_lent = true;
    paths_lend(b->paths, true);
    t->last_ns = began;
    while (active && !has_long(t) && (t->last_ns - began < most_ns || t->count[by] < least)) {
        turns_look(b);
        t->count[by]++;
        active = reactor_turn(b, t->last_ns) && goes_on(b);
        t->last_ns = clock_now_ns();
    }
    t->is_lent = false;
    paths_lend(b->paths, false);
    return !active && !reactor_must_poll(b) && core_next_ns(b->core) >= t->woken_ns;
}

/* Without the lock. A reactor that was abandoned does not sleep, and MPI may free the bell (turns_rest). */
static void wake_reactor(struct baton *b)
{
    struct turns *t = &b->loop.turns;
    if (fabric_mode(b->fabric) == BATON_PROGRESS_CALLER) /* nobody sleeps on the bell */
        return;
    atomic_fetch_add_explicit(&t->ringing, 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&b->loop.abandon, memory_order_seq_cst))
        bell_ring(fabric_bell(b->fabric));
    atomic_fetch_sub_explicit(&t->ringing, 1, memory_order_release);
}

/*
 * What a copy worker is most likely woken for anyway is its own from the beginning, if it is free. Where it is not, as
 * the offer comes later or the bytes come in short legs, it is woken once more than would do. It may wait for a core,
 * and the core learns of the call from it: so a deadline within the reactor's longest sleep is not left to it.
 */
static bool is_for_worker(const struct baton *b, uint64_t bytes, uint64_t left_ns)
{
    return b->loop.turns.can_lend && bytes > b->settings.inline_bytes && !has_long(&b->loop.turns) &&
           left_ns > b->settings.sleep_us * CLOCK_NS_PER_US && paths_ask(b->paths);
}

void turns_call(struct baton *b, uint64_t blocks, uint64_t bytes, uint64_t left_ns)
{
    struct turns *t = &b->loop.turns;
    uint64_t spent = atomic_load_explicit(&t->lent_ns, memory_order_relaxed);
    bool done = false;
    if (blocks > BLOCKS_MOST)
        atomic_store_explicit(&t->has_long, true, memory_order_relaxed);
    if (is_for_worker(b, bytes, left_ns))
        return;
    if (t->can_lend && !has_long(t) && spent < LENT_NS && pthread_mutex_trylock(&t->lock) == 0) {
        if (t->is_open) {
            const uint64_t began = clock_now_ns(); /* under the lock: the core's clock never goes back */
            done = turn_here(b, TURNS_CALL, began, LENT_NS - spent);
            atomic_store_explicit(&t->lent_ns, spent + t->last_ns - began, memory_order_relaxed);
        }
        pthread_mutex_unlock(&t->lock);
    }
    if (!done)
        wake_reactor(b);
}

/* What the calling thread has polled, of whichever context. */
static _Thread_local struct {
    uint64_t polled_ns;      /* when a poll last found nothing */
    uint64_t spins_since_ns; /* since when polls have followed each other at once */
} polls;

/* A poll that found nothing: whether its thread does nothing else than polling. */
static bool spins(uint64_t now)
{
    if (now > polls.polled_ns + APART_NS)
        polls.spins_since_ns = now;
    polls.polled_ns = now;
    return now >= polls.spins_since_ns + SPINNING_NS;
}

/* Such a thread is faster than a reactor that must wake. */
static void attend(struct baton *b)
{
    struct turns *t = &b->loop.turns;
    const uint64_t now = clock_now_ns();
    if (!spins(now))
        return;
    t->attended_ns = now;
    if (t->woken_ns <= now + TURNS_OWED_NS) {
        bell_attend(fabric_bell(b->fabric), now);
    } else if (t->hurried_ns != t->woken_ns) { /* it sleeps again, for less */
        t->hurried_ns = t->woken_ns;
        bell_ring(fabric_bell(b->fabric));
        turns_look(b);
    }
}

/*
 * A thread that does nothing but poll waits for the turns of another one, which may need this very core: one that was
 * woken would wait for the next tick of the system's clock, and one that yields between two turns until this thread
 * yields too, or is preempted.
 */
static void give_way(void)
{
    if (!spins(clock_now_ns()))
        return;
    sched_yield();
    polls.polled_ns = clock_now_ns(); /* however long that took, it spins on */
}

/* A poll that found nothing: if the bell has rung since the last turn, what came is at hand sooner than the reactor. */
static bool turn_for_poll(struct baton *b)
{
    struct turns *t = &b->loop.turns;
    const bool rang = has_rung(b);
    if (t->owed_ns != 0 && (!rang || clock_now_ns() > t->owed_ns + TURNS_OWED_NS))
        turns_ring_all(b);
    if (rang && !turn_here(b, TURNS_POLL, clock_now_ns(), LENT_NS)) {
        bell_ring(fabric_bell(b->fabric));
        turns_look(b); /* that one woke the reactor, and is not for the next poll */
    }
    return rang;
}

bool turns_polled(struct baton *b, bool any)
{
    struct turns *t = &b->loop.turns;
    if (atomic_load_explicit(&t->lent_ns, memory_order_relaxed) != 0)
        atomic_store_explicit(&t->lent_ns, 0, memory_order_relaxed);
    if (any || !b->loop.is_threaded)
        return false;
    if (!t->can_lend || has_long(t) || pthread_mutex_trylock(&t->lock) != 0) {
        give_way(); /* whoever has the lock looks for itself, or the next poll does */
        return false;
    }
    const bool is_open = t->is_open;
    bool turned = is_open && turn_for_poll(b); /* where nothing is lent, MPI may be gone, and the bell with it */
    if (is_open && !turned)
        attend(b);
    pthread_mutex_unlock(&t->lock);
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
    if (runs_out && t->can_lend && !has_long(t) && pthread_mutex_trylock(&t->lock) == 0) {
        done = t->is_open && turn_here(b, TURNS_WORKER, clock_now_ns(), LENT_NS);
        pthread_mutex_unlock(&t->lock);
    }
    if (!done)
        wake_reactor(b);
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
        t->count[TURNS_DOORBELL]++;
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
    if (pthread_mutex_trylock(&t->lock) == 0) {
        if (t->is_open && !paths_has_driver(b->paths))
            turns_for_ring(b);
        pthread_mutex_unlock(&t->lock);
    }
    wake_reactor(b); /* what the ring told of may come later than it, and more without one */
}
