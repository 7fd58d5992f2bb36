/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: wakes a sleeping thread, also across processes where the bell lies in shared memory. A futex under it.
 *
 *   sleeper: seen = bell_look(b); if (nothing to do) bell_sleep(b, seen, timeout);
 *   ringer:  make the work visible; bell_ring(b);
 *
 * A ring after the look makes the sleep return at once, so no wake-up is lost. Ringing costs one atomic add, and a
 * system call only while somebody sleeps. One sleeper, or several that all may be woken.
 */
#ifndef BATON_BASE_BELL_H
#define BATON_BASE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

struct bell {
    _Atomic uint32_t rings;
    _Atomic uint32_t asleep;
};

static inline void bell_init(struct bell *b)
{
    atomic_init(&b->rings, 0);
    atomic_init(&b->asleep, 0);
}

static inline uint32_t bell_look(struct bell *b)
{
    return atomic_load_explicit(&b->rings, memory_order_seq_cst);
}

void bell_ring(struct bell *b);

/** Sleeps until a ring since `seen`, or timeout_ns, or a signal. */
void bell_sleep(struct bell *b, uint32_t seen, uint64_t timeout_ns);

#endif
