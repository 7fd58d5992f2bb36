/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gone: engines that go while something is open with them, and come again by the same name. Calls end at once, nothing
 * of the old life meets the new one, and a thousand lives need no more memory than a few.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core_inside.h"
#include "core/post.h"
#include "core/survey.h"
#include "with_world.h"

enum { PREFILL, DECODE }; /* ranks: each engine has one, unless a test says otherwise */

static const struct world_engine prefill = {.name = "prefill", .tp = 1, .heads_total = 2, .num_blocks = 16};
static const struct world_engine decode = {.name = "decode", .tp = 1, .heads_total = 2, .num_blocks = 16};

static struct world_engine sized(struct world_engine e, uint32_t tp, uint32_t layout)
{
    e.tp = tp;
    e.layout = layout;
    return e;
}

/* One request from the producer's engine to the consumer's, of one rank each, with bytes of its own. */
static void serve(struct world *w, uint32_t producer, uint32_t consumer, const char *key, uint32_t seed)
{
    world_fill(w, producer, seed, 0, 1, 10);
    world_poison(w, consumer);
    const baton_id_t offer = world_offer(w, producer, key, 0, 1, 10, 1000);
    const baton_id_t want = world_want(w, consumer, "prefill", key, 3, 1, 10, 1000);
    world_run(w, w->now + 100 * MS);
    DONE(w, consumer, want);
    DONE(w, producer, offer);
    assert_int_equal(world_wrong(w, consumer, seed, 3, 1, 10), 0);
}

/* A want of "r" by its number, which a world counts up otherwise. */
static struct call *want_numbered(const struct world *w, baton_id_t id)
{
    struct call *call = calloc(1, sizeof *call + 3 * sizeof call->blocks[0]);
    call->kind = CALL_WANT;
    call->id = id;
    call->submitted_ns = w->now;
    strcpy(call->key, "r");
    call->want = (struct call_want){.engine = 0, .num_tokens = 10, .timeout_ms = 1000, .mode = w->mode};
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{(uint32_t[]){3, 4, 5}, 3, 0}}}, NULL, NULL);
    return call;
}

static uint32_t said_to_decode;

static int count_said(struct world *w, const struct world_message *m)
{
    (void)w;
    said_to_decode += m->to == DECODE;
    return 1;
}

/* ---- the producer goes ------------------------------------------------------------------------------------------- */

static void wants_end_at_once(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    serve(&w, PREFILL, DECODE, "first", 1);
    const baton_id_t want = world_want(&w, DECODE, "prefill", "second", 0, 1, 10, 60000);
    world_run(&w, w.now + 100 * MS);
    assert_null(world_event(&w, DECODE, want));
    world_leave(&w, PREFILL, true, true);
    ENDED(&w, DECODE, want, BATON_STATUS_FAILED, BATON_EPEER);
    world_fini(&w);
}

/* Bytes are under way: the want ends when its blocks are quiet. */
static void a_want_that_moves_ends_when_it_is_quiet(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PUSH)
        skip(); /* the dead one wrote */
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    w.move_ns = 50 * MS;
    world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 20 * MS);
    world_leave(&w, PREFILL, true, false);
    assert_null(world_event(&w, DECODE, want));
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, DECODE, want, BATON_STATUS_FAILED, BATON_EPEER);
    w.ranks[PREFILL].lingers = false;
    world_fini(&w);
}

static void wants_behind_a_handshake_end(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    w.ranks[PREFILL].card_delay_ns = 50 * MS;
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 60000);
    world_run(&w, w.now + 10 * MS);
    world_leave(&w, PREFILL, true, true);
    ENDED(&w, DECODE, want, BATON_STATUS_FAILED, BATON_EPEER);
    world_run(&w, w.now + 100 * MS); /* the card comes to nobody */
    assert_int_equal(w.directory->engine_of[PREFILL], DIRECTORY_NONE);
    world_fini(&w);
}

