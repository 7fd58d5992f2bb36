/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scale: start, first contact, memory and close by the number of ranks. The ranks of the run form worlds of 2, 4, 8
 * and so on, and one of all, in turn; the others sleep meanwhile. In each world the reporting rank is a decode engine,
 * and each other rank is a prefill engine of its own, with a small cache.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/samples.h"
#include "core/ground.h"
#include "front/inside.h"

#define BLOCK_BYTES UINT64_C(4096)
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 100u
#define MMAP_BYTES (128 * 1024) /* large pieces go back to the system at once: no row counts the world before it */

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

/* ---- transfers --------------------------------------------------------------------------------------------------- */

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

/* ---- a round ----------------------------------------------------------------------------------------------------- */

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
        conditions_note_baton(b, c.baton);
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
static void visit(struct world *w, bool counts, bool describes)
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

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The median of a figure. */
static double median(struct world *w, enum figure figure)
{
    return (double)samples_quantile(&w->figures[figure], 0.5);
}

static void print(struct world *w)
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
    visit(&w, false, first); /* what MPI and the C library allocate once is in no row */
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%d ranks", size);
    while (pace_next(&pace))
        visit(&w, true, false);
    print(&w);
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
