/* SPDX-License-Identifier: BSD-3-Clause */
/* push: see push.h. */
#include "core/push.h"

#include <stdio.h>
#include <string.h>

#include "core/link.h"
#include "core/post.h"
#include "core/state.h"

struct push {
    struct push_order order;
    struct mover *mover;
    struct contact *contact;
    struct queued card; /* CARD: it waits for the contact's */
    struct word word;   /* the want that is answered */
    enum push_state state;
    int32_t error;   /* STOPPING: why */
    char detail[96]; /* and in words */
    bool cancelled;  /* STOPPING: by the consumer, which waits for CLOSED */
    bool of_former;  /* STOPPING: its want was about a former offer of this key */
};

int push_create(struct core *core, const struct push_order *order, const struct word *w, struct push **out)
{
    int error = 0;
    struct contact *c = target_of(core, w->peer, &error);
    struct push *push = c != NULL ? reap_new(sizeof *push) : NULL;
    if (push == NULL)
        return c != NULL ? BATON_ENOMEM : error;
    push->order = *order;
    push->contact = c;
    push->word = *w;
    push->mover = mover_create(core, OP_PUSH, push, c, true);
    if (push->mover == NULL) {
        reap_add(&core->reap, push);
        return BATON_ENOMEM;
    }
    *out = push;
    return 0;
}

void push_destroy(struct core *core, struct push *push)
{
    contact_leave(core, push->contact, &push->card);
    mover_destroy(core, push->mover);
    reap_add(&core->reap, push);
}

static void tell(struct core *core, const struct push *push, int32_t error)
{
    const struct call_offer *offer = &push->order.mine->offer;
    struct wire_message m = {.type = WIRE_WRITTEN,
                             .want_id = push->word.want,
                             .written = {.asks = push->word.asks,
                                         .error = error,
                                         .bytes = mover_tally(push->mover)->bytes,
                                         .generation = push->order.generation,
                                         .path = (uint8_t)tally_path(core, mover_tally(push->mover)),
                                         .attach = {offer->num_attach, offer->attach}}};
    memcpy(m.written.detail, push->detail, sizeof m.written.detail);
    post_send(core->post, push->word.peer, &m);
}

static const struct push_end goes_on = {.reader = NULL};

/* Quiet: the reader is told. */
static struct push_end gone(struct core *core, struct push *push)
{
    if (push->cancelled) {
        struct wire_message closed = {.type = WIRE_CLOSED, .want_id = push->word.want, .closed.quiet = WIRE_QUIET};
        post_send(core->post, push->word.peer, &closed);
    } else {
        tell(core, push, push->error);
    }
    push_destroy(core, push);
    return (struct push_end){push->order.reader, push->error, push->of_former};
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

struct push_end push_lose(struct core *core, struct push *push)
{
    if (push->state != PUSH_STOPPING)
        return push_stop(core, push, BATON_EPEER, "it was silent");
    return mover_lose(core, push->mover) ? gone(core, push) : goes_on;
}

static struct push_end begin_to_write(struct core *core, struct push *push)
{
    struct mover_job job = {.table = push->word.table,
                            .reach = *push->order.reach,
                            .held = push->word.held,
                            .num_tokens = push->word.tokens,
                            .mine = &push->order.mine->tables,
                            .want = push->word.want};
    push->state = PUSH_WRITING;
    int rc = mover_start(core, push->mover, &job);
    if (rc == BATON_EMESSAGE)
        count_add(&core->stats.messages_bad, 1); /* the want named a table that lies outside the peer's card */
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

struct push_end push_on_mover(struct core *core, struct push *push, const struct mover_word *word)
{
    if (word->what == MOVER_QUIET)
        return gone(core, push);
    if (push->state != PUSH_WRITING)
        return goes_on;
    if (word->error != 0)
        return push_stop(core, push, word->error, word->detail);
    push->state = PUSH_WRITTEN;
    tell(core, push, 0);
    return goes_on;
}

void push_ready(struct core *core, struct push *push)
{
    if (push->state == PUSH_WRITING)
        mover_ready(core, push->mover, push->order.reach, NULL);
}

void push_ask(struct core *core, struct push *push, uint32_t asks)
{
    push->word.asks = asks;
    if (push->state == PUSH_WRITTEN)
        tell(core, push, 0);
}

void push_note_former(struct push *push)
{
    push->of_former = true;
}

enum push_state push_state(const struct push *push)
{
    return push->state;
}

uint64_t push_want(const struct push *push)
{
    return push->word.want;
}

struct offer *push_offer(const struct push *push)
{
    return push->order.offer;
}

struct push *push_waiting(struct queued *card)
{
    return (struct push *)((char *)card - offsetof(struct push, card));
}
