/* SPDX-License-Identifier: BSD-3-Clause */
/* submit: the records of calls, see core.h. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

void core_submit_tables(struct core_submit *s, const struct plan_tables *tables, const uint32_t *per_id)
{
    uint32_t *place = s->blocks;
    s->tables = *tables;
    s->num_blocks = 0;
    for (uint32_t i = 0; i < tables->num; i++) {
        const baton_table_t *from = &tables->table[i];
        uint32_t n = per_id != NULL ? per_id[i] : 1, *to = place;
        for (uint32_t k = 0; k < from->num_blocks; k++)
            for (uint32_t j = 0; j < n; j++)
                *to++ = from->blocks[k] * n + j;
        s->tables.table[i].blocks = place;
        s->tables.table[i].num_blocks = from->num_blocks * n;
        s->num_blocks += from->num_blocks * n;
        if (s->room[i] < from->num_blocks * n)
            s->room[i] = from->num_blocks * n;
        place += s->room[i];
    }
}

bool core_submit_append(struct core_submit *s, const struct plan_tables *more)
{
    for (uint32_t i = 0; i < more->num; i++)
        if (i >= s->tables.num || more->table[i].num_blocks > s->room[i] - s->tables.table[i].num_blocks)
            return false;
    for (uint32_t i = 0; i < more->num; i++) {
        baton_table_t *to = &s->tables.table[i];
        uint32_t n = more->table[i].num_blocks;
        if (n > 0)
            memcpy(s->blocks + (to->blocks - s->blocks) + to->num_blocks, more->table[i].blocks, n * sizeof *s->blocks);
        to->num_blocks += n;
        s->num_blocks += n;
    }
    return true;
}

void core_submit_free(struct core_submit *s)
{
    if (s == NULL)
        return;
    free(s->spare);
    free(s->verdict);
    free(s->tickets);
    free(s);
}
