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

int rings_create(uint32_t most, struct rings **out)
{
    struct rings *r = calloc(1, sizeof *r + most * sizeof r->rank[0]);
    if (r == NULL)
        return BATON_ENOMEM;
    r->owed = calloc(most, sizeof *r->owed);
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

void rings_join(struct rings *r, uint32_t rank, struct bell *bell)
{
    r->rank[rank].bell = bell;
}

void rings_leave(struct rings *r, uint32_t rank)
{
    uint32_t i = 0;
    while (i < r->num_owed && r->owed[i] != rank)
        i++;
    if (i < r->num_owed) {
        r->owed[i] = r->owed[--r->num_owed];
        r->num_now -= r->rank[rank].when == RINGS_NOW;
    }
    r->rank[rank] = (struct rings_rank){0};
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
