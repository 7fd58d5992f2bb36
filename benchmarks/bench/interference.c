/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interference: how much slower a thread of the decode rank computes because of Baton: while nothing moves (idle), and
 * while blocks stream to it as fast as they can (streaming). Its work is arithmetic in registers, or sums over memory
 * that no cache holds.
 *
 * Each pair has two phases, one of them with what is examined and one without, and whichever comes first in one pair
 * comes second in the next. Without --with, the phase without is one in which the reactors hold still. With --with
 * VARIABLE=VALUE, blocks stream in both phases (or in neither), and the contexts of one are opened with that variable
 * in the environment: a row then says what the setting costs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/interval.h"
#include "bench/pace.h"
#include "bench/pool.h"
#include "bench/stage.h"

static const char *const columns[] = {"op",    "path",  "work",           "state",       "of",           "block_bytes",
                                      "batch", "pairs", "slower_percent", "low_percent", "high_percent", "GBps"};

#define POOL (UINT64_C(128) << 20)
#define PAIRS_LEAST 20u
#define PAIRS_MOST 1000u
#define PHASE_NS (UINT64_C(50) * CLOCK_NS_PER_MS)
#define SETTLE_NS (UINT64_C(5) * CLOCK_NS_PER_MS) /* of a phase, before it counts */
#define STREAM_BYTES (UINT64_C(4) << 30)          /* more than a phase can move */
#define STREAM_MOST 1024u                         /* requests, which may be less: then one stream follows another */

struct run {
    struct bench *bench;
    uint64_t block_bytes;
    uint32_t batch;
    char variable[64];     /* of --with; empty: none */
    const char *value;     /* of it */
    char *before;          /* what it is else; NULL: unset */
    struct busy computing; /* of the consumer */
    struct stage stage;
    baton_path_t path; /* with what is examined */
    double *slower;    /* percent, of `most` pairs */
    uint64_t pairs, most;
    uint64_t bytes, ns; /* of the stream, in the phases with what is examined */
};

static bool has_setting(const struct run *r)
{
    return r->variable[0] != '\0';
}

/* ---- one phase --------------------------------------------------------------------------------------------------- */

static void begin_stream(struct run *r)
{
    const uint64_t bytes = (uint64_t)r->batch * r->block_bytes, count = STREAM_BYTES / bytes;
    stage_stream(&r->stage, r->batch, count < 2 ? 2 : count > STREAM_MOST ? STREAM_MOST : (uint32_t)count);
}

static uint64_t pass(struct run *r, bool streams, uint64_t ns)
{
    const uint64_t until = clock_now_ns() + ns;
    uint64_t bytes = streams ? stage_stream_run(&r->stage, until) : 0;
    while (streams && clock_now_ns() < until && stage_stream_is_over(&r->stage)) {
        stage_stream_end(&r->stage);
        begin_stream(r);
        bytes += stage_stream_run(&r->stage, until);
    }
    clock_sleep_until(until);
    return bytes;
}

/* The steps a second that the thread computes; one at least, also where it got no processor. */
static double watch(struct run *r, bool streams, bool counts)
{
    pass(r, streams, SETTLE_NS);
    const uint64_t steps = atomic_load(&r->computing.steps), begin = clock_now_ns();
    const uint64_t bytes = pass(r, streams, PHASE_NS);
    const uint64_t ns = clock_now_ns() - begin;
    if (counts) {
        r->bytes += bytes;
        r->ns += ns;
    }
    const uint64_t done = atomic_load(&r->computing.steps) - steps;
    return (double)(done > 0 ? done : 1) / (double)ns * 1e9;
}

static double stream_and_watch(struct run *r, bool counts)
{
    begin_stream(r);
    const double rate = watch(r, true, counts);
    stage_stream_end(&r->stage);
    return rate;
}

/* By the consumer: a phase in which Baton holds still, or one in which it does what is examined. */
static double baton_phase(struct run *r, bool examined, bool streams)
{
    if (examined)
        return streams ? stream_and_watch(r, true) : watch(r, false, true);
    stage_hold(&r->stage, CHANNEL_ASLEEP);
    const double rate = watch(r, false, false);
    stage_go_on(&r->stage);
    return rate;
}

static void open_stage(struct run *r)
{
    const struct options *o = &r->bench->options;
    uint64_t blocks = (o->pool ? o->pool : POOL) / r->block_bytes;
    blocks =
        blocks > 8 * (uint64_t)r->batch ? blocks : 8 * (uint64_t)r->batch; /* what streams meets no other request */
    stage_open(r->bench, &r->stage, r->block_bytes, (uint32_t)blocks, r->batch);
}

static void close_stage(struct run *r)
{
    stage_serve(&r->stage);
    stage_close(&r->stage);
}

