/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests with a block table for each group, whole and as their prefill goes on: full attention, a window, a state. */
#include "with_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL, WINDOW, STATE, GROUPS };
#define TOKENS_MOST 24
#define POISON 0xa5

static const struct world_engine one_to_two[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .window_block = 2},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .window_block = 8}};

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static uint8_t byte_of(uint32_t seed, uint32_t tensor, uint32_t plane, uint32_t head, uint32_t token, uint32_t channel)
{
    uint32_t x = (seed * 2654435761u) ^ ((((tensor * 7 + plane) * 11 + head) * 64 + token) * 16 + channel);
    x *= 2246822519u;
    x ^= x >> 15;
    return (uint8_t)(x * 40503u >> 8);
}

static uint32_t planes_of(uint32_t tensor)
{
    return tensor == STATE ? 3 : 2;
}

static uint32_t channels_of(uint32_t tensor)
{
    return tensor == STATE ? 5 : 8;
}

static uint8_t *at(struct world_rank *r, uint32_t tensor, uint32_t plane, uint32_t head, const baton_table_t *t,
                   uint32_t token, uint32_t channel)
{
    const baton_strides_t *s = &r->tensors[tensor].stride;
    uint32_t block_tokens = r->geometry.groups[tensor].block_tokens, behind = token - t->first_token;
    return r->pool + r->tensors[tensor].offset + t->blocks[behind / block_tokens] * s->block + plane * s->plane +
           head * s->head + behind % block_tokens * s->token + channel * s->channel;
}

/* Blocks for the tokens [first, end): all different, and in no order. */
static void table_make(baton_table_t *t, uint32_t *ids, const baton_group_t *g, uint32_t first, uint32_t end)
{
    uint32_t n = end > first ? (end - first + g->block_tokens - 1) / g->block_tokens : 0,
             base = below(g->num_blocks - n);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = base + n - 1 - i;
    *t = (baton_table_t){ids, n, first};
}

static struct call *record(enum call_kind kind, const struct plan_tables *t, const uint32_t room[GROUPS])
{
    static baton_id_t last = 1u << 20;
    uint32_t n = 0;
    for (uint32_t i = 0; i < GROUPS; i++)
        n += room != NULL ? room[i] : t->table[i].num_blocks;
    struct call *call = calloc(1, sizeof *call + n * sizeof call->blocks[0]);
    assert_non_null(call);
    call->kind = kind;
    call->id = ++last;
    strcpy(call->key, "key");
    call_set_tables(call, t, NULL, room);
    return call;
}

/* ---- one history ------------------------------------------------------------------------------------------------- */

struct history {
    struct world w;
    uint32_t seed, tokens;
    bool in_layers, in_chunks, zero_tail;
    baton_id_t offer;
    struct plan_tables offered; /* when all tokens are there */
    uint32_t ids[GROUPS][TOKENS_MOST];
    struct {
        uint32_t tokens, held;
        baton_id_t id;
        struct plan_tables tables;
        uint32_t ids[GROUPS][TOKENS_MOST];
    } want[2];
};

/* Computes a tensor for the tokens [from, to); the state only when all tokens are there. */
static void compute(struct history *h, uint32_t tensor, uint32_t from, uint32_t to)
{
    const baton_table_t *t = &h->offered.table[tensor];
    uint32_t first = from > t->first_token ? from : t->first_token;
    if (tensor == STATE) {
        first = 0;
        to = to == h->tokens;
    }
    for (uint32_t p = 0; p < planes_of(tensor); p++)
        for (uint32_t head = 0; head < 4; head++)
            for (uint32_t token = first; token < to; token++)
                for (uint32_t c = 0; c < channels_of(tensor); c++)
                    *at(&h->w.ranks[0], tensor, p, head, t, token, c) = byte_of(h->seed, tensor, p, head, token, c);
}

