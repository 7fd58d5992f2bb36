/* SPDX-License-Identifier: BSD-3-Clause */
/* pin: sched_setaffinity of the calling thread. */
#include "bench/pin.h"

void pin_init(struct pin *p)
{
    *p = (struct pin){.caller = -1, .reactor = -1};
    CPU_ZERO(&p->allowed);
    if (sched_getaffinity(0, sizeof p->allowed, &p->allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &p->allowed))
            continue;
        if (p->caller < 0)
            p->caller = cpu;
        p->reactor = cpu;
    }
    p->apart = p->caller != p->reactor;
}

static int move_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

int pin_to_reactor(const struct pin *p)
{
    return p->apart ? move_to(p->reactor) : 0;
}

int pin_to_caller(const struct pin *p)
{
    return p->apart ? move_to(p->caller) : 0;
}

int pin_to_all(const struct pin *p)
{
    return sched_setaffinity(0, sizeof p->allowed, &p->allowed);
}
