/* SPDX-License-Identifier: BSD-3-Clause */
/* gone: see gone.h. */
#include "core/gone.h"

#include <utlist.h>

#include "core/attempt.h"
#include "core/check.h"
#include "core/ends.h"
#include "core/link.h"
#include "core/mover.h"
#include "core/offer.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/state.h"
#include "core/survey.h"
#include "core/want.h"

void gone_member(struct core *core, const struct port_event *left)
{
    const uint32_t engine = core->c.directory->engine_of[left->peer];
    peer_go(core, left->peer, left->error != 0, left->is_quiet);
    readers_drop_words(core, left->peer);
    wants_lose_engine(core, engine, left->peer);
    while (wants_on_legs(core))
        continue;
    offers_lose_engine(core, engine);
    attempts_lose(core, left->peer);
}

/* ---- when it can be forgotten ------------------------------------------------------------------------------------ */

/* Legs of wants, readers of offers and words of ends are business with their ranks. */
static bool is_over(const struct core *core, const struct directory_engine *e)
{
    if (e->num_left < e->num_joined || e->index == core_engine(core))
        return false;
    for (uint32_t i = 0; i < e->num_ranks; i++)
        if (e->ranks[i] != DIRECTORY_NONE && (!peer_is_over(core, e->ranks[i]) || checks_know(core, e->ranks[i])))
            return false;
    return !offers_know(core, e->index) && !wants_know(core, e->index);
}

static void forget(struct core *core, const struct directory_engine *e)
{
    survey_forget(core, e->index);
    links_forget(core, e->index);
    for (uint32_t i = 0; i < e->num_ranks; i++) {
        const uint32_t rank = e->ranks[i];
        if (rank == DIRECTORY_NONE)
            continue;
        checks_forget(core, rank);
        attempts_lose(core, rank); /* offers that ended later have remembered it */
        ends_forget(core, rank);
        movers_forget(core, rank);
        near_forget(core, rank);
        post_forget(core->post, rank);
        peer_forget(core, rank);
    }
}

bool core_take_forgotten(struct core *core, uint32_t *engine)
{
    const struct directory_engine *e;
    DL_FOREACH(core->c.directory->gone, e)
    {
        if (!is_over(core, e))
            continue;
        forget(core, e);
        *engine = e->index;
        return true;
    }
    return false;
}
