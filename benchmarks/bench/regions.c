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
#include "bench/channel.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/samples.h"
#include "core/path.h"
#include "plan/plan.h"

#define BLOCKS 16u
#define BATCH 4u /* blocks of the transfer */
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 1000u
#define WORD_MAX 48

struct run {
    struct bench *bench;
    enum own_kind kind;
    uint64_t block_bytes;
    uint32_t num_tensors; /* the largest number of regions; each number divides it */
    struct samples wrap[OPTION_LIST_MAX], start[OPTION_LIST_MAX], total[OPTION_LIST_MAX];
    baton_path_t path[OPTION_LIST_MAX];
    char windows[OPTION_LIST_MAX][WORD_MAX]; /* over the regions */
    uint64_t peer_bytes[OPTION_LIST_MAX];
};

/* K and V apart, layer by layer. Neighbours share a region where there are fewer regions than tensors. */
static void describe(const struct run *r, uint32_t regions, struct blocks *c)
{
    const uint32_t layers = (r->num_tensors + 1) / 2, share = r->num_tensors / regions;
    blocks_describe_plain(c, layers, r->block_bytes, BLOCKS);
    const baton_strides_t stride = c->tensors[0].stride;
    free(c->tensors);
    c->geometry.num_tensors = r->num_tensors;
    c->geometry.tensors = c->tensors = room(r->num_tensors, sizeof *c->tensors);
    for (uint32_t i = 0; i < r->num_tensors; i++) {
        baton_tensor_t *t = &c->tensors[i];
        *t = (baton_tensor_t){
            .layer = i / 2, .region = i / share, .offset = i % share * r->block_bytes * BLOCKS, .stride = stride};
        snprintf(t->name, sizeof t->name, "layer.%" PRIu32 ".%s", i / 2, i % 2 == 0 ? "k" : "v");
    }
}

/* What a consumer keeps of a producer whose cache is like its own: the plan, and where the regions lie. */
static uint64_t peer_bytes(const struct blocks *c, uint32_t regions)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    struct plan *plan;
    struct plan_why why;
    uint32_t num = plan_boxes(&c->geometry, boxes);
    if (plan_compile(&c->geometry, &c->geometry, boxes, num, &plan, &why) != 0)
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
    if (counts)
        samples_add(s, ns);
}

/* From even blocks into odd ones. */
static void transfer(const struct run *r, const struct context *c, const struct blocks *cache, baton_path_t *out)
{
    const struct bench *b = r->bench;
    uint32_t from[BATCH], to[BATCH];
    baton_event_t event;
    for (uint32_t k = 0; k < BATCH; k++) {
        from[k] = 2 * k;
        to[k] = 2 * k + 1;
    }
    if (bench_is_producer(b)) {
        blocks_fill(cache, 0);
        context_offer(c, "regions", from, BATCH, 0);
        context_take(c, BATON_EVENT_OFFER, &event);
    } else if (bench_is_consumer(b)) {
        blocks_poison(cache, to, BATCH);
        context_want(c, b->roster.engines[b->prefill].name, "regions", to, BATCH, BATON_MODE_AUTO, NULL);
        context_take(c, BATON_EVENT_WANT, &event);
        *out = context_path(&event);
        if (!blocks_check(cache, 0, from, to, BATCH, false, "regions"))
            r->bench->status = 1;
    }
}

/* How many windows MPI has over the regions: the word of baton_describe's line about them. */
static void note_windows(const baton_t *baton, char out[WORD_MAX])
{
    static const char begin[] = "windows over engines' memory: ";
    char text[16384];
    snprintf(out, WORD_MAX, "none");
    const char *line = baton_describe(baton, text, sizeof text) > 0 ? strstr(text, begin) : NULL;
    if (line)
        snprintf(out, WORD_MAX, "%.*s", (int)strcspn(line + strlen(begin), ",:\n"), line + strlen(begin));
}

static void visit(struct run *r, unsigned index, bool counts)
{
    struct bench *b = r->bench;
    const uint32_t regions = (uint32_t)b->options.regions.value[index];
    struct context c = {.patience_ms = CONTEXT_PATIENCE_MS};
    struct blocks cache;
    struct own own;
    describe(r, regions, &cache);
    own_create(&own, r->kind, regions, r->block_bytes * BLOCKS * (r->num_tensors / regions));
    cache.bases = own.bases;
    fail_on(baton_open(MPI_COMM_WORLD, &b->roster.ranks[b->roster.rank], &c.baton), "baton_open");
    MPI_Barrier(b->roster.comm);
    uint64_t begin = clock_now_ns();
    own_wrap(&own, c.baton, &cache.geometry, &c.cache);
    uint64_t wrapped = clock_now_ns();
    fail_on(baton_start(c.baton), "baton_start");
    uint64_t end = clock_now_ns();
    note_time(r, &r->wrap[index], wrapped - begin, counts);
    note_time(r, &r->start[index], end - wrapped, counts);
    note_time(r, &r->total[index], end - begin, counts);
    note_windows(c.baton, r->windows[index]);
    transfer(r, &c, &cache, &r->path[index]);
    channel_barrier(b->roster.comm);
    context_close(b, &c);
    r->peer_bytes[index] = peer_bytes(&cache, regions);
    own_destroy(&own);
    blocks_fini(&cache);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void print(struct run *r, unsigned index)
{
    struct bench *b = r->bench;
    struct samples *total = &r->total[index];
    const uint64_t regions = b->options.regions.value[index];
    const char *kind = own_name(r->kind);
    report_row(&b->report,
               "memory=%s|regions=%" PRIu64
               "|path=%s|windows=%s|wrap_ms=%.3f|start_ms=%.3f|total_ms=%.3f|ratio=%.3f|peer_bytes=%" PRIu64,
               kind, regions, bench_path_name(r->path[index]), r->windows[index],
               samples_us(&r->wrap[index], 0.5) / 1e3, samples_us(&r->start[index], 0.5) / 1e3,
               samples_us(total, 0.5) / 1e3, samples_us(total, 0.5) / samples_us(&r->total[0], 0.5),
               r->peer_bytes[index]);
    report_note(&b->report, "  %s, %" PRIu64 " regions: %zu starts, total of the fastest tenth %.3f ms", kind, regions,
                total->count, samples_us(total, 0.1) / 1e3);
}

static void run_kind(struct bench *b, enum own_kind kind, uint32_t num_tensors)
{
    const struct options *o = &b->options;
    struct run r = {.bench = b, .kind = kind, .block_bytes = o->block.value[0], .num_tensors = num_tensors};
    struct pace pace;
    for (unsigned i = 0; i < o->regions.count; i++)
        visit(&r, i, false);
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%s", own_name(kind));
    while (pace_next(&pace))
        for (unsigned i = 0; i < o->regions.count; i++)
            visit(&r, i, true);
    for (unsigned i = 0; i < o->regions.count; i++)
        print(&r, i);
    for (unsigned i = 0; i < o->regions.count; i++) {
        samples_fini(&r.wrap[i]);
        samples_fini(&r.start[i]);
        samples_fini(&r.total[i]);
    }
}

void regions_run(struct bench *b)
{
    const struct options *o = &b->options;
    const uint32_t most = (uint32_t)option_list_most(&o->regions);
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
