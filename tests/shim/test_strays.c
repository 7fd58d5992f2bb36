/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_strays: the rma path over an MPI in this process that refuses calls, does them late and lets requests fail. The
 * tag of whatever may still be under way is never reported as quiet; every other tag is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake_mpi.h"
#include "front/runs.h"
#include "mpi/rma.h"
#include "plan/plan.h"
#include "shim.h"
#include "with_rma.h"

#define MS UINT64_C(1000000)
#define BLOCKS 24u
#define TOKENS 16u
#define PEER 1u
#define RANKS 4u         /* all but the first have one memory */
#define RUN_BYTES 16384u /* a whole block of one layer and plane */
#define LATE (50 * MS)

static uint64_t now;
static uint8_t *pools[2];
static uint64_t pool_bytes;

static uint64_t virtual_now(void)
{
    return now;
}

static uint8_t *address(int rank, MPI_Aint at, int bytes)
{
    assert_in_range(rank, 0, RANKS - 1);
    assert_true(at >= 0 && (uint64_t)at + (uint64_t)bytes <= pool_bytes);
    return pools[rank > 0] + at;
}

/* One rank's path to the other, and a leg of all blocks. */
struct scene {
    struct settings settings;
    struct quirks quirks;
    baton_geometry_t src, dst;
    baton_tensor_t src_tensors[2], dst_tensors[2];
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor cursor;
    struct path_region region;
    struct path_regions theirs;
    struct path_leg leg;
    struct with_rma *owner;
    struct rma *rma;
};

static void geometry(baton_geometry_t *g, baton_tensor_t *tensors, unsigned layout, uint32_t head_size)
{
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "m",
                            .dtype = "u8",
                            .elem_bytes = 1,
                            .planes = 2,
                            .head_size = head_size,
                            .num_groups = 1,
                            .groups = {{.block_tokens = TOKENS, .num_blocks = BLOCKS}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 8, .head_count = 8}},
                            .layers_total = 1,
                            .layer_count = 1};
    assert_int_equal(baton_geometry_layout(g, tensors, layout), 0);
}

static struct scene *scene_create(bool write, bool sieved)
{
    static const uint32_t ids[] = {1, 4, 7, 10, 13, 16, 19, 22}; /* far enough apart for spans of their own */
    struct plan_box box = {0, 1, 0, 8, 0};
    struct plan_why why;
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_int_equal(settings_read(&s->settings, NULL), 0);
    quirks_choose(&s->quirks, "Open MPI v4.1.4", "ucx window 3", 0);
    s->settings.park_ms = 60000;
    s->settings.rma_peer_requests = 128;
    s->settings.rma_requests = 128;
    geometry(&s->src, s->src_tensors, sieved ? BATON_LAYOUT_HND : BATON_LAYOUT_NHD, sieved ? 16 : 128);
    geometry(&s->dst, s->dst_tensors, BATON_LAYOUT_NHD, sieved ? 16 : 128);
    pool_bytes = s->src.bytes;
    for (int i = 0; i < 2; i++) {
        pools[i] = malloc(pool_bytes);
        memset(pools[i], i == 0 ? 0xee : 0x11, pool_bytes);
    }
    assert_int_equal(plan_compile(&s->src, &s->dst, &box, 1, &s->plan, &why), 0);
    const struct plan_tables tables = {.num = 1, .table = {{ids, 8, 0}}};
    assert_int_equal(plan_transfer_init(&s->transfer, s->plan, 0, 8 * TOKENS, &tables, &tables, &why), 0);
    s->region = (struct path_region){0, pool_bytes, false};
    s->theirs = (struct path_regions){.num = 1, .region = &s->region};
    s->leg = (struct path_leg){PEER, write, 1, &s->transfer, &s->cursor, &s->theirs, 0};
    s->owner = with_rma_create(&s->settings, &s->quirks, 0, 2, pools[0], pool_bytes);
    s->rma = with_rma_of(s->owner);
    fake_address = address;
    shim_clock = virtual_now;
    now = 1000 * MS;
    return s;
}

static void pass(uint64_t ns)
{
    now += ns;
    shim_progress();
}

static void scene_destroy(struct scene *s)
{
    shim_set(NULL);
    for (int i = 0; i < 4; i++)
        pass(LATE);
    assert_int_equal(shim_late(), 0);
    with_rma_destroy(s->owner);
    plan_destroy(s->plan);
    free(pools[0]);
    free(pools[1]);
    fake_reset();
    free(s);
}

static void rule(enum shim_call call, enum shim_fault fault, uint32_t nth)
{
    shim_set(&(struct shim_rule){.call = call, .fault = fault, .nth = nth, .late_ns = LATE});
}

/* Moves so many runs, as one batch. */
static int64_t move(struct scene *s, uint64_t tag, uint32_t runs)
{
    s->leg.tag = tag;
    return runs_move(with_rma_net(s->owner), &s->leg, runs * RUN_BYTES);
}

/* How many events of a tag came until none came any more. */
struct came {
    uint32_t moved, failed, quiet;
};

static void count(struct came *c, const struct port_event *e)
{
    c->moved += e->kind == PORT_MOVED;
    c->failed += e->kind == PORT_MOVED && e->error != 0;
    c->quiet += e->kind == PORT_QUIET;
}

