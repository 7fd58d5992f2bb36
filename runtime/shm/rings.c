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
    const struct vicinity *vicinity;
    uint32_t *owed, num_owed, num_now; /* spots of those that are not NONE; those of them that are NOW */
    struct rings_rank rank[];          /* by spot */
};

int rings_create(const struct vicinity *vicinity, struct rings **out)
{
    const uint32_t most = vicinity->most + 1;
    struct rings *r = calloc(1, sizeof *r + most * sizeof r->rank[0]);
    if (r == NULL)
        return BATON_ENOMEM;
    r->vicinity = vicinity;
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
    r->rank[r->vicinity->spot_of[rank]].bell = bell;
}

void rings_leave(struct rings *r, uint32_t rank)
{
    const uint32_t spot = r->vicinity->spot_of[rank];
    uint32_t i = 0;
    while (i < r->num_owed && r->owed[i] != spot)
        i++;
    if (i < r->num_owed) {
        r->owed[i] = r->owed[--r->num_owed];
        r->num_now -= r->rank[spot].when == RINGS_NOW;
    }
    r->rank[spot] = (struct rings_rank){0};
}

void rings_owe(struct rings *r, uint32_t rank, enum rings_when when)
{
    const uint32_t spot = r->vicinity->spot_of[rank];
    struct rings_rank *to = &r->rank[spot];
    if (when <= to->when)
        return;
    if (to->when == RINGS_NONE)
        r->owed[r->num_owed++] = spot;
    r->num_now += when == RINGS_NOW;
    to->when = when;
}

void rings_hurry(struct rings *r, uint32_t rank)
{
    if (r->rank[r->vicinity->spot_of[rank]].when != RINGS_NONE)
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