/* The engine is gone with the first of its ranks, though the other lives and would serve. */
static void one_rank_takes_its_engine_along(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){sized(prefill, 2, 0), decode}));
    const baton_id_t want = world_want(&w, 2, "prefill", "r", 3, 1, 10, 60000);
    world_run(&w, w.now + 100 * MS);
    world_leave(&w, 1, true, true);
    world_run(&w, w.now + 10 * MS);
    ENDED(&w, 2, want, BATON_STATUS_FAILED, BATON_EPEER);
    assert_int_equal(directory_find(w.directory, "prefill"), DIRECTORY_NONE);
    world_run(&w, w.now + 5000 * MS);
    assert_int_not_equal(w.directory->engine_of[1], DIRECTORY_NONE); /* its sibling is there still */
    world_leave(&w, 0, false, true);
    world_run(&w, w.now + 5000 * MS);
    assert_int_equal(w.directory->engine_of[1], DIRECTORY_NONE);
    world_fini(&w);
}

/* With nobody's business at hand either, what is known of it stays until its last rank has gone. */
static void an_engine_is_forgotten_as_a_whole(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){sized(prefill, 2, 0), decode}));
    world_leave(&w, 1, true, true);
    world_run(&w, w.now + 100 * MS);
    uint32_t engine;
    assert_false(core_take_forgotten(w.ranks[2].core, &engine));
    world_leave(&w, 0, true, true);
    assert_int_equal(w.directory->engine_of[0], DIRECTORY_NONE);
    assert_int_equal(w.directory->engine_of[1], DIRECTORY_NONE);
    world_fini(&w);
}

/* It was cancelled, and a rank that writes to it is silent. When another rank goes, the engine has gone. */
static void a_want_that_ends_slowly_is_given_up(void **state)
{
    (void)state;
    if (world_mode != BATON_MODE_PUSH)
        skip();
    WORLD(w, ((struct world_engine[]){sized(prefill, 2, 0), decode}));
    for (uint32_t i = 0; i < 2; i++)
        world_offer(&w, i, "r", 0, 1, 10, 60000);
    w.move_ns = 50 * MS;
    const baton_id_t want = world_want(&w, 2, "prefill", "r", 3, 1, 10, 60000);
    world_run(&w, w.now + 20 * MS);
    w.ranks[0].stopped = true;
    world_run(&w, w.now + 100 * MS);
    world_cancel(&w, 2, want);
    world_run(&w, w.now + 100 * MS);
    assert_null(world_given_up(&w, 2, want));
    world_leave(&w, 1, false, true);
    world_run(&w, w.now + w.settings.quiet_ms * MS);
    assert_non_null(world_given_up(&w, 2, want));
    w.ranks[0].stopped = false;
    world_run(&w, w.now + 5000 * MS);
    ENDED(&w, 2, want, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

/* The producer has gone and is quiet, and the consumer itself still stores zeros: the want is not over. */
static void a_want_outlives_its_engine_until_its_tail_is_quiet(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    serve(&w, PREFILL, DECODE, "first", 1);
    w.zero_tail = true;
    w.zero_ns = 50 * MS;
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 60000);
    world_run(&w, w.now + 10 * MS);
    world_leave(&w, PREFILL, true, true);
    assert_int_not_equal(w.directory->engine_of[PREFILL], DIRECTORY_NONE);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, DECODE, want, BATON_STATUS_FAILED, BATON_EPEER);
    assert_int_equal(w.directory->engine_of[PREFILL], DIRECTORY_NONE);
    world_fini(&w);
}

/* The call was made before the engine went, and comes to the core after another one got its index. */
static void a_call_means_one_life(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    const uint64_t life = w.directory->engines[0]->life;
    world_leave(&w, PREFILL, false, true);
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(world_join(&w, &prefill), PREFILL);
    struct call *call = want_numbered(&w, 1000000);
    call->want.life = life;
    ENDED(&w, DECODE, world_submit(&w, DECODE, call), BATON_STATUS_FAILED, BATON_EPEER);
    world_fini(&w);
}

