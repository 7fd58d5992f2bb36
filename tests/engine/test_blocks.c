/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks: users are counted, names are found until a block is taken anew, and the oldest free block is taken first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/blocks.h"

static void users_are_counted(void **state)
{
    (void)state;
    struct blocks b;
    uint32_t ids[4], more[4];
    assert_int_equal(blocks_init(&b, 4), 0);
    assert_true(blocks_take(&b, 3, ids));
    assert_int_equal(b.num_free, 1);
    assert_false(blocks_take(&b, 2, more));
    assert_int_equal(b.num_free, 1);
    blocks_name(&b, ids[1], 77);
    assert_int_equal(blocks_find(&b, 77), ids[1]);
    blocks_leave(&b, ids, 3); /* one of them has another user */
    assert_int_equal(b.num_free, 3);
    blocks_leave(&b, &ids[1], 1);
    assert_int_equal(b.num_free, 4);
    assert_true(blocks_take(&b, 4, ids));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(ids[i], ids[j]);
    blocks_leave(&b, ids, 4);
    blocks_fini(&b);
}

static void names_last_until_a_block_is_taken(void **state)
{
    (void)state;
    struct blocks b;
    uint32_t ids[3], one;
    assert_int_equal(blocks_init(&b, 3), 0);
    assert_true(blocks_take(&b, 3, ids));
    blocks_name(&b, ids[0], 10);
    blocks_name(&b, ids[1], 11);
    blocks_name(&b, ids[2], 11); /* a second one of that name */
    assert_int_equal(blocks_find(&b, 12), BLOCKS_NONE);
    blocks_leave(&b, &ids[1], 1);
    blocks_leave(&b, &ids[0], 1);
    blocks_leave(&b, &ids[2], 1);
    assert_true(blocks_take(&b, 1, &one)); /* the one that nobody can find */
    assert_int_equal(one, ids[2]);
    assert_true(blocks_take(&b, 1, &one)); /* then the one that was left first */
    assert_int_equal(one, ids[1]);
    assert_int_equal(blocks_find(&b, 11), BLOCKS_NONE);
    assert_int_equal(blocks_find(&b, 10), ids[0]);
    assert_int_equal(b.num_free, 0);
    blocks_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(users_are_counted),
                                       cmocka_unit_test(names_last_until_a_block_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
