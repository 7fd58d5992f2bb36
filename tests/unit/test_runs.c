/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runs: a leg's plan as the runs that a net is handed. The net here takes as much as each test says, and copies it at
 * once.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "front/runs.h"
#include "plan/plan.h"
#include "with_geometry.h"

#define BLOCKS 40u
#define HEAD 32u /* bytes of one token's entry in one head */
#define HEADS 8u

/* Of `heads` heads from `head_first` on; one layer, planes apart. */
struct cache {
    baton_geometry_t g;
    baton_tensor_t tensors[1];
};

static void cache_init(struct cache *c, unsigned layout, uint32_t block_tokens, uint32_t head_first, uint32_t heads)
{
    c->g = small_geometry(block_tokens, BLOCKS);
    memcpy(c->g.dtype, "u8", sizeof "u8");
    c->g.elem_bytes = 1;
    c->g.head_size = HEAD;
    c->g.splits[0] = (baton_split_t){.heads_total = HEADS, .head_first = head_first, .head_count = heads};
    assert_int_equal(baton_geometry_layout(&c->g, c->tensors, layout), 0);
}

/* A net, and the leg that it moves. */
static struct {
    struct net net;
    struct cache src, dst;
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor cursor;
    struct path_regions theirs;
    struct path_leg leg;
    uint8_t *from, *to, *right;

    int room;            /* what the net answers */
    int64_t most, error; /* the bytes that it takes of one move; 0: all. An error: instead */
    uint32_t calls, lists, runs, pieces;
    uint64_t board;                /* of the last move */
    struct net_run last[NET_RUNS]; /* of the last move */
} it;

static int room(void *self, uint32_t peer)
{
    (void)self;
    assert_int_equal(peer, 3);
    return it.room;
}

static int64_t move(void *self, const struct net_move *m)
{
    (void)self;
    int64_t taken = 0, pieces = 0;
    it.calls++;
    assert_int_equal(m->peer, 3);
    assert_int_equal(m->tag, 77);
    assert_true(m->write);
    assert_ptr_equal(m->theirs, &it.theirs);
    assert_in_range(m->num_runs, 1, it.room < (int)NET_RUNS ? it.room : (int)NET_RUNS);
    if (it.error != 0)
        return it.error;
    it.lists++;
    it.board = m->board;
    it.runs += m->num_runs;
    memcpy(it.last, m->runs, m->num_runs * sizeof it.last[0]);
    for (const struct net_run *r = m->runs; r < m->runs + m->num_runs; r++) {
        assert_in_range(r->count, 1, UINT32_MAX);
        assert_in_range(r->bytes, 1, UINT64_MAX);
        pieces += r->count;
        for (uint32_t k = 0; k < r->count && (it.most == 0 || taken < it.most); k++) {
            uint64_t bytes = r->bytes, left = (uint64_t)(it.most - taken);
            if (it.most != 0 && bytes > left)
                bytes = left;
            memcpy(it.to + r->to + k * (uint64_t)r->to_step, it.from + r->from + k * (uint64_t)r->from_step, bytes);
            taken += (int64_t)bytes;
        }
    }
    it.pieces += (uint32_t)pieces;
    assert_in_range(pieces, 1, 600); /* no more are made than a net may want at a time */
    return taken;
}

static void begin(uint32_t tokens, const uint32_t *from, const uint32_t *to)
{
    struct plan_box box = {0, 1, it.dst.g.splits[0].head_first, it.dst.g.splits[0].head_count, 0};
    struct plan_why why;
    const struct plan_tables src = {.num = 1, .table = {{from, BLOCKS, 0}}},
                             dst = {.num = 1, .table = {{to, BLOCKS, 0}}};
    assert_int_equal(plan_compile(&it.src.g, &it.dst.g, &box, 1, &it.plan, &why), 0);
    assert_int_equal(plan_transfer_init(&it.transfer, it.plan, 0, tokens, &src, &dst, &why), 0);
    it.net = (struct net){.room = room, .move = move};
    it.leg = (struct path_leg){3, true, 77, &it.transfer, &it.cursor, &it.theirs, 0};
    it.room = NET_RUNS;
    it.from = malloc(it.src.g.bytes);
    it.to = calloc(1, it.dst.g.bytes);
    it.right = calloc(1, it.dst.g.bytes);
    for (uint64_t i = 0; i < it.src.g.bytes; i++)
        it.from[i] = (uint8_t)(1 + i * 31 % 251);
    struct plan_cursor at = {0};
    for (struct plan_run r; plan_next(&it.transfer, &at, &r, 1, UINT64_MAX) == 1;)
        memcpy(it.right + r.dst, it.from + r.src, r.bytes);
}

