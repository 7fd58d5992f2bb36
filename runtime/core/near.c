/* SPDX-License-Identifier: BSD-3-Clause */
/* near: ranks of this node that take an offer without a message, see offer_inside.h. */
#include <string.h>

#include "core/offer_inside.h"
#include "core/peer.h"
#include "core/state.h"
#include "core/survey.h"
#include "wire/table.h"

/* The engines that its seats name. False: one is not there as a whole, and words cannot name it. */
static bool find_seats(const struct core *core, const struct call_offer *call, uint64_t seats[BATON_CONSUMERS_MAX])
{
    const struct directory *d = core->c.directory;
    for (uint32_t i = 0; i < call->num_seats; i++) {
        const bool is_named = call->seats[i][0] != '\0';
        const uint32_t engine = is_named ? directory_find(d, call->seats[i]) : DIRECTORY_NONE;
        if (is_named && (engine == DIRECTORY_NONE || d->engines[engine]->state != DIRECTORY_WHOLE))
            return false;
        seats[i] = is_named ? directory_identity(d, engine) : HANDOFF_NOBODY;
    }
    return true;
}

static void write_words(const struct core *core, const struct offer *o, const uint64_t *seats)
{
    const struct port_handoff *hand = core_handoff(core);
    const struct call_offer *call = &o->call->offer;
    struct handoff_offer words = {.name.attempt = o->call->attempt,
                                  .num_tokens = call->num_tokens,
                                  .table_entries = wire_table_entries(&o->call->tables),
                                  .table_offset = o->lease.table_offset,
                                  .num_attach = call->num_attach};
    memcpy(words.name.key, o->call->key, sizeof words.name.key);
    if (call->num_attach > 0)
        memcpy(words.attach, call->attach, call->num_attach);
    hand->write(hand->self, o->lease.slot, o->lease.generation, &words, seats, call->num_seats);
}

void near_enter(struct core *core, struct offer *o)
{
    const struct port_handoff *hand = core_handoff(core);
    uint64_t seats[BATON_CONSUMERS_MAX];
    o->is_entered = hand != NULL && !o->call->offer.in_layers && !o->call->offer.in_chunks &&
                    find_seats(core, &o->call->offer, seats);
    if (o->is_entered) {
        seats_share(o->seats, hand, o->lease.slot, o->lease.generation);
        write_words(core, o, seats);
    }
    core->c.port->raise(core->c.port->self, o->lease.slot, o->lease.generation, false);
    if (o->is_entered) {
        core->offers->by_slot[o->lease.slot] = o;
        hand->enter(hand->self, o->lease.slot);
    }
}

void near_leave(struct core *core, const struct offer *o, int error)
{
    const struct port_handoff *hand = core_handoff(core);
    uint64_t next = lease_end(core->leases, &o->lease);
    if (o->is_entered)
        hand->say_why(hand->self, o->lease.slot, o->lease.generation, error);
    core->c.port->raise(core->c.port->self, o->lease.slot, next, o->is_far);
    if (o->is_entered) {
        hand->leave(hand->self, o->lease.slot);
        core->offers->by_slot[o->lease.slot] = NULL;
    }
}

/* A rank that reads. False: it is heard later. */
static bool hear_reading(struct core *core, struct offer *o, struct reader *r, uint32_t left_ms)
{
    if (reader_grant(core, r) != 0) {
        if (!peer_is_dead(core, reader_rank(core, r)))
            return false;
        reader_end(core, o->seats, r, BATON_EPEER);
        return true;
    }
    reader_note(r, &(struct word){.until_ns = core->now + left_ms * NS_PER_MS});
    return true;
}

bool near_hear_word(struct core *core, struct offer *o, uint32_t rank, const struct handoff_word *w)
{
    int error = 0;
    struct reader *r = reader_of(core, o->seats, rank);
    if (r == NULL) {
        readers_begin(core, core->c.directory->engine_of[rank]);
        r = reader_took(core, o->seats, rank, &error);
    }
    if (r == NULL)
        return error != BATON_EBUSY;
    if (o->call->end.event.wait_ns == 0)
        o->call->end.event.wait_ns = core->now - o->call->submitted_ns;
    if (w->state == HANDOFF_READING)
        return reader_state(r) != READER_NONE || hear_reading(core, o, r, w->left_ms);
    reader_end(core, o->seats, r, w->error);
    return true;
}

void near_hear(struct core *core, struct offer *o)
{
    const struct port_handoff *hand = core_handoff(core);
    bool is_heard = true;
    for (uint32_t i = 0; o->is_entered && i < core->offers->num_near; i++) {
        const uint32_t rank = core->offers->near[i];
        const struct handoff_word w = hand->word(hand->self, o->lease.slot, o->lease.generation, rank);
        if (w.state != HANDOFF_NONE)
            is_heard &= near_hear_word(core, o, rank, &w);
    }
    core->offers->num_unheard += !is_heard - o->is_unheard;
    o->is_unheard = !is_heard;
}

void near_welcome(struct core *core, uint32_t rank)
{
    struct offers *all = core->offers;
    if (all->near != NULL && !path_is_far(core->c.path[rank]))
        all->near[all->num_near++] = rank;
}

void near_forget(struct core *core, uint32_t rank)
{
    struct offers *all = core->offers;
    uint32_t i = 0;
    while (i < all->num_near && all->near[i] != rank)
        i++;
    if (i < all->num_near)
        all->near[i] = all->near[--all->num_near];
}
