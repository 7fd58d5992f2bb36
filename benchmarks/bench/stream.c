/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: see the header. */
#include "bench/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/fail.h"

/* When it is time, the producer offers as many requests as the stream has. */
static void offer(struct stream *t)
{
    struct scene *s = t->scene;
    char done = 1;
    t->serial = s->serial;
    t->place = s->place;
    t->next = t->done = 0;
    s->serial += t->count;
    s->place = scene_place(s->place, t->count, t->batch);
    scene_signal(s, CHANNEL_ASLEEP);
    for (uint32_t i = 0; s->produces && i < t->count; i++) {
        scene_draw_at(s, scene_place(t->place, i, t->batch), t->batch);
        t->offers[i] = context_offer(&s->context, scene_key(t->serial + i).text, s->from_ids, t->batch, 0);
    }
    scene_answer(s, &done, sizeof done, CHANNEL_ASLEEP);
}

void stream_open(struct stream *t, struct scene *s, uint32_t batch, uint32_t count)
{
    *t = (struct stream){.scene = s, .batch = batch, .count = count, .offers = room(count, sizeof *t->offers)};
    offer(t);
}

static void draw(const struct stream *t, uint32_t i)
{
    scene_draw_at(t->scene, scene_place(t->place, i, t->batch), t->batch);
}

static void check(const struct stream *t, uint32_t i)
{
    draw(t, i);
    scene_compare(t->scene, t->batch, false, scene_key(t->serial + i).text);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

/* Ends this round of requests, after which another one comes or none. */
static void end_round(struct stream *t, bool more)
{
    struct scene *s = t->scene;
    baton_event_t event;
    for (unsigned i = 0; i < STREAM_DEPTH; i++)
        if (t->slot[i].open)
            fail_on(baton_cancel(s->context.baton, t->slot[i].id), "baton_cancel");
    for (unsigned i = 0; i < STREAM_DEPTH; i++)
        if (t->slot[i].open && !context_await(&s->context, &event, CONTEXT_PATIENCE_MS))
            fail("a cancelled want did not end");
    memset(t->slot, 0, sizeof t->slot);
    channel_send(s->bench->roster.comm, s->bench->producer, &more, sizeof more);
    scene_answer(s, &more, sizeof more, CHANNEL_ASLEEP);
    if (t->done > 0)
        check(t, t->last);
}

/* The producer's part. */
static void serve(struct stream *t)
{
    struct scene *s = t->scene;
    for (bool more = true; more;) {
        channel_receive(s->bench->roster.comm, s->bench->consumer, &more, sizeof more, CHANNEL_ASLEEP);
        context_end_offers(&s->context, t->offers, t->count);
        scene_answer(s, &more, sizeof more, CHANNEL_ASLEEP);
        if (more)
            offer(t);
    }
}

/* Wants the next request, if there is one. */
static void want_next(struct stream *t, struct stream_slot *slot)
{
    const struct scene *s = t->scene;
    if (slot->open || t->next == t->count)
        return;
    *slot = (struct stream_slot){.open = true, .index = t->next++};
    walk_draw(&s->target, scene_place(t->place, slot->index, t->batch), t->batch, s->to_ids);
    slot->id = context_want(&s->context, s->producer, scene_key(t->serial + slot->index).text, s->to_ids, t->batch,
                            BATON_MODE_PULL, slot);
}

/* Until that moment, or until all requests of this round were moved. */
static uint64_t run_round(struct stream *t, uint64_t until_ns)
{
    baton_event_t event;
    uint64_t now, bytes = 0;
    for (unsigned i = 0; i < STREAM_DEPTH; i++)
        want_next(t, &t->slot[i]);
    while ((now = clock_now_ns()) < until_ns && t->done < t->count) {
        if (!context_await(&t->scene->context, &event, (until_ns - now) / CLOCK_NS_PER_MS))
            break;
        if (event.status != BATON_STATUS_DONE)
            fail("the want %s ended as %s: %s", event.key, baton_errname(event.error), event.detail);
        struct stream_slot *slot = event.user;
        slot->open = false;
        t->last = slot->index;
        t->done++;
        bytes += event.bytes;
        want_next(t, slot);
    }
    return bytes;
}

uint64_t stream_run(struct stream *t, uint64_t until_ns)
{
    uint64_t bytes = run_round(t, until_ns);
    while (clock_now_ns() < until_ns && t->done == t->count) {
        end_round(t, true);
        offer(t);
        bytes += run_round(t, until_ns);
    }
    return bytes;
}

void stream_close(struct stream *t)
{
    if (t->scene->produces)
        serve(t);
    else if (t->scene->consumes)
        end_round(t, false);
    free(t->offers);
}

/* ---- a streak ---------------------------------------------------------------------------------------------------- */

/* The producer sleeps until its offers have ended, as after one: nothing of the benchmark runs beside the wants. */
void stream_streak(struct scene *s, uint32_t batch, uint32_t count, struct transfer *out)
{
    struct stream t;
    stream_open(&t, s, batch, count);
    draw(&t, count - 1);
    if (s->consumes) {
        blocks_poison(&s->cache, s->to_ids, batch);
        scene_rest(s);
    }
    const struct effort before = effort_read(&s->context.meter);
    for (uint32_t i = 0; s->consumes && i < count; i++) {
        const struct scene_key key = scene_key(t.serial + i);
        walk_draw(&s->target, scene_place(t.place, i, batch), batch, s->table);
        scene_time_want(s, key.text, batch, false, &out[i]);
    }
    if (s->produces)
        context_await_offers(&s->context, count);
    struct effort ended = effort_since(&s->context.meter, before);
    out->consumer = ended;
    scene_answer(s, &ended, sizeof ended, CHANNEL_ASLEEP);
    out->producer = ended;
    check(&t, count - 1);
    free(t.offers);
}

void stream_take(struct scene *s, uint32_t batch, baton_path_t path, struct transfers *row)
{
    struct transfer t[STREAM_STREAK] = {{0}};
    stream_streak(s, batch, STREAM_STREAK, t);
    for (unsigned i = 0; s->consumes && i < STREAM_STREAK; i++)
        scene_check_path(s, &t[i], path);
    if (!s->consumes || row == NULL)
        return;
    for (unsigned i = 1; i < STREAM_STREAK; i++) {
        samples_add(&row->submit, t[i].submit_ns);
        samples_add(&row->total, t[i].total_ns);
    }
    cost_add(&row->cost, STREAM_STREAK, STREAM_STREAK * batch * s->form.block_bytes, t->consumer, t->producer);
}
