/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * push: what an offer writes to one of its readers.
 *
 *   CARD      the reader's card is not known yet; its link reads it
 *   WRITING   its block table is read, the bytes move and are settled
 *   WRITTEN   the reader was told that they are in place; its DONE ends it
 *   STOPPING  given up; once nothing reads my blocks or writes into the reader's, the reader is told and it is gone
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int push_create(struct core *core, struct offer *o, struct seat *seat, const struct waiter *w, struct push **out)
{
    int error = 0;
    struct contact *c = target_of(core, w->peer, &error);
    struct push *push = c != NULL ? reap_new(sizeof *push) : NULL;
    if (push == NULL)
        return c != NULL ? BATON_ENOMEM : error;
    push->contact = c;
    push->table = w->table;
    push->tokens = w->tokens;
    push->held = w->held;
    push->offer = o;
    push->seat = seat;
    push->peer = w->peer;
    push->asks = w->asks;
    push->want = w->want;
    push->mover = mover_create(core, OP_PUSH, push, c, true);
    if (push->mover == NULL) {
        reap_add(&core->reap, push);
        return BATON_ENOMEM;
    }
    o->pushes++;
    core->num_pushes++;
    *out = push;
    return 0;
}

void push_destroy(struct core *core, struct push *push)
{
    contact_leave(core, push->contact, &push->card);
    push->offer->pushes--;
    core->num_pushes--;
    mover_destroy(core, push->mover);
    reap_add(&core->reap, push);
}

void push_tell(struct core *core, const struct push *push, int32_t error)
{
    struct wire_message m = {.type = WIRE_WRITTEN,
                             .want_id = push->want,
                             .written = {.asks = push->asks,
                                         .error = error,
                                         .bytes = mover_landed(push->mover),
                                         .generation = push->offer->lease.generation}};
    memcpy(m.written.detail, push->detail, sizeof m.written.detail);
    post_send(core->post, push->peer, &m);
}

static const struct push_end goes_on = {.seat = NULL};

/* Quiet: the reader is told. */
static struct push_end gone(struct core *core, struct push *push)
{
    struct push_end end = {push->seat, push->peer, push->error, push->belated};
    if (push->cancelled) {
        struct wire_message closed = {.type = WIRE_CLOSED, .want_id = push->want, .closed.quiet = WIRE_QUIET};
        post_send(core->post, push->peer, &closed);
    } else {
        push_tell(core, push, push->error);
    }
    push_destroy(core, push);
    return end;
}

struct push_end push_stop(struct core *core, struct push *push, int32_t error, const char *detail)
{
    if (push->state == PUSH_STOPPING)
        return goes_on; /* the first reason stays */
    push->error = error;
    snprintf(push->detail, sizeof push->detail, "%.95s", detail);
    if (push->state != PUSH_CARD) {
        push->state = PUSH_STOPPING;
        if (!mover_stop(core, push->mover))
            return goes_on;
    }
    return gone(core, push);
}

struct push_end push_cancel(struct core *core, struct push *push, int32_t error)
{
    push->cancelled = true;
    return push_stop(core, push, error, "");
}

struct push_end push_on_quiet(struct core *core, struct push *push)
{
    return gone(core, push);
}

static struct push_end begin_to_write(struct core *core, struct push *push)
{
    struct mover_job job = {.table = push->table,
                            .reach = push->offer->reach,
                            .held = push->held,
                            .num_tokens = push->tokens,
                            .mine = &push->offer->call->tables};
    push->state = PUSH_WRITING;
    int rc = mover_start(core, push->mover, &job);
    if (rc == BATON_EMESSAGE)
        core->stats.messages_bad++; /* the want named a table that lies outside the peer's card */
    return rc != 0 ? push_stop(core, push, rc, "the blocks to write to are not known") : goes_on;
}

struct push_end push_start(struct core *core, struct push *push)
{
    if (contact_is_good(push->contact))
        return begin_to_write(core, push);
    push->state = PUSH_CARD;
    contact_wait(core, push->contact, &push->card);
    return contact_refusal(push->contact) != NULL ? push_on_contact(core, push) : goes_on;
}

struct push_end push_on_contact(struct core *core, struct push *push)
{
    const char *why = contact_refusal(push->contact);
    return why != NULL ? push_stop(core, push, BATON_EGEOMETRY, why) : begin_to_write(core, push);
}

struct push_end push_on_moved(struct core *core, struct push *push, int error, const char *detail)
{
    if (push->state != PUSH_WRITING)
        return goes_on;
    if (error != 0)
        return push_stop(core, push, error, detail);
    push->state = PUSH_WRITTEN;
    push_tell(core, push, 0);
    return goes_on;
}
