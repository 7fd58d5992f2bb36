/* SPDX-License-Identifier: BSD-3-Clause */
/* vicinity: see vicinity.h. */
#include "shm/vicinity.h"

#include <stdlib.h>

#include "base/error.h"

int vicinity_create(uint32_t self, uint32_t ranks, uint32_t most, struct vicinity **out)
{
    struct vicinity *v = calloc(1, sizeof *v + ranks * sizeof v->spot_of[0]);
    if (v == NULL)
        return BATON_ENOMEM;
    v->rank_at = calloc(most + 1, sizeof *v->rank_at);
    if (v->rank_at == NULL) {
        free(v);
        return BATON_ENOMEM;
    }
    v->self = self;
    v->most = most;
    for (uint32_t i = 0; i <= most; i++)
        v->rank_at[i] = VICINITY_NONE;
    *out = v;
    return 0;
}

void vicinity_destroy(struct vicinity *v)
{
    if (v == NULL)
        return;
    free(v->rank_at);
    free(v);
}

void vicinity_add(struct vicinity *v, uint32_t rank)
{
    uint32_t spot = 1;
    while (spot <= v->most && v->rank_at[spot] != VICINITY_NONE)
        spot++;
    if (spot > v->most || v->spot_of[rank] != 0)
        return;
    v->rank_at[spot] = rank;
    v->spot_of[rank] = spot;
}

void vicinity_remove(struct vicinity *v, uint32_t rank)
{
    if (v->spot_of[rank] == 0)
        return;
    v->rank_at[v->spot_of[rank]] = VICINITY_NONE;
    v->spot_of[rank] = 0;
}
