/* SPDX-License-Identifier: BSD-3-Clause */
/* card: cards and block tables as bytes, see wire.h. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/bytes.h"
#include "core/wire.h"

#define CARD_MAGIC 0x4342u  /* "BC" */
#define TABLE_MAGIC 0x5442u /* "BT" */
#define CARD_HEADER 16u     /* magic, version, spare, length, checksum of what follows */

/* ---- cards ------------------------------------------------------------------------------------------------------- */

static void put_geometry(struct writer *w, const baton_geometry_t *g)
{
    put_text(w, g->model, BATON_NAME_MAX);
    put_text(w, g->dtype, BATON_DTYPE_MAX);
    put32(w, g->elem_bytes);
    put32(w, g->planes);
    put32(w, g->block_tokens);
    put32(w, g->head_size);
    put32(w, g->num_blocks);
    put32(w, g->heads_total);
    put32(w, g->head_first);
    put32(w, g->head_count);
    put32(w, g->layers_total);
    put32(w, g->layer_first);
    put32(w, g->layer_count);
    put64(w, g->bytes);
    put32(w, g->num_tensors);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *t = &g->tensors[i];
        uint8_t name = (uint8_t)strnlen(t->name, BATON_NAME_MAX - 1);
        put8(w, name);
        put_bytes(w, t->name, name);
        put32(w, t->layer);
        put32(w, t->region);
        put64(w, t->offset);
        put64(w, (uint64_t)t->stride.block);
        put64(w, (uint64_t)t->stride.plane);
        put64(w, (uint64_t)t->stride.head);
        put64(w, (uint64_t)t->stride.token);
        put64(w, (uint64_t)t->stride.channel);
    }
}

int wire_card_encode(const struct wire_card *c, uint8_t *out, uint32_t size)
{
    uint32_t most = size < WIRE_CARD_MAX ? size : WIRE_CARD_MAX;
    if (most < CARD_HEADER)
        return BATON_EINVAL;
    struct writer w = {.at = out + CARD_HEADER, .end = out + most};
    put64(&w, c->incarnation);
    put_text(&w, c->host, sizeof c->host);
    put_text(&w, c->nic, sizeof c->nic);
    put_text(&w, c->gpu, sizeof c->gpu);
    put64(&w, c->board_offset);
    put32(&w, c->board_slots);
    put64(&w, c->arena_offset);
    put64(&w, c->arena_bytes);
    put64(&w, c->pool_offset);
    put64(&w, c->pool_bytes);
    put32(&w, c->has_geometry);
    if (c->has_geometry)
        put_geometry(&w, &c->geometry);
    put_next(&w);
    if (w.bad)
        return BATON_EINVAL;
    uint32_t bytes = (uint32_t)(w.at - out);
    struct writer head = {.at = out, .end = out + CARD_HEADER};
    put16(&head, CARD_MAGIC);
    put8(&head, WIRE_VERSION);
    put8(&head, 0);
    put32(&head, bytes);
    put64(&head, XXH3_64bits(out + CARD_HEADER, bytes - CARD_HEADER));
    return (int)bytes;
}

static void get_tensor(struct reader *r, baton_tensor_t *t)
{
    uint8_t name = get8(r);
    if (name == 0 || name >= BATON_NAME_MAX) {
        r->bad = true;
        return;
    }
    get_bytes(r, t->name, name);
    if (memchr(t->name, '\0', name) != NULL)
        r->bad = true;
    t->layer = get32(r);
    t->region = get32(r);
    t->offset = get64(r);
    t->stride.block = (int64_t)get64(r);
    t->stride.plane = (int64_t)get64(r);
    t->stride.head = (int64_t)get64(r);
    t->stride.token = (int64_t)get64(r);
    t->stride.channel = (int64_t)get64(r);
}

static int get_geometry(struct reader *r, baton_geometry_t *g)
{
    get_text(r, g->model, BATON_NAME_MAX);
    get_text(r, g->dtype, BATON_DTYPE_MAX);
    g->elem_bytes = get32(r);
    g->planes = get32(r);
    g->block_tokens = get32(r);
    g->head_size = get32(r);
    g->num_blocks = get32(r);
    g->heads_total = get32(r);
    g->head_first = get32(r);
    g->head_count = get32(r);
    g->layers_total = get32(r);
    g->layer_first = get32(r);
    g->layer_count = get32(r);
    g->bytes = get64(r);
    g->num_tensors = get32(r);
    if (r->bad || g->num_tensors == 0 || g->num_tensors > BATON_TENSORS_MAX)
        return BATON_EMESSAGE;
    baton_tensor_t *tensors = calloc(g->num_tensors, sizeof *tensors);
    if (tensors == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < g->num_tensors && !r->bad; i++)
        get_tensor(r, &tensors[i]);
    if (r->bad) {
        free(tensors);
        return BATON_EMESSAGE;
    }
    g->tensors = tensors;
    return 0;
}

