/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * distances: what a byte costs between two ranks, by the smallest thing that both have in common. Of the pairs of a
 * prefill and a decode rank each class is measured between a few, one pair at a time, by transfers of scattered blocks.
 * Rank 0 prints the file of costs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/scene.h"
#include "option/file.h"
#include "place/costs.h"
#include "place/network.h"
#include "topo/topo.h"

#define PAIRS_MOST 3u /* of a class */
#define POOL_LEAST (UINT64_C(128) << 20)
#define WARM_UPS 3u
#define ITERS_LEAST 5u
#define ITERS_MOST 1000u
#define FILE_MAX ((size_t)1 << 20)
#define UNKNOWN_CLASS COST_CLASSES

/** Where a rank is. */
struct place {
    uint32_t node; /* the lowest rank of it */
    struct topo_place at;
};

/** The engines of a pair, by their places in the roster. */
struct pair {
    int prefill, decode;
};

struct class
{
    struct pair pair[PAIRS_MOST];
    uint32_t pairs; /* kept; each further one takes the place of an earlier one now and then */
    uint64_t seen;
    double ns_a_byte; /* the least of its pairs; 0: none was measured */
    uint64_t transfers;
};

struct run {
    struct bench *bench;
    struct place *places; /* by rank */
    struct network network;
    struct class classes[COST_CLASSES + 1]; /* the last: places that are not known */
};

/* ---- who is where ------------------------------------------------------------------------------------------------ */

/* The lowest rank of this node, as Baton sees nodes. */
static uint32_t node_of(struct bench *b)
{
    struct context context;
    uint32_t node = UINT32_MAX;
    context_open(b, &context, &b->roster.ranks[b->roster.rank], NULL, NULL);
    const int num = baton_engines(context.baton, NULL, NULL, 0);
    baton_engine_t *engines = room((size_t)num, sizeof *engines);
    baton_engine_rank_t *ranks = room(BATON_ENGINE_RANKS_MAX, sizeof *ranks);
    baton_engines(context.baton, NULL, engines, num);
    for (const baton_engine_t *e = engines; e < engines + num; e++) {
        const int n = baton_engine_ranks(context.baton, e->name, ranks, BATON_ENGINE_RANKS_MAX);
        for (int i = 0; i < n; i++)
            if (ranks[i].distance != BATON_DISTANCE_WORLD && (uint32_t)ranks[i].world_rank < node)
                node = (uint32_t)ranks[i].world_rank;
    }
    free(ranks);
    free(engines);
    context_close(b, &context);
    return node;
}

static void find_places(struct run *run)
{
    struct bench *b = run->bench;
    struct place own = {.node = node_of(b)};
    run->places = room((size_t)b->roster.size, sizeof *run->places);
    topo_find(NULL, NULL, &own.at); /* what it cannot find is unknown */
    MPI_Allgather(&own, sizeof own, MPI_BYTE, run->places, sizeof own, MPI_BYTE, b->roster.comm);
}

/* Every rank reads it, so that all choose the same pairs. */
static void read_network(struct run *run)
{
    const char *path = run->bench->options.network;
    struct why why;
    if (path == NULL)
        return;
    char *text = file_read(path, FILE_MAX, NULL);
    if (text == NULL)
        fail("--network %s cannot be read on %s: %s", path, run->places[run->bench->roster.rank].at.host,
             strerror(errno));
    if (network_read(&run->network, text, &why) != 0)
        fail("--network %s: %s", path, why.text);
    free(text);
}

static bool have_one_switch(const struct run *run, const struct topo_place *a, const struct topo_place *b)
{
    uint32_t x[NETWORK_HEIGHT_MAX], y[NETWORK_HEIGHT_MAX];
    if (run->bench->options.network == NULL)
        return true;
    return network_path(&run->network, a->host, x) && network_path(&run->network, b->host, y) && x[0] == y[0];
}

/* Switches above one another count as none: what is between is in proportion. */
static unsigned class_of(const struct run *run, int producer, int consumer)
{
    const struct topo_place *a = &run->places[producer].at, *b = &run->places[consumer].at;
    if (run->places[producer].node != run->places[consumer].node)
        return have_one_switch(run, a, b) ? COST_SWITCH : COST_FAR;
    if (a->numa == TOPO_UNKNOWN || b->numa == TOPO_UNKNOWN)
        return UNKNOWN_CLASS;
    if (a->numa != b->numa)
        return a->package == b->package && a->package != TOPO_UNKNOWN ? COST_PACKAGE : COST_NODE;
    return a->llc == b->llc && a->llc != TOPO_UNKNOWN ? COST_CACHE : COST_NUMA;
}

