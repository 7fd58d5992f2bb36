/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers that grow by chunks of tokens, as in a chunked prefill. */
#include "with_world.h"

#include <string.h>

#define TOKENS 13
#define BLOCKS 4

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED},
};

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + 3) / 4;
}

/* Computes tokens just before they are appended, in new blocks where the former are full. */
static void compute(struct world *w, uint32_t rank, baton_id_t id, uint32_t from, uint32_t to, uint32_t seed)
{
    world_fill(w, rank, seed, 0, 1, to);
    world_append(w, rank, id, blocks_of(from), blocks_of(to) - blocks_of(from), to);
}

static void garbage(struct world *w, uint32_t rank)
{
    world_fill(w, rank, 99, 0, 1, TOKENS);
}

/* ---- one producer and one consumer, step by step ----------------------------------------------------------------- */

enum act {
    STOP,
    COMPUTE,      /* the tokens up to a: their bytes, then the chunk */
    CHUNK,        /* of a blocks, up to token b, without bytes */
    FILL,         /* the bytes of a tokens, */
    FILL_LAYER,   /* or of layer a alone, b tokens */
    READY,        /* b layers from a, of the chunk that ends with token c; 0: does not say of which */
    LOSE,         /* the words about chunks that the case says, from now on */
    OFFER_OTHER,  /* another key, whose table is as long as that of one chunk of 5 tokens */
    CANCEL_OFFER, /* or the want */
    CANCEL_WANT,
    UNMOVED,     /* so far nothing has moved, */
    OPEN,        /* no call has ended, */
    ENDED_WELL,  /* both have, */
    RIGHT,       /* the consumer has a tokens, and nothing behind, */
    RIGHT_LAYER, /* or of layer a b tokens, */
    WRONG_LAYER, /* or has not */
    HEARD_SOON   /* the want has ended soon after a ms */
};

enum { ANY = -1 };

/* Until ms nothing else happens; 0: at once. */
struct step {
    uint32_t ms;
    enum act act;
    uint32_t a, b, c;
};

/* Of a call; ANY: whatever comes of it. Where a case says nothing, it ends well. */
struct end {
    int status, error;
};