static struct came progress(struct scene *s, uint64_t tag)
{
    struct came c = {0};
    struct port_event e[64];
    for (int turn = 0; turn < 4; turn++) {
        int n = rma_progress(s->rma, e, 64);
        assert_true(n >= 0);
        for (int i = 0; i < n; i++)
            if (e[i].tag == tag)
                count(&c, &e[i]);
    }
    return c;
}

#define NEVER(s, tag) assert_int_equal(rma_park((s)->rma, PEER, tag), PATH_PARK_NEVER)
#define QUIET(s, tag) assert_int_equal(rma_park((s)->rma, PEER, tag), PATH_PARK_QUIET)

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The third of several operations is refused, and nothing is taken: the first two are still to come. */
static void refused_in_the_middle(bool write)
{
    struct scene *s = scene_create(write, false);
    rule(write ? SHIM_PUT : SHIM_GET, SHIM_FAIL, 3);
    assert_int_equal(move(s, 7, 6), BATON_EPEER);
    assert_int_equal(s->cursor.unit_done, 0);
    assert_int_equal(shim_late(), 1);
    QUIET(s, 8);
    NEVER(s, 7);
    NEVER(s, 7);
    assert_int_equal(move(s, 9, 1), BATON_EPEER);
    uint8_t *to = pools[write ? 1 : 0], before = write ? 0x11 : 0xee, after = write ? 0xee : 0x11;
    assert_null(memchr(to, after, pool_bytes));
    pass(2 * LATE);
    assert_non_null(memchr(to, after, pool_bytes)); /* which is why the tag is never quiet */
    assert_non_null(memchr(to, before, pool_bytes));
    NEVER(s, 7);
    assert_int_equal(progress(s, 7).quiet, 0);
    scene_destroy(s);
}

static void test_gets_refused_in_the_middle(void **state)
{
    (void)state;
    refused_in_the_middle(false);
}

static void test_puts_refused_in_the_middle(void **state)
{
    (void)state;
    refused_in_the_middle(true);
}

/* The last operation, which would have had the request, is refused. */
static void test_the_request_is_refused(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    rule(SHIM_RGET, SHIM_FAIL, 1);
    assert_int_equal(move(s, 7, 6), BATON_EPEER);
    NEVER(s, 7);
    scene_destroy(s);
}

static void test_refused_at_once_leaves_nothing_behind(void **state)
{
    (void)state;
    for (uint32_t runs = 1; runs <= 6; runs += 5) {
        struct scene *s = scene_create(false, false);
        rule(runs == 1 ? SHIM_RGET : SHIM_GET, SHIM_FAIL, 1);
        assert_int_equal(move(s, 7, runs), BATON_EPEER);
        assert_int_equal(shim_met(), 1);
        assert_int_equal(shim_late(), 0);
        QUIET(s, 7);
        assert_false(rma_ended(s->rma, PEER)); /* a refusal says nothing of the connection */
        scene_destroy(s);
    }
}

/* The first batch went out, the second is refused in its middle. */
static void test_refused_after_a_part_was_taken(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    rule(SHIM_GET, SHIM_FAIL, 7);
    assert_int_equal(move(s, 7, 4), 4 * RUN_BYTES);
    int64_t more = move(s, 7, 8);
    assert_int_equal(more, BATON_EPEER);
    NEVER(s, 7);
    assert_int_equal(progress(s, 7).quiet, 0); /* the first batch's request is complete by now */
    assert_int_equal(rma_open_ops(s->rma), 0);
    NEVER(s, 7);
    scene_destroy(s);
}

static void test_a_request_fails(void **state)
{
    (void)state;
    for (uint32_t runs = 1; runs <= 6; runs += 5) {
        struct scene *s = scene_create(false, false);
        rule(SHIM_RGET, SHIM_BREAK, 1);
        assert_int_equal(move(s, 7, runs), runs * RUN_BYTES);
        pass(LATE / 8);
        struct came c = progress(s, 7);
        assert_int_equal(c.failed, 1);
        assert_true(rma_ended(s->rma, PEER));
        NEVER(s, 7);
        scene_destroy(s);
    }
}

/* Each of several batches under way fails: the tags of all are kept. */
static void several_requests_fail(uint32_t n)
{
    struct scene *s = scene_create(false, false);
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_BREAK, .nth = 1, .times = n, .late_ns = LATE});
    for (uint32_t i = 0; i < n; i++) {
        s->cursor = (struct plan_cursor){0};
        assert_int_equal(move(s, 100 + i, 2), 2 * RUN_BYTES);
    }
    pass(LATE / 8);
    progress(s, 0);
    assert_int_equal(rma_open_ops(s->rma), 0);
    for (uint32_t i = 0; i < n; i++)
        NEVER(s, 100 + i);
    if (n <= RMA_STRAYS)
        QUIET(s, 99);
    else
        NEVER(s, 99); /* more than the peer keeps tags of */
    scene_destroy(s);
}

static void test_two_batches_fail(void **state)
{
    (void)state;
    several_requests_fail(2);
}

static void test_as_many_fail_as_are_kept(void **state)
{
    (void)state;
    several_requests_fail(RMA_STRAYS);
}

static void test_more_fail_than_are_kept(void **state)
{
    (void)state;
    several_requests_fail(RMA_STRAYS + 3);
}