static void end(void)
{
    assert_true(plan_at_end(&it.transfer, &it.cursor));
    assert_memory_equal(it.to, it.right, it.dst.g.bytes);
    plan_destroy(it.plan);
    free(it.from);
    free(it.to);
    free(it.right);
    memset(&it, 0, sizeof it);
}

static const uint32_t far_apart[BLOCKS] = {1, 4, 7, 10, 13, 16, 19, 22, 25, 28}; /* the rest is not asked for */
static const uint32_t elsewhere[BLOCKS] = {30, 27, 24, 21, 18, 15, 12, 9, 6, 3};

/* Half of the heads of each token: a run is a block's tokens, however many pieces these are. */
static void test_tokens_of_a_block_are_one_run(void **state)
{
    (void)state;
    cache_init(&it.src, BATON_LAYOUT_NHD, 16, 0, HEADS);
    cache_init(&it.dst, BATON_LAYOUT_NHD, 16, 4, HEADS / 2);
    begin(16 + 5, far_apart, elsewhere);
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), it.transfer.bytes);
    assert_int_equal(it.lists, 1);
    assert_int_equal(it.runs, 2 * 2);
    const struct net_run *r = &it.last[0];
    const uint64_t of_token = HEAD * HEADS, block = 16 * of_token;
    assert_int_equal(r->bytes, of_token / 2);
    assert_int_equal(r->count, 16);
    assert_int_equal(r->from, 1 * block + of_token / 2);
    assert_int_equal(r->from_step, of_token);
    assert_int_equal(r->to, 30 * block / 2);
    assert_int_equal(r->to_step, of_token / 2);
    assert_int_equal(it.last[1].count, 16); /* the other plane */
    assert_int_equal(it.last[2].count, 5);
    end();
}

/* Steps may go down, and on from block to block. What touches is merged, and then steps no more. */
static void test_blocks_at_equal_steps_are_one_run(void **state)
{
    (void)state;
    static const int64_t block = 2 * 16 * HEAD * HEADS;
    cache_init(&it.src, BATON_LAYOUT_KV_BLOCK, 16, 0, HEADS);
    cache_init(&it.dst, BATON_LAYOUT_KV_BLOCK, 16, 0, HEADS);
    begin(10 * 16, far_apart, elsewhere);
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), it.transfer.bytes);
    assert_int_equal(it.runs, 1);
    assert_int_equal(it.last[0].count, 10);
    assert_int_equal(it.last[0].from_step, 3 * block);
    assert_int_equal(it.last[0].to_step, -3 * block);
    end();

    static const uint32_t from[BLOCKS] = {5, 8, 9, 10, 20}, to[BLOCKS] = {1, 4, 5, 6, 30};
    cache_init(&it.src, BATON_LAYOUT_KV_BLOCK, 16, 0, HEADS);
    cache_init(&it.dst, BATON_LAYOUT_KV_BLOCK, 16, 0, HEADS);
    begin(5 * 16, from, to);
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), it.transfer.bytes);
    assert_int_equal(it.runs, 3);
    assert_int_equal(it.last[1].count, 1);
    assert_int_equal(it.last[1].bytes, 3 * block);
    end();
}

/* The net takes any part, of lists of any length: every byte moves, once and in its order. */
static void test_the_cursor_follows_what_is_taken(void **state)
{
    (void)state;
    static const unsigned layouts[] = {BATON_LAYOUT_NHD, BATON_LAYOUT_HND, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED};
    static const int64_t mosts[] = {1, 31, 100, 1000, 4097, 0};
    static const int rooms[] = {1, 2, 7, NET_RUNS};
    for (unsigned i = 0; i < 3 * 3 * 6 * 4; i++) {
        cache_init(&it.src, layouts[i % 3], 16, 0, HEADS);
        cache_init(&it.dst, layouts[i / 3 % 3], i % 2 ? 16 : 4, 2, 3);
        begin(39, far_apart, elsewhere);
        it.most = mosts[i / 9 % 6];
        it.room = rooms[i / 54];
        int64_t taken = 0, more;
        while ((more = runs_move(&it.net, &it.leg, 1500)) > 0) {
            assert_in_range(more, 1, 1500);
            taken += more;
        }
        assert_int_equal(more, 0);
        assert_int_equal(taken, it.transfer.bytes);
        end();
    }
}

