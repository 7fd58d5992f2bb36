/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bandwidth and latency of one transfer at a time, in either direction, beside the limit of its path.
 *
 * Every block size has a context of its own, every (block size, batch) a row. The transfers of a row alternate, one by
 * Baton, then one by the limit, so that both see the same machine. Blocks are fresh and scattered on both sides, the
 * caches are several times the processor's, and page tables and handshake are warm.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/cost.h"
#include "bench/fail.h"
#include "bench/limit.h"
#include "bench/pace.h"
#include "bench/pool.h"
#include "bench/stage.h"

static const char *const columns[] = {"op",           "path",         "block_bytes", "batch", "GBps",      "submit_us",
                                      "total_us_p50", "total_us_p99", "limit_GBps",  "ratio", COST_COLUMNS};
#define NUM_COLUMNS (sizeof columns / sizeof *columns)

#define POOL_LEAST (UINT64_C(256) << 20)
#define BYTES_A_ROW (UINT64_C(8) << 30)
#define ITERS_LEAST 20u
#define ITERS_MOST 2000u
#define ITERS_FLOOR 5u /* however long they take: the median of fewer says little */
#define WARM_UPS 3u
#define WARM_UP_LONG_NS (UINT64_C(500) * CLOCK_NS_PER_MS)
#define WARM_PAGES_LONG_NS (UINT64_C(5000) * CLOCK_NS_PER_MS)

static uint64_t turns_most(uint64_t batch_bytes)
{
    const uint64_t goal = BYTES_A_ROW / batch_bytes;
    return goal < ITERS_LEAST ? ITERS_LEAST : goal > ITERS_MOST ? ITERS_MOST : goal;
}

static void warm_up(struct stage *s, struct limit *l, uint32_t batch)
{
    struct stage_transfer t = {0};
    for (unsigned i = 0; i < WARM_UPS && t.total_ns < WARM_UP_LONG_NS; i++) {
        stage_pull(s, batch, false, &t);
        limit_measure(l, batch);
    }
    limit_reset(l);
}

/*
 * Each block is used once: a process's first touch of a page that another one allocated is a page fault, which in a
 * push the producer pays and the limit, measured by the consumer, does not.
 */
static void warm_pages(struct stage *s, const struct limit *l)
{
    struct stage_transfer t;
    uint64_t begin = clock_now_ns();
    if (l->path != BATON_PATH_SHM)
        return;
    for (uint64_t done = 0; done < s->num_blocks && clock_now_ns() - begin < WARM_PAGES_LONG_NS; done += s->max_batch)
        stage_pull(s, s->max_batch, false, &t);
}

/* What one row consists of, before it becomes text. */
struct row {
    uint32_t batch;
    baton_path_t path;
    struct samples submit, total;
    struct cost cost;
};

static void measure(struct stage *s, struct limit *l, struct row *row)
{
    const uint64_t bytes = row->batch * s->block_bytes;
    struct stage_transfer t;
    struct pace pace;
    pace_begin(&pace, s->bench, ITERS_FLOOR, turns_most(bytes), "%" PRIu64 " x %" PRIu32, s->block_bytes, row->batch);
    while (pace_next(&pace)) {
        stage_pull(s, row->batch, false, &t);
        limit_measure(l, row->batch);
        if (t.path != l->path)
            fail("Baton moved the blocks by another path than expected: there is no limit to compare with");
        if (samples_add(&row->submit, t.submit_ns) != 0 || samples_add(&row->total, t.total_ns) != 0)
            fail("out of memory for samples");
        cost_add(&row->cost, 1, bytes, t.consumer, t.producer);
    }
    row->path = t.path;
}

static void print(struct stage *s, struct limit *l, struct row *row)
{
    struct bench *b = s->bench;
    struct report_row out = {0};
    const char *way;
    double bytes = (double)row->batch * (double)s->block_bytes;
    uint64_t median = samples_quantile(&row->total, 0.5);
    double rate = bytes / (double)median, limit = limit_best(l, row->batch, &way);
    report_cell(&out, "%s", options_op_name(&b->options));
    report_cell(&out, "%s", bench_path_name(row->path));
    report_cell(&out, "%" PRIu64, s->block_bytes);
    report_cell(&out, "%" PRIu32, row->batch);
    report_cell(&out, "%.3f", rate);
    report_cell(&out, "%.2f", (double)samples_quantile(&row->submit, 0.5) / 1e3);
    report_cell(&out, "%.1f", (double)median / 1e3);
    report_cell(&out, "%.1f", (double)samples_quantile(&row->total, 0.99) / 1e3);
    report_cell(&out, "%.3f", limit);
    report_cell(&out, "%.3f", limit > 0 ? rate / limit : 0.0);
    cost_cells(&row->cost, (double)median, row->batch, &out);
    report_add(&b->report, &out);
    report_osu(&b->report, "Bandwidth (MB/s)", s->block_bytes, 1e3 * rate);
    char stalls[48] = "";
    if (l->path == BATON_PATH_RMA)
        snprintf(stalls, sizeof stalls, "; raw MPI stalled %" PRIu64 " times", l->raw.stalls);
    report_note(&b->report, "  %" PRIu64 " x %" PRIu32 ": %zu transfers; limit by %s, %zu samples%s", s->block_bytes,
                row->batch, row->total.count, way, limit_count(l), stalls);
}

static void run_row(struct stage *s, struct limit *l, uint32_t batch)
{
    struct row row = {.batch = batch};
    warm_up(s, l, batch);
    measure(s, l, &row);
    stage_verify(s, batch, false);
    print(s, l, &row);
    samples_fini(&row.submit);
    samples_fini(&row.total);
}

static void note_stage(const struct stage *s, const struct limit *l, bool first)
{
    struct bench *b = s->bench;
    uint64_t pool = s->num_blocks * s->block_bytes, l3 = conditions_l3_bytes();
    char name[MPI_MAX_OBJECT_NAME] = "";
    if (!b->report.active)
        return;
    if (l->path == BATON_PATH_RMA)
        raw_name(&l->raw, name);
    if (first) {
        conditions_note_baton(b, s->context.baton);
        limit_note(l);
    }
    report_note(&b->report, "blocks of %" PRIu64 " bytes: pool %" PRIu64 " MiB a side%s%s%s", s->block_bytes,
                pool >> 20, pool < 4 * l3 ? " (LESS than 4 times the L3 cache: caches help)" : "",
                *name ? ", raw window: " : "", name);
}

void pull_run(struct bench *b)
{
    const struct options *o = &b->options;
    report_open(&b->report, o, bench_is_consumer(b), columns, NUM_COLUMNS);
    conditions_note(b);
    for (unsigned i = 0; i < o->block.count; i++) {
        struct stage stage;
        struct limit limit;
        stage_open(b, &stage, o->block.value[i], pool_blocks(o, POOL_LEAST, o->block.value[i]), pool_largest_batch(o));
        limit_open(&limit, &stage);
        note_stage(&stage, &limit, i == 0);
        if (bench_is_consumer(b))
            warm_pages(&stage, &limit);
        for (unsigned j = 0; j < o->batch.count && bench_is_consumer(b); j++)
            run_row(&stage, &limit, (uint32_t)o->batch.value[j]);
        stage_serve(&stage);
        limit_close(&limit);
        stage_close(&stage);
    }
}
