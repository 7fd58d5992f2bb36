/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: one transfer at a time beside its limit, the two in turn, so that both see the same machine. Blocks are
 * fresh and scattered on both sides, the caches are several times the processor's, and page tables and handshake are
 * warm. Every block size has a context of its own, every (block size, batch) a row.
 *
 *   pull, push   bandwidth and latency in either direction, beside the limit of the path
 *   wrapped      caches in memory that the benchmark owns, on one node: private memory beside process_vm_readv alone,
 *                memory that other processes can map beside a cache that Baton allocates
 */
#include <inttypes.h>
#include <stdio.h>

#include "bench/limit.h"
#include "bench/pace.h"

#define POOL_LEAST (UINT64_C(256) << 20)
#define WRAPPED_POOL_LEAST (UINT64_C(128) << 20)
#define BYTES_A_ROW (UINT64_C(8) << 30)
#define ITERS_LEAST 20u
#define ITERS_MOST 2000u
#define WRAPPED_ITERS_MOST 1000u
#define ITERS_FLOOR 5u /* however long they take: the median of fewer says little */
#define WARM_UPS 3u
#define WARM_UP_SECONDS 0.5
#define WARM_PAGES_SECONDS 5

struct run {
    struct scene scene, slab; /* slab: what mapped memory of the benchmark stands beside */
    struct limit limit;       /* what all other memory stands beside */
    baton_path_t path;
};

static bool is_beside_slab(const struct run *r)
{
    return r->scene.form.memory == OWN_MAPPED;
}

static void open_run(struct run *r, struct bench *b, enum own_kind memory, uint64_t block_bytes)
{
    const struct options *o = &b->options;
    struct scene_form form = {
        .memory = memory,
        .block_bytes = block_bytes,
        .num_blocks = blocks_pool_blocks(o, memory == OWN_SLAB ? POOL_LEAST : WRAPPED_POOL_LEAST, block_bytes),
        .max_batch = (uint32_t)option_list_most(&o->batch)};
    *r = (struct run){.path = BATON_PATH_SHM};
    scene_open(b, &r->scene, &form);
    form.memory = OWN_SLAB;
    if (memory == OWN_MAPPED) {
        scene_open(b, &r->slab, &form);
    } else {
        limit_open(&r->limit, &r->scene);
        r->path = r->limit.path;
    }
}

