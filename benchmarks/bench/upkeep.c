/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upkeep: what a world costs besides its transfers.
 *
 * scale: start, first contact, memory and close by the number of ranks. The ranks of the run form worlds of 2, 4, 8
 * and so on, and one of all, in turn; the others sleep meanwhile. In each world the reporting rank is a decode engine,
 * and each other rank is a prefill engine of its own, with a small cache.
 *
 * memory: whether a rank's memory grows with the number of its blocks. Each number of blocks has a context of its own,
 * one after another in the same process, and is measured after equal transfers. A first context of the least number is
 * opened, used and closed before, so that no row counts what MPI and the C library allocate once.
 *
 * idle: what a world costs in which nothing happens. One prefill and one decode rank have met by a few transfers; then
 * the caller of every rank sleeps, and only what the kernel counts of its process is read: Baton's threads and MPI's.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/scene.h"
#include "core/ground.h"
#include "front/inside.h"

#define BLOCK_BYTES UINT64_C(4096)
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 100u
/* The C library's first threshold, which it would otherwise raise. So large pieces of memory go back to the system at
   once, and no row counts the world before it. */
#define MMAP_BYTES (128 * 1024)

#define SIDES 2 /* of memory */
#define IDLE_BLOCKS 256u
#define IDLE_BATCH 64u
#define IDLE_TRANSFERS 16u
#define IDLE_REST_NS CLOCK_NS_PER_S /* in which all threads come to rest */

/* ---- private memory ---------------------------------------------------------------------------------------------- */

/*
 * The kernel calls a page private if only one process maps it, even within a shared mapping: a pool in shared memory
 * that no peer has touched yet would count. So here only private pages of private mappings count. If the pool lies in a
 * private mapping, its bytes are subtracted (MPI allocates it so where a node has one rank, and the pool is populated
 * in full).
 */
struct footprint {
    uint64_t private_kib; /* private pages of private mappings, without the pool */
    uint64_t all_kib;     /* private pages of all mappings */
};

/* Fails where the system does not say. */
static struct footprint footprint_read(const void *pool, uint64_t pool_bytes)
{
    const uint64_t address = (uint64_t)(uintptr_t)pool;
    struct footprint sum = {0};
    uint64_t from, to, kib;
    char line[4096], marks[8];
    bool is_private = false, pool_is_private = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (file == NULL)
        fail("cannot read /proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, marks) == 3) {
            is_private = marks[3] == 'p';
            pool_is_private |= is_private && from <= address && address < to;
        } else if (sscanf(line, "Private_Clean: %" SCNu64 " kB", &kib) == 1 ||
                   sscanf(line, "Private_Dirty: %" SCNu64 " kB", &kib) == 1) {
            sum.all_kib += kib;
            sum.private_kib += is_private ? kib : 0;
        }
    }
    fclose(file);
    if (pool_is_private)
        sum.private_kib -= pool_bytes / 1024;
    return sum;
}

/* ---- scale ------------------------------------------------------------------------------------------------------- */

enum figure { START, CONTACT, NEXT, ALL, CLOSE, CONSUMER_KIB, PRODUCER_KIB, SEGMENT_KIB, FIGURES };

/** A world of the first ranks; the reporting rank is its rank 0. */
struct world {
    struct bench *bench;
    MPI_Comm comm; /* NULL: this rank is not in it */
    int size, rank;
    uint32_t *ids;                   /* of all blocks, in order */
    baton_event_t all;               /* its path_bytes are those of all wants */
    uint64_t now[FIGURES];           /* of this round, on this rank; then the most of all */
    struct samples figures[FIGURES]; /* nanoseconds or KiB, a round */
};

static void open_world(struct bench *b, struct world *w, int size)
{
    const int rank = b->roster.rank;
    const int place = rank == b->consumer ? 0 : rank < b->consumer ? rank + 1 : rank;
    *w = (struct world){.bench = b, .size = size, .rank = place};
    MPI_Comm_split(b->roster.comm, place < size ? 0 : MPI_UNDEFINED, place, &w->comm);
    w->ids = room((size_t)size, sizeof *w->ids);
    for (int i = 0; i < size; i++)
        w->ids[i] = (uint32_t)i;
}

