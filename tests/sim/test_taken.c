/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases that ranks of a node take by words in the producer's segment (core/handoff.h): when they do and when they ask
 * by message instead, what a word that nobody was told of is worth, and what a death leaves behind.
 */
#include "core_inside.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <string.h>

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
};
static const struct world_engine one_to_two[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .node = 1},
};
static const struct world_engine two_consumers[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D1", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D2", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
};

#define TOKENS 18

/* The first contact of a rank takes messages. */
static void warm(struct world *w, uint32_t rank)
{
    world_offer(w, 0, "warm", 0, 1, 4, 1000);
    world_want(w, rank, "P", "warm", 0, 1, 4, 1000);
    world_run(w, w->now + 50 * MS);
    memset(w->sent, 0, sizeof w->sent);
}

struct reading {
    baton_id_t offer, want;
};

/* Rank 1 reads an offer of rank 0, and goes on for a while. */
static struct reading reads(struct world *w)
{
    w->move_ns = 20 * MS;
    struct reading r;
    r.offer = world_offer(w, 0, "key", 3, 1, TOKENS, 60000);
    r.want = world_want(w, 1, "P", "key", 1, 1, TOKENS, 60000);
    world_run(w, w->now + 5 * MS);
    return r;
}

static uint32_t all_sent(const struct world *w)
{
    uint32_t n = 0;
    for (unsigned i = 0; i <= WIRE_TYPE_LAST; i++)
        n += w->sent[i];
    return n;
}

/* ---- without a message ------------------------------------------------------------------------------------------- */

static void an_offer_is_taken_without_a_message(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    world_poison(&w, 1);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 2, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 2, TOKENS), 0);
    assert_int_equal(all_sent(&w), 0);
    world_fini(&w);
}

static void all_ranks_of_an_engine_take_it(void **state)
{
    (void)state;
    WORLD(w, one_to_two);
    warm(&w, 1);
    warm(&w, 2);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t a = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, a);
    assert_null(world_event(&w, 0, o));
    DONE_AFTER(&w, 2, world_want(&w, 2, "P", "key", 1, 1, TOKENS, 1000), w.now + 5 * MS);
    DONE(&w, 0, o);
    assert_int_equal(all_sent(&w), 0);
    world_fini(&w);
}

/* Whole offers are served as if their producer ran. */
static void a_stopped_producer_serves(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
    w.ranks[0].stopped = true;
    DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000), w.now + 5 * MS);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 1, TOKENS), 0);
    w.ranks[0].stopped = false;
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* ---- by message instead ------------------------------------------------------------------------------------------ */

static void what_is_not_whole_goes_by_message(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    baton_id_t o = world_offer_layers(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    assert_null(world_event(&w, 1, d));
    world_ready(&w, 0, o, 0, 2);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(w.sent[WIRE_WANT], 1);
    assert_int_equal(w.sent[WIRE_DONE], 1);
    world_fini(&w);
}

/* More tokens than it has: the producer says so, as it always does. */
static void the_producer_refuses(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS + 1, 1000);
    world_run(&w, w.now + 5 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ETOKENS);
    world_fini(&w);
}

static void who_wants_first_asks(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    assert_int_equal(w.sent[WIRE_WANT], 1);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 1, TOKENS), 0);
    world_fini(&w);
}

/* Its lease came by message, and its producer has not heard yet that it is done: the rank takes no second one. */
static void who_was_granted_by_message_takes_no_more(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        WORLD(w, one_to_two);
        warm(&w, 1);
        warm(&w, 2);
        w.move_ns = 20 * MS;
        baton_id_t first = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
        world_run(&w, w.now + 5 * MS);
        baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 5000);
        world_run(&w, w.now + 5 * MS);
        w.ranks[0].stopped = stops;
        DONE_AFTER(&w, 1, first, w.now + 30 * MS);
        baton_id_t second = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
        world_run(&w, w.now + 30 * MS);
        w.ranks[0].stopped = false;
        world_run(&w, w.now + 30 * MS);
        ENDED(&w, 1, second, BATON_STATUS_FAILED, BATON_EGONE);
        assert_null(world_event(&w, 0, o));
        DONE_AFTER(&w, 2, world_want(&w, 2, "P", "key", 1, 1, TOKENS, 1000), w.now + 100 * MS);
        DONE(&w, 0, o);
        world_fini(&w);
    }
}