/* A batch is given up while it is under way, and then its request fails: it is never reported as quiet. */
static void test_given_up_before_it_fails(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    rule(SHIM_RGET, SHIM_BREAK, 1);
    assert_int_equal(move(s, 7, 6), 6 * RUN_BYTES);
    assert_int_equal(rma_park(s->rma, PEER, 7), PATH_PARK_LATER);
    pass(LATE / 8);
    assert_int_equal(progress(s, 7).quiet, 0);
    NEVER(s, 7);
    scene_destroy(s);
}

/* ---- given up while it is under way ------------------------------------------------------------------------------ */

enum { TAGS = 16 };

/* What came of each tag until nothing came any more. */
static void progress_all(struct scene *s, struct came came[TAGS])
{
    struct port_event e[64];
    memset(came, 0, TAGS * sizeof came[0]);
    for (int turn = 0; turn < 8; turn++) {
        int n = rma_progress(s->rma, e, 64);
        for (int i = 0; i < n; i++) {
            assert_in_range(e[i].tag, 0, TAGS - 1);
            count(&came[e[i].tag], &e[i]);
        }
    }
}

static void assert_came(const struct came *c, uint32_t moved, uint32_t quiet)
{
    assert_int_equal(c->moved, moved);
    assert_int_equal(c->failed, 0);
    assert_int_equal(c->quiet, quiet);
}

/* Begins a batch of two runs of each tag, all of them late. So is what follows. */
static void move_late(struct scene *s, const uint64_t *tags, uint32_t n)
{
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 100, .late_ns = LATE});
    for (uint32_t i = 0; i < n; i++) {
        s->cursor = (struct plan_cursor){0};
        assert_int_equal(move(s, tags[i], 2), 2 * RUN_BYTES);
    }
}

/* Time passes by the clock that the path reads, so that what is under way is parked. */
static void until_parked(struct scene *s, uint32_t n)
{
    struct port_event e[4];
    with_rma_settings(s->owner)->park_ms = 10;
    nanosleep(&(struct timespec){.tv_nsec = 20 * MS}, NULL);
    assert_int_equal(rma_progress(s->rma, e, 4), 0);
    assert_int_equal(rma_counts(s->rma).parked, n);
}

/* Of several batches of one tag the last one makes it quiet, once; other tags go on. So it is with parked ones. */
static void given_up_under_way(bool is_parked)
{
    static const uint64_t tags[] = {7, 8, 7, 9};
    struct scene *s = scene_create(false, false);
    struct came came[TAGS];
    move_late(s, tags, 4);
    if (is_parked)
        until_parked(s, 4);
    assert_int_equal(rma_park(s->rma, PEER, 7), PATH_PARK_LATER);
    QUIET(s, 6);
    progress_all(s, came);
    assert_came(&came[7], 0, 0);
    pass(2 * LATE);
    progress_all(s, came);
    assert_came(&came[7], 0, 1);
    assert_came(&came[8], 1, 0);
    assert_came(&came[9], 1, 0);
    QUIET(s, 7);
    progress_all(s, came);
    assert_came(&came[7], 0, 0);
    assert_int_equal(rma_open_ops(s->rma), 0);
    assert_int_equal(rma_counts(s->rma).parked, 0);
    scene_destroy(s);
}

static void test_given_up_while_it_is_active(void **state)
{
    (void)state;
    given_up_under_way(false);
}

static void test_given_up_while_it_is_parked(void **state)
{
    (void)state;
    given_up_under_way(true);
}

/* What has completed and was not handed out yet is quiet at once, and nobody hears of it any more. */
static void test_given_up_once_it_has_completed(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    struct came came[TAGS];
    struct port_event none[1];
    assert_int_equal(move(s, 7, 2), 2 * RUN_BYTES);
    assert_int_equal(move(s, 8, 2), 2 * RUN_BYTES);
    assert_int_equal(rma_progress(s->rma, none, 0), 0);
    QUIET(s, 7);
    progress_all(s, came);
    assert_came(&came[7], 0, 0);
    assert_came(&came[8], 1, 0);
    scene_destroy(s);
}

/* A sieve that is filled late is emptied into nobody's blocks, and is free again. */
static void test_a_sieve_is_given_up(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, true);
    struct came came[TAGS];
    rule(SHIM_RGET, SHIM_LATE, 1);
    s->leg.tag = 7;
    assert_true(runs_move(with_rma_net(s->owner), &s->leg, s->transfer.bytes) > 0);
    assert_int_equal(rma_park(s->rma, PEER, 7), PATH_PARK_LATER);
    memset(pools[0], 0x77, pool_bytes);
    pass(2 * LATE);
    progress_all(s, came);
    assert_came(&came[7], 0, 1);
    for (uint64_t at = 0; at < pool_bytes; at++)
        assert_int_equal(pools[0][at], 0x77);
    assert_true(s->rma->sieves.num > 0);
    assert_non_null(s->rma->sieves.free);
    scene_destroy(s);
}

/* ---- generations behind the last bytes --------------------------------------------------------------------------- */

#define RUNS 16u    /* of the leg */
#define WORD 65536u /* where the peer's generation stands: any place that nothing of the leg is read from */

static uint64_t word_set(uint64_t generation)
{
    memcpy(pools[1] + WORD, &generation, sizeof generation);
    return generation;
}

