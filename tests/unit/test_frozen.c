/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_frozen: this build reads what version 1 wrote (tests/data/wire-1), and writes the same bytes again. Behind these
 * come the fields of later versions, and of the next version if this build plays that (BATON_WIRE_NEXT).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/card.h"
#include "wire/row.h"
#include "wire/table.h"
#include "with_messages.h"

#define HEAD 8u         /* of a message and a card: magic, version, type, length */
#define CARD_HASHED 16u /* a card's checksum ends there */

static uint8_t bytes[WIRE_CARD_MAX];

static uint32_t frozen(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/wire-1/%s.bin", TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s is missing", path);
    uint32_t n = (uint32_t)fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(n > HEAD);
    return n;
}

/* Requires equal bytes but for the version and the hash over it, and behind them `added` bytes of later fields. */
static void same_again(const uint8_t *again, uint32_t m, uint32_t n, uint32_t head, uint32_t added, unsigned version)
{
    assert_int_equal(m, n + added);
    assert_memory_equal(again, bytes, 2);
    assert_int_equal(bytes[2], 1);
    assert_int_equal(again[2], version);
    if (added == 0)
        assert_memory_equal(again, bytes, n);
    else
        assert_memory_equal(again + head, bytes + head, n - head);
}

static void test_messages(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_READY; type++) {
        char name[32];
        uint8_t again[WIRE_MESSAGE_MAX];
        uint64_t numbers[WIRE_LIST_MAX];
        struct wire_message m;
        snprintf(name, sizeof name, "message-%s", wire_type_name(type));
        uint32_t n = frozen(name);
        assert_int_equal(wire_decode(bytes, n, &m), 0);
        assert_int_equal(m.type, type);
        message_keep_list(&m, numbers);
        assert_int_equal(m.version, 1);
        same_again(again, wire_encode(&m, again), n, HEAD, message_late_bytes(&m), 1);
    }
}

static void test_card(void **state)
{
    (void)state;
    static uint8_t again[WIRE_CARD_MAX];
    struct wire_card card;
    uint32_t n = frozen("card");
    assert_int_equal(wire_card_decode(bytes, n, &card), 0);
    assert_int_equal(card.geometry.num_tensors, 2);
    int m = wire_card_encode(&card, again, sizeof again);
    assert_true(m > 0);
    uint32_t next = WIRE_IS_NEXT ? 8 : 0;
    same_again(again, (uint32_t)m, n, CARD_HASHED,
               3 + (WIRE_VERSION > 1 ? 41 : 0) + next, /* no groups, no splits, no own sizes of tensors */
               WIRE_VERSION);
    wire_card_free(&card);
}

static void test_row(void **state)
{
    (void)state;
    uint8_t again[WIRE_ROW_BYTES];
    struct wire_row row;
    assert_int_equal(frozen("row"), WIRE_ROW_BYTES);
    assert_int_equal(wire_row_decode(bytes, &row), 0);
    wire_row_encode(&row, again);
    uint32_t used = WIRE_ROW_BYTES - 8; /* the checksum */
    while (used > 4 && bytes[used - 1] == 0)
        used--;
    assert_memory_equal(again + 3, bytes + 3, used - 3);
    assert_int_equal(row.version, 1);
    assert_int_equal(again[2], 1);
    row.version = 0;
    wire_row_encode(&row, again);
    assert_int_equal(again[2], WIRE_VERSION);
}

static void test_table(void **state)
{
    (void)state;
    uint32_t *ids, n = frozen("table");
    uint8_t again[64];
    struct plan_tables tables;
    assert_int_equal(wire_table_decode(bytes, n, 0x11121314, UINT64_C(0x2122232425262728), &tables, &ids), 0);
    assert_int_equal(tables.num, 1);
    assert_int_equal(tables.table[0].num_blocks, 3);
    assert_int_equal(tables.table[0].first_token, 0);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 0x31323334);
    assert_int_equal(ids[2], UINT32_MAX);
    wire_table_encode(0x11121314, UINT64_C(0x2122232425262728), &tables, again);
    free(ids);
    assert_int_equal(memcmp(again, bytes, n) == 0, WIRE_VERSION == 1);
    assert_memory_equal(again + WIRE_TABLE_HEADER, bytes + WIRE_TABLE_HEADER, n - WIRE_TABLE_HEADER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_card),
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
