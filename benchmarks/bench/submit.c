/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * submit: what baton_want costs the thread that calls it, while the reactor is at rest, so that the cost of waking it
 * counts. The caller overwrites its block table as soon as the call has returned. The bytes must still arrive in the
 * right blocks: this is checked briefly after every transfer, and byte by byte after the last.
 */
#include <inttypes.h>

#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/samples.h"
#include "bench/stage.h"

static const char *const columns[] = {"op", "blocks", "us_p50", "us_p99"};

#define ITERS_MOST 1000u
#define WARM_UPS 10u

static void run_row(struct stage *s, uint32_t batch)
{
    struct bench *b = s->bench;
    struct stage_transfer t;
    struct samples submit = {0};
    struct pace pace;
    struct report_row row = {0};
    for (unsigned i = 0; i < WARM_UPS; i++)
        stage_pull(s, batch, true, &t);
    pace_begin(&pace, b, 1, ITERS_MOST, "%" PRIu32 " blocks of %" PRIu64, batch, s->block_bytes);
    while (pace_next(&pace)) {
        stage_pull(s, batch, true, &t);
        stage_glance(s, batch);
        if (samples_add(&submit, t.submit_ns) != 0)
            fail("out of memory for samples");
    }
    stage_verify(s, batch, true);
    report_cell(&row, "%s", options_op_name(&b->options));
    report_cell(&row, "%" PRIu32, batch);
    report_cell(&row, "%.3f", (double)samples_quantile(&submit, 0.5) / 1e3);
    report_cell(&row, "%.3f", (double)samples_quantile(&submit, 0.99) / 1e3);
    report_add(&b->report, &row);
    report_note(&b->report, "  %" PRIu32 " blocks of %" PRIu64 " bytes: %zu calls, the most %.3f us", batch,
                s->block_bytes, submit.count, (double)samples_quantile(&submit, 1) / 1e3);
    samples_fini(&submit);
}

void submit_run(struct bench *b)
{
    const struct options *o = &b->options;
    uint64_t most = 0;
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    for (unsigned i = 0; i < o->batch.count; i++)
        most = o->batch.value[i] > most ? o->batch.value[i] : most;
    for (unsigned i = 0; i < o->block.count; i++) {
        struct stage stage;
        stage_open(b, &stage, o->block.value[i], (uint32_t)(4 * most), (uint32_t)most);
        if (i == 0)
            conditions_note_baton(b, stage.context.baton);
        for (unsigned j = 0; j < o->batch.count && bench_is_consumer(b); j++)
            run_row(&stage, (uint32_t)o->batch.value[j]);
        stage_serve(&stage);
        stage_close(&stage);
    }
}