/* The same where nobody has its index. The engine hears a verdict on it. */
static void a_call_that_found_nobody_has_a_verdict(void **state)
{
    (void)state;
    struct world_engine told = decode;
    told.verdicts = BATON_VERDICTS_ALL;
    WORLD(w, ((struct world_engine[]){prefill, told}));
    const uint64_t life = w.directory->engines[0]->life;
    world_leave(&w, PREFILL, false, true);
    world_run(&w, w.now + 10 * MS);
    assert_null(w.directory->engines[0]);
    struct call *call = want_numbered(&w, 1000000);
    call->want.life = life;
    const baton_id_t want = world_submit(&w, DECODE, call);
    ENDED(&w, DECODE, want, BATON_STATUS_FAILED, BATON_EPEER);
    assert_non_null(world_verdict(&w, DECODE, want));
    assert_int_equal(world_verdict(&w, DECODE, want)->error, BATON_EPEER);
    world_fini(&w);
}

/* ---- the consumer goes ------------------------------------------------------------------------------------------- */

/* Nothing of it was read: the next life takes the seat that is named for the engine. */
static void a_seat_of_which_nothing_was_read_is_free_again(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    w.seat = "decode";
    serve(&w, PREFILL, DECODE, "first", 1);
    world_fill(&w, PREFILL, 2, 0, 1, 10);
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 10000);
    world_leave(&w, DECODE, true, true);
    world_run(&w, w.now + 10 * MS);
    assert_null(world_event(&w, PREFILL, offer));
    assert_int_equal(world_join(&w, &decode), DECODE);
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    DONE(&w, DECODE, want);
    DONE(&w, PREFILL, offer);
    assert_int_equal(world_wrong(&w, DECODE, 2, 3, 1, 10), 0);
    world_fini(&w);
}

/* The seat may be of an engine that is not there yet. */
static void a_seat_waits_for_its_engine(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill}));
    w.seat = "decode";
    world_fill(&w, PREFILL, 2, 0, 1, 10);
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 10000);
    world_run(&w, w.now + 100 * MS);
    const struct world_engine other = {.name = "other", .tp = 1, .heads_total = 2, .num_blocks = 16};
    const uint32_t stranger = world_join(&w, &other), consumer = world_join(&w, &decode);
    const baton_id_t no = world_want(&w, stranger, "prefill", "r", 3, 1, 10, 1000);
    const baton_id_t yes = world_want(&w, consumer, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, stranger, no, BATON_STATUS_FAILED, BATON_ESEAT);
    DONE(&w, consumer, yes);
    DONE(&w, PREFILL, offer);
    assert_int_equal(world_wrong(&w, consumer, 2, 3, 1, 10), 0);
    world_fini(&w);
}

/* A rank of it had begun to read: the offer cannot be done any more. */
static void an_offer_that_was_being_read_fails(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, sized(decode, 2, 0)}));
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 60000);
    const baton_id_t want = world_want(&w, 1, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    DONE(&w, 1, want);
    assert_null(world_event(&w, PREFILL, offer)); /* the other rank of decode has not wanted it */
    world_leave(&w, 2, true, true);
    world_run(&w, w.now + 10 * MS);
    ENDED(&w, PREFILL, offer, BATON_STATUS_FAILED, BATON_EPEER);
    const baton_id_t next = world_offer(&w, PREFILL, "s", 0, 1, 10, 60000);
    const baton_id_t late = world_want(&w, 1, "prefill", "s", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, 1, late, BATON_STATUS_FAILED, BATON_EPEER); /* of an engine that is gone */
    assert_null(world_event(&w, PREFILL, next));
    world_leave(&w, 1, false, true);
    world_run(&w, w.now + 5000 * MS);
    assert_int_equal(w.directory->engine_of[1], DIRECTORY_NONE);
    world_fini(&w);
}

/* One seat is done with, and its engine has gone: its next life takes the other one. */
static void a_seat_that_is_done_with_is_no_seat_of_the_next_life(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    world_fill(&w, PREFILL, 2, 0, 1, 10);
    struct call *call = want_numbered(&w, 1000000);
    call->kind = CALL_OFFER;
    call->offer = (struct call_offer){.num_tokens = 10, .ttl_ms = 60000, .num_seats = 2};
    const baton_id_t offer = world_submit(&w, PREFILL, call);
    DONE_AFTER(&w, DECODE, world_want(&w, DECODE, "prefill", "r", 0, 1, 10, 1000), w.now + 100 * MS);
    world_leave(&w, DECODE, true, true);
    world_run(&w, w.now + 10 * MS);
    assert_null(world_event(&w, PREFILL, offer));
    assert_int_equal(world_join(&w, &decode), DECODE);
    DONE_AFTER(&w, DECODE, world_want(&w, DECODE, "prefill", "r", 0, 1, 10, 1000), w.now + 100 * MS);
    DONE(&w, PREFILL, offer);
    world_fini(&w);
}