static void close_world(struct world *w)
{
    if (w->comm != MPI_COMM_NULL)
        MPI_Comm_free(&w->comm);
    for (unsigned i = 0; i < FIGURES; i++)
        samples_fini(&w->figures[i]);
    free(w->ids);
}

static baton_open_params_t role_of(const struct world *w)
{
    baton_open_params_t p = {.size = sizeof p, .tp = 1, .pp = 1};
    p.role = w->rank == 0 ? BATON_ROLE_DECODE : BATON_ROLE_PREFILL;
    snprintf(p.engine, sizeof p.engine, w->rank == 0 ? "consumer" : "producer%d", w->rank);
    return p;
}

/* ---- scale: transfers -------------------------------------------------------------------------------------------- */

/* Producer k has block k for the consumer, and the first producer block 0 too. */
static void offer(const struct world *w, const struct context *c)
{
    context_offer(c, "first", &w->ids[w->rank], 1, 0);
    if (w->rank == 1)
        context_offer(c, "next", &w->ids[0], 1, 0);
}

static void want(const struct world *w, const struct context *c, int producer, const char *key)
{
    char engine[BATON_ENGINE_NAME_MAX];
    snprintf(engine, sizeof engine, "producer%d", producer);
    context_want(c, engine, key, &w->ids[strcmp(key, "next") == 0 ? 0 : producer], 1, BATON_MODE_PULL, NULL);
}

/* Until `count` wants have ended: nanoseconds since `begin`. */
static uint64_t await(struct world *w, const struct context *c, int count, uint64_t begin)
{
    baton_event_t event;
    for (int i = 0; i < count; i++) {
        context_take(c, BATON_EVENT_WANT, &event);
        for (int path = 0; path < BATON_PATHS; path++)
            w->all.path_bytes[path] += event.path_bytes[path];
    }
    return clock_now_ns() - begin;
}

static void consume(struct world *w, const struct context *c, const struct blocks *cache)
{
    uint64_t begin = clock_now_ns();
    want(w, c, 1, "first");
    w->now[CONTACT] = await(w, c, 1, begin);
    begin = clock_now_ns();
    want(w, c, 1, "next");
    w->now[NEXT] = await(w, c, 1, begin);
    begin = clock_now_ns();
    for (int producer = 2; producer < w->size; producer++)
        want(w, c, producer, "first");
    w->now[ALL] = w->size > 2 ? await(w, c, w->size - 2, begin) : 0;
    if (!blocks_check(cache, 0, w->ids, w->ids, (uint32_t)w->size, false, "first or next"))
        w->bench->status = 1;
}

/* ---- scale: a round ---------------------------------------------------------------------------------------------- */

static void live(struct world *w, bool describes)
{
    struct bench *b = w->bench;
    const baton_open_params_t self = role_of(w);
    struct context c;
    struct blocks cache;
    blocks_describe_plain(&cache, 1, BLOCK_BYTES, (uint32_t)w->size);
    const uint64_t before = footprint_read(NULL, 0).private_kib;
    b->world = w->comm;
    MPI_Barrier(w->comm);
    uint64_t begin = clock_now_ns();
    context_open(b, &c, &self, &cache, NULL);
    w->now[START] = clock_now_ns() - begin;
    if (describes)
        context_note(b, &c);
    if (w->rank == 0) {
        blocks_poison(&cache, w->ids, (uint32_t)w->size);
    } else {
        blocks_fill(&cache, 0);
        offer(w, &c);
    }
    channel_barrier(w->comm);
    if (w->rank == 0)
        consume(w, &c, &cache);
    else
        context_await_offers(&c, w->rank == 1 ? 2 : 1);
    channel_barrier(w->comm);
    const uint64_t after = footprint_read(c.pool, cache.geometry.bytes).private_kib;
    w->now[w->rank == 0 ? CONSUMER_KIB : PRODUCER_KIB] = after > before ? after - before : 0;
    w->now[SEGMENT_KIB] = baton_inside_ground(c.baton)->pool_offset / 1024;
    MPI_Barrier(w->comm);
    begin = clock_now_ns();
    context_close(b, &c);
    w->now[CLOSE] = clock_now_ns() - begin;
    blocks_fini(&cache);
    b->world = MPI_COMM_WORLD;
}

