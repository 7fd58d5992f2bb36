/* SPDX-License-Identifier: BSD-3-Clause */
/* areas: a card of a neighbour is believed only as far as its segment holds what it names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "front/areas.h"

/* ---- a ground: peers 0, 1 and 3 of four are of this node, and this one is peer 1 --------------------------------- */

enum { RANKS = 4, SELF = 1, NEIGHBOURS = 3, SLOTS = 8, BOARD = 4096, AREA = 8192 };

static struct ground_peer peers[RANKS];
static struct ground ground = {.self = SELF, .num_peers = RANKS, .places = NEIGHBOURS, .peers = peers};

/* ---- cards ------------------------------------------------------------------------------------------------------- */

static struct wire_card good_card(void)
{
    return (struct wire_card){.features = WIRE_CARD_LANES,
                              .board_offset = BOARD,
                              .board_slots = SLOTS,
                              .index_offset = AREA,
                              .index_slots = SLOTS,
                              .words_offset = AREA,
                              .words_slots = NEIGHBOURS};
}

static int make(void **state)
{
    (void)state;
    const uint64_t size = AREA + areas_bytes(SLOTS, NEIGHBOURS);
    for (uint32_t i = 0, place = 0; i < RANKS; i++)
        peers[i] = i != 2 ? (struct ground_peer){aligned_alloc(64, size), size, 1, place++} : (struct ground_peer){0};
    ground.segment = peers[SELF].mapped;
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++)
        free(peers[i].mapped);
    return 0;
}

struct found {
    bool bell, words, lanes;
};

/* What rank 3's card gives. */
static struct found add(const struct wire_card *card)
{
    struct areas a;
    assert_int_equal(areas_init(&a, RANKS), 0);
    areas_add(&a, &ground, 3, card);
    const struct found found = {a.bells[3] != NULL, a.words[3].at.area != NULL, a.lanes[3].area != NULL};
    if (found.bell)
        assert_ptr_equal(a.bells[3], peers[3].mapped);
    if (found.words) {
        assert_ptr_equal(a.words[3].at.area, peers[3].mapped + AREA);
        assert_ptr_equal(a.words[3].at.board, peers[3].mapped + BOARD);
        assert_int_equal(a.words[3].at.slots, card->index_slots);
        assert_int_equal(a.words[3].at.ranks, card->words_slots);
        assert_int_equal(a.words[3].node_rank, 2);
    }
    if (found.lanes) {
        assert_int_equal(a.lanes[3].area - peers[3].mapped, peers[3].bytes - lanes_bytes(NEIGHBOURS));
        assert_int_equal((a.lanes[3].area - peers[3].mapped - AREA) % 64, 0);
        assert_int_equal(a.lanes[3].ranks, NEIGHBOURS);
        assert_int_equal(a.lanes[3].node_rank, 2);
    }
    for (int i = 0; i < 3; i++)
        assert_true(a.bells[i] == NULL && a.words[i].at.area == NULL && a.lanes[i].area == NULL);
    areas_fini(&a);
    assert_null(a.words);
    return found;
}

#define EXPECT(card, has_words, has_lanes)                                                                             \
    do {                                                                                                               \
        const struct found found = add(card);                                                                          \
        assert_int_equal(found.bell, has_words);                                                                       \
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
    card.index_slots = 1;
    EXPECT(&card, true, false);
    card = good_card();
    peers[3].bytes--;
    EXPECT(&card, true, false); /* the lanes do not fit */
    peers[3].bytes -= lanes_bytes(NEIGHBOURS) - 1;
    EXPECT(&card, true, false); /* the words just do */
    peers[3].process = 0;
    const struct found found = add(&card);
    assert_true(found.bell && !found.words);
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
    card.words_slots = RANKS + 1;
    EXPECT(&card, false, false);
    card = good_card();
    card.words_slots = 1; /* this rank is the second of the node: it has no words there */
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
    peers[3].bytes -= lanes_bytes(NEIGHBOURS) + 1;
    EXPECT(&card, false, false);
}

static void test_the_edges_of_good_cards(void **state)
{
    (void)state;
    struct wire_card card = good_card();
    card.words_slots = 2; /* the least that has words of this rank */
    struct areas a;
    assert_int_equal(areas_init(&a, RANKS), 0);
    areas_add(&a, &ground, 3, &card);
    assert_non_null(a.words[3].at.area);
    areas_fini(&a);
    card = good_card();
    card.words_slots = RANKS; /* more than the node has, as many as the world: its lanes do not fit here */
    peers[3].bytes = AREA + areas_bytes(SLOTS, RANKS);
    free(peers[3].mapped);
    peers[3].mapped = aligned_alloc(64, (peers[3].bytes + 63) & ~UINT64_C(63));
    assert_int_equal(areas_init(&a, RANKS), 0);
    areas_add(&a, &ground, 3, &card);
    assert_non_null(a.words[3].at.area);
    assert_non_null(a.lanes[3].area);
    areas_fini(&a);
}

static void test_mine(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool has_area = (i & 1) != 0, has_lanes = (i & 2) != 0;
        struct areas a;
        assert_int_equal(areas_init(&a, RANKS), 0);
        areas_add_mine(&a, &ground, has_area ? AREA : 0, BOARD, SLOTS, has_lanes);
        assert_ptr_equal(a.bells[SELF], ground.segment);
        assert_ptr_equal(a.words[SELF].at.area, has_area ? peers[SELF].mapped + AREA : NULL);
        assert_ptr_equal(a.words[SELF].at.board, peers[SELF].mapped + BOARD);
        assert_int_equal(a.words[SELF].at.slots, SLOTS);
        assert_int_equal(a.words[SELF].at.ranks, NEIGHBOURS);
        assert_int_equal(a.words[SELF].node_rank, 1);
        assert_int_equal(a.lanes[SELF].area != NULL, has_area && has_lanes);
        if (has_area && has_lanes)
            assert_int_equal(a.lanes[SELF].area + lanes_bytes(NEIGHBOURS) - peers[SELF].mapped, peers[3].bytes);
        areas_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_cards, make, unmake),
        cmocka_unit_test_setup_teardown(test_cards_that_cannot_be, make, unmake),
        cmocka_unit_test_setup_teardown(test_the_edges_of_good_cards, make, unmake),
        cmocka_unit_test_setup_teardown(test_mine, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
