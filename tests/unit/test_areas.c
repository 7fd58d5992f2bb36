/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * areas: neighbours meet where each has an open place with the other; a card of a neighbour is believed only as far as
 * its segment holds what it names; members come and go in few places.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "front/areas.h"
#include "with_vicinity.h"

/* ---- a ground: peers 0, 1 and 3 of four are of this node --------------------------------------------------------- */

enum { RANKS = 4, NEIGHBOURS = 3, PLACES = 3, SLOTS = 8, BOARD = 4096, AREA = 8192 };

static const struct logger quiet = {.level = LOG_NONE};
static struct ground_peer peers[RANKS];
static const uint32_t of_node[NEIGHBOURS] = {0, 1, 3};
static struct directory_row rows[RANKS];
static uint32_t by_number[2], next_by_number[RANKS];
static struct directory_engine engine = {.name = "e", .life = 7}, *engines[] = {&engine};
static struct directory directory = {.num_ranks = RANKS,
                                     .rows = rows,
                                     .by_number = by_number,
                                     .next_by_number = next_by_number,
                                     .engines = engines,
                                     .number_mask = 1};

static uint64_t segment_bytes(void)
{
    return AREA + areas_bytes(SLOTS, PLACES);
}

static int make(void **state)
{
    (void)state;
    const uint64_t size = (segment_bytes() + 63) & ~UINT64_C(63);
    by_number[0] = by_number[1] = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        peers[i] = (struct ground_peer){0};
        rows[i] = (struct directory_row){.number = 0x1000 + 7 * i};
        next_by_number[i] = by_number[rows[i].number & 1];
        by_number[rows[i].number & 1] = i + 1;
        if (i == 2)
            continue;
        peers[i] = (struct ground_peer){aligned_alloc(64, size), segment_bytes(), 1, 0};
        assert_non_null(peers[i].mapped);
        memset(peers[i].mapped, 0, size);
    }
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++)
        free(peers[i].mapped);
    return 0;
}

static struct wire_card good_card(void)
{
    return (struct wire_card){.features = WIRE_CARD_LANES,
                              .board_offset = BOARD,
                              .board_slots = SLOTS,
                              .index_offset = AREA,
                              .index_slots = SLOTS,
                              .words_offset = AREA,
                              .words_slots = PLACES};
}

/* A rank and what it stands on. */
struct side {
    struct ground ground;
    struct vicinity *vicinity;
    struct areas *areas;
};

static void open_with(struct side *s, uint32_t rank, bool has_area, bool has_lanes)
{
    const struct areas_mine mine = {has_area ? AREA : 0, BOARD, SLOTS, has_lanes};
    s->ground = (struct ground){
        .self = rank, .num_peers = RANKS, .places = NEIGHBOURS, .segment = peers[rank].mapped, .peers = peers};
    s->vicinity = with_vicinity(rank, RANKS, of_node, NEIGHBOURS);
    assert_int_equal(areas_create(&s->ground, s->vicinity, &directory, &mine, &quiet, &s->areas), 0);
}

static void open_as(struct side *s, uint32_t rank)
{
    open_with(s, rank, true, true);
}

static void close_side(struct side *s)
{
    areas_destroy(s->areas);
    vicinity_destroy(s->vicinity);
}

static void add(struct side *s, uint32_t rank)
{
    const struct wire_card card = good_card();
    areas_add(s->areas, rank, &card);
}

static bool has_lanes(const struct side *s, uint32_t rank)
{
    return lanes_lead_to(areas_lanes(s->areas), rank);
}

static bool has_words(const struct side *s)
{
    return handoffs_port(areas_handoffs(s->areas)) != NULL;
}

/* ---- two meet ---------------------------------------------------------------------------------------------------- */

/* Whatever the order: nothing is used before both places are open. */
static void test_two_meet(void **state)
{
    (void)state;
    struct side a, b;
    struct port_event e;
    open_as(&a, 1);
    open_as(&b, 3);
    assert_true(has_lanes(&a, 1) && !has_words(&a));
    add(&a, 3);
    areas_open(b.areas); /* nobody that was added there has claimed anything */
    areas_meet(a.areas);
    assert_false(has_lanes(&a, 3));
    add(&b, 1);
    areas_open(b.areas);
    areas_meet(b.areas);
    areas_meet(a.areas);
    assert_false(has_lanes(&a, 3) || has_lanes(&b, 1)); /* a has not opened b's */
    areas_open(a.areas);
    areas_meet(a.areas);
    assert_true(has_lanes(&a, 3) && has_words(&a) && !has_lanes(&b, 1));
    assert_int_equal(lanes_send(areas_lanes(a.areas), 3, "hello", 6, RINGS_NOW), 0);
    areas_meet(b.areas);
    assert_true(has_lanes(&b, 1) && has_words(&b));
    assert_int_equal(lanes_take(areas_lanes(b.areas), &e, 1), 1);
    assert_int_equal(e.peer, 1);
    assert_string_equal((const char *)e.data, "hello");
    close_side(&a);
    close_side(&b);
}

