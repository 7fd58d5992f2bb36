/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_reasons: one cause has one reason, at whatever moment it comes and whichever message brings it. The cancel, the
 * close and the expiry of a producer's offer are EGONE, ECLOSED and EGONE to every want that was to take from it, and
 * to the ranks that hear of it through those wants. ESTALE is the reason only where bytes could have been wrong and
 * nothing else explains that.
 */
#include "with_world.h"

#include <string.h>

#define TOKENS 16
#define P0 0
#define P1 1
#define D0 2
#define D1 3

/* D0 reads from P0, and D1 from P1. */
static const struct world_engine alike[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32},
};
/* D0 reads from P0 and P1. */
static const struct world_engine halves[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
};

enum cause { CANCEL, CLOSE, MISTAKE };

struct ending {
    uint32_t done, failed, undone; /* wants */
};

/* Loses every other message that an offer ended, so that the consumer must find out by itself. */
static int lose_nacks(struct world *w, const struct world_message *m)
{
    uint32_t *count = w->user;
    return m->m.type != WIRE_NACK || ++count[m->from] % 2 == 0;
}

static void end(struct world *w, enum cause cause, uint32_t rank, baton_id_t offer)
{
    if (cause == CANCEL) {
        world_cancel(w, rank, offer);
    } else if (cause == MISTAKE) {
        world_append(w, rank, offer, 0, 1, 4); /* fails, since the offer was not begun in chunks */
    } else {
        core_shut(w->ranks[rank].core, w->now);
    }
}

/* The first `ends` ranks of the producer end their offers `at` ns after the wants came. */
static void one_round(const struct world_engine engines[2], enum cause cause, uint32_t ends, uint64_t at, bool early,
                      bool lossy, bool layers, bool checksum, struct ending *out)
{
    struct world w;
    uint32_t count[4] = {0}, consumers = engines[1].tp, reason = 0;
    baton_id_t o[2], d[2];
    world_init(&w, engines, 2);
    w.settings.checksum = checksum;
    w.settings.resend_ms = 2;
    w.user = count;
    w.rule = lossy ? lose_nacks : NULL;
    w.seat = "D"; /* so that a want that comes after the offer's end is told of it */
    for (uint32_t i = 0; i < consumers && early; i++)
        d[i] = world_want(&w, D0 + i, "P", "key", 0, 1, TOKENS, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        world_fill(&w, i, 3, 0, 1, TOKENS);
        o[i] =
            layers ? world_offer_layers(&w, i, "key", 0, 1, TOKENS, 500) : world_offer(&w, i, "key", 0, 1, TOKENS, 500);
        if (layers)
            world_ready(&w, i, o[i], 0, 1);
    }
    for (uint32_t i = 0; i < consumers && !early; i++)
        d[i] = world_want(&w, D0 + i, "P", "key", 0, 1, TOKENS, 1000);
    world_run(&w, w.now + at);
    for (uint32_t i = 0; i < ends; i++)
        end(&w, cause, i, o[i]);
    for (uint32_t i = 0; i < 2 && layers; i++)
        world_ready(&w, i, o[i], 1, 1);
    world_run(&w, w.now + 3000 * MS);
    reason = cause == CLOSE ? BATON_ECLOSED : BATON_EGONE;
    for (uint32_t i = 0; i < consumers; i++) {
        const baton_event_t *e = world_event(&w, D0 + i, d[i]);
        assert_non_null(e);
        if (e->status == BATON_STATUS_DONE) {
            assert_int_equal(world_wrong(&w, D0 + i, 3, 0, 1, TOKENS), 0);
            out->done++;
            continue;
        }
        assert_int_equal(e->status, BATON_STATUS_FAILED);
        assert_int_equal((uint32_t)e->error, reason);
        assert_int_equal(world_peer(&w, e) < (int32_t)ends, 1);
        out->failed++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const baton_event_t *e = world_event(&w, i, o[i]);
        assert_non_null(e);
        if (e->status == BATON_STATUS_DONE)
            continue;
        int own = cause == CANCEL ? BATON_ECANCELED : cause == CLOSE ? BATON_ECLOSED : BATON_EINVAL;
        if (i < ends && e->error == own)
            out->undone++;
        else /* its consumer failed because of the other rank */
            assert_int_equal((uint32_t)e->error, reason);
    }
    world_fini(&w);
}

static void each_moment(enum cause cause)
{
    struct ending out = {0};
    for (uint32_t variant = 0; variant < 64; variant++)
        for (uint64_t at = 0; at <= 2 * MS; at += MS / 20) {
            bool layers = variant >> 4 & 1;
            if (cause == MISTAKE && layers)
                continue;
            one_round(variant & 1 ? alike : halves, cause, 1 + (variant >> 1 & 1), at, variant >> 2 & 1,
                      variant >> 3 & 1, layers, variant >> 5 & 1, &out);
        }
    print_message("%u wants done, %u failed with one reason; %u offers ended by that\n", out.done, out.failed,
                  out.undone);
    assert_true(out.done > 50 && out.failed > 50 && out.undone > 50);
}

static void test_a_cancel_at_any_moment(void **state)
{
    (void)state;
    each_moment(CANCEL);
}

static void test_a_close_at_any_moment(void **state)
{
    (void)state;
    each_moment(CLOSE);
}

static void test_a_mistake_at_any_moment(void **state)
{
    (void)state;
    each_moment(MISTAKE);
}

static void spoil_the_board(struct world *w, uint32_t from, uint32_t to)
{
    (void)to;
    w->ranks[from].board[0]--; /* the port asserts that generations grow */
}

static int lose_answers(struct world *w, const struct world_message *m)
{
    return !(*(bool *)w->user && (m->m.type == WIRE_NACK || m->m.type == WIRE_GRANT));
}

/*
 * The generation is another one when it is read again, by the path itself or by a call of its own, and the producer
 * still grants the same lease, or says nothing. Then nobody knows whether the bytes are those that were offered.
 */
static void test_what_is_stale(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    if (world_mode == BATON_MODE_PUSH)
        return; /* a push reads no generation again */
    for (int i = 0; i < 4; i++) {
        const bool silent = i & 1;
        WORLD(w, halves);
        bool lost = false;
        w.asks = i >> 1;
        w.user = &lost;
        w.rule = lose_answers;
        w.on_move = spoil_the_board;
        w.settings.resend_ms = 5;
        baton_id_t o[2], d;
        for (uint32_t k = 0; k < 2; k++)
            o[k] = world_offer(&w, k, "key", 0, 1, TOKENS, 500);
        d = world_want(&w, D0, "P", "key", 0, 1, TOKENS, 1000);
        while (w.ranks[P0].moves == 0)
            world_run(&w, w.now + MS / 100);
        lost = silent;
        world_run(&w, w.now + 100 * MS);
        ENDED(&w, D0, d, BATON_STATUS_FAILED, BATON_ESTALE);
        uint64_t soon = world_event_ns(&w, D0, d);
        assert_true(soon < (silent ? 25 : 5) * MS);
        assert_non_null(strstr(world_event(&w, D0, d)->detail, silent ? "does not say why" : "the same lease again"));
        lost = false;
        world_run(&w, w.now + 2000 * MS);
        for (uint32_t k = 0; k < 2; k++)
            ENDED(&w, k, o[k], BATON_STATUS_FAILED, BATON_ESTALE);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancel_at_any_moment),
        cmocka_unit_test(test_a_close_at_any_moment),
        cmocka_unit_test(test_a_mistake_at_any_moment),
        cmocka_unit_test(test_what_is_stale),
    };
    return WORLD_ALL_WAYS(tests);
}