static const struct chunks {
    const char *name;
    bool in_layers, at_once;     /* at_once: the first chunk has all blocks */
    int lost, most_lost;         /* so many words are lost, from the one to the other */
    uint32_t ttl_ms, timeout_ms; /* timeout 0: there is no want */
    uint32_t wanted;             /* tokens; 0: all */
    uint32_t board_ms;
    struct end offer, want;
    struct step step[20];
} cases[] = {
    {"tokens move when they are appended", .ttl_ms = 5000, .timeout_ms = 5000,
     .step = {{100, UNMOVED}, {0, COMPUTE, 5}, {200, RIGHT, 5}, {0, OPEN}, {0, COMPUTE, TOKENS}, {300, STOP}}},
    {"all blocks are given at once, but the tokens one by one", .at_once = true, .ttl_ms = 5000, .timeout_ms = 5000,
     .step = {{0, COMPUTE, 1},
              {10, COMPUTE, 2},
              {20, COMPUTE, 3},
              {30, COMPUTE, 4},
              {40, COMPUTE, 5},
              {50, COMPUTE, 6},
              {60, COMPUTE, 7},
              {70, COMPUTE, 8},
              {80, COMPUTE, 9},
              {90, COMPUTE, 10},
              {100, COMPUTE, 11},
              {110, COMPUTE, 12},
              {120, COMPUTE, TOKENS},
              {300, STOP}}},
    {"a want of tokens that are there ends before the prefill does, and the offer with its only consumer",
     .ttl_ms = 5000, .timeout_ms = 5000, .wanted = 6,
     .step = {{0, COMPUTE, 5},
              {100, OPEN},
              {0, COMPUTE, 7},
              {200, ENDED_WELL},
              {0, CHUNK, 2, TOKENS}, /* the offer has ended: nothing happens */
              {300, STOP}}},
    {"words are lost", .lost = 1, .most_lost = 5, .ttl_ms = 60000, .timeout_ms = 60000,
     .step = {{0, LOSE},
              {100, COMPUTE, 3},
              {0, COMPUTE, 6},
              {0, COMPUTE, 9},
              {0, COMPUTE, 12},
              {0, COMPUTE, TOKENS},
              {20000, STOP}}},
    /* When it is read, another table lies in its place. The message about that is there or is lost. */
    {"a table moves while it is read", .most_lost = 1, .ttl_ms = 60000, .timeout_ms = 60000, .board_ms = 20,
     .step = {{200, COMPUTE, 5},
              {202, LOSE}, /* the consumer is told, and reads the table */
              {0, COMPUTE, 10},
              {0, OFFER_OTHER},
              {300, COMPUTE, TOKENS},
              {30000, STOP}}},
    {"the offer is cancelled between chunks", .ttl_ms = 60000, .timeout_ms = 60000,
     .offer = {BATON_STATUS_CANCELLED, ANY}, .want = {BATON_STATUS_FAILED, ANY},
     .step = {{0, COMPUTE, 5}, {200, CANCEL_OFFER}, {30000, STOP}}},
    {"the want is cancelled between chunks", .ttl_ms = 5000, .timeout_ms = 5000,
     .offer = {BATON_STATUS_CANCELLED, BATON_ECANCELED}, .want = {BATON_STATUS_CANCELLED, BATON_ECANCELED},
     .step = {{0, COMPUTE, 5}, {100, CANCEL_WANT}, {200, STOP}}},
    {"the time to live begins with each chunk", .ttl_ms = 300, .offer = {BATON_STATUS_EXPIRED, BATON_ETIMEDOUT},
     .step = {{250, COMPUTE, 5}, {500, OPEN}, {600, STOP}}},
    {"the want's own deadline stands", .ttl_ms = 60000, .timeout_ms = 1000, .offer = {ANY, ANY},
     .want = {BATON_STATUS_EXPIRED, ANY}, .step = {{0, COMPUTE, 5}, {5000, STOP}}},
    {"each chunk becomes ready layer by layer; when one begins, all layers of the one before are ready",
     .in_layers = true, .ttl_ms = 5000, .timeout_ms = 5000,
     .step = {{0, CHUNK, 2, 6},
              {100, UNMOVED},
              {0, FILL_LAYER, 0, 6},
              {0, READY, 0, 1, 6},
              {200, RIGHT_LAYER, 0, 6},
              {0, WRONG_LAYER, 1, 6},
              {0, FILL_LAYER, 1, 6},
              {0, CHUNK, 2, TOKENS},
              {300, RIGHT, 6},
              {0, OPEN},
              {0, FILL_LAYER, 1, TOKENS},
              {0, READY, 1, 1, TOKENS},
              {400, OPEN},
              {0, FILL_LAYER, 0, TOKENS},
              {0, READY, 0, 1, TOKENS},
              {500, STOP}}},
    {"a late call about the former chunk says nothing about the next one's layers", .in_layers = true, .ttl_ms = 5000,
     .timeout_ms = 5000,
     .step = {{0, FILL, 6},
              {0, CHUNK, 2, 6},
              {0, READY, 0, 2, 6},
              {100, CHUNK, 2, TOKENS},
              {0, READY, 0, 2, 6},
              {200, OPEN},
              {0, FILL, TOKENS},
              {0, READY, 0, 2, TOKENS},
              {300, STOP}}},
    {"a call that does not say of which chunk", .in_layers = true, .ttl_ms = 5000,
     .offer = {BATON_STATUS_FAILED, BATON_EINVAL}, .step = {{0, CHUNK, 2, 6}, {0, READY, 0, 2, 0}}},
    {"a cancel is heard soon, however long the prefill took until then", .ttl_ms = 60000, .timeout_ms = 60000,
     .offer = {BATON_STATUS_CANCELLED, ANY}, .want = {BATON_STATUS_FAILED, ANY},
     .step = {{2000, COMPUTE, 1},
              {4000, COMPUTE, 2},
              {6000, COMPUTE, 3},
              {8000, COMPUTE, 4},
              {10000, COMPUTE, 5},
              {10100, CANCEL_OFFER},
              {30000, HEARD_SOON, 10100}}},
};

static int loses_words(struct world *w, const struct world_message *m)
{
    int *left = w->user;
    return m->m.type == WIRE_READY && (*left)-- > 0 ? 0 : 1;
}

/* What a case has come to. */
struct play {
    struct world *w;
    const struct chunks *c;
    baton_id_t offer, want, other;
    uint32_t blocks; /* given */
    int lost, left;  /* words: the case's, and those to be lost yet */
};

static void give(struct play *p, uint32_t blocks, uint32_t tokens)
{
    world_append(p->w, 0, p->offer, p->blocks, blocks, tokens);
    p->blocks += blocks;
}

