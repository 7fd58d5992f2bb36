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

/* What is sent of each part of a card, in this order. */
#define OF_GEOMETRY(member, sent) WIRE_NUMBER(baton_geometry_t, member, sent)
static const struct wire_number geometry_numbers[] = {
    OF_GEOMETRY(elem_bytes, 4),  OF_GEOMETRY(planes, 4),      OF_GEOMETRY(head_size, 4), OF_GEOMETRY(layers_total, 4),
    OF_GEOMETRY(layer_first, 4), OF_GEOMETRY(layer_count, 4), OF_GEOMETRY(bytes, 8),     {0}};

#define OF_GROUP(member, sent) WIRE_NUMBER(baton_group_t, member, sent)
static const struct wire_number group_numbers[] = {
    OF_GROUP(kind, 1), OF_GROUP(block_tokens, 4), OF_GROUP(num_blocks, 4), OF_GROUP(window_tokens, 4), {0}};

#define OF_SPLIT(member, sent) WIRE_NUMBER(baton_split_t, member, sent)
static const struct wire_number split_numbers[] = {
    OF_SPLIT(heads_total, 4), OF_SPLIT(head_first, 4), OF_SPLIT(head_count, 4), {0}};

#define OF_TENSOR(member, sent) WIRE_NUMBER(baton_tensor_t, member, sent)
static const struct wire_number tensor_numbers[] = {OF_TENSOR(layer, 4),        OF_TENSOR(region, 4),
                                                    OF_TENSOR(offset, 8),       OF_TENSOR(stride.block, 8),
                                                    OF_TENSOR(stride.plane, 8), OF_TENSOR(stride.head, 8),
                                                    OF_TENSOR(stride.token, 8), OF_TENSOR(stride.channel, 8),
                                                    OF_TENSOR(group, 1),        OF_TENSOR(split, 1),
                                                    OF_TENSOR(planes, 4),       OF_TENSOR(head_size, 4),
                                                    OF_TENSOR(elem_bytes, 1),   {0}};

#define OF_REGION(member, sent) WIRE_NUMBER(struct wire_region, member, sent)
static const struct wire_number region_numbers[] = {
    OF_REGION(address, 8), OF_REGION(bytes, 8),   OF_REGION(descriptor, 4),
    OF_REGION(device, 8),  OF_REGION(inode, 8),   OF_REGION(offset, 8),
    OF_REGION(memory, 1),  OF_REGION(ordinal, 4), {0}};

#define OF_CARD(member, sent) WIRE_NUMBER(struct wire_card, member, sent)
static const struct wire_number card_numbers[] = {OF_CARD(board_offset, 8),
                                                  OF_CARD(board_slots, 4),
                                                  OF_CARD(arena_offset, 8),
                                                  OF_CARD(arena_bytes, 8),
                                                  OF_CARD(pool_offset, 8),
                                                  OF_CARD(pool_bytes, 8),
                                                  OF_CARD(features, 4),
                                                  OF_CARD(index_offset, 8),
                                                  OF_CARD(index_slots, 4),
                                                  OF_CARD(words_offset, 8),
                                                  OF_CARD(words_slots, 4),
                                                  OF_CARD(has_geometry, 4),
                                                  {0}};

static void put_geometry(struct writer *w, const baton_geometry_t *g)
{
    put_text(w, g->model, BATON_NAME_MAX);
    put_text(w, g->dtype, BATON_DTYPE_MAX);
    put_numbers(w, g, geometry_numbers);
    put8(w, (uint8_t)g->num_groups);
    for (uint32_t i = 0; i < g->num_groups; i++)
        put_numbers(w, &g->groups[i], group_numbers);
    put8(w, (uint8_t)g->num_splits);
    for (uint32_t i = 0; i < g->num_splits; i++)
        put_numbers(w, &g->splits[i], split_numbers);
    put32(w, g->num_tensors);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *t = &g->tensors[i];
        uint8_t name = (uint8_t)strnlen(t->name, BATON_NAME_MAX - 1);
        put8(w, name);
        put_bytes(w, t->name, name);
        put_numbers(w, t, tensor_numbers);
    }
}

static void put_regions(struct writer *w, const struct wire_card *c)
{
    put64(w, c->segment);
    put32(w, c->num_regions);
    for (uint32_t i = 0; i < c->num_regions; i++)
        put_numbers(w, &c->regions[i], region_numbers);
}

int wire_card_encode(const struct wire_card *c, uint8_t *out, uint32_t size)
{
    uint32_t most = size < WIRE_CARD_MAX ? size : WIRE_CARD_MAX;
    if (most < CARD_HEADER)
        return BATON_EINVAL;
    struct writer w = {.at = out + CARD_HEADER, .end = out + most};
    put64(&w, c->member);
    put_numbers(&w, c, card_numbers);
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
    get_numbers(r, t, tensor_numbers);
}

static void get_groups(struct reader *r, baton_geometry_t *g)
{
    g->num_groups = get8(r);
    r->bad |= g->num_groups == 0 || g->num_groups > BATON_GROUPS_MAX;
    for (uint32_t i = 0; i < g->num_groups && !r->bad; i++)
        get_numbers(r, &g->groups[i], group_numbers);
}

static void get_splits(struct reader *r, baton_geometry_t *g)
{
    g->num_splits = get8(r);
    r->bad |= g->num_splits == 0 || g->num_splits > BATON_SPLITS_MAX;
    for (uint32_t i = 0; i < g->num_splits && !r->bad; i++)
        get_numbers(r, &g->splits[i], split_numbers);
}

static int get_geometry(struct reader *r, baton_geometry_t *g)
{
    get_text(r, g->model, BATON_NAME_MAX);
    get_text(r, g->dtype, BATON_DTYPE_MAX);
    get_numbers(r, g, geometry_numbers);
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
        get_numbers(r, x, region_numbers);
        r->bad |= x->bytes > UINT64_MAX - x->address || x->memory > BATON_MEMORY_SHARED;
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
    c->member = get64(&r);
    get_numbers(&r, c, card_numbers);
    if (r.bad || c->member == 0 || c->has_geometry > 1)
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
