/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many: many engines at once, beside the limit of the same crowd without Baton.
 *
 *   fanout      one producer, all decode engines consume
 *   incast      all prefill engines produce, one consumer
 *   allpairs    all decode engines consume from all prefill engines
 *
 * Engines of one rank take part. Each pair has requests of its own. A round moves one of each pair, all at once; rounds
 * by Baton and by the limit alternate. All ranks go through the same rounds in step; between two rounds they wait
 * asleep, so that who has finished takes no core from who has not.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/blocks.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/limit.h"
#include "bench/pace.h"
#include "bench/roster.h"
#include "bench/samples.h"
#include "bench/scatter.h"
#include "front/inside.h"
#include "shm/copy.h"

#define ITERS_LEAST 6u /* two of each way of raw MPI */
#define ITERS_MOST 1000u
#define WARM_UPS 3u
#define POOL (UINT64_C(128) << 20)
#define LEAD_NS (UINT64_C(500) * 1000) /* from the agreement on a beginning until it */
#define PAGE_BYTES 4096

/** Ranks by their place in the roster. */
struct side {
    int count, own; /* own: this rank's place among them, or -1 */
    int *ranks;
};

struct crowd {
    struct bench *bench;
    struct side producers, consumers;
    struct context context;
    struct blocks cache;
    uint64_t block_bytes;
    uint32_t num_blocks;
    bool one_clock;    /* all ranks are on one host */
    baton_path_t path; /* of every pair: SHM or RMA */
    struct walk source, target;
    uint32_t *from, *to; /* ids of a consumer's wants, one producer after the other; of a producer's offer */
    uint64_t round;
    const char **pools; /* path shm, of a consumer: the producers' */
    struct plan_run *runs;
    struct raw raw; /* path rma */
};

/* What this rank measures in the rounds of a row; at its end the rank that reports has all ranks' together. */
struct row {
    uint32_t batch;
    struct samples want;  /* each want, from the call to its event */
    struct samples round; /* of the reporting rank: from the first want to the last event */
    struct ways limit;    /* the same of the limit */
    uint64_t *pair_ns;    /* sums by producer; of the reporting rank by consumer and producer */
    struct cost cost;
};

