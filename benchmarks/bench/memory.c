/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: whether a rank's memory grows with the number of its blocks. Each number of blocks has a context of its own,
 * one after another in the same process, and is measured after equal transfers. A first context of the least number is
 * opened, used and closed before, so that no row counts what MPI and the C library allocate once. Large pieces of
 * memory go back to the system at once, so that no row counts the context before it.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>

#include "bench/conditions.h"
#include "bench/scene.h"
#include "front/inside.h"
#include "core/ground.h"

#define MMAP_BYTES (128 * 1024) /* the C library's first threshold, which it would otherwise raise */
#define SIDES 2
static const char *const side_names[SIDES] = {"decode", "prefill"};

/* A rank's. */
struct measured {
    struct footprint footprint;
    uint64_t segment_kib; /* its part of the shared segment, besides its pool */
};

static struct measured measure(const struct scene *s)
{
    return (struct measured){footprint_read(s->context.pool, s->cache.geometry.bytes),
                             baton_inside_ground(s->context.baton)->pool_offset / 1024};
}

/* One context: open, transfer, measure, close. */
static void visit(struct bench *b, uint64_t blocks, bool describe, struct measured side[SIDES])
{
    const struct options *o = &b->options;
    const uint64_t asked = o->batch.value[0];
    const uint32_t batch = (uint32_t)(asked < blocks / 2 ? asked : blocks / 2);
    struct scene scene;
    struct transfer t;
    scene_open(
        b, &scene,
        &(struct scene_form){.block_bytes = o->block.value[0], .num_blocks = (uint32_t)blocks, .max_batch = batch});
    if (describe)
        conditions_note_baton(b, scene.context.baton);
    for (uint64_t i = 0; i < o->transfers; i++)
        scene_move(&scene, batch, false, &t);
    scene_glance(&scene, batch);
    scene_signal(&scene, CHANNEL_ASLEEP);
    side[0] = side[1] = measure(&scene);
    scene_answer(&scene, &side[1], sizeof side[1], CHANNEL_ASLEEP);
    scene_close(&scene);
}

static void print(struct bench *b, unsigned side, const char *blocks, int64_t kib)
{
    report_row(&b->report, "op=memory%s@%s|blocks=%s|private_KiB=%" PRId64, b->options.busy ? "+busy" : "",
               side_names[side], blocks, kib);
}

void memory_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct measured all[OPTION_LIST_MAX][SIDES];
    char blocks[32];
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    report_note(&b->report,
                "private_KiB: private pages of private mappings, without the pool, after %" PRIu64
                " transfers of %" PRIu64 " blocks (at most half the cache) of %" PRIu64
                " bytes; difference: last row less first",
                o->transfers, o->batch.value[0], o->block.value[0]);
    visit(b, o->blocks.value[0], true, all[0]);
    for (unsigned i = 0; i < o->blocks.count; i++) {
        visit(b, o->blocks.value[i], false, all[i]);
        snprintf(blocks, sizeof blocks, "%" PRIu64, o->blocks.value[i]);
        for (unsigned side = 0; side < SIDES; side++) {
            print(b, side, blocks, (int64_t)all[i][side].footprint.private_kib);
            report_note(&b->report,
                        "  %s, %s blocks: besides, its part of the shared segment without the pool: %" PRIu64
                        " KiB; private pages of all mappings, pools too: %" PRIu64 " KiB",
                        side_names[side], blocks, all[i][side].segment_kib, all[i][side].footprint.all_kib);
        }
    }
    const struct measured *last = all[o->blocks.count - 1];
    for (unsigned side = 0; side < SIDES && o->blocks.count > 1; side++)
        print(b, side, "difference",
              (int64_t)last[side].footprint.private_kib - (int64_t)all[0][side].footprint.private_kib);
}
