/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: whether a rank's memory grows with the number of its blocks. Each number of blocks has a context of its own,
 * one after another in the same process, and is measured after equal transfers. A first context of the least number is
 * opened, used and closed before, so that no row counts what MPI and the C library allocate once. Large pieces of
 * memory go back to the system at once, so that no row counts the context before it.
 */
#include <inttypes.h>
#include <malloc.h>

#include "bench/bench.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/stage.h"

static const char *const columns[] = {"op", "blocks", "private_KiB"};

#define MMAP_BYTES (128 * 1024) /* the C library's first threshold, which it would otherwise raise */
#define SIDES 2
static const char *const side_names[SIDES] = {"decode", "prefill"};

struct measured {
    struct stage_footprint side[SIDES];
};

static uint32_t transfer_blocks(const struct options *o, uint64_t blocks)
{
    uint64_t batch = o->batch.value[0];
    return (uint32_t)(batch < blocks / 2 ? batch : blocks / 2);
}

/* One context: open, transfer, measure (by the consumer), close. */
static void visit(struct bench *b, uint64_t blocks, bool describe, struct measured *out)
{
    const struct options *o = &b->options;
    struct stage stage;
    struct stage_transfer t;
    uint32_t batch = transfer_blocks(o, blocks);
    stage_open(b, &stage, o->block.value[0], (uint32_t)blocks, batch);
    if (describe)
        conditions_note_baton(b, stage.context.baton);
    if (bench_is_consumer(b)) {
        for (uint64_t i = 0; i < o->transfers; i++)
            stage_pull(&stage, batch, false, &t);
        stage_glance(&stage, batch);
        stage_footprint(&stage, &out->side[0], &out->side[1]);
    }
    stage_serve(&stage);
    stage_close(&stage);
}

static void print(struct bench *b, const char *what, const char *side, const char *blocks, int64_t kib)
{
    struct report_row row = {0};
    report_cell(&row, "%s%s@%s", what, b->options.busy ? "+busy" : "", side);
    report_cell(&row, "%s", blocks);
    report_cell(&row, "%" PRId64, kib);
    report_add(&b->report, &row);
}

static void print_size(struct bench *b, uint64_t blocks, const struct measured *m)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, blocks);
    for (unsigned i = 0; i < SIDES; i++) {
        print(b, "memory", side_names[i], text, (int64_t)m->side[i].private_kib);
        report_note(&b->report,
                    "  %s, %" PRIu64 " blocks: besides, its part of the shared segment without the pool: %" PRIu64
                    " KiB; private pages of all mappings, pools too: %" PRIu64 " KiB",
                    side_names[i], blocks, m->side[i].segment_kib, m->side[i].rollup_kib);
    }
}

static void print_difference(struct bench *b, const struct measured *first, const struct measured *last)
{
    for (unsigned i = 0; i < SIDES; i++) {
        print(b, "memory", side_names[i], "difference",
              (int64_t)last->side[i].private_kib - (int64_t)first->side[i].private_kib);
    }
}

void memory_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct measured ignored = {0}, all[OPTION_LIST_MAX] = {0};
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    conditions_note(b);
    report_note(&b->report,
                "private_KiB: private pages of private mappings, without the pool, after %" PRIu64
                " transfers of %" PRIu64 " blocks (at most half the cache) of %" PRIu64
                " bytes; difference: last row less first",
                o->transfers, o->batch.value[0], o->block.value[0]);
    visit(b, o->blocks.value[0], true, &ignored);
    for (unsigned i = 0; i < o->blocks.count; i++) {
        visit(b, o->blocks.value[i], false, &all[i]);
        print_size(b, o->blocks.value[i], &all[i]);
    }
    if (o->blocks.count > 1)
        print_difference(b, &all[0], &all[o->blocks.count - 1]);
}
