/* SPDX-License-Identifier: BSD-3-Clause */
/* slots: see the header. */
#include "mpi/slots.h"

#include <stdlib.h>

void slots_fini(struct slots *s)
{
    while (s->all != NULL) {
        struct slot *slot = s->all;
        s->all = slot->next_made;
        free(slot);
    }
    *s = (struct slots){0};
}

bool slots_have_place(const struct slots *s, uint32_t of_peer)
{
    return of_peer == 0 || (of_peer < SLOTS_OF_PEER && s->num_places < SLOTS_MAX);
}

void slots_take_place(struct slots *s, uint32_t *of_peer)
{
    ++*of_peer;
    s->num_places++;
}

void slots_leave_place(struct slots *s, uint32_t *of_peer)
{
    --*of_peer;
    s->num_places--;
}

struct slot *slots_get(struct slots *s)
{
    struct slot *slot = s->free;
    if (slot != NULL) {
        s->free = slot->next;
    } else if ((slot = malloc(sizeof *slot)) != NULL) {
        slot->next_made = s->all;
        s->all = slot;
    }
    return slot;
}

void slots_put_back(struct slots *s, struct slot *slot)
{
    slot->next = s->free;
    s->free = slot;
}

bool slot_is_before(const struct slot *a, const struct slot *b)
{
    return (int32_t)(a->number - b->number) < 0;
}
