/* SPDX-License-Identifier: BSD-3-Clause */
/* ask: what a want asks of every rank that serves it, for the want and its legs. */
#include "core/state.h"

const baton_ticket_t *ask_ticket(const struct want *want, uint32_t peer)
{
    for (uint32_t i = 0; i < want->call->want.num_tickets; i++)
        if (want->call->want.tickets[i].rank == peer)
            return &want->call->want.tickets[i];
    return NULL;
}

uint32_t ask_left_ms(const struct core *core, const struct want *want)
{
    uint64_t due = call_due_ns(want->call);
    return due > core->now ? (uint32_t)((due - core->now + NS_PER_MS - 1) / NS_PER_MS) : 1;
}

bool ask_knows(const struct want *want, uint32_t rank)
{
    for (uint32_t i = 0; i < want->num_legs; i++)
        if (contact_peer(want->legs[i].contact) == rank)
            return true;
    for (uint32_t i = 0; i < want->num_left; i++)
        if (want->left[i].peer == rank)
            return true;
    return false;
}
