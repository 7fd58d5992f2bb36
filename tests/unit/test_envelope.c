/* SPDX-License-Identifier: BSD-3-Clause */
/* envelope: credits and confirmations of one pair of ranks, and what a damaged envelope may and may not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/envelope.h"

struct sent {
    uint8_t bytes[ENVELOPE_BYTES + 1];
};

static const struct envelope_route route = {3, 9};

static struct sent next(struct envelope_counts *c)
{
    struct sent s = {{[ENVELOPE_BYTES] = 0x5c}};
    envelope_seal(c, route, s.bytes, 1);
    envelope_sent(c, false);
    return s;
}

static enum envelope_kind take(struct envelope_counts *c, const struct sent *s)
{
    const char *why;
    return envelope_open(c, s->bytes, sizeof s->bytes, &why);
}

static void confirm(struct envelope_counts *from, struct envelope_counts *to)
{
    uint8_t alone[ENVELOPE_BYTES];
    const char *why;
    envelope_seal(from, route, alone, 0);
    envelope_sent(from, true);
    assert_int_equal(envelope_open(to, alone, sizeof alone, &why), ENVELOPE_ALONE);
    assert_null(why);
}

static void test_credits_run_out_and_come_back(void **state)
{
    (void)state;
    struct envelope_counts a = {.sent = UINT32_MAX - 40, .confirmed = UINT32_MAX - 40},
                           b = {.consumed = UINT32_MAX - 40, .returned = UINT32_MAX - 40};
    for (int round = 0; round < 4; round++) { /* across the wrap of 32 bits */
        for (uint32_t i = 0; i < ENVELOPE_CREDITS; i++) {
            assert_true(envelope_has_credit(&a));
            struct sent s = next(&a);
            assert_int_equal(take(&b, &s), ENVELOPE_MESSAGE);
        }
        assert_false(envelope_has_credit(&a));
        assert_true(envelope_is_owed(&b));
        confirm(&b, &a);
        assert_false(envelope_is_owed(&b));
    }
}

static void test_damaged_messages_do_not_cut_a_peer_off(void **state)
{
    (void)state;
    struct envelope_counts a = {0}, b = {0};
    const char *why;
    for (int i = 0; i < 1000; i++) {
        struct sent s = next(&a);
        if (i % 3 == 1) { /* damage the magic, the length or the flags of this one */
            s.bytes[i % 2 ? 0 : 20] ^= 1;
            assert_int_equal(take(&b, &s), ENVELOPE_REFUSED);
        } else {
            assert_int_equal(envelope_open(&b, s.bytes, sizeof s.bytes, &why), ENVELOPE_MESSAGE);
            assert_int_equal(why != NULL, i % 3 == 2);
        }
        if (envelope_is_owed(&b))
            confirm(&b, &a);
        assert_true(envelope_has_credit(&a)); /* the credits of damaged messages come back too */
    }
}

static void test_repeated_or_far_numbers_change_nothing(void **state)
{
    (void)state;
    struct envelope_counts a = {0}, b = {0};
    struct sent first = next(&a), second = next(&a);
    assert_int_equal(take(&b, &first), ENVELOPE_MESSAGE);
    assert_int_equal(take(&b, &first), ENVELOPE_REFUSED);
    a.sent += ENVELOPE_CREDITS;
    struct sent far = next(&a);
    assert_int_equal(take(&b, &far), ENVELOPE_REFUSED);
    assert_int_equal(take(&b, &second), ENVELOPE_MESSAGE);
    assert_int_equal(b.consumed, 2);
}

/* From whom and to whom a packet goes is told of any that has an envelope, whatever else is wrong with it. */
static void test_routes(void **state)
{
    (void)state;
    struct envelope_counts a = {0};
    struct envelope_route read = {0};
    struct sent s = next(&a);
    assert_true(envelope_read_route(s.bytes, sizeof s.bytes, &read));
    assert_true(read.from == 3 && read.to == 9);
    envelope_seal(&a, (struct envelope_route){UINT32_MAX, 0}, s.bytes, 0);
    assert_true(envelope_read_route(s.bytes, ENVELOPE_BYTES, &read));
    assert_true(read.from == UINT32_MAX && read.to == 0);
    read.to = 7;
    for (uint32_t n = 0; n < ENVELOPE_BYTES; n++)
        assert_false(envelope_read_route(s.bytes, n, &read));
    s.bytes[3] ^= 1;
    assert_false(envelope_read_route(s.bytes, sizeof s.bytes, &read));
    assert_int_equal(read.to, 7);
}

