/* SPDX-License-Identifier: BSD-3-Clause */
/* call: see call.h. */
#include "core/call.h"

#include <stdlib.h>
#include <string.h>

void call_set_tables(struct call *call, const struct plan_tables *tables, const uint32_t *per_id, const uint32_t *room)
{
    uint32_t *place = call->blocks;
    call->tables = *tables;
    call->num_blocks = 0;
    for (uint32_t i = 0; i < tables->num; i++) {
        const baton_table_t *from = &tables->table[i];
        uint32_t n = per_id != NULL ? per_id[i] : 1, has = from->num_blocks * n, *to = place;
        if (n == 1 && has > 0)
            memcpy(to, from->blocks, has * sizeof *to);
        for (uint32_t k = 0; n > 1 && k < from->num_blocks; k++)
            for (uint32_t j = 0; j < n; j++)
                *to++ = from->blocks[k] * n + j;
        call->tables.table[i].blocks = place;
        call->tables.table[i].num_blocks = has;
        call->num_blocks += has;
        uint32_t fits = room != NULL && room[i] > has ? room[i] : has;
        if (call->kind == CALL_OFFER)
            call->offer.room[i] = fits;
        place += fits;
    }
}

bool call_add_tables(struct call *offer, const struct plan_tables *more)
{
    struct plan_tables *mine = &offer->tables;
    for (uint32_t i = 0; i < more->num; i++)
        if (i >= mine->num || more->table[i].num_blocks > offer->offer.room[i] - mine->table[i].num_blocks)
            return false;
    for (uint32_t i = 0; i < more->num; i++) {
        baton_table_t *to = &mine->table[i];
        uint32_t n = more->table[i].num_blocks, *place = offer->blocks + (to->blocks - offer->blocks) + to->num_blocks;
        if (n > 0)
            memcpy(place, more->table[i].blocks, n * sizeof *place);
        to->num_blocks += n;
        offer->num_blocks += n;
    }
    return true;
}

void call_free(struct call *call)
{
    if (call == NULL)
        return;
    free(call->given_up);
    free(call->verdict);
    free(call);
}