/* A rank failed, then its engine went, while the offer waits for another one. Its end names that rank. */
static void who_failed_is_known_until_the_offer_ends(void **state)
{
    (void)state;
    const struct world_engine other = {.name = "other", .tp = 1, .heads_total = 2, .num_blocks = 16};
    WORLD(w, ((struct world_engine[]){prefill, decode, other}));
    struct call *call = want_numbered(&w, 1000000);
    call->kind = CALL_OFFER;
    call->offer = (struct call_offer){.num_tokens = 10, .ttl_ms = 10000, .num_seats = 2};
    const baton_id_t offer = world_submit(&w, PREFILL, call);
    const uint64_t number = w.directory->rows[DECODE].number;
    w.move_ns = 20 * MS;
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 0, 1, 10, 60000);
    world_run(&w, w.now + 10 * MS);
    world_cancel(&w, DECODE, want);
    world_run(&w, w.now + 100 * MS);
    assert_null(world_event(&w, PREFILL, offer));
    world_leave(&w, DECODE, false, true);
    world_run(&w, w.now + 1000 * MS);
    DONE_AFTER(&w, 2, world_want(&w, 2, "prefill", "r", 0, 1, 10, 1000), w.now + 500 * MS);
    ENDED(&w, PREFILL, offer, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_true(world_event(&w, PREFILL, offer)->peer == number);
    assert_int_equal(w.directory->engine_of[DECODE], DIRECTORY_NONE);
    world_fini(&w);
}

/* An offer is over for an engine that has gone, but a push of it to another one is not quiet yet. */
static void an_offer_that_ends_slowly_keeps_what_it_knows(void **state)
{
    (void)state;
    if (world_mode != BATON_MODE_PUSH)
        skip();
    const struct world_engine other = {.name = "other", .tp = 1, .heads_total = 2, .num_blocks = 16};
    WORLD(w, ((struct world_engine[]){prefill, sized(decode, 2, 0), other}));
    struct call *call = want_numbered(&w, 1000000);
    call->kind = CALL_OFFER;
    call->offer = (struct call_offer){.num_tokens = 10, .ttl_ms = 60000, .num_seats = 2};
    const baton_id_t offer = world_submit(&w, PREFILL, call);
    DONE_AFTER(&w, 1, world_want(&w, 1, "prefill", "r", 0, 1, 10, 1000), w.now + 100 * MS);
    w.move_ns = 200 * MS;
    world_want(&w, 3, "prefill", "r", 0, 1, 10, 60000);
    world_run(&w, w.now + 100 * MS);
    world_cancel(&w, PREFILL, offer);
    assert_null(world_event(&w, PREFILL, offer));
    world_leave(&w, 1, false, true);
    world_leave(&w, 2, false, true);
    world_run(&w, w.now + 10 * MS);
    assert_int_not_equal(w.directory->engine_of[1], DIRECTORY_NONE);
    world_run(&w, w.now + 5000 * MS);
    ENDED(&w, PREFILL, offer, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_int_equal(w.directory->engine_of[1], DIRECTORY_NONE);
    world_fini(&w);
}

/* A want that waits for its offer goes with its engine: the offer's seat is for who is there. */
static void words_of_the_gone_wait_no_more(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 60000);
    world_run(&w, w.now + 100 * MS);
    world_leave(&w, DECODE, true, true);
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(world_join(&w, &decode), DECODE);
    w.rule = count_said;
    said_to_decode = 0;
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 20);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, PREFILL, offer, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(said_to_decode, 0);
    world_fini(&w);
}

