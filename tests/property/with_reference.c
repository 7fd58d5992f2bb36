/* SPDX-License-Identifier: BSD-3-Clause */
/* reference: see with_reference.h. */
#include "with_reference.h"

#include <string.h>

static uint8_t byte_of(const baton_tensor_t *t, uint32_t plane, uint32_t head, uint32_t token, uint32_t byte)
{
    uint32_t h = 2166136261u;
    for (const char *c = t->name; *c != '\0'; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    h = (h ^ plane) * 16777619u;
    h = (h ^ head) * 16777619u;
    h = (h ^ token) * 16777619u;
    h = (h ^ byte) * 16777619u;
    return (uint8_t)(h ^ h >> 15);
}

static uint64_t address(const struct reference_cache *c, const baton_tensor_t *t, uint32_t plane, uint32_t head,
                        uint32_t token, uint32_t byte)
{
    const baton_geometry_t *g = &c->geometry;
    return t->offset + c->blocks[token / g->block_tokens] * (uint64_t)t->stride.block +
           plane * (uint64_t)t->stride.plane + head * (uint64_t)t->stride.head +
           token % g->block_tokens * (uint64_t)t->stride.token + byte / g->elem_bytes * (uint64_t)t->stride.channel +
           byte % g->elem_bytes;
}

typedef void (*visit)(struct reference_cache *c, uint64_t at, uint8_t right, uint64_t *wrong);

static uint64_t each(struct reference_cache *c, uint32_t tokens, visit v)
{
    const baton_geometry_t *g = &c->geometry;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < g->num_tensors; i++)
        for (uint32_t p = 0; p < g->planes; p++)
            for (uint32_t h = 0; h < g->head_count; h++)
                for (uint32_t t = 0; t < tokens; t++)
                    for (uint32_t b = 0; b < g->head_size * g->elem_bytes; b++)
                        v(c, address(c, &g->tensors[i], p, h, t, b),
                          byte_of(&g->tensors[i], p, g->head_first + h, t, b), &wrong);
    return wrong;
}

static void fill(struct reference_cache *c, uint64_t at, uint8_t right, uint64_t *wrong)
{
    (void)wrong;
    c->memory[at] = right;
}

void reference_fill(struct reference_cache *c, uint32_t tokens)
{
    each(c, tokens, fill);
}

/* A byte found right is marked, so that what is left unmarked must not have been written. */
static void check(struct reference_cache *c, uint64_t at, uint8_t right, uint64_t *wrong)
{
    *wrong += c->memory[at] != right || c->writes[at] != 1;
    c->writes[at] = 0;
}

uint64_t reference_wrong(const struct reference_cache *c, uint32_t tokens)
{
    struct reference_cache copy = *c;
    uint64_t wrong = each(&copy, tokens, check);
    for (uint64_t i = 0; i < c->geometry.bytes; i++)
        wrong += c->writes[i] != 0;
    return wrong;
}