static void compute_layer(struct history *h, uint32_t layer, uint32_t from, uint32_t to)
{
    for (uint32_t tensor = layer == 0 ? FULL : WINDOW; tensor <= (layer == 0 ? FULL : STATE); tensor++)
        compute(h, tensor, from, to);
}

/* The blocks that tokens [from, to) need beyond those of the tokens before. */
static struct plan_tables tables_between(const struct history *h, uint32_t from, uint32_t to)
{
    struct plan_tables t = {.num = GROUPS};
    for (uint32_t i = 0; i < GROUPS; i++) {
        const baton_table_t *all = &h->offered.table[i];
        uint32_t block = h->w.ranks[0].geometry.groups[i].block_tokens, first = all->first_token;
        uint32_t before = from > first ? (from - first + block - 1) / block : 0,
                 behind = to > first ? (to - first + block - 1) / block : 0;
        if (i == STATE) {
            before = 0;
            behind = to == h->tokens;
        }
        t.table[i] = (baton_table_t){all->blocks + before, behind - before, 0};
    }
    return t;
}

static void layers(struct history *h, uint32_t from, uint32_t to)
{
    for (uint32_t layer = 0; layer < 2; layer++) {
        compute_layer(h, layer, from, to);
        if (h->in_layers)
            world_ready_of(&h->w, 0, h->offer, layer, 1, h->in_chunks ? to : 0);
        world_run(&h->w, h->w.now + below(3) * MS);
    }
}

/* Makes the offer, and lets its prefill go on to the end. */
static void prefill(struct history *h)
{
    uint32_t room[GROUPS];
    struct plan_tables none = h->offered;
    for (uint32_t i = 0; i < GROUPS; i++) {
        room[i] = h->offered.table[i].num_blocks;
        none.table[i].num_blocks = 0;
    }
    if (!h->in_layers && !h->in_chunks)
        layers(h, 0, h->tokens);
    struct call *call = record(CALL_OFFER, h->in_chunks ? &none : &h->offered, room);
    call->submitted_ns = h->w.now;
    call->offer.num_tokens = h->tokens;
    call->offer.ttl_ms = 3000;
    call->offer.num_seats = 1;
    call->offer.in_layers = h->in_layers;
    call->offer.in_chunks = h->in_chunks;
    h->offer = world_submit(&h->w, 0, call);
    if (h->in_layers && !h->in_chunks)
        layers(h, 0, h->tokens);
    for (uint32_t from = 0, to; h->in_chunks && from < h->tokens; from = to) {
        to = from + 1 + below(h->tokens - from);
        if (!h->in_layers)
            layers(h, from, to);
        struct plan_tables more = tables_between(h, from, to);
        struct call *word = record(CALL_APPEND, &more, NULL);
        word->id = h->offer;
        word->append.num_tokens = to;
        world_submit(&h->w, 0, word);
        if (h->in_layers)
            layers(h, from, to);
    }
}

static void want(struct history *h, uint32_t k)
{
    struct world_rank *r = &h->w.ranks[1 + k];
    uint32_t tokens = below(8) == 0 ? 1 + below(h->tokens) : h->tokens, held = below(3) ? below(tokens) : 0;
    if (below(12) == 0)
        held = tokens;
    uint32_t need = tokens > WORLD_WINDOW && tokens - WORLD_WINDOW > held ? tokens - WORLD_WINDOW : held;
    struct plan_tables *t = &h->want[k].tables;
    *t = (struct plan_tables){.num = GROUPS};
    table_make(&t->table[FULL], h->want[k].ids[FULL], &r->geometry.groups[FULL], below(2) ? held / 4 * 4 : 0, tokens);
    table_make(&t->table[WINDOW], h->want[k].ids[WINDOW], &r->geometry.groups[WINDOW], below(2) ? need / 8 * 8 : 0,
               tokens);
    table_make(&t->table[STATE], h->want[k].ids[STATE], &r->geometry.groups[STATE], 0, 1);
    struct call *call = record(CALL_WANT, t, NULL);
    call->submitted_ns = h->w.now;
    call->want = (struct call_want){.engine = directory_find(h->w.directory, "P"),
                                    .num_tokens = tokens,
                                    .held_tokens = held,
                                    .timeout_ms = 3000,
                                    .mode = h->w.mode,
                                    .zero_tail = h->zero_tail};
    h->want[k].tokens = tokens;
    h->want[k].held = held;
    h->want[k].id = world_submit(&h->w, 1 + k, call);
}

