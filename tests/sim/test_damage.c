/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are damaged. On its way each is refused and counted, and costs no more than its repetition. Where the
 * damage came before the envelope's hash, a damaged field may be believed, but every call ends, and the two ranks go on
 * talking.
 */
#include "with_world.h"

#define TOKENS 13
#define CALLS 24

struct session {
    struct world w;
    enum wire_type type; /* the first of these is damaged */
    uint32_t bit;        /* the bit of its packet */
    uint32_t done;       /* how many packets were damaged */
    uint64_t random;     /* not 0: any packet may be damaged instead, until 2 s have passed */
    bool sealed;         /* the damage comes before the hash */
    uint32_t num_calls;
    struct {
        uint32_t rank;
        baton_id_t id;
    } calls[CALLS];
};

static void flip(uint8_t *packet, uint32_t bit)
{
    packet[bit / 8] ^= (uint8_t)(1u << (bit % 8));
}

static uint32_t draw(struct session *s, uint32_t below)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->random >> 33) % below;
}

/* The packet as if it had been damaged before the hash was made. */
static void seal(uint8_t *packet, uint32_t bytes)
{
    struct envelope_counts c = {0};
    struct envelope_route route;
    memcpy(&route.from, packet + 4, 4);
    memcpy(&route.to, packet + 8, 4);
    memcpy(&c.sent, packet + 12, 4);
    memcpy(&c.consumed, packet + 16, 4);
    envelope_seal(&c, route, packet, bytes - ENVELOPE_BYTES);
}

static void damage(struct world *w, const struct world_message *m, uint8_t *packet, uint32_t bytes)
{
    struct session *s = w->user;
    if (s->random != 0) {
        if (w->now > 2000 * MS || draw(s, 10) > 2)
            return;
        for (uint32_t n = 1 + draw(s, 64); n > 0; n--)
            flip(packet, draw(s, 8 * bytes));
        s->done++;
    } else if (s->done == 0 && m->m.type == s->type && s->bit < 8 * bytes) {
        flip(packet, s->bit);
        s->done++;
    } else {
        return;
    }
    if (s->sealed)
        seal(packet, bytes);
}

static void add(struct session *s, uint32_t rank, baton_id_t id)
{
    assert_true(s->num_calls < CALLS);
    s->calls[s->num_calls].rank = rank;
    s->calls[s->num_calls++].id = id;
}

static void both_want(struct session *s, const char *key, baton_mode_t mode, uint32_t first, uint32_t tokens)
{
    s->w.mode = mode;
    for (uint32_t rank = 1; rank <= 2; rank++)
        add(s, rank, world_want(&s->w, rank, "P", key, first, 1, tokens, 20000));
}

/* Every type of message is sent, all in one world. */
static void all_sorts(struct session *s)
{
    struct world *w = &s->w;
    baton_id_t layered = world_offer_layers(w, 0, "pull", 0, 1, TOKENS, 20000),
               taken_back = world_offer_layers(w, 0, "cancel", 4, 1, TOKENS, 20000);
    add(s, 0, layered);
    add(s, 0, taken_back);
    add(s, 0, world_offer(w, 0, "push", 8, 1, TOKENS, 20000));
    add(s, 0, world_offer(w, 0, "fewer", 12, 1, 8, 20000));
    add(s, 0, world_offer(w, 0, "late", 16, 1, TOKENS, 20000));
    add(s, 0, world_offer(w, 0, "held", 20, 1, TOKENS, 20000));
    both_want(s, "pull", BATON_MODE_PULL, 0, TOKENS);
    both_want(s, "push", BATON_MODE_PUSH, 4, TOKENS);
    both_want(s, "fewer", BATON_MODE_PULL, 8, TOKENS);
    both_want(s, "held", BATON_MODE_PULL, 12, 0);
    both_want(s, "cancel", BATON_MODE_PUSH, 16, TOKENS);
    w->mode = BATON_MODE_PULL;
    add(s, 1, world_want(w, 1, "P", "late", 20, 1, TOKENS, 20000));
    world_run(w, 20 * MS);
    world_ready(w, 0, layered, 0, 1);
    world_run(w, 100 * MS);
    for (uint32_t i = s->num_calls - 3; i < s->num_calls - 1; i++)
        world_cancel(w, s->calls[i].rank, s->calls[i].id);
    world_run(w, 600 * MS); /* rank 1's want is done, and half of the time for rank 2's has passed */
    add(s, 2, world_want(w, 2, "P", "late", 20, 1, TOKENS, 20000));
    w->ranks[2].stopped = true;
    world_run(w, 1000 * MS); /* its neighbour is asked about it */
    w->ranks[2].stopped = false;
    world_run(w, 1500 * MS); /* beats went in between */
    world_ready(w, 0, layered, 1, 1);
    world_run(w, 44000 * MS);
    core_leave(w->ranks[1].core, w->now);
    world_run(w, 45000 * MS);
}

