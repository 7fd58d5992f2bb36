/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_next: what a rank of the next wire version (tests/version/next) says to ranks of this one, and to its like. The
 * core is this build's, and the wire is the next one's. Ranks of both in one world: `ctest -L version`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/directory.h"
#include "core/post.h"
#include "observe/log.h"

#define HERE (WIRE_VERSION - 1)

enum { SELF, OLDER, LIKE, RANKS };

/* The core's objects know the messages of this version only. */
_Static_assert(sizeof(struct wire_grant) < sizeof(struct wire_want), "a message is as large as before");
_Static_assert(sizeof(struct wire_subject) < sizeof(struct wire_want), "a message is as large as before");
_Static_assert(sizeof(struct wire_hint) < sizeof(struct wire_want), "a message is as large as before");

struct world {
    struct directory *directory;
    struct post *post;
    struct port port;
    struct core_config config;
    struct logger log;
    struct counts counts;
    unsigned sent[RANKS];
    struct wire_message last[RANKS]; /* as such a rank reads it */
    uint32_t bytes[RANKS];
};

static int take(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct world *w = self;
    w->sent[peer]++;
    w->bytes[peer] = bytes;
    assert_int_equal(wire_decode(message, bytes, &w->last[peer]), 0);
    return 0;
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    uint8_t rows[RANKS * WIRE_ROW_BYTES];
    struct plan_why why;
    for (uint32_t i = 0; i < RANKS; i++) {
        struct wire_row row = {.version = i == OLDER ? HERE : WIRE_VERSION,
                               .engine = {'e', (char)('0' + i)},
                               .role = BATON_ROLE_BOTH,
                               .tp = 1,
                               .pp = 1,
                               .number = 1 + i};
        wire_row_encode(&row, rows + i * WIRE_ROW_BYTES);
    }
    assert_int_equal(directory_of_world(rows, RANKS, &w->directory, &why), 0);
    w->port = (struct port){.self = w, .send = take};
    w->config = (struct core_config){.directory = w->directory, .self = SELF, .port = &w->port, .log = &w->log};
    w->post = post_create(&w->config, &w->counts);
    assert_non_null(w->post);
    *state = w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;
    post_destroy(w->post);
    directory_destroy(w->directory);
    free(w);
    return 0;
}

static void say(struct world *w, const struct wire_message *what)
{
    for (uint32_t peer = OLDER; peer < RANKS; peer++) {
        struct wire_message m = *what;
        post_send(w->post, peer, &m);
    }
}

static void a_type_is_sent_to_ranks_that_know_it(void **state)
{
    struct world *w = *state;
    say(w, &(struct wire_message){.type = WIRE_HINT, .hint.tokens = 7});
    assert_int_equal(w->sent[OLDER], 0);
    assert_int_equal(w->sent[LIKE], 1);
    assert_int_equal(w->last[LIKE].hint.tokens, 7);
    say(w, &(struct wire_message){.type = WIRE_BEAT});
    assert_int_equal(w->last[OLDER].number, 1); /* no number is missing */
    assert_int_equal(w->last[LIKE].number, 2);
}

static void a_field_is_sent_to_ranks_that_know_it(void **state)
{
    struct world *w = *state;
    say(w, &(struct wire_message){
               .type = WIRE_GRANT,
               .grant = {.generation = 3, .table_entries = 1, .offered_tokens = 5, .partial = true, .hint = 7}});
    assert_int_equal(w->last[OLDER].version, HERE);
    assert_int_equal(w->last[OLDER].grant.hint, 0);
    assert_int_equal(w->last[LIKE].version, WIRE_VERSION);
    assert_int_equal(w->last[LIKE].grant.hint, 7);
    assert_int_equal(w->bytes[LIKE], w->bytes[OLDER] + 4);
    assert_int_equal(w->last[OLDER].grant.offered_tokens, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_type_is_sent_to_ranks_that_know_it, begin, end),
        cmocka_unit_test_setup_teardown(a_field_is_sent_to_ranks_that_know_it, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
