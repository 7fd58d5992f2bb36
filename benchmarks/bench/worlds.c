/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worlds: what a transfer between two neighbours takes in a world of several nodes, beside the same in a world of one.
 *
 * The world of several nodes is that of all ranks. That of one node is of the two neighbours alone, without
 * BATON_FAKE_NODES. A round has a context of each world, one after the other, and whichever comes first in one round
 * comes second in the next. Ranks that are in no context wait asleep, as those do that have nothing to move.
 *
 * Each batch has a row for polled and one for streaks, as latency has. All samples of a row's rounds count alike.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/stream.h"
#include "core/ground.h"
#include "front/inside.h"

#define POOL_LEAST (UINT64_C(128) << 20)
#define REST_NS 500000L
#define ROUNDS_LEAST 4u
#define ROUNDS_MOST 1000u
#define WARM_UPS 5u
#define POLLED_A_ROUND 40u
#define STREAKS_A_ROUND 4u
#define NAME "BATON_FAKE_NODES"

enum world { ONE, SEVERAL, WORLDS };

static const enum bench_state states[] = {STATE_POLLED, STATE_STREAK};
#define STATES (sizeof states / sizeof states[0])

struct run {
    struct bench *bench;
    MPI_Comm pair; /* MPI_COMM_NULL: this rank is none of the neighbours */
    char *nodes;   /* of all ranks, as the environment says; NULL: it does not */
    bool is_described;
    struct transfers rows[OPTION_LIST_MAX][STATES][WORLDS]; /* by batch */
};

/* ---- one context ------------------------------------------------------------------------------------------------- */

static void take(struct scene *s, enum bench_state state, uint32_t batch, struct transfers *row)
{
    if (state == STATE_STREAK)
        stream_take(s, batch, BATON_PATH_SHM, row);
    else
        scene_take(s, batch, BATON_PATH_SHM, row);
}

static void measure(struct scene *s, enum bench_state state, uint32_t batch, struct transfers *row)
{
    const unsigned count = state == STATE_STREAK ? STREAKS_A_ROUND : POLLED_A_ROUND;
    for (unsigned i = 0; i < (state == STATE_STREAK ? 1 : WARM_UPS); i++)
        take(s, state, batch, NULL);
    for (unsigned i = 0; i < count; i++)
        take(s, state, batch, row);
    scene_verify(s, batch, false);
}

/* Whether the context has the ranks that its world is to have. */
static void check(const struct scene *s, enum world world)
{
    const struct ground *g = baton_inside_ground(s->context.baton);
    if (world == SEVERAL && g->places == g->num_peers)
        fail("all ranks are of one node: give " NAME "=2, and a decode engine more than the one that is measured");
}

static void live(struct run *r, enum world world, uint64_t block_bytes)
{
    struct bench *b = r->bench;
    const struct options *o = &b->options;
    struct scene s;
    scene_open(b, &s,
               &(struct scene_form){.block_bytes = block_bytes,
                                    .num_blocks = blocks_pool_blocks(o, POOL_LEAST, block_bytes),
                                    .max_batch = (uint32_t)option_list_most(&o->batch)});
    check(&s, world);
    if (world == SEVERAL && !r->is_described)
        context_note(b, &s.context);
    r->is_described |= world == SEVERAL;
    s.rest_ns = REST_NS;
    s.is_awake = true;
    s.context.polls = s.consumes;
    for (unsigned i = 0; i < o->batch.count; i++)
        for (unsigned k = 0; k < STATES; k++)
            measure(&s, states[k], (uint32_t)o->batch.value[i], &r->rows[i][k][world]);
    scene_close(&s);
}

static void visit(struct run *r, enum world world, uint64_t block_bytes)
{
    struct bench *b = r->bench;
    if (world == ONE && r->pair == MPI_COMM_NULL) {
        channel_barrier(b->roster.comm); /* as scene_open and scene_close */
        channel_barrier(b->roster.comm);
        return;
    }
    context_set(NAME, world == ONE ? NULL : r->nodes);
    b->world = world == ONE ? r->pair : MPI_COMM_WORLD;
    live(r, world, block_bytes);
    b->world = MPI_COMM_WORLD;
    context_set(NAME, r->nodes);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static double wakeups(const struct transfers *row)
{
    const struct cost *c = &row->cost;
    return (double)(c->consumer.wakeups + c->producer.wakeups) / (double)(c->transfers > 0 ? c->transfers : 1);
}

static void print(struct run *r, uint64_t block_bytes, unsigned batch, unsigned state)
{
    struct transfers *one = &r->rows[batch][state][ONE], *several = &r->rows[batch][state][SEVERAL];
    const double alone_ns = (double)samples_quantile(&one->total, 0.5),
                 ns = (double)samples_quantile(&several->total, 0.5);
    report_row(&r->bench->report,
               "path=%s|state=%s|block_bytes=%" PRIu64 "|batch=%" PRIu64
               "|samples=%zu|one_us_p50=%.2f|one_us_p90=%.2f|us_p50=%.2f|us_p90=%.2f|ratio=%.3f|one_wakeups=%.2f"
               "|wakeups=%.2f",
               bench_path_name(BATON_PATH_SHM), options_state_name(states[state]), block_bytes,
               r->bench->options.batch.value[batch], several->total.count, alone_ns / 1e3, samples_us(&one->total, 0.9),
               ns / 1e3, samples_us(&several->total, 0.9), alone_ns > 0 ? ns / alone_ns : 0.0, wakeups(one),
               wakeups(several));
    transfers_fini(one);
    transfers_fini(several);
    *one = *several = (struct transfers){0};
}

static void run_size(struct run *r, uint64_t block_bytes)
{
    struct bench *b = r->bench;
    struct pace pace;
    unsigned rounds = 0;
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%" PRIu64 ", rounds", block_bytes);
    for (; pace_next(&pace); rounds++) {
        visit(r, rounds % 2 == 0 ? ONE : SEVERAL, block_bytes);
        visit(r, rounds % 2 == 0 ? SEVERAL : ONE, block_bytes);
    }
    for (unsigned i = 0; i < b->options.batch.count; i++)
        for (unsigned k = 0; k < STATES; k++)
            print(r, block_bytes, i, k);
    report_note(&b->report, "  blocks of %" PRIu64 ": %u rounds, each with a context of either world", block_bytes,
                rounds);
}

void worlds_run(struct bench *b)
{
    struct run *r = room(1, sizeof *r);
    const char *given = getenv(NAME);
    const bool is_of_pair = bench_is_producer(b) || bench_is_consumer(b);
    r->bench = b;
    if (given != NULL && (r->nodes = strdup(given)) == NULL)
        fail("out of memory");
    MPI_Comm_split(b->roster.comm, is_of_pair ? 0 : MPI_UNDEFINED, b->roster.rank, &r->pair);
    report_note(&b->report,
                "one_us: two neighbours alone in a world of one node; us: the same in the world of all %d ranks, which "
                "has several; ratio: of the medians",
                b->roster.size);
    for (unsigned i = 0; i < b->options.block.count; i++)
        run_size(r, b->options.block.value[i]);
    if (r->pair != MPI_COMM_NULL)
        MPI_Comm_free(&r->pair);
    free(r->nodes);
    free(r);
}
