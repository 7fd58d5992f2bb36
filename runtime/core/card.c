/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * card: what a rank publishes of itself, to bytes and back. Pure functions of their arguments, called by any thread;
 * the only memory they allocate is a decoded card's tensors.
 *
 * A card: magic u32, version u16, 0 u16, length u32 (of the whole card), 0 u32, then the fields in the order in which
 * encode and decode name them, at the end the checksum of all before. Later versions put new fields in front of the
 * checksum, and new fields of a tensor at the end of its record, which begins with its length.
 */
#include "core/wire.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define CARD_MAGIC 0x44524342u /* "BCRD" */
#define CARD_LENGTH 8u         /* offset of the length */
#define CARD_WORD 8u           /* board and arena are read as 64-bit words in place: they must be aligned */

/* ---- encode ------------------------------------------------------------------------------------------------------ */

static void put_tensor(struct wire_writer *w, const baton_tensor_t *t)
{
    uint32_t begin = w->used;
    wire_put(w, 0, 2);
    wire_put_text(w, t->name, sizeof(t->name));
    wire_put(w, t->layer, 4);
    wire_put(w, t->region, 4);
    wire_put(w, t->offset, 8);
    wire_put(w, (uint64_t)t->stride.block, 8);
    wire_put(w, (uint64_t)t->stride.plane, 8);
    wire_put(w, (uint64_t)t->stride.head, 8);
    wire_put(w, (uint64_t)t->stride.token, 8);
    wire_put(w, (uint64_t)t->stride.channel, 8);
    wire_put_at(w, begin, w->used - begin, 2);
}

static void put_geometry(struct wire_writer *w, const baton_geometry_t *g)
{
    wire_put_text(w, g->model, sizeof(g->model));
    wire_put_text(w, g->dtype, sizeof(g->dtype));
    wire_put(w, g->elem_bytes, 4);
    wire_put(w, g->planes, 4);
    wire_put(w, g->block_tokens, 4);
    wire_put(w, g->head_size, 4);
    wire_put(w, g->num_blocks, 4);
    wire_put(w, g->heads_total, 4);
    wire_put(w, g->head_first, 4);
    wire_put(w, g->head_count, 4);
    wire_put(w, g->layers_total, 4);
    wire_put(w, g->layer_first, 4);
    wire_put(w, g->layer_count, 4);
    wire_put(w, g->bytes, 8);
    wire_put(w, g->num_tensors, 4);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        put_tensor(w, &g->tensors[i]);
    }
}

int wire_card_encode(const struct wire_card *card, uint8_t *out, uint32_t size)
{
    struct wire_writer w = {.out = out, .size = size < WIRE_CARD_MAX ? size : WIRE_CARD_MAX};
    if (card->has_geometry && card->geometry.num_tensors > BATON_TENSORS_MAX) {
        return BATON_EINVAL;
    }
    wire_put(&w, CARD_MAGIC, 4);
    wire_put(&w, WIRE_VERSION, 2);
    wire_put(&w, 0, 2);
    wire_put(&w, 0, 4);
    wire_put(&w, 0, 4);
    wire_put(&w, card->incarnation, 8);
    wire_put_text(&w, card->host, sizeof(card->host));
    wire_put_text(&w, card->nic, sizeof(card->nic));
    wire_put_text(&w, card->gpu, sizeof(card->gpu));
    wire_put(&w, card->board_offset, 8);
    wire_put(&w, card->board_slots, 4);
    wire_put(&w, card->arena_offset, 8);
    wire_put(&w, card->arena_bytes, 8);
    wire_put(&w, card->pool_offset, 8);
    wire_put(&w, card->pool_bytes, 8);
    wire_put(&w, card->has_geometry ? 1 : 0, 1);
    if (card->has_geometry) {
        put_geometry(&w, &card->geometry);
    }
    if (w.full) {
        return BATON_EINVAL;
    }
    wire_put_at(&w, CARD_LENGTH, w.used + WIRE_CHECKSUM_BYTES, 4);
    wire_put(&w, XXH3_64bits(out, w.used), WIRE_CHECKSUM_BYTES);
    return w.full ? BATON_EINVAL : (int)w.used;
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

static void get_tensor(struct wire_reader *r, baton_tensor_t *t)
{
    uint32_t length = (uint32_t)wire_get(r, 2);
    if (length < 2 || length - 2 > r->size - r->used) {
        r->bad = true;
        return;
    }
    struct wire_reader record = {.in = r->in + r->used, .size = length - 2};
    wire_get_text(&record, t->name, sizeof(t->name));
    t->layer = wire_get_u32(&record);
    t->region = wire_get_u32(&record);
    t->offset = wire_get(&record, 8);
    t->stride.block = (int64_t)wire_get(&record, 8);
    t->stride.plane = (int64_t)wire_get(&record, 8);
    t->stride.head = (int64_t)wire_get(&record, 8);
    t->stride.token = (int64_t)wire_get(&record, 8);
    t->stride.channel = (int64_t)wire_get(&record, 8);
    r->used += record.size;
    r->bad = r->bad || record.bad;
}

/** BATON_ENOMEM, or 0 with r->bad as it may be. On 0 the tensors are the geometry's. */
static int get_tensors(struct wire_reader *r, baton_geometry_t *g)
{
    uint32_t n = wire_get_u32(r);
    if (r->bad || n > BATON_TENSORS_MAX) {
        r->bad = true;
        return 0;
    }
    baton_tensor_t *tensors = calloc(n > 0 ? n : 1, sizeof(*tensors));
    if (tensors == NULL) {
        return BATON_ENOMEM;
    }
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        get_tensor(r, &tensors[i]);
    }
    g->tensors = tensors;
    g->num_tensors = n;
    return 0;
}

