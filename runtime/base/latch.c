/* SPDX-License-Identifier: BSD-3-Clause */
/* latch: see latch.h. */
#include "base/latch.h"

#include "base/clock.h"

void latch_open(struct latch *l)
{
    /* release: orders what the caller stored before, against the acquire in latch_wait. */
    atomic_store_explicit(&l->is_open, true, memory_order_release);
    bell_ring(&l->bell);
}

bool latch_wait(struct latch *l, uint64_t until_ns)
{
    for (;;) {
        uint32_t seen = bell_read(&l->bell); /* before the flag is read: a ring after this ends the sleep */
        /* acquire: orders what the waiter loads next, after what the opener stored before. */
        if (atomic_load_explicit(&l->is_open, memory_order_acquire))
            return true;
        uint64_t now = clock_now_ns();
        if (now >= until_ns)
            return false;
        bell_sleep(&l->bell, seen, until_ns - now);
    }
}