static void test_false_confirmations_give_no_credit(void **state)
{
    (void)state;
    struct envelope_counts a = {.sent = 5, .confirmed = 3}, b = {.consumed = 6};
    struct sent s = next(&b);
    const char *why;
    assert_int_equal(envelope_open(&a, s.bytes, sizeof s.bytes, &why), ENVELOPE_MESSAGE); /* the message is good */
    assert_non_null(why);
    assert_int_equal(a.confirmed, 3);
    b.consumed = 2; /* less than before */
    s = next(&b);
    envelope_open(&a, s.bytes, sizeof s.bytes, &why);
    assert_non_null(why);
    assert_int_equal(a.confirmed, 3);
}

static void test_lengths(void **state)
{
    (void)state;
    struct envelope_counts a = {0}, b = {0};
    struct sent s = next(&a);
    const char *why;
    for (uint32_t n = 0; n <= ENVELOPE_BYTES; n++) /* none of them holds a message */
        assert_int_equal(envelope_open(&b, s.bytes, n, &why), ENVELOPE_REFUSED);
    uint8_t alone[ENVELOPE_BYTES + 1] = {0};
    envelope_seal(&a, route, alone, 0);
    assert_int_equal(envelope_open(&b, alone, sizeof alone, &why), ENVELOPE_REFUSED);
    assert_int_equal(b.consumed, 0);
}

/* A message with any damaged bit is refused; the pair goes on, and the credit comes back. */
static void test_every_bit_is_hashed(void **state)
{
    (void)state;
    for (unsigned alone = 0; alone < 2; alone++) {
        uint32_t bytes = ENVELOPE_BYTES + !alone;
        for (uint32_t bit = 0; bit < 8 * bytes; bit++) {
            struct envelope_counts a = {.sent = 7, .confirmed = 5, .consumed = 3, .returned = 3},
                                   b = {.sent = 5, .confirmed = 2, .consumed = 7, .returned = 7};
            struct sent s = {{[ENVELOPE_BYTES] = 0x5c}};
            const char *why;
            envelope_seal(&a, route, s.bytes, !alone);
            envelope_sent(&a, alone);
            s.bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_int_equal(envelope_open(&b, s.bytes, bytes, &why), ENVELOPE_REFUSED);
            assert_non_null(why);
            assert_true(b.consumed == 7 && b.confirmed == 2);
            s = next(&a);
            assert_int_equal(take(&b, &s), ENVELOPE_MESSAGE);
            assert_true(b.consumed == a.sent && b.confirmed == 3);
        }
    }
}

/* A wrong number under a right hash is taken for a jump, or refused. Soon the messages after it are accepted again. */
static void test_wrong_numbers_heal(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct envelope_counts a = {.sent = 100, .confirmed = 100}, b = {.consumed = 100, .returned = 100};
        struct envelope_counts wrong = a;
        wrong.sent ^= UINT32_C(1) << bit;
        struct sent s = next(&wrong);
        unsigned lost = 0;
        envelope_sent(&a, false);
        take(&b, &s);
        for (unsigned i = 0; i < 8; i++) {
            s = next(&a);
            lost += take(&b, &s) != ENVELOPE_MESSAGE;
        }
        assert_true(lost <= 1);
        assert_int_equal(b.consumed, a.sent);
        confirm(&b, &a);
        assert_int_equal(a.confirmed, a.sent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credits_run_out_and_come_back),
        cmocka_unit_test(test_damaged_messages_do_not_cut_a_peer_off),
        cmocka_unit_test(test_repeated_or_far_numbers_change_nothing),
        cmocka_unit_test(test_false_confirmations_give_no_credit),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_every_bit_is_hashed),
        cmocka_unit_test(test_wrong_numbers_heal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
