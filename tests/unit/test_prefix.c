/* SPDX-License-Identifier: BSD-3-Clause */
/* prefix: what a cache of ids finds, against a list that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "replay/prefix.h"
#include "replay/random.h"

#define REQUESTS 400
#define IDS_MAX 12
#define ENGINES 3

static struct trace_request requests[REQUESTS];
static uint64_t ids[REQUESTS * IDS_MAX];
static uint32_t engine_of[REQUESTS];

static void add(struct trace *t, uint32_t engine, uint32_t tokens, const uint64_t *of)
{
    const uint32_t count = (tokens + TRACE_HASH_TOKENS - 1) / TRACE_HASH_TOKENS;
    engine_of[t->count] = engine;
    requests[t->count++] = (struct trace_request){.tokens = tokens, .first_id = t->num_ids};
    memcpy(ids + t->num_ids, of, count * sizeof *ids);
    t->num_ids += count;
}

static struct prefix found(const struct trace *t, uint64_t cache_tokens)
{
    struct why why;
    struct prefix p = {0};
    assert_int_equal(prefix_init(&p, t, engine_of, ENGINES, cache_tokens, &why), 0);
    return p;
}

static void a_beginning_that_was_there_is_held(void **state)
{
    (void)state;
    struct trace t = {.requests = requests, .ids = ids};
    add(&t, 0, 1024, (uint64_t[]){1, 2});
    add(&t, 0, 1500, (uint64_t[]){1, 2, 3}); /* begins like the first */
    add(&t, 0, 1500, (uint64_t[]){1, 2, 3}); /* all of it is there: of its last id 476 tokens */
    add(&t, 0, 1024, (uint64_t[]){2, 1});    /* the same ids in another order: both are there */
    add(&t, 0, 1536, (uint64_t[]){9, 2, 3}); /* what follows another beginning is no use */
    add(&t, 1, 1024, (uint64_t[]){1, 2});    /* another engine has a cache of its own */
    const uint32_t expected[] = {0, 1024, 1500, 1024, 0, 0};
    struct prefix p = found(&t, 1 << 20);
    for (uint32_t i = 0; i < t.count; i++)
        assert_int_equal(p.held[i], expected[i]);
    prefix_fini(&p);
    assert_null(p.held);
}

static void what_was_not_used_for_longest_goes_first(void **state)
{
    (void)state;
    struct trace t = {.requests = requests, .ids = ids};
    add(&t, 0, 1024, (uint64_t[]){1, 2});
    add(&t, 0, 512, (uint64_t[]){3}); /* a cache of two: 2, the end of the first prompt, goes */
    add(&t, 0, 1024, (uint64_t[]){1, 2});
    add(&t, 0, 512, (uint64_t[]){3});
    const uint32_t expected[] = {0, 0, 512, 0};
    struct prefix p = found(&t, 2 * TRACE_HASH_TOKENS);
    for (uint32_t i = 0; i < t.count; i++)
        assert_int_equal(p.held[i], expected[i]);
    prefix_fini(&p);
}

/* ---- a list, searched -------------------------------------------------------------------------------------------- */

struct list {
    uint32_t count;
    uint64_t id[IDS_MAX * 4];
};

static uint32_t place(const struct list *l, uint64_t id)
{
    uint32_t i = 0;
    while (i < l->count && l->id[i] != id)
        i++;
    return i;
}

static void move_to_end(struct list *l, uint64_t id, uint32_t room)
{
    const uint32_t at = place(l, id);
    if (at < l->count)
        memmove(l->id + at, l->id + at + 1, (--l->count - at) * sizeof *l->id);
    l->id[l->count++] = id;
    if (l->count > room)
        memmove(l->id, l->id + 1, --l->count * sizeof *l->id);
}

static void random_traces(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (uint32_t room = 1; room < IDS_MAX * 3; room++) {
        struct trace t = {.requests = requests, .ids = ids};
        struct list lists[ENGINES] = {{0}};
        for (uint32_t i = 0; i < REQUESTS; i++) {
            uint64_t of[IDS_MAX];
            const uint32_t tokens = 1 + random_below(&random, IDS_MAX * TRACE_HASH_TOKENS);
            for (uint32_t k = 0; k < IDS_MAX; k++)
                of[k] = k + IDS_MAX * random_below(&random, 1 + (k + 3) / 4);
            add(&t, random_below(&random, ENGINES), tokens, of);
        }
        struct prefix p = found(&t, (uint64_t)room * TRACE_HASH_TOKENS);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            struct list *l = &lists[engine_of[i]];
            const uint32_t tokens = requests[i].tokens, count = (tokens + TRACE_HASH_TOKENS - 1) / TRACE_HASH_TOKENS;
            const uint64_t *of = ids + requests[i].first_id;
            uint32_t hits = 0;
            while (hits < count && place(l, of[hits]) < l->count)
                hits++;
            assert_int_equal(p.held[i], hits < count ? hits * TRACE_HASH_TOKENS : tokens);
            for (uint32_t k = count; k-- > 0;)
                move_to_end(l, of[k], room);
        }
        prefix_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_that_was_there_is_held),
        cmocka_unit_test(what_was_not_used_for_longest_goes_first),
        cmocka_unit_test(random_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
