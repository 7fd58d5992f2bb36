/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene: see scene.h. In a transfer the consumer signals that it is time; the producer offers and answers; the consumer
 * wants and sleeps until its event; the producer sleeps until its own event and answers again. So no message of the
 * benchmark is under way between the want and its event, and no offer is alive when the next measurement begins. The
 * producers of a cut end their offers when they are told, since nobody wants some of them.
 *
 * Where a call of the producer's is timed, the consumer wants and then says so. The producer, which has received that,
 * rests first, so that the want has arrived and all have fallen asleep again, and then makes its call.
 */
#include "bench/scene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/context.h"
#include "bench/fail.h"

#define NAP_NS 100000L  /* of the consumer while it waits for the first layer */
#define LAST_LAYER 1u   /* the one whose baton_ready is timed; all before it are ready at once */
#define SIGNAL_BYTES 64 /* about as many as a message of Baton's has */
#define MARK 0xa5a5a5a5a5a5a5a5

/** What a producer says when its offers have ended. */
struct answer {
    struct effort effort;
    uint64_t begin_ns, returned_ns; /* of the timed call, where that is the producer's */
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

/* With a cut: the place of this rank among all ranks but the consumer's. */
static uint32_t servant_of(const struct bench *b)
{
    return (uint32_t)(b->roster.rank < b->consumer ? b->roster.rank : b->roster.rank - 1);
}

int scene_producer(const struct scene *s, uint32_t place)
{
    const struct bench *b = s->bench;
    if (s->form.cut == NULL)
        return b->producer;
    return (int)place < b->consumer ? (int)place : (int)place + 1;
}

static bool looks_on(const struct scene *s)
{
    const struct cut *cut = s->form.cut;
    return !s->produces && !s->consumes && (cut == NULL || servant_of(s->bench) >= cut->producers + cut->consumers - 1);
}

static uint32_t tp_rank_of(const struct scene *s)
{
    if (s->consumes)
        return 0;
    return s->produces ? servant_of(s->bench) : servant_of(s->bench) - s->form.cut->producers + 1;
}

static baton_open_params_t role_of(const struct scene *s)
{
    const struct bench *b = s->bench;
    const struct cut *cut = s->form.cut;
    if (cut == NULL)
        return b->roster.ranks[b->roster.rank];
    baton_open_params_t p = {
        .size = sizeof p, .role = s->produces ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE, .tp = 1, .pp = 1};
    if (looks_on(s)) {
        snprintf(p.engine, sizeof p.engine, "spectator%d", b->roster.rank);
        return p;
    }
    p.tp = s->produces ? cut->producers : cut->consumers;
    p.tp_rank = tp_rank_of(s);
    snprintf(p.engine, sizeof p.engine, "%s", s->produces ? s->producer : "consumer");
    return p;
}

void scene_signal(const struct scene *s, enum channel_wait wait)
{
    const MPI_Comm comm = s->bench->roster.comm;
    char none[SIGNAL_BYTES] = {0};
    for (uint32_t i = 0; s->consumes && i < s->producers; i++)
        channel_send(comm, scene_producer(s, i), none, sizeof none);
    if (s->produces)
        channel_receive(comm, s->bench->consumer, none, sizeof none, wait);
}

void scene_answer(const struct scene *s, void *answer, int bytes, enum channel_wait wait)
{
    const MPI_Comm comm = s->bench->roster.comm;
    for (uint32_t i = 0; s->consumes && i < s->producers; i++)
        channel_receive(comm, scene_producer(s, i), answer, bytes, wait);
    if (s->produces)
        channel_send(comm, s->bench->consumer, answer, bytes);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

void scene_describe(const struct scene *s, bool producer, uint32_t tp_rank, struct blocks *out)
{
    const struct cut *cut = s->form.cut;
    const uint32_t heads = cut->heads / (producer ? cut->producers : cut->consumers);
    blocks_describe(out, &(struct blocks_form){.num_blocks = !producer && tp_rank > 0
                                                                 ? 1
                                                                 : s->form.num_blocks, /* nothing arrives there */
                                               .planes = 2,
                                               .head_size = SCENE_CHANNELS,
                                               .heads = cut->heads,
                                               .head_first = heads * tp_rank,
                                               .head_count = heads,
                                               .layers = 1,
                                               .layer_count = 1,
                                               .layout = producer ? cut->source : cut->target});
}

void scene_open(struct bench *b, struct scene *s, const struct scene_form *form)
{
    const struct cut *cut = form->cut;
    uint64_t seed = b->options.seed;
    *s = (struct scene){.bench = b, .form = *form, .producers = cut ? cut->producers : 1};
    s->form.num_layers = form->num_layers > 1 ? form->num_layers : 1;
    s->consumes = bench_is_consumer(b);
    s->produces = cut ? !s->consumes && servant_of(b) < cut->producers : bench_is_producer(b);
    s->producer = cut ? "producer" : b->roster.engines[b->prefill].name;
    const bool moves = !looks_on(s);
    if (moves && cut)
        scene_describe(s, s->produces, tp_rank_of(s), &s->cache);
    else if (moves)
        blocks_describe_plain(&s->cache, s->form.num_layers, form->block_bytes, form->num_blocks);
    if (moves)
        own_create(&s->own, form->memory, 1, s->cache.geometry.bytes);
    const baton_open_params_t self = role_of(s);
    context_open(b, &s->context, &self, moves ? &s->cache : NULL, &s->own);
    s->from_ids = room(form->max_batch, sizeof *s->from_ids);
    s->to_ids = room(form->max_batch, sizeof *s->to_ids);
    s->table = room(form->max_batch, sizeof *s->table);
    if (moves) {
        walk_init(&s->source, form->num_blocks, &seed);
        walk_init(&s->target, form->num_blocks, &seed);
    }
    if (s->produces)
        blocks_fill(&s->cache, 0);
    channel_barrier(b->roster.comm);
}

void scene_close(struct scene *s)
{
    channel_barrier(s->bench->roster.comm);
    context_close(s->bench, &s->context);
    own_destroy(&s->own);
    blocks_fini(&s->cache);
    walk_fini(&s->source);
    walk_fini(&s->target);
    free(s->from_ids);
    free(s->to_ids);
    free(s->table);
}

uint64_t scene_bytes(const struct scene *s, uint32_t batch)
{
    const baton_geometry_t *g = &s->cache.geometry;
    return (uint64_t)batch * g->layer_count * g->planes * g->splits[0].head_count * BLOCKS_TOKENS * g->head_size *
           BLOCKS_ELEM_BYTES;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */

uint64_t scene_place(uint64_t place, uint64_t count, uint32_t batch)
{
    return place + count * ((uint64_t)batch + 1); /* one more, so that the next round of a walk is cut elsewhere */
}

void scene_draw_at(struct scene *s, uint64_t place, uint32_t batch)
{
    s->drawn = place;
    if (looks_on(s))
        return;
    walk_draw(&s->source, place, batch, s->from_ids);
    walk_draw(&s->target, place, batch, s->to_ids);
}

void scene_draw(struct scene *s, uint32_t batch)
{
    scene_draw_at(s, s->place, batch);
    s->place = scene_place(s->place, 1, batch);
}

struct scene_key scene_key(uint64_t serial)
{
    struct scene_key key;
    snprintf(key.text, sizeof key.text, "bench-%" PRIu64, serial);
    return key;
}

void scene_rest(const struct scene *s)
{
    uint64_t until = clock_now_ns() + (uint64_t)s->rest_ns;
    if (!s->is_awake)
        nanosleep(&(struct timespec){.tv_nsec = s->rest_ns}, NULL);
    while (clock_now_ns() < until)
        continue;
}

/* ---- a producer -------------------------------------------------------------------------------------------------- */

/* What comes before the timed call. Returns the offer that there is then, or 0. */
static baton_id_t prepare(const struct scene *s, const char *key, uint32_t batch)
{
    if (s->from == FROM_OFFER)
        return 0;
    const uint32_t flags = s->from == FROM_READY ? BATON_OFFER_LAYERS : 0;
    const baton_id_t id = context_offer(&s->context, key, s->from_ids, batch, flags);
    if (flags != 0)
        fail_on(baton_ready(s->context.baton, id, 0, LAST_LAYER, 0), "baton_ready");
    return id;
}

/* When the consumer says so, the rest and then the timed call. */
static struct effort make_call(const struct scene *s, baton_id_t id, const char *key, uint32_t batch,
                               struct answer *out)
{
    scene_signal(s, CHANNEL_ASLEEP);
    scene_rest(s);
    const struct effort before = effort_read(&s->context.meter);
    out->begin_ns = clock_now_ns();
    if (id == 0)
        context_offer(&s->context, key, s->from_ids, batch, 0);
    else
        fail_on(baton_ready(s->context.baton, id, LAST_LAYER, 1, 0), "baton_ready");
    out->returned_ns = clock_now_ns();
    return before;
}

static void produce(struct scene *s, const char *key, uint32_t batch)
{
    struct answer a = {0};
    baton_event_t event;
    scene_signal(s, CHANNEL_ASLEEP);
    const baton_id_t id = prepare(s, key, batch);
    scene_answer(s, &a, sizeof a, CHANNEL_ASLEEP);
    if (s->form.cut != NULL) {
        scene_signal(s, CHANNEL_ASLEEP);
        if (s->form.cut->consumers > 1)
            context_end_offers(&s->context, &id, 1);
        else
            context_await_offers(&s->context, 1);
    } else {
        const struct effort before =
            s->from == FROM_WANT ? effort_read(&s->context.meter) : make_call(s, id, key, batch, &a);
        context_take(&s->context, BATON_EVENT_OFFER, &event);
        a.effort = effort_since(&s->context.meter, before);
    }
    scene_answer(s, &a, sizeof a, CHANNEL_ASLEEP);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static void call_want(const struct scene *s, const char *key, uint32_t batch)
{
    const struct cut *cut = s->form.cut;
    const baton_mode_t mode = s->bench->options.op == OP_PUSH ? BATON_MODE_PUSH : BATON_MODE_PULL;
    context_want(&s->context, s->producer, key, s->table, batch, cut ? cut->mode : mode, NULL);
}

/* Returns when the event was taken, and leaves the times and the effort out. */
static uint64_t await_want(struct scene *s, const char *key, uint32_t batch, bool scribble, struct transfer *out)
{
    baton_event_t event;
    if (scribble)
        memset(s->table, 0, batch * sizeof *s->table);
    context_take(&s->context, BATON_EVENT_WANT, &event);
    const uint64_t end = clock_now_ns();
    *out = (struct transfer){.path = context_path(&event)};
    if (event.bytes != scene_bytes(s, batch))
        fail("the want %s moved %" PRIu64 " bytes of %" PRIu64, key, event.bytes, scene_bytes(s, batch));
    /* Baton reads the clock once a turn: a turn that is held up on a busy machine may look early without being so. */
    out->is_early = s->from == FROM_OFFER && event.wait_ns < (uint64_t)s->rest_ns;
    return end;
}

void scene_time_want(struct scene *s, const char *key, uint32_t batch, bool scribble, struct transfer *out)
{
    const uint64_t begin = clock_now_ns();
    call_want(s, key, batch);
    const uint64_t returned = clock_now_ns();
    const uint64_t end = await_want(s, key, batch, scribble, out);
    out->submit_ns = returned - begin;
    out->total_ns = end - begin;
}

/* The last word of a block that was drawn, in the first layer. Baton's threads may be writing it. */
static uint64_t *last_word(const struct scene *s, uint32_t i)
{
    return (uint64_t *)(void *)(s->context.pool + (s->to_ids[i] + UINT64_C(1)) * s->form.block_bytes) - 1;
}

/* Until the last word of each block in the first layer is no longer the mark. */
static void await_first_layer(const struct scene *s, const char *key, uint32_t batch)
{
    const uint64_t until = clock_now_ns() + CONTEXT_PATIENCE_MS * CLOCK_NS_PER_MS;
    baton_event_t event;
    for (uint32_t come = 0; come < batch;) {
        if (__atomic_load_n(last_word(s, come), __ATOMIC_ACQUIRE) != MARK) {
            come++;
            continue;
        }
        if (context_await(&s->context, &event, 0))
            fail("the want %s ended before its last layer was ready: %s: %s", key, baton_errname(event.error),
                 event.detail);
        if (clock_now_ns() > until)
            fail("the first layer of %s did not come for %u ms", key, CONTEXT_PATIENCE_MS);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

/* Timed from a call of the producer's, for a want that waits for it. Returns when the event was taken. */
static uint64_t await_call(struct scene *s, const char *key, uint32_t batch, bool scribble, struct transfer *out)
{
    for (uint32_t i = 0; i < batch && s->from == FROM_READY; i++)
        *last_word(s, i) = MARK;
    call_want(s, key, batch);
    if (s->from == FROM_READY)
        await_first_layer(s, key, batch);
    scene_signal(s, CHANNEL_ASLEEP);
    const struct effort before = effort_read(&s->context.meter);
    const uint64_t end = await_want(s, key, batch, scribble, out);
    out->consumer = effort_since(&s->context.meter, before);
    return end;
}

static void consume(struct scene *s, const char *key, uint32_t batch, bool scribble, struct transfer *out)
{
    struct answer a;
    uint64_t end = 0;
    scene_signal(s, CHANNEL_ASLEEP);
    scene_answer(s, &a, sizeof a, CHANNEL_ASLEEP);
    memcpy(s->table, s->to_ids, batch * sizeof *s->table);
    if (s->from == FROM_WANT) {
        if (s->form.cut == NULL)
            scene_rest(s);
        const struct effort before = effort_read(&s->context.meter);
        scene_time_want(s, key, batch, scribble, out);
        out->consumer = effort_since(&s->context.meter, before);
    } else {
        end = await_call(s, key, batch, scribble, out);
    }
    if (s->form.cut != NULL)
        scene_signal(s, CHANNEL_ASLEEP);
    scene_answer(s, &a, sizeof a, CHANNEL_ASLEEP);
    out->producer = a.effort;
    if (s->from == FROM_WANT)
        return;
    if (end < a.begin_ns)
        fail("the event of %s came %" PRIu64 " ns before the call that it was to wait for", key, a.begin_ns - end);
    out->submit_ns = a.returned_ns - a.begin_ns;
    out->total_ns = end - a.begin_ns;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* Of the blocks that were drawn last. */
static void transfer(struct scene *s, uint32_t batch, bool scribble, struct transfer *out)
{
    const struct scene_key key = scene_key(s->serial++);
    *out = (struct transfer){0};
    if (s->produces)
        produce(s, key.text, batch);
    else if (s->consumes)
        consume(s, key.text, batch, scribble, out);
}

void scene_move(struct scene *s, uint32_t batch, bool scribble, struct transfer *out)
{
    scene_draw(s, batch);
    transfer(s, batch, scribble, out);
}

void scene_check_path(const struct scene *s, const struct transfer *t, baton_path_t path)
{
    if (s->consumes && t->path != path)
        fail("Baton moved the blocks by path %s, and what they are compared with goes by %s", bench_path_name(t->path),
             bench_path_name(path));
}

void scene_take(struct scene *s, uint32_t batch, baton_path_t path, struct transfers *row)
{
    struct transfer t;
    scene_move(s, batch, false, &t);
    scene_check_path(s, &t, path);
    if (s->consumes && row != NULL)
        transfers_add(row, &t, batch * s->form.block_bytes);
}

void transfers_add(struct transfers *row, const struct transfer *t, uint64_t bytes)
{
    samples_add(&row->submit, t->submit_ns);
    samples_add(&row->total, t->total_ns);
    cost_add(&row->cost, 1, bytes, t->consumer, t->producer);
}

void transfers_fini(struct transfers *row)
{
    samples_fini(&row->submit);
    samples_fini(&row->total);
}

void scene_compare(struct scene *s, uint32_t batch, bool glance, const char *key)
{
    if (s->consumes && !blocks_check(&s->cache, 0, s->from_ids, s->to_ids, batch, glance, key))
        s->bench->status = 1;
}

void scene_verify(struct scene *s, uint32_t batch, bool scribble)
{
    struct transfer ignored;
    scene_draw(s, batch);
    if (s->consumes)
        blocks_poison(&s->cache, s->to_ids, batch);
    transfer(s, batch, scribble, &ignored);
    scene_compare(s, batch, false, scene_key(s->serial - 1).text);
}

void scene_glance(struct scene *s, uint32_t batch)
{
    scene_compare(s, batch, true, scene_key(s->serial - 1).text);
}

void scene_hold(struct scene *s)
{
    char held = 1;
    scene_signal(s, CHANNEL_ASLEEP);
    if (s->produces)
        halt_begin();
    scene_answer(s, &held, sizeof held, CHANNEL_ASLEEP);
    if (s->consumes)
        halt_begin();
}

void scene_go_on(struct scene *s, enum channel_wait producers)
{
    char goes_on = 1;
    if (s->consumes)
        halt_end();
    scene_signal(s, producers);
    if (s->produces)
        halt_end();
    scene_answer(s, &goes_on, sizeof goes_on, CHANNEL_ASLEEP);
}
