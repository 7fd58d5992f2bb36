/* SPDX-License-Identifier: BSD-3-Clause */
/* A port with faults around it: each call reaches the port below as it was made; pulls are spoilt where they land. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "fault/fault.h"
#include "with_fakes.h"

#define RANKS 4

/* ---- the port below ---------------------------------------------------------------------------------------------- */

static struct fakes below;

static void fill(void)
{
    fakes_init(&below);
    below.says.send = 11;
    below.says.alive = PORT_DEAD;
    below.says.sum = 12;
    below.says.zero = 13;
    below.says.read = 14;
    below.says.board = 15;
    below.says.move = 16;
    below.says.settle = 17;
    below.says.park = PATH_PARK_NEVER;
    below.says.ended = true;
    below.says.progress = 1;
    below.event = (struct port_event){.kind = PORT_QUIET, .tag = 18};
    below.says.bind = 19;
    below.word = (struct handoff_word){HANDOFF_FAILED, 20, 21};
    below.says.told = true;
    below.slot = 22;
    below.says.take = HANDOFF_TAKEN;
    below.grant.slot = 23;
    below.says.hold = true;
    below.says.why = true;
    below.reason = 24;
    below.sum = 77;
}

static struct faults *make(const char *text, char *const *bases, bool has_words)
{
    struct faults *f;
    fill();
    assert_int_equal(faults_create(text, 0, &below.port, RANKS, bases, has_words, &f), 0);
    return f;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void test_calls_reach_the_port(void **state)
{
    (void)state;
    struct faults *f = make("drop@send.CANCEL#9", NULL, true); /* which none of these is */
    const struct port *p = faults_port(f);
    struct plan_cursor at = {0};
    const struct path_leg leg = {.peer = 1, .write = true, .tag = 2, .cursor = &at};
    struct port_event events[4];
    uint64_t sum = 0;
    assert_int_equal(p->send(p->self, 3, "text", 4), 11);
    assert_called("send 3 4");
    assert_memory_equal(below.message[0].data, "text", 4);
    p->raise(p->self, 5, 6, true);
    assert_called("raise 5 6 1");
    assert_int_equal(p->alive(p->self, 2), PORT_DEAD);
    assert_called("alive 2");
    assert_int_equal(p->sum(p->self, NULL, true, 1, 2, &sum, 3), 12);
    assert_int_equal(sum, 77);
    assert_called("sum 0 1 1 2 3");
    assert_int_equal(p->zero(p->self, NULL, 4), 13);
    assert_called("zero 0 4");
    assert_int_equal(p->path.read(p->path.self, 1, 2, 3, 4), 14);
    assert_called("read 1 2 3 4");
    assert_int_equal(p->path.board(p->path.self, 1, 2, 3), 15);
    assert_called("board 1 2 3");
    assert_int_equal(p->path.move(p->path.self, &leg, 99), 16);
    assert_called("move 1 2 99 1");
    below.says.move = BATON_EAGAIN;
    assert_int_equal(p->path.move(p->path.self, &leg, 0), BATON_EAGAIN);
    assert_called("move 1 2 0 1");
    assert_int_equal(p->path.settle(p->path.self, 1, 2), 17);
    assert_called("settle 1 2");
    assert_int_equal(p->path.park(p->path.self, 1, 2), PATH_PARK_NEVER);
    assert_called("park 1 2");
    assert_true(p->path.ended(p->path.self, 1));
    assert_called("ended 1");
    assert_int_equal(p->path.progress(p->path.self, events, 4), 1);
    assert_int_equal(events[0].tag, 18);
    assert_called("progress 4");
    for (int i = 0; i < 2; i++) {
        below.says.busy = i;
        assert_int_equal(p->path.busy(p->path.self), i == 1);
        assert_called("busy");
    }
    faults_destroy(f);
}

static void test_words_reach_the_port(void **state)
{
    (void)state;
    struct faults *f = make("drop@send.CANCEL#9", NULL, true);
    const struct port_handoff *p = faults_port(f)->handoff;
    const struct handoff_offer offer = {.num_tokens = 3};
    const struct handoff_want want = {.engine = 2};
    struct handoff_grant grant = {0};
    const uint64_t seat = 4;
    uint32_t slot = 0;
    int error = 0;
    p->write(p->self, 1, 2, &offer, &seat, 1);
    assert_called("write 1 2 3 4 1");
    p->enter(p->self, 1);
    assert_called("enter 1");
    p->say_why(p->self, 1, 2, 3);
    assert_called("say_why 1 2 3");
    p->leave(p->self, 1);
    assert_called("leave_slot 1");
    assert_int_equal(p->bind(p->self, 1, 2, 3), 19);
    assert_called("bind 1 2 3");
    const struct handoff_word word = p->word(p->self, 1, 2, 3);
    assert_int_equal(word.state, HANDOFF_FAILED);
    assert_int_equal(word.error, 20);
    assert_int_equal(word.left_ms, 21);
    assert_called("word 1 2 3");
    assert_true(p->told(p->self, &slot));
    assert_int_equal(slot, 22);
    assert_called("told");
    assert_int_equal(p->take(p->self, 1, &want, &grant), HANDOFF_TAKEN);
    assert_int_equal(grant.slot, 23);
    assert_called("take 1 2");
    assert_true(p->hold(p->self, 1, 2, 3, 4));
    assert_called("hold 1 2 3 4");
    p->give_back(p->self, 1, 2, 3, 4);
    assert_called("give_back 1 2 3 4");
    assert_true(p->why(p->self, 1, 2, 3, &error));
    assert_int_equal(error, 24);
    assert_called("why 1 2 3");
    faults_destroy(f);
    f = make("drop@send.CANCEL#9", NULL, false);
    assert_null(faults_port(f)->handoff);
    faults_destroy(f);
}

/* ---- pulls that are spoilt --------------------------------------------------------------------------------------- */

enum { BLOCKS = 4, SPOILT_MOST = 64 };

static struct {
    baton_geometry_t g;
    baton_tensor_t tensor;
    struct plan *plan;
    struct plan_transfer transfer;
    uint32_t ids[BLOCKS];
    char pool[2 * BLOCKS * 8 * 64 * 2], was[2 * BLOCKS * 8 * 64 * 2];
    char *bases[1];
} cache;

static void cache_make(void)
{
    struct plan_why why;
    struct plan_box all = {0, 1, 0, 1, 0};
    cache.g = (baton_geometry_t){.size = sizeof cache.g,
                                 .elem_bytes = 2,
                                 .planes = 2,
                                 .head_size = 64,
                                 .num_groups = 1,
                                 .groups = {{.block_tokens = 8, .num_blocks = BLOCKS}},
                                 .num_splits = 1,
                                 .splits = {{.heads_total = 1, .head_count = 1}},
                                 .layers_total = 1,
                                 .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&cache.g, &cache.tensor, BATON_LAYOUT_HND), 0);
    assert_int_equal(cache.g.bytes, sizeof cache.pool);
    assert_int_equal(plan_compile(&cache.g, &cache.g, &all, 1, &cache.plan, &why), 0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        cache.ids[i] = i;
    const struct plan_tables tables = {.num = 1, .table = {{cache.ids, BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&cache.transfer, cache.plan, 0, 8 * BLOCKS, &tables, &tables, &why), 0);
    for (size_t i = 0; i < sizeof cache.pool; i++)
        cache.pool[i] = cache.was[i] = (char)(i * 7);
    cache.bases[0] = cache.pool;
}

/* How many bytes differ from what they were, and where the last one lies. They are put right. */
static unsigned spoilt(size_t *at)
{
    unsigned n = 0;
    for (size_t i = 0; i < sizeof cache.pool; i++)
        if (cache.pool[i] != cache.was[i]) {
            assert_int_equal(cache.pool[i] ^ cache.was[i], 0x20);
            *at = i;
            n++;
        }
    memcpy(cache.pool, cache.was, sizeof cache.pool);
    return n;
}

/* Where the first byte lies that a move behind so many bytes would write. */
static size_t first_of(uint64_t skip)
{
    struct plan_cursor at = {0};
    struct plan_run run;
    if (skip > 0)
        plan_skip(&cache.transfer, &at, skip);
    assert_int_equal(plan_next(&cache.transfer, &at, &run, 1, 1), 1);
    return run.dst;
}

static int64_t move_of(struct faults *f, uint64_t tag, bool write, uint64_t skip)
{
    struct plan_cursor at = {0};
    const struct path_leg leg = {.peer = 1, .write = write, .tag = tag, .transfer = &cache.transfer, .cursor = &at};
    if (skip > 0)
        plan_skip(&cache.transfer, &at, skip);
    return faults_port(f)->path.move(faults_port(f)->path.self, &leg, 1);
}

static void move(struct faults *f, uint64_t tag, bool write, uint64_t skip)
{
    assert_int_equal(move_of(f, tag, write, skip), 16);
}

static void land(struct faults *f, uint64_t tag, int error)
{
    struct port_event e = {.kind = PORT_BOARD, .tag = tag, .error = error};
    assert_int_equal(faults_filter(f, 0, &e, 1), 1);
}

static void test_a_pull_is_spoilt_once_it_has_landed(void **state)
{
    (void)state;
    size_t at = 0;
    cache_make();
    struct faults *f = make("corrupt@move", cache.bases, false);
    move(f, 7, false, 0);
    assert_int_equal(spoilt(&at), 0); /* what comes later would write over it */
    land(f, 8, 0);
    land(f, 7, BATON_EPEER);
    assert_int_equal(spoilt(&at), 0);
    land(f, 7, 0);
    assert_int_equal(spoilt(&at), 1);
    assert_int_equal(at, first_of(0));
    land(f, 7, 0);
    assert_int_equal(spoilt(&at), 0);
    assert_int_not_equal(first_of(1024), first_of(0));
    move(f, 9, false, 1024);
    move(f, 9, false, 0); /* a second piece of the same leg does not put it right again */
    land(f, 9, 0);
    assert_int_equal(spoilt(&at), 1);
    assert_int_equal(at, first_of(1024));
    move(f, 10, true, 0); /* a push: its bytes are the peer's */
    land(f, 10, 0);
    assert_int_equal(spoilt(&at), 0);
    faults_destroy(f);
    plan_destroy(cache.plan);
}

/* Only what was taken counts as a move. */
static void test_a_move_of_nothing_is_none(void **state)
{
    (void)state;
    size_t at = 0;
    cache_make();
    struct faults *f = make("corrupt@move#1", cache.bases, false);
    below.says.move = 0;
    assert_int_equal(move_of(f, 6, false, 0), 0);
    below.says.move = BATON_EAGAIN;
    assert_int_equal(move_of(f, 6, false, 0), BATON_EAGAIN);
    below.says.move = 16;
    move(f, 7, false, 0);
    land(f, 7, 0);
    assert_int_equal(spoilt(&at), 1);
    faults_destroy(f);
    plan_destroy(cache.plan);
}

/* Where the path reads the generation by itself, that is when all has landed. */
static void test_a_pull_is_spoilt_before_its_generation_is_told(void **state)
{
    (void)state;
    size_t at = 0;
    cache_make();
    struct faults *f = make("corrupt@move", cache.bases, false);
    struct port_event e = {.kind = PORT_MOVED, .tag = 7};
    move(f, 7, false, 0);
    assert_int_equal(faults_filter(f, 0, &e, 1), 1);
    assert_int_equal(spoilt(&at), 0);
    e.generation = 5;
    assert_int_equal(faults_filter(f, 0, &e, 1), 1);
    assert_int_equal(spoilt(&at), 1);
    faults_destroy(f);
    plan_destroy(cache.plan);
}

static uint64_t board_of_leg; /* in the last move */

static int64_t move_noting_board(void *self, const struct path_leg *leg, uint64_t budget)
{
    (void)self, (void)budget;
    board_of_leg = leg->board;
    return 16;
}

/* Rules for the reading of generations need a call of its own. */
static void test_a_rule_for_boards_keeps_them_apart(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        uint64_t board;
    } cases[] = {{"stall@move+0", 4096}, {"stall@board+0", 0}, {"stall@move+0,stall@board#9+0", 0}};
    struct plan_cursor at = {0};
    const struct path_leg leg = {.peer = 1, .tag = 2, .cursor = &at, .board = 4096};
    for (int i = 0; i < 3; i++) {
        struct faults *f;
        fill();
        below.port.path.move = move_noting_board;
        assert_int_equal(faults_create(cases[i].rules, 0, &below.port, RANKS, NULL, false, &f), 0);
        assert_int_equal(faults_port(f)->path.move(faults_port(f)->path.self, &leg, 99), 16);
        assert_int_equal(board_of_leg, cases[i].board);
        faults_destroy(f);
    }
}

static void test_so_many_pulls_wait_to_be_spoilt(void **state)
{
    (void)state;
    size_t at = 0;
    unsigned n = 0;
    cache_make();
    struct faults *f = make("corrupt@move", cache.bases, false);
    for (uint64_t tag = 1; tag <= SPOILT_MOST + 1; tag++)
        move(f, tag, false, 0);
    for (uint64_t tag = 1; tag <= SPOILT_MOST + 1; tag++) {
        land(f, tag, 0);
        const unsigned is_spoilt = spoilt(&at);
        assert_int_equal(is_spoilt, tag <= SPOILT_MOST); /* the last one found no room */
        n += is_spoilt;
    }
    assert_int_equal(n, SPOILT_MOST);
    move(f, SPOILT_MOST + 2, false, 0); /* there is room again */
    land(f, SPOILT_MOST + 2, 0);
    assert_int_equal(spoilt(&at), 1);
    faults_destroy(f);
    f = make("corrupt@move", NULL, false); /* memory that no thread may touch */
    move(f, 1, false, 0);
    land(f, 1, 0);
    assert_int_equal(spoilt(&at), 0);
    faults_destroy(f);
    plan_destroy(cache.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_reach_the_port),
        cmocka_unit_test(test_words_reach_the_port),
        cmocka_unit_test(test_a_pull_is_spoilt_once_it_has_landed),
        cmocka_unit_test(test_a_pull_is_spoilt_before_its_generation_is_told),
        cmocka_unit_test(test_a_rule_for_boards_keeps_them_apart),
        cmocka_unit_test(test_a_move_of_nothing_is_none),
        cmocka_unit_test(test_so_many_pulls_wait_to_be_spoilt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
