/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory: ranks of good worlds come out in order, and each contradiction is refused with a sentence that names it.
 * Members that come and go leave nothing behind, and a naive list of them says the same at each moment.
 */
#include <malloc.h>
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
    int rc = directory_of_world(rows, world_size, out, why);
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
        placed += d->engines[e]->num_ranks;
        assert_int_equal(directory_find(d, d->engines[e]->name), e);
    }
    assert_int_equal(placed, world_size);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        const struct wire_row *row = &world[rank];
        const struct directory_engine *engine = d->engines[d->engine_of[rank]];
        uint32_t index = d->index_of[rank];
        assert_string_equal(engine->name, row->engine);
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
    assert_memory_equal(d->engines[0]->ranks, b, sizeof b);
    assert_memory_equal(d->engines[1]->ranks, a, sizeof a);
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
            assert_int_equal(d->engines[d->engine_of[rank]]->ranks[d->index_of[rank]], rank);
            assert_int_equal(directory_rank(d, d->rows[rank].number), rank);
            assert_true(d->engines[d->engine_of[rank]]->life ==
                        d->rows[d->engines[d->engine_of[rank]]->ranks[0]].number);
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
    assert_int_equal(d->engines[0]->num_ranks, BATON_ENGINE_RANKS_MAX);
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
    refused(BATON_EEXIST, "ranks 1 and 3 have the same number", NULL);
}

static void an_engine_has_one_life(void **state)
{
    (void)state;
    clear();
    add_engine("given", 1, 2);
    add_engine("decode", 1, 1);
    world[0].life = world[1].life = 7;
    struct directory *d = created();
    assert_true(d->engines[0]->life == 7 && d->engines[1]->life == world[2].number);
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
        assert_int_equal(directory_of_world(rows, world_size, &d, &why), BATON_EMESSAGE);
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
    assert_int_equal(directory_of_world(rows, engines, &d, &why), 0);
    for (int round = 0; round < 20; round++) {
        double before = thread_cpu_ms();
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t e = i * 2654435761u % engines;
            assert_true(directory_find(d, d->engines[e]->name) == e);
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
        assert_int_equal(directory_distance(d, rank, 0), of_first[rank]);
        for (uint32_t i = 0; rank == 0 && i < world_size; i++)
            assert_int_equal(directory_distance(d, rank, i), of_first[i]);
        if (rank == 5)
            assert_int_equal(directory_distance(d, rank, 7), BATON_DISTANCE_NODE); /* unknown: not the same place */
        directory_destroy(d);
    }
}

/* ---- members that come and go ------------------------------------------------------------------------------------ */

static uint64_t last_number;

/* The row of a member that has never been there. */
static struct wire_row newcomer(const char *engine, uint64_t life, uint16_t tp, uint16_t tp_rank, uint32_t node)
{
    struct wire_row row = {.role = BATON_ROLE_BOTH,
                           .tp = tp,
                           .pp = 1,
                           .tp_rank = tp_rank,
                           .node = node,
                           .package = tp_rank,
                           .numa = tp_rank,
                           .life = life,
                           .number = ++last_number};
    strcpy(row.engine, engine);
    snprintf(row.host, sizeof row.host, "n%u", node);
    return row;
}