/* A whole leg of one batch, whose generation is read behind it. The rule counts from its own get on. */
static struct scene *scene_with_board(enum shim_fault fault, uint32_t nth)
{
    struct scene *s = scene_create(false, false);
    s->leg.board = WORD;
    word_set(70);
    rule(SHIM_RGET, fault, nth);
    assert_int_equal(s->transfer.bytes, RUNS * RUN_BYTES);
    assert_int_equal(move(s, 7, RUNS), RUNS * RUN_BYTES);
    return s;
}

/* All events until none comes. */
static int events_of(struct scene *s, struct port_event *out)
{
    int n = 0;
    for (int turn = 0; turn < 6; turn++) {
        n += rma_progress(s->rma, out + n, 8);
    }
    assert_in_range(n, 0, 8);
    return n;
}

static void assert_moved(const struct port_event *e, uint32_t runs, uint64_t generation)
{
    assert_int_equal(e->kind, PORT_MOVED);
    assert_int_equal(e->tag, 7);
    assert_int_equal(e->error, 0);
    assert_int_equal(e->moved, runs * RUN_BYTES);
    assert_int_equal(e->runs, runs);
    assert_int_equal(e->generation, generation);
}

/* The word is read once all of the leg has landed, not behind the batch that took the last bytes. */
static void test_a_generation_comes_last(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    struct port_event e[8];
    s->leg.board = WORD;
    word_set(70);
    rule(SHIM_RGET, SHIM_LATE, 1);
    assert_int_equal(move(s, 7, 10), 10 * RUN_BYTES);
    assert_int_equal(move(s, 7, 6), 6 * RUN_BYTES);
    assert_int_equal(events_of(s, e), 1);
    assert_moved(e, 6, 0);
    assert_int_equal(shim_calls(SHIM_RGET), 2); /* no word was read yet */
    word_set(71);
    pass(2 * LATE);
    assert_int_equal(events_of(s, e), 1);
    assert_moved(e, 10, 71);
    assert_int_equal(shim_calls(SHIM_RGET), 3);
    QUIET(s, 7);
    scene_destroy(s);
}

/* Two batches that complete together; one that took all; one whose runs go through a sieve. */
static void test_a_generation_comes_once(void **state)
{
    (void)state;
    struct port_event e[8];
    struct scene *s = scene_create(false, false);
    s->leg.board = WORD;
    shim_set(NULL);
    word_set(70);
    move(s, 7, 10);
    move(s, 7, 6);
    assert_int_equal(events_of(s, e), 2);
    assert_moved(&e[0], 10, 0);
    assert_moved(&e[1], 6, 70);
    assert_int_equal(shim_calls(SHIM_RGET), 3);
    scene_destroy(s);

    s = scene_with_board(SHIM_LATE, 99);
    assert_int_equal(events_of(s, e), 1);
    assert_moved(e, RUNS, 70);
    scene_destroy(s);

    s = scene_create(false, true);
    s->leg.board = 8;
    s->leg.tag = 7;
    shim_set(NULL);
    int64_t taken = runs_move(with_rma_net(s->owner), &s->leg, s->transfer.bytes);
    assert_int_equal(taken, s->transfer.bytes);
    const int n = events_of(s, e);
    assert_in_range(n, 1, 8);
    for (int i = 0; i < n; i++)
        assert_int_equal(e[i].generation, i == n - 1 ? UINT64_C(0x1111111111111111) : 0);
    assert_non_null(s->rma->sieves.free);
    scene_destroy(s);
}

/* It was asked for none, or for one outside of the segment: the core asks, and hears that. */
static void test_no_generation(void **state)
{
    (void)state;
    static const uint64_t boards[] = {0, UINT64_MAX - 7};
    for (int i = 0; i < 2; i++) {
        struct scene *s = scene_create(false, false);
        struct port_event e[8];
        shim_set(NULL);
        s->leg.board = boards[i];
        move(s, 7, RUNS);
        assert_int_equal(events_of(s, e), 1);
        assert_moved(e, RUNS, 0);
        assert_int_equal(shim_calls(SHIM_RGET), 1);
        scene_destroy(s);
    }
}

/* No place for one more read: the core asks when there is one. */
static void test_no_room_for_a_generation(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    struct port_event e[8];
    with_rma_settings(s->owner)->rma_peer_requests = 1;
    rule(SHIM_RGET, SHIM_LATE, 1);
    assert_int_equal(rma_read(s->rma, RMA_READ, PEER, 0, 8, 8), 0);
    s->leg.board = WORD;
    word_set(70);
    assert_int_equal(move(s, 7, RUNS), RUNS * RUN_BYTES);
    assert_int_equal(events_of(s, e), 1);
    assert_moved(e, RUNS, 0);
    pass(2 * LATE);
    assert_int_equal(events_of(s, e), 1);
    assert_int_equal(e->kind, PORT_READ);
    scene_destroy(s);
}