/* What a rank did in a round; 0 to 0 where it consumed nothing. */
struct span {
    uint64_t begin, end;
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

static void find_side(const struct roster *r, baton_role_t role, int not, int most, struct side *out)
{
    *out = (struct side){.own = -1, .ranks = room((size_t)r->num_engines, sizeof *out->ranks)};
    for (int e = 0; e < r->num_engines && out->count < most; e++) {
        if (e == not || !roster_is_single(r, e, role))
            continue;
        if (r->engines[e].first == r->rank)
            out->own = out->count;
        out->ranks[out->count++] = r->engines[e].first;
    }
}

/* An engine of both roles is a consumer only where it is the one that reports. */
static void find_sides(struct crowd *c, int producers, int consumers)
{
    const struct bench *b = c->bench;
    find_side(&b->roster, BATON_ROLE_PREFILL, b->decode, producers, &c->producers);
    find_side(&b->roster, BATON_ROLE_DECODE, b->prefill, consumers, &c->consumers);
    for (int i = 0; i < c->consumers.count; i++)
        for (int k = 0; k < c->producers.count; k++)
            if (c->consumers.ranks[i] == c->producers.ranks[k])
                fail("rank %d would be on both sides: give each engine one role", c->producers.ranks[k]);
}

static bool moves(const struct crowd *c)
{
    return c->producers.own >= 0 || c->consumers.own >= 0;
}

static bool have_one_host(const struct roster *r)
{
    long hosts[] = {gethostid(), -gethostid()}; /* the most, and the least */
    MPI_Allreduce(MPI_IN_PLACE, hosts, 2, MPI_LONG, MPI_MAX, r->comm);
    return hosts[0] == -hosts[1];
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Maps every page of the producers' pools here, so that no measurement pays for page faults. */
static int find_pools(struct crowd *c)
{
    int mapped = 0;
    c->pools = room((size_t)c->producers.count, sizeof *c->pools);
    for (int p = 0; c->consumers.own >= 0 && p < c->producers.count; p++) {
        c->pools[p] = baton_inside_peer_pool(c->context.baton, (uint32_t)c->producers.ranks[p]);
        mapped += c->pools[p] != NULL;
        for (uint64_t at = 0; c->pools[p] && at < c->cache.geometry.bytes; at += PAGE_BYTES)
            (void)*(const volatile char *)(c->pools[p] + at);
    }
    return mapped;
}

static void find_path(struct crowd *c)
{
    const int pairs = c->producers.count * c->consumers.count;
    int mapped = find_pools(c);
    MPI_Allreduce(MPI_IN_PLACE, &mapped, 1, MPI_INT, MPI_SUM, c->bench->roster.comm);
    if (mapped != 0 && mapped != pairs)
        fail("%d of %d pairs are on one node: there is no one limit to compare with", mapped, pairs);
    c->path = mapped != 0 ? BATON_PATH_SHM : BATON_PATH_RMA;
    if (c->path == BATON_PATH_RMA)
        raw_open(&c->raw, c->bench->roster.comm, c->context.pool, moves(c) ? c->cache.geometry.bytes : 0);
}

static void open_crowd(struct bench *b, struct crowd *c, uint64_t block_bytes, uint32_t max_batch)
{
    const struct options *o = &b->options;
    uint64_t seed = o->seed;
    *c = (struct crowd){.bench = b, .block_bytes = block_bytes};
    find_sides(c, o->op == OP_FANOUT ? 1 : INT_MAX, o->op == OP_INCAST ? 1 : INT_MAX);
    const uint64_t wide = (uint64_t)(c->producers.count > c->consumers.count ? c->producers.count : c->consumers.count);
    uint64_t blocks = (o->pool ? o->pool : POOL) / block_bytes;
    blocks = blocks > 2 * wide * max_batch ? blocks : 2 * wide * max_batch;
    if (blocks > UINT32_MAX / (wide + 1))
        fail("a pool of %" PRIu64 " blocks is too large", blocks);
    c->num_blocks = (uint32_t)blocks;
    blocks_describe_plain(&c->cache, 1, block_bytes, c->num_blocks);
    context_open(b, &c->context, &b->roster.ranks[b->roster.rank], moves(c) ? &c->cache : NULL, NULL);
    c->from = room(wide * max_batch, sizeof *c->from);
    c->to = room(wide * max_batch, sizeof *c->to);
    c->runs = room(max_batch, sizeof *c->runs);
    walk_init(&c->source, c->num_blocks, &seed);
    walk_init(&c->target, c->num_blocks, &seed);
    if (c->producers.own >= 0)
        blocks_fill(&c->cache, (uint64_t)c->producers.own * c->num_blocks);
    c->one_clock = have_one_host(&b->roster);
    channel_barrier(b->roster.comm);
    find_path(c);
}

static void close_crowd(struct crowd *c)
{
    channel_barrier(c->bench->roster.comm);
    if (c->path == BATON_PATH_RMA)
        raw_close(&c->raw);
    context_close(c->bench, &c->context);
    blocks_fini(&c->cache);
    walk_fini(&c->source);
    walk_fini(&c->target);
    free(c->producers.ranks);
    free(c->consumers.ranks);
    free(c->pools);
    free(c->runs);
    free(c->from);
    free(c->to);
}

static void init_row(const struct crowd *c, struct row *row, uint32_t batch)
{
    *row = (struct row){.batch = batch, .limit.num = c->path == BATON_PATH_RMA ? raw_ways(false) : 2};
    row->pair_ns = room((size_t)c->producers.count * (size_t)(c->consumers.count + 1), sizeof *row->pair_ns);
}

static void fini_row(struct row *row)
{
    samples_fini(&row->want);
    samples_fini(&row->round);
    ways_reset(&row->limit);
    free(row->pair_ns);
}

/* ---- a round ----------------------------------------------------------------------------------------------------- */

/* Source ids are a producer's own: each consumer has others. */
static void draw_source(const struct crowd *c, int consumer, uint32_t batch, uint32_t *out)
{
    walk_draw(&c->source, (c->round * (uint64_t)c->consumers.count + (uint64_t)consumer) * batch, batch, out);
}

/* All wants of this consumer. */
static void draw(struct crowd *c, uint32_t batch)
{
    const uint64_t all = (uint64_t)c->producers.count * batch;
    c->round++;
    if (c->consumers.own < 0)
        return;
    walk_draw(&c->target, c->round * (all + 1), (uint32_t)all, c->to);
    for (int p = 0; p < c->producers.count; p++)
        draw_source(c, c->consumers.own, batch, c->from + (uint64_t)p * batch);
}

static void key_of(const struct crowd *c, int producer, int consumer, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "crowd-%" PRIu64 "-%d-%d", c->round, producer, consumer);
}

/* All leave it at about the same time, and asleep until then. Ranks of several hosts have no common clock. */
static void start_together(const struct crowd *c)
{
    channel_barrier(c->bench->roster.comm);
    if (!c->one_clock)
        return;
    uint64_t at = clock_now_ns();
    MPI_Allreduce(MPI_IN_PLACE, &at, 1, MPI_UINT64_T, MPI_MAX, c->bench->roster.comm);
    clock_sleep_until(at + LEAD_NS);
}

/* The time of a round, for the rank that reports: from the first beginning to the last end; where there is no common
   clock, that of the slowest rank. */
static uint64_t round_ns(const struct crowd *c, struct span own)
{
    const struct roster *r = &c->bench->roster;
    struct span all = own;
    if (!c->one_clock)
        all = (struct span){0, own.end - own.begin};
    else if (own.end == 0)
        all.begin = UINT64_MAX;
    MPI_Allreduce(MPI_IN_PLACE, &all.begin, 1, MPI_UINT64_T, MPI_MIN, r->comm);
    MPI_Allreduce(MPI_IN_PLACE, &all.end, 1, MPI_UINT64_T, MPI_MAX, r->comm);
    return all.end - all.begin;
}

static void offer_all(const struct crowd *c, uint32_t batch)
{
    char key[BATON_KEY_MAX];
    for (int i = 0; i < c->consumers.count; i++) {
        key_of(c, c->producers.own, i, key);
        draw_source(c, i, batch, c->from);
        context_offer(&c->context, key, c->from, batch, 0);
    }
}

static void want_all(const struct crowd *c, struct row *row)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    uint64_t *begin = room((size_t)c->producers.count, sizeof *begin);
    for (int p = 0; p < c->producers.count; p++) {
        key_of(c, p, c->consumers.own, key);
        begin[p] = clock_now_ns();
        context_want(&c->context, c->bench->roster.ranks[c->producers.ranks[p]].engine, key,
                     c->to + (uint64_t)p * row->batch, row->batch, BATON_MODE_PULL, &begin[p]);
    }
    for (int i = 0; i < c->producers.count; i++) {
        context_take(&c->context, BATON_EVENT_WANT, &event);
        const uint64_t *began = event.user, ns = clock_now_ns() - *began;
        if (event.bytes != row->batch * c->block_bytes || context_path(&event) != c->path)
            fail("the want %s moved %" PRIu64 " bytes, or by another path than its pool is reached by", event.key,
                 event.bytes);
        samples_add(&row->want, ns);
        row->pair_ns[began - begin] += ns;
    }
    free(begin);
}

