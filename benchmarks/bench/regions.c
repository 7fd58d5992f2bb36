/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * regions: what a start costs where every rank's cache lies in many regions, beside the same cache in fewer. The
 * numbers of regions alternate, each with a context of its own: opened, timed until all ranks have started, tried with
 * one transfer that touches every region, and closed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/own.h"
#include "bench/pace.h"
#include "bench/pattern.h"
#include "bench/samples.h"
#include "core/path.h"
#include "plan/plan.h"

static const char *const columns[] = {"op",      "memory",   "regions",  "path",  "windows",
                                      "wrap_ms", "start_ms", "total_ms", "ratio", "peer_bytes"};

#define BLOCK_TOKENS 16u
#define ELEM_BYTES 2u
#define BLOCKS 16u
#define BATCH 4u /* blocks of the transfer */
#define POISON 0xa5
#define PATIENCE_MS 60000u
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 1000u

struct run {
    struct bench *bench;
    enum own_kind kind;
    uint64_t block_bytes;
    uint32_t num_tensors; /* the largest number of regions; each number divides it */
    baton_tensor_t *tensors;
    baton_geometry_t geometry;
    struct samples wrap[OPTION_LIST_MAX], start[OPTION_LIST_MAX], total[OPTION_LIST_MAX];
    baton_path_t path[OPTION_LIST_MAX];
    char windows[OPTION_LIST_MAX][REPORT_CELL_MAX]; /* over the regions */
    uint64_t peer_bytes[OPTION_LIST_MAX];
};

static uint64_t tensor_bytes(const struct run *r)
{
    return r->block_bytes * BLOCKS;
}

/* K and V apart, layer by layer. Neighbours share a region where there are fewer regions than tensors. */
static void describe_cache(struct run *r, uint32_t regions)
{
    const uint32_t share = r->num_tensors / regions;
    for (uint32_t i = 0; i < r->num_tensors; i++) {
        baton_tensor_t *t = &r->tensors[i];
        *t = (baton_tensor_t){.layer = i / 2, .region = i / share, .offset = i % share * tensor_bytes(r)};
        snprintf(t->name, sizeof t->name, "layer.%" PRIu32 ".%s", i / 2, i % 2 == 0 ? "k" : "v");
        t->stride = (baton_strides_t){.block = (int64_t)r->block_bytes,
                                      .plane = (int64_t)r->block_bytes,
                                      .head = (int64_t)r->block_bytes,
                                      .token = (int64_t)(r->block_bytes / BLOCK_TOKENS),
                                      .channel = ELEM_BYTES};
    }
    r->geometry = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                                     .model = "baton-bench",
                                     .dtype = "bf16",
                                     .elem_bytes = ELEM_BYTES,
                                     .planes = 1,
                                     .head_size = (uint32_t)(r->block_bytes / BLOCK_TOKENS / ELEM_BYTES),
                                     .layers_total = (r->num_tensors + 1) / 2,
                                     .layer_count = (r->num_tensors + 1) / 2,
                                     .num_groups = 1,
                                     .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                                     .num_splits = 1,
                                     .splits = {{.heads_total = 1, .head_count = 1}},
                                     .num_tensors = r->num_tensors,
                                     .tensors = r->tensors};
}

static char *block_at(const struct run *r, const struct own *own, uint32_t tensor, uint32_t block)
{
    const baton_tensor_t *t = &r->tensors[tensor];
    return (char *)own->bases[t->region] + t->offset + block * r->block_bytes;
}

static void fill(const struct run *r, const struct own *own)
{
    for (uint32_t i = 0; i < r->num_tensors; i++)
        for (uint32_t block = 0; block < BLOCKS; block++) {
            if (bench_is_producer(r->bench))
                pattern_fill(block_at(r, own, i, block), r->block_bytes, i * BLOCKS + block);
            else
                memset(block_at(r, own, i, block), POISON, r->block_bytes);
        }
}

