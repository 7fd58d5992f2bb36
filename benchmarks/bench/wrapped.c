/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wrapped: caches in memory that the benchmark owns, each beside its limit on one node. Private memory stands beside
 * process_vm_readv alone, memory that other processes can map beside a cache that Baton allocates. The two sides of a
 * row alternate, and every page was touched before by both.
 */
#include <inttypes.h>

#include "bench/attached.h"
#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/cost.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/pool.h"
#include "bench/samples.h"
#include "bench/stage.h"

static const char *const columns[] = {"op",   "memory", "path",        "block_bytes", "batch",     "us_p50",
                                      "GBps", "beside", "beside_GBps", "ratio",       COST_COLUMNS};

#define POOL_LEAST (UINT64_C(128) << 20)
#define ITERS_LEAST 5u
#define ITERS_MOST 1000u

enum { WRAPPED, SLAB, STAGES };

struct run {
    struct bench *bench;
    enum own_kind kind;
    struct stage stage[STAGES]; /* SLAB: with OWN_MAPPED */
    struct attached attached;   /* with OWN_PRIVATE */
    struct samples wrapped, beside;
    struct cost cost; /* of the wrapped ones */
};

static void open_run(struct run *r, struct bench *b, enum own_kind kind, uint64_t block_bytes)
{
    uint32_t blocks = pool_blocks(&b->options, POOL_LEAST, block_bytes), batch = pool_largest_batch(&b->options);
    *r = (struct run){.bench = b, .kind = kind};
    stage_open_in(b, &r->stage[WRAPPED], kind, block_bytes, blocks, batch);
    if (kind == OWN_PRIVATE) {
        attached_open(&r->attached, &r->stage[WRAPPED]);
    } else {
        stage_open(b, &r->stage[SLAB], block_bytes, blocks, batch);
        r->stage[SLAB].number = SLAB;
    }
}

static void close_run(struct run *r)
{
    stage_serve(&r->stage[WRAPPED]);
    if (r->kind == OWN_PRIVATE)
        attached_close(&r->attached);
    else
        stage_close(&r->stage[SLAB]);
    stage_close(&r->stage[WRAPPED]);
}

static struct stage_transfer move(struct stage *s, uint32_t batch, baton_path_t path)
{
    struct stage_transfer t;
    stage_pull(s, batch, false, &t);
    if (t.path != path)
        fail("the blocks came by another path than expected: all ranks must be on one node, with cross-memory attach");
    return t;
}

/* One of each. */
static void turn(struct run *r, uint32_t batch, bool counts)
{
    bool is_private = r->kind == OWN_PRIVATE;
    const struct stage_transfer t = move(&r->stage[WRAPPED], batch, is_private ? BATON_PATH_CMA : BATON_PATH_SHM);
    uint64_t beside =
        is_private ? attached_read(&r->attached, batch) : move(&r->stage[SLAB], batch, BATON_PATH_SHM).total_ns;
    if (!counts)
        return;
    if (samples_add(&r->wrapped, t.total_ns) != 0 || samples_add(&r->beside, beside) != 0)
        fail("out of memory for samples");
    cost_add(&r->cost, 1, batch * r->stage[WRAPPED].block_bytes, t.consumer, t.producer);
}

static void measure(struct run *r, uint32_t batch)
{
    struct pace pace;
    for (uint32_t blocks = 0; blocks < r->stage[WRAPPED].num_blocks; blocks += batch)
        turn(r, batch, false); /* every page of both pools, in both processes */
    pace_begin(&pace, r->bench, ITERS_LEAST, ITERS_MOST, "%s, %" PRIu64 " x %" PRIu32, own_name(r->kind),
               r->stage[WRAPPED].block_bytes, batch);
    while (pace_next(&pace))
        turn(r, batch, true);
    stage_verify(&r->stage[WRAPPED], batch, false);
}

static void print(struct run *r, uint32_t batch)
{
    struct bench *b = r->bench;
    const struct stage *s = &r->stage[WRAPPED];
    const double bytes = (double)batch * (double)s->block_bytes;
    uint64_t wrapped = samples_quantile(&r->wrapped, 0.5), beside = samples_quantile(&r->beside, 0.5);
    bool is_private = r->kind == OWN_PRIVATE;
    struct report_row row = {0};
    report_cell(&row, "%s", options_op_name(&b->options));
    report_cell(&row, "%s", own_name(r->kind));
    report_cell(&row, "%s", is_private ? "cma" : "shm");
    report_cell(&row, "%" PRIu64, s->block_bytes);
    report_cell(&row, "%" PRIu32, batch);
    report_cell(&row, "%.1f", (double)wrapped / 1e3);
    report_cell(&row, "%.3f", bytes / (double)wrapped);
    report_cell(&row, "%s", is_private ? "readv" : "slab");
    report_cell(&row, "%.3f", bytes / (double)beside);
    report_cell(&row, "%.3f", (double)beside / (double)wrapped);
    cost_cells(&r->cost, (double)wrapped, batch, &row);
    report_add(&b->report, &row);
    report_note(&b->report, "  %s: %zu and %zu samples; threads of readv: %u", own_name(r->kind), r->wrapped.count,
                r->beside.count, r->attached.crew.num);
    samples_fini(&r->wrapped);
    samples_fini(&r->beside);
    r->cost = (struct cost){0};
}

static void run_kind(struct bench *b, enum own_kind kind, uint64_t block_bytes, bool first)
{
    const struct options *o = &b->options;
    struct run r;
    open_run(&r, b, kind, block_bytes);
    if (first)
        conditions_note_baton(b, r.stage[WRAPPED].context.baton);
    for (unsigned j = 0; j < o->batch.count && bench_is_consumer(b); j++) {
        measure(&r, (uint32_t)o->batch.value[j]);
        print(&r, (uint32_t)o->batch.value[j]);
    }
    close_run(&r);
}

void wrapped_run(struct bench *b)
{
    const struct options *o = &b->options;
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    report_note(
        &b->report,
        "from baton_want to its event, of fresh scattered blocks; beside: process_vm_readv alone, 1024 blocks a "
        "call, or the same transfer of a cache that Baton allocates");
    for (unsigned i = 0; i < o->block.count; i++)
        for (enum own_kind kind = OWN_PRIVATE; kind < OWN_KINDS; kind++)
            run_kind(b, kind, o->block.value[i], i == 0 && kind == OWN_PRIVATE);
}