/*
 * A want asks twice before its offer comes, and its second WANT reaches the next offer of the key. That offer grants it
 * to a want that is over. It is nobody's by the DONE that follows: the rank's next want, which needs nothing, ends it.
 */
static void a_held_lease_leaves_no_grant_behind(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.settings.resend_ms = 20;
    warm(&w, 1);
    baton_id_t first = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 5000);
    world_run(&w, w.now + 5 * MS);
    w.message_ns = 20 * MS;
    while (w.sent[WIRE_WANT] < 2)
        world_run(&w, w.now + MS);
    w.message_ns = MS / 10;
    baton_id_t a = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, first);
    world_cancel(&w, 0, a);
    baton_id_t b = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
    world_run(&w, w.now + 200 * MS);
    assert_null(world_event(&w, 0, b));
    DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 1, 1, 0, 5000), w.now + 200 * MS);
    DONE(&w, 0, b);
    world_fini(&w);
}

/* The only seat is taken by a word; an engine that asks by message finds none, and the other way round. */
static void seats_are_the_same_for_words_and_messages(void **state)
{
    (void)state;
    for (uint32_t by_word = 1; by_word <= 2; by_word++) {
        const uint32_t by_message = 3 - by_word;
        WORLD(w, two_consumers);
        warm(&w, 1);
        warm(&w, 2);
        w.ranks[by_message].port.handoff = NULL;
        w.move_ns = 20 * MS; /* both ask before one of them is done */
        baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000), d[3];
        const uint32_t first = by_word == 1 ? by_word : by_message, second = 3 - first;
        d[first] = world_want(&w, first, "P", "key", 1, 1, TOKENS, 1000);
        world_run(&w, w.now + MS);
        d[second] = world_want(&w, second, "P", "key", 1, 1, TOKENS, 1000);
        world_run(&w, w.now + 500 * MS);
        DONE(&w, first, d[first]);
        DONE(&w, 0, o);
        ENDED(&w, second, d[second], BATON_STATUS_FAILED, BATON_ESEAT);
        world_fini(&w);
    }
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* A want that is cancelled while it reads gives its lease back as failed. */
static void what_failed_is_given_back_as_failed(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    const struct reading r = reads(&w);
    world_cancel(&w, 1, r.want);
    world_run(&w, w.now + 500 * MS);
    ENDED(&w, 1, r.want, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    ENDED(&w, 0, r.offer, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_int_equal(world_peer(&w, world_event(&w, 0, r.offer)), 1);
    assert_int_equal(all_sent(&w), 0);
    world_fini(&w);
}

/* The offer ends while it is read: its reader hears the reason, which lies in the words. */
static void a_reader_that_is_cut_off_hears_why(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    w.move_ns = 20 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 60000);
    world_cancel(&w, 0, o);
    world_offer(&w, 0, "key", 8, 1, TOKENS, 60000); /* which it must not wait for */
    w.ranks[0].stopped = true;                      /* nor ask for */
    world_run(&w, w.now + 500 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    assert_non_null(strstr(world_event(&w, 1, d)->detail, "the offer ended: "));
    w.ranks[0].stopped = false;
    world_fini(&w);
}

/* Opens and ends so many other offers, whose reasons take the place of what was said of former leases. */
static void others_come_and_go(struct world *w, uint32_t n)
{
    while (n-- > 0)
        world_cancel(w, 0, world_offer(w, 0, "other", 3, 1, TOKENS, 60000));
}

/*
 * The same where the reason is not readable any more, and the key may be on offer again: the want is over at once, and
 * the next offer of the key belongs to whoever wants that.
 */
static void a_reader_that_is_cut_off_leaves_no_trace(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        WORLD(w, two_consumers);
        warm(&w, 1);
        warm(&w, 2);
        const struct reading r = reads(&w);
        baton_id_t next = 0;
        world_cancel(&w, 0, r.offer);
        others_come_and_go(&w, 2 * (uint32_t)w.settings.leases);
        if (again)
            next = world_offer(&w, 0, "key", 8, 1, TOKENS, 2000);
        world_run(&w, w.now + 50 * MS);
        ENDED(&w, 1, r.want, BATON_STATUS_FAILED, BATON_EGONE);
        if (!again)
            next = world_offer(&w, 0, "key", 8, 1, TOKENS, 2000);
        DONE_AFTER(&w, 2, world_want(&w, 2, "P", "key", 1, 1, TOKENS, 5000), w.now + 500 * MS);
        DONE(&w, 0, next);
        world_fini(&w);
    }
}

static struct {
    struct world *w;
    const struct port_handoff *under;
    baton_id_t offer;
    bool seen; /* the producer sees the reader's word before it reports the end */
} late;

/* The offer ends while it is taken: before the reader's word is there, or between that and its last look. */
static enum handoff_taken take_late(void *self, uint32_t peer, const struct handoff_want *want,
                                    struct handoff_grant *grant)
{
    const struct offer *o = late.w->ranks[0].core->offers->by_id;
    if (o == NULL || o->id != late.offer)
        return late.under->take(self, peer, want, grant);
    if (late.seen)
        assert_int_equal(late.under->take(self, peer, want, grant), HANDOFF_TAKEN);
    grant->slot = o->lease.slot;
    grant->generation = o->lease.generation;
    world_cancel(late.w, 0, late.offer);
    return HANDOFF_TOO_LATE;
}

/* It had a seat, so its want was for that offer, and is over at once. The rank's next want is for the next offer. */
static void a_reader_that_comes_too_late_hears_why(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        WORLD(w, one_to_one);
        warm(&w, 1);
        world_fill(&w, 0, 7, 3, 1, TOKENS);
        struct port_handoff hand = *w.ranks[1].port.handoff;
        late.w = &w;
        late.under = w.ranks[1].port.handoff;
        late.seen = variant % 2;
        hand.take = take_late;
        w.ranks[1].port.handoff = &hand;
        w.seat = variant / 2 ? "D" : NULL;
        late.offer = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 60000);
        ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
        assert_string_equal(world_event(&w, 1, d)->detail, "the offer ended: cancelled");
        ENDED(&w, 0, late.offer, BATON_STATUS_CANCELLED, BATON_ECANCELED);
        assert_int_equal(w.sent[WIRE_WANT], 0);
        world_run(&w, w.now + 5 * MS);
        baton_id_t again = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 60000);
        world_run(&w, w.now + 500 * MS);
        assert_null(world_event(&w, 1, again));
        baton_id_t next = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
        world_run(&w, w.now + 500 * MS);
        DONE(&w, 1, again);
        DONE(&w, 0, next);
        assert_int_equal(world_wrong(&w, 1, 7, 1, 1, TOKENS), 0);
        assert_int_equal(ends_owed(w.ranks[1].core), 0);
        world_fini(&w);
    }
}