/* The offer to the old life expired untaken. The want of the new one is not about that: it waits for the next offer. */
static void tombstones_end_with_their_life(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    w.seat = "decode";
    serve(&w, PREFILL, DECODE, "first", 1);
    const baton_id_t old = world_offer(&w, PREFILL, "r", 0, 1, 10, 20);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, PREFILL, old, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_leave(&w, DECODE, false, true);
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(world_join(&w, &decode), DECODE);
    const baton_id_t want = world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    assert_null(world_event(&w, DECODE, want));
    world_fill(&w, PREFILL, 5, 0, 1, 10);
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    world_run(&w, w.now + 700 * MS);
    DONE(&w, DECODE, want);
    DONE(&w, PREFILL, offer);
    assert_int_equal(world_wrong(&w, DECODE, 5, 3, 1, 10), 0);
    world_fini(&w);
}

/* Wants of the old life had higher numbers than those of the new one, which are no repetitions of them. */
static void numbers_of_wants_begin_anew(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    const baton_id_t old = world_submit(&w, DECODE, want_numbered(&w, 2000000));
    world_run(&w, w.now + 100 * MS);
    DONE(&w, DECODE, old);
    DONE(&w, PREFILL, offer);
    world_leave(&w, DECODE, false, true);
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(world_join(&w, &decode), DECODE);
    const baton_id_t want = world_submit(&w, DECODE, want_numbered(&w, 1000000));
    world_run(&w, w.now + 100 * MS);
    assert_null(world_event(&w, DECODE, want)); /* it waits for the next offer */
    world_cancel(&w, DECODE, want);
    world_fini(&w);
}

/* Both ranks are written to when the first one dies. What the offer still knows of the second is not for the next. */
static void a_slow_end_leaves_no_tombstone(void **state)
{
    (void)state;
    if (world_mode != BATON_MODE_PUSH)
        skip();
    const struct world_engine pair = sized(decode, 2, 0);
    WORLD(w, ((struct world_engine[]){prefill, pair}));
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 60000);
    w.move_ns = 200 * MS;
    world_submit(&w, 1, want_numbered(&w, 2000000));
    world_submit(&w, 2, want_numbered(&w, 2000001));
    world_run(&w, w.now + 50 * MS);
    world_leave(&w, 1, true, true);
    assert_null(world_event(&w, PREFILL, offer));
    world_leave(&w, 2, true, true);
    world_run(&w, w.now + 10 * MS);
    ENDED(&w, PREFILL, offer, BATON_STATUS_FAILED, BATON_EPEER);
    assert_int_equal(world_join(&w, &pair), 1);
    w.move_ns = MS / 10;
    const baton_id_t want = world_submit(&w, 2, want_numbered(&w, 1000000));
    world_run(&w, w.now + 20 * MS);
    assert_null(world_event(&w, 2, want)); /* it waits for the next offer */
    world_cancel(&w, 2, want);
    world_fini(&w);
}

/* How long its bytes took says nothing of the next member of that index. */
static void speeds_are_learnt_anew(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    serve(&w, PREFILL, DECODE, "first", 1);
    const uint32_t mover = world_mode == BATON_MODE_PUSH ? PREFILL : DECODE;
    const struct movers *movers = w.ranks[mover].core->movers;
    assert_non_null(movers->flows[PREFILL + DECODE - mover]);
    world_leave(&w, PREFILL + DECODE - mover, true, true);
    world_run(&w, w.now + 10 * MS);
    assert_null(movers->flows[PREFILL + DECODE - mover]);
    world_fini(&w);
}

/* Answers that the old life was owed still are not for the new one. */
static void nobody_speaks_to_who_has_just_come(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    w.rule = count_said;
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    world_want(&w, DECODE, "prefill", "r", 3, 1, 10, 1000);
    while (world_event(&w, PREFILL, offer) == NULL)
        world_run(&w, w.now + MS / 20);
    world_leave(&w, DECODE, true, true);
    assert_int_equal(world_join(&w, &decode), DECODE);
    said_to_decode = 0;
    world_run(&w, w.now + 5000 * MS);
    assert_int_equal(said_to_decode, 0);
    world_fini(&w);
}

/* ---- they come again --------------------------------------------------------------------------------------------- */