/* Keeps a few pairs of each class, spread over all of them: the last of each power of two. */
static void add_pair(struct class *c, struct pair pair)
{
    if (c->pairs < PAIRS_MOST)
        c->pair[c->pairs++] = pair;
    else if ((c->seen & (c->seen - 1)) == 0)
        c->pair[c->seen % PAIRS_MOST] = pair;
    c->seen++;
}

static void find_pairs(struct run *run)
{
    const struct roster *r = &run->bench->roster;
    for (int p = 0; p < r->num_engines; p++)
        for (int d = 0; d < r->num_engines; d++)
            if (p != d && roster_is_single(r, p, BATON_ROLE_PREFILL) && roster_is_single(r, d, BATON_ROLE_DECODE))
                add_pair(&run->classes[class_of(run, r->engines[p].first, r->engines[d].first)], (struct pair){p, d});
}

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

static void measure(struct scene *s, struct transfers *row)
{
    const uint32_t batch = s->form.max_batch;
    struct transfer t;
    struct pace pace;
    for (unsigned i = 0; i < WARM_UPS; i++)
        scene_move(s, batch, false, &t);
    pace_begin(&pace, s->bench, ITERS_LEAST, ITERS_MOST, "from rank %d to rank %d", s->bench->producer,
               s->bench->consumer);
    pace.seconds /= PAIRS_MOST;
    while (pace_next(&pace)) {
        scene_move(s, batch, false, &t);
        transfers_add(row, &t, 0);
    }
    scene_verify(s, batch, false);
}

static void run_pair(struct bench *b, const struct pair *pair, struct class *c)
{
    const struct options *o = &b->options;
    const uint64_t block = o->block.value[0], batch = o->batch.value[0];
    struct scene scene;
    struct transfers row = {0};
    b->prefill = pair->prefill;
    b->decode = pair->decode;
    b->producer = b->roster.engines[pair->prefill].first;
    b->consumer = b->roster.engines[pair->decode].first;
    scene_open(b, &scene,
               &(struct scene_form){.block_bytes = block,
                                    .num_blocks = blocks_pool_blocks(o, POOL_LEAST, block),
                                    .max_batch = (uint32_t)batch});
    measure(&scene, &row);
    uint64_t found[] = {samples_quantile(&row.total, 0.5), row.total.count};
    channel_share(b->roster.comm, b->consumer, found, sizeof found);
    scene_close(&scene);
    transfers_fini(&row);
    const double ns_a_byte = (double)found[0] / (double)(block * batch);
    c->transfers += found[1];
    if (c->ns_a_byte == 0 || ns_a_byte < c->ns_a_byte)
        c->ns_a_byte = ns_a_byte;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void print(const struct run *run)
{
    const struct options *o = &run->bench->options;
    double ns_a_byte[COST_CLASSES];
    for (unsigned i = 0; i < COST_CLASSES; i++)
        ns_a_byte[i] = run->classes[i].ns_a_byte;
    struct costs costs = costs_of(ns_a_byte);
    printf("# costs of a byte, for batonrun --costs; %" PRIu64 " blocks of %" PRIu64 " bytes a transfer\n",
           o->batch.value[0], o->block.value[0]);
    for (unsigned i = 0; i < COST_CLASSES; i++) {
        const struct class *c = &run->classes[i];
        printf("%-8s %8.3f  # ", cost_names[i], costs.of[i]);
        if (c->ns_a_byte > 0)
            printf("measured: %.3f GB/s, the best of %u pairs, %" PRIu64 " transfers\n", 1 / c->ns_a_byte, c->pairs,
                   c->transfers);
        else
            puts("assumed: no two ranks of this run were so placed");
    }
    if (run->classes[UNKNOWN_CLASS].seen > 0)
        printf("# %" PRIu64 " pairs of one node were left out: a rank may run on several NUMA nodes\n",
               run->classes[UNKNOWN_CLASS].seen);
    fflush(stdout);
}

void distances_run(struct bench *b)
{
    struct run run = {.bench = b};
    find_places(&run);
    read_network(&run);
    find_pairs(&run);
    for (unsigned i = 0; i < COST_CLASSES; i++)
        for (uint32_t k = 0; k < run.classes[i].pairs; k++)
            run_pair(b, &run.classes[i].pair[k], &run.classes[i]);
    if (b->roster.rank == 0)
        print(&run);
    network_fini(&run.network);
    free(run.places);
}
