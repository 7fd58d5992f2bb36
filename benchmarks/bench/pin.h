/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pin: where the threads run. A thread inherits the CPUs of the thread that creates it. So the caller starts the
 * context on the reactor's CPU, and then moves to its own.
 */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <sched.h>
#include <stdbool.h>

struct pin {
    cpu_set_t allowed; /* of the process, as it was started */
    int caller, reactor;
    bool apart; /* the two are different CPUs */
};

void pin_init(struct pin *p);
/** Moves the calling thread to the reactor's CPU (before the context starts), to the caller's, or to all allowed. */
int pin_to_reactor(const struct pin *p);
int pin_to_caller(const struct pin *p);
int pin_to_all(const struct pin *p);

#endif
