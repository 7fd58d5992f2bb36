/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many: many engines at once, beside the limit of the same crowd without Baton.
 *
 *   fanout      one producer, all decode engines consume
 *   incast      all prefill engines produce, one consumer
 *   allpairs    all decode engines consume from all prefill engines
 *
 * Engines of one rank take part. Each pair has requests of its own. A round moves one of each pair, all at once; rounds
 * by Baton and by the limit alternate.
 */
#include <inttypes.h>
#include <limits.h>

#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/crowd.h"
#include "bench/pace.h"
#include "bench/pool.h"

static const char *const columns[] = {"op",     "path",   "producers", "consumers",  "block_bytes", "batch",     "GBps",
                                      "us_p50", "us_p99", "spread",    "limit_GBps", "ratio",       COST_COLUMNS};

#define ITERS_LEAST 6u /* two of each way of raw MPI */
#define ITERS_MOST 1000u
#define WARM_UPS 3u

static double best_ns(struct crowd_row *row, size_t *count)
{
    double best = 0;
    *count = 0;
    for (unsigned way = 0; way < RAW_WAYS; way++) {
        const double median = (double)samples_quantile(&row->limit[way], 0.5);
        *count += row->limit[way].count;
        best = median > 0 && (best == 0 || median < best) ? median : best;
    }
    return best;
}

/* The slowest pair's mean time beside the fastest one's. */
static double spread(const struct crowd_row *row, int pairs)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < pairs; i++) {
        least = row->pair_ns[i] < least ? row->pair_ns[i] : least;
        most = row->pair_ns[i] > most ? row->pair_ns[i] : most;
    }
    return least > 0 ? (double)most / (double)least : 0;
}

static void print(const struct crowd *c, struct crowd_row *row)
{
    struct bench *b = c->bench;
    struct report_row out = {0};
    size_t limits;
    const int pairs = c->producers.count * c->consumers.count;
    const double bytes = (double)pairs * row->batch * (double)c->block_bytes, limit = best_ns(row, &limits);
    const double ns = (double)samples_quantile(&row->round, 0.5), want = (double)samples_quantile(&row->want, 0.5);
    report_cell(&out, "%s", options_op_name(&b->options));
    report_cell(&out, "%s", bench_path_name(c->path));
    report_cell(&out, "%d", c->producers.count);
    report_cell(&out, "%d", c->consumers.count);
    report_cell(&out, "%" PRIu64, c->block_bytes);
    report_cell(&out, "%" PRIu32, row->batch);
    report_cell(&out, "%.3f", bytes / ns);
    report_cell(&out, "%.1f", want / 1e3);
    report_cell(&out, "%.1f", (double)samples_quantile(&row->want, 0.99) / 1e3);
    report_cell(&out, "%.2f", spread(row, pairs));
    report_cell(&out, "%.3f", limit > 0 ? bytes / limit : 0.0);
    report_cell(&out, "%.3f", limit / ns);
    cost_cells(&row->cost, want, row->batch, &out);
    report_add(&b->report, &out);
    report_note(&b->report, "  %" PRIu64 " x %" PRIu32 ": %zu rounds, %zu wants; limit: %zu rounds", c->block_bytes,
                row->batch, row->round.count, row->want.count, limits);
}

static void run_row(struct crowd *c, uint32_t batch)
{
    struct bench *b = c->bench;
    struct crowd_row row;
    struct pace pace;
    crowd_row_init(c, &row, batch);
    for (unsigned i = 0; i < WARM_UPS; i++) {
        crowd_move(c, &row);
        crowd_limit(c, &row);
    }
    crowd_row_fini(&row);
    crowd_row_init(c, &row, batch);
    pace_begin(&pace, b, ITERS_LEAST, ITERS_MOST, "%" PRIu64 " x %" PRIu32, c->block_bytes, batch);
    while (pace_next_together(&pace, b)) {
        crowd_move(c, &row);
        crowd_limit(c, &row);
    }
    crowd_verify(c, &row);
    crowd_gather(c, &row);
    if (bench_is_consumer(b))
        print(c, &row);
    crowd_row_fini(&row);
}

static void note_crowd(struct bench *b, const struct crowd *c)
{
    conditions_note_baton(b, c->context.baton);
    report_note(
        &b->report,
        "a round: each of %d consumers wants from each of %d producers, all at once; GBps: all bytes of a round, "
        "from its first want to its last event%s; us: of one want; spread: the slowest pair's mean beside the "
        "fastest one's",
        c->consumers.count, c->producers.count, c->one_clock ? "" : ", on the slowest rank");
    report_note(&b->report, "limit: the same crowd without Baton: %s",
                c->path == BATON_PATH_SHM
                    ? "one thread of each consumer copies like blocks from the mapped pools, the better of two kernels"
                    : "raw MPI of each consumer, the best of three ways, while the producers wait inside MPI");
}

void many_run(struct bench *b)
{
    const struct options *o = &b->options;
    const int producers = o->op == OP_FANOUT ? 1 : INT_MAX, consumers = o->op == OP_INCAST ? 1 : INT_MAX;
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    for (unsigned i = 0; i < o->block.count; i++) {
        struct crowd crowd;
        crowd_open(b, &crowd, producers, consumers, o->block.value[i], pool_largest_batch(o));
        if (i == 0)
            note_crowd(b, &crowd);
        for (unsigned j = 0; j < o->batch.count; j++)
            run_row(&crowd, (uint32_t)o->batch.value[j]);
        crowd_close(&crowd);
    }
}