/* The slowest rank's times, and the most memory of a rank. */
static void visit_world(struct world *w, bool counts, bool describes)
{
    const struct bench *b = w->bench;
    memset(w->now, 0, sizeof w->now);
    if (w->comm != MPI_COMM_NULL)
        live(w, describes);
    channel_barrier(b->roster.comm);
    MPI_Allreduce(MPI_IN_PLACE, w->now, FIGURES, MPI_UINT64_T, MPI_MAX, b->roster.comm);
    for (unsigned i = 0; i < FIGURES && counts; i++)
        samples_add(&w->figures[i], w->now[i]);
}

/* ---- scale: rows ------------------------------------------------------------------------------------------------- */

/* The median of a figure. */
static double median(struct world *w, enum figure figure)
{
    return (double)samples_quantile(&w->figures[figure], 0.5);
}

static void print_world(struct world *w)
{
    struct bench *b = w->bench;
    const baton_path_t path = context_path(&w->all);
    report_row(&b->report,
               "path=%s|ranks=%d|start_ms=%.3f|contact_us=%.3f|next_us=%.3f|all_ms=%.3f|close_ms=%.3f"
               "|consumer_KiB=%.0f|producer_KiB=%.0f|segment_KiB=%.0f",
               path == BATON_PATH_NONE ? "several" : bench_path_name(path), w->size, median(w, START) / 1e6,
               median(w, CONTACT) / 1e3, median(w, NEXT) / 1e3, median(w, ALL) / 1e6, median(w, CLOSE) / 1e6,
               median(w, CONSUMER_KIB), median(w, PRODUCER_KIB), median(w, SEGMENT_KIB));
    const size_t worlds = w->figures[START].count;
    report_note(&b->report, "  %d ranks: %zu world%s, the slowest start %.3f ms", w->size, worlds,
                worlds == 1 ? "" : "s", samples_us(&w->figures[START], 1) / 1e3);
}

static void run_world(struct bench *b, int size, bool first)
{
    struct world w;
    struct pace pace;
    open_world(b, &w, size);
    visit_world(&w, false, first); /* what MPI and the C library allocate once is in no row */
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%d ranks", size);
    while (pace_next(&pace))
        visit_world(&w, true, false);
    print_world(&w);
    close_world(&w);
}

void scale_run(struct bench *b)
{
    const int all = b->roster.size;
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    report_note(
        &b->report,
        "medians of worlds of so many ranks; start: from baton_open until baton_start has returned on the "
        "slowest rank; contact: one block of %" PRIu64 " bytes from a rank of which nothing is known, from the "
        "call to its event; next: one more from it; all: one from each other rank, all at once (0: there is none); "
        "KiB: what private memory has grown by since before the start, of the consumer and of the largest producer, "
        "with MPI's part; segment: of one rank, without its cache",
        BLOCK_BYTES);
    for (int size = 2; size < all; size *= 2)
        run_world(b, size, size == 2);
    run_world(b, all, all == 2);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const char *const side_names[SIDES] = {"decode", "prefill"};

/* A rank's. */
struct kept {
    struct footprint footprint;
    uint64_t segment_kib; /* its part of the shared segment, besides its pool */
};

static struct kept kept_by(const struct scene *s)
{
    return (struct kept){footprint_read(s->context.pool, s->cache.geometry.bytes),
                         baton_inside_ground(s->context.baton)->pool_offset / 1024};
}

/* One context: open, transfer, measure, close. */
static void visit_blocks(struct bench *b, uint64_t blocks, bool describe, struct kept side[SIDES])
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
        context_note(b, &scene.context);
    for (uint64_t i = 0; i < o->transfers; i++)
        scene_move(&scene, batch, false, &t);
    scene_glance(&scene, batch);
    scene_signal(&scene, CHANNEL_ASLEEP);
    side[0] = side[1] = kept_by(&scene);
    scene_answer(&scene, &side[1], sizeof side[1], CHANNEL_ASLEEP);
    scene_close(&scene);
}

