/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory: ranks of good worlds come out in order, and each contradiction is refused with a sentence that names it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "core/directory.h"
#include "wire/version.h"
#include "with_bytes.h"
#include "with_clock.h"

#define RANKS_MAX 1100

static struct wire_row world[RANKS_MAX];
static uint32_t world_size;

static void clear(void)
{
    world_size = 0;
}

/** Adds the next rank of the world. Its box and places differ from those of all others. */
static struct wire_row *add(const char *engine, uint16_t tp, uint16_t pp, uint16_t tp_rank, uint16_t pp_rank)
{
    struct wire_row *row = &world[world_size];
    memset(row, 0, sizeof *row);
    strcpy(row->engine, engine);
    row->role = BATON_ROLE_BOTH;
    row->tp = tp;
    row->pp = pp;
    row->tp_rank = tp_rank;
    row->pp_rank = pp_rank;
    row->node = world_size / 4;
    row->package = world_size + 100;
    row->numa = world_size + 200;
    row->box[0] = (struct plan_box){pp_rank * 10u, 10, tp_rank * 2u, 2, 0};
    row->number = world_size + 1;
    world_size++;
    return row;
}

static void add_engine(const char *engine, uint16_t tp, uint16_t pp)
{
    for (uint16_t p = 0; p < pp; p++) {
        for (uint16_t t = 0; t < tp; t++) {
            add(engine, tp, pp, t, p);
        }
    }
}

static uint8_t *encode_world(void)
{
    uint8_t *rows = malloc((size_t)world_size * WIRE_ROW_BYTES + 1);
    assert_non_null(rows);
    for (uint32_t i = 0; i < world_size; i++) {
        wire_row_encode(&world[i], rows + (size_t)i * WIRE_ROW_BYTES);
    }
    return rows;
}

static int create(struct directory **out, struct plan_why *why)
{
    uint8_t *rows = encode_world();
    memset(why, 0, sizeof *why);
    int rc = directory_create(rows, world_size, out, why);
    free(rows);
    return rc;
}

/** Makes the directory, and checks what must hold of any: each rank is found where its row says, in both directions. */
static struct directory *created(void)
{
    struct directory *d = NULL;
    struct plan_why why;
    assert_int_equal(create(&d, &why), 0);
    assert_int_equal(d->num_ranks, world_size);
    uint32_t placed = 0;
    for (uint32_t e = 0; e < d->num_engines; e++) {
        placed += d->engines[e].num_ranks;
        assert_int_equal(directory_find(d, d->engines[e].name), e);
    }
    assert_int_equal(placed, world_size);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const struct wire_row *row = &world[rank];
        const struct directory_engine *engine = &d->engines[d->engine_of[rank]];
        uint32_t index = d->index_of[rank];
        assert_string_equal(engine->name, row->engine);
        assert_string_equal(d->rows[rank].engine, row->engine);
        assert_int_equal(engine->num_ranks, row->tp * row->pp);
        assert_int_equal(index, row->pp_rank * row->tp + row->tp_rank);
        assert_int_equal(engine->ranks[index], rank);
        assert_memory_equal(&engine->members[index].box, &row->box, sizeof row->box);
        assert_int_equal(engine->members[index].node, row->node);
        assert_int_equal(engine->members[index].package, row->package);
        assert_int_equal(engine->members[index].numa, row->numa);
    }
    return d;
}

/** Requires that the world is refused with that error and a sentence that has each of the words (up to NULL). */
static void refused(int error, ...)
{
    struct directory *d = NULL;
    struct plan_why why;
    assert_int_equal(create(&d, &why), error);
    assert_null(d);
    assert_non_null(memchr(why.text, '\0', sizeof why.text));
    va_list words;
    va_start(words, error);
    for (const char *word = va_arg(words, const char *); word != NULL; word = va_arg(words, const char *)) {
        if (strstr(why.text, word) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", why.text, word);
        }
    }
    va_end(words);
}

/* ---- good worlds ------------------------------------------------------------------------------------------------- */

