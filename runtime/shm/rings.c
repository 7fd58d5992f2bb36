/* SPDX-License-Identifier: BSD-3-Clause */
/* rings: see rings.h. */
#include "shm/rings.h"

#include <stdlib.h>

#include "base/error.h"

struct rings_rank {
    struct bell *bell;
    enum rings_when when;
};

struct rings {
    uint32_t *owed, num_owed, num_now; /* ranks that are not NONE; those of them that are NOW */
    struct rings_rank rank[];
};

int rings_create(struct bell *const *bells, uint32_t num_ranks, struct rings **out)
{
    uint32_t num_bells = 0;
    struct rings *r = calloc(1, sizeof *r + num_ranks * sizeof r->rank[0]);
    if (r == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < num_ranks; i++) {
        r->rank[i].bell = bells[i];
        num_bells += bells[i] != NULL;
    }
    r->owed = calloc(num_bells + 1, sizeof *r->owed);
    if (r->owed == NULL) {
        free(r);
        return BATON_ENOMEM;
    }
    *out = r;
    return 0;
}

void rings_destroy(struct rings *r)
{
    if (r == NULL)
        return;
    free(r->owed);
    free(r);
}

void rings_owe(struct rings *r, uint32_t rank, enum rings_when when)
{
    struct rings_rank *to = &r->rank[rank];
    if (when <= to->when)
        return;
    if (to->when == RINGS_NONE)
        r->owed[r->num_owed++] = rank;
    r->num_now += when == RINGS_NOW;
    to->when = when;
}

void rings_hurry(struct rings *r, uint32_t rank)
{
    if (r->rank[rank].when != RINGS_NONE)
        rings_owe(r, rank, RINGS_NOW);
}

bool rings_wait(const struct rings *r)
{
    return r->num_owed > r->num_now;
}

void rings_ring(struct rings *r, enum rings_when least)
{
    uint32_t kept = 0;
    if (least == RINGS_NOW && r->num_now == 0)
        return;
    for (uint32_t i = 0; i < r->num_owed; i++) {
        struct rings_rank *to = &r->rank[r->owed[i]];
        if (to->when < least) {
            r->owed[kept++] = r->owed[i];
            continue;
        }
        to->when = RINGS_NONE;
        bell_ring_unattended(to->bell);
    }
    r->num_owed = kept;
    r->num_now = 0;
}