/* A want turns from a lease that it took to a replica: of the rank's next offer of that key it says nothing. */
static void the_next_offer_is_not_released(void **state)
{
    (void)state;
    static const struct world_engine replicas[] = {
        {.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 32, .node = 1},
        {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 32, .node = 1},
    };
    WORLD(w, replicas);
    for (uint32_t i = 0; i < 2; i++)
        world_offer(&w, i, "warm", 0, 1, 4, 1000);
    world_want(&w, 2, "P", "warm", 0, 1, 4, 1000);
    world_run(&w, w.now + 200 * MS);
    w.move_ns = 20 * MS;
    baton_id_t o[2];
    for (uint32_t i = 0; i < 2; i++)
        o[i] = world_offer(&w, i, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 4, 1, TOKENS, 60000);
    world_run(&w, w.now + 5 * MS);
    const uint32_t first = probe_asked(w.ranks[2].core);
    world_cancel(&w, first, o[first]);
    world_run(&w, w.now + 2000 * MS);
    DONE(&w, 2, d);
    baton_id_t again = world_offer(&w, first, "key", 0, 1, TOKENS, 60000);
    world_run(&w, w.now + 1000 * MS);
    assert_null(world_event(&w, first, again));
    world_cancel(&w, first, again);
    world_fini(&w);
}

