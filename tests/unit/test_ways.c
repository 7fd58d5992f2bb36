/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ways: which path each pair of regions goes by, and a leg over several of them. Rank 0 is mine; rank 1 is of my node,
 * rank 2 of another. Each of four layers is a region. The paths only note what they are asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/textbuf.h"
#include "front/ways.h"
#include "front/neighbours.h"
#include "with_vicinity.h"
#include "plan/plan.h"
#include "staged/staged.h"
#include "with_geometry.h"

enum { ME, NEAR, FAR, RANKS, SPOT_OF_NEAR = 2, REGIONS = 4, BLOCKS = 8, TOKENS = 32, TAG = 77 };

static const baton_path_t kinds[PATH_WAYS] = {BATON_PATH_SHM, BATON_PATH_CMA, BATON_PATH_RMA, BATON_PATH_STAGED};

/* What a path was asked last, and what it answers. */
struct asked {
    unsigned read, board, settle, answer, ended;
    uint64_t moved, most; /* in all; of the last move */
    enum path_park park;
    bool has_ended;
};

static struct {
    struct path path[PATH_WAYS];
    struct asked asked[PATH_WAYS];
    unsigned order[1024], moves; /* which path each move went by */
    bool staged_waits;
    unsigned given_up;
    struct path_region mine[REGIONS], theirs[REGIONS];
    struct path_regions my_regions, their_regions;
    enum memory_reach read[REGIONS], write[REGIONS];
    struct neighbours neighbours;
    struct memory_near near[RANKS]; /* by spot */
    struct ground_peer peers[RANKS];
    struct ground ground;
    struct net net;
    struct directory directory;
    struct directory_row rows[RANKS];
    baton_geometry_t g;
    baton_tensor_t tensors[REGIONS];
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor cursor;
    struct ways *ways;
    struct path out;
} it;

/* ---- the paths --------------------------------------------------------------------------------------------------- */

bool staged_give_up(struct staged *s, uint64_t tag)
{
    (void)s;
    assert_int_equal(tag, TAG);
    it.given_up++;
    return it.staged_waits;
}

static int fake_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    assert_true(peer != ME && offset == 5 && bytes == 6 && tag == TAG);
    ((struct asked *)self)->read++;
    return 0;
}

static int fake_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    assert_true(peer != ME && offset == 8 && tag == TAG);
    ((struct asked *)self)->board++;
    return 0;
}

static int64_t fake_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct asked *a = self;
    assert_int_equal(leg->board, 0); /* other paths' bytes may come later */
    assert_int_equal(leg->tag, TAG);
    assert_true(it.moves < 1024 && budget > 0);
    it.order[it.moves++] = (unsigned)(a - it.asked);
    a->most = budget;
    a->moved += budget;
    plan_pass(leg->transfer, leg->cursor, budget);
    return (int64_t)budget;
}

static int fake_settle(void *self, uint32_t peer, uint64_t tag)
{
    assert_true(peer != ME && tag == TAG);
    ((struct asked *)self)->settle++;
    return 0;
}

static bool fake_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    (void)peer;
    event->tag = tag;
    ((struct asked *)self)->answer++;
    return true;
}

static enum path_park fake_park(void *self, uint32_t peer, uint64_t tag)
{
    assert_true(peer != ME && tag == TAG);
    return ((struct asked *)self)->park;
}

