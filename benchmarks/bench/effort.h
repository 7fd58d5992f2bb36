/* SPDX-License-Identifier: BSD-3-Clause */
/* effort: what Baton's threads of this process have cost so far, as the kernel counts it. */
#ifndef BENCH_EFFORT_H
#define BENCH_EFFORT_H

#include <stdint.h>

struct effort {
    uint64_t cpu_ns;
    uint64_t wakeups; /* how often they were put on a processor after they had slept */
};

/** Sums over the threads whose names begin with "baton-". Fails where /proc cannot be read. */
void effort_read(struct effort *out);

#endif
