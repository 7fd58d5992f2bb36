/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owned: a lock that knows which thread holds it, for locks that a thread of the engine may hold. The scheduler or a
 * debugger may take such a thread off its CPU at any moment and for any time. So a wait for the lock is bounded, and
 * whoever waits can say who holds it. (Priority inheritance would not help: the kernel gives all normal threads one
 * priority in its inheriting locks, and nothing boosts a thread that is stopped.)
 *
 * A thread that is cancelled (pthread_cancel) while it holds the lock ends once it has given it back.
 */
#ifndef BATON_BASE_OWNED_H
#define BATON_BASE_OWNED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct owned {
    _Atomic uint32_t word; /* the holder's thread id, 0: nobody holds it; and a bit that says that somebody waits */
    int cancel_state;      /* the holder's: what pthread_setcancelstate said before it took the lock */
};

static inline void owned_init(struct owned *o)
{
    atomic_init(&o->word, 0);
}

/** Takes it if it is free. Never waits. */
bool owned_try(struct owned *o);
/** Takes it, or waits for it until clock_now_ns has passed `until_ns`. False: another thread holds it still. */
bool owned_take(struct owned *o, uint64_t until_ns);
/** Gives it back. Its holder alone. */
void owned_give(struct owned *o);

/** The id of the thread that holds it; 0: nobody does. Any thread. */
uint32_t owned_by(const struct owned *o);

#endif
