/* SPDX-License-Identifier: BSD-3-Clause */
/* timer: against a plain array. lease: generations, and the arena of tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/lease.h"
#include "core/timer.h"
#include "wire/table.h"

static void never(struct core *core, struct timer *timer)
{
    (void)core, (void)timer;
}

static void test_timers_like_an_array(void **state)
{
    (void)state;
    enum { N = 64 };
    static struct timer timers[N];
    struct timers heap = {0};
    uint64_t now = 0;
    srand(3);
    for (int step = 0; step < 100000; step++) {
        struct timer *t = &timers[rand() % N];
        switch (rand() % 3) {
        case 0:
            timer_arm(&heap, t, now + (uint64_t)(rand() % 1000), never);
            break;
        case 1:
            timer_stop(&heap, t);
            assert_false(t->armed);
            break;
        case 2:
            now += (uint64_t)(rand() % 20);
            while ((t = timer_due(&heap, now)) != NULL) {
                assert_true(t->due_ns <= now);
                for (int i = 0; i < N; i++)
                    assert_false(timers[i].armed && timers[i].due_ns < t->due_ns);
            }
            break;
        }
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < N; i++)
            if (timers[i].armed && timers[i].due_ns < least)
                least = timers[i].due_ns;
        assert_int_equal(timer_next(&heap), least);
    }
}

static void test_generations_never_repeat(void **state)
{
    (void)state;
    static uint64_t arena[1024];
    struct leases *l = leases_create(2, 100, (uint8_t *)arena, sizeof arena);
    const uint32_t blocks[] = {5, 9, 7};
    struct lease a, b, c;
    const struct plan_tables three = {.num = 1, .table = {{.blocks = blocks, .num_blocks = 3}}};
    struct plan_tables out;
    uint32_t *ids;
    assert_int_equal(lease_open(l, &three, 3, &a), 0);
    assert_int_equal(lease_open(l, &three, 3, &b), 0);
    assert_true(a.slot != b.slot);
    assert_true(a.generation != b.generation); /* a message that names a generation is about one lease only */
    assert_int_equal(lease_open(l, &three, 3, &c), BATON_EAGAIN);
    assert_int_equal(
        wire_table_decode((uint8_t *)arena + a.table_offset, a.table_bytes, a.slot, a.generation, &out, &ids), 0);
    assert_int_equal(out.table[0].num_blocks, 3);
    assert_memory_equal(ids, blocks, sizeof blocks);
    free(ids);
    uint64_t ended = lease_end(l, &a);
    assert_true(ended > a.generation);
    assert_int_equal(lease_open(l, &three, 3, &c), 0);
    assert_int_equal(c.slot, a.slot);
    assert_true(c.generation > ended);
    assert_int_equal(
        wire_table_decode((uint8_t *)arena + c.table_offset, c.table_bytes, a.slot, a.generation, &out, &ids),
        BATON_ESTALE); /* the old generation finds nothing */
    leases_destroy(l);
}

/* A table that grows stays in its place, whatever others come and go. In the end all room is given back. */
static void test_a_growing_table(void **state)
{
    (void)state;
    enum { MOST = 2040 };
    static uint64_t arena[1024];
    static uint32_t blocks[MOST];
    struct leases *l = leases_create(2, 100, (uint8_t *)arena, sizeof arena);
    struct plan_tables t = {.num = 1, .table = {{blocks, 0, 0}}}, out;
    struct lease a, b;
    uint32_t *ids;
    assert_int_equal(lease_open(l, &t, MOST, &a), 0);
    assert_int_equal(lease_open(l, &t, 1, &b), BATON_EAGAIN);
    for (uint32_t n = 1; n <= MOST; n++) {
        blocks[n - 1] = n * 7;
        t.table[0].num_blocks = n;
        lease_rewrite(l, &t, &a);
    }
    assert_int_equal(
        wire_table_decode((uint8_t *)arena + a.table_offset, a.table_bytes, a.slot, a.generation, &out, &ids), 0);
    assert_int_equal(out.table[0].num_blocks, MOST);
    assert_memory_equal(ids, blocks, sizeof blocks);
    free(ids);
    lease_end(l, &a);
    assert_int_equal(lease_open(l, &t, MOST, &a), 0);
    lease_end(l, &a);
    leases_destroy(l);
}

/* Random lengths come and go: tables never overlap, and when all are gone the whole arena is one piece again. */
static void test_arena(void **state)
{
    (void)state;
    enum { SLOTS = 32, BYTES = 8192 };
    static uint64_t arena[BYTES / 8];
    static uint32_t blocks[BYTES];
    struct leases *l = leases_create(SLOTS, 0, (uint8_t *)arena, sizeof arena);
    struct lease open[SLOTS];
    unsigned n = 0, full = 0;
    srand(4);
    for (int step = 0; step < 20000; step++) {
        if (rand() % 2 && n < SLOTS) {
            struct plan_tables t = {.num = 1, .table = {{blocks, 1 + (uint32_t)rand() % 200, 0}}};
            int rc = lease_open(l, &t, t.table[0].num_blocks, &open[n]);
            full += rc != 0;
            n += rc == 0;
        } else if (n > 0) {
            unsigned i = (unsigned)rand() % n;
            lease_end(l, &open[i]);
            open[i] = open[--n];
        }
        for (unsigned i = 0; i < n; i++) {
            assert_true(open[i].table_offset + open[i].table_bytes <= BYTES);
            for (unsigned k = 0; k < i; k++)
                assert_true(open[i].table_offset + open[i].table_bytes <= open[k].table_offset ||
                            open[k].table_offset + open[k].table_bytes <= open[i].table_offset);
        }
    }
    assert_true(full > 0);
    while (n > 0)
        lease_end(l, &open[--n]);
    assert_int_equal(leases_live(l), 0);
    struct plan_tables all = {.num = 1, .table = {{blocks, (BYTES - WIRE_TABLE_HEADER) / 4, 0}}};
    assert_int_equal(lease_open(l, &all, all.table[0].num_blocks, &open[0]), 0);
    assert_int_equal(open[0].table_bytes, BYTES);
    leases_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers_like_an_array),
        cmocka_unit_test(test_generations_never_repeat),
        cmocka_unit_test(test_a_growing_table),
        cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