/* The call is refused, or its request fails. The bytes have landed: nothing is a stray. */
static void test_a_generation_that_fails(void **state)
{
    (void)state;
    struct port_event e[8];
    struct scene *s = scene_with_board(SHIM_FAIL, 2);
    assert_int_equal(events_of(s, e), 1);
    assert_moved(e, RUNS, 0);
    assert_int_equal(rma_read(s->rma, RMA_WORD, PEER, WORD, sizeof(uint64_t), 7), BATON_EPEER);
    QUIET(s, 7);
    scene_destroy(s);

    s = scene_with_board(SHIM_BREAK, 2);
    pass(LATE / 8);
    assert_int_equal(events_of(s, e), 0);
    pass(LATE / 8);
    assert_int_equal(events_of(s, e), 1);
    assert_int_equal(e->kind, PORT_MOVED);
    assert_int_equal(e->error, BATON_EPEER);
    assert_int_equal(e->generation, 0);
    assert_int_equal(e->moved, RUNS * RUN_BYTES);
    QUIET(s, 7);
    scene_destroy(s);
}

/* Given up while the word is read, or while the last bytes are under way. */
static void test_a_generation_is_given_up(void **state)
{
    (void)state;
    for (uint32_t nth = 1; nth <= 2; nth++) {
        struct port_event e[8];
        struct scene *s = scene_with_board(SHIM_LATE, nth);
        assert_int_equal(events_of(s, e), 0);
        assert_int_equal(shim_calls(SHIM_RGET), nth);
        assert_int_equal(rma_park(s->rma, PEER, 7), PATH_PARK_LATER);
        assert_int_equal(events_of(s, e), 0);
        pass(2 * LATE);
        assert_int_equal(events_of(s, e), 1);
        assert_int_equal(e->kind, PORT_QUIET);
        assert_int_equal(e->tag, 7);
        assert_int_equal(shim_calls(SHIM_RGET), nth); /* none is read of what is given up */
        assert_int_equal(rma_open_ops(s->rma), 0);
        QUIET(s, 7);
        scene_destroy(s);
    }
}

/* The leg's batches do not come in time, and are parked: the word is read behind the last of them all the same. */
static void test_a_generation_of_a_silent_peer(void **state)
{
    (void)state;
    struct port_event e[8];
    struct scene *s = scene_create(false, false);
    s->leg.board = WORD;
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 100, .late_ns = LATE});
    word_set(70);
    move(s, 7, 10);
    move(s, 7, 6);
    until_parked(s, 2);
    shim_set(NULL);
    word_set(71);
    pass(2 * LATE);
    assert_int_equal(events_of(s, e), 2);
    assert_int_equal(e[0].generation, 0);
    assert_int_equal(e[1].kind, PORT_MOVED);
    assert_int_equal(e[1].generation, 71);
    scene_destroy(s);
}

/* ---- completions that MPI has lost ------------------------------------------------------------------------------- */

/* Turns until an operation was settled, or for so long. */
static void turn_until_settled(struct scene *s, uint64_t ms, struct came *all, uint64_t tag)
{
    for (uint64_t until = clock_now_ns() + ms * MS; rma_counts(s->rma).settled == 0 && clock_now_ns() < until;) {
        struct came came[TAGS];
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
        shim_progress();
        progress_all(s, came);
        all->moved += came[tag].moved;
        all->failed += came[tag].failed;
        all->quiet += came[tag].quiet;
    }
}

/* The peer answers what came later, so a flush settles the batch. Given up or not, its tag has its one event. */
static void completion_is_lost(bool is_given_up)
{
    struct scene *s = scene_create(false, false);
    struct came came = {0};
    shim_set(NULL);
    shim_lose_completions(1);
    assert_int_equal(move(s, 7, 2), 2 * RUN_BYTES);
    until_parked(s, 1);
    assert_int_equal(rma_counts(s->rma).settled, 0);
    if (is_given_up)
        assert_int_equal(rma_park(s->rma, PEER, 7), PATH_PARK_LATER);
    turn_until_settled(s, 5000, &came, 7);
    assert_int_equal(rma_counts(s->rma).settled, 1);
    assert_came(&came, !is_given_up, is_given_up);
    assert_int_equal(rma_counts(s->rma).parked, 0);
    assert_int_equal(shim_calls(SHIM_FLUSH), 1);
    QUIET(s, 7);
    s->cursor = (struct plan_cursor){0};
    assert_int_equal(move(s, 8, 2), 2 * RUN_BYTES); /* the peer is itself again */
    assert_int_equal(progress(s, 8).moved, 1);
    scene_destroy(s);
}

static void test_a_completion_is_lost(void **state)
{
    (void)state;
    completion_is_lost(false);
}

static void test_a_completion_is_lost_and_given_up(void **state)
{
    (void)state;
    completion_is_lost(true);
}

/* A peer that answers nothing may be slow: nothing is settled. */
static void test_nothing_is_settled_of_a_silent_peer(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    struct came came = {0};
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 100, .late_ns = LATE});
    shim_lose_completions(1);
    assert_int_equal(move(s, 7, 2), 2 * RUN_BYTES);
    until_parked(s, 1);
    turn_until_settled(s, 100, &came, 7);
    assert_int_equal(rma_counts(s->rma).settled, 0);
    assert_came(&came, 0, 0);
    assert_int_equal(shim_calls(SHIM_FLUSH), 0);
    shim_set(NULL); /* it answers after all */
    pass(2 * LATE);
    turn_until_settled(s, 5000, &came, 7);
    assert_int_equal(rma_counts(s->rma).settled, 1);
    assert_came(&came, 1, 0);
    scene_destroy(s);
}

/* ---- flushes ----------------------------------------------------------------------------------------------------- */