static int get_geometry(struct wire_reader *r, baton_geometry_t *g)
{
    wire_get_text(r, g->model, sizeof(g->model));
    wire_get_text(r, g->dtype, sizeof(g->dtype));
    g->elem_bytes = wire_get_u32(r);
    g->planes = wire_get_u32(r);
    g->block_tokens = wire_get_u32(r);
    g->head_size = wire_get_u32(r);
    g->num_blocks = wire_get_u32(r);
    g->heads_total = wire_get_u32(r);
    g->head_first = wire_get_u32(r);
    g->head_count = wire_get_u32(r);
    g->layers_total = wire_get_u32(r);
    g->layer_first = wire_get_u32(r);
    g->layer_count = wire_get_u32(r);
    g->bytes = wire_get(r, 8);
    return get_tensors(r, g);
}

static bool places_are_good(const struct wire_card *card)
{
    return card->board_offset % CARD_WORD == 0 && card->arena_offset % CARD_WORD == 0 &&
           !wire_range_wraps(card->board_offset, (uint64_t)card->board_slots * CARD_WORD) &&
           !wire_range_wraps(card->arena_offset, card->arena_bytes) &&
           !wire_range_wraps(card->pool_offset, card->pool_bytes);
}

static int get_card(struct wire_reader *r, struct wire_card *card)
{
    card->incarnation = wire_get(r, 8);
    wire_get_text(r, card->host, sizeof(card->host));
    wire_get_text(r, card->nic, sizeof(card->nic));
    wire_get_text(r, card->gpu, sizeof(card->gpu));
    card->board_offset = wire_get(r, 8);
    card->board_slots = wire_get_u32(r);
    card->arena_offset = wire_get(r, 8);
    card->arena_bytes = wire_get(r, 8);
    card->pool_offset = wire_get(r, 8);
    card->pool_bytes = wire_get(r, 8);
    card->has_geometry = (uint32_t)wire_get(r, 1);
    if (card->incarnation == 0 || card->has_geometry > 1 || !places_are_good(card)) {
        r->bad = true;
    }
    return r->bad || !card->has_geometry ? 0 : get_geometry(r, &card->geometry);
}

int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *card)
{
    struct wire_reader r = {.in = in, .size = bytes};
    uint64_t magic = wire_get(&r, 4), version = wire_get(&r, 2);
    wire_get(&r, 2);
    uint32_t length = wire_get_u32(&r);
    wire_get(&r, 4);
    if (r.bad || magic != CARD_MAGIC || version < 1 || length > bytes || length > WIRE_CARD_MAX ||
        length < r.used + WIRE_CHECKSUM_BYTES || !wire_checksum_matches(in, length - WIRE_CHECKSUM_BYTES)) {
        return BATON_EMESSAGE;
    }
    r.size = length - WIRE_CHECKSUM_BYTES;
    struct wire_card found = {0};
    int error = get_card(&r, &found);
    if (error == 0 && r.bad) {
        error = BATON_EMESSAGE;
    }
    if (error != 0) {
        wire_card_free(&found);
        return error;
    }
    *card = found;
    return 0;
}

void wire_card_free(struct wire_card *card)
{
    free((void *)(uintptr_t)card->geometry.tensors); /* const for the plan that reads them; ours to free */
    card->geometry.tensors = NULL;
    card->geometry.num_tensors = 0;
}
