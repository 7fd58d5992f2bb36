/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd: see crowd.h. */
#include "bench/crowd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/blocks.h"
#include "bench/channel.h"
#include "bench/fail.h"
#include "bench/hush.h"
#include "front/inside.h"
#include "shm/copy.h"

#define POOL (UINT64_C(128) << 20)
#define LEAD_NS (UINT64_C(500) * 1000) /* from the agreement on a beginning until it */
#define PAGE_BYTES 4096

/* What a rank did in a round; 0 to 0 where it consumed nothing. */
struct span {
    uint64_t begin, end;
};

static void *room(size_t count, size_t size)
{
    void *made = calloc(count > 0 ? count : 1, size);
    if (!made)
        fail("out of memory");
    return made;
}

/* ---- who is who -------------------------------------------------------------------------------------------------- */

static void find_side(const struct roster *r, baton_role_t role, int not, int most, struct crowd_side *out)
{
    *out = (struct crowd_side){.own = -1, .ranks = room((size_t)r->num_engines, sizeof *out->ranks)};
    for (int e = 0; e < r->num_engines && out->count < most; e++) {
        if (e == not || !(r->engines[e].role & role) || r->engines[e].tp != 1 || r->engines[e].pp != 1)
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

static const char *engine_of(const struct crowd *c, int rank)
{
    return c->bench->roster.ranks[rank].engine;
}

static bool have_one_host(const struct roster *r)
{
    long least = gethostid(), most = least;
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_LONG, MPI_MIN, r->comm);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, r->comm);
    return least == most;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Maps every page of the producers' pools here, so that no measurement pays for page faults. */
static void find_pools(struct crowd *c, int *mapped)
{
    c->pools = room((size_t)c->producers.count, sizeof *c->pools);
    for (int p = 0; c->consumers.own >= 0 && p < c->producers.count; p++) {
        c->pools[p] = baton_inside_peer_pool(c->context.baton, (uint32_t)c->producers.ranks[p]);
        *mapped += c->pools[p] != NULL;
        for (uint64_t at = 0; c->pools[p] && at < c->num_blocks * c->block_bytes; at += PAGE_BYTES)
            (void)*(const volatile char *)(c->pools[p] + at);
    }
}

static void find_path(struct crowd *c)
{
    int mapped = 0;
    find_pools(c, &mapped);
    MPI_Allreduce(MPI_IN_PLACE, &mapped, 1, MPI_INT, MPI_SUM, c->bench->roster.comm);
    if (mapped != 0 && mapped != c->producers.count * c->consumers.count)
        fail("%d of %d pairs are on one node: there is no one limit to compare with", mapped,
             c->producers.count * c->consumers.count);
    c->path = mapped != 0 ? BATON_PATH_SHM : BATON_PATH_RMA;
    if (c->path == BATON_PATH_RMA)
        raw_open(&c->raw, c->bench->roster.comm, c->context.pool, moves(c) ? c->num_blocks * c->block_bytes : 0);
}

void crowd_open(struct bench *b, struct crowd *c, int producers, int consumers, uint64_t block_bytes,
                uint32_t max_batch)
{
    const struct options *o = &b->options;
    uint64_t seed = o->seed;
    *c = (struct crowd){.bench = b, .block_bytes = block_bytes};
    find_sides(c, producers, consumers);
    const uint64_t wide = (uint64_t)(c->producers.count > c->consumers.count ? c->producers.count : c->consumers.count);
    uint64_t blocks = (o->pool ? o->pool : POOL) / block_bytes;
    blocks = blocks > 2 * wide * max_batch ? blocks : 2 * wide * max_batch;
    if (blocks > UINT32_MAX / (wide + 1))
        fail("a pool of %" PRIu64 " blocks is too large", blocks);
    c->num_blocks = (uint32_t)blocks;
    blocks_describe(block_bytes, c->num_blocks, &c->geometry, &c->tensor);
    context_open(b, &c->context, &b->roster.ranks[b->roster.rank], moves(c) ? &c->geometry : NULL);
    c->from = room(wide * max_batch, sizeof *c->from);
    c->to = room(wide * max_batch, sizeof *c->to);
    c->runs = room(max_batch, sizeof *c->runs);
    if (walk_init(&c->source, c->num_blocks, walk_random(&seed)) != 0 ||
        walk_init(&c->target, c->num_blocks, walk_random(&seed)) != 0)
        fail("out of memory for the order of %" PRIu32 " blocks", c->num_blocks);
    if (c->producers.own >= 0)
        blocks_fill(c->context.pool, block_bytes, c->num_blocks, (uint32_t)c->producers.own * c->num_blocks);
    c->one_clock = have_one_host(&b->roster);
    channel_barrier(b->roster.comm);
    find_path(c);
}

void crowd_close(struct crowd *c)
{
    channel_barrier(c->bench->roster.comm);
    if (c->path == BATON_PATH_RMA)
        raw_close(&c->raw);
    context_close(c->bench, &c->context);
    walk_fini(&c->source);
    walk_fini(&c->target);
    free(c->producers.ranks);
    free(c->consumers.ranks);
    free(c->pools);
    free(c->runs);
    free(c->from);
    free(c->to);
}

void crowd_row_init(const struct crowd *c, struct crowd_row *row, uint32_t batch)
{
    *row = (struct crowd_row){.batch = batch};
    row->pair_ns = room((size_t)c->producers.count * (size_t)(c->consumers.count + 1), sizeof *row->pair_ns);
}

void crowd_row_fini(struct crowd_row *row)
{
    samples_fini(&row->want);
    samples_fini(&row->round);
    for (unsigned way = 0; way < RAW_WAYS; way++)
        samples_fini(&row->limit[way]);
    free(row->pair_ns);
}

static void add(struct samples *s, uint64_t ns)
{
    if (samples_add(s, ns) != 0)
        fail("out of memory for samples");
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
        blocks_offer(&c->context, key, c->from, batch);
    }
}