enum { BATCH = 3 }; /* runs of a batch, which count as one operation more, for its request */

/* MPI flushes by itself after 80 operations: a peer is due at 10, or at a large share of 20 that all have together. */
static struct scene *scene_that_flushes(void)
{
    struct scene *s = scene_create(false, false);
    with_rma_destroy(s->owner);
    s->quirks.flush_within = 80;
    s->quirks.per_request = BATCH;
    s->owner = with_rma_create(&s->settings, &s->quirks, 0, RANKS, pools[0], pool_bytes);
    s->rma = with_rma_of(s->owner);
    shim_set(NULL);
    return s;
}

static void assert_flushes(const struct scene *s, uint32_t n)
{
    assert_int_equal(rma_counts(s->rma).flushes, n);
    assert_int_equal(shim_calls(SHIM_FLUSH), n);
}

/* Operations since the last flush: of a peer, of all peers, and how many peers have some. */
static void assert_unflushed(const struct scene *s, uint32_t peer, uint64_t of_peer, uint64_t of_all,
                             uint64_t num_peers)
{
    const struct rma_peers *p = &s->rma->peers;
    assert_int_equal(p->by_rank[peer]->unflushed, of_peer);
    assert_int_equal(p->unflushed, of_all);
    assert_int_equal(p->num_unflushed, num_peers);
}

/* Once a peer is due nothing is begun, and the end of what is open flushes it: MPI never comes to do so by itself. */
static void test_flushes_before_mpi_does(void **state)
{
    (void)state;
    struct scene *s = scene_that_flushes();
    for (uint32_t round = 1; round <= 20; round++) {
        s->cursor = (struct plan_cursor){0};
        assert_int_equal(move(s, 7, 5 * BATCH), 3 * BATCH * RUN_BYTES);
        assert_int_equal(move(s, 7, 1), BATON_EAGAIN);
        assert_unflushed(s, PEER, 3 * (BATCH + 1), 3 * (BATCH + 1), 1);
        assert_flushes(s, round - 1);
        assert_int_equal(progress(s, 7).moved, 3);
        assert_unflushed(s, PEER, 0, 0, 0);
        assert_flushes(s, round);
    }
    scene_destroy(s);
}

/* A peer that is not due goes on without a flush, whatever has ended. */
static void test_no_flush_before_it_is_due(void **state)
{
    (void)state;
    struct scene *s = scene_that_flushes();
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(move(s, 7, BATCH), BATCH * RUN_BYTES);
        assert_int_equal(progress(s, 7).moved, 1);
        assert_flushes(s, 0);
    }
    assert_unflushed(s, PEER, 8, 8, 1);
    assert_int_equal(rma_read(s->rma, RMA_READ, PEER, 0, 8, 8), 0); /* counts as two */
    assert_unflushed(s, PEER, 10, 10, 1);
    progress(s, 8);
    assert_flushes(s, 1);
    scene_destroy(s);
}

/* A flush would wait for what is late, a batch and a read. It comes when both have ended, once. */
static void test_no_flush_beside_what_is_open(void **state)
{
    (void)state;
    struct scene *s = scene_that_flushes();
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 2, .late_ns = LATE});
    assert_int_equal(move(s, 7, BATCH), BATCH * RUN_BYTES);
    assert_int_equal(rma_read(s->rma, RMA_READ, PEER, 0, 8, 8), 0);
    assert_int_equal(move(s, 9, 5), BATCH * RUN_BYTES);
    assert_unflushed(s, PEER, 10, 10, 1);
    assert_int_equal(progress(s, 9).moved, 1); /* that one is not late */
    assert_int_equal(move(s, 9, BATCH), BATON_EAGAIN);
    assert_int_equal(rma_read(s->rma, RMA_READ, PEER, 0, 8, 10), BATON_EAGAIN);
    assert_int_equal(progress(s, 9).moved, 0);
    assert_flushes(s, 0);
    assert_int_equal(shim_late(), 2);
    pass(2 * LATE);
    assert_int_equal(progress(s, 7).moved, 1);
    assert_flushes(s, 1);
    assert_unflushed(s, PEER, 0, 0, 0);
    assert_int_equal(move(s, 9, BATCH), BATCH * RUN_BYTES);
    scene_destroy(s);
}

/* A peer may become due by what others do, while nothing of its own is open: it goes on, and then is flushed. */
static void test_a_flush_that_others_make_due(void **state)
{
    (void)state;
    struct scene *s = scene_that_flushes();
    for (s->leg.peer = 1; s->leg.peer <= 2; s->leg.peer++) {
        s->cursor = (struct plan_cursor){0};
        assert_int_equal(move(s, 7, 2 * BATCH), 2 * BATCH * RUN_BYTES);
        assert_int_equal(progress(s, 7).moved, 2);
        assert_unflushed(s, s->leg.peer, 8, 8 * s->leg.peer, s->leg.peer);
    }
    rule(SHIM_RGET, SHIM_LATE, 1);
    s->cursor = (struct plan_cursor){0};
    s->leg.peer = 3;
    assert_int_equal(move(s, 8, BATCH), BATCH * RUN_BYTES);
    assert_unflushed(s, 3, 4, 20, 3);
    s->leg.peer = 1;
    assert_int_equal(move(s, 7, 2 * BATCH), BATCH * RUN_BYTES);
    assert_int_equal(progress(s, 7).moved, 1);
    assert_flushes(s, 1);
    assert_unflushed(s, 1, 0, 12, 2);
    pass(2 * LATE);
    assert_int_equal(progress(s, 8).moved, 1);
    assert_flushes(s, 1);                      /* together they are not due any more */
    for (uint32_t peer = 1; peer <= 3; peer++) /* the first one has nothing to be flushed */
        assert_int_equal(rma_peer_flush(&s->rma->peers, s->rma->peers.by_rank[peer]), 0);
    assert_flushes(s, 4);
    assert_unflushed(s, 1, 0, 0, 0);
    scene_destroy(s);
}

