/* SPDX-License-Identifier: BSD-3-Clause */
/* leg_say: what a leg says to its producer rank, by message or by words, see leg_inside.h. */
#include <stdio.h>
#include <string.h>

#include "core/leg_inside.h"
#include "core/outcome.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/state.h"
#include "wire/table.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

void leg_send_want(struct core *core, struct leg *leg)
{
    const struct call *call = leg->ask->call;
    const struct lease *lease = &leg->ask->lease;
    struct wire_message m = {.type = WIRE_WANT,
                             .want_id = leg->ask->want,
                             .want = {.name.attempt = call->attempt,
                                      .mode = (uint8_t)call->want.mode,
                                      .asks = ++leg->asks,
                                      .time_left_ms = ask_left_ms(core, leg->ask),
                                      .tokens = call->want.num_tokens,
                                      .held = call->want.held_tokens,
                                      .readers.num = core->c.directory->engines[core_engine(core)]->num_ranks,
                                      .slot = lease->slot,
                                      .generation = lease->generation,
                                      .table_offset = lease->table_offset,
                                      .table_entries = wire_table_entries(&call->tables)}};
    memcpy(m.want.name.key, call->key, sizeof m.want.name.key);
    memcpy(m.want.readers.bit, contact_readers(leg->contact), sizeof m.want.readers.bit);
    leg->ask->is_far |= path_is_far(core->c.path[contact_peer(leg->contact)]);
    post_send(core->post, contact_peer(leg->contact), &m);
    leg->known = true;
}

void leg_send_cancel(struct core *core, struct leg *leg)
{
    struct wire_message m = {
        .type = WIRE_CANCEL,
        .want_id = leg->ask->want,
        .end = {.name.attempt = leg->ask->call->attempt, .error = leg->ask->error, .generation = leg->generation}};
    memcpy(m.end.name.key, leg->ask->call->key, sizeof m.end.name.key);
    post_send(core->post, contact_peer(leg->contact), &m);
    leg->let_go = leg->owes_end = true; /* until CLOSED comes */
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Whether the want is of the usual kind, whose lease can be taken by words. */
static bool can_take(const struct core *core, const struct leg *leg)
{
    const uint32_t rank = contact_peer(leg->contact);
    return core_handoff(core) != NULL && leg->ask->call->want.mode != BATON_MODE_PUSH && !core->c.settings->checksum &&
           !path_is_far(core->c.path[rank]) && core->c.directory->rows[rank].rules == PLAN_RULES;
}

enum handoff_taken leg_take(struct core *core, struct leg *leg, struct handoff_grant *grant)
{
    const struct port_handoff *hand = core_handoff(core);
    const struct call *call = leg->ask->call;
    if (!can_take(core, leg))
        return HANDOFF_ASK;
    struct handoff_want want = {.name.attempt = call->attempt,
                                .engine = directory_identity(core->c.directory, core_engine(core)),
                                .num_tokens = call->want.num_tokens,
                                .is_whole = geometry_has_state(core->c.geometry),
                                .left_ms = ask_left_ms(core, leg->ask)};
    memcpy(want.name.key, call->key, sizeof want.name.key);
    enum handoff_taken taken = hand->take(hand->self, contact_peer(leg->contact), &want, grant);
    if (taken == HANDOFF_ASK)
        return taken;
    leg->has_taken = taken == HANDOFF_TAKEN;
    leg->slot = grant->slot;
    leg->generation = grant->generation;
    if (leg->has_taken)
        timeline_meet(core_timeline(core), TIMELINE_MATCHED, core->now, call->id, contact_peer(leg->contact), call->id,
                      TIMELINE_BY_WORDS);
    return taken;
}

void leg_hold(struct core *core, struct leg *leg, uint32_t slot)
{
    const struct port_handoff *hand = core_handoff(core);
    if (!can_take(core, leg))
        return;
    leg->slot = slot;
    leg->has_taken =
        hand->hold(hand->self, contact_peer(leg->contact), slot, leg->generation, ask_left_ms(core, leg->ask));
}

void leg_give_back(struct core *core, struct leg *leg, int error)
{
    const struct port_handoff *hand = core_handoff(core);
    hand->give_back(hand->self, contact_peer(leg->contact), leg->slot, leg->generation, error);
    leg->has_taken = false;
}

int leg_why(const struct core *core, const struct leg *leg, char *detail, size_t size)
{
    const struct port_handoff *hand = core_handoff(core);
    int why;
    if (!hand->why(hand->self, contact_peer(leg->contact), leg->slot, leg->generation, &why)) {
        snprintf(detail, size, "the offer ended, and why is not known any more");
        return BATON_EGONE;
    }
    return outcome_of_ended(why, detail, size);
}
