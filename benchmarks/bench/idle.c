/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle: what a world costs in which nothing happens. One prefill and one decode rank have met by a few transfers; then
 * the caller of every rank sleeps, and only what the kernel counts of its process is read: Baton's threads and MPI's.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/scene.h"

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

void idle_run(struct bench *b)
{
    struct scene scene;
    struct transfer t;
    struct measured *all = room((size_t)b->roster.size, sizeof *all);
    scene_open(b, &scene,
               &(struct scene_form){.block_bytes = BLOCK_BYTES, .num_blocks = NUM_BLOCKS, .max_batch = BATCH});
    conditions_note_baton(b, scene.context.baton);
    for (unsigned i = 0; i < TRANSFERS; i++)
        scene_move(&scene, BATCH, false, &t);
    scene_verify(&scene, BATCH, false);
    channel_barrier(b->roster.comm);
    clock_sleep_until(clock_now_ns() + REST_NS);
    const struct measured mine = measure(&scene.context, b->options.seconds);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, b->consumer, b->roster.comm);
    for (int rank = 0; rank < b->roster.size; rank++)
        report_row(&b->report, "rank=%d|seconds=%.3f|cpu_percent=%.4f|wakeups_s=%.1f", rank, all[rank].seconds,
                   100 * (double)all[rank].effort.cpu_ns / (double)CLOCK_NS_PER_S / all[rank].seconds,
                   (double)all[rank].effort.wakeups / all[rank].seconds);
    scene_close(&scene);
    free(all);
}
