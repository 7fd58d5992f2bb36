/* SPDX-License-Identifier: BSD-3-Clause */
/* places: see places.h. */
#include "shm/places.h"

uint64_t places_bytes(uint32_t num)
{
    return (uint64_t)num * sizeof(struct place);
}

uint32_t places_claim(const struct places *p, uint64_t member)
{
    /* From a place of its own on: neighbours that come at once meet seldom. Nobody else claims for this member. */
    const uint32_t first = p->num > 0 ? (uint32_t)(member % p->num) : 0;
    for (uint32_t i = 0; i < p->num; i++)
        if (atomic_load_explicit(&p->of[i].claimed, memory_order_relaxed) == member)
            return i;
    for (uint32_t i = 0; i < p->num; i++) {
        const uint32_t place = (first + i) % p->num;
        uint64_t nobody = 0;
        /* acquire: who had it before is done with it */
        if (atomic_compare_exchange_strong_explicit(&p->of[place].claimed, &nobody, member, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return place;
    }
    return PLACES_NONE;
}

bool places_is_open(const struct places *p, uint32_t place, uint64_t member)
{
    return place < p->num && atomic_load_explicit(&p->of[place].open, memory_order_acquire) == member;
}

bool places_next_claim(const struct places *p, uint32_t *place, uint64_t *member)
{
    for (; *place < p->num; ++*place) {
        *member = atomic_load_explicit(&p->of[*place].claimed, memory_order_acquire);
        if (*member != 0 && atomic_load_explicit(&p->of[*place].open, memory_order_relaxed) != *member)
            return true;
    }
    return false;
}

bool places_open(const struct places *p, uint32_t place, uint64_t member)
{
    if (place >= p->num || atomic_load_explicit(&p->of[place].claimed, memory_order_acquire) != member)
        return false;
    atomic_store_explicit(&p->of[place].open, member, memory_order_release);
    return true;
}

void places_give_back(const struct places *p, uint64_t member)
{
    for (uint32_t i = 0; i < p->num; i++) {
        uint64_t was = member;
        if (atomic_load_explicit(&p->of[i].claimed, memory_order_relaxed) != member)
            continue;
        atomic_store_explicit(&p->of[i].open, 0, memory_order_relaxed);
        /* release: the next one finds the place closed, and its words and lane as if it had never been used */
        atomic_compare_exchange_strong_explicit(&p->of[i].claimed, &was, 0, memory_order_release, memory_order_relaxed);
    }
}
