/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency: how long one transfer takes, from before baton_want to after its event, in percentiles, beside the limit of
 * its path. Each (block size, batch) has a row for each state of the two engines:
 *
 *   asleep      all threads of Baton sleep before the want, and its caller sleeps on the event descriptor
 *   polled      the same, but the caller is awake, and calls baton_poll until the event is there
 *   spinning    the reactors never sleep (BATON_SPIN_US), and the caller polls
 *
 * With --busy, a thread of each rank computes meanwhile. Transfers and the limit alternate. Blocks are fresh and
 * scattered, as in pull.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/limit.h"
#include "bench/pool.h"
#include "bench/stage.h"

static const char *const columns[] = {"op",
                                      "path",
                                      "state",
                                      "block_bytes",
                                      "batch",
                                      "held_us",
                                      "us_p50",
                                      "us_p90",
                                      "us_p99",
                                      "us_p999",
                                      "limit_us",
                                      "times",
                                      "consumer_cpu_us",
                                      "producer_cpu_us",
                                      "consumer_wakeups",
                                      "producer_wakeups"};
#define NUM_COLUMNS (sizeof columns / sizeof *columns)

#define POOL_LEAST (UINT64_C(128) << 20)
#define REST_NS 500000L /* a reactor spins for 20 us (BATON_SPIN_US), then sleeps */
#define ITERS_LEAST 20u
#define ITERS_MOST 2000u /* so that two samples lie above the last percentile */
#define WARM_UPS 20u

enum state { ASLEEP, POLLED, SPINNING };
static const char *const state_names[] = {"asleep", "polled", "spinning"};

struct row {
    enum state state;
    uint32_t batch;
    struct samples held, total;
    struct effort consumer, producer; /* of Baton's threads, in all transfers and the pauses between them */
};

static void take_turn(struct stage *s, struct limit *l, struct row *row, bool counts)
{
    struct stage_transfer t;
    stage_pull(s, row->batch, false, &t);
    limit_measure(l, row->batch);
    if (t.path != l->path)
        fail("Baton moved the blocks by another path than expected: there is no limit to compare with");
    if (counts && (samples_add(&row->held, t.submit_ns) != 0 || samples_add(&row->total, t.total_ns) != 0))
        fail("out of memory for samples");
}

static struct effort since(struct effort before, struct effort after)
{
    return (struct effort){after.cpu_ns - before.cpu_ns, after.wakeups - before.wakeups};
}

static void measure(struct stage *s, struct limit *l, struct row *row)
{
    const struct options *o = &s->bench->options;
    const uint64_t most = o->iters ? o->iters : ITERS_MOST;
    struct effort consumer[2], producer[2];
    s->rest_ns = REST_NS;
    s->context.polls = row->state != ASLEEP;
    s->is_awake = row->state == POLLED;
    limit_reset(l);
    for (unsigned i = 0; i < WARM_UPS; i++)
        take_turn(s, l, row, false);
    limit_reset(l);
    stage_effort(s, &consumer[0], &producer[0]);
    uint64_t begin = clock_now_ns();
    bool late = false;
    for (uint64_t turns = 0; turns < most && !(late && turns >= ITERS_LEAST); turns++) {
        take_turn(s, l, row, true);
        late = !o->iters && (double)(clock_now_ns() - begin) > o->seconds * 1e9;
    }
    stage_effort(s, &consumer[1], &producer[1]);
    row->consumer = since(consumer[0], consumer[1]);
    row->producer = since(producer[0], producer[1]);
    stage_verify(s, row->batch, false);
}

static void print(struct stage *s, struct limit *l, struct row *row)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
    struct bench *b = s->bench;
    struct report_row out = {0};
    const char *way;
    const double transfers = (double)row->total.count, limit = (double)limit_best_ns(l, &way);
    report_cell(&out, "%s", options_op_name(&b->options));
    report_cell(&out, "%s", l->path == BATON_PATH_SHM ? "shm" : "rma");
    report_cell(&out, "%s", state_names[row->state]);
    report_cell(&out, "%" PRIu64, s->block_bytes);
    report_cell(&out, "%" PRIu32, row->batch);
    report_cell(&out, "%.2f", (double)samples_quantile(&row->held, 0.5) / 1e3);
    for (unsigned i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        report_cell(&out, "%.1f", (double)samples_quantile(&row->total, quantiles[i]) / 1e3);
    report_cell(&out, "%.2f", limit / 1e3);
    report_cell(&out, "%.2f", limit > 0 ? (double)samples_quantile(&row->total, 0.5) / limit : 0.0);
    report_cell(&out, "%.1f", (double)row->consumer.cpu_ns / transfers / 1e3);
    report_cell(&out, "%.1f", (double)row->producer.cpu_ns / transfers / 1e3);
    report_cell(&out, "%.1f", (double)row->consumer.wakeups / transfers);
    report_cell(&out, "%.1f", (double)row->producer.wakeups / transfers);
    report_add(&b->report, &out);
    report_note(&b->report, "  %" PRIu64 " x %" PRIu32 ", %s: %zu transfers; limit by %s, %zu samples", s->block_bytes,
                row->batch, state_names[row->state], row->total.count, way, limit_count(l));
}

static void run_row(struct stage *s, struct limit *l, enum state state, uint32_t batch)
{
    struct row row = {.state = state, .batch = batch};
    measure(s, l, &row);
    print(s, l, &row);
    samples_fini(&row.held);
    samples_fini(&row.total);
}

/* Contexts that are opened from now on have reactors that spin, or that do as they were told. */
static void set_spinning(bool spins, char *before)
{
    int rc = spins            ? setenv("BATON_SPIN_US", "1000000", 1)
             : before != NULL ? setenv("BATON_SPIN_US", before, 1)
                              : unsetenv("BATON_SPIN_US");
    if (rc != 0)
        fail("out of memory for the environment");
}

/* Each state has contexts of its own: one whose event descriptor was asked for writes it at each event. */
static void run_state(struct bench *b, uint64_t block_bytes, enum state state, bool notes)
{
    const struct options *o = &b->options;
    struct stage stage;
    struct limit limit;
    stage_open(b, &stage, block_bytes, pool_blocks(o, POOL_LEAST, block_bytes), pool_largest_batch(o));
    limit_open(&limit, &stage);
    if (notes)
        conditions_note_baton(b, stage.context.baton);
    for (unsigned j = 0; j < o->batch.count && bench_is_consumer(b); j++)
        run_row(&stage, &limit, state, (uint32_t)o->batch.value[j]);
    stage_serve(&stage);
    limit_close(&limit);
    stage_close(&stage);
}

void latency_run(struct bench *b)
{
    const struct options *o = &b->options;
    const char *given = getenv("BATON_SPIN_US");
    char *before = given != NULL ? strdup(given) : NULL;
    report_open(&b->report, o, bench_is_consumer(b), columns, NUM_COLUMNS);
    conditions_note(b);
    for (unsigned i = 0; i < o->block.count; i++) {
        run_state(b, o->block.value[i], ASLEEP, i == 0);
        run_state(b, o->block.value[i], POLLED, false);
        set_spinning(true, before);
        run_state(b, o->block.value[i], SPINNING, false);
        set_spinning(false, before);
    }
    free(before);
}