static void one_rank_is_a_world(void **state)
{
    (void)state;
    clear();
    add("e", 1, 1, 0, 0);
    struct directory *d = created();
    assert_int_equal(d->num_engines, 1);
    directory_destroy(d);
}

static void engines_come_in_order_of_their_lowest_rank(void **state)
{
    (void)state;
    clear();
    add_engine("zeta", 2, 2);
    add_engine("alpha", 4, 1);
    add_engine("m.i-d_1", 1, 3);
    struct directory *d = created();
    assert_int_equal(d->num_engines, 3);
    assert_int_equal(directory_find(d, "zeta"), 0);
    assert_int_equal(directory_find(d, "alpha"), 1);
    assert_int_equal(directory_find(d, "m.i-d_1"), 2);
    directory_destroy(d);
}

static void ranks_of_engines_may_interleave_and_come_in_any_order(void **state)
{
    (void)state;
    clear();
    add("b", 2, 2, 1, 1);
    add("a", 3, 1, 2, 0);
    add("b", 2, 2, 0, 0);
    add("a", 3, 1, 0, 0);
    add("b", 2, 2, 1, 0);
    add("a", 3, 1, 1, 0);
    add("b", 2, 2, 0, 1);
    struct directory *d = created();
    const uint32_t b[] = {2, 4, 6, 0}, a[] = {3, 5, 1};
    assert_int_equal(directory_find(d, "b"), 0);
    assert_memory_equal(d->engines[0].ranks, b, sizeof b);
    assert_memory_equal(d->engines[1].ranks, a, sizeof a);
    directory_destroy(d);
}

static void replicas_may_differ_in_every_size(void **state)
{
    (void)state;
    clear();
    add_engine("decode-0", 1, 1);
    add_engine("decode-1", 8, 1);
    add_engine("decode-2", 2, 4);
    add_engine("decode-10", 3, 5);
    struct directory *d = created();
    assert_int_equal(d->num_engines, 4);
    directory_destroy(d);
}

static void shuffled_worlds_come_out_whole(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 50; round++) {
        char name[BATON_ENGINE_NAME_MAX];
        clear();
        uint32_t engines = 1 + (uint32_t)(bytes_random(&seed) % 12);
        for (uint32_t e = 0; e < engines; e++) {
            snprintf(name, sizeof name, "engine-%u", e);
            add_engine(name, (uint16_t)(1 + bytes_random(&seed) % 6), (uint16_t)(1 + bytes_random(&seed) % 4));
        }
        for (uint32_t i = world_size - 1; i > 0; i--) {
            uint32_t j = (uint32_t)(bytes_random(&seed) % (i + 1));
            struct wire_row row = world[i];
            world[i] = world[j];
            world[j] = row;
        }
        struct directory *d = created();
        assert_int_equal(d->num_engines, engines);
        uint32_t lowest = 0; /* engines are in the order of their lowest ranks */
        for (uint32_t rank = 0; rank < world_size; rank++) {
            assert_true(d->engine_of[rank] <= lowest);
            lowest += d->engine_of[rank] == lowest;
            assert_ptr_equal(d->engines[d->engine_of[rank]].hosts[d->index_of[rank]], d->rows[rank].host);
            assert_int_equal(directory_rank(d, d->rows[rank].number), rank);
            assert_true(d->engines[d->engine_of[rank]].life == d->rows[d->engines[d->engine_of[rank]].ranks[0]].number);
        }
        directory_destroy(d);
    }
}

static void an_engine_of_the_greatest_size_is_taken(void **state)
{
    (void)state;
    clear();
    add_engine("huge", 64, BATON_ENGINE_RANKS_MAX / 64);
    add_engine("small", 1, 1);
    struct directory *d = created();
    assert_int_equal(d->engines[0].num_ranks, BATON_ENGINE_RANKS_MAX);
    directory_destroy(d);
}

#define LONGEST "a-name-of-all-sixty-three-bytes--a-name-of-all-sixty-three-byte"