/* How many bytes of the want's blocks are wrong. */
static uint32_t wrong(struct history *h, uint32_t k, uint32_t tensor)
{
    struct world_rank *r = &h->w.ranks[1 + k];
    const baton_table_t *t = &h->want[k].tables.table[tensor];
    const uint32_t tokens = h->want[k].tokens, held = h->want[k].held;
    uint32_t n = 0, end = t->first_token + t->num_blocks * r->geometry.groups[tensor].block_tokens;
    for (uint32_t token = t->first_token; token < end; token++)
        for (uint32_t p = 0; p < planes_of(tensor); p++)
            for (uint32_t head = 0; head < 2; head++)
                for (uint32_t c = 0; c < channels_of(tensor); c++) {
                    uint8_t right = POISON;
                    if (tensor == STATE
                            ? held < tokens
                            : token >= held && token < tokens && (tensor == FULL || token + WORLD_WINDOW >= tokens))
                        right = byte_of(h->seed, tensor, p, 2 * k + head, token, c);
                    else if (tensor != STATE && token >= tokens && held < tokens && h->zero_tail)
                        right = 0;
                    n += *at(r, tensor, p, head, t, token, c) != right;
                }
    return n;
}

static void check(struct history *h)
{
    for (uint32_t k = 0; k < 2; k++) {
        bool fits = h->want[k].tokens == h->tokens || h->want[k].held >= h->want[k].tokens;
        if (!fits) { /* a state can only be taken whole */
            ENDED(&h->w, 1 + k, h->want[k].id, BATON_STATUS_FAILED, BATON_ETOKENS);
            continue;
        }
        DONE(&h->w, 1 + k, h->want[k].id);
        for (uint32_t tensor = 0; tensor < GROUPS; tensor++)
            assert_int_equal(wrong(h, k, tensor), 0);
    }
    assert_non_null(world_event(&h->w, 0, h->offer));
}

static void test_histories(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 400; seed++) {
        struct history *h = calloc(1, sizeof *h);
        assert_non_null(h);
        srand(seed);
        world_init(&h->w, one_to_two, 2);
        h->w.settings.checksum = below(4) == 0;
        h->seed = seed;
        h->tokens = 1 + below(TOKENS_MOST);
        h->in_layers = below(2);
        h->in_chunks = below(2);
        h->zero_tail = below(2);
        h->offered.num = GROUPS;
        uint32_t late = h->tokens > WORLD_WINDOW ? below((h->tokens - WORLD_WINDOW) / 2 + 1) * 2 : 0;
        table_make(&h->offered.table[FULL], h->ids[FULL], &h->w.ranks[0].geometry.groups[FULL], 0, h->tokens);
        table_make(&h->offered.table[WINDOW], h->ids[WINDOW], &h->w.ranks[0].geometry.groups[WINDOW], late, h->tokens);
        table_make(&h->offered.table[STATE], h->ids[STATE], &h->w.ranks[0].geometry.groups[STATE], 0, 1);
        memset(h->w.ranks[0].pool, 0x77, h->w.ranks[0].geometry.bytes);
        uint32_t first = below(3); /* wants come before, during and after the prefill */
        for (uint32_t k = 0; k < first; k++)
            want(h, k);
        prefill(h);
        for (uint32_t k = first; k < 2; k++)
            want(h, k);
        world_run(&h->w, h->w.now + 10000 * MS);
        check(h);
        world_fini(&h->w);
        free(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),
    };
    return WORLD_ALL_WAYS(tests);
}