/* What directory_join says of a row; the rank, where it is taken. */
static int join(struct directory *d, const struct wire_row *row, uint32_t *rank, const char *words)
{
    uint8_t bytes[WIRE_ROW_BYTES];
    struct plan_why why = {{0}};
    wire_row_encode(row, bytes);
    const int rc = directory_join(d, bytes, rank, &why);
    if (rc != 0 && strstr(why.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why.text, words);
    return rc;
}

static uint32_t joined(struct directory *d, const struct wire_row *row)
{
    uint32_t rank = DIRECTORY_NONE;
    assert_int_equal(join(d, row, &rank, ""), 0);
    return rank;
}

static void an_engine_forms_is_whole_and_goes(void **state)
{
    (void)state;
    struct directory *d;
    assert_int_equal(directory_create(8, &d), 0);
    const struct wire_row first = newcomer("decode", 7, 2, 1, 0), second = newcomer("decode", 7, 2, 0, 0);
    assert_int_equal(joined(d, &first), 0);
    const struct directory_engine *e = d->engines[directory_find(d, "decode")];
    assert_int_equal(e->state, DIRECTORY_FORMING);
    assert_true(e->life == 7 && e->ranks[0] == DIRECTORY_NONE && e->ranks[1] == 0);
    assert_int_equal(joined(d, &second), 1);
    assert_int_equal(e->state, DIRECTORY_WHOLE);
    assert_int_equal(e->ranks[0], 1);
    directory_leave(d, 0);
    assert_int_equal(e->state, DIRECTORY_GONE);
    assert_int_equal(directory_find(d, "decode"), DIRECTORY_NONE);
    assert_int_equal(directory_rank(d, first.number), 0); /* until it is forgotten */
    assert_int_equal(d->next_on_node[1], 0);
    directory_leave(d, 1);
    directory_forget(d, e->index);
    assert_int_equal(directory_rank(d, first.number), DIRECTORY_NONE);
    assert_int_equal(d->engine_of[0], DIRECTORY_NONE);
    directory_destroy(d);
}

static void a_name_is_free_at_once_and_a_life_never_again(void **state)
{
    (void)state;
    struct directory *d;
    uint32_t rank;
    assert_int_equal(directory_create(8, &d), 0);
    struct wire_row row = newcomer("decode", 7, 2, 0, 0);
    const uint64_t number = row.number;
    directory_leave(d, joined(d, &row));
    row = newcomer("decode", 7, 2, 1, 0);
    assert_int_equal(join(d, &row, &rank, "engine decode: this life of it has lost a rank"), BATON_EGONE);
    row = newcomer("decode", 8, 2, 1, 0);
    assert_int_equal(joined(d, &row), 1); /* rank 0 is not forgotten yet */
    assert_int_equal(d->engines[directory_find(d, "decode")]->life, 8);
    row = newcomer("decode", 9, 2, 0, 0);
    assert_int_equal(join(d, &row, &rank, "different lives"), BATON_EGEOMETRY);
    row = newcomer("other", 9, 1, 0, 0);
    row.number = number;
    assert_int_equal(join(d, &row, &rank, "same number"), BATON_EEXIST);
    directory_forget(d, 0);
    assert_int_equal(joined(d, &row), 0);
    directory_destroy(d);
}

/* Also where its ranks named no life, which it has now. */
static void an_engine_that_is_whole_takes_no_more(void **state)
{
    (void)state;
    struct directory *d;
    uint32_t rank;
    assert_int_equal(directory_create(8, &d), 0);
    struct wire_row row = newcomer("decode", 0, 1, 0, 0);
    assert_int_equal(joined(d, &row), 0);
    assert_true(d->engines[0]->state == DIRECTORY_WHOLE && d->engines[0]->life == row.number);
    row = newcomer("decode", 0, 1, 0, 0);
    assert_int_equal(join(d, &row, &rank, "ranks 0 and 1 both say tp_rank 0 pp_rank 0"), BATON_EGEOMETRY);
    directory_destroy(d);
}

static void no_more_come_than_may_be_there(void **state)
{
    (void)state;
    struct directory *d;
    uint32_t rank;
    struct wire_row row;
    assert_int_equal(directory_create(3, &d), 0);
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "e%u", i);
        row = newcomer(name, 1, 1, 0, i % 2);
        assert_int_equal(joined(d, &row), i);
    }
    row = newcomer("late", 1, 1, 0, 0);
    assert_int_equal(join(d, &row, &rank, "3 members are there"), BATON_EBUSY);
    directory_leave(d, 1);
    assert_int_equal(join(d, &row, &rank, "3 members are there"), BATON_EBUSY); /* it is not forgotten */
    directory_forget(d, d->engine_of[1]);
    assert_int_equal(joined(d, &row), 1);
    assert_int_equal(d->num_ranks, 3);
    directory_destroy(d);
}

#define MOST 24

/* A member as the naive list has it, by rank. */
static struct listed {
    enum { FREE, HERE, LEFT } state;
    struct wire_row row;
} listed[MOST];

static bool is_same_engine(const struct wire_row *a, const struct wire_row *b)
{
    return strcmp(a->engine, b->engine) == 0 && a->life == b->life;
}

static uint32_t count_on_node(uint32_t node)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MOST; i++)
        n += listed[i].state != FREE && listed[i].row.node == node;
    return n;
}

/* What holds of one rank: its engine, its number, its ring, and how far it is. */
static void check_rank(const struct directory *d, uint32_t rank)
{
    const struct wire_row *row = &listed[rank].row;
    const struct directory_engine *e = d->engines[d->engine_of[rank]];
    bool has_lost = false;
    uint32_t num = 0, on_node = 1;
    for (uint32_t i = 0; i < MOST; i++) {
        if (listed[i].state == FREE || !is_same_engine(&listed[i].row, row))
            continue;
        assert_int_equal(d->engine_of[i], e->index);
        has_lost |= listed[i].state == LEFT;
        num++;
    }
    assert_int_equal(e->num_joined, num);
    assert_int_equal(e->state, has_lost ? DIRECTORY_GONE : num == row->tp ? DIRECTORY_WHOLE : DIRECTORY_FORMING);
    assert_int_equal(directory_find(d, row->engine) == e->index, !has_lost);
    assert_int_equal(directory_rank(d, row->number), rank);
    assert_int_equal(e->ranks[row->tp_rank], rank);
    assert_string_equal(d->rows[rank].host, row->host);
    assert_int_equal(directory_distance(d, 0, rank), rank == 0                               ? BATON_DISTANCE_SELF
                                                     : row->node != listed[0].row.node       ? BATON_DISTANCE_WORLD
                                                     : row->package != listed[0].row.package ? BATON_DISTANCE_NODE
                                                                                             : BATON_DISTANCE_NUMA);
    for (uint32_t i = d->next_on_node[rank]; i != rank; i = d->next_on_node[i], on_node++)
        assert_true(listed[i].state != FREE && listed[i].row.node == row->node && on_node < MOST);
    assert_int_equal(on_node, count_on_node(row->node));
}