/* A flush that is refused is none, and nothing more goes to that peer. */
static void test_a_refused_flush(void **state)
{
    (void)state;
    struct scene *s = scene_that_flushes();
    rule(SHIM_FLUSH, SHIM_FAIL, 1);
    assert_int_equal(move(s, 7, 5 * BATCH), 3 * BATCH * RUN_BYTES);
    struct came c = progress(s, 7);
    assert_came(&c, 3, 0); /* it had ended before */
    assert_int_equal(shim_calls(SHIM_FLUSH), 1);
    assert_int_equal(rma_counts(s->rma).flushes, 0);
    assert_int_equal(rma_counts(s->rma).poisonings, 1);
    assert_int_equal(move(s, 7, 1), BATON_EPEER);
    scene_destroy(s);
}

/* ---- slow peers -------------------------------------------------------------------------------------------------- */

/*
 * A peer whose requests always take longer than park_ms is overdue until the path has learned that; later only
 * where a request takes four times as long. The path reads the real clock.
 */
static void test_a_slow_peer_is_not_overdue(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    struct settings *set = with_rma_settings(s->owner);
    struct port_event e[4];
    set->park_ms = 10;
    shim_set(&(struct shim_rule){.call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 100, .late_ns = LATE});
    for (unsigned i = 0; i < 4; i++) {
        uint64_t begin = clock_now_ns();
        assert_int_equal(move(s, 7, 2), 2 * RUN_BYTES);
        const struct rma_peer *p = s->rma->peers.by_rank[PEER];
        uint64_t patience = patience_ns(&p->patience, set);
        nanosleep(&(struct timespec){.tv_nsec = 40 * MS}, NULL);
        assert_int_equal(rma_progress(s->rma, e, 4), 0);
        if (clock_now_ns() - begin < patience) /* else this machine itself was slow */
            assert_false(p->is_overdue);
        if (i == 0)
            assert_true(p->is_overdue);
        pass(LATE);
        assert_int_equal(progress(s, 7).moved, 1);
        assert_false(p->is_overdue);
        assert_in_range(patience_ns(&p->patience, set), 4 * 40 * MS, 5000 * MS);
    }
    uint64_t begin = clock_now_ns(), patience = patience_ns(&s->rma->peers.by_rank[PEER]->patience, set);
    assert_int_equal(move(s, 8, 2), 2 * RUN_BYTES);
    while (clock_now_ns() - begin < patience + 10 * MS)
        nanosleep(&(struct timespec){.tv_nsec = 10 * MS}, NULL);
    assert_int_equal(rma_progress(s->rma, e, 4), 0);
    assert_true(s->rma->peers.by_rank[PEER]->is_overdue);
    assert_int_equal(move(s, 8, 2), BATON_EAGAIN);
    scene_destroy(s);
}

/* ---- sieves ------------------------------------------------------------------------------------------------------ */

/* What comes late comes into a sieve that is never used again: no block is touched. */
static void test_a_sieve_keeps_strays_from_the_blocks(void **state)
{
    (void)state;
    static const enum shim_fault faults[] = {SHIM_FAIL, SHIM_BREAK};
    for (int i = 0; i < 2; i++) {
        struct scene *s = scene_create(false, true);
        rule(i == 0 ? SHIM_GET : SHIM_RGET, faults[i], i == 0 ? 2 : 1);
        s->leg.tag = 7;
        int64_t taken = runs_move(with_rma_net(s->owner), &s->leg, s->transfer.bytes);
        assert_int_equal(shim_met(), 1);
        assert_true(i == 0 ? taken == BATON_EPEER : taken > 0);
        pass(LATE / 8);
        progress(s, 7);
        assert_true(s->rma->sieves.num > 0);
        assert_null(s->rma->sieves.free); /* never used again */
        QUIET(s, 7);
        assert_int_equal(shim_late(), 1);
        memset(pools[0], 0x77, pool_bytes);
        pass(2 * LATE);
        for (uint64_t at = 0; at < pool_bytes; at++)
            assert_int_equal(pools[0][at], 0x77);
        scene_destroy(s);
    }
}

/* A get that is refused at once leaves its sieve free. A packed put that fails may still land at the peer. */
static void test_sieves_of_what_never_began_and_of_puts(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, true);
    rule(SHIM_GET, SHIM_FAIL, 1);
    s->leg.tag = 7;
    assert_int_equal(runs_move(with_rma_net(s->owner), &s->leg, s->transfer.bytes), BATON_EPEER);
    assert_non_null(s->rma->sieves.free);
    QUIET(s, 7);
    scene_destroy(s);

    s = scene_create(true, true);
    rule(SHIM_RPUT, SHIM_BREAK, 1);
    s->leg.tag = 7;
    assert_true(runs_move(with_rma_net(s->owner), &s->leg, s->transfer.bytes) > 0);
    pass(LATE / 8);
    progress(s, 7);
    NEVER(s, 7);
    assert_null(s->rma->sieves.free);
    scene_destroy(s);
}