static void meet(struct side *a, uint32_t rank_a, struct side *b, uint32_t rank_b)
{
    add(a, rank_b);
    add(b, rank_a);
    for (int i = 0; i < 2; i++) {
        areas_open(a->areas);
        areas_open(b->areas);
        areas_meet(a->areas);
        areas_meet(b->areas);
    }
}

/* Many members, one after the other, in the one place that is left; some die before their claim is opened. */
static void test_members_come_and_go(void **state)
{
    (void)state;
    struct side a, b;
    open_as(&a, 1);
    for (uint64_t n = 1; n <= 100; n++) {
        struct port_event e;
        const uint32_t rank = n % 2 != 0 ? 3 : 0;
        open_as(&b, rank);
        if (n % 5 == 0) {
            add(&b, 1); /* and dies */
            add(&a, rank);
        } else {
            meet(&a, 1, &b, rank);
            assert_true(has_lanes(&a, rank) && has_lanes(&b, 1) && has_words(&a));
            assert_int_equal(lanes_send(areas_lanes(b.areas), 1, "hello", 6, RINGS_NOW), 0);
            if (n % 3 == 0)
                assert_int_equal(lanes_take(areas_lanes(a.areas), &e, 1), 1);
        }
        areas_leave(a.areas, rank);
        areas_leave(a.areas, rank); /* it has gone already */
        close_side(&b);
        assert_false(has_lanes(&a, rank) || has_words(&a));
        memset(peers[rank].mapped, 0, segment_bytes());
        assert_int_equal(lanes_take(areas_lanes(a.areas), &e, 1), 0);
    }
    assert_int_equal(lanes_bad(areas_lanes(a.areas)), 0);
    close_side(&a);
}

/* It was opened its place, spoke, and went before this rank had met it. Who has the place next starts anew. */
static void test_one_goes_before_it_is_met(void **state)
{
    (void)state;
    struct side a, b, c;
    struct port_event e;
    open_as(&a, 1);
    open_as(&b, 3);
    open_as(&c, 0);
    add(&a, 3);
    add(&b, 1);
    areas_open(b.areas);
    areas_open(a.areas);
    areas_meet(b.areas);
    for (int i = 0; i < 3; i++)
        assert_int_equal(lanes_send(areas_lanes(b.areas), 1, "old", 4, RINGS_NOW), 0);
    areas_leave(a.areas, 3);
    meet(&a, 1, &c, 0);
    for (unsigned i = 0; i < LANES_MESSAGES; i++)
        assert_int_equal(lanes_send(areas_lanes(c.areas), 1, "new", 4, RINGS_NOW), 0);
    for (unsigned i = 0; i < LANES_MESSAGES; i++) {
        assert_int_equal(lanes_take(areas_lanes(a.areas), &e, 1), 1);
        assert_int_equal(e.peer, 0);
        assert_string_equal((const char *)e.data, "new");
    }
    assert_int_equal(lanes_bad(areas_lanes(a.areas)), 0);
    close_side(&a);
    close_side(&b);
    close_side(&c);
}

/* One that claimed, and was never added here: its place is free again when it has gone. */
static void test_claims_of_the_gone(void **state)
{
    (void)state;
    struct side a, b;
    open_as(&a, 1);
    for (uint32_t i = 0; i < 2 * PLACES; i++) {
        open_as(&b, 3);
        add(&b, 1);
        close_side(&b);
        areas_leave(a.areas, 3);
        rows[3].number += 0x100; /* the next life's */
        memset(peers[3].mapped, 0, segment_bytes());
    }
    close_side(&a);
    const struct places of_a = {(void *)(peers[1].mapped + AREA), PLACES};
    for (uint64_t n = 1; n < PLACES; n++)
        assert_true(places_claim(&of_a, n) < PLACES);
}

/* All places are taken by others: the two go by other ways. So they do while somebody claims in another's name. */
static void test_no_place(void **state)
{
    (void)state;
    struct side a, b;
    open_as(&a, 1);
    open_as(&b, 3);
    const struct places of_a = {(void *)(peers[1].mapped + AREA), PLACES};
    for (uint64_t n = 1; n < PLACES; n++)
        assert_true(places_claim(&of_a, n) < PLACES);
    meet(&a, 1, &b, 3);
    assert_false(has_lanes(&a, 3) || has_lanes(&b, 1) || has_words(&a) || has_words(&b));
    for (uint64_t n = 1; n < PLACES; n++)
        places_give_back(&of_a, n);
    areas_leave(b.areas, 1);
    areas_leave(a.areas, 3);
    meet(&a, 1, &b, 3);
    assert_true(has_lanes(&a, 3) && has_lanes(&b, 1));
    assert_true(places_claim(&of_a, rows[0].number) < PLACES); /* rank 0 was not added */
    areas_open(a.areas);
    areas_meet(a.areas);
    assert_false(has_lanes(&a, 0));
    close_side(&a);
    close_side(&b);
}