/* Each pair moves what was drawn last, all at once. */
static void transfer(struct crowd *c, struct row *row)
{
    struct span span = {0};
    if (c->producers.own >= 0)
        offer_all(c, row->batch);
    start_together(c);
    const struct effort before = effort_read(&c->context.meter);
    if (c->consumers.own >= 0) {
        span.begin = clock_now_ns();
        want_all(c, row);
        span.end = clock_now_ns();
        effort_add(&row->cost.consumer, effort_since(&c->context.meter, before));
    } else if (c->producers.own >= 0) {
        context_await_offers(&c->context, (uint32_t)c->consumers.count);
        effort_add(&row->cost.producer, effort_since(&c->context.meter, before));
    }
    channel_barrier(c->bench->roster.comm);
    samples_add(&row->round, round_ns(c, span));
}

/* One more, into poisoned blocks, compared byte by byte. */
static void verify(struct crowd *c, uint32_t batch)
{
    struct row ignored;
    char key[BATON_KEY_MAX];
    init_row(c, &ignored, batch);
    draw(c, batch);
    if (c->consumers.own >= 0)
        blocks_poison(&c->cache, c->to, (uint32_t)c->producers.count * batch);
    transfer(c, &ignored);
    for (int p = 0; c->consumers.own >= 0 && p < c->producers.count; p++) {
        const uint64_t first = (uint64_t)p * batch;
        key_of(c, p, c->consumers.own, key);
        if (!blocks_check(&c->cache, (uint64_t)p * c->num_blocks, c->from + first, c->to + first, batch, false, key))
            c->bench->status = 1;
    }
    fini_row(&ignored);
}

