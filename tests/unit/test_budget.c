/* SPDX-License-Identifier: BSD-3-Clause */
/* budget: how much a peer may take, and how much silent peers take from others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/budget.h"

#define MS UINT64_C(1000000)
#define LIMIT 3200u

static const struct settings set = {.park_ms = 200, .peer_ms = 5000};

static uint64_t take_all(struct budget *b, struct share *s, uint64_t most, uint64_t now)
{
    uint64_t left;
    while (s->held < most && (left = budget_left(b, LIMIT, s)) > 0)
        budget_take(b, s, left < most - s->held ? left : most - s->held, now);
    return s->held;
}

static void test_one_holds_no_more_than_it_leaves(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s[3] = {{0}};
    assert_int_equal(take_all(&b, &s[0], UINT64_MAX, MS), LIMIT / 2);
    assert_int_equal(take_all(&b, &s[1], UINT64_MAX, MS), LIMIT / 4);
    assert_int_equal(take_all(&b, &s[2], UINT64_MAX, MS), LIMIT / 8);
    budget_land(&b, &s[0], LIMIT / 2, 2 * MS);
    assert_int_equal(take_all(&b, &s[2], UINT64_MAX, 2 * MS), (LIMIT * 3 / 4) / 2);
    assert_int_equal(take_all(&b, &s[1], UINT64_MAX, 2 * MS), LIMIT * 5 / 16); /* and leaves as much as it holds */
    assert_int_equal(b.held, LIMIT * 11 / 16);
}

static void test_the_last_byte_is_of_use(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s[2] = {{0}};
    budget_take(&b, &s[0], LIMIT - 1, MS);
    assert_int_equal(budget_left(&b, LIMIT, &s[1]), 1);
    budget_take(&b, &s[1], 1000, MS); /* a unit is taken whole */
    assert_int_equal(budget_left(&b, LIMIT, &s[0]), 0);
}

static void test_who_holds_bytes_takes_no_small_rest(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s[2] = {{0}};
    take_all(&b, &s[0], UINT64_MAX, MS);
    budget_land(&b, &s[0], LIMIT / 32 - 1, MS);
    assert_int_equal(budget_left(&b, LIMIT, &s[0]), 0);
    budget_land(&b, &s[0], 1, MS);
    assert_int_equal(budget_left(&b, LIMIT, &s[0]), LIMIT / 32);
    take_all(&b, &s[1], UINT64_MAX, MS);
    assert_true(budget_left(&b, LIMIT, &s[1]) == 0);
}

static void test_the_silent_do_not_count_up_to_a_quarter(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s[3] = {{0}};
    budget_take(&b, &s[0], LIMIT / 4, MS);
    assert_int_equal(budget_look(&b, &set, MS), 201 * MS);
    budget_take(&b, &s[1], 100, 150 * MS);
    assert_int_equal(budget_look(&b, &set, 200 * MS), 201 * MS);
    assert_false(s[0].silent);
    assert_int_equal(budget_look(&b, &set, 201 * MS), 350 * MS);
    assert_true(s[0].silent);
    assert_int_equal(b.silent, LIMIT / 4);
    assert_int_equal(b.held, 100);
    assert_int_equal(budget_left(&b, LIMIT, &s[0]), 0); /* nothing more before something comes */
    budget_land(&b, &s[1], 100, 202 * MS);
    assert_int_equal(budget_left(&b, LIMIT, &s[1]), LIMIT / 2); /* as if s[0] were not there */
    assert_int_equal(budget_look(&b, &set, 202 * MS), UINT64_MAX);
    budget_take(&b, &s[2], LIMIT / 4, 300 * MS);
    assert_int_equal(budget_look(&b, &set, 500 * MS), UINT64_MAX);
    assert_int_equal(b.silent, LIMIT / 2);
    assert_int_equal(budget_left(&b, LIMIT, &s[1]), LIMIT * 3 / 8); /* the second quarter counts */
}

static void test_the_silent_come_back(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s = {0};
    budget_take(&b, &s, 400, MS);
    budget_look(&b, &set, 201 * MS);
    budget_land(&b, &s, 100, 300 * MS);
    assert_false(s.silent);
    assert_int_equal(b.silent, 0);
    assert_int_equal(b.held, 300);
    assert_int_equal(budget_look(&b, &set, 300 * MS), 500 * MS);
    budget_look(&b, &set, 500 * MS);
    assert_int_equal(b.silent, 300);
    budget_drop(&b, &s, 100); /* one of its transfers is given up */
    assert_true(s.silent);
    budget_drop(&b, &s, 200);
    assert_int_equal(budget_held(&b), 0);
    budget_take(&b, &s, 10, 600 * MS); /* it held nothing, so it does not count as silent any more */
    assert_false(s.silent);
    assert_int_equal(b.held, 10);
    budget_drop(&b, &s, 10);
    assert_null(b.talking);
    assert_int_equal(budget_held(&b), 0);
}