/* True: the step did something. */
static bool act(struct play *p, const struct step *s)
{
    struct world *w = p->w;
    switch (s->act) {
    case COMPUTE:
        world_fill(w, 0, 7, 0, 1, s->a);
        give(p, (p->c->at_once ? BLOCKS : blocks_of(s->a)) - p->blocks, s->a);
        return true;
    case CHUNK:
        give(p, s->a, s->b);
        return true;
    case FILL:
        world_fill(w, 0, 7, 0, 1, s->a);
        return true;
    case FILL_LAYER:
        world_fill_layer(w, 0, s->a, 7, 0, 1, s->b);
        return true;
    case READY:
        world_ready_of(w, 0, p->offer, s->a, s->b, s->c);
        return true;
    case LOSE:
        p->left = p->lost;
        return true;
    case OFFER_OTHER:
        p->other = world_offer(w, 0, "other", 20, 1, 5, 60000);
        return true;
    case CANCEL_OFFER:
        world_cancel(w, 0, p->offer);
        return true;
    case CANCEL_WANT:
        world_cancel(w, 1, p->want);
        return true;
    default:
        return false;
    }
}

static void expect(struct play *p, const struct step *s)
{
    struct world *w = p->w;
    switch (s->act) {
    case UNMOVED:
        assert_int_equal(w->ranks[1].moves, 0);
        return;
    case OPEN:
        assert_null(world_event(w, 0, p->offer));
        if (p->c->timeout_ms > 0)
            assert_null(world_event(w, 1, p->want));
        return;
    case ENDED_WELL:
        DONE(w, 0, p->offer);
        DONE(w, 1, p->want);
        return;
    case RIGHT:
        assert_int_equal(world_wrong(w, 1, 7, 8, 1, s->a), 0);
        return;
    case RIGHT_LAYER:
        assert_int_equal(world_wrong_layer(w, 1, s->a, 7, 8, 1, s->b), 0);
        return;
    case WRONG_LAYER:
        assert_int_not_equal(world_wrong_layer(w, 1, s->a, 7, 8, 1, s->b), 0);
        return;
    case HEARD_SOON:
        assert_true(world_event_ns(w, 1, p->want) < (s->a + 2 * w->settings.resend_ms) * MS);
        return;
    default:
        assert_int_equal(s->act, STOP);
    }
}

static void check_end(struct world *w, uint32_t rank, baton_id_t id, const struct end *end)
{
    const baton_event_t *e = world_event(w, rank, id);
    if (end->status == ANY)
        return;
    assert_non_null(e);
    assert_int_equal(e->status, end->status != 0 ? end->status : BATON_STATUS_DONE);
    if (end->error != ANY)
        assert_int_equal(e->error, end->error);
}

/* What an offer and a want came to. */
static void check_ends(const struct play *p, uint32_t wanted)
{
    struct world *w = p->w;
    check_end(w, 0, p->offer, &p->c->offer);
    if (p->other != 0)
        assert_null(world_event(w, 0, p->other));
    if (p->c->timeout_ms == 0)
        return;
    check_end(w, 1, p->want, &p->c->want);
    if (p->c->want.status != 0)
        return;
    assert_int_equal(world_wrong(w, 1, 7, 8, 1, wanted), 0);
    assert_int_equal(world_event(w, 1, p->want)->bytes, wanted * 4 * 8 * 2 * 2);
    if (wanted == TOKENS)
        assert_int_equal(world_event(w, 0, p->offer)->num_blocks, BLOCKS);
}

static void play(const struct chunks *c, int lost)
{
    WORLD(w, one_to_one);
    struct play p = {.w = &w, .c = c, .lost = lost};
    const uint32_t wanted = c->wanted > 0 ? c->wanted : TOKENS;
    w.rule = loses_words;
    w.user = &p.left;
    if (c->board_ms > 0)
        w.board_ns = c->board_ms * MS;
    garbage(&w, 0);
    world_poison(&w, 1);
    p.offer = world_offer_chunks(&w, 0, "key", TOKENS, c->in_layers, c->ttl_ms);
    if (c->timeout_ms > 0)
        p.want = world_want(&w, 1, "P", "key", 8, 1, wanted, c->timeout_ms);
    for (const struct step *s = c->step; s < c->step + sizeof c->step / sizeof c->step[0]; s++) {
        if (s->ms > 0)
            world_run(&w, s->ms * MS);
        if (!act(&p, s))
            expect(&p, s);
    }
    check_ends(&p, wanted);
    world_fini(&w);
}

static void test_case(void **state)
{
    const struct chunks *c = *state;
    for (int lost = c->lost; lost <= c->most_lost; lost++)
        play(c, lost);
}

/* ---- several ranks, and what does not fit ------------------------------------------------------------------------ */