/* ---- what a card gives ------------------------------------------------------------------------------------------- */

struct found {
    bool words, lanes;
};

/* What rank 3's card gives rank 1, whose own is good. */
static struct found found_by(const struct wire_card *card)
{
    struct side a, b;
    open_as(&a, 1);
    open_as(&b, 3);
    areas_add(a.areas, 3, card);
    add(&b, 1);
    for (int i = 0; i < 2; i++) {
        areas_open(a.areas);
        areas_open(b.areas);
        areas_meet(a.areas);
    }
    const struct found found = {has_words(&a), has_lanes(&a, 3)};
    close_side(&a);
    close_side(&b);
    for (int i = 0; i < RANKS; i++)
        if (i == 1 || i == 3)
            memset(peers[i].mapped, 0, segment_bytes());
    return found;
}

#define EXPECT(card, has_words, has_lanes)                                                                             \
    do {                                                                                                               \
        const struct found found = found_by(card);                                                                     \
        assert_int_equal(found.words, has_words);                                                                      \
        assert_int_equal(found.lanes, has_lanes);                                                                      \
    } while (0)

static void test_good_cards(void **state)
{
    (void)state;
    struct wire_card card = good_card();
    EXPECT(&card, true, true);
    card.features = 0;
    EXPECT(&card, true, false);
    card = good_card();
    peers[3].bytes--;
    EXPECT(&card, true, false); /* the lanes do not fit */
    peers[3].bytes -= lanes_bytes(PLACES) - 1;
    EXPECT(&card, true, false); /* the words just do */
    peers[3].bytes = segment_bytes();
    peers[3].process = 0;
    EXPECT(&card, false, true);
}

/* Whoever says one of these has none of its area used. */
static void test_cards_that_cannot_be(void **state)
{
    (void)state;
    struct wire_card card = good_card();
    card.index_slots = 0; /* it takes no part */
    EXPECT(&card, false, false);
    card = good_card();
    card.index_slots = SLOTS + 1; /* more than its board has */
    EXPECT(&card, false, false);
    card = good_card();
    card.index_slots = card.board_slots = HANDOFF_SLOTS_MAX + 1;
    EXPECT(&card, false, false);
    card = good_card();
    card.words_slots = 0;
    EXPECT(&card, false, false);
    card = good_card();
    card.words_slots = UINT32_MAX;
    EXPECT(&card, false, false);
    card = good_card();
    card.words_offset += 64;
    EXPECT(&card, false, false);
    card = good_card();
    card.index_offset = card.words_offset = 0;
    EXPECT(&card, false, false);
    card = good_card();
    card.index_offset = card.words_offset = AREA - 8;
    EXPECT(&card, false, false);
    card = good_card();
    card.index_offset = card.words_offset = UINT64_MAX - 63;
    EXPECT(&card, false, false);
    card = good_card();
    card.board_offset += 4;
    EXPECT(&card, false, false);
    card = good_card();
    card.board_offset = (peers[3].bytes & ~UINT64_C(7)) - 8 * SLOTS + 8; /* its last word lies behind the segment */
    EXPECT(&card, false, false);
    card = good_card();
    peers[3].bytes -= lanes_bytes(PLACES) + 1;
    EXPECT(&card, false, false);
}

static void test_mine(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool has_area = (i & 1) != 0, can_lane = (i & 2) != 0;
        struct side a, b;
        open_with(&a, 1, has_area, can_lane);
        open_as(&b, 3);
        assert_int_equal(has_lanes(&a, 1), has_area && can_lane);
        meet(&a, 1, &b, 3);
        assert_int_equal(has_words(&a), has_area);
        assert_int_equal(has_lanes(&a, 3), has_area && can_lane);
        areas_forget(a.areas, 0);
        close_side(&a);
        close_side(&b);
        memset(peers[1].mapped, 0, segment_bytes());
        memset(peers[3].mapped, 0, segment_bytes());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_meet, make, unmake),
        cmocka_unit_test_setup_teardown(test_members_come_and_go, make, unmake),
        cmocka_unit_test_setup_teardown(test_one_goes_before_it_is_met, make, unmake),
        cmocka_unit_test_setup_teardown(test_claims_of_the_gone, make, unmake),
        cmocka_unit_test_setup_teardown(test_no_place, make, unmake),
        cmocka_unit_test_setup_teardown(test_good_cards, make, unmake),
        cmocka_unit_test_setup_teardown(test_cards_that_cannot_be, make, unmake),
        cmocka_unit_test_setup_teardown(test_mine, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