/* The new life is there before the old one is forgotten: it has another rank, and the name. */
static void a_name_comes_again_before_the_old_one_is_quiet(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    serve(&w, PREFILL, DECODE, "first", 1);
    world_leave(&w, PREFILL, true, false);
    world_run(&w, w.now + 100 * MS);
    assert_int_not_equal(w.directory->engine_of[PREFILL], DIRECTORY_NONE);
    const uint32_t again = world_join(&w, &prefill);
    assert_int_not_equal(again, PREFILL);
    serve(&w, again, DECODE, "first", 2);
    w.ranks[PREFILL].lingers = false;
    world_run(&w, w.now + 100 * MS);
    assert_int_equal(w.directory->engine_of[PREFILL], DIRECTORY_NONE);
    serve(&w, again, DECODE, "second", 3);
    world_fini(&w);
}

/* With another layout, or with more ranks: what was known of the old life is not used. */
static void the_next_life_may_be_another_engine(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){sized(prefill, 1, 0), decode}));
    serve(&w, PREFILL, DECODE, "first", 1);
    world_leave(&w, PREFILL, false, true);
    world_run(&w, w.now + 1000 * MS);
    const struct world_engine other = sized(prefill, 1, 1);
    assert_int_equal(world_join(&w, &other), PREFILL);
    serve(&w, PREFILL, DECODE, "second", 2);
    world_leave(&w, DECODE, false, true);
    world_run(&w, w.now + 1000 * MS);
    const struct world_engine wider = sized(decode, 2, 0);
    assert_int_equal(world_join(&w, &wider), DECODE);
    world_fill(&w, PREFILL, 3, 0, 1, 10);
    const baton_id_t offer = world_offer(&w, PREFILL, "third", 0, 1, 10, 1000);
    for (uint32_t i = DECODE; i < DECODE + 2; i++) {
        world_poison(&w, i);
        DONE_AFTER(&w, i, world_want(&w, i, "prefill", "third", 3, 1, 10, 1000), w.now + 100 * MS);
        assert_int_equal(world_wrong(&w, i, 3, 3, 1, 10), 0);
    }
    DONE(&w, PREFILL, offer);
    world_fini(&w);
}

/* A word about an offer that never comes. */
static void say_early(struct world *w, uint32_t from, uint32_t to)
{
    struct wire_message word = {.type = WIRE_RELEASE, .want_id = 1, .end = {.name.key = "other", .time_left_ms = 1}};
    post_send(w->ranks[from].core->post, to, &word);
    world_run(w, w->now + 10 * MS);
}

/* A rank of it speaks before the producer knows all of them: who of them reads is found out when they are there. */
static void who_reads_is_found_out_of_the_whole_engine(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill}));
    const struct world_engine pair = sized(decode, 2, 0);
    const uint32_t early = world_join_rank(&w, &pair, 0);
    say_early(&w, early, PREFILL);
    world_join_rank(&w, &pair, 1);
    world_fill(&w, PREFILL, 3, 0, 1, 10);
    const baton_id_t offer = world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    for (uint32_t i = early; i < early + 2; i++) {
        world_poison(&w, i);
        DONE_AFTER(&w, i, world_want(&w, i, "prefill", "r", 3, 1, 10, 1000), w.now + 100 * MS);
        assert_int_equal(world_wrong(&w, i, 3, 3, 1, 10), 0);
    }
    DONE(&w, PREFILL, offer);
    world_fini(&w);
}

/* The same where the producer does not know all ranks of its own engine. */
static void who_reads_is_found_out_by_the_whole_engine(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){decode}));
    const struct world_engine pair = sized(prefill, 2, 0);
    const uint32_t early = world_join_rank(&w, &pair, 0);
    say_early(&w, 0, early);
    world_join_rank(&w, &pair, 1);
    baton_id_t offers[2];
    for (uint32_t i = 0; i < 2; i++) {
        world_fill(&w, early + i, 3, 0, 1, 10);
        offers[i] = world_offer(&w, early + i, "r", 0, 1, 10, 1000);
    }
    struct call *call = want_numbered(&w, 1000000);
    call->want.engine = directory_find(w.directory, "prefill");
    world_poison(&w, 0);
    DONE_AFTER(&w, 0, world_submit(&w, 0, call), w.now + 100 * MS);
    assert_int_equal(world_wrong(&w, 0, 3, 3, 1, 10), 0);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, early + i, offers[i]);
    world_fini(&w);
}

static int num_bound;