static void names_are_compared_whole(void **state)
{
    (void)state;
    clear();
    add_engine("decode", 1, 1);
    add_engine("decode-1", 1, 1);
    add_engine("Decode", 1, 1);
    add_engine(LONGEST, 1, 1);
    struct directory *d = created();
    assert_int_equal(d->num_engines, 4);
    assert_int_equal(directory_find(d, "decod"), DIRECTORY_NONE);
    assert_int_equal(directory_find(d, "decode-"), DIRECTORY_NONE);
    assert_int_equal(directory_find(d, ""), DIRECTORY_NONE);
    assert_int_equal(directory_find(d, LONGEST), 3);
    assert_int_equal(directory_find(d, LONGEST "x"), DIRECTORY_NONE);
    directory_destroy(d);
}

static void destroying_nothing_is_no_error(void **state)
{
    (void)state;
    directory_destroy(NULL);
}

/* ---- contradictions ---------------------------------------------------------------------------------------------- */

static void ranks_must_agree_on_tp(void **state)
{
    (void)state;
    clear();
    add("first", 1, 1, 0, 0);
    add("prefill", 2, 1, 0, 0);
    add("prefill", 4, 1, 1, 0);
    refused(BATON_EGEOMETRY, "engine prefill", "rank 1 ", "rank 2 ", "tp 2", "tp 4", NULL);
}

static void ranks_must_agree_on_pp(void **state)
{
    (void)state;
    clear();
    add("prefill", 2, 2, 0, 0);
    add("prefill", 2, 2, 1, 0);
    add("prefill", 2, 2, 0, 1);
    add("prefill", 2, 3, 1, 1);
    refused(BATON_EGEOMETRY, "engine prefill", "rank 3 ", "pp 2", "pp 3", NULL);
}

static void no_two_ranks_may_have_one_place(void **state)
{
    (void)state;
    clear();
    add("other", 1, 1, 0, 0);
    add("decode", 2, 2, 0, 0);
    add("decode", 2, 2, 1, 0);
    add("decode", 2, 2, 0, 1);
    add("decode", 2, 2, 1, 0);
    refused(BATON_EGEOMETRY, "engine decode", "ranks 2 and 4", "tp_rank 1", "pp_rank 0", NULL);
}

static void more_ranks_than_places_are_refused(void **state)
{
    (void)state;
    clear();
    add_engine("solo", 1, 1);
    add_engine("solo", 1, 1);
    refused(BATON_EGEOMETRY, "engine solo", "ranks 0 and 1", NULL);
}

static void every_place_must_have_a_rank(void **state)
{
    (void)state;
    clear();
    add_engine("whole", 2, 1);
    add("decode", 2, 2, 0, 0);
    add("decode", 2, 2, 1, 0);
    add("decode", 2, 2, 1, 1);
    refused(BATON_EGEOMETRY, "engine decode", "4 ranks", "rank 2 is missing", NULL); /* by its index */
}

static void an_engine_past_the_limit_is_refused(void **state)
{
    (void)state;
    clear();
    add("giant", BATON_ENGINE_RANKS_MAX + 1, 1, 0, 0);
    refused(BATON_EGEOMETRY, "engine giant", "1025", "1024", NULL);
    clear();
    add("giant", UINT16_MAX, UINT16_MAX, UINT16_MAX - 1, UINT16_MAX - 1);
    refused(BATON_EGEOMETRY, "engine giant", "65535", "1024", NULL);
}

static void a_later_rank_cannot_enlarge_its_engine(void **state)
{
    (void)state;
    clear(); /* its place would lie far outside of the first rank's tp x pp */
    add("decode", 1, 1, 0, 0);
    add("decode", 32, 32, 31, 31);
    refused(BATON_EGEOMETRY, "engine decode", "rank 0 ", "rank 1 ", NULL);
}

static void members_have_numbers_of_their_own(void **state)
{
    (void)state;
    clear();
    add_engine("decode", 2, 2);
    world[3].number = UINT64_C(1) << 40 | world[0].number; /* their places in a table of few are the same */
    struct directory *d = created();
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(directory_rank(d, world[rank].number), rank);
    assert_int_equal(directory_rank(d, 77), DIRECTORY_NONE);
    assert_int_equal(directory_rank(d, UINT64_C(1) << 41 | world[0].number), DIRECTORY_NONE);
    directory_destroy(d);
    world[3].number = world[1].number;
    refused(BATON_EMESSAGE, "ranks 1 and 3 have the same number", NULL);
}