/* ---- the limit --------------------------------------------------------------------------------------------------- */

static void copy_all(struct crowd *c, uint32_t batch, enum copy_kernel kernel)
{
    char *const targets[] = {c->context.pool};
    for (int p = 0; p < c->producers.count; p++) {
        const uint64_t first = (uint64_t)p * batch;
        for (uint32_t i = 0; i < batch; i++)
            c->runs[i] = (struct plan_run){.src = c->from[first + i] * c->block_bytes,
                                           .dst = c->to[first + i] * c->block_bytes,
                                           .bytes = c->block_bytes};
        copy_runs(kernel, c->runs, batch, &c->pools[p], targets);
    }
}

/* Which of the drawn blocks raw MPI reads next. */
struct raw_walk {
    const struct crowd *crowd;
    uint64_t next, batch;
};

static bool next_block(void *arg, struct raw_piece *out)
{
    struct raw_walk *w = arg;
    const struct crowd *c = w->crowd;
    if (w->next == w->batch * (uint64_t)c->producers.count)
        return false;
    *out = (struct raw_piece){.peer = c->producers.ranks[w->next / w->batch],
                              .mine = c->context.pool + c->to[w->next] * c->block_bytes,
                              .theirs = (MPI_Aint)(c->from[w->next] * c->block_bytes),
                              .bytes = (int)c->block_bytes};
    w->next++;
    return true;
}

/* The same round without Baton, by the way whose turn it is: each consumer copies, by one thread, from the producers'
   mapped pools; or reads by raw MPI while the producers wait inside MPI. */
static void take_limit(struct crowd *c, struct row *row)
{
    const bool by_mpi = c->path == BATON_PATH_RMA;
    const unsigned way = ways_next(&row->limit);
    struct raw_walk w = {.crowd = c, .batch = row->batch};
    int good = 1;
    struct span span = {0};
    draw(c, row->batch);
    start_together(c);
    if (by_mpi)
        halt_begin();
    if (c->consumers.own >= 0) {
        span.begin = clock_now_ns();
        if (by_mpi)
            good = raw_move(&c->raw, (enum raw_way)way, false, next_block, &w) > 0; /* else MPI lost a completion */
        else
            copy_all(c, row->batch, way == 0 ? COPY_MEMCPY : COPY_STREAM);
        span.end = clock_now_ns();
    }
    if (by_mpi) {
        MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, c->bench->roster.comm); /* they wait inside MPI */
        halt_end();
    } else {
        channel_barrier(c->bench->roster.comm);
    }
    const uint64_t ns = round_ns(c, span);
    if (good)
        samples_add(&row->limit.of[way], ns);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void gather_samples(const struct bench *b, struct samples *s)
{
    const size_t size = (size_t)b->roster.size;
    int count = (int)s->count, *counts = room(size, sizeof *counts), *places = room(size, sizeof *places), total = 0;
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, b->consumer, b->roster.comm);
    for (size_t i = 0; i < size; total += counts[i++])
        places[i] = total;
    struct samples all = {.count = (size_t)total, .room = (size_t)total, .ns = room((size_t)total, sizeof *all.ns)};
    MPI_Gatherv(s->ns, count, MPI_UINT64_T, all.ns, counts, places, MPI_UINT64_T, b->consumer, b->roster.comm);
    samples_fini(s);
    *s = all;
    free(counts);
    free(places);
}

