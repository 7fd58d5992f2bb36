/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * submit: what baton_want costs the thread that calls it, while the reactor is at rest, so that the cost of waking it
 * counts. The caller overwrites its block table as soon as the call has returned. The bytes must still arrive in the
 * right blocks: this is checked briefly after every transfer, and byte by byte after the last.
 */
#include <inttypes.h>

#include "bench/conditions.h"
#include "bench/pace.h"
#include "bench/scene.h"

#define ITERS_MOST 1000u
#define WARM_UPS 10u

static void run_row(struct scene *s, uint32_t batch)
{
    struct bench *b = s->bench;
    struct transfer t;
    struct transfers row = {0};
    struct pace pace;
    for (unsigned i = 0; i < WARM_UPS; i++)
        scene_move(s, batch, true, &t);
    pace_begin(&pace, b, 1, ITERS_MOST, "%" PRIu32 " blocks of %" PRIu64, batch, s->form.block_bytes);
    while (pace_next(&pace)) {
        scene_move(s, batch, true, &t);
        scene_glance(s, batch);
        transfers_add(&row, &t, 0);
    }
    scene_verify(s, batch, true);
    report_row(&b->report, "blocks=%" PRIu32 "|us_p50=%.3f|us_p99=%.3f", batch, samples_us(&row.submit, 0.5),
               samples_us(&row.submit, 0.99));
    report_note(&b->report, "  %" PRIu32 " blocks of %" PRIu64 " bytes: %zu calls, the most %.3f us", batch,
                s->form.block_bytes, row.submit.count, samples_us(&row.submit, 1));
    transfers_fini(&row);
}

void submit_run(struct bench *b)
{
    const struct options *o = &b->options;
    const uint32_t most = (uint32_t)option_list_most(&o->batch);
    for (unsigned i = 0; i < o->block.count; i++) {
        struct scene scene;
        scene_open(b, &scene,
                   &(struct scene_form){.block_bytes = o->block.value[i], .num_blocks = 4 * most, .max_batch = most});
        if (i == 0)
            conditions_note_baton(b, scene.context.baton);
        for (unsigned j = 0; j < o->batch.count; j++)
            run_row(&scene, (uint32_t)o->batch.value[j]);
        scene_close(&scene);
    }
}