static void print_private(struct bench *b, unsigned side, const char *blocks, int64_t kib)
{
    report_row(&b->report, "op=memory%s@%s|blocks=%s|private_KiB=%" PRId64, b->options.busy ? "+busy" : "",
               side_names[side], blocks, kib);
}

void memory_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct kept all[OPTION_LIST_MAX][SIDES];
    char blocks[32];
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    report_note(&b->report,
                "private_KiB: private pages of private mappings, without the pool, after %" PRIu64
                " transfers of %" PRIu64 " blocks (at most half the cache) of %" PRIu64
                " bytes; difference: last row less first",
                o->transfers, o->batch.value[0], o->block.value[0]);
    visit_blocks(b, o->blocks.value[0], true, all[0]);
    for (unsigned i = 0; i < o->blocks.count; i++) {
        visit_blocks(b, o->blocks.value[i], false, all[i]);
        snprintf(blocks, sizeof blocks, "%" PRIu64, o->blocks.value[i]);
        for (unsigned side = 0; side < SIDES; side++) {
            print_private(b, side, blocks, (int64_t)all[i][side].footprint.private_kib);
            report_note(&b->report,
                        "  %s, %s blocks: besides, its part of the shared segment without the pool: %" PRIu64
                        " KiB; private pages of all mappings, pools too: %" PRIu64 " KiB",
                        side_names[side], blocks, all[i][side].segment_kib, all[i][side].footprint.all_kib);
        }
    }
    const struct kept *last = all[o->blocks.count - 1];
    for (unsigned side = 0; side < SIDES && o->blocks.count > 1; side++)
        print_private(b, side, "difference",
                      (int64_t)last[side].footprint.private_kib - (int64_t)all[0][side].footprint.private_kib);
}

/* ---- idle -------------------------------------------------------------------------------------------------------- */

struct rest {
    double seconds;
    struct effort effort;
};

static struct rest rest_for(const struct context *c, double seconds)
{
    const uint64_t began = clock_now_ns();
    const struct effort before = effort_read(&c->meter);
    clock_sleep_until(began + (uint64_t)(seconds * (double)CLOCK_NS_PER_S));
    const struct effort effort = effort_since(&c->meter, before);
    return (struct rest){(double)(clock_now_ns() - began) / (double)CLOCK_NS_PER_S, effort};
}

void idle_run(struct bench *b)
{
    struct scene scene;
    struct transfer t;
    struct rest *all = room((size_t)b->roster.size, sizeof *all);
    scene_open(b, &scene,
               &(struct scene_form){.block_bytes = BLOCK_BYTES, .num_blocks = IDLE_BLOCKS, .max_batch = IDLE_BATCH});
    context_note(b, &scene.context);
    for (unsigned i = 0; i < IDLE_TRANSFERS; i++)
        scene_move(&scene, IDLE_BATCH, false, &t);
    scene_verify(&scene, IDLE_BATCH, false);
    channel_barrier(b->roster.comm);
    clock_sleep_until(clock_now_ns() + IDLE_REST_NS);
    const struct rest mine = rest_for(&scene.context, b->options.seconds);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, b->consumer, b->roster.comm);
    for (int rank = 0; rank < b->roster.size; rank++)
        report_row(&b->report, "rank=%d|seconds=%.3f|cpu_percent=%.4f|wakeups_s=%.1f", rank, all[rank].seconds,
                   100 * (double)all[rank].effort.cpu_ns / (double)CLOCK_NS_PER_S / all[rank].seconds,
                   (double)all[rank].effort.wakeups / all[rank].seconds);
    scene_close(&scene);
    free(all);
}
