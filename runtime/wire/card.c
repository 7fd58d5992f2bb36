/* SPDX-License-Identifier: BSD-3-Clause */
/* card: see card.h. */
#include "wire/card.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/bytes.h"
#include "wire/version.h"

#define CARD_MAGIC 0x4342u /* "BC" */
#define CARD_HEADER 16u    /* magic, version, spare, length, checksum of what follows */

static void put_geometry(struct writer *w, const baton_geometry_t *g)
{
    put_text(w, g->model, BATON_NAME_MAX);
    put_text(w, g->dtype, BATON_DTYPE_MAX);
    put32(w, g->elem_bytes);
    put32(w, g->planes);
    put32(w, g->head_size);
    put32(w, g->layers_total);
    put32(w, g->layer_first);
    put32(w, g->layer_count);
    put64(w, g->bytes);
    put8(w, (uint8_t)g->num_groups);
    for (uint32_t i = 0; i < g->num_groups; i++) {
        put8(w, (uint8_t)g->groups[i].kind);
        put32(w, g->groups[i].block_tokens);
        put32(w, g->groups[i].num_blocks);
        put32(w, g->groups[i].window_tokens);
    }
    put8(w, (uint8_t)g->num_splits);
    for (uint32_t i = 0; i < g->num_splits; i++) {
        put32(w, g->splits[i].heads_total);
        put32(w, g->splits[i].head_first);
        put32(w, g->splits[i].head_count);
    }
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
        put8(w, (uint8_t)t->group);
        put8(w, (uint8_t)t->split);
        put32(w, t->planes);
        put32(w, t->head_size);
        put8(w, (uint8_t)t->elem_bytes);
    }
}

static void put_regions(struct writer *w, const struct wire_card *c)
{
    put8(w, (uint8_t)c->memory);
    put64(w, c->segment);
    put32(w, c->num_regions);
    for (uint32_t i = 0; i < c->num_regions; i++) {
        const struct wire_region *x = &c->regions[i];
        put64(w, x->address);
        put64(w, x->bytes);
        put32(w, x->descriptor);
        put64(w, x->device);
        put64(w, x->inode);
        put64(w, x->offset);
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
    put64(&w, c->board_offset);
    put32(&w, c->board_slots);
    put64(&w, c->arena_offset);
    put64(&w, c->arena_bytes);
    put64(&w, c->pool_offset);
    put64(&w, c->pool_bytes);
    put32(&w, c->features);
    put64(&w, c->index_offset);
    put32(&w, c->index_slots);
    put64(&w, c->words_offset);
    put32(&w, c->words_slots);
    put32(&w, c->has_geometry);
    if (c->has_geometry)
        put_geometry(&w, &c->geometry);
    put_regions(&w, c);
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
    t->group = get8(r);
    t->split = get8(r);
    t->planes = get32(r);
    t->head_size = get32(r);
    t->elem_bytes = get8(r);
}

static void get_groups(struct reader *r, baton_geometry_t *g)
{
    g->num_groups = get8(r);
    r->bad |= g->num_groups == 0 || g->num_groups > BATON_GROUPS_MAX;
    for (uint32_t i = 0; i < g->num_groups && !r->bad; i++) {
        baton_group_t *x = &g->groups[i];
        x->kind = (baton_kind_t)get8(r);
        x->block_tokens = get32(r);
        x->num_blocks = get32(r);
        x->window_tokens = get32(r);
    }
}

static void get_splits(struct reader *r, baton_geometry_t *g)
{
    g->num_splits = get8(r);
    r->bad |= g->num_splits == 0 || g->num_splits > BATON_SPLITS_MAX;
    for (uint32_t i = 0; i < g->num_splits && !r->bad; i++) {
        baton_split_t *x = &g->splits[i];
        x->heads_total = get32(r);
        x->head_first = get32(r);
        x->head_count = get32(r);
    }
}

static int get_geometry(struct reader *r, baton_geometry_t *g)
{
    get_text(r, g->model, BATON_NAME_MAX);
    get_text(r, g->dtype, BATON_DTYPE_MAX);
    g->elem_bytes = get32(r);
    g->planes = get32(r);
    g->head_size = get32(r);
    g->layers_total = get32(r);
    g->layer_first = get32(r);
    g->layer_count = get32(r);
    g->bytes = get64(r);
    get_groups(r, g);
    get_splits(r, g);
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

static int get_regions(struct reader *r, struct wire_card *c)
{
    c->memory = get8(r);
    c->segment = get64(r);
    uint32_t num = get32(r);
    if (r->bad || num > BATON_REGIONS_MAX || (num > 0 && !c->has_geometry))
        return BATON_EMESSAGE;
    if (num == 0)
        return 0;
    c->regions = calloc(num, sizeof *c->regions);
    if (c->regions == NULL)
        return BATON_ENOMEM;
    c->num_regions = num;
    for (uint32_t i = 0; i < num && !r->bad; i++) {
        struct wire_region *x = &c->regions[i];
        x->address = get64(r);
        x->bytes = get64(r);
        x->descriptor = get32(r);
        x->device = get64(r);
        x->inode = get64(r);
        x->offset = get64(r);
        r->bad |= x->bytes > UINT64_MAX - x->address;
    }
    return r->bad ? BATON_EMESSAGE : 0;
}

int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *c)
{
    struct reader r = {.at = in, .end = in + bytes};
    memset(c, 0, sizeof *c);
    bool head = get16(&r) == CARD_MAGIC;
    uint8_t version = get8(&r);
    get8(&r);
    uint32_t length = get32(&r);
    uint64_t checksum = get64(&r);
    if (r.bad || !head || version < 1 || length != bytes || length > WIRE_CARD_MAX ||
        checksum != XXH3_64bits(in + CARD_HEADER, bytes - CARD_HEADER))
        return BATON_EMESSAGE;
    c->incarnation = get64(&r);
    get_text(&r, c->host, sizeof c->host);
    c->board_offset = get64(&r);
    c->board_slots = get32(&r);
    c->arena_offset = get64(&r);
    c->arena_bytes = get64(&r);
    c->pool_offset = get64(&r);
    c->pool_bytes = get64(&r);
    c->features = get32(&r);
    c->index_offset = get64(&r);
    c->index_slots = get32(&r);
    c->words_offset = get64(&r);
    c->words_slots = get32(&r);
    c->has_geometry = get32(&r);
    if (r.bad || c->incarnation == 0 || c->has_geometry > 1)
        return BATON_EMESSAGE;
    int rc = c->has_geometry ? get_geometry(&r, &c->geometry) : 0;
    if (rc == 0)
        rc = get_regions(&r, c);
    if (rc != 0)
        wire_card_free(c);
    return rc;
}

void wire_card_free(struct wire_card *card)
{
    free((void *)card->geometry.tensors);
    card->geometry.tensors = NULL;
    free(card->regions);
    card->regions = NULL;
}