/* A lease goes on for a rank that reads, as long as its want may. */
static void a_rank_that_reads_is_waited_for(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        WORLD(w, one_to_one);
        warm(&w, 1);
        w.move_ns = 300 * MS;
        uint64_t since = w.now;
        baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 20);
        baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, silent ? 200 : 5000);
        w.ranks[1].stopped = silent;
        world_run(&w, since + 3000 * MS);
        if (silent) {
            ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
            assert_in_range(world_event_ns(&w, 0, o), since + 190 * MS, since + 210 * MS);
        } else {
            DONE(&w, 0, o);
            DONE(&w, 1, d);
        }
        world_fini(&w);
    }
}

static bool deaf(void *self, uint32_t *slot)
{
    (void)self;
    (void)slot;
    return false;
}

/* A rank was killed between its word and the bit that tells of it: the word counts when the offer's time is over. */
static void a_word_counts_that_nobody_was_told_of(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    struct port_handoff hand = *w.ranks[0].port.handoff;
    hand.told = deaf;
    w.ranks[0].port.handoff = &hand;
    uint64_t since = w.now;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    world_want(&w, 1, "P", "key", 1, 1, TOKENS, 500);
    w.ranks[1].is_dead = true;
    world_run(&w, since + 2000 * MS);
    DONE(&w, 0, o);
    assert_true(world_event_ns(&w, 0, o) >= since + 1000 * MS);
    w.ranks[1].is_dead = false;
    world_fini(&w);
}

/* The same of a word that it reads, where the rank is known to be lost: the offer fails then. */
static void a_word_that_nobody_was_told_of_is_heard_at_its_loss(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    w.move_ns = 300 * MS;
    uint64_t since = w.now;
    world_offer(&w, 0, "known", 3, 1, TOKENS, 60000);
    world_want(&w, 1, "P", "known", 1, 1, TOKENS, 60000);
    world_run(&w, since + 5 * MS);
    struct port_handoff hand = *w.ranks[0].port.handoff;
    hand.told = deaf;
    w.ranks[0].port.handoff = &hand;
    baton_id_t o = world_offer(&w, 0, "key", 10, 1, TOKENS, 60000);
    world_want(&w, 1, "P", "key", 10, 1, TOKENS, 60000);
    w.ranks[1].is_dead = w.ranks[1].stopped = true;
    world_run(&w, since + 2000 * MS);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_EPEER);
    world_fini(&w);
}

/* A rank that was done when it died is not lost. */
static void a_rank_that_dies_when_it_is_done_is_done(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    uint64_t since = w.now;
    const struct reading r = reads(&w);
    w.ranks[0].stopped = true; /* it knows that it is read, and not yet that this is over */
    world_run(&w, since + 50 * MS);
    w.ranks[1].is_dead = w.ranks[1].stopped = true;
    w.ranks[0].stopped = false;
    world_run(&w, since + 2000 * MS);
    DONE(&w, 0, r.offer);
    world_fini(&w);
}

