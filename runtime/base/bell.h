/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: wakes a sleeping thread, also of another process where the bell lies in shared memory. It is a futex.
 *
 *   sleeper: seen = bell_read(b); if (nothing to do) bell_sleep(b, seen, timeout);
 *   ringer:  make the work visible; bell_ring(b);
 *
 * A ring after the look makes the sleep return at once, so no wake-up is lost. Ringing costs one atomic add, and a
 * system call only while somebody sleeps. Where several sleep, a ring wakes them all.
 *
 * A thread that polls the bell attends to it: it sees a ring sooner than a thread that sleeps, since waking that one
 * takes 10 us and more, and perhaps the CPU of the thread that polls. It calls bell_attend at each look, and then
 * bell_ring_unattended wakes nobody. Nobody knows which of its looks is the last, so the thread that sleeps meanwhile
 * must wake by itself soon.
 */
#ifndef BATON_BASE_BELL_H
#define BATON_BASE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

struct bell {
    _Atomic uint32_t rings;
    _Atomic uint32_t asleep;
    _Atomic uint64_t attended_ns; /* by clock_now_ns, which is one clock for all processes of a host */
};

static inline void bell_init(struct bell *b)
{
    atomic_init(&b->rings, 0);
    atomic_init(&b->asleep, 0);
    atomic_init(&b->attended_ns, 0);
}

/**
 * seq_cst: orders this load before the caller's look for work, against a ringer that makes work visible before it
 * rings.
 */
static inline uint32_t bell_read(struct bell *b)
{
    return atomic_load_explicit(&b->rings, memory_order_seq_cst);
}

/** Wakes all who sleep. Who sees the ring also sees what the caller stored before. */
void bell_ring(struct bell *b);

/** For how long a bell is attended after a look: the looks of a thread that does nothing else are 1 us apart. */
#define BELL_ATTENDED_NS 5000

/** At this moment, `now_ns`, the calling thread looks at the bell, and will do so again at once. */
static inline void bell_attend(struct bell *b, uint64_t now_ns)
{
    atomic_store_explicit(&b->attended_ns, now_ns, memory_order_relaxed);
}

/** As bell_ring, but wakes nobody while the bell is attended. */
void bell_ring_unattended(struct bell *b);

/** Sleeps until a ring that came after `seen` was looked at, until timeout_ns have passed, or until a signal. */
void bell_sleep(struct bell *b, uint32_t seen, uint64_t timeout_ns);

#endif
