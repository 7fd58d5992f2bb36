/* SPDX-License-Identifier: BSD-3-Clause */
/* rings: each rank is rung once for all that it is owed, at the end of the turn or later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/rings.h"
#include "with_vicinity.h"

/* ---- memory that ends where its bytes end ------------------------------------------------------------------------ */

void *__wrap_calloc(size_t num, size_t bytes);
void __wrap_free(void *at);

static int taken; /* blocks of memory that were not freed */

/* The page behind the last byte cannot be touched. */
void *__wrap_calloc(size_t num, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = num * bytes, whole = (all + page - 1) / page * page;
    uint8_t *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + whole, page, PROT_NONE) != 0)
        return NULL;
    taken++;
    return at + whole - all;
}

void __wrap_free(void *at)
{
    taken -= at != NULL;
}

/* ---- rings ------------------------------------------------------------------------------------------------------- */

/* Rank 1 of this world is of another node. */
enum { WORLD = 4 };

struct ground {
    struct bell bell[WORLD];
    struct vicinity *vicinity;
    struct rings *rings;
};

static void open_ground(struct ground *g)
{
    static const uint32_t of_node[] = {0, 2, 3};
    g->vicinity = with_vicinity(0, WORLD, of_node, 3);
    assert_int_equal(rings_create(g->vicinity, &g->rings), 0);
    for (uint32_t i = 0; i < WORLD; i++) {
        bell_init(&g->bell[i]);
        if (i != 1)
            rings_join(g->rings, i, &g->bell[i]);
    }
}

static void close_ground(struct ground *g)
{
    rings_destroy(g->rings);
    vicinity_destroy(g->vicinity);
    assert_int_equal(taken, 0);
}

/* Each bell has rung so often. */
static void expect(struct ground *g, uint32_t a, uint32_t c, uint32_t d)
{
    assert_int_equal(bell_read(&g->bell[0]), a);
    assert_int_equal(bell_read(&g->bell[2]), c);
    assert_int_equal(bell_read(&g->bell[3]), d);
}

static void test_once_a_turn(void **state)
{
    (void)state;
    struct ground g;
    open_ground(&g);
    rings_ring(g.rings, RINGS_NOW);
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        rings_owe(g.rings, 0, RINGS_NOW);
        rings_owe(g.rings, 3, RINGS_NOW);
    }
    assert_false(rings_wait(g.rings));
    expect(&g, 0, 0, 0);
    rings_ring(g.rings, RINGS_NOW);
    expect(&g, 1, 0, 1);
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 1, 0, 1);
    close_ground(&g);
}

static void test_what_can_wait(void **state)
{
    (void)state;
    struct ground g;
    open_ground(&g);
    rings_owe(g.rings, 0, RINGS_LATER);
    rings_owe(g.rings, 2, RINGS_LATER);
    rings_owe(g.rings, 3, RINGS_NOW);
    rings_owe(g.rings, 0, RINGS_LATER);
    assert_true(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_NOW);
    expect(&g, 0, 0, 1);
    rings_owe(g.rings, 2, RINGS_NOW); /* once for both */
    rings_owe(g.rings, 2, RINGS_LATER);
    assert_true(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_NOW);
    expect(&g, 0, 1, 1);
    assert_true(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 1, 1, 1);
    assert_false(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 1, 1, 1);
    close_ground(&g);
}

/* What is owed twice is owed once: another rank's can wait all the same. */
static void test_owed_twice(void **state)
{
    (void)state;
    struct ground g;
    open_ground(&g);
    rings_owe(g.rings, 0, RINGS_NOW);
    rings_owe(g.rings, 0, RINGS_NOW);
    rings_owe(g.rings, 2, RINGS_LATER);
    assert_true(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 1, 1, 0);
    close_ground(&g);
}

static void test_what_can_wait_no_longer(void **state)
{
    (void)state;
    struct ground g;
    open_ground(&g);
    rings_owe(g.rings, 2, RINGS_LATER);
    rings_hurry(g.rings, 2);
    rings_hurry(g.rings, 3); /* it is owed nothing */
    assert_false(rings_wait(g.rings));
    rings_ring(g.rings, RINGS_NOW);
    expect(&g, 0, 1, 0);
    rings_ring(g.rings, RINGS_LATER);
    expect(&g, 0, 1, 0);
    close_ground(&g);
}

/* All ranks at once: the list has room for them, over and over. */
static void test_every_rank(void **state)
{
    (void)state;
    struct ground g;
    open_ground(&g);
    for (uint32_t turn = 1; turn <= 100; turn++) {
        for (uint32_t i = 0; i < WORLD; i++)
            if (i != 1)
                rings_owe(g.rings, i, (turn + i) % 2 == 0 ? RINGS_NOW : RINGS_LATER);
        rings_ring(g.rings, RINGS_LATER);
        expect(&g, turn, turn, turn);
    }
    close_ground(&g);
}

/* Who has gone is rung no more, whatever it was owed, and others are. Who has its rank then starts anew. */
static void test_ranks_leave(void **state)
{
    (void)state;
    static const enum rings_when owed[] = {RINGS_NONE, RINGS_LATER, RINGS_NOW};
    for (size_t i = 0; i < 3; i++) {
        struct ground g;
        struct bell next;
        open_ground(&g);
        bell_init(&next);
        rings_owe(g.rings, 0, RINGS_LATER);
        rings_owe(g.rings, 2, owed[i]);
        rings_owe(g.rings, 3, RINGS_NOW);
        rings_leave(g.rings, 2);
        assert_true(rings_wait(g.rings));
        rings_ring(g.rings, RINGS_NOW);
        expect(&g, 0, 0, 1);
        rings_join(g.rings, 2, &next);
        rings_ring(g.rings, RINGS_LATER);
        expect(&g, 1, 0, 1);
        assert_false(rings_wait(g.rings));
        rings_owe(g.rings, 2, RINGS_LATER);
        assert_true(rings_wait(g.rings));
        rings_ring(g.rings, RINGS_LATER);
        expect(&g, 1, 0, 1);
        assert_int_equal(bell_read(&next), 1);
        close_ground(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_a_turn), cmocka_unit_test(test_what_can_wait),
        cmocka_unit_test(test_owed_twice),  cmocka_unit_test(test_what_can_wait_no_longer),
        cmocka_unit_test(test_every_rank),  cmocka_unit_test(test_ranks_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