static int bind_first(void *self, uint32_t slot, uint64_t generation, uint64_t engine)
{
    (void)self, (void)slot, (void)generation, (void)engine;
    num_bound++;
    return 0;
}

/* Words bind no seat for an engine that forms, whose rank is to be heard later, nor for one that has gone. */
static void seats_are_for_whole_engines(void **state)
{
    (void)state;
    static const char any[1][BATON_ENGINE_NAME_MAX];
    static const struct port_handoff words = {.bind = bind_first};
    WORLD(w, ((struct world_engine[]){prefill}));
    struct core *core = w.ranks[PREFILL].core;
    const struct world_engine pair = sized(decode, 2, 0);
    const uint32_t early = world_join_rank(&w, &pair, 0);
    struct seats *seats = seats_create(any, 1);
    int error;
    seats_share(seats, &words, 0, 1);
    num_bound = 0;
    assert_null(reader_take(core, seats, early, &error));
    assert_int_equal(error, BATON_EBUSY);
    assert_int_equal(num_bound, 0);
    const uint32_t late = world_join_rank(&w, &pair, 1);
    readers_begin(core, w.directory->engine_of[early]);
    world_run(&w, w.now + 10 * MS);
    directory_leave(w.directory, late);
    assert_null(reader_take(core, seats, early, &error));
    assert_int_equal(error, BATON_EPEER);
    assert_int_equal(num_bound, 0);
    seats_destroy(core, seats);
    world_fini(&w);
}

/* Its first rank's core begins before the second is there. */
static void engines_that_come_later_hear_verdicts(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill}));
    struct world_engine pair = sized(decode, 2, 0);
    pair.verdicts = BATON_VERDICTS_ALL;
    const uint32_t first = world_join(&w, &pair);
    baton_id_t wants[2];
    world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    for (uint32_t i = 0; i < 2; i++)
        wants[i] = world_want(&w, first + i, "prefill", "r", 3, 1, 10, 1000);
    world_run(&w, w.now + 100 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(world_verdict(&w, first + i, wants[i]));
        assert_int_equal(world_verdict(&w, first + i, wants[i])->error, 0);
    }
    world_fini(&w);
}

#define LIVES 1000

static void a_thousand_lives_need_the_memory_of_a_few(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){prefill, decode}));
    size_t in_use = 0;
    for (uint32_t life = 0; life < LIVES; life++) {
        const uint32_t goes = life % 2 == 0 ? PREFILL : DECODE;
        w.seat = life % 3 == 0 ? "decode" : NULL;
        serve(&w, PREFILL, DECODE, "r", life);
        world_want(&w, DECODE, "prefill", "never", 0, 1, 10, 60000);
        world_offer(&w, PREFILL, "never wanted", 0, 1, 10, 60000);
        world_run(&w, w.now + 10 * MS);
        world_leave(&w, goes, life % 5 != 0, true);
        world_run(&w, w.now + 20000 * MS); /* tombstones, and words that are answered no more */
        assert_int_equal(world_join(&w, goes == PREFILL ? &prefill : &decode), goes);
        w.ranks[PREFILL + DECODE - goes].num_events = 0;
        if (life == LIVES / 10)
            in_use = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks < in_use + 65536);
    world_fini(&w);
}

/*
 * A rank's WANT waits until it is known what its engine reads, and the rank goes meanwhile. The next member at its
 * index, whose wants have the same numbers, is not granted what that asked for.
 */
static void words_that_wait_for_a_survey_go_with_their_rank(void **state)
{
    (void)state;
    const struct world_engine two = sized(decode, 2, 0);
    enum { ID = 1000005 };
    WORLD(w, ((struct world_engine[]){prefill, two}));
    w.ranks[PREFILL].core->works.looks_most = 1; /* the survey takes two steps */
    w.ranks[PREFILL].core->works.pause_ns = 50 * MS;
    world_submit(&w, DECODE, want_numbered(&w, ID));
    world_run(&w, w.now + 1 * MS);
    assert_true(survey_is_open(w.ranks[PREFILL].core));
    world_leave(&w, DECODE, false, true);
    assert_true(survey_is_open(w.ranks[PREFILL].core));
    world_run(&w, w.now + 100 * MS);
    world_leave(&w, DECODE + 1, false, true);
    world_run(&w, w.now + 20 * MS);
    assert_int_equal(world_join(&w, &decode), DECODE);
    struct call *call = want_numbered(&w, ID);
    strcpy(call->key, "new");
    world_submit(&w, DECODE, call);
    world_run(&w, w.now + 100 * MS);
    world_offer(&w, PREFILL, "r", 0, 1, 10, 1000);
    world_run(&w, w.now + 500 * MS);
    assert_null(world_event(&w, DECODE, ID));
    world_fini(&w);
}

