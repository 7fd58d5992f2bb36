/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease: see lease.h. The arena is first fit over a sorted list of free extents that are merged when they meet: a few
 * thousand tables at most, so a walk is cheap beside the messages of an offer.
 */
#include "core/lease.h"

#include <stdlib.h>

#include "wire/table.h"

struct extent {
    uint64_t offset, bytes;
    struct extent *next;
};

struct leases {
    uint32_t slots, num_free;
    uint32_t
        *free_slots; /* a circular buffer, the oldest first: what is said of an ended lease stays readable for long */
    uint32_t first_free;
    uint64_t last; /* generation */
    uint8_t *arena;
    struct extent *extents; /* free, sorted by offset */
};

struct leases *leases_create(uint32_t slots, uint64_t first, uint8_t *arena, uint64_t arena_bytes)
{
    struct leases *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->free_slots = malloc(slots * sizeof *l->free_slots);
    l->extents = calloc(1, sizeof *l->extents);
    if (l->free_slots == NULL || l->extents == NULL) {
        leases_destroy(l);
        return NULL;
    }
    l->slots = l->num_free = slots;
    l->last = first;
    for (uint32_t i = 0; i < slots; i++)
        l->free_slots[i] = i;
    l->arena = arena;
    l->extents->bytes = arena_bytes & ~UINT64_C(7);
    return l;
}

void leases_destroy(struct leases *l)
{
    if (l == NULL)
        return;
    while (l->extents != NULL) {
        struct extent *e = l->extents;
        l->extents = e->next;
        free(e);
    }
    free(l->free_slots);
    free(l);
}

static int arena_take(struct leases *l, uint64_t bytes, uint64_t *offset)
{
    for (struct extent **at = &l->extents; *at != NULL; at = &(*at)->next) {
        struct extent *e = *at;
        if (e->bytes < bytes)
            continue;
        *offset = e->offset;
        e->offset += bytes;
        e->bytes -= bytes;
        if (e->bytes == 0 && (e->next != NULL || at != &l->extents)) { /* one extent always stays, so give needs none */
            *at = e->next;
            free(e);
        }
        return 0;
    }
    return BATON_EAGAIN;
}

/* Where no memory is left for an extent, the room is lost until close rather than handed out wrongly. */
static void arena_give(struct leases *l, uint64_t offset, uint64_t bytes)
{
    struct extent **at = &l->extents, *before = NULL;
    while (*at != NULL && (*at)->offset < offset) {
        before = *at;
        at = &(*at)->next;
    }
    struct extent *after = *at;
    if (before != NULL && before->offset + before->bytes == offset) {
        before->bytes += bytes;
        if (after != NULL && before->offset + before->bytes == after->offset) {
            before->bytes += after->bytes;
            before->next = after->next;
            free(after);
        }
        return;
    }
    if (after != NULL && offset + bytes == after->offset) {
        after->offset = offset;
        after->bytes += bytes;
        return;
    }
    struct extent *e = malloc(sizeof *e);
    if (e == NULL)
        return;
    *e = (struct extent){.offset = offset, .bytes = bytes, .next = after};
    *at = e;
}

/* Words about a lease have 40 bits of it (shm/handoff.c), of which not all are 0. */
static uint64_t next_generation(struct leases *l)
{
    l->last++;
    l->last += (l->last & ((UINT64_C(1) << 40) - 1)) == 0;
    return l->last;
}

int lease_open(struct leases *l, const struct plan_tables *tables, uint32_t entries, struct lease *lease)
{
    uint64_t bytes = (wire_table_bytes(entries) + 7) & ~UINT64_C(7), offset;
    if (l->num_free == 0)
        return BATON_EAGAIN;
    int rc = arena_take(l, bytes, &offset);
    if (rc != 0)
        return rc;
    uint32_t slot = l->free_slots[l->first_free];
    l->first_free = (l->first_free + 1) % l->slots;
    l->num_free--;
    *lease =
        (struct lease){.slot = slot, .generation = next_generation(l), .table_offset = offset, .table_bytes = bytes};
    wire_table_encode(slot, lease->generation, tables, l->arena + offset);
    return 0;
}

void lease_rewrite(struct leases *l, const struct plan_tables *tables, const struct lease *lease)
{
    wire_table_encode(lease->slot, lease->generation, tables, l->arena + lease->table_offset);
}

const uint8_t *lease_encoded(const struct leases *l, const struct lease *lease)
{
    return l->arena + lease->table_offset;
}

uint64_t lease_end(struct leases *l, const struct lease *lease)
{
    arena_give(l, lease->table_offset, lease->table_bytes);
    l->free_slots[(l->first_free + l->num_free++) % l->slots] = lease->slot;
    return next_generation(l);
}

uint32_t leases_live(const struct leases *l)
{
    return l->slots - l->num_free;
}