/* More ranks than are heard in one step speak of their leases at once: all offers end soon. */
static void all_that_was_said_is_heard(void **state)
{
    (void)state;
    enum { OFFERS = 12 };
    WORLD(w, one_to_one);
    warm(&w, 1);
    baton_id_t o[OFFERS];
    char key[8];
    for (uint32_t round = 0; round < 8; round++) {
        w.ranks[0].stopped = false;
        for (uint32_t i = 0; i < OFFERS; i++) {
            snprintf(key, sizeof key, "%u", i);
            o[i] = world_offer(&w, 0, key, 3, 1, 4, 60000);
        }
        w.ranks[0].stopped = true;
        for (uint32_t i = 0; i < OFFERS; i++) {
            snprintf(key, sizeof key, "%u", i);
            world_want(&w, 1, "P", key, i, 1, 4, 60000);
        }
        world_run(&w, w.now + 5 * MS);
        w.ranks[0].stopped = false;
        world_run(&w, w.now + 5 * MS);
        for (uint32_t i = 0; i < OFFERS; i++)
            DONE(&w, 0, o[i]);
        w.ranks[0].num_events = w.ranks[1].num_events = 0;
    }
    world_fini(&w);
}

/* The words are memory that others write: a seat that has become another engine's is none of this lease. */
static void a_seat_that_was_overwritten_is_refused(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
        {.name = "D1", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
        {.name = "D2", .tp = 4, .heads_total = 4, .num_blocks = 32, .node = 1},
    };
    WORLD(w, engines);
    for (uint32_t r = 1; r < 6; r++)
        warm(&w, r);
    const struct reading r = reads(&w);
    uint64_t *words = (uint64_t *)(void *)w.ranks[0].words, changed = 0;
    for (uint64_t i = 0; i < handoff_bytes((uint32_t)w.settings.leases, w.num_ranks) / 8; i++)
        if (words[i] == directory_identity(w.directory, 1)) { /* what seats say of it is of engine 2 now */
            words[i] = directory_identity(w.directory, 2);
            changed++;
        }
    assert_int_equal(changed, 1);
    baton_id_t other = world_want(&w, 5, "P", "key", 1, 1, TOKENS, 1000);
    world_run(&w, w.now + 2000 * MS);
    assert_non_null(world_event(&w, 5, other));
    DONE(&w, 1, r.want);
    DONE(&w, 0, r.offer);
    world_fini(&w);
}

/* A rank that dies while it reads is lost, and its offer fails soon. */
static void a_rank_that_dies_while_it_reads_is_lost(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1);
    w.move_ns = 300 * MS;
    uint64_t since = w.now;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 60000);
    world_want(&w, 1, "P", "key", 1, 1, TOKENS, 60000);
    w.ranks[1].is_dead = w.ranks[1].stopped = true;
    world_run(&w, since + 2000 * MS);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_EPEER);
    world_fini(&w);
}

static int words_are_on(void **state)
{
    (void)state;
    world_words = true;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offer_is_taken_without_a_message),
        cmocka_unit_test(all_ranks_of_an_engine_take_it),
        cmocka_unit_test(a_stopped_producer_serves),
        cmocka_unit_test(what_is_not_whole_goes_by_message),
        cmocka_unit_test(the_producer_refuses),
        cmocka_unit_test(who_wants_first_asks),
        cmocka_unit_test(who_was_granted_by_message_takes_no_more),
        cmocka_unit_test(a_held_lease_leaves_no_grant_behind),
        cmocka_unit_test(seats_are_the_same_for_words_and_messages),
        cmocka_unit_test(what_failed_is_given_back_as_failed),
        cmocka_unit_test(a_reader_that_is_cut_off_hears_why),
        cmocka_unit_test(a_reader_that_is_cut_off_leaves_no_trace),
        cmocka_unit_test(a_reader_that_comes_too_late_hears_why),
        cmocka_unit_test(the_next_offer_is_not_released),
        cmocka_unit_test(all_that_was_said_is_heard),
        cmocka_unit_test(a_seat_that_was_overwritten_is_refused),
        cmocka_unit_test(a_rank_that_reads_is_waited_for),
        cmocka_unit_test(a_word_counts_that_nobody_was_told_of),
        cmocka_unit_test(a_word_that_nobody_was_told_of_is_heard_at_its_loss),
        cmocka_unit_test(a_rank_that_dies_when_it_is_done_is_done),
        cmocka_unit_test(a_rank_that_dies_while_it_reads_is_lost),
    };
    return cmocka_run_group_tests(tests, words_are_on, NULL);
}