static void check_all(const struct directory *d)
{
    for (uint32_t i = 0; i < MOST; i++)
        if (listed[i].state != FREE)
            check_rank(d, i);
        else if (i < d->num_ranks)
            assert_int_equal(d->engine_of[i], DIRECTORY_NONE);
}

/* Whether the list takes that row, by the rules of directory.h. */
static bool is_welcome(const struct wire_row *row)
{
    uint32_t num = 0;
    bool fits = true;
    for (uint32_t i = 0; i < MOST; i++) {
        const struct wire_row *other = &listed[i].row;
        num += listed[i].state != FREE;
        if (listed[i].state == FREE || strcmp(other->engine, row->engine) != 0)
            continue;
        bool is_gone = false;
        for (uint32_t k = 0; k < MOST; k++)
            is_gone |= listed[k].state == LEFT && is_same_engine(&listed[k].row, other);
        fits &= is_gone ? other->life != row->life
                        : other->life == row->life && other->tp == row->tp && other->tp_rank != row->tp_rank;
    }
    return fits && num < MOST;
}

/* Forgets all engines of which every rank has left. */
static void forget_all(struct directory *d)
{
    for (uint32_t i = 0; i < MOST; i++) {
        if (listed[i].state != LEFT)
            continue;
        bool is_over = true;
        const struct wire_row row = listed[i].row;
        for (uint32_t k = 0; k < MOST; k++)
            is_over &= listed[k].state != HERE || !is_same_engine(&listed[k].row, &row);
        if (!is_over)
            continue;
        directory_forget(d, d->engine_of[i]);
        for (uint32_t k = 0; k < MOST; k++)
            if (listed[k].state != FREE && is_same_engine(&listed[k].row, &row))
                listed[k].state = FREE;
    }
}

static void one_comes(struct directory *d, uint64_t *seed)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    const uint64_t r = bytes_random(seed);
    const uint16_t tp = (uint16_t)(1 + r % 3);
    const struct wire_row row =
        newcomer(names[(r >> 8) % 5], 1 + (r >> 16) % 3, tp, (uint16_t)((r >> 24) % tp), (uint32_t)(r >> 32) % 3);
    uint32_t rank = DIRECTORY_NONE;
    const bool is_taken = is_welcome(&row);
    assert_int_equal(join(d, &row, &rank, "") == 0, is_taken);
    if (!is_taken)
        return;
    assert_true(rank < MOST && listed[rank].state == FREE);
    listed[rank].state = HERE;
    listed[rank].row = row;
}

static void a_naive_list_says_the_same(void **state)
{
    (void)state;
    uint64_t seed = 5;
    uint32_t comes = 0;
    for (int round = 0; round < 20; round++) {
        struct directory *d;
        memset(listed, 0, sizeof listed);
        assert_int_equal(directory_create(MOST, &d), 0);
        listed[0].state = HERE;
        listed[0].row = newcomer("self", 1, 1, 0, 0);
        assert_int_equal(joined(d, &listed[0].row), 0);
        for (int step = 0; step < 2000; step++) {
            const uint32_t at = 1 + (uint32_t)(bytes_random(&seed) % (MOST - 1));
            if (listed[at].state == HERE && bytes_random(&seed) % 3 == 0) {
                directory_leave(d, at);
                listed[at].state = LEFT;
            } else if (bytes_random(&seed) % 4 == 0) {
                forget_all(d);
            } else {
                one_comes(d, &seed);
                comes++;
            }
            check_all(d);
        }
        directory_destroy(d);
    }
    assert_true(comes > 10000);
}

/* A million members, 16 at a time: not a byte more is in use in the end than after the first hundred. */
static void a_million_come_and_go_in_the_same_memory(void **state)
{
    (void)state;
    struct directory *d;
    size_t in_use = 0;
    assert_int_equal(directory_create(16, &d), 0);
    for (uint32_t life = 1; life <= 125000; life++) {
        for (uint16_t i = 0; i < 8; i++) {
            const struct wire_row row = newcomer("decode", life, 8, i, i % 2);
            const uint32_t rank = joined(d, &row);
            assert_int_equal(rank, i);
        }
        for (uint32_t i = 0; i < 8; i++)
            directory_leave(d, i);
        directory_forget(d, 0); /* its slot is given again */
        if (life == 100)
            in_use = mallinfo2().uordblks;
    }
    assert_int_equal(d->num_ranks, 8);
    assert_int_equal(d->num_engines, 1);
    assert_int_equal(mallinfo2().uordblks, in_use);
    directory_destroy(d);
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
        cmocka_unit_test(an_engine_forms_is_whole_and_goes),
        cmocka_unit_test(a_name_is_free_at_once_and_a_life_never_again),
        cmocka_unit_test(an_engine_that_is_whole_takes_no_more),
        cmocka_unit_test(no_more_come_than_may_be_there),
        cmocka_unit_test(a_naive_list_says_the_same),
        cmocka_unit_test(a_million_come_and_go_in_the_same_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