/* Chunks of any size; the want comes before, between or after them; with and without hashes. */
static void test_any_chunks(void **state)
{
    (void)state;
    static const uint32_t ends[][TOKENS] = {
        {13}, {1, 13}, {4, 8, 13}, {12, 13}, {5, 10, 13}, {3, 4, 5, 13}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}};
    for (unsigned i = 0; i < 2 * 3 * sizeof ends / sizeof ends[0]; i++) {
        const uint32_t *end = ends[i / 6];
        uint64_t want_at = i % 3 * 40;
        WORLD(w, two_to_four);
        w.settings.checksum = i % 6 / 3;
        baton_id_t o[2], d[4];
        for (uint32_t r = 0; r < 2; r++) {
            garbage(&w, r);
            o[r] = world_offer_chunks(&w, r, "key", TOKENS, false, 5000);
        }
        for (uint32_t ms = 0, k = 0, at = 0; ms < 300; ms += 5) {
            for (uint32_t n = 0; n < 4 && ms == want_at; n++) {
                world_poison(&w, 2 + n);
                d[n] = world_want(&w, 2 + n, "P", "key", 3, 2, TOKENS, 5000);
            }
            for (uint32_t r = 0; r < 2 && at < TOKENS && ms % 10 == 0; r++)
                compute(&w, r, o[r], at, end[k], 5);
            if (at < TOKENS && ms % 10 == 0)
                at = end[k++];
            world_run(&w, (ms + 5) * MS);
        }
        world_run(&w, 1000 * MS);
        for (uint32_t r = 0; r < 2; r++)
            DONE(&w, r, o[r]);
        for (uint32_t n = 0; n < 4; n++) {
            DONE(&w, 2 + n, d[n]);
            assert_int_equal(world_wrong(&w, 2 + n, 5, 3, 2, TOKENS), 0);
        }
        world_fini(&w);
    }
}

/* An append that does not fit ends the offer with its reason, and the want with it. */
static void test_what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        uint32_t blocks, tokens;
        int error;
    } bad[] = {{1, 5, BATON_ETOKENS},  /* no more tokens than before */
               {1, 4, BATON_ETOKENS},  /* fewer tokens than before */
               {0, 9, BATON_ETOKENS},  /* tokens without blocks */
               {2, 14, BATON_ETOKENS}, /* more than were offered */
               {3, 13, BATON_ETOKENS}, /* more blocks than those tokens take */
               {0, 0, BATON_EINVAL}};  /* the offer was not begun in chunks */
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        WORLD(w, one_to_one);
        bool plain = bad[i].error == BATON_EINVAL;
        w.seat = "D";
        garbage(&w, 0);
        baton_id_t o = plain ? world_offer(&w, 0, "key", 0, 1, TOKENS, 5000)
                             : world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
        if (!plain)
            compute(&w, 0, o, 0, 5, 7);
        world_append(&w, 0, o, 2, bad[i].blocks, bad[i].tokens);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 1000);
        world_run(&w, 3000 * MS);
        ENDED(&w, 0, o, BATON_STATUS_FAILED, bad[i].error);
        assert_true(strlen(world_event(&w, 0, o)->detail) > 0);
        assert_null(strstr(world_event(&w, 0, o)->detail, "rank 1")); /* its own reason, not the consumer's */
        assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
        world_fini(&w);
    }
}

/* Several producer ranks, and another engine that comes too late. */
static void test_several_ranks(void **state)
{
    (void)state;
    static const struct world_engine three[] = {{.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
                                                {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                {.name = "E", .tp = 4, .heads_total = 4, .num_blocks = 32}};
    WORLD(w, three);
    baton_id_t o[2], d[5];
    for (uint32_t r = 0; r < 2; r++) {
        garbage(&w, r);
        o[r] = world_offer_chunks(&w, r, "key", TOKENS, false, 5000);
    }
    world_poison(&w, 2);
    d[0] = world_want(&w, 2, "P", "key", 8, 1, TOKENS, 5000);
    for (uint32_t r = 0; r < 2; r++)
        compute(&w, r, o[r], 0, 8, 7);
    world_run(&w, 100 * MS);
    for (uint32_t r = 0; r < 2; r++)
        compute(&w, r, o[r], 8, TOKENS, 7);
    world_run(&w, 200 * MS);
    DONE(&w, 2, d[0]);
    for (uint32_t r = 0; r < 2; r++)
        DONE(&w, r, o[r]); /* one seat */
    for (uint32_t k = 1; k < 5; k++)
        d[k] = world_want(&w, 2 + k, "P", "key", 8, 1, TOKENS, 500);
    world_run(&w, 1000 * MS);
    for (uint32_t k = 1; k < 5; k++) /* these wait for the next offer of the key */
        ENDED(&w, 2 + k, d[k], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

#define CASES (sizeof cases / sizeof cases[0])

int main(void)
{
    struct CMUnitTest rows[CASES];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_chunks),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_several_ranks),
    };
    for (unsigned i = 0; i < CASES; i++)
        rows[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
    return WORLD_ALL_WAYS(tests) + WORLD_ALL_WAYS(rows);
}