/* A peer whose bytes always take 300 ms is not silent after 200 ms, but after four times as long as they take. */
static void test_the_slow_are_not_silent(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share slow = {0}, quick = {0};
    uint64_t now = MS;
    for (unsigned i = 0; i < 3; i++) {
        budget_take(&b, &slow, 100, now);
        budget_take(&b, &slow, 100, now + 10 * MS);
        budget_look(&b, &set, now + 299 * MS);
        assert_int_equal(slow.silent, i == 0); /* at first nobody knows how slow it is */
        budget_land(&b, &slow, 100, now + 300 * MS);
        budget_land(&b, &slow, 100, now + 310 * MS);
        now += 310 * MS;
    }
    budget_take(&b, &slow, 100, now);
    assert_int_equal(budget_look(&b, &set, now + MS), now + 201 * MS); /* for one that takes bytes meanwhile: */
    budget_take(&b, &quick, 50, now + 100 * MS);
    assert_int_equal(budget_look(&b, &set, now + 201 * MS), now + 300 * MS);
    budget_look(&b, &set, now + 300 * MS);
    assert_true(quick.silent);
    budget_look(&b, &set, now + 1199 * MS);
    assert_false(slow.silent);
    assert_int_equal(budget_look(&b, &set, now + 1200 * MS), UINT64_MAX);
    assert_true(slow.silent);
    budget_land(&b, &quick, 50, now + 1201 * MS);
    assert_int_equal(b.held, 0);
}

/* Where many pieces come one after the other, patience follows from how long each was under way, not from the gaps. */
static void test_a_line_full_of_pieces_is_slow_too(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s = {0};
    uint64_t now = MS;
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned k = 0; k < 16; k++)
            budget_take(&b, &s, 10, now + k * MS);
        for (unsigned k = 0; k < 16; k++)
            budget_land(&b, &s, 10, now + 400 * MS + k * MS);
        now += 420 * MS;
    }
    budget_take(&b, &s, 10, now);
    budget_look(&b, &set, now + 1500 * MS);
    assert_false(s.silent);
    budget_look(&b, &set, now + 1700 * MS);
    assert_true(s.silent);
}

/* Patience is at most BATON_PEER_MS, and bytes that were given up do not raise it. */
static void test_patience_has_an_end(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s = {0}, other = {0};
    budget_take(&b, &s, 10, MS);
    budget_land(&b, &s, 10, 4001 * MS);
    budget_take(&b, &s, 10, 4001 * MS);
    budget_look(&b, &set, 9000 * MS);
    assert_false(s.silent);
    budget_look(&b, &set, 9001 * MS);
    assert_true(s.silent);
    budget_take(&b, &other, 20, 9001 * MS);
    budget_drop(&b, &other, 10);
    budget_land(&b, &other, 10, 9501 * MS);
    assert_int_equal(other.patience.usual_ns, 0);
}

/* However many peers fall silent one after another, the next one finds room. */
static void test_room_is_left_beside_many_silent(void **state)
{
    (void)state;
    struct budget b = {0};
    struct share s[8] = {{0}}, healthy = {0};
    uint64_t now = MS;
    for (unsigned i = 0; i < 8; i++) {
        take_all(&b, &s[i], LIMIT / 8, now);
        now += 200 * MS;
        budget_look(&b, &set, now);
    }
    assert_int_equal(budget_held(&b), b.silent);
    assert_true(take_all(&b, &healthy, LIMIT / 8, now) >= LIMIT / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_holds_no_more_than_it_leaves),
        cmocka_unit_test(test_the_last_byte_is_of_use),
        cmocka_unit_test(test_who_holds_bytes_takes_no_small_rest),
        cmocka_unit_test(test_the_silent_do_not_count_up_to_a_quarter),
        cmocka_unit_test(test_the_silent_come_back),
        cmocka_unit_test(test_the_slow_are_not_silent),
        cmocka_unit_test(test_a_line_full_of_pieces_is_slow_too),
        cmocka_unit_test(test_patience_has_an_end),
        cmocka_unit_test(test_room_is_left_beside_many_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