static void want_all(const struct crowd *c, struct crowd_row *row)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    uint64_t *begin = room((size_t)c->producers.count, sizeof *begin);
    for (int p = 0; p < c->producers.count; p++) {
        key_of(c, p, c->consumers.own, key);
        begin[p] = clock_now_ns();
        blocks_want(&c->context, engine_of(c, c->producers.ranks[p]), key, c->to + (uint64_t)p * row->batch, row->batch,
                    BATON_MODE_PULL, &begin[p]);
    }
    for (int i = 0; i < c->producers.count; i++) {
        blocks_await(&c->context, BATON_EVENT_WANT, &event);
        const uint64_t *began = event.user, ns = clock_now_ns() - *began;
        if (event.bytes != row->batch * c->block_bytes || blocks_path(&event) != c->path)
            fail("the want %s moved %" PRIu64 " bytes, or by another path than its pool is reached by", event.key,
                 event.bytes);
        add(&row->want, ns);
        row->pair_ns[began - begin] += ns;
    }
    free(begin);
}

static void transfer(struct crowd *c, struct crowd_row *row)
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
        blocks_await_offers(&c->context, (uint32_t)c->consumers.count);
        effort_add(&row->cost.producer, effort_since(&c->context.meter, before));
    }
    channel_barrier(c->bench->roster.comm);
    add(&row->round, round_ns(c, span));
}

void crowd_move(struct crowd *c, struct crowd_row *row)
{
    draw(c, row->batch);
    transfer(c, row);
}