/* What a consumer keeps of a producer whose cache is like its own: the plan, and where the regions lie. */
static uint64_t peer_bytes(const struct run *r, uint32_t regions)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    struct plan *plan;
    struct plan_why why;
    uint32_t num = plan_boxes(&r->geometry, boxes);
    if (plan_compile(&r->geometry, &r->geometry, boxes, num, &plan, &why) != 0)
        fail("no plan: %s", why.text);
    uint64_t bytes = plan_footprint(plan) + sizeof(struct path_regions) + regions * sizeof(struct path_region);
    plan_destroy(plan);
    return bytes;
}

/* ---- one context ------------------------------------------------------------------------------------------------- */

/* The time of the slowest rank. */
static void note_time(struct run *r, struct samples *s, uint64_t ns, bool counts)
{
    MPI_Allreduce(MPI_IN_PLACE, &ns, 1, MPI_UINT64_T, MPI_MAX, r->bench->roster.comm);
    if (counts && bench_is_consumer(r->bench) && samples_add(s, ns) != 0)
        fail("out of memory for samples");
}

static void check(const struct run *r, const struct own *own)
{
    uint64_t at;
    for (uint32_t i = 0; i < r->num_tensors; i++)
        for (uint32_t k = 0; k < BATCH; k++) {
            uint32_t from = 2 * k, to = 2 * k + 1;
            if (pattern_check(block_at(r, own, i, to), r->block_bytes, i * BLOCKS + from, &at))
                continue;
            fprintf(stderr, "baton-bench: wrong data: tensor %" PRIu32 ", block %" PRIu32 ", byte %" PRIu64 "\n", i, to,
                    at);
            r->bench->status = 1;
            return;
        }
}

static void transfer(struct run *r, struct context *c, const struct own *own, baton_path_t *out)
{
    const struct bench *b = r->bench;
    uint32_t blocks[BATCH];
    baton_event_t event;
    bool produces = bench_is_producer(b);
    for (uint32_t k = 0; k < BATCH; k++)
        blocks[k] = 2 * k + !produces;
    const baton_table_t table = {blocks, BATCH, 0};
    baton_offer_params_t o = {.size = sizeof o, .key = "regions", .num_tables = 1, .tables = {table}};
    baton_want_params_t w = {.size = sizeof w, .key = "regions", .num_tables = 1, .tables = {table}};
    o.num_tokens = w.num_tokens = BATCH * BLOCK_TOKENS;
    w.engine = b->roster.engines[b->prefill].name;
    w.timeout_ms = PATIENCE_MS;
    fail_on(produces ? baton_offer(c->baton, &o, NULL, NULL) : baton_want(c->baton, &w, NULL), "the transfer");
    if (!context_await(c, &event, PATIENCE_MS) || event.status != BATON_STATUS_DONE)
        fail("the transfer did not end well: %s", event.detail);
    if (produces)
        return;
    check(r, own);
    for (int path = 0; path < BATON_PATHS; path++)
        if (event.path_bytes[path] > 0)
            *out = (baton_path_t)path;
}

/* How many windows MPI has over the regions: the word of baton_describe's line about them. */
static void note_windows(const baton_t *baton, char out[REPORT_CELL_MAX])
{
    static const char begin[] = "windows over engines' memory: ";
    char text[16384];
    snprintf(out, REPORT_CELL_MAX, "none");
    const char *line = baton_describe(baton, text, sizeof text) > 0 ? strstr(text, begin) : NULL;
    if (line)
        snprintf(out, REPORT_CELL_MAX, "%.*s", (int)strcspn(line + strlen(begin), ",:\n"), line + strlen(begin));
}

