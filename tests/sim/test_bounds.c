/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_bounds: what a call costs the reactor does not grow with the number of other offers, of other engines, or of the
 * ranks of a large engine. There is one core, whose peers answer only where a test speaks for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core_inside.h"
#include "with_clock.h"
#include "with_fakes.h"
#include "with_geometry.h"

#define MS UINT64_C(1000000)

struct lone {
    struct fakes fakes; /* first: `self` of the port */
    struct settings settings;
    struct logger log;
    struct directory *directory;
    struct core *core;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    baton_path_t *path;
    uint8_t *arena;
    uint64_t now;
    uint32_t sent[WIRE_TYPE_LAST + 1];
    uint32_t numbers[2048]; /* by rank: of the last message from it */
};

static int drop_message(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct wire_message m;
    (void)peer;
    assert_int_equal(wire_decode(message, bytes, &m), 0);
    ((struct lone *)self)->sent[m.type]++;
    return 0;
}

/* The first rank of the rows, which has the whole of a small cache. */
static void lone_init(struct lone *l, const struct wire_row *rows, uint32_t num_ranks)
{
    struct plan_why why;
    uint8_t *encoded = malloc((size_t)num_ranks * WIRE_ROW_BYTES);
    memset(l, 0, sizeof *l);
    assert_non_null(encoded);
    for (uint32_t i = 0; i < num_ranks; i++)
        wire_row_encode(&rows[i], encoded + (size_t)i * WIRE_ROW_BYTES);
    assert_int_equal(directory_of_world(encoded, num_ranks, &l->directory, &why), 0);
    free(encoded);
    assert_int_equal(settings_read(&l->settings, NULL), 0);
    l->settings.leases = 8192;
    l->now = MS;
    l->path = calloc(num_ranks, sizeof *l->path);
    l->arena = calloc(1, 1 << 20);
    l->geometry = small_geometry(4, 4);
    assert_int_equal(baton_geometry_layout(&l->geometry, &l->tensor, 0), 0);
    fakes_init(&l->fakes);
    l->fakes.says.alive = PORT_UNKNOWN;
    l->fakes.port.send = drop_message;
    l->fakes.port.handoff = NULL;
    struct core_config config = {.settings = &l->settings,
                                 .directory = l->directory,
                                 .geometry = &l->geometry,
                                 .path = l->path,
                                 .path_out = l->path,
                                 .arena = l->arena,
                                 .arena_bytes = 1 << 20,
                                 .port = &l->fakes.port,
                                 .log = &l->log};
    assert_int_equal(core_create(&config, &l->core), 0);
}

static void lone_fini(struct lone *l)
{
    struct outcome *outcome;
    core_shut(l->core, l->now);
    while ((outcome = core_take(l->core)) != NULL)
        outcome_free(outcome);
    core_destroy(l->core);
    directory_destroy(l->directory);
    free(l->path);
    free(l->arena);
}

static struct call *record(struct lone *l, enum call_kind kind, baton_id_t id)
{
    static const uint32_t block = 1;
    struct call *call = calloc(1, sizeof *call + sizeof call->blocks[0]);
    assert_non_null(call);
    call->kind = kind;
    call->id = id;
    call->submitted_ns = l->now;
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{&block, 1, 0}}}, NULL, NULL);
    return call;
}

static struct call *offer(struct lone *l, baton_id_t id, const char *key)
{
    struct call *call = record(l, CALL_OFFER, id);
    snprintf(call->key, sizeof call->key, "%s", key);
    call->offer.num_tokens = 4;
    call->offer.ttl_ms = 60000;
    call->offer.num_seats = 1;
    return call;
}

static struct call *ready(struct lone *l, baton_id_t id)
{
    struct call *word = record(l, CALL_READY, id);
    word->ready.layer_count = 1;
    return word;
}

/* The quickest of several rounds of 1,000 messages about offers [1, have], in ns a message. */
static double word_ns(struct lone *l, uint32_t have)
{
    double least = 1e9;
    for (int round = 0; round < 20; round++) {
        double before = thread_cpu_ms();
        for (uint32_t i = 0; i < 1000; i++)
            core_submit(l->core, l->now, ready(l, i * 2654435761u % have + 1));
        double took = (thread_cpu_ms() - before) * 1e3;
        least = took < least ? took : least;
    }
    return least;
}

/* A walk over all offers would take 40 times as long. */
static void words_find_their_offer_among_many(void **state)
{
    (void)state;
    struct wire_row row = {.engine = "P",
                           .role = BATON_ROLE_BOTH,
                           .tp = 1,
                           .pp = 1,
                           .number = 1,
                           .num_boxes = 1,
                           .box = {{0, 1, 0, 1, 0}}};
    struct lone l;
    uint32_t have = 0;
    double few = 0, many = 0;
    lone_init(&l, &row, 1);
    for (uint32_t until = 16; until <= 4096; until *= 256) {
        while (have < until) {
            char key[16];
            snprintf(key, sizeof key, "k%u", have++);
            struct call *call = offer(&l, have, key);
            call->offer.in_layers = true;
            core_submit(l.core, l.now, call);
        }
        *(until == 16 ? &few : &many) = word_ns(&l, have);
    }
    print_message("a word about one of 16 offers: %.0f ns, of 4,096: %.0f ns\n", few, many);
    assert_true(many < 10 * few + 1000);
    lone_fini(&l);
}

