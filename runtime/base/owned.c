/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owned: see owned.h. A futex on the word, as in U. Drepper's "Futexes Are Tricky", with the holder's id for "locked".
 */
#include "base/owned.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/task.h"

#define WAITED UINT32_C(0x80000000) /* ids of threads are below 2^22 */

/* acquire: whoever holds the lock sees what the holder before stored, by the release in owned_give. */
static bool swap(struct owned *o, uint32_t *from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&o->word, from, to, memory_order_acquire, memory_order_relaxed);
}

static bool hold(struct owned *o)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &o->cancel_state);
    return true;
}

bool owned_try(struct owned *o)
{
    uint32_t word = 0;
    return swap(o, &word, task_id()) && hold(o);
}

bool owned_take(struct owned *o, uint64_t until_ns)
{
    uint32_t word = 0, mine = task_id();
    for (;;) {
        if (word == 0 && swap(o, &word, mine))
            return hold(o);
        if (word == 0)
            continue;
        mine = task_id() | WAITED; /* others may wait as well: who gives the lock back wakes one of them */
        if ((word & WAITED) == 0 && !swap(o, &word, word | WAITED))
            continue;
        const uint64_t now = clock_now_ns();
        if (now >= until_ns)
            return false;
        const uint64_t left = until_ns - now;
        const struct timespec timeout = {(time_t)(left / CLOCK_NS_PER_S), (long)(left % CLOCK_NS_PER_S)};
        futex(&o->word, FUTEX_WAIT_PRIVATE, word | WAITED, &timeout);
        word = 0;
    }
}

void owned_give(struct owned *o)
{
    const int cancel_state = o->cancel_state; /* the next holder stores its own */
    if ((atomic_exchange_explicit(&o->word, 0, memory_order_release) & WAITED) != 0)
        futex(&o->word, FUTEX_WAKE_PRIVATE, 1, NULL);
    pthread_setcancelstate(cancel_state, NULL);
}

uint32_t owned_by(const struct owned *o)
{
    return atomic_load_explicit(&o->word, memory_order_relaxed) & ~WAITED;
}
