/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: see bell.h. Both sides write their own word and then read the other's, all sequentially consistent: either the
 * ringer sees `asleep`, or the sleeper's futex call sees the new `rings` and returns at once.
 */
#include "base/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void bell_ring(struct bell *b)
{
    atomic_fetch_add_explicit(&b->rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&b->asleep, memory_order_seq_cst) > 0)
        syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); /* not private: sleepers of any process */
}

void bell_sleep(struct bell *b, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
    atomic_fetch_add_explicit(&b->asleep, 1, memory_order_seq_cst);
    syscall(SYS_futex, &b->rings, FUTEX_WAIT, seen, &ts, NULL, 0); /* any return is a reason to look again */
    atomic_fetch_sub_explicit(&b->asleep, 1, memory_order_seq_cst);
}