static void close_run(struct run *r)
{
    if (is_beside_slab(r))
        scene_close(&r->slab);
    else
        limit_close(&r->limit);
    scene_close(&r->scene);
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* One of each. */
static void turn(struct run *r, uint32_t batch, struct transfers *row, struct transfers *slab)
{
    scene_take(&r->scene, batch, r->path, row);
    if (is_beside_slab(r))
        scene_take(&r->slab, batch, r->path, slab);
    else
        limit_measure(&r->limit, batch);
}

/*
 * Each block is used once: a process's first touch of a page that another one allocated is a page fault, which in a
 * push the producer pays and the limit, measured by the consumer, does not.
 */
static void warm_pages(struct run *r)
{
    struct pace pace;
    const struct scene_form *form = &r->scene.form;
    pace_begin_warming(&pace, r->scene.bench, 1 + form->num_blocks / form->max_batch, WARM_PAGES_SECONDS);
    while (r->path != BATON_PATH_RMA && pace_next(&pace))
        turn(r, form->max_batch, NULL, NULL);
}

static uint64_t turns_most(const struct run *r, uint64_t batch_bytes)
{
    const uint64_t goal = BYTES_A_ROW / batch_bytes;
    if (r->scene.form.memory != OWN_SLAB)
        return WRAPPED_ITERS_MOST;
    return goal < ITERS_LEAST ? ITERS_LEAST : goal > ITERS_MOST ? ITERS_MOST : goal;
}

static void measure(struct run *r, uint32_t batch, struct transfers *row, struct transfers *slab)
{
    struct bench *b = r->scene.bench;
    const uint64_t block = r->scene.form.block_bytes;
    struct pace pace;
    pace_begin_warming(&pace, b, WARM_UPS, WARM_UP_SECONDS);
    while (pace_next(&pace))
        turn(r, batch, NULL, NULL);
    ways_reset(&r->limit.ways);
    pace_begin(&pace, b, ITERS_FLOOR, turns_most(r, batch * block), "%" PRIu64 " x %" PRIu32, block, batch);
    while (pace_next(&pace))
        turn(r, batch, row, slab);
    scene_verify(&r->scene, batch, false);
}

static void print_pull(struct run *r, uint32_t batch, struct transfers *row)
{
    struct bench *b = r->scene.bench;
    struct limit *l = &r->limit;
    const uint64_t block = r->scene.form.block_bytes;
    const char *way;
    const double bytes = (double)(batch * block), limit_ns = (double)limit_best_ns(l, &way);
    const double ns = (double)samples_quantile(&row->total, 0.5), rate = bytes / ns;
    const double limit = limit_ns > 0 ? bytes / limit_ns : 0;
    report_row(&b->report,
               "path=%s|block_bytes=%" PRIu64 "|batch=%" PRIu32
               "|GBps=%.3f|submit_us=%.2f|total_us_p50=%.1f|total_us_p99=%.1f|limit_GBps=%.3f|ratio=%.3f" COST_COLUMNS,
               bench_path_name(r->path), block, batch, rate, samples_us(&row->submit, 0.5), ns / 1e3,
               samples_us(&row->total, 0.99), limit, limit > 0 ? rate / limit : 0.0, COST_CELLS(&row->cost, ns, batch));
    report_osu(&b->report, "Bandwidth (MB/s)", block, 1e3 * rate);
    char stalls[48] = "";
    if (r->path == BATON_PATH_RMA)
        snprintf(stalls, sizeof stalls, "; raw MPI stalled %" PRIu64 " times", l->raw.stalls);
    report_note(&b->report, "  %" PRIu64 " x %" PRIu32 ": %zu transfers; limit by %s, %zu samples%s", block, batch,
                row->total.count, way, ways_count(&l->ways), stalls);
}

static void print_wrapped(struct run *r, uint32_t batch, struct transfers *row, struct transfers *slab)
{
    struct report *report = &r->scene.bench->report;
    const uint64_t block = r->scene.form.block_bytes;
    const char *memory = own_name(r->scene.form.memory);
    struct samples *beside = is_beside_slab(r) ? &slab->total : &r->limit.ways.of[0];
    const double bytes = (double)(batch * block), ns = (double)samples_quantile(&row->total, 0.5),
                 beside_ns = (double)samples_quantile(beside, 0.5);
    report_row(report,
               "memory=%s|path=%s|block_bytes=%" PRIu64 "|batch=%" PRIu32
               "|us_p50=%.1f|GBps=%.3f|beside=%s|beside_GBps=%.3f|ratio=%.3f" COST_COLUMNS,
               memory, bench_path_name(r->path), block, batch, ns / 1e3, bytes / ns,
               is_beside_slab(r) ? "slab" : "readv", bytes / beside_ns, beside_ns / ns,
               COST_CELLS(&row->cost, ns, batch));
    report_note(report, "  %s: %zu and %zu samples; threads of readv: %u", memory, row->total.count, beside->count,
                r->limit.copies.crew.num);
}

static void run_row(struct run *r, uint32_t batch)
{
    struct transfers row = {0}, slab = {0};
    measure(r, batch, &row, &slab);
    if (r->scene.form.memory == OWN_SLAB)
        print_pull(r, batch, &row);
    else
        print_wrapped(r, batch, &row, &slab);
    transfers_fini(&row);
    transfers_fini(&slab);
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

static void note_size(const struct run *r)
{
    const struct scene_form *form = &r->scene.form;
    const uint64_t pool = form->num_blocks * form->block_bytes;
    char name[MPI_MAX_OBJECT_NAME] = "";
    if (r->path == BATON_PATH_RMA)
        raw_name(&r->limit.raw, name);
    report_note(&r->scene.bench->report, "blocks of %" PRIu64 " bytes: pool %" PRIu64 " MiB a side%s%s%s",
                form->block_bytes, pool >> 20,
                pool < 4 * blocks_l3_bytes() ? " (LESS than 4 times the L3 cache: caches help)" : "",
                *name ? ", raw window: " : "", name);
}

static void run_memory(struct bench *b, enum own_kind memory, uint64_t block_bytes, bool first)
{
    const struct option_list *batch = &b->options.batch;
    struct run r;
    open_run(&r, b, memory, block_bytes);
    if (first)
        context_note(b, &r.scene.context);
    if (first && memory == OWN_SLAB)
        limit_note(&r.limit);
    if (memory == OWN_SLAB)
        note_size(&r);
    warm_pages(&r);
    for (unsigned i = 0; i < batch->count; i++)
        run_row(&r, (uint32_t)batch->value[i]);
    close_run(&r);
}

void pull_run(struct bench *b)
{
    const struct option_list *block = &b->options.block;
    for (unsigned i = 0; i < block->count; i++)
        run_memory(b, OWN_SLAB, block->value[i], i == 0);
}

void wrapped_run(struct bench *b)
{
    const struct option_list *block = &b->options.block;
    report_note(
        &b->report,
        "from baton_want to its event, of fresh scattered blocks; beside: process_vm_readv alone, 1024 blocks a "
        "call, or the same transfer of a cache that Baton allocates");
    for (unsigned i = 0; i < block->count; i++)
        for (enum own_kind memory = OWN_PRIVATE; memory < OWN_KINDS; memory++)
            run_memory(b, memory, block->value[i], i == 0 && memory == OWN_PRIVATE);
}