/* By words: what a rank has said in the producer's segment counts, though the producer hears first that it has gone. */
static void words_of_the_gone_are_heard(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        WORLD(w, ((struct world_engine[]){prefill, decode}));
        serve(&w, PREFILL, DECODE, "first", 1);
        w.message_ns = 10 * MS; /* bells ring as late */
        w.move_ns = reads != 0 ? 100 * MS : w.move_ns;
        const baton_id_t offer = world_offer(&w, PREFILL, "second", 0, 1, 10, 60000);
        const baton_id_t want = world_want(&w, DECODE, "prefill", "second", 3, 1, 10, 1000);
        world_run(&w, w.now + 1 * MS);
        assert_int_equal(world_event(&w, DECODE, want) != NULL, reads == 0);
        assert_null(world_event(&w, PREFILL, offer));
        world_leave(&w, DECODE, true, true);
        world_run(&w, w.now + 1 * MS);
        if (reads == 0)
            DONE(&w, PREFILL, offer);
        else
            ENDED(&w, PREFILL, offer, BATON_STATUS_FAILED, BATON_EPEER);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest by_words[] = {
        cmocka_unit_test(words_of_the_gone_are_heard),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wants_end_at_once),
        cmocka_unit_test(a_want_that_moves_ends_when_it_is_quiet),
        cmocka_unit_test(wants_behind_a_handshake_end),
        cmocka_unit_test(one_rank_takes_its_engine_along),
        cmocka_unit_test(an_engine_is_forgotten_as_a_whole),
        cmocka_unit_test(a_want_that_ends_slowly_is_given_up),
        cmocka_unit_test(a_want_outlives_its_engine_until_its_tail_is_quiet),
        cmocka_unit_test(a_call_means_one_life),
        cmocka_unit_test(a_call_that_found_nobody_has_a_verdict),
        cmocka_unit_test(a_seat_of_which_nothing_was_read_is_free_again),
        cmocka_unit_test(a_seat_waits_for_its_engine),
        cmocka_unit_test(an_offer_that_was_being_read_fails),
        cmocka_unit_test(a_seat_that_is_done_with_is_no_seat_of_the_next_life),
        cmocka_unit_test(who_failed_is_known_until_the_offer_ends),
        cmocka_unit_test(an_offer_that_ends_slowly_keeps_what_it_knows),
        cmocka_unit_test(words_of_the_gone_wait_no_more),
        cmocka_unit_test(words_that_wait_for_a_survey_go_with_their_rank),
        cmocka_unit_test(numbers_of_wants_begin_anew),
        cmocka_unit_test(a_slow_end_leaves_no_tombstone),
        cmocka_unit_test(speeds_are_learnt_anew),
        cmocka_unit_test(nobody_speaks_to_who_has_just_come),
        cmocka_unit_test(who_reads_is_found_out_of_the_whole_engine),
        cmocka_unit_test(who_reads_is_found_out_by_the_whole_engine),
        cmocka_unit_test(seats_are_for_whole_engines),
        cmocka_unit_test(engines_that_come_later_hear_verdicts),
        cmocka_unit_test(the_next_life_may_be_another_engine),
        cmocka_unit_test(tombstones_end_with_their_life),
        cmocka_unit_test(a_name_comes_again_before_the_old_one_is_quiet),
        cmocka_unit_test(a_thousand_lives_need_the_memory_of_a_few),
    };
    return cmocka_run_group_tests_name("pull", tests, world_pulls, NULL) +
           cmocka_run_group_tests_name("push", tests, world_pushes, NULL) +
           cmocka_run_group_tests_name("words", by_words, world_takes, NULL);
}
