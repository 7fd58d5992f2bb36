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

bool slots_may_take(const struct slots *s, uint32_t of_peer)
{
    return of_peer == 0 || (of_peer < SLOTS_OF_PEER && s->num_taken < SLOTS_MAX);
}

struct slot *slots_take(struct slots *s)
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

void slots_give_back(struct slots *s, struct slot *slot)
{
    slot->next = s->free;
    s->free = slot;
}

bool slot_is_before(const struct slot *a, const struct slot *b)
{
    return (int32_t)(a->number - b->number) < 0;
}