/* The reporting rank has the samples, sums and efforts of all ranks afterwards. */
static void gather(const struct crowd *c, struct row *row)
{
    const struct bench *b = c->bench;
    const int producers = c->producers.count, pairs = producers * c->consumers.count;
    uint64_t *sums = room((size_t)pairs, sizeof *sums);
    struct effort efforts[] = {row->cost.consumer, row->cost.producer};
    if (c->consumers.own >= 0)
        memcpy(sums + c->consumers.own * producers, row->pair_ns, (size_t)producers * sizeof *sums);
    MPI_Allreduce(MPI_IN_PLACE, sums, pairs, MPI_UINT64_T, MPI_SUM, b->roster.comm);
    MPI_Allreduce(MPI_IN_PLACE, efforts, 4, MPI_UINT64_T, MPI_SUM, b->roster.comm);
    memcpy(row->pair_ns, sums, (size_t)pairs * sizeof *sums);
    const uint64_t transfers = row->round.count * (uint64_t)pairs;
    row->cost = (struct cost){transfers, transfers * row->batch * c->block_bytes, efforts[0], efforts[1]};
    gather_samples(b, &row->want);
    free(sums);
}

/* The slowest pair's mean time beside the fastest one's. */
static double spread(const struct row *row, int pairs)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < pairs; i++) {
        least = row->pair_ns[i] < least ? row->pair_ns[i] : least;
        most = row->pair_ns[i] > most ? row->pair_ns[i] : most;
    }
    return least > 0 ? (double)most / (double)least : 0;
}

static void print(const struct crowd *c, struct row *row)
{
    struct report *r = &c->bench->report;
    const int pairs = c->producers.count * c->consumers.count;
    const double bytes = (double)pairs * row->batch * (double)c->block_bytes,
                 limit = (double)ways_best_ns(&row->limit, NULL), ns = (double)samples_quantile(&row->round, 0.5),
                 want = (double)samples_quantile(&row->want, 0.5);
    report_row(r,
               "path=%s|producers=%d|consumers=%d|block_bytes=%" PRIu64 "|batch=%" PRIu32
               "|GBps=%.3f|us_p50=%.1f|us_p99=%.1f|spread=%.2f|limit_GBps=%.3f|ratio=%.3f" COST_COLUMNS,
               bench_path_name(c->path), c->producers.count, c->consumers.count, c->block_bytes, row->batch, bytes / ns,
               want / 1e3, samples_us(&row->want, 0.99), spread(row, pairs), limit > 0 ? bytes / limit : 0.0,
               limit / ns, COST_CELLS(&row->cost, want, row->batch));
    report_note(r, "  %" PRIu64 " x %" PRIu32 ": %zu rounds, %zu wants; limit: %zu rounds", c->block_bytes, row->batch,
                row->round.count, row->want.count, ways_count(&row->limit));
}

static void turn(struct crowd *c, struct row *row)
{
    draw(c, row->batch);
    transfer(c, row);
    take_limit(c, row);
}

static void run_row(struct crowd *c, uint32_t batch)
{
    struct row row;
    struct pace pace;
    init_row(c, &row, batch);
    for (unsigned i = 0; i < WARM_UPS; i++)
        turn(c, &row);
    fini_row(&row);
    init_row(c, &row, batch);
    pace_begin(&pace, c->bench, ITERS_LEAST, ITERS_MOST, "%" PRIu64 " x %" PRIu32, c->block_bytes, batch);
    while (pace_next(&pace))
        turn(c, &row);
    verify(c, batch);
    gather(c, &row);
    print(c, &row);
    fini_row(&row);
}

static void note_crowd(const struct crowd *c)
{
    struct bench *b = c->bench;
    context_note(b, &c->context);
    report_note(
        &b->report,
        "a round: each of %d consumers wants from each of %d producers, all at once; GBps: all bytes of a round, "
        "from its first want to its last event%s; us: of one want; spread: the slowest pair's mean beside the "
        "fastest one's",
        c->consumers.count, c->producers.count, c->one_clock ? "" : ", on the slowest rank");
    report_note(&b->report, "limit: the same crowd without Baton: %s",
                c->path == BATON_PATH_SHM
                    ? "one thread of each consumer copies like blocks from the mapped pools, the better of two kernels"
                    : "raw MPI of each consumer, the best of three ways, while the producers wait inside MPI");
}

void many_run(struct bench *b)
{
    const struct options *o = &b->options;
    for (unsigned i = 0; i < o->block.count; i++) {
        struct crowd crowd;
        open_crowd(b, &crowd, o->block.value[i], (uint32_t)option_list_most(&o->batch));
        if (i == 0)
            note_crowd(&crowd);
        for (unsigned j = 0; j < o->batch.count; j++)
            run_row(&crowd, (uint32_t)o->batch.value[j]);
        close_crowd(&crowd);
    }
}