static void an_engine_has_one_life(void **state)
{
    (void)state;
    clear();
    add_engine("given", 1, 2);
    add_engine("decode", 1, 1);
    world[0].life = world[1].life = 7;
    struct directory *d = created();
    assert_true(d->engines[0].life == 7 && d->engines[1].life == world[2].number);
    directory_destroy(d);
    world[1].life = 8;
    refused(BATON_EGEOMETRY, "engine given", "ranks 0 and 1 are of different lives", NULL);
}

static void a_damaged_row_names_its_rank(void **state)
{
    (void)state;
    clear();
    add_engine("prefill", 3, 1);
    uint8_t *rows = encode_world();
    for (uint32_t rank = 0; rank < world_size; rank++) {
        char word[16];
        struct directory *d = NULL;
        struct plan_why why;
        rows[rank * WIRE_ROW_BYTES + 50] ^= 0x10;
        assert_int_equal(directory_create(rows, world_size, &d, &why), BATON_EMESSAGE);
        assert_null(d);
        snprintf(word, sizeof word, "rank %u", rank);
        assert_non_null(strstr(why.text, word));
        rows[rank * WIRE_ROW_BYTES + 50] ^= 0x10;
    }
    free(rows);
}

static void a_sentence_fits_with_the_longest_name_and_numbers(void **state)
{
    (void)state;
    const char *name = LONGEST;
    clear();
    add(name, UINT16_MAX, UINT16_MAX, 0, 0);
    refused(BATON_EGEOMETRY, name, NULL);
    clear();
    add(name, 1, BATON_ENGINE_RANKS_MAX, 0, 0);
    add(name, BATON_ENGINE_RANKS_MAX, 1, 1000, 0);
    refused(BATON_EGEOMETRY, name, "rank 0 ", "rank 1 ", "tp 1024", NULL);
}

/* Two ranks speak the older version of theirs. */
static void the_older_version_is_spoken(void **state)
{
    (void)state;
    clear();
    add_engine("new", 1, 1);
    add_engine("mixed", 2, 1);
    world[0].version = world[1].version = WIRE_VERSION + 1;
    struct directory *d = created();
    assert_int_equal(directory_version(d, 0, 1), WIRE_VERSION + 1);
    assert_int_equal(directory_version(d, 0, 2), WIRE_VERSION);
    assert_int_equal(directory_version(d, 2, 1), WIRE_VERSION);
    directory_destroy(d);
}

/* Ranks of one engine must hold the same model. Ranks without a cache do not say which they hold. */
static void caches_of_one_engine_that_differ(void **state)
{
    (void)state;
    clear();
    add_engine("prefill", 4, 1);
    add_engine("decode", 2, 1);
    for (uint32_t i = 1; i < 4; i++) {
        world[i].model = 77;
        world[i].block_tokens = 16;
    }
    world[4].model = world[5].model = 78; /* engines may differ: they find that out when they meet */
    world[4].block_tokens = world[5].block_tokens = 32;
    directory_destroy(created());
    world[3].model = 79;
    refused(BATON_EGEOMETRY, "engine prefill", "ranks 1 and 3", "model", NULL);
    world[3].model = 77;
    world[2].block_tokens = 32;
    refused(BATON_EGEOMETRY, "engine prefill", "rank 1 ", "block_tokens 16", "rank 2 ", "32", NULL);
}

/* The quickest of several rounds of 1,000 look-ups among so many engines, in ns a look-up. */
static double find_ns(uint32_t engines)
{
    uint8_t *rows = malloc((size_t)engines * WIRE_ROW_BYTES);
    struct directory *d;
    struct plan_why why;
    double least = 1e9;
    assert_non_null(rows);
    for (uint32_t i = 0; i < engines; i++) {
        struct wire_row row = {.role = BATON_ROLE_BOTH, .tp = 1, .pp = 1, .number = i + 1};
        snprintf(row.engine, sizeof row.engine, "engine%u", i);
        wire_row_encode(&row, rows + (size_t)i * WIRE_ROW_BYTES);
    }
    assert_int_equal(directory_create(rows, engines, &d, &why), 0);
    for (int round = 0; round < 20; round++) {
        double before = thread_cpu_ms();
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t e = i * 2654435761u % engines;
            assert_true(directory_find(d, d->engines[e].name) == e);
        }
        double took = (thread_cpu_ms() - before) * 1e3;
        least = took < least ? took : least;
    }
    directory_destroy(d);
    free(rows);
    return least;
}