/* Collective: contexts of its own, with the setting or without. */
static double setting_phase(struct run *r, bool examined, bool streams)
{
    double rate = 0;
    context_set(r->variable, examined ? r->value : r->before);
    open_stage(r);
    if (bench_is_consumer(r->bench)) {
        stage_verify(&r->stage, r->batch, false); /* the first contact is none of the phase */
        rate = streams ? stream_and_watch(r, examined) : watch(r, false, examined);
    }
    close_stage(r);
    context_set(r->variable, r->before);
    return rate;
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

static double phase(struct run *r, bool examined, bool streams)
{
    if (has_setting(r))
        return setting_phase(r, examined, streams);
    return bench_is_consumer(r->bench) ? baton_phase(r, examined, streams) : 0;
}

static void add_pair(struct run *r, bool streams)
{
    const bool first = r->pairs % 2;
    double rate[2]; /* without, with */
    rate[first] = phase(r, first, streams);
    rate[!first] = phase(r, !first, streams);
    r->slower[r->pairs++] = 100 * (rate[0] / rate[1] - 1);
}

static void print(struct run *r, bool streams)
{
    struct bench *b = r->bench;
    struct report_row row = {0};
    const struct interval slower = interval_of(r->slower, r->pairs);
    report_cell(&row, "%s", options_op_name(&b->options));
    report_cell(&row, "%s", bench_path_name(r->path));
    report_cell(&row, "%s", busy_work_name(r->computing.work));
    report_cell(&row, "%s", streams ? "streaming" : "idle");
    report_cell(&row, "%s", has_setting(r) ? r->variable : "baton");
    report_cell(&row, "%" PRIu64, r->block_bytes);
    report_cell(&row, "%" PRIu32, r->batch);
    report_cell(&row, "%" PRIu64, r->pairs);
    report_cell(&row, "%.3f", slower.median);
    report_cell(&row, "%.3f", slower.low);
    report_cell(&row, "%.3f", slower.high);
    report_cell(&row, "%.3f", r->ns > 0 ? (double)r->bytes / (double)r->ns : 0.0);
    report_add(&b->report, &row);
}

/* All ranks go through the same pairs, whether they measure or serve. */
static void run_row(struct run *r, bool streams)
{
    struct bench *b = r->bench;
    struct pace pace;
    const bool in_step = has_setting(r);
    r->pairs = 0;
    r->bytes = r->ns = 0;
    pace_begin(&pace, b, PAIRS_LEAST, PAIRS_MOST, "%s, %s", busy_work_name(r->computing.work),
               streams ? "streaming" : "idle");
    while (r->pairs < r->most && (in_step ? pace_next_together(&pace, b) : pace_next(&pace)))
        add_pair(r, streams);
    if (bench_is_consumer(b))
        print(r, streams);
}

static void run_works(struct run *r)
{
    const bool measures = bench_is_consumer(r->bench);
    for (enum busy_work work = BUSY_REGISTERS; work < BUSY_WORKS; work++) {
        r->computing.work = work;
        if (measures && busy_start(&r->computing, &r->bench->pin) != 0)
            fail("cannot start the computing thread");
        run_row(r, false);
        run_row(r, true);
        busy_stop(&r->computing);
    }
}

static void find_path(struct run *r)
{
    struct stage_transfer t;
    stage_verify(&r->stage, r->batch, false);
    stage_pull(&r->stage, r->batch, false, &t);
    r->path = t.path;
}

static void run_size(struct run *r, bool notes)
{
    struct bench *b = r->bench;
    if (has_setting(r))
        context_set(r->variable, r->value);
    open_stage(r);
    if (notes)
        conditions_note_baton(b, r->stage.context.baton);
    if (bench_is_consumer(b)) {
        find_path(r);
        if (!has_setting(r))
            run_works(r);
    }
    close_stage(r);
    if (has_setting(r)) {
        context_set(r->variable, r->before);
        run_works(r);
    }
}

static void read_setting(struct run *r)
{
    const char *with = r->bench->options.with;
    if (with == NULL)
        return;
    const size_t length = strcspn(with, "=");
    memcpy(r->variable, with, length); /* the options know that there is room */
    r->value = with + length + 1;
    r->before = getenv(r->variable) != NULL ? strdup(getenv(r->variable)) : NULL;
}

void interference_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct run run = {.bench = b, .most = o->iters ? o->iters : PAIRS_MOST};
    run.slower = calloc(run.most, sizeof *run.slower);
    if (run.slower == NULL)
        fail("out of memory for %" PRIu64 " pairs", run.most);
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    read_setting(&run);
    report_note(&b->report,
                "slower_percent: by how much a thread of the decode rank computes slower %s%s: the median of pairs of "
                "phases of %" PRIu64 " ms, and the interval in which it lies with 95 %% confidence",
                has_setting(&run) ? "with " : "than while the reactors hold still", has_setting(&run) ? o->with : "",
                PHASE_NS / CLOCK_NS_PER_MS);
    for (unsigned i = 0; i < o->block.count; i++) {
        run.block_bytes = o->block.value[i];
        run.batch = (uint32_t)o->batch.value[0];
        run_size(&run, i == 0);
    }
    free(run.before);
    free(run.slower);
}
