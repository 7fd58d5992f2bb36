/* SPDX-License-Identifier: BSD-3-Clause */
/* cost: see cost.h. */
#include "bench/cost.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

void cost_add(struct cost *c, uint64_t transfers, uint64_t bytes, struct effort consumer, struct effort producer)
{
    c->transfers += transfers;
    c->bytes += bytes;
    effort_add(&c->consumer, consumer);
    effort_add(&c->producer, producer);
}

void cost_cells(const struct cost *c, double ns, uint64_t blocks, struct report_row *out)
{
    const double gib = (double)c->bytes / GIB, transfers = (double)c->transfers;
    report_cell(out, "%.3f", ns / (double)blocks / 1e3);
    report_cell(out, "%.4f", (double)c->consumer.cpu_ns / 1e9 / gib);
    report_cell(out, "%.4f", (double)c->producer.cpu_ns / 1e9 / gib);
    report_cell(out, "%.2f", (double)c->consumer.wakeups / transfers);
    report_cell(out, "%.2f", (double)c->producer.wakeups / transfers);
}