static bool fake_ended(void *self, uint32_t peer)
{
    struct asked *a = self;
    assert_true(peer != ME);
    a->ended++;
    return a->has_ended;
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

static void begin(const char *mine, const char *theirs)
{
    struct plan_why why;
    struct plan_box all = {0, REGIONS, 0, 2, 0};
    static const uint32_t ids[BLOCKS] = {3, 1, 4, 0, 5, 7, 2, 6};
    const struct plan_tables tables = {.num = 1, .table = {{ids, BLOCKS, 0}}};
    memset(&it, 0, sizeof it);
    for (unsigned i = 0; i < PATH_WAYS; i++)
        it.path[i] = (struct path){.self = &it.asked[i],
                                   .read = fake_read,
                                   .board = fake_board,
                                   .move = fake_move,
                                   .settle = fake_settle,
                                   .answer = i == PATH_NET ? NULL : fake_answer,
                                   .park = fake_park,
                                   .ended = fake_ended,
                                   .kind = kinds[i],
                                   .name = i == PATH_SHM      ? "shm"
                                           : i == PATH_ATTACH ? "cma"
                                           : i == PATH_NET    ? "MPI"
                                                              : "staging"};
    it.g = small_geometry(TOKENS / BLOCKS, BLOCKS);
    it.g.layers_total = it.g.layer_count = REGIONS;
    it.g.splits[0] = (baton_split_t){.heads_total = 2, .head_count = 2};
    assert_int_equal(baton_geometry_layout(&it.g, it.tensors, BATON_LAYOUT_HND), 0);
    bool has_device = false, has_host = false;
    for (uint32_t i = 0; i < REGIONS;
         i++) { /* d: a device's; m: mapped; r: for reading alone; a: attached; -: neither */
        it.tensors[i].region = i;
        it.tensors[i].offset = 0;
        it.mine[i] = (struct path_region){4096, it.g.bytes, mine[i] == 'd'};
        it.theirs[i] = (struct path_region){4096, it.g.bytes, theirs[i] == 'd'};
        it.read[i] = theirs[i] == 'm' || theirs[i] == 'r' ? MEMORY_MAPPED
                     : theirs[i] == 'a'                   ? MEMORY_ATTACHED
                                                          : MEMORY_OUT_OF_REACH;
        it.write[i] = theirs[i] == 'r' ? MEMORY_ATTACHED : it.read[i];
        has_device |= theirs[i] == 'd';
        has_host |= theirs[i] != 'd';
    }
    it.my_regions = (struct path_regions){true, REGIONS, it.mine};
    it.their_regions = (struct path_regions){true, REGIONS, it.theirs};
    it.near[SPOT_OF_NEAR] =
        (struct memory_near){.read.reach = it.read, .write.reach = it.write, .regions = it.their_regions};
    it.peers[ME].mapped = it.peers[NEAR].mapped = (uint8_t *)&it;
    it.ground = (struct ground){.self = ME, .num_peers = RANKS, .peers = it.peers};
    it.net.exposes = true;
    for (int i = 0; i < RANKS; i++)
        it.rows[i] = (struct directory_row){.num_boxes = 1,
                                            .features = WIRE_ROW_WRAPPED | (has_device ? WIRE_ROW_DEVICE : 0u) |
                                                        (has_device && has_host ? WIRE_ROW_MIXED : 0u)};
    it.directory = (struct directory){.rows = it.rows, .num_ranks = RANKS};
    assert_int_equal(plan_compile(&it.g, &it.g, &all, 1, &it.plan, &why), 0);
    assert_int_equal(plan_transfer_init(&it.transfer, it.plan, 0, TOKENS, &tables, &tables, &why), 0);
    it.neighbours =
        (struct neighbours){.vicinity = with_vicinity(ME, RANKS, (const uint32_t[]){ME, NEAR}, 2), .memory = it.near};
    it.ways = ways_create(&(struct ways_wish){.ground = &it.ground,
                                              .net = &it.net,
                                              .directory = &it.directory,
                                              .near = &it.neighbours,
                                              .mine = &it.my_regions,
                                              .path = it.path});
    assert_non_null(it.ways);
    ways_path(it.ways, &it.out);
}

static void end(void)
{
    plan_destroy(it.plan);
    ways_destroy(it.ways);
    vicinity_destroy(it.neighbours.vicinity);
}

static struct path_leg leg_of(uint32_t peer, bool write)
{
    return (struct path_leg){peer, write, TAG, &it.transfer, &it.cursor, &it.their_regions, 64};
}

/* ---- which path -------------------------------------------------------------------------------------------------- */

static void expect_to(uint32_t peer, bool write, unsigned to, baton_path_t kind)
{
    assert_int_equal(ways_to(it.ways, peer, write), to);
    assert_int_equal(ways_kind(it.ways, peer, write), kind);
}

static void one_path_where_all_pairs_go_by_it(void **state)
{
    (void)state;
    static const struct {
        const char *mine, *theirs;
        unsigned near, near_out, far;
    } cases[] = {{"hhhh", "mmmm", PATH_SHM, PATH_SHM, PATH_NET},
                 {"hhhh", "aaaa", PATH_ATTACH, PATH_ATTACH, PATH_NET},
                 {"hhhh", "rrrr", PATH_SHM, PATH_ATTACH, PATH_NET},
                 {"hhhh", "----", PATH_STAGED, PATH_STAGED, PATH_NET},
                 {"hhhh", "dddd", PATH_STAGED, PATH_STAGED, PATH_STAGED},
                 {"dddd", "mama", PATH_STAGED, PATH_STAGED, PATH_STAGED},
                 {"hdhd", "dddd", PATH_STAGED, PATH_STAGED, PATH_STAGED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(cases[i].mine, cases[i].theirs);
        expect_to(NEAR, false, cases[i].near, kinds[cases[i].near]);
        expect_to(NEAR, true, cases[i].near_out, kinds[cases[i].near_out]);
        expect_to(FAR, false, cases[i].far, kinds[cases[i].far]);
        expect_to(FAR, true, cases[i].far, kinds[cases[i].far]);
        end();
    }
}

static void several_where_they_differ(void **state)
{
    (void)state;
    begin("hhhh", "mamm");
    expect_to(NEAR, false, PATH_WAYS, BATON_PATH_CMA); /* the slowest */
    expect_to(FAR, false, PATH_NET, BATON_PATH_RMA);
    end();
    begin("hhhh", "mrmm"); /* in one direction alone */
    expect_to(NEAR, false, PATH_SHM, BATON_PATH_SHM);
    expect_to(NEAR, true, PATH_WAYS, BATON_PATH_CMA);
    end();
    begin("hhhh", "mm-m");
    expect_to(NEAR, false, PATH_WAYS, BATON_PATH_STAGED);
    end();
    begin("hhhd", "mmmm"); /* mine alone */
    expect_to(NEAR, false, PATH_WAYS, BATON_PATH_STAGED);
    expect_to(FAR, false, PATH_WAYS, BATON_PATH_STAGED);
    expect_to(ME, false, PATH_WAYS, BATON_PATH_STAGED);
    end();
    begin("hhhh", "mmdm"); /* theirs alone */
    expect_to(NEAR, true, PATH_WAYS, BATON_PATH_STAGED);
    expect_to(FAR, true, PATH_WAYS, BATON_PATH_STAGED);
    expect_to(ME, true, PATH_SHM, BATON_PATH_SHM);
    it.net.exposes = false; /* MPI makes no windows */
    expect_to(FAR, false, PATH_STAGED, BATON_PATH_STAGED);
    end();
}

/* Where nothing moves, the path that its segment is read by. */
static void without_a_cache(void **state)
{
    (void)state;
    begin("hhdd", "mmdd");
    it.rows[NEAR].num_boxes = it.rows[FAR].num_boxes = 0;
    expect_to(NEAR, false, PATH_SHM, BATON_PATH_SHM);
    expect_to(FAR, false, PATH_NET, BATON_PATH_RMA);
    end();
    begin("hhdd", "mmdd");
    it.my_regions.num = 0;
    struct ways *mine = ways_create(&(struct ways_wish){.ground = &it.ground,
                                                        .net = &it.net,
                                                        .directory = &it.directory,
                                                        .near = &it.neighbours,
                                                        .mine = &it.my_regions,
                                                        .path = it.path});
    assert_int_equal(ways_to(mine, NEAR, false), PATH_SHM);
    assert_int_equal(ways_to(mine, FAR, true), PATH_NET);
    ways_destroy(mine);
    end();
}

/* ---- a leg ------------------------------------------------------------------------------------------------------- */

/* Moves all, `budget` bytes at a time, and returns the paths in their order, as letters. */
static const char *order_of(uint32_t peer, bool write, uint64_t budget)
{
    static char order[1025];
    struct path_leg leg = leg_of(peer, write);
    uint64_t sum = 0;
    for (int64_t n; (n = it.out.move(it.out.self, &leg, budget)) > 0; sum += (uint64_t)n)
        assert_in_range(n, 1, budget);
    assert_int_equal(sum, it.transfer.bytes);
    assert_true(plan_at_end(&it.transfer, &it.cursor));
    for (unsigned i = 0; i < it.moves; i++)
        order[i] = "sand"[it.order[i]];
    order[it.moves] = '\0';
    return order;
}

static void a_leg_is_cut_where_its_way_changes(void **state)
{
    (void)state;
    static const struct {
        const char *mine, *theirs, *near, *near_out, *far;
    } cases[] = {{"hhhh", "mama", "sasa", "sasa", "n"}, {"hhhh", "mmaa", "sa", "sa", "n"},
                 {"hhhh", "mmdd", "sd", "sd", "nd"},    {"hdhh", "mmmd", "sdsd", "sdsd", "ndnd"},
                 {"hdhh", "dmaa", "da", "da", "dn"},    {"hhhh", "mr-a", "sda", "sada", "n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 3; k++) {
            begin(cases[i].mine, cases[i].theirs);
            const uint32_t peer = k < 2 ? NEAR : FAR;
            assert_string_equal(order_of(peer, k == 1, UINT64_MAX), k == 0   ? cases[i].near
                                                                    : k == 1 ? cases[i].near_out
                                                                             : cases[i].far);
            end();
        }
}

/* Each path has its layers' bytes, whatever is moved at a time. */
static void budgets_change_nothing(void **state)
{
    (void)state;
    for (uint64_t budget = 100; budget < 3000; budget = budget * 3 / 2) {
        begin("hhdh", "mamm");
        order_of(NEAR, false, budget);
        const uint64_t layer = it.transfer.bytes / REGIONS;
        assert_int_equal(it.asked[PATH_SHM].moved, 2 * layer);
        assert_int_equal(it.asked[PATH_ATTACH].moved, layer);
        assert_int_equal(it.asked[PATH_STAGED].moved, layer);
        assert_int_equal(it.asked[PATH_NET].moved, 0);
        end();
    }
}

/* A peer's card may name other regions than it did. */
static void a_region_that_is_not_there(void **state)
{
    (void)state;
    begin("hhhh", "mama");
    struct path_leg leg = leg_of(NEAR, false);
    it.near[SPOT_OF_NEAR].regions.num = 0;
    assert_int_equal(it.out.move(it.out.self, &leg, 1 << 20), BATON_EMESSAGE);
    it.near[SPOT_OF_NEAR].regions.num = REGIONS;
    it.their_regions.num = 0;
    assert_int_equal(it.out.move(it.out.self, &leg, 1 << 20), BATON_EMESSAGE);
    assert_int_equal(it.moves, 0);
    end();
}

/* Tables and generations are read, and what was written is settled, by the path that the segment is read by. */
static void questions_go_by_the_segments_path(void **state)
{
    (void)state;
    for (uint32_t peer = NEAR; peer <= FAR; peer++) {
        begin("hhdh", "mamm");
        const struct asked *a = &it.asked[peer == NEAR ? PATH_SHM : PATH_NET];
        struct port_event event = {0};
        assert_int_equal(it.out.read(it.out.self, peer, 5, 6, TAG), 0);
        assert_int_equal(it.out.board(it.out.self, peer, 8, TAG), 0);
        assert_int_equal(it.out.settle(it.out.self, peer, TAG), 0);
        assert_int_equal(it.out.answer(it.out.self, peer, TAG, &event), peer == NEAR);
        assert_true(a->read == 1 && a->board == 1 && a->settle == 1);
        assert_int_equal(it.out.progress(it.out.self, &event, 1), 0);
        assert_false(it.out.busy(it.out.self));
        end();
    }
}

/* It is quiet when all are; while copy workers of mine are at it, whatever becomes of the peer. */
static void it_is_quiet_when_all_are(void **state)
{
    (void)state;
    static const struct {
        uint32_t peer;
        enum path_park below;
        bool staged;
        enum path_park all;
    } cases[] = {{NEAR, PATH_PARK_QUIET, false, PATH_PARK_QUIET}, {NEAR, PATH_PARK_QUIET, true, PATH_PARK_LATER},
                 {NEAR, PATH_PARK_LATER, false, PATH_PARK_SOON},  {NEAR, PATH_PARK_LATER, true, PATH_PARK_SOON},
                 {FAR, PATH_PARK_QUIET, false, PATH_PARK_QUIET},  {FAR, PATH_PARK_QUIET, true, PATH_PARK_LATER},
                 {FAR, PATH_PARK_LATER, false, PATH_PARK_LATER},  {FAR, PATH_PARK_LATER, true, PATH_PARK_LATER},
                 {FAR, PATH_PARK_NEVER, false, PATH_PARK_NEVER},  {FAR, PATH_PARK_NEVER, true, PATH_PARK_NEVER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin("hhdh", "mamm");
        it.asked[cases[i].peer == NEAR ? PATH_SHM : PATH_NET].park = cases[i].below;
        it.staged_waits = cases[i].staged;
        assert_int_equal(it.out.park(it.out.self, cases[i].peer, TAG), cases[i].all);
        assert_int_equal(it.given_up, 1);
        end();
    }
}

static void it_has_ended_when_all_have(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin("hhdh", "mamm");
        it.asked[PATH_NET].has_ended = (i & 1) != 0;
        it.asked[PATH_STAGED].has_ended = (i & 2) != 0;
        assert_int_equal(it.out.ended(it.out.self, FAR), i == 3);
        assert_int_equal(it.asked[PATH_NET].ended, 1);
        assert_int_equal(it.asked[PATH_STAGED].ended, 1);
        end();
    }
}

static void what_is_described(void **state)
{
    (void)state;
    char text[256];
    begin("hhdh", "mama");
    struct textbuf out = {text, sizeof text, 0};
    ways_describe(it.ways, (uint8_t[]){PATH_SHM, PATH_WAYS, PATH_WAYS}, &out);
    assert_string_equal(text, "by several ways: rank 1: pairs of regions are read 6 by shm, 6 by cma, 4 by staging\n"
                              "by several ways: rank 2: pairs of regions are read by MPI, by staging\n");
    out = (struct textbuf){text, sizeof text, 0};
    ways_describe(it.ways, (uint8_t[]){PATH_SHM, PATH_NET, PATH_WAYS}, &out);
    assert_string_equal(text, "by several ways: rank 2: pairs of regions are read by MPI, by staging\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_path_where_all_pairs_go_by_it),
        cmocka_unit_test(several_where_they_differ),
        cmocka_unit_test(without_a_cache),
        cmocka_unit_test(a_leg_is_cut_where_its_way_changes),
        cmocka_unit_test(budgets_change_nothing),
        cmocka_unit_test(a_region_that_is_not_there),
        cmocka_unit_test(questions_go_by_the_segments_path),
        cmocka_unit_test(it_is_quiet_when_all_are),
        cmocka_unit_test(it_has_ended_when_all_have),
        cmocka_unit_test(what_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
