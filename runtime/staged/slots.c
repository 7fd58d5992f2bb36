/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots: memory that bytes pass through. The area of my segment has the generation words first, each in a cache line of
 * its own, then the slots.
 */
#include <stdatomic.h>

#include "staged/staged_inside.h"

#define WORD_BYTES 64u

static uint64_t index_of(const struct staged *s, const struct slot *slot)
{
    return (uint64_t)(slot - s->slots);
}

/* The words' part of the area, whole pages. */
static uint64_t words_bytes(const struct staged *s)
{
    return ((uint64_t)s->num_slots * WORD_BYTES + 4095) & ~UINT64_C(4095);
}

uint8_t *slot_bytes(const struct staged *s, const struct slot *slot)
{
    return s->wish.area + words_bytes(s) + index_of(s, slot) * STAGED_SLOT_BYTES;
}

uint64_t slot_offset(const struct staged *s, const struct slot *slot)
{
    return s->wish.area_offset + words_bytes(s) + index_of(s, slot) * STAGED_SLOT_BYTES;
}

uint64_t slot_word_offset(const struct staged *s, const struct slot *slot)
{
    return s->wish.area_offset + index_of(s, slot) * WORD_BYTES;
}

static struct slot *find_slot(struct staged *s)
{
    uint64_t now = clock_now_ns();
    for (uint32_t i = 0; i < s->num_slots; i++)
        if (s->slots[i].state == SLOT_FREE)
            return &s->slots[i];
    for (uint32_t i = 0; i < s->num_slots; i++)
        if (s->slots[i].state == SLOT_LENT && now - s->slots[i].since_ns > s->wish.lent_ms * CLOCK_NS_PER_MS)
            return &s->slots[i];
    return NULL;
}

struct slot *slot_take(struct staged *s)
{
    struct slot *slot = find_slot(s);
    if (slot == NULL)
        return NULL;
    slot->state = SLOT_USED;
    slot->generation = ++s->last_generation;
    _Atomic uint64_t *word = (void *)(s->wish.area + index_of(s, slot) * WORD_BYTES);
    atomic_store_explicit(word, slot->generation, memory_order_release);
    /* A reader that still reads the slot finds the generation raised, since no byte is stored before it. */
    atomic_thread_fence(memory_order_seq_cst);
    s->wish.ground.sync(s->wish.ground.arg);
    return slot;
}

void slot_give_back(struct slot *slot)
{
    slot->state = SLOT_FREE;
}

void slot_lend(struct slot *slot, uint32_t peer)
{
    slot->state = SLOT_LENT;
    slot->peer = peer;
    slot->since_ns = clock_now_ns();
}

void slot_return(struct staged *s, uint32_t peer, uint64_t generation)
{
    for (uint32_t i = 0; i < s->num_slots; i++) {
        struct slot *slot = &s->slots[i];
        if (slot->state == SLOT_LENT && slot->peer == peer && slot->generation == generation)
            slot->state = SLOT_FREE;
    }
}

uint8_t *landing_take(struct staged *s, uint32_t held)
{
    if (held >= STAGED_LANDINGS - s->num_landings + s->free_landings)
        return NULL;
    if (s->free_landings > 0)
        return s->landings[--s->free_landings];
    uint8_t *landing = malloc(STAGED_SLOT_BYTES);
    s->num_landings += landing != NULL;
    return landing;
}

void landing_give_back(struct staged *s, uint8_t *landing)
{
    s->landings[s->free_landings++] = landing;
}
