/* SPDX-License-Identifier: BSD-3-Clause */
/* quantiles: of times. Pure. */
#ifndef REPLAY_QUANTILES_H
#define REPLAY_QUANTILES_H

#include <stddef.h>
#include <stdint.h>

struct quantiles {
    uint64_t p50_ns, p90_ns, p99_ns, p999_ns;
};

/** By nearest rank: each is the smallest value that at least this share of all values do not exceed. Sorts the values.
   Of none: zeros. */
struct quantiles quantiles_of(uint64_t *values, size_t count);

#endif
