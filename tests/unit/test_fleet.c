/* SPDX-License-Identifier: BSD-3-Clause */
/* fleet: engines come out by name, with what their rows said; and whole, whoever comes and goes meanwhile. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "front/fleet.h"

#define ENGINES 8
#define TP 2
#define PP 2
#define RANKS (ENGINES * TP * PP)
#define THREADS 4
#define PERIOD_NS UINT64_C(400000) /* between two changes: at least 1,000 a second each of joins and leaves */
#define CHANGES 3000
#define LATE_NS UINT64_C(60000000000)

/* Not in the order of their names; the ranks of an engine lie on two hosts. */
static const char *const names[ENGINES] = {"m", "b", "z", "a-1", "a", "prefill10", "prefill9", "c.d"};
static const char *const in_order[ENGINES] = {"a", "a-1", "b", "c.d", "m", "prefill10", "prefill9", "z"};

static struct directory *directory_make(void)
{
    static uint8_t rows[RANKS * WIRE_ROW_BYTES];
    struct directory *d;
    struct plan_why why;
    for (uint32_t r = 0; r < RANKS; r++) {
        const uint32_t e = r / (TP * PP), i = r % (TP * PP);
        struct wire_row row = {.number = 1000 + r,
                               .life = 77 + e,
                               .role = (uint8_t)(e % 2 == 0 ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE),
                               .tp = TP,
                               .pp = PP,
                               .tp_rank = (uint16_t)(i % TP),
                               .pp_rank = (uint16_t)(i / TP),
                               .node = i / TP,
                               .package = UINT32_MAX,
                               .numa = UINT32_MAX};
        snprintf(row.engine, sizeof row.engine, "%s", names[e]);
        snprintf(row.host, sizeof row.host, "host%u", i / TP);
        wire_row_encode(&row, rows + (size_t)r * WIRE_ROW_BYTES);
    }
    assert_int_equal(directory_of_world(rows, RANKS, &d, &why), 0);
    return d;
}

static void check_engine(const struct fleet_engine *engine, uint32_t self)
{
    const uint32_t e = engine->index;
    assert_string_equal(engine->name, names[e]);
    assert_int_equal(engine->life, 77 + e);
    assert_int_equal(engine->role, e % 2 == 0 ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE);
    assert_int_equal(engine->tp, TP);
    assert_int_equal(engine->pp, PP);
    assert_int_equal(engine->num_ranks, TP * PP);
    for (uint32_t i = 0; i < TP * PP; i++) {
        const struct fleet_rank *rank = &engine->ranks[i];
        char host[WIRE_HOST_MAX];
        snprintf(host, sizeof host, "host%u", i / TP);
        assert_int_equal(rank->rank, e * TP * PP + i);
        assert_int_equal(rank->number, 1000 + rank->rank);
        assert_string_equal(rank->host, host);
        assert_int_equal(rank->distance == BATON_DISTANCE_SELF, rank->rank == self);
        assert_int_equal(rank->distance == BATON_DISTANCE_WORLD, i / TP != self % (TP * PP) / TP);
    }
    const uint32_t near = self % (TP * PP) / TP * TP; /* the first rank on this host */
    assert_int_equal(engine->nearest, e == self / (TP * PP) ? self % (TP * PP) : near);
}

static void test_all_come_by_name(void **state)
{
    (void)state;
    const uint32_t self = 11; /* the last rank of its engine */
    struct directory *d = directory_make();
    struct fleet *r = fleet_create();
    unsigned place;
    uint64_t life = 0;
    baton_distance_t distance = BATON_DISTANCE_SELF;
    assert_non_null(r);
    assert_int_equal(fleet_number(r), 0);
    assert_int_equal(fleet_read(r, &place)->num_engines, 0);
    fleet_done(r, place);
    assert_int_equal(fleet_publish_all(r, d, self), 0);
    const struct fleet_version *v = fleet_read(r, &place);
    assert_int_equal(v->number, 1);
    assert_int_equal(v->num_engines, ENGINES);
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_string_equal(v->engines[i]->name, in_order[i]);
        assert_ptr_equal(fleet_named(v, in_order[i]), v->engines[i]);
        check_engine(v->engines[i], self);
    }
    fleet_done(r, place);
    for (uint32_t e = 0; e < ENGINES; e++) {
        assert_int_equal(fleet_find(r, names[e], &life, &distance), e);
        assert_int_equal(life, 77 + e);
        assert_int_equal(distance, e == self / (TP * PP) ? BATON_DISTANCE_SELF : BATON_DISTANCE_NODE);
    }
    char longer[BATON_ENGINE_NAME_MAX + 2];
    memset(longer, 'm', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    static const char *const not_there[] = {"", "prefill", "prefill1", "prefill100", "zz", "A"};
    for (size_t i = 0; i < sizeof not_there / sizeof not_there[0]; i++)
        assert_int_equal(fleet_find(r, not_there[i], &life, &distance), DIRECTORY_NONE);
    assert_int_equal(fleet_find(r, longer, &life, &distance), DIRECTORY_NONE);
    fleet_destroy(r);
    directory_destroy(d);
}

