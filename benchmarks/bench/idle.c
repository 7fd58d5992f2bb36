/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle: what a world costs in which nothing happens. One prefill and one decode rank have met by a few transfers; then
 * the caller of every rank sleeps, and only what the kernel counts of its process is read: Baton's threads and MPI's.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/stage.h"

static const char *const columns[] = {"op", "rank", "seconds", "cpu_percent", "wakeups_s"};

#define BLOCK_BYTES 4096u
#define NUM_BLOCKS 256u
#define BATCH 64u
#define TRANSFERS 16u
#define REST_NS CLOCK_NS_PER_S /* in which all threads come to rest */

struct measured {
    double seconds;
    struct effort effort;
};

static struct measured measure(const struct context *c, double seconds)
{
    const uint64_t began = clock_now_ns();
    const struct effort before = effort_read(&c->meter);
    clock_sleep_until(began + (uint64_t)(seconds * (double)CLOCK_NS_PER_S));
    const struct effort effort = effort_since(&c->meter, before);
    return (struct measured){(double)(clock_now_ns() - began) / (double)CLOCK_NS_PER_S, effort};
}

static void print(struct bench *b, int rank, const struct measured *m)
{
    struct report_row row = {0};
    report_cell(&row, "%s", options_op_name(&b->options));
    report_cell(&row, "%d", rank);
    report_cell(&row, "%.3f", m->seconds);
    report_cell(&row, "%.4f", 100 * (double)m->effort.cpu_ns / (double)CLOCK_NS_PER_S / m->seconds);
    report_cell(&row, "%.1f", (double)m->effort.wakeups / m->seconds);
    report_add(&b->report, &row);
}

void idle_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct stage stage;
    struct stage_transfer t;
    struct measured *all = calloc((size_t)b->roster.size, sizeof *all);
    if (all == NULL)
        fail("out of memory for %d ranks", b->roster.size);
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    stage_open(b, &stage, BLOCK_BYTES, NUM_BLOCKS, BATCH);
    conditions_note_baton(b, stage.context.baton);
    for (unsigned i = 0; i < TRANSFERS && bench_is_consumer(b); i++)
        stage_pull(&stage, BATCH, false, &t);
    if (bench_is_consumer(b))
        stage_verify(&stage, BATCH, false);
    stage_serve(&stage);
    channel_barrier(b->roster.comm);
    clock_sleep_until(clock_now_ns() + REST_NS);
    const struct measured mine = measure(&stage.context, o->seconds);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, b->consumer, b->roster.comm);
    for (int rank = 0; rank < b->roster.size && bench_is_consumer(b); rank++)
        print(b, rank, &all[rank]);
    stage_close(&stage);
    free(all);
}