/* ---- whether the connection has ended ---------------------------------------------------------------------------- */

static void test_a_probe_tells_the_end(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    rule(SHIM_RGET, SHIM_BREAK, 1);
    assert_false(rma_ended(s->rma, PEER));
    assert_int_equal(shim_calls(SHIM_RGET), 1);
    assert_false(rma_ended(s->rma, PEER)); /* one probe at a time */
    assert_int_equal(shim_calls(SHIM_RGET), 1);
    pass(LATE / 8);
    progress(s, 0);
    assert_true(rma_ended(s->rma, PEER));
    assert_true(rma_ended(s->rma, PEER));
    assert_int_equal(shim_calls(SHIM_RGET), 1);
    assert_false(rma_ended(s->rma, 2)); /* no such rank */
    scene_destroy(s);
}

/* Probes that are answered leave room for more, however many there are. */
static void test_probes_are_answered(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    with_rma_settings(s->owner)->park_ms = 0; /* a probe each time */
    shim_set(&(struct shim_rule){.call = SHIM_PUT});
    for (uint32_t i = 1; i <= 5000; i++) {
        assert_false(rma_ended(s->rma, PEER));
        assert_int_equal(shim_calls(SHIM_RGET), i);
        progress(s, 0);
    }
    scene_destroy(s);
}

static void test_no_probe_where_it_may_hold(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    quirks_choose(&s->quirks, "Open MPI v4.1.4", "rdma window 3", 0);
    shim_set(NULL);
    assert_false(rma_ended(s->rma, PEER));
    assert_int_equal(shim_calls(SHIM_RGET), 0);
    scene_destroy(s);
}

static void test_no_probe_to_the_poisoned(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    rule(SHIM_GET, SHIM_FAIL, 1);
    assert_int_equal(move(s, 7, 6), BATON_EPEER);
    assert_false(rma_ended(s->rma, PEER));
    assert_int_equal(shim_calls(SHIM_RGET), 0);
    scene_destroy(s);
}

/* Open requests, those of silent peers included, stay below what MPI bears. */
static void test_bounds_all_open_requests(void **state)
{
    (void)state;
    struct scene *s = scene_create(false, false);
    with_rma_destroy(s->owner);
    quirks_choose(&s->quirks, "Open MPI v5.0.7", "ucx window 3", 0);
    s->owner = with_rma_create(&s->settings, &s->quirks, 0, 2, pools[0], pool_bytes);
    s->rma = with_rma_of(s->owner);
    assert_int_equal(s->rma->requests.parked_limit, 254 - 128 - RMA_READS);
    scene_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gets_refused_in_the_middle),
        cmocka_unit_test(test_puts_refused_in_the_middle),
        cmocka_unit_test(test_the_request_is_refused),
        cmocka_unit_test(test_refused_at_once_leaves_nothing_behind),
        cmocka_unit_test(test_refused_after_a_part_was_taken),
        cmocka_unit_test(test_a_request_fails),
        cmocka_unit_test(test_two_batches_fail),
        cmocka_unit_test(test_as_many_fail_as_are_kept),
        cmocka_unit_test(test_more_fail_than_are_kept),
        cmocka_unit_test(test_given_up_before_it_fails),
        cmocka_unit_test(test_given_up_while_it_is_active),
        cmocka_unit_test(test_given_up_while_it_is_parked),
        cmocka_unit_test(test_given_up_once_it_has_completed),
        cmocka_unit_test(test_a_sieve_is_given_up),
        cmocka_unit_test(test_a_generation_comes_last),
        cmocka_unit_test(test_a_generation_comes_once),
        cmocka_unit_test(test_no_generation),
        cmocka_unit_test(test_no_room_for_a_generation),
        cmocka_unit_test(test_a_generation_that_fails),
        cmocka_unit_test(test_a_generation_is_given_up),
        cmocka_unit_test(test_a_generation_of_a_silent_peer),
        cmocka_unit_test(test_a_completion_is_lost),
        cmocka_unit_test(test_a_completion_is_lost_and_given_up),
        cmocka_unit_test(test_nothing_is_settled_of_a_silent_peer),
        cmocka_unit_test(test_flushes_before_mpi_does),
        cmocka_unit_test(test_no_flush_before_it_is_due),
        cmocka_unit_test(test_no_flush_beside_what_is_open),
        cmocka_unit_test(test_a_flush_that_others_make_due),
        cmocka_unit_test(test_a_refused_flush),
        cmocka_unit_test(test_a_slow_peer_is_not_overdue),
        cmocka_unit_test(test_a_sieve_keeps_strays_from_the_blocks),
        cmocka_unit_test(test_sieves_of_what_never_began_and_of_puts),
        cmocka_unit_test(test_a_probe_tells_the_end),
        cmocka_unit_test(test_probes_are_answered),
        cmocka_unit_test(test_no_probe_where_it_may_hold),
        cmocka_unit_test(test_no_probe_to_the_poisoned),
        cmocka_unit_test(test_bounds_all_open_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
