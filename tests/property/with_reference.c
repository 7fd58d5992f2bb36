/* SPDX-License-Identifier: BSD-3-Clause */
/* reference: see with_reference.h. */
#include "with_reference.h"

#include <string.h>

static uint32_t mix(uint32_t h, uint32_t with)
{
    h = (h ^ with) * 0x9e3779b1u;
    return h ^ h >> 15;
}

bool reference_wanted(const baton_group_t *group, uint32_t token, uint32_t held, uint32_t tokens)
{
    if (group->kind == BATON_KIND_STATE)
        return token == 0 && held < tokens;
    if (group->kind == BATON_KIND_WINDOW && token + group->window_tokens < tokens)
        return false;
    return token >= held && token < tokens;
}

baton_group_t reference_group(const struct reference_cache *c, const baton_tensor_t *t)
{
    const baton_geometry_t *g = &c->geometry;
    return g->groups[t->group];
}

/* Called with what a byte of memory should be. */
typedef uint64_t (*visit)(struct reference_cache *c, uint64_t at, uint8_t right);

/* Visits all bytes of one head's entry in one plane. */
static uint64_t each_byte(struct reference_cache *c, const baton_tensor_t *t, uint64_t at, uint32_t h, visit v)
{
    const baton_geometry_t *g = &c->geometry;
    uint32_t channels = t->head_size > 0 ? t->head_size : g->head_size;
    uint32_t bytes = t->elem_bytes > 0 ? t->elem_bytes : g->elem_bytes;
    uint64_t sum = 0;
    for (uint32_t channel = 0; channel < channels; channel++)
        for (uint32_t b = 0; b < bytes; b++)
            sum += v(c, at + channel * (uint64_t)t->stride.channel + b, (uint8_t)mix(h, channel * 8 + b));
    return sum;
}

static uint64_t each_token(struct reference_cache *c, const baton_tensor_t *t, uint32_t token, uint32_t name, visit v)
{
    const baton_geometry_t *g = &c->geometry;
    const baton_group_t group = reference_group(c, t);
    const baton_table_t *table = &c->tables[t->group];
    uint32_t planes = t->planes > 0 ? t->planes : g->planes;
    uint32_t first = g->splits[t->split].head_first;
    uint32_t heads = g->splits[t->split].head_count;
    uint32_t behind = token - table->first_token, id = table->blocks[behind / group.block_tokens];
    uint64_t at = c->region_at[t->region] + t->offset + id * (uint64_t)t->stride.block +
                  behind % group.block_tokens * (uint64_t)t->stride.token;
    uint64_t sum = 0;
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint32_t head = 0; head < heads; head++)
            sum += each_byte(c, t, at + plane * (uint64_t)t->stride.plane + head * (uint64_t)t->stride.head,
                             mix(mix(mix(name, token), plane), first + head), v);
    return sum;
}

static uint64_t each(struct reference_cache *c, uint32_t held, uint32_t tokens, visit v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->geometry.num_tensors; i++) {
        const baton_tensor_t *t = &c->geometry.tensors[i];
        const baton_group_t group = reference_group(c, t);
        uint32_t name = 0;
        for (const char *letter = t->name; *letter != '\0'; letter++)
            name = mix(name, (uint8_t)*letter);
        for (uint32_t token = 0; token < tokens; token++)
            if (reference_wanted(&group, token, held, tokens))
                sum += each_token(c, t, token, name, v);
    }
    return sum;
}

static uint64_t fill(struct reference_cache *c, uint64_t at, uint8_t right)
{
    c->memory[at] = right;
    return 0;
}

void reference_fill(struct reference_cache *c, uint32_t held, uint32_t tokens)
{
    each(c, held, tokens, fill);
}

/* Unmarks each byte that it sees: what stays marked must not have been written. */
static uint64_t check(struct reference_cache *c, uint64_t at, uint8_t right)
{
    uint64_t wrong = c->memory[at] != right || c->writes[at] != 1;
    c->writes[at] = 0;
    return wrong;
}

uint64_t reference_wrong(struct reference_cache *c, uint32_t held, uint32_t tokens)
{
    uint64_t wrong = each(c, held, tokens, check);
    for (uint64_t i = 0; i < c->bytes; i++)
        wrong += c->writes[i] != 0;
    return wrong;
}
