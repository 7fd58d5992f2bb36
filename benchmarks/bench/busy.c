/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: arithmetic in registers. The thread takes a core but no memory bandwidth, so what a transfer loses is
   the core. */
#include "bench/busy.h"

static void *compute(void *arg)
{
    struct busy *b = arg;
    double x = 1.0, y = 0.5;
    pin_to_all(b->pin);
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        for (int i = 0; i < 4096; i++) {
            x = x * 0.999999 + y;
            y = y * 1.000001 - x * 1e-7;
        }
    }
    b->result = x + y;
    return NULL;
}

int busy_start(struct busy *b, const struct pin *pin)
{
    b->pin = pin;
    atomic_store(&b->stop, false);
    int rc = pthread_create(&b->thread, NULL, compute, b);
    b->running = rc == 0;
    return rc;
}

void busy_stop(struct busy *b)
{
    if (!b->running)
        return;
    atomic_store(&b->stop, true);
    pthread_join(b->thread, NULL);
    b->running = false;
}