/* ---- the first contact of large engines -------------------------------------------------------------------------- */

#define LARGE 1024

enum shape { LATENT, HEADS, STAGES };

/* Engine C, of which rank 0 is mine, and engine P, both of 1,024 ranks. */
static void large_init(struct lone *l, enum shape shape)
{
    struct wire_row *rows = calloc(2 * LARGE, sizeof *rows);
    assert_non_null(rows);
    for (uint32_t i = 0; i < 2 * LARGE; i++) {
        struct wire_row *r = &rows[i];
        bool p = i >= LARGE;
        uint32_t k = i % LARGE;
        uint16_t tp = p && shape == STAGES ? 16 : LARGE, pp = (uint16_t)(LARGE / tp);
        *r = (struct wire_row){.role = BATON_ROLE_BOTH,
                               .tp = tp,
                               .pp = pp,
                               .tp_rank = (uint16_t)(k % tp),
                               .pp_rank = (uint16_t)(k / tp),
                               .node = i / 8,
                               .number = i + 1,
                               .rules = PLAN_RULES,
                               .num_boxes = 1};
        snprintf(r->engine, sizeof r->engine, "%s", p ? "P" : "C");
        if (shape == HEADS) /* each held by 8 ranks */
            r->box[0] = (struct plan_box){0, 64, k / 8, 1, 0};
        else if (p && shape == STAGES)
            r->box[0] = (struct plan_box){k / tp, 1, 0, 1, 0};
        else
            r->box[0] = (struct plan_box){0, 64, 0, 1, 0};
    }
    lone_init(l, rows, 2 * LARGE);
    free(rows);
}

struct core_turns {
    uint32_t steps, most_looks;
    double longest, sum;
};

/* Times one step, or the taking of a call. */
static void turn(struct lone *l, struct core_turns *t, struct call *call, const struct port_event *e)
{
    double before = thread_cpu_ms();
    l->now += 1000;
    if (call != NULL)
        core_submit(l->core, l->now, call);
    else
        core_step(l->core, l->now, l->now, e, e != NULL);
    double took = thread_cpu_ms() - before;
    t->steps++;
    t->sum += took;
    t->longest = took > t->longest ? took : t->longest;
    t->most_looks = l->core->works.looks > t->most_looks ? l->core->works.looks : t->most_looks;
}

static void check_turns(const char *what, enum shape shape, const struct core_turns *t)
{
    static const char *const names[] = {"one latent", "128 heads", "64 stages"};
    print_message("%s, %s: %.1f ms in %u turns, the longest %.2f ms\n", what, names[shape], t->sum, t->steps,
                  t->longest);
    assert_true(t->steps > 1);
    assert_true(t->most_looks < LOOKS_A_STEP + LARGE + LARGE / 8 + 2); /* a step may begin one piece too many */
}

static struct call *want(struct lone *l, baton_id_t id)
{
    struct call *call = record(l, CALL_WANT, id);
    snprintf(call->key, sizeof call->key, "%s", id == 1 ? "k" : "other");
    call->want = (struct call_want){.engine = 1, .num_tokens = 4, .timeout_ms = 60000, .mode = BATON_MODE_PULL};
    return call;
}

/* In one turn it would take 547 ms. Wants queue meanwhile, and the statistics show them. */
static void a_large_engine_is_met_in_short_turns(void **state)
{
    (void)state;
    for (enum shape shape = LATENT; shape <= STAGES; shape++) {
        struct lone l;
        struct core_turns t = {0};
        baton_pending_t pending[2];
        large_init(&l, shape);
        turn(&l, &t, want(&l, 1), NULL);
        turn(&l, &t, want(&l, 2), NULL);
        assert_int_equal(l.fakes.asked.read, 0);
        assert_true(core_is_busy(l.core));
        assert_int_equal(core_pending(l.core, l.now, pending, 2), 1);
        assert_int_equal(pending[0].wants, 2);
        while (l.core->works.first != NULL) {
            assert_true(core_next_ns(l.core) <= l.now + 1000); /* the core asks to be called again at once */
            turn(&l, &t, NULL, NULL);
        }
        check_turns("wanted", shape, &t);
        assert_int_equal(l.fakes.asked.read, link_num_contacts(link_of(l.core, 1, NULL, NULL)));
        assert_int_equal(link_state(link_of(l.core, 1, NULL, NULL)), LINK_SHAKING);
        lone_fini(&l);
    }
}