/* A walk over all engines would take 400 times as long. */
static void names_are_found_among_many(void **state)
{
    (void)state;
    double few = find_ns(10), many = find_ns(10000);
    print_message("a name among 10 engines: %.0f ns, among 10,000: %.0f ns\n", few, many);
    assert_true(many < 10 * few + 1000);
}

static void distances_are_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t node, package, numa;
    } place[] = {{0, 0, 0},          {0, 0, 0},
                 {0, 0, 1},          {0, 1, 2},
                 {1, 0, 0},          {0, UINT32_MAX, UINT32_MAX},
                 {0, 0, UINT32_MAX}, {0, UINT32_MAX, UINT32_MAX}};
    static const baton_distance_t of_first[] = {BATON_DISTANCE_SELF,    BATON_DISTANCE_NUMA,  BATON_DISTANCE_PACKAGE,
                                                BATON_DISTANCE_NODE,    BATON_DISTANCE_WORLD, BATON_DISTANCE_NODE,
                                                BATON_DISTANCE_PACKAGE, BATON_DISTANCE_NODE};
    clear();
    add_engine("a", 2, 1);
    add_engine("b", 6, 1);
    for (uint32_t i = 0; i < world_size; i++) {
        world[i].node = place[i].node;
        world[i].package = place[i].package;
        world[i].numa = place[i].numa;
    }
    for (uint32_t rank = 0; rank < world_size; rank++) {
        struct directory *d = created();
        const struct directory_engine *a = &d->engines[0], *b = &d->engines[1];
        assert_null(a->distances);
        assert_int_equal(directory_measure(d, rank), 0);
        assert_int_equal(a->distances[0], of_first[rank]);
        for (uint32_t i = 0; rank == 0 && i < world_size; i++)
            assert_int_equal(i < 2 ? a->distances[i] : b->distances[i - 2], of_first[i]);
        if (rank == 5)
            assert_int_equal(b->distances[7 - 2], BATON_DISTANCE_NODE); /* unknown places are not the same place */
        directory_destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_among_many),
        cmocka_unit_test(caches_of_one_engine_that_differ),
        cmocka_unit_test(one_rank_is_a_world),
        cmocka_unit_test(engines_come_in_order_of_their_lowest_rank),
        cmocka_unit_test(ranks_of_engines_may_interleave_and_come_in_any_order),
        cmocka_unit_test(replicas_may_differ_in_every_size),
        cmocka_unit_test(shuffled_worlds_come_out_whole),
        cmocka_unit_test(an_engine_of_the_greatest_size_is_taken),
        cmocka_unit_test(names_are_compared_whole),
        cmocka_unit_test(destroying_nothing_is_no_error),
        cmocka_unit_test(ranks_must_agree_on_tp),
        cmocka_unit_test(ranks_must_agree_on_pp),
        cmocka_unit_test(no_two_ranks_may_have_one_place),
        cmocka_unit_test(more_ranks_than_places_are_refused),
        cmocka_unit_test(every_place_must_have_a_rank),
        cmocka_unit_test(an_engine_past_the_limit_is_refused),
        cmocka_unit_test(a_later_rank_cannot_enlarge_its_engine),
        cmocka_unit_test(the_older_version_is_spoken),
        cmocka_unit_test(members_have_numbers_of_their_own),
        cmocka_unit_test(an_engine_has_one_life),
        cmocka_unit_test(a_damaged_row_names_its_rank),
        cmocka_unit_test(a_sentence_fits_with_the_longest_name_and_numbers),
        cmocka_unit_test(distances_are_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
