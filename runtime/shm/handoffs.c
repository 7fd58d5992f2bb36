/* SPDX-License-Identifier: BSD-3-Clause */
/* handoffs: see handoffs.h. */
#include "shm/handoffs.h"

#include <stdlib.h>

struct handoffs {
    const struct vicinity *vicinity;
    uint32_t num_joined;
    struct rings *rings;
    struct port_handoff port;
    struct handoffs_rank rank[]; /* by spot */
};

/* Of a rank of another node: without an area. */
static const struct handoffs_rank *rank_of(const struct handoffs *h, uint32_t peer)
{
    return &h->rank[h->vicinity->spot_of[peer]];
}

static const struct handoff *mine(const struct handoffs *h)
{
    return &rank_of(h, h->vicinity->self)->at;
}

/* ---- the producer's ---------------------------------------------------------------------------------------------- */

static void port_write(void *self, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                       const uint64_t *seats, uint32_t num_seats)
{
    handoff_write(mine(self), slot, generation, offer, seats, num_seats);
}

static void port_enter(void *self, uint32_t slot)
{
    handoff_enter(mine(self), slot); /* or it is found by messages alone */
}

static void port_say_why(void *self, uint32_t slot, uint64_t generation, int error)
{
    handoff_say_why(mine(self), slot, generation, error);
}

static void port_leave(void *self, uint32_t slot)
{
    handoff_leave(mine(self), slot);
}

static int port_bind(void *self, uint32_t slot, uint64_t generation, uint64_t engine)
{
    return handoff_bind(mine(self), slot, generation, engine);
}

static void port_vacate(void *self, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free)
{
    handoff_vacate(mine(self), slot, generation, seat, is_free);
}

static struct handoff_word port_word(void *self, uint32_t slot, uint64_t generation, uint32_t peer)
{
    const struct handoffs *h = self;
    const struct handoffs_rank *from = rank_of(h, peer);
    if (from->at.area == NULL)
        return (struct handoff_word){HANDOFF_NONE, 0, 0};
    return handoff_word(mine(h), slot, generation, from->its);
}

static bool port_told(void *self, uint32_t *slot)
{
    return handoff_told(mine(self), slot);
}

/* ---- the consumer's ---------------------------------------------------------------------------------------------- */

static enum handoff_taken port_take(void *self, uint32_t peer, const struct handoff_want *want,
                                    struct handoff_grant *grant)
{
    const struct handoffs_rank *to = rank_of(self, peer);
    return to->at.area != NULL ? handoff_take(&to->at, to->place, want, grant) : HANDOFF_ASK;
}

static bool port_hold(void *self, uint32_t peer, uint32_t slot, uint64_t generation, uint32_t left_ms)
{
    const struct handoffs_rank *to = rank_of(self, peer);
    return to->at.area != NULL && handoff_hold(&to->at, slot, generation, to->place, left_ms);
}

static void port_give_back(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int error)
{
    const struct handoffs *h = self;
    const struct handoffs_rank *to = rank_of(h, peer);
    if (to->at.area == NULL)
        return; /* it has gone */
    handoff_give_back(&to->at, slot, generation, to->place, error);
    rings_owe(h->rings, peer, RINGS_LATER);
}

static bool port_why(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int *error)
{
    const struct handoffs_rank *to = rank_of(self, peer);
    return to->at.area != NULL && handoff_why(&to->at, slot, generation, error);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int handoffs_create(const struct vicinity *vicinity, struct rings *rings, struct handoffs **out)
{
    struct handoffs *h = calloc(1, sizeof *h + (vicinity->most + 1) * sizeof h->rank[0]);
    if (h == NULL)
        return BATON_ENOMEM;
    h->vicinity = vicinity;
    h->rings = rings;
    h->port = (struct port_handoff){.self = h,
                                    .write = port_write,
                                    .enter = port_enter,
                                    .say_why = port_say_why,
                                    .leave = port_leave,
                                    .bind = port_bind,
                                    .vacate = port_vacate,
                                    .word = port_word,
                                    .told = port_told,
                                    .take = port_take,
                                    .hold = port_hold,
                                    .give_back = port_give_back,
                                    .why = port_why};
    *out = h;
    return 0;
}

void handoffs_destroy(struct handoffs *h)
{
    free(h);
}

void handoffs_join(struct handoffs *h, uint32_t rank, const struct handoffs_rank *neighbour)
{
    struct handoffs_rank *of = &h->rank[h->vicinity->spot_of[rank]];
    h->num_joined += of->at.area == NULL;
    *of = *neighbour;
}

void handoffs_leave(struct handoffs *h, uint32_t rank)
{
    struct handoffs_rank *of = &h->rank[h->vicinity->spot_of[rank]];
    h->num_joined -= of->at.area != NULL;
    *of = (struct handoffs_rank){0};
}

const struct port_handoff *handoffs_port(const struct handoffs *h)
{
    return h != NULL && h->num_joined > 1 && mine(h)->area != NULL ? &h->port : NULL;
}
