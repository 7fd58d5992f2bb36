/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cost: what the transfers of a row have cost both sides, and the columns that say so, which all operations that move
 * blocks have alike.
 */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include <stdint.h>

#include "bench/effort.h"
#include "bench/report.h"

/* µs a block (a descriptor of its table); CPU seconds a GiB; times that a thread was woken, a transfer. */
#define COST_COLUMNS "us_block", "consumer_cpu_s_GiB", "producer_cpu_s_GiB", "consumer_wakeups", "producer_wakeups"

struct cost {
    uint64_t transfers, bytes;
    struct effort consumer, producer;
};

/** So many more transfers, which moved so many bytes together. */
void cost_add(struct cost *c, uint64_t transfers, uint64_t bytes, struct effort consumer, struct effort producer);

/** The cells of COST_COLUMNS. `ns` is the median time of a transfer of `blocks` blocks. */
void cost_cells(const struct cost *c, double ns, uint64_t blocks, struct report_row *out);

#endif
