/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: a futex on the count of rings. Any thread of any process that maps the bell calls it. Never allocates; blocks
 * in bell_sleep alone.
 *
 * Why no wake-up is lost. Both sides write one word, then read the other's, all sequentially consistent:
 *
 *   sleeper:  asleep += 1;  read rings            ringer:  rings += 1;  read asleep
 *
 * In the single order of these four, either the sleeper's add comes before the ringer's read of `asleep`: the ringer
 * sees a sleeper and makes the wake call; or the ringer's add comes before the sleeper's read of `rings`: the sleeper
 * sees a ring since its look and does not sleep. With anything weaker both could read the old value. Between the
 * sleeper's read and its sleep the kernel compares `rings` with `seen` once more, atomically with queueing the
 * sleeper, so a ring in that gap either makes the compare fail or finds the sleeper queued.
 *
 * A process that dies asleep leaves `asleep` too high for good: every later ring then costs a system call, and nothing
 * else changes. Where the count of rings wraps round to exactly `seen`, the sleeper sleeps until its timeout; that
 * takes 2^32 rings between its look and its sleep.
 */
#include "base/bell.h"

#include <limits.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/futex.h"

#define NS_PER_S UINT64_C(1000000000)

/* Counts a ring. Whether somebody may sleep. */
static bool count(struct bell *b)
{
    /*
     * seq_cst: orders this add before the load below, against the sleeper's add and load (see above). It also releases
     * the work: whoever reads this count, or a later one, in bell_read sees what was written before the ring.
     */
    atomic_fetch_add_explicit(&b->rings, 1, memory_order_seq_cst);
    return atomic_load_explicit(&b->asleep, memory_order_seq_cst) != 0;
}

/* Without FUTEX_PRIVATE_FLAG: the kernel then finds the word by its page, which processes share, not by address. */
static void wake(struct bell *b)
{
    futex(&b->rings, FUTEX_WAKE, INT_MAX, NULL);
}

void bell_ring(struct bell *b)
{
    if (count(b))
        wake(b);
}

void bell_ring_unattended(struct bell *b)
{
    if (count(b) && clock_now_ns() - atomic_load_explicit(&b->attended_ns, memory_order_relaxed) >= BELL_ATTENDED_NS)
        wake(b);
}

void bell_sleep(struct bell *b, uint32_t seen, uint64_t timeout_ns)
{
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                                     .tv_nsec = (long)(timeout_ns % NS_PER_S)};

    /* seq_cst: orders this add before the load below, against the ringer's add and load (see above). */
    atomic_fetch_add_explicit(&b->asleep, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&b->rings, memory_order_seq_cst) == seen)
        futex(&b->rings, FUTEX_WAIT, seen, &timeout);
    /* relaxed: nothing is ordered by waking up. A ringer that still sees the old count makes one idle wake call. */
    atomic_fetch_sub_explicit(&b->asleep, 1, memory_order_relaxed);
}