int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *c)
{
    struct reader r = {.at = in, .end = in + bytes};
    memset(c, 0, sizeof *c);
    bool head = get16(&r) == CARD_MAGIC && get8(&r) >= 1;
    get8(&r);
    uint32_t length = get32(&r);
    uint64_t checksum = get64(&r);
    if (r.bad || !head || length != bytes || length > WIRE_CARD_MAX ||
        checksum != XXH3_64bits(in + CARD_HEADER, bytes - CARD_HEADER))
        return BATON_EMESSAGE;
    c->incarnation = get64(&r);
    get_text(&r, c->host, sizeof c->host);
    get_text(&r, c->nic, sizeof c->nic);
    get_text(&r, c->gpu, sizeof c->gpu);
    c->board_offset = get64(&r);
    c->board_slots = get32(&r);
    c->arena_offset = get64(&r);
    c->arena_bytes = get64(&r);
    c->pool_offset = get64(&r);
    c->pool_bytes = get64(&r);
    c->has_geometry = get32(&r);
    if (r.bad || c->incarnation == 0 || c->has_geometry > 1)
        return BATON_EMESSAGE;
    return c->has_geometry ? get_geometry(&r, &c->geometry) : 0;
}

void wire_card_free(struct wire_card *card)
{
    free((void *)card->geometry.tensors);
    card->geometry.tensors = NULL;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* The checksum covers slot, generation and count too: it is seeded by them. */
static uint64_t table_checksum(uint32_t slot, uint64_t generation, uint32_t num_blocks, const uint8_t *ids)
{
    uint64_t seed = generation ^ ((uint64_t)slot << 32) ^ ((uint64_t)num_blocks << 1);
    return XXH3_64bits_withSeed(ids, (size_t)num_blocks * 4, seed);
}

void wire_table_encode(uint32_t slot, uint64_t generation, const uint32_t *blocks, uint32_t num_blocks, uint8_t *out)
{
    struct writer ids = {.at = out + WIRE_TABLE_HEADER, .end = out + wire_table_bytes(num_blocks)};
    for (uint32_t i = 0; i < num_blocks; i++)
        put32(&ids, blocks[i]);
    struct writer w = {.at = out, .end = out + WIRE_TABLE_HEADER};
    put16(&w, TABLE_MAGIC);
    put8(&w, WIRE_VERSION);
    put8(&w, 0);
    put32(&w, slot);
    put64(&w, generation);
    put32(&w, num_blocks);
    put32(&w, WIRE_VERSION - 1); /* no meaning yet */
    put64(&w, table_checksum(slot, generation, num_blocks, out + WIRE_TABLE_HEADER));
}

static int table_check(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t num_blocks,
                       uint32_t limit, uint32_t *out)
{
    struct reader r = {.at = in, .end = in + bytes};
    bool head = get16(&r) == TABLE_MAGIC && get8(&r) >= 1;
    get8(&r);
    bool same = get32(&r) == slot;
    same &= get64(&r) == generation;
    uint32_t count = get32(&r);
    get32(&r);
    uint64_t checksum = get64(&r);
    if (r.bad || !head || !same || count < num_blocks || bytes < wire_table_bytes(count) ||
        checksum != table_checksum(slot, generation, count, in + WIRE_TABLE_HEADER))
        return BATON_ESTALE;
    for (uint32_t i = 0; i < num_blocks; i++) {
        uint32_t id = get32(&r);
        if (id >= limit)
            return BATON_EMESSAGE;
        out[i] = id;
    }
    return 0;
}

int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t num_blocks,
                      uint32_t limit, uint32_t *out)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (copy == NULL)
        return BATON_ENOMEM;
    memcpy(copy, in, bytes);
    int rc = table_check(copy, bytes, slot, generation, num_blocks, limit, out);
    free(copy);
    return rc;
}