static const struct world_engine engines[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .node = 1, .verdicts = BATON_VERDICTS_ALL},
};

static void begin(struct session *s)
{
    world_init(&s->w, engines, 2);
    s->w.settings.checksum = 1;
    s->w.settings.verdict_ms = 800;
    s->w.settings.beat_ms = 100;
    s->w.user = s;
    s->w.damage = damage;
    for (uint32_t i = 0; i < 8; i++)
        world_fill(&s->w, 0, 5, 4 * i, 1, TOKENS);
}

/* Every call has ended, and a new request goes well. */
static void ends_well(struct session *s)
{
    struct world *w = &s->w;
    for (uint32_t i = 0; i < s->num_calls; i++)
        assert_non_null(world_event(w, s->calls[i].rank, s->calls[i].id));
    world_poison(w, 1);
    world_poison(w, 2);
    baton_id_t o = world_offer(w, 0, "after", 0, 1, TOKENS, 3000), d[2];
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(w, 1 + i, "P", "after", 0, 1, TOKENS, 3000);
    world_run(w, w->now + 2500 * MS);
    DONE(w, 0, o);
    for (uint32_t i = 0; i < 2; i++) {
        DONE(w, 1 + i, d[i]);
        assert_int_equal(world_wrong(w, 1 + i, 5, 0, 1, TOKENS), 0);
    }
    world_fini(w);
}

static void finds_all_types(void **state)
{
    (void)state;
    struct session s = {.bit = UINT32_MAX};
    begin(&s);
    all_sorts(&s);
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++)
        if (s.w.sent[type] == 0)
            fail_msg("no %s was sent", wire_type_name(type));
    ends_well(&s);
}

/* Each bit of the envelope, and one of `stride` bits of the message behind its header: other bits for each type. */
static void each_bit(bool sealed, uint32_t stride)
{
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++)
        for (uint32_t bit = 0;; bit += bit < 8 * ENVELOPE_BYTES + 8 * WIRE_MESSAGE_HEADER ? 1 : stride) {
            struct session s = {.type = type, .bit = bit, .sealed = sealed};
            begin(&s);
            all_sorts(&s);
            bool none = s.done == 0;
            if (!sealed)
                assert_int_equal(s.w.refused, s.done);
            ends_well(&s);
            if (none)
                break;
        }
}

static void a_flipped_bit_is_refused_and_costs_nothing_else(void **state)
{
    (void)state;
    each_bit(false, 61);
}

static void a_flipped_bit_under_a_right_hash_cuts_nobody_off(void **state)
{
    (void)state;
    each_bit(true, 61);
}

static void much_damage_ends_nothing(void **state)
{
    (void)state;
    for (unsigned sealed = 0; sealed < 2; sealed++)
        for (uint64_t seed = 1; seed <= 100; seed++) {
            struct session s = {.random = seed * UINT64_C(0x9e3779b97f4a7c15), .sealed = sealed};
            begin(&s);
            all_sorts(&s);
            assert_true(s.done > 3);
            if (!sealed)
                assert_int_equal(s.w.refused, s.done);
            ends_well(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_all_types),
        cmocka_unit_test(a_flipped_bit_is_refused_and_costs_nothing_else),
        cmocka_unit_test(a_flipped_bit_under_a_right_hash_cuts_nobody_off),
        cmocka_unit_test(much_damage_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