static void visit(struct run *r, unsigned index, bool counts)
{
    struct bench *b = r->bench;
    uint32_t regions = (uint32_t)b->options.regions.value[index];
    struct context c = {0};
    struct own own;
    describe_cache(r, regions);
    own_create(&own, r->kind, regions, tensor_bytes(r) * (r->num_tensors / regions));
    fill(r, &own);
    fail_on(baton_open(MPI_COMM_WORLD, &b->roster.ranks[b->roster.rank], &c.baton), "baton_open");
    MPI_Barrier(b->roster.comm);
    uint64_t begin = clock_now_ns();
    own_wrap(&own, c.baton, &r->geometry, &c.cache);
    uint64_t wrapped = clock_now_ns();
    fail_on(baton_start(c.baton), "baton_start");
    uint64_t end = clock_now_ns();
    note_time(r, &r->wrap[index], wrapped - begin, counts);
    note_time(r, &r->start[index], end - wrapped, counts);
    note_time(r, &r->total[index], end - begin, counts);
    note_windows(c.baton, r->windows[index]);
    if (bench_is_producer(b) || bench_is_consumer(b))
        transfer(r, &c, &own, &r->path[index]);
    channel_barrier(b->roster.comm);
    context_close(b, &c);
    r->peer_bytes[index] = peer_bytes(r, regions);
    own_destroy(&own);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void print(struct run *r, unsigned index)
{
    struct bench *b = r->bench;
    struct report_row row = {0};
    double first = (double)samples_quantile(&r->total[0], 0.5), total = (double)samples_quantile(&r->total[index], 0.5);
    report_cell(&row, "%s", options_op_name(&b->options));
    report_cell(&row, "%s", own_name(r->kind));
    report_cell(&row, "%" PRIu64, b->options.regions.value[index]);
    report_cell(&row, "%s", bench_path_name(r->path[index]));
    report_cell(&row, "%s", r->windows[index]);
    report_cell(&row, "%.3f", (double)samples_quantile(&r->wrap[index], 0.5) / 1e6);
    report_cell(&row, "%.3f", (double)samples_quantile(&r->start[index], 0.5) / 1e6);
    report_cell(&row, "%.3f", total / 1e6);
    report_cell(&row, "%.3f", total / first);
    report_cell(&row, "%" PRIu64, r->peer_bytes[index]);
    report_add(&b->report, &row);
    report_note(&b->report, "  %s, %" PRIu64 " regions: %zu starts, total of the fastest tenth %.3f ms",
                own_name(r->kind), b->options.regions.value[index], r->total[index].count,
                (double)samples_quantile(&r->total[index], 0.1) / 1e6);
}

static void run_kind(struct bench *b, enum own_kind kind, uint32_t num_tensors)
{
    const struct options *o = &b->options;
    struct run r = {.bench = b, .kind = kind, .block_bytes = o->block.value[0], .num_tensors = num_tensors};
    r.tensors = calloc(num_tensors, sizeof *r.tensors);
    if (!r.tensors)
        fail("out of memory for %" PRIu32 " tensors", num_tensors);
    struct pace pace;
    for (unsigned i = 0; i < o->regions.count; i++)
        visit(&r, i, false);
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%s", own_name(kind));
    while (pace_next_together(&pace, b))
        for (unsigned i = 0; i < o->regions.count; i++)
            visit(&r, i, true);
    for (unsigned i = 0; i < o->regions.count && bench_is_consumer(b); i++)
        print(&r, i);
    for (unsigned i = 0; i < o->regions.count; i++) {
        samples_fini(&r.wrap[i]);
        samples_fini(&r.start[i]);
        samples_fini(&r.total[i]);
    }
    free(r.tensors);
}

void regions_run(struct bench *b)
{
    const struct options *o = &b->options;
    const uint32_t most = (uint32_t)options_most_regions(o);
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    report_note(
        &b->report,
        "each rank has the same cache of %" PRIu32 " tensors of %u blocks of %" PRIu64
        " bytes, in as many regions as a row says; from baton_cache_wrap until baton_start returns on the "
        "slowest rank; each column is a median of its own; ratio: total beside the first row's; peer_bytes: the "
        "plan and the regions of a peer",
        most, BLOCKS, o->block.value[0]);
    for (enum own_kind kind = OWN_PRIVATE; kind < OWN_KINDS; kind++)
        run_kind(b, kind, most);
}
