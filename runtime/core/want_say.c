/* SPDX-License-Identifier: BSD-3-Clause */
/* want_say: what a want says to the ranks of its producer, see want_inside.h. */
#include "core/state.h"
#include "core/want_inside.h"

static void release(struct core *core, const struct want *want, uint32_t rank, int error)
{
    ask_tell_end(core, &want->ask, rank, 0, error);
}

static void release_unknown(struct core *core, const struct want *want, uint32_t rank, int error)
{
    if (!ask_knows(&want->ask, rank))
        release(core, want, rank, error);
}

void want_tell_end(struct core *core, struct want *want, int error)
{
    const struct ask *ask = &want->ask;
    if (ask->link == NULL || want->never_told)
        return; /* it will be wanted again */
    for (uint32_t i = 0; want->legs != NULL && i < ask->num_legs; i++)
        leg_tell_end(core, leg_at(want->legs, i), error);
    if (want->told)
        return;
    want->told = true;
    const struct directory_engine *engine = core->c.directory->engines[want->name.engine];
    uint32_t num_spares;
    const uint32_t *spares = link_spares(ask->link, &num_spares);
    if (link_state(ask->link) == LINK_BUILDING) {
        for (uint32_t i = 0; i < engine->num_ranks; i++)
            release(core, want, engine->ranks[i], error);
        return;
    }
    for (uint32_t i = 0; i < ask->num_left; i++)
        ask_tell_end(core, ask, ask->left[i].rank, ask->left[i].generation, error);
    for (uint32_t i = 0; i < link_num_contacts(ask->link); i++)
        release_unknown(core, want, contact_peer(link_contact(ask->link, i)), error);
    for (uint32_t i = 0; i < num_spares; i++)
        release_unknown(core, want, spares[i], error);
}

void want_tell_idle(struct core *core, const struct want *want, int error)
{
    uint32_t num;
    const uint32_t *idle = link_idle(want->ask.link, &num);
    for (uint32_t i = 0; i < num; i++)
        release(core, want, idle[i], error);
}
