/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * claim: which of my blocks belong to open wants. Kept under BATON_PARANOID only: it costs the reactor a look at each
 * block of each want, twice, and one bit a block.
 */
#include "core/claim.h"

#include <stdio.h>
#include <stdlib.h>

struct claims {
    uint8_t *bits[BATON_GROUPS_MAX]; /* by group; bit i: block i belongs to an open want */
};

/* The places [*from, *behind) of a table whose blocks the want writes: of ids that stand for several blocks, of all. */
static void places(const struct call *call, const baton_group_t *group, uint32_t table, uint32_t *from,
                   uint32_t *behind)
{
    const baton_table_t *t = &call->tables.table[table];
    uint32_t first, end, n = group->blocks_per_id > 0 ? group->blocks_per_id : 1;
    plan_wanted(group, call->want.held_tokens, call->want.num_tokens, &first, &end);
    *from = *behind = 0;
    if (first >= end)
        return;
    *from = (first - t->first_token) / group->block_tokens;
    *behind = ((end - 1 - t->first_token) / group->block_tokens / n + 1) * n;
}

/* All of the want's blocks belong to it, or do no more. */
static void mark(struct claims *claims, const baton_geometry_t *g, const struct call *call, bool is)
{
    for (uint32_t t = 0; t < call->tables.num; t++) {
        baton_group_t group = g->groups[t];
        uint32_t from, behind;
        places(call, &group, t, &from, &behind);
        for (uint32_t i = from; i < behind; i++) {
            uint32_t block = call->tables.table[t].blocks[i];
            uint8_t bit = (uint8_t)(1u << (block % 8)), *byte = &claims->bits[t][block / 8];
            *byte = (uint8_t)((*byte & ~bit) | (is ? bit : 0));
        }
    }
}

/* The first place whose block belongs to another want, or `behind`. */
static uint32_t first_taken(const struct claims *claims, const struct call *call, uint32_t table, uint32_t from,
                            uint32_t behind)
{
    const uint32_t *blocks = call->tables.table[table].blocks;
    while (from < behind && !(claims->bits[table][blocks[from] / 8] >> (blocks[from] % 8) & 1))
        from++;
    return from;
}

int claim_take(struct claims **claims, const baton_geometry_t *g, const struct call *call, struct plan_why *why)
{
    if (*claims == NULL)
        *claims = calloc(1, sizeof **claims);
    if (*claims == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < call->tables.num; i++) {
        baton_group_t group = g->groups[i];
        uint32_t from, behind;
        places(call, &group, i, &from, &behind);
        if ((*claims)->bits[i] == NULL)
            (*claims)->bits[i] = calloc(group.num_blocks / 8 + 1, 1);
        if ((*claims)->bits[i] == NULL)
            return BATON_ENOMEM;
        uint32_t taken = first_taken(*claims, call, i, from, behind);
        if (taken < behind) {
            snprintf(why->text, sizeof why->text, "group %u: block %u belongs to another open want of this rank", i,
                     call->tables.table[i].blocks[taken]);
            return BATON_EINVAL;
        }
    }
    mark(*claims, g, call, true);
    return 0;
}

void claim_leave(struct claims *claims, const baton_geometry_t *g, const struct call *call)
{
    mark(claims, g, call, false);
}

void claims_destroy(struct claims *claims)
{
    for (uint32_t i = 0; claims != NULL && i < BATON_GROUPS_MAX; i++)
        free(claims->bits[i]);
    free(claims);
}