static void test_a_record_lives_as_long_as_a_version_has_it(void **state)
{
    (void)state;
    struct directory *d = directory_make();
    struct fleet *r = fleet_create();
    unsigned held;
    uint64_t life = 0;
    baton_distance_t distance = BATON_DISTANCE_SELF;
    assert_int_equal(fleet_publish(r, d, 0, 1), 0);
    assert_int_equal(fleet_publish(r, d, 0, 0), 0);
    assert_int_equal(fleet_publish(r, d, 0, 1), BATON_EEXIST);
    assert_int_equal(fleet_publish_all(r, d, 0), BATON_EEXIST);
    assert_int_equal(fleet_number(r), 2);
    const struct fleet_version *v = fleet_read(r, &held);
    assert_int_equal(fleet_withdraw(r, "b", 77), 0); /* another life, as of one that has gone since */
    assert_int_equal(fleet_withdraw(r, "c.d", 84), 0);
    assert_int_equal(fleet_number(r), 2);
    assert_int_equal(fleet_withdraw(r, "b", 78), 0);
    assert_int_equal(fleet_number(r), 3);
    assert_int_equal(fleet_find(r, "b", &life, &distance), DIRECTORY_NONE);
    assert_int_equal(fleet_find(r, "m", &life, &distance), 0);
    assert_int_equal(v->num_engines, 2);
    check_engine(v->engines[0], 0);
    check_engine(v->engines[1], 0);
    d->engines[1]->life = 500; /* it starts again */
    assert_int_equal(fleet_publish(r, d, 0, 1), 0);
    assert_int_equal(fleet_find(r, "b", &life, &distance), 1);
    assert_int_equal(life, 500);
    assert_int_equal(fleet_named(v, "b")->life, 78);
    fleet_done(r, held);
    fleet_destroy(r);
    directory_destroy(d);
}

/* ---- joins and leaves while threads read ------------------------------------------------------------------------- */

struct stage {
    struct fleet *fleet;
    _Atomic uint64_t number; /* of a version that was published */
    _Atomic bool is_over;
    _Atomic unsigned wrong;
    _Atomic uint64_t finds, copies, found;
};

/* The life of an engine says which one it is. */
static uint64_t life_of(uint64_t number, uint32_t engine)
{
    return number * ENGINES + engine;
}

static void *find_always(void *arg)
{
    struct stage *s = arg;
    for (uint32_t e = 0; !atomic_load(&s->is_over); e = (e + 1) % ENGINES) {
        uint64_t life = 0;
        baton_distance_t distance = BATON_DISTANCE_SELF;
        const uint32_t index = fleet_find(s->fleet, names[e], &life, &distance);
        if (index != DIRECTORY_NONE && (index != e || life % ENGINES != e))
            atomic_fetch_add(&s->wrong, 1);
        atomic_fetch_add(&s->finds, 1);
        atomic_fetch_add(&s->found, index != DIRECTORY_NONE);
    }
    return NULL;
}

static bool is_good(const struct fleet_version *v)
{
    for (uint32_t i = 0; i < v->num_engines; i++) {
        const struct fleet_engine *e = v->engines[i];
        if (e->life % ENGINES != e->index || strcmp(e->name, names[e->index]) != 0 ||
            (i > 0 && strcmp(v->engines[i - 1]->name, e->name) >= 0))
            return false;
        for (uint32_t k = 0; k < e->num_ranks; k++)
            if (e->ranks[k].number != 1000 + e->ranks[k].rank)
                return false;
    }
    return true;
}

static void *copy_always(void *arg)
{
    struct stage *s = arg;
    while (!atomic_load(&s->is_over)) {
        unsigned place;
        const uint64_t least = atomic_load(&s->number);
        const struct fleet_version *v = fleet_read(s->fleet, &place);
        if (v->number < least || !is_good(v))
            atomic_fetch_add(&s->wrong, 1);
        if (atomic_fetch_add(&s->copies, 1) % 16 == 0)
            sched_yield();
        if (!is_good(v))
            atomic_fetch_add(&s->wrong, 1);
        fleet_done(s->fleet, place);
    }
    return NULL;
}

static void change(struct stage *s, struct directory *d, uint64_t n)
{
    const uint32_t e = (uint32_t)(n * 5 % ENGINES); /* all in turn, in no order of theirs */
    struct directory_engine *engine = d->engines[e];
    if (n / ENGINES % 2 == 0) {
        engine->life = life_of(n, e);
        assert_int_equal(fleet_publish(s->fleet, d, 0, e), 0);
    } else {
        assert_int_equal(fleet_withdraw(s->fleet, engine->name, engine->life), 0);
    }
}

static void test_joins_and_leaves_while_threads_read(void **state)
{
    (void)state;
    struct directory *d = directory_make();
    struct stage s = {.fleet = fleet_create()};
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 == 0 ? find_always : copy_always, &s), 0);
    const uint64_t late = clock_now_ns() + LATE_NS;
    uint64_t next = clock_now_ns();
    for (uint64_t n = 0; n < CHANGES && clock_now_ns() < late; n++, next += PERIOD_NS) {
        while (clock_now_ns() < next)
            sched_yield();
        change(&s, d, n);
        atomic_store(&s.number, n + 1);
    }
    atomic_store(&s.is_over, true);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(fleet_number(s.fleet), CHANGES);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_true(atomic_load(&s.copies) > 0 && atomic_load(&s.found) > 0);
    assert_true(atomic_load(&s.found) < atomic_load(&s.finds));
    fleet_destroy(s.fleet);
    directory_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come_by_name),
        cmocka_unit_test(test_a_record_lives_as_long_as_a_version_has_it),
        cmocka_unit_test(test_joins_and_leaves_while_threads_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