/* The generation is to be read behind the last run alone, however many lists there are. */
static void test_the_last_runs_carry_the_board(void **state)
{
    (void)state;
    static const int rooms[] = {1, 3, 19, 20, NET_RUNS};
    for (unsigned i = 0; i < 5 * 2; i++) {
        cache_init(&it.src, BATON_LAYOUT_HND, 16, 0, HEADS);
        cache_init(&it.dst, BATON_LAYOUT_NHD, 16, 0, HEADS);
        begin(160, far_apart, elsewhere);
        it.room = rooms[i / 2];
        it.most = i % 2 ? 5000 : 0;
        it.leg.board = 4096;
        while (runs_move(&it.net, &it.leg, 20000) > 0) {
            struct plan_cursor at = it.cursor;
            const bool ends = plan_at_end(&it.transfer, &at);
            if (ends)
                assert_int_equal(it.board, 4096);
            else if (it.most == 0)
                assert_int_equal(it.board, 0);
        }
        assert_int_equal(it.board, 4096);
        end();
    }
}

/* A leg of which no two pieces lie together on both sides. */
static void begin_short_pieces(void)
{
    cache_init(&it.src, BATON_LAYOUT_HND, 16, 0, HEADS);
    cache_init(&it.dst, BATON_LAYOUT_NHD, 16, 0, HEADS);
    begin(160, far_apart, elsewhere);
}

/* An error comes back at once where nothing was taken, else at the next call. */
static void test_errors(void **state)
{
    (void)state;
    begin_short_pieces();
    it.room = BATON_EAGAIN;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EAGAIN);
    it.room = BATON_EPEER;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EPEER);
    assert_int_equal(it.calls, 0); /* and no run was made */
    it.room = 8;
    it.error = BATON_EMESSAGE;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EMESSAGE);
    assert_int_equal(it.cursor.unit_done, 0);
    it.error = 0;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), 4096);
    assert_int_equal(runs_move(&it.net, &it.leg, 0), 0);
    while (runs_move(&it.net, &it.leg, 4096) > 0)
        ;
    end();
}

static int64_t refuse_the_second(void *self, const struct net_move *m)
{
    return it.lists == 0 ? move(self, m) : BATON_EPEER;
}

static void test_an_error_behind_what_was_taken(void **state)
{
    (void)state;
    begin_short_pieces();
    it.most = 1000;
    it.net.move = refuse_the_second;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), 1000);
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EPEER);
    it.net.move = move;
    it.most = 0;
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), it.transfer.bytes - 1000);
    end();
}

/* A net's answers are checked: it may be another process. */
static void test_a_net_that_answers_nonsense(void **state)
{
    (void)state;
    begin_short_pieces();
    it.room = 0;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EAGAIN); /* else it would be asked for ever */
    it.room = INT_MAX;
    it.error = 4097;
    assert_int_equal(runs_move(&it.net, &it.leg, 4096), BATON_EMESSAGE);
    assert_int_equal(it.cursor.unit_done, 0);
    it.room = 1; /* the transfer has more than one run */
    it.error = (int64_t)it.transfer.bytes;
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), BATON_EMESSAGE);
    assert_memory_equal(&it.cursor, &(struct plan_cursor){0}, sizeof it.cursor);
    it.error = 0;
    it.room = INT_MAX;
    assert_int_equal(runs_move(&it.net, &it.leg, UINT64_MAX), it.transfer.bytes);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_net_that_answers_nonsense),
                                       cmocka_unit_test(test_tokens_of_a_block_are_one_run),
                                       cmocka_unit_test(test_blocks_at_equal_steps_are_one_run),
                                       cmocka_unit_test(test_the_cursor_follows_what_is_taken),
                                       cmocka_unit_test(test_the_last_runs_carry_the_board),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_an_error_behind_what_was_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
