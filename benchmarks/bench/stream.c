/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: requests of a stage that are on offer before the first of them is wanted; see stage.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/blocks.h"
#include "bench/command.h"
#include "bench/fail.h"

/* Where in the walks a request of a stream lies. */
static uint64_t place_of(uint64_t first, uint32_t i, uint32_t batch)
{
    return first + (uint64_t)i * (batch + 1);
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

void stream_offer(struct stage *s, const struct command *c)
{
    char key[BATON_KEY_MAX];
    s->streamed = malloc(c->count * sizeof *s->streamed);
    s->num_streamed = c->count;
    if (!s->streamed)
        fail("out of memory for %" PRIu32 " offers", c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        stage_key(c->serial + i, key);
        walk_draw(&s->source, place_of(c->place, i, c->batch), c->batch, s->source_ids);
        s->streamed[i] = blocks_offer(&s->context, key, s->source_ids, c->batch);
    }
}

static void await_streamed(struct stage *s)
{
    blocks_await_offers(&s->context, s->num_streamed);
    free(s->streamed);
    s->streamed = NULL;
}

/* Offers that nobody has wanted are taken back. */
void stream_take_back(struct stage *s)
{
    for (uint32_t i = 0; i < s->num_streamed; i++)
        fail_on(baton_cancel(s->context.baton, s->streamed[i]), "baton_cancel");
    await_streamed(s);
}

/* It sleeps until they have ended, as after one offer: nothing of the benchmark runs beside the wants. */
void stream_serve_streak(struct stage *s, const struct command *c)
{
    struct answer a = {0};
    stream_offer(s, c);
    stage_answer(s, &a);
    const struct effort before = effort_read(&s->context.meter);
    await_streamed(s);
    a.effort = effort_since(&s->context.meter, before);
    stage_answer(s, &a);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static void begin(struct stage *s, enum command_kind kind, uint32_t batch, uint32_t count)
{
    s->stream = (struct stage_stream){.batch = batch, .count = count, .serial = s->serial, .place = s->place};
    stage_command(
        s, (struct command){.kind = kind, .batch = batch, .count = count, .place = s->place, .serial = s->serial},
        NULL);
    s->serial += count;
    s->place = place_of(s->place, count, batch);
}

void stage_stream(struct stage *s, uint32_t batch, uint32_t count)
{
    begin(s, COMMAND_STREAM, batch, count);
}

static void draw_target(struct stage *s, uint32_t i, uint32_t *ids)
{
    walk_draw(&s->target, place_of(s->stream.place, i, s->stream.batch), s->stream.batch, ids);
}

/* Wants the next request of the stream, if there is one. */
static void want_next(struct stage *s, struct stage_slot *slot)
{
    struct stage_stream *t = &s->stream;
    char key[BATON_KEY_MAX];
    if (slot->open || t->next == t->count)
        return;
    *slot = (struct stage_slot){.open = true, .index = t->next++};
    stage_key(t->serial + slot->index, key);
    draw_target(s, slot->index, s->target_ids);
    slot->id = blocks_want(&s->context, s->bench->roster.engines[s->bench->prefill].name, key, s->target_ids, t->batch,
                           BATON_MODE_PULL, slot);
}

uint64_t stage_stream_run(struct stage *s, uint64_t until_ns)
{
    struct stage_stream *t = &s->stream;
    baton_event_t event;
    uint64_t now, bytes = 0;
    for (unsigned i = 0; i < STAGE_STREAM_DEPTH; i++)
        want_next(s, &t->slot[i]);
    while ((now = clock_now_ns()) < until_ns && t->done < t->count) {
        if (!context_await(&s->context, &event, (until_ns - now) / CLOCK_NS_PER_MS))
            break;
        if (event.status != BATON_STATUS_DONE)
            fail("the want %s ended as %s: %s", event.key, baton_errname(event.error), event.detail);
        struct stage_slot *slot = event.user;
        slot->open = false;
        t->last = slot->index;
        t->done++;
        bytes += event.bytes;
        want_next(s, slot);
    }
    return bytes;
}

bool stage_stream_is_over(const struct stage *s)
{
    return s->stream.done == s->stream.count;
}

static void check_stream(struct stage *s, uint32_t i)
{
    const struct stage_stream *t = &s->stream;
    char key[BATON_KEY_MAX];
    stage_key(t->serial + i, key);
    walk_draw(&s->source, place_of(t->place, i, t->batch), t->batch, s->source_ids);
    draw_target(s, i, s->target_ids);
    if (!blocks_check(s->context.pool, s->block_bytes, s->block_bytes, s->source_ids, s->target_ids, t->batch, key))
        s->bench->status = 1;
}

void stage_stream_end(struct stage *s)
{
    struct stage_stream *t = &s->stream;
    baton_event_t event;
    for (unsigned i = 0; i < STAGE_STREAM_DEPTH; i++)
        if (t->slot[i].open)
            fail_on(baton_cancel(s->context.baton, t->slot[i].id), "baton_cancel");
    for (unsigned i = 0; i < STAGE_STREAM_DEPTH; i++)
        if (t->slot[i].open && !context_await(&s->context, &event, BLOCKS_PATIENCE_MS))
            fail("a cancelled want did not end");
    stage_command(s, (struct command){.kind = COMMAND_STREAM_END}, NULL);
    if (t->done > 0)
        check_stream(s, t->last);
}

void stage_streak(struct stage *s, uint32_t batch, uint32_t count, struct stage_transfer *out)
{
    struct answer ended;
    begin(s, COMMAND_STREAK, batch, count);
    draw_target(s, count - 1, s->table);
    blocks_poison(s->context.pool, s->block_bytes, s->table, batch);
    stage_rest(s);
    const struct effort before = effort_read(&s->context.meter);
    for (uint32_t i = 0; i < count; i++) {
        char key[BATON_KEY_MAX];
        const struct wanted w = {.key = key, .batch = batch};
        stage_key(s->stream.serial + i, key);
        draw_target(s, i, s->table);
        stage_time_want(s, &w, &out[i]);
    }
    out->consumer = effort_since(&s->context.meter, before);
    channel_receive(s->bench->roster.comm, s->bench->producer, &ended, sizeof ended, CHANNEL_ASLEEP);
    out->producer = ended.effort;
    check_stream(s, count - 1);
}