/* A want ends before it is known whom it would have asked: it tells all ranks. */
static void a_want_ends_before_it_is_known_who_serves(void **state)
{
    (void)state;
    struct lone l;
    struct core_turns t = {0};
    large_init(&l, LATENT);
    turn(&l, &t, want(&l, 1), NULL);
    turn(&l, &t, record(&l, CALL_CANCEL, 1), NULL);
    struct outcome *end = core_take(l.core);
    assert_non_null(end);
    assert_int_equal(end->event.error, BATON_ECANCELED);
    outcome_free(end);
    assert_int_equal(l.sent[WIRE_RELEASE], LARGE);
    struct call *held = want(&l, 2); /* of which all tokens are held already */
    held->want.held_tokens = held->want.num_tokens;
    turn(&l, &t, held, NULL);
    end = core_take(l.core);
    assert_non_null(end);
    assert_int_equal(end->event.status, BATON_STATUS_DONE);
    outcome_free(end);
    assert_int_equal(l.sent[WIRE_RELEASE], 2 * LARGE);
    lone_fini(&l);
}

/* A want of rank LARGE + k, or the message that it has ended. */
static void say(struct lone *l, struct core_turns *t, uint32_t k, struct wire_message *m)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    m->from = LARGE + k + 1;
    m->to = 1;
    m->number = ++l->numbers[LARGE + k];
    struct wire_name *name = m->type == WIRE_WANT ? &m->want.name : &m->end.name;
    snprintf(name->key, sizeof name->key, "k");
    uint32_t bytes = wire_encode(m, data);
    turn(l, t, NULL, &(struct port_event){.kind = PORT_MESSAGE, .peer = LARGE + k, .data = data, .bytes = bytes});
}

static uint32_t words_kept(const struct core *core)
{
    return core->early->kept[EARLY_LIVE] + core->early->kept[EARLY_ENDED];
}

/*
 * Messages of consumers wait until it is known who of their engine reads here; then they are handled as if they
 * came now.
 */
static void a_large_engine_wants_and_is_met_in_short_turns(void **state)
{
    (void)state;
    for (enum shape shape = LATENT; shape <= STAGES; shape++) {
        struct lone l;
        struct core_turns t = {0};
        large_init(&l, shape);
        core_submit(l.core, l.now, offer(&l, 1, "k"));
        struct wire_message asks = {
            .type = WIRE_WANT,
            .want_id = 7,
            .want = {.mode = BATON_MODE_PULL, .asks = 1, .time_left_ms = 60000, .tokens = 4, .readers.num = LARGE}};
        for (uint32_t i = 0; i < LARGE; i++) { /* of my heads, 8; of my latent, all; of my layers, all that hold one */
            bool reads = shape != HEADS || i < 8;
            asks.want.readers.bit[i / 8] |= (uint8_t)(reads << (i % 8));
        }
        say(&l, &t, 0, &asks);
        struct wire_message needs_none = {.type = WIRE_RELEASE, .end.time_left_ms = 60000};
        say(&l, &t, 1, &needs_none);
        uint32_t early = l.sent[WIRE_GRANT];
        while (l.core->works.first != NULL)
            turn(&l, &t, NULL, NULL);
        if (shape != HEADS) { /* there are only 8 ranks to look at, which is done at once */
            assert_int_equal(early, 0);
            check_turns("read from", shape, &t);
        }
        assert_int_equal(l.sent[WIRE_GRANT], 1);
        assert_int_equal(l.sent[WIRE_NACK], 0);
        assert_int_equal(words_kept(l.core), 0);
        const struct readers *readers = readers_of(l.core, 1);
        assert_non_null(readers);
        for (uint32_t i = 0; i < LARGE; i++)
            assert_int_equal(readers_have(readers, i), asks.want.readers.bit[i / 8] >> (i % 8) & 1);
        struct wire_message done = {.type = WIRE_DONE, .want_id = 7};
        say(&l, &t, 0, &done);
        assert_int_equal(seats_missing(l.core->offers->by_id->seats),
                         shape == HEADS ? 6 : LARGE - 2); /* it was released by rank 1 */
        lone_fini(&l);
    }
}

/* No more of these messages wait than `waiting` allows. A core that ends frees those that wait. */
static void messages_that_wait_for_the_survey_are_bounded(void **state)
{
    (void)state;
    struct lone l;
    struct core_turns t = {0};
    large_init(&l, STAGES);
    l.settings.waiting = 8;
    for (uint32_t i = 0; i < 40; i++) {
        struct wire_message m = {.type = WIRE_RELEASE, .end.time_left_ms = 60000};
        say(&l, &t, i / 4, &m);
        assert_true(words_kept(l.core) <= 8);
        if (l.core->works.first == NULL)
            break;
    }
    assert_int_equal(words_kept(l.core), 8);
    assert_int_equal(l.core->early->of[LARGE][EARLY_LIVE] + l.core->early->of[LARGE][EARLY_ENDED], 2);
    lone_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_find_their_offer_among_many),
        cmocka_unit_test(a_large_engine_is_met_in_short_turns),
        cmocka_unit_test(a_want_ends_before_it_is_known_who_serves),
        cmocka_unit_test(a_large_engine_wants_and_is_met_in_short_turns),
        cmocka_unit_test(messages_that_wait_for_the_survey_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