void crowd_verify(struct crowd *c, struct crowd_row *row)
{
    struct crowd_row ignored;
    const uint32_t batch = row->batch;
    char key[BATON_KEY_MAX];
    crowd_row_init(c, &ignored, batch);
    draw(c, batch);
    if (c->consumers.own >= 0)
        blocks_poison(c->context.pool, c->block_bytes, c->to, (uint32_t)c->producers.count * batch);
    transfer(c, &ignored);
    for (int p = 0; c->consumers.own >= 0 && p < c->producers.count; p++) {
        uint32_t *from = c->from + (uint64_t)p * batch;
        for (uint32_t i = 0; i < batch; i++)
            from[i] += (uint32_t)p * c->num_blocks; /* the patterns of this producer */
        key_of(c, p, c->consumers.own, key);
        if (!blocks_check(c->context.pool, c->block_bytes, c->block_bytes, from, c->to + (uint64_t)p * batch, batch,
                          key))
            c->bench->status = 1;
    }
    crowd_row_fini(&ignored);
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

/* False: MPI lost a completion. */
static bool read_all(struct crowd *c, uint32_t batch, enum raw_way way)
{
    struct raw_walk w = {.crowd = c, .batch = batch};
    return raw_move(&c->raw, way, false, next_block, &w) > 0;
}

void crowd_limit(struct crowd *c, struct crowd_row *row)
{
    const bool by_mpi = c->path == BATON_PATH_RMA;
    const unsigned way = (unsigned)(c->limit_turns++ % (by_mpi ? raw_ways(false) : 2));
    int good = 1;
    struct span span = {0};
    draw(c, row->batch);
    start_together(c);
    if (by_mpi)
        hush_begin();
    if (c->consumers.own >= 0) {
        span.begin = clock_now_ns();
        if (by_mpi)
            good = read_all(c, row->batch, (enum raw_way)way);
        else
            copy_all(c, row->batch, way == 0 ? COPY_MEMCPY : COPY_STREAM);
        span.end = clock_now_ns();
    }
    if (by_mpi) {
        MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, c->bench->roster.comm); /* they wait inside MPI */
        hush_end();
    } else {
        channel_barrier(c->bench->roster.comm);
    }
    const uint64_t ns = round_ns(c, span);
    if (good)
        add(&row->limit[way], ns);
}

/* ---- the end of a row -------------------------------------------------------------------------------------------- */

static void gather_samples(const struct crowd *c, struct samples *s)
{
    const struct bench *b = c->bench;
    const size_t size = (size_t)b->roster.size;
    int count = (int)s->count, *counts = room(size, sizeof *counts), *places = room(size, sizeof *places), total = 0;
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, b->consumer, b->roster.comm);
    for (size_t i = 0; i < size; total += counts[i++])
        places[i] = total;
    uint64_t *all = room((size_t)total, sizeof *all);
    MPI_Gatherv(s->ns, count, MPI_UINT64_T, all, counts, places, MPI_UINT64_T, b->consumer, b->roster.comm);
    samples_fini(s);
    for (int i = 0; bench_is_consumer(b) && i < total; i++)
        add(s, all[i]);
    free(counts);
    free(places);
    free(all);
}

void crowd_gather(struct crowd *c, struct crowd_row *row)
{
    const struct bench *b = c->bench;
    const int producers = c->producers.count, pairs = producers * c->consumers.count;
    uint64_t *sums = room((size_t)pairs, sizeof *sums);
    uint64_t efforts[] = {row->cost.consumer.cpu_ns, row->cost.consumer.wakeups, row->cost.producer.cpu_ns,
                          row->cost.producer.wakeups};
    if (c->consumers.own >= 0)
        memcpy(sums + c->consumers.own * producers, row->pair_ns, (size_t)producers * sizeof *sums);
    MPI_Allreduce(MPI_IN_PLACE, sums, pairs, MPI_UINT64_T, MPI_SUM, b->roster.comm);
    MPI_Allreduce(MPI_IN_PLACE, efforts, 4, MPI_UINT64_T, MPI_SUM, b->roster.comm);
    memcpy(row->pair_ns, sums, (size_t)pairs * sizeof *sums);
    row->cost.consumer = (struct effort){efforts[0], efforts[1]};
    row->cost.producer = (struct effort){efforts[2], efforts[3]};
    row->cost.transfers = row->round.count * (uint64_t)pairs;
    row->cost.bytes = row->cost.transfers * row->batch * c->block_bytes;
    gather_samples(c, &row->want);
    free(sums);
}
