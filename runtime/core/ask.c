/* SPDX-License-Identifier: BSD-3-Clause */
/* ask: see ask.h. */
#include "core/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spare.h"
#include "core/ends.h"
#include "core/state.h"

int ask_begin(struct ask *ask)
{
    uint32_t n = link_num_contacts(ask->link);
    ask->ranks = spare_calloc(n * sizeof *ask->ranks);
    if (ask->ranks == NULL)
        return BATON_ENOMEM;
    ask->num_legs = n;
    ask->attached_by = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        ask->ranks[i] = contact_peer(link_contact(ask->link, i));
    return 0;
}

void ask_fini(struct ask *ask)
{
    queue_leave(&ask->news);
    spare_free(ask->ranks, ask->num_legs * sizeof *ask->ranks);
    free(ask->left);
    ask->ranks = NULL;
    ask->left = NULL;
    ask->num_legs = ask->num_left = 0;
}

uint32_t ask_left_ms(const struct core *core, const struct ask *ask)
{
    uint64_t due = call_due_ns(ask->call);
    return due > core->now ? (uint32_t)((due - core->now + NS_PER_MS - 1) / NS_PER_MS) : 1;
}

bool ask_knows(const struct ask *ask, uint32_t rank)
{
    for (uint32_t i = 0; i < ask->num_legs; i++)
        if (ask->ranks[i] == rank)
            return true;
    for (uint32_t i = 0; i < ask->num_left; i++)
        if (ask->left[i].rank == rank)
            return true;
    return false;
}

bool ask_turn(struct ask *ask, uint32_t i, const struct ask_left *left, uint32_t rank)
{
    struct ask_left *more = realloc(ask->left, (ask->num_left + 1) * sizeof *more);
    if (more == NULL)
        return false;
    ask->left = more;
    more[ask->num_left++] = *left;
    ask->ranks[i] = rank;
    return true;
}

void ask_tell_end(struct core *core, const struct ask *ask, uint32_t rank, uint64_t generation, int error)
{
    struct wire_message m = {.type = generation == 0            ? WIRE_RELEASE
                                     : error == BATON_ECANCELED ? WIRE_CANCEL
                                                                : WIRE_DONE,
                             .want_id = ask->want,
                             .end = {.name.attempt = ask->call->attempt,
                                     .error = error,
                                     .generation = generation,
                                     .time_left_ms = ask_left_ms(core, ask)}};
    memcpy(m.end.name.key, ask->call->key, sizeof m.end.name.key);
    ends_tell(core, rank, &m);
}

void ask_take_attached(struct ask *ask, uint32_t leg, const struct wire_bytes *attach)
{
    baton_event_t *event = &ask->call->end.event;
    if (leg > ask->attached_by || (attach->num == 0 && leg < ask->attached_by))
        return;
    ask->attached_by = attach->num > 0 ? leg : UINT32_MAX;
    outcome_drop_attached(&ask->call->end);
    event->num_attach = attach->num;
    if (attach->num > 0)
        memcpy(event->attach, attach->data, attach->num);
}

void ask_tell(struct ask *ask)
{
    queue_join(ask->told, &ask->news);
}

void ask_fail(struct ask *ask, uint32_t rank, int error, const char *detail)
{
    struct ask_failure *f = &ask->failure;
    if (f->error == 0) {
        f->error = error;
        f->rank = (int32_t)rank;
        snprintf(f->detail, sizeof f->detail, "%s", detail);
    }
    ask_tell(ask);
}
