/* SPDX-License-Identifier: BSD-3-Clause */
/* world: see with_world.h. */
#include "with_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "shm/copy.h"
#include "verdict/verdict.h"
#include "with_vicinity.h"

#define POISON 0xa5
#define WORLD_NODES 1000 /* nodes that several ranks share are numbered from here on */
#define ARENA_BYTES 65536
#define BATCH 64
#define SEGMENT_BOARD 4096
#define SEGMENT_ARENA 65536
#define SEGMENT_CARD 262144
#define SEGMENT_POOL 524288

enum due_kind { DUE_MESSAGE, DUE_READ, DUE_BOARD, DUE_MOVE, DUE_SETTLE, DUE_SUM, DUE_ZERO, DUE_BELL };

#define SPARE_RANKS 16 /* places for members that come later */

struct due {
    uint64_t at, order;
    uint64_t came; /* to a rank that was stopped then; UINT64_MAX: it did not have to wait */
    enum due_kind kind;
    uint32_t from, to; /* the rank that is asked, and the rank that gets the event */
    uint64_t tag, offset;
    uint32_t bytes;
    bool parked, write;
    uint64_t board; /* MOVE: where the generation stands that is read behind it; 0: it is not */
    const struct plan_transfer *transfer;
    struct plan_cursor cursor;
    struct due *prev, *next;
    uint8_t data[];
};

static bool is_far(const struct world *w, uint32_t rank)
{
    return path_is_far(w->path[rank]);
}

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static int by_time(const struct due *a, const struct due *b)
{
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static struct due *later(struct world *w, enum due_kind kind, uint64_t delay, uint32_t from, uint32_t to, uint64_t tag,
                         uint32_t bytes)
{
    struct due *d = calloc(1, sizeof *d + bytes);
    assert_non_null(d);
    d->kind = kind;
    d->at = w->now + delay;
    d->came = UINT64_MAX;
    d->order = ++w->order;
    d->from = from;
    d->to = to;
    d->tag = tag;
    d->bytes = bytes;
    DL_INSERT_INORDER(w->queue, d, by_time);
    return d;
}

static int send_now(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct world_rank *r = self;
    struct world *w = r->world;
    struct world_message m = {.from = r->rank, .to = peer};
    if (w->ranks[peer].deaf)
        return BATON_EAGAIN;
    assert_int_equal(wire_decode(message, bytes, &m.m), 0);
    w->sent[m.m.type]++;
    int times = w->rule != NULL ? w->rule(w, &m) : 1;
    while (times-- > 0) {
        struct due *d = later(w, DUE_MESSAGE, w->message_ns, r->rank, peer, 0, ENVELOPE_BYTES + bytes);
        struct envelope_counts *c = &w->counts[r->rank * w->most + peer];
        memcpy(d->data + ENVELOPE_BYTES, message, bytes);
        envelope_seal(c, (struct envelope_route){r->rank, peer}, d->data, bytes);
        envelope_sent(c, false);
        if (w->damage != NULL)
            w->damage(w, &m, d->data, d->bytes);
    }
    return 0;
}

static int read_now(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct world_rank *r = self;
    struct world *w = r->world;
    uint64_t delay = offset >= SEGMENT_CARD ? w->ranks[peer].card_delay_ns : w->board_ns;
    w->tables += offset < SEGMENT_CARD;
    later(w, DUE_READ, delay, peer, r->rank, tag, bytes)->offset = offset;
    return 0;
}

static int board_now(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct world_rank *r = self;
    r->world->boards++;
    later(r->world, DUE_BOARD, r->world->board_ns, peer, r->rank, tag, 0)->offset = offset;
    return 0;
}

static uint32_t under_way(const struct world *w, uint32_t from, uint32_t to)
{
    const struct due *lists[] = {w->queue, w->held}, *d;
    uint32_t n = 0;
    for (unsigned i = 0; i < 2; i++)
        DL_FOREACH(lists[i], d)
        {
            n += d->kind == DUE_MOVE && d->from == from && d->to == to;
        }
    return n;
}

static int64_t fake_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct world_rank *r = self;
    struct world *w = r->world;
    if (is_far(w, leg->peer) && beside_net(r->beside)->room(r->beside, leg->peer) < 0)
        return BATON_EAGAIN;
    if (w->slots > 0 && under_way(w, leg->peer, r->rank) >= w->slots)
        return BATON_EAGAIN;
    struct due *d = later(w, DUE_MOVE, w->move_ns + w->ranks[leg->peer].move_extra_ns, leg->peer, r->rank, leg->tag, 0);
    d->transfer = leg->transfer;
    d->write = leg->write;
    d->cursor = *leg->cursor;
    d->offset = plan_skip(leg->transfer, leg->cursor, budget < w->chunk ? budget : w->chunk);
    d->board = plan_at_end(leg->transfer, leg->cursor) && !w->asks ? leg->board : 0;
    return (int64_t)d->offset;
}

static enum path_park fake_park(void *self, uint32_t peer, uint64_t tag)
{
    struct world_rank *r = self;
    struct due *lists[] = {r->world->queue, r->world->held}, *d;
    enum path_park answer = PATH_PARK_QUIET;
    (void)peer;
    for (unsigned i = 0; i < 2; i++)
        DL_FOREACH(lists[i], d)
        {
            if (d->tag != tag || d->to != r->rank || d->kind == DUE_MESSAGE || d->kind == DUE_SUM ||
                d->kind == DUE_ZERO || d->kind == DUE_BELL)
                continue;
            d->parked = true;
            if (d->kind == DUE_MOVE)
                answer = PATH_PARK_LATER;
        }
    return answer;
}

static void fake_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    struct world_rank *r = self;
    assert_true(generation > r->board[slot]); /* generations only grow */
    r->board[slot] = generation;
    beside_store(r->beside, far);
}

static int settle_now(void *self, uint32_t peer, uint64_t tag)
{
    struct world_rank *r = self;
    later(r->world, DUE_SETTLE, r->world->board_ns, peer, r->rank, tag, 0);
    return 0;
}

static int fake_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    struct world_rank *r = self;
    copy_sums(transfer, source, (char *[]){(char *)r->pool}, first, count, out);
    later(r->world, DUE_SUM, r->world->board_ns, r->rank, r->rank, tag, 0);
    return 0;
}

static int fake_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct world_rank *r = self;
    if (r->refuses_zero)
        return BATON_EAGAIN;
    later(r->world, DUE_ZERO, r->world->zero_ns, r->rank, r->rank, tag, 0)->transfer = transfer;
    return 0;
}

static enum port_alive fake_alive(void *self, uint32_t peer)
{
    struct world_rank *r = self;
    const struct directory_row *rows = r->world->directory->rows;
    if (rows[r->rank].node != rows[peer].node)
        return PORT_UNKNOWN;
    return r->world->ranks[peer].is_dead ? PORT_DEAD : PORT_ALIVE;
}

/* The transport reports it at once. */
static bool ended_now(void *self, uint32_t peer)
{
    const struct world_rank *r = self;
    return r->world->ranks[peer].is_dead && !r->world->ranks[peer].lingers;
}

/* ---- the port, by lent turns too --------------------------------------------------------------------------------- */

/* Of a rank that is far, what beside makes of a call, else the call itself. */
#define BY(r, peer, function, now) (is_far((r)->world, peer) ? beside_net((r)->beside)->function : (now))
#define OF(r, peer) (is_far((r)->world, peer) ? (void *)(r)->beside : (void *)(r))

static int fake_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct world_rank *r = self;
    return BY(r, peer, send, send_now)(OF(r, peer), peer, message, bytes);
}

static int fake_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct world_rank *r = self;
    return BY(r, peer, path.read, read_now)(OF(r, peer), peer, offset, bytes, tag);
}

static int fake_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct world_rank *r = self;
    return BY(r, peer, path.board, board_now)(OF(r, peer), peer, offset, tag);
}

static int fake_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct world_rank *r = self;
    return BY(r, peer, path.settle, settle_now)(OF(r, peer), peer, tag);
}

static bool fake_ended(void *self, uint32_t peer)
{
    struct world_rank *r = self;
    return BY(r, peer, path.ended, ended_now)(OF(r, peer), peer);
}

static int net_room(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return NET_RUNS;
}

/* Events are told by `deliver`. */
static int net_progress(void *self, struct port_event *events, int max)
{
    (void)self, (void)events, (void)max;
    return 0;
}

static void net_sync(void *self)
{
    struct world_rank *r = self;
    r->syncs++;
}

static void net_init(struct world_rank *r)
{
    r->net = (struct net){.self = r, .room = net_room, .send = send_now, .sync = net_sync};
    r->net.path = (struct path){.self = r,
                                .read = read_now,
                                .board = board_now,
                                .settle = settle_now,
                                .park = fake_park,
                                .ended = ended_now,
                                .progress = net_progress};
    r->beside = beside_create(&r->net, r->world->most, &r->world->log);
    assert_non_null(r->beside);
}

void world_lend(struct world *w, uint32_t rank, bool lends)
{
    w->ranks[rank].lends = lends;
    beside_lend(w->ranks[rank].beside, lends);
}

uint8_t *world_address(struct world *w, uint32_t rank, uint64_t at)
{
    struct world_rank *r = &w->ranks[rank];
    if (at >= SEGMENT_POOL)
        return r->pool + (at - SEGMENT_POOL);
    if (at >= SEGMENT_CARD)
        return r->card + (at - SEGMENT_CARD);
    return at >= SEGMENT_ARENA ? r->arena + (at - SEGMENT_ARENA) : (uint8_t *)r->board + (at - SEGMENT_BOARD);
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

static void read_segment(struct world_rank *r, struct due *d)
{
    if (d->offset >= SEGMENT_CARD) {
        memcpy(d->data, r->card, d->bytes);
        if (r->bad_cards > 0) {
            r->bad_cards--;
            d->data[d->bytes / 2] ^= 1;
        }
    } else {
        memcpy(d->data, r->arena + (d->offset - SEGMENT_ARENA), d->bytes);
    }
}

static void move_land(struct world *w, struct due *d)
{
    struct plan_run runs[16];
    uint64_t left = d->offset;
    uint32_t from = d->write ? d->to : d->from, to = d->write ? d->from : d->to;
    if (w->on_move != NULL)
        w->on_move(w, d->from, d->to);
    while (left > 0) {
        uint32_t n = plan_next(d->transfer, &d->cursor, runs, 16, left);
        assert_true(n > 0);
        for (uint32_t i = 0; i < n; i++) {
            memcpy(w->ranks[to].pool + runs[i].dst, w->ranks[from].pool + runs[i].src, runs[i].bytes);
            left -= runs[i].bytes;
        }
    }
    w->ranks[d->from].moves++;
}

static uint64_t generation_at(const struct world *w, uint32_t rank, uint64_t offset)
{
    return w->ranks[rank].board[(offset - SEGMENT_BOARD) / 8];
}

static bool others_move(const struct world *w, const struct due *d)
{
    const struct due *lists[] = {w->queue, w->held}, *o;
    for (unsigned i = 0; i < 2; i++)
        DL_FOREACH(lists[i], o)
        {
            if (o != d && o->kind == DUE_MOVE && o->tag == d->tag && o->to == d->to)
                return true;
        }
    return false;
}

/* 1: a message; 0: its envelope was refused. */
static int message_from(struct world *w, const struct due *d, struct port_event *e)
{
    const char *why;
    struct envelope_route route;
    bool good = envelope_read_route(d->data, d->bytes, &route) && route.to == d->to && route.from < w->num_ranks;
    if (good) {
        e->peer = route.from;
        good = envelope_open(&w->counts[d->to * w->most + route.from], d->data, d->bytes, &why) == ENVELOPE_MESSAGE;
    }
    e->kind = PORT_MESSAGE;
    e->data = d->data + ENVELOPE_BYTES;
    e->bytes = d->bytes - ENVELOPE_BYTES;
    w->refused += !good;
    return good;
}

static int event_from(struct world *w, struct due *d, struct port_event *e)
{
    *e = (struct port_event){.peer = d->from, .tag = d->tag, .data = d->data, .bytes = d->bytes};
    switch (d->kind) {
    case DUE_MESSAGE:
        return message_from(w, d, e);
    case DUE_READ:
        read_segment(&w->ranks[d->from], d);
        e->kind = PORT_READ;
        return d->parked ? 0 : 1;
    case DUE_BOARD:
        e->kind = PORT_BOARD;
        e->generation = generation_at(w, d->from, d->offset);
        return d->parked ? 0 : 1;
    case DUE_SETTLE:
        e->kind = PORT_SETTLED;
        return d->parked ? 0 : 1;
    case DUE_ZERO:
        if (w->ranks[d->to].work_error == 0)
            copy_zeros(d->transfer, (char *[]){(char *)w->ranks[d->to].pool});
        e->kind = PORT_WORKED;
        e->error = w->ranks[d->to].work_error;
        return 1;
    case DUE_SUM:
        e->kind = PORT_WORKED;
        e->error = w->ranks[d->to].work_error;
        return 1;
    case DUE_MOVE:
        move_land(w, d);
        e->kind = d->parked ? PORT_QUIET : PORT_MOVED;
        e->moved = d->offset;
        if (d->board != 0 && !others_move(w, d))
            e->generation = generation_at(w, d->from, d->board);
        return d->parked && others_move(w, d) ? 0 : 1;
    case DUE_BELL:
        return 0;
    }
    return 0;
}

/* The only thing of that tag that will happen happens now. */
static bool fake_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    struct world_rank *r = self;
    struct world *w = r->world;
    struct due *d, *found = NULL;
    if (!w->at_once || path_is_far(w->path[peer]))
        return false;
    DL_FOREACH(w->queue, d)
    {
        if (d->tag != tag || d->to != r->rank || d->kind == DUE_MESSAGE || d->kind == DUE_BELL)
            continue;
        if (found != NULL || d->parked)
            return false;
        found = d;
    }
    if (found == NULL)
        return false;
    DL_DELETE(w->queue, found);
    const bool is_told = event_from(w, found, event) == 1;
    w->now += w->answer_ns;
    event->at_ns = w->now;
    free(w->taken); /* its data stay until the next one */
    w->taken = found;
    return is_told;
}

static void collect(struct world *w, struct world_rank *r)
{
    struct outcome *outcome;
    while (!beside_owes(r->beside) && (outcome = core_take(r->core)) != NULL) {
        assert_true(r->num_events < WORLD_EVENTS);
        r->event_at[r->num_events] = w->now;
        r->events[r->num_events++] = outcome->event;
        outcome_free(outcome);
    }
}

/* Ranks whose bell was rung take a step, once their wake-up has taken its time. */
static void hear_bells(struct world *w, const struct world_rank *by)
{
    for (uint32_t i = 0; world_words && i < w->num_ranks; i++) {
        struct world_rank *r = &w->ranks[i];
        if (bell_read(&r->bell) == r->rings)
            continue;
        r->rings = bell_read(&r->bell);
        later(w, DUE_BELL, w->message_ns, by->rank, i, 0, 0);
    }
}

/*
 * What comes to a stopped rank waits for it. A one-sided operation also waits for the rank it is done on, as over TCP,
 * but not where that is near.
 */
static bool waits(const struct world *w, const struct due *d)
{
    return w->ranks[d->to].stopped || (w->ranks[d->to].lends && d->to != d->from && is_far(w, d->from)) ||
           (d->kind != DUE_MESSAGE && w->ranks[d->from].stopped && path_is_far(w->path[d->from]));
}

/* All that had come to that rank by then was handed to it. It never goes back. */
static uint64_t heard_ns(const struct world *w, struct world_rank *r)
{
    const struct due *d;
    uint64_t heard = w->now;
    if (r->lends) /* not all of it is asked what has come */
        return r->heard_ns;
    DL_FOREACH(w->queue, d)
    {
        const uint64_t came = d->came < d->at ? d->came : d->at;
        if (d->to == r->rank && d->kind != DUE_BELL && came <= heard && !waits(w, d))
            heard = came - 1;
    }
    if (heard > r->heard_ns)
        r->heard_ns = heard;
    return r->heard_ns;
}

static void step(struct world *w, struct world_rank *r, const struct port_event *e, int n)
{
    if (r->stopped || r->has_gone)
        return;
    beside_net(r->beside)->path.progress(r->beside, NULL, 0);
    core_step(r->core, w->now, heard_ns(w, r), e, n);
    collect(w, r);
    if (world_words)
        rings_ring(r->owed, RINGS_LATER);
    hear_bells(w, r);
}

static uint64_t next_ns(const struct world *w, const struct world_rank **who)
{
    uint64_t at = w->queue != NULL ? w->queue->at : UINT64_MAX;
    *who = NULL;
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        uint64_t due = w->ranks[i].stopped || w->ranks[i].has_gone ? UINT64_MAX : core_next_ns(w->ranks[i].core);
        if (due <= w->now && due > heard_ns(w, &w->ranks[i]))
            due = UINT64_MAX; /* what has come is handed over before */
        if (due < at) {
            at = due;
            *who = &w->ranks[i];
        }
    }
    return at;
}

static void release_held(struct world *w)
{
    struct due *d, *next;
    DL_FOREACH_SAFE(w->held, d, next)
    {
        if (waits(w, d))
            continue;
        DL_DELETE(w->held, d);
        d->at = w->now;
        DL_INSERT_INORDER(w->queue, d, by_time);
    }
}

/* An engine that all ranks have forgotten is forgotten: they share the directory. */
static void forget_gone(struct world *w)
{
    uint32_t engine, first = DIRECTORY_NONE;
    for (uint32_t i = 0; w->directory->gone != NULL && i < w->num_ranks; i++) {
        if (w->ranks[i].has_gone)
            continue;
        if (!core_take_forgotten(w->ranks[i].core, &engine) || (first != DIRECTORY_NONE && engine != first))
            return;
        first = engine;
    }
    if (first != DIRECTORY_NONE)
        directory_forget(w->directory, first);
}

/* Delivers the first that is due, and with it what comes to the same rank within batch_ns. */
static void deliver(struct world *w)
{
    struct due *batch[BATCH], *d, *next;
    struct port_event events[BATCH];
    uint64_t last = w->queue->at + w->batch_ns;
    uint32_t to = w->queue->to;
    int n = 0, num_events = 0;
    bool is_rung = false;
    DL_FOREACH_SAFE(w->queue, d, next)
    {
        if (d->to != to || d->at > last || n == (w->batch_ns > 0 ? BATCH : 1))
            continue;
        DL_DELETE(w->queue, d);
        w->now = d->at > w->now ? d->at : w->now;
        if (waits(w, d)) {
            if (w->ranks[to].stopped)
                d->came = d->at;
            DL_APPEND(w->held, d);
            if (n == 0)
                return;
            continue;
        }
        batch[n++] = d;
        is_rung |= d->kind == DUE_BELL;
        num_events += event_from(w, d, &events[num_events]);
    }
    if (num_events > 0 || is_rung)
        step(w, &w->ranks[to], events, num_events);
    while (n > 0)
        free(batch[--n]);
}

void world_run(struct world *w, uint64_t until)
{
    const struct world_rank *who;
    uint64_t at;
    release_held(w);
    for (uint32_t i = 0; i < w->num_ranks; i++)
        step(w, &w->ranks[i], NULL, 0);
    while ((at = next_ns(w, &who)) <= until) {
        w->now = at > w->now ? at : w->now;
        if (who != NULL) {
            step(w, (struct world_rank *)who, NULL, 0);
            continue;
        }
        deliver(w);
        forget_gone(w);
    }
    forget_gone(w);
    w->now = until;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static uint32_t size_of(const struct world_engine *e)
{
    return e->tp * (e->bare_first || e->one_layer_each ? 2 : 1);
}

/* Gives the second layer a window, and a state beside it: 3 planes of 5 channels a head. */
static void hybrid(struct world_rank *r, uint32_t window_block)
{
    baton_geometry_t *g = &r->geometry;
    const int64_t heads = g->splits[0].head_count, block = window_block;
    g->groups[1] = (baton_group_t){
        .kind = BATON_KIND_WINDOW, .block_tokens = window_block, .num_blocks = 64, .window_tokens = WORLD_WINDOW};
    g->groups[2] = (baton_group_t){.kind = BATON_KIND_STATE, .block_tokens = 1, .num_blocks = 16};
    g->num_groups = 3;
    r->tensors[1].group = 1;
    r->tensors[1].offset = (r->tensors[1].offset + 63) / 64 * 64;
    r->tensors[1].stride = (baton_strides_t){8 * block * heads, 64 * 8 * block * heads, 8 * block, 8, 1};
    uint64_t end = r->tensors[1].offset + (uint64_t)(2 * 64 * 8 * block * heads);
    r->tensors[2] = (baton_tensor_t){.name = "state",
                                     .layer = 1,
                                     .group = 2,
                                     .planes = 3,
                                     .head_size = 5,
                                     .offset = end,
                                     .stride = {15 * heads, 5 * heads, 5, 5, 1}};
    g->num_tensors = 3;
    g->bytes = end + (uint64_t)(16 * 15 * heads);
}

static void rank_init(struct world *w, uint32_t rank, const struct world_engine *e, uint32_t index, uint8_t *row_out)
{
    struct world_rank *r = &w->ranks[rank];
    uint32_t tp_rank = index % e->tp;
    bool bare = e->bare_first && index < e->tp;
    uint32_t layers = e->one_layer_each ? 1 : 2, layer_first = e->one_layer_each ? index / e->tp : 0;
    uint32_t heads = e->heads_total > e->tp ? e->heads_total / e->tp : 1, head_first = tp_rank * e->heads_total / e->tp;
    r->world = w;
    r->rank = rank;
    net_init(r);
    r->port = (struct port){.path = {.self = r,
                                     .read = fake_read,
                                     .board = fake_board,
                                     .move = fake_move,
                                     .settle = fake_settle,
                                     .answer = fake_answer,
                                     .park = fake_park,
                                     .ended = fake_ended},
                            .self = r,
                            .send = fake_send,
                            .raise = fake_raise,
                            .alive = fake_alive,
                            .sum = fake_sum,
                            .zero = fake_zero};
    r->geometry =
        (baton_geometry_t){.size = sizeof(baton_geometry_t),
                           .dtype = "u8",
                           .elem_bytes = 1,
                           .planes = 2,
                           .head_size = 8,
                           .num_groups = 1,
                           .groups = {{.block_tokens = 4, .num_blocks = e->num_blocks}},
                           .num_splits = 1,
                           .splits = {{.heads_total = e->heads_total, .head_first = head_first, .head_count = heads}},
                           .layers_total = 2,
                           .layer_first = layer_first,
                           .layer_count = layers};
    snprintf(r->geometry.model, sizeof r->geometry.model, "%s", e->model != NULL ? e->model : "model");
    assert_int_equal(baton_geometry_layout(&r->geometry, r->tensors, e->layout), 0);
    r->geometry.num_tensors -= e->one_tensor;
    if (e->window_block > 0)
        hybrid(r, e->window_block);
    r->bare = bare;
    r->events = malloc(WORLD_EVENTS * sizeof *r->events);
    r->pool = malloc(r->geometry.bytes);
    r->arena = calloc(1, ARENA_BYTES);
    r->board = calloc(w->settings.leases, sizeof *r->board);
    const uint64_t number = 1000 + w->num_joined++;
    struct wire_card card = {.member = number,
                             .board_offset = SEGMENT_BOARD,
                             .board_slots = (uint32_t)w->settings.leases,
                             .arena_offset = SEGMENT_ARENA,
                             .arena_bytes = ARENA_BYTES,
                             .pool_offset = SEGMENT_POOL,
                             .pool_bytes = r->geometry.bytes,
                             .has_geometry = !bare,
                             .geometry = r->geometry};
    r->card_bytes = wire_card_encode(&card, r->card, sizeof r->card);
    assert_true(r->card_bytes > 0);
    struct wire_row row = {.role = BATON_ROLE_BOTH,
                           .tp = (uint16_t)e->tp,
                           .pp = (uint16_t)(size_of(e) / e->tp),
                           .tp_rank = (uint16_t)tp_rank,
                           .pp_rank = (uint16_t)(index / e->tp),
                           .node = e->node > 0 ? WORLD_NODES + e->node : rank,
                           .num_boxes = !bare,
                           .box = {{layer_first, bare ? 0 : layers, head_first, bare ? 0 : heads, 0}},
                           .number = number,
                           .card_offset = SEGMENT_CARD,
                           .card_bytes = (uint32_t)r->card_bytes,
                           .verdicts = (uint8_t)e->verdicts,
                           .rules = e->other_rules ? PLAN_RULES + 1 : PLAN_RULES};
    r->hears = e->verdicts == BATON_VERDICTS_ALL || (e->verdicts == BATON_VERDICTS_LEADER && index == 0);
    snprintf(row.engine, sizeof row.engine, "%s", e->name);
    snprintf(row.host, sizeof row.host, "host%u", e->node > 0 ? e->node : 100 + rank);
    wire_row_encode(&row, row_out);
    world_poison(w, rank);
}

baton_mode_t world_mode = BATON_MODE_PULL;
bool world_words;
uint32_t world_leases;

/* Every rank has words, which every rank maps. */
static void words_init(struct world *w)
{
    struct handoffs_rank all[64];
    assert_true(w->num_ranks <= 64);
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        struct world_rank *r = &w->ranks[i];
        r->words = calloc(1, handoff_bytes((uint32_t)w->settings.leases, w->num_ranks));
        bell_init(&r->bell);
        all[i] = (struct handoffs_rank){.at = {.area = r->words,
                                               .board = (const _Atomic uint64_t *)r->board,
                                               .slots = (uint32_t)w->settings.leases,
                                               .places = w->num_ranks},
                                        .its = i};
        w->path[i] = BATON_PATH_SHM;
    }
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        struct world_rank *r = &w->ranks[i];
        r->vicinity = with_whole_vicinity(i, w->num_ranks);
        assert_int_equal(rings_create(r->vicinity, &r->owed), 0);
        assert_int_equal(handoffs_create(r->vicinity, r->owed, &r->handoffs), 0);
        for (uint32_t k = 0; k < w->num_ranks; k++) {
            all[k].place = i;
            rings_join(r->owed, k, &w->ranks[k].bell);
            handoffs_join(r->handoffs, k, &all[k]);
        }
        w->ranks[i].port.handoff = handoffs_port(w->ranks[i].handoffs);
    }
}

static int go_by(baton_mode_t mode, bool words)
{
    world_mode = mode;
    world_words = words;
    return 0;
}

int world_pulls(void **state)
{
    (void)state;
    return go_by(BATON_MODE_PULL, false);
}

int world_takes(void **state)
{
    (void)state;
    return go_by(BATON_MODE_PULL, true);
}

int world_pushes(void **state)
{
    (void)state;
    return go_by(BATON_MODE_PUSH, false);
}

/* Its place may be another member's. */
static void rank_fini(struct world_rank *r)
{
    core_destroy(r->core);
    free(r->events);
    free(r->pool);
    free(r->arena);
    free(r->board);
    beside_destroy(r->beside);
    free(r->words);
    handoffs_destroy(r->handoffs);
    rings_destroy(r->owed);
    vicinity_destroy(r->vicinity);
    memset(r, 0, sizeof *r);
}

/* A member comes: its rank, which is that of one that all have forgotten, if there is such a one. */
static uint32_t join(struct world *w, const struct world_engine *e, uint32_t index)
{
    const struct directory *d = w->directory;
    const uint32_t next = d->num_free_ranks > 0 ? d->free_ranks[d->num_free_ranks - 1] : d->num_ranks;
    uint8_t row[WIRE_ROW_BYTES];
    struct plan_why why;
    uint32_t rank;
    assert_true(next < w->most);
    rank_fini(&w->ranks[next]);
    for (uint32_t i = 0; i < w->most; i++)
        w->counts[i * w->most + next] = w->counts[next * w->most + i] = (struct envelope_counts){0};
    rank_init(w, next, e, index, row);
    assert_int_equal(directory_join(w->directory, row, &rank, &why), 0);
    assert_int_equal(rank, next);
    w->num_ranks = d->num_ranks;
    return rank;
}

/* Its core. */
static void begin(struct world *w, uint32_t rank)
{
    struct world_rank *r = &w->ranks[rank];
    struct core_config config = {.settings = &w->settings,
                                 .directory = w->directory,
                                 .self = rank,
                                 .geometry = r->bare ? NULL : &r->geometry,
                                 .path = w->path,
                                 .path_out = w->path_out,
                                 .arena = r->arena,
                                 .arena_bytes = ARENA_BYTES,
                                 .port = &r->port,
                                 .log = &w->log};
    assert_int_equal(core_create(&config, &r->core), 0);
    assert_int_equal(verdicts_create(r->core), 0);
}

void world_init(struct world *w, const struct world_engine *engines, uint32_t num_engines)
{
    uint32_t size = 0;
    memset(w, 0, sizeof *w);
    assert_int_equal(settings_read(&w->settings, NULL), 0);
    w->settings.leases = world_leases > 0 ? world_leases : 16;
    w->now = MS;
    w->message_ns = MS / 10;
    w->move_ns = MS / 10;
    w->board_ns = MS / 100;
    w->chunk = 256;
    w->mode = world_mode;
    for (uint32_t e = 0; e < num_engines; e++)
        size += size_of(&engines[e]);
    w->most = size + SPARE_RANKS;
    w->ranks = calloc(w->most, sizeof *w->ranks);
    w->path = calloc(w->most, sizeof *w->path);
    w->path_out = calloc(w->most, sizeof *w->path_out);
    w->counts = calloc((size_t)w->most * w->most, sizeof *w->counts);
    for (uint32_t i = 0; i < w->most; i++) {
        w->path[i] = BATON_PATH_RMA;
        w->path_out[i] = BATON_PATH_CMA; /* to tell which of both an event names */
    }
    assert_int_equal(directory_create(w->most, &w->directory), 0);
    for (uint32_t e = 0, rank = 0; e < num_engines; e++)
        for (uint32_t i = 0; i < size_of(&engines[e]); i++)
            assert_int_equal(join(w, &engines[e], i), rank++);
    if (world_words)
        words_init(w);
    for (uint32_t i = 0; i < w->num_ranks; i++)
        begin(w, i);
}

/* What was to happen at a rank that goes is lost, what it has said, and what was written to it from afar. */
static void drop_of(struct world *w, uint32_t rank)
{
    struct due *d, *next;
    DL_CONCAT(w->queue, w->held);
    w->held = NULL;
    DL_FOREACH_SAFE(w->queue, d, next)
    {
        const bool is_written = d->kind == DUE_MOVE && d->write && is_far(w, rank);
        if (d->to != rank && (d->from != rank || (d->kind != DUE_MESSAGE && !is_written)))
            continue;
        DL_DELETE(w->queue, d);
        free(d);
    }
    DL_SORT(w->queue, by_time);
}

void world_leave(struct world *w, uint32_t rank, bool is_dead, bool is_quiet)
{
    const struct port_event left = {
        .kind = PORT_LEFT, .peer = rank, .error = is_dead ? BATON_EPEER : 0, .is_quiet = is_quiet};
    drop_of(w, rank);
    w->ranks[rank].has_gone = w->ranks[rank].is_dead = true;
    w->ranks[rank].lingers = !is_quiet;
    directory_leave(w->directory, rank);
    for (uint32_t i = 0; i < w->num_ranks; i++)
        step(w, &w->ranks[i], &left, 1);
    forget_gone(w);
}

uint32_t world_join_rank(struct world *w, const struct world_engine *engine, uint32_t index)
{
    const struct port_event joined = {.kind = PORT_JOINED, .peer = join(w, engine, index)};
    begin(w, joined.peer);
    for (uint32_t k = 0; k < w->num_ranks; k++)
        if (k != joined.peer)
            step(w, &w->ranks[k], &joined, 1);
    return joined.peer;
}

uint32_t world_join(struct world *w, const struct world_engine *engine)
{
    const uint32_t first = world_join_rank(w, engine, 0);
    for (uint32_t i = 1; i < size_of(engine); i++)
        world_join_rank(w, engine, i);
    return first;
}

/* Forgets all that is still to happen with dead ranks. */
static void drop_dead(struct world *w)
{
    struct due *d, *next;
    DL_FOREACH_SAFE(w->held, d, next)
    {
        if (!w->ranks[d->from].is_dead && !w->ranks[d->to].is_dead)
            continue;
        DL_DELETE(w->held, d);
        free(d);
    }
}

void world_fini(struct world *w)
{
    drop_dead(w);
    for (uint32_t i = 0; i < w->num_ranks; i++)
        if (!w->ranks[i].has_gone)
            core_shut(w->ranks[i].core, w->now);
    for (uint32_t i = 0; i < w->num_ranks; i++)
        w->ranks[i].stopped = w->ranks[i].deaf = false;
    world_run(w, w->now + 1000 * MS);
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        assert_true(core_is_quiet(w->ranks[i].core) || w->ranks[i].is_dead);
        rank_fini(&w->ranks[i]);
    }
    struct due *d, *next;
    DL_CONCAT(w->queue, w->held);
    DL_FOREACH_SAFE(w->queue, d, next)
    {
        free(d);
    }
    free(w->taken);
    directory_destroy(w->directory);
    free(w->path);
    free(w->path_out);
    free(w->counts);
    free(w->ranks);
}

/* ---- the verbs --------------------------------------------------------------------------------------------------- */

/* A call with a new id and so many blocks. */
static struct call *record(struct world *w, enum call_kind kind, uint32_t first, uint32_t blocks_step, uint32_t blocks)
{
    static baton_id_t last;
    uint32_t *ids = calloc(blocks + 1, sizeof *ids);
    struct call *call = calloc(1, sizeof *call + blocks * sizeof call->blocks[0]);
    assert_true(call != NULL && ids != NULL);
    call->kind = kind;
    call->id = ++last;
    call->submitted_ns = w->now;
    for (uint32_t i = 0; i < blocks; i++)
        ids[i] = first + i * blocks_step;
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{ids, blocks, 0}}}, NULL, NULL);
    free(ids);
    return call;
}

static struct call *offer(struct world *w, const char *key, uint32_t first, uint32_t blocks_step, uint32_t tokens,
                          uint32_t ttl_ms)
{
    struct call *call = record(w, CALL_OFFER, first, blocks_step, (tokens + 3) / 4);
    snprintf(call->key, sizeof call->key, "%s", key);
    call->attempt = w->attempt;
    call->offer.num_tokens = tokens;
    call->offer.ttl_ms = ttl_ms;
    call->offer.num_seats = 1;
    call->offer.num_attach = w->num_attach;
    if (w->num_attach > 0)
        memcpy(call->offer.attach, w->attach, w->num_attach);
    snprintf(call->offer.seats[0], sizeof call->offer.seats[0], "%s", w->seat != NULL ? w->seat : "");
    return call;
}

baton_id_t world_submit(struct world *w, uint32_t rank, struct call *call)
{
    baton_id_t id = call->id;
    if (w->ranks[rank].hears && call_ends(call))
        call->verdict = calloc(1, sizeof *call->verdict);
    if (call_ends(call))
        call->given_up = calloc(1, sizeof *call->given_up);
    core_submit(w->ranks[rank].core, w->now, call);
    step(w, &w->ranks[rank], NULL, 0);
    return id;
}

baton_id_t world_offer(struct world *w, uint32_t rank, const char *key, uint32_t first, uint32_t blocks_step,
                       uint32_t tokens, uint32_t ttl_ms)
{
    return world_submit(w, rank, offer(w, key, first, blocks_step, tokens, ttl_ms));
}

baton_id_t world_want(struct world *w, uint32_t rank, const char *engine, const char *key, uint32_t first,
                      uint32_t blocks_step, uint32_t tokens, uint32_t timeout_ms)
{
    struct call *call = record(w, CALL_WANT, first, blocks_step, (tokens + 3) / 4);
    snprintf(call->key, sizeof call->key, "%s", key);
    call->attempt = w->attempt;
    call->want = (struct call_want){.engine = directory_find(w->directory, engine),
                                    .num_tokens = tokens,
                                    .timeout_ms = timeout_ms,
                                    .mode = w->mode,
                                    .zero_tail = w->zero_tail};
    snprintf(call->want.awaited, sizeof call->want.awaited, "%s", engine);
    return world_submit(w, rank, call);
}

baton_id_t world_offer_layers(struct world *w, uint32_t rank, const char *key, uint32_t first, uint32_t blocks_step,
                              uint32_t tokens, uint32_t ttl_ms)
{
    struct call *call = offer(w, key, first, blocks_step, tokens, ttl_ms);
    call->offer.in_layers = true;
    return world_submit(w, rank, call);
}

baton_id_t world_offer_chunks(struct world *w, uint32_t rank, const char *key, uint32_t tokens, bool in_layers,
                              uint32_t ttl_ms)
{
    struct call *call = offer(w, key, 0, 1, tokens, ttl_ms);
    call->offer.in_chunks = true;
    call->offer.in_layers = in_layers;
    call->tables.table[0].num_blocks = call->num_blocks = 0; /* there is room for all */
    return world_submit(w, rank, call);
}

void world_append(struct world *w, uint32_t rank, baton_id_t id, uint32_t first, uint32_t blocks, uint32_t tokens)
{
    struct call *word = record(w, CALL_APPEND, first, 1, blocks);
    word->id = id;
    word->append.num_tokens = tokens;
    world_submit(w, rank, word);
}

void world_ready(struct world *w, uint32_t rank, baton_id_t id, uint32_t layer_first, uint32_t layer_count)
{
    world_ready_of(w, rank, id, layer_first, layer_count, 0);
}

void world_ready_of(struct world *w, uint32_t rank, baton_id_t id, uint32_t layer_first, uint32_t layer_count,
                    uint32_t tokens)
{
    struct call *word = record(w, CALL_READY, 0, 0, 0);
    word->id = id;
    word->ready = (struct call_ready){layer_first, layer_count, tokens};
    world_submit(w, rank, word);
}

void world_cancel(struct world *w, uint32_t rank, baton_id_t id)
{
    struct call *word = record(w, CALL_CANCEL, 0, 0, 0);
    word->id = id;
    world_submit(w, rank, word);
}

static int event_index(struct world *w, uint32_t rank, baton_id_t id, bool given_up)
{
    int found = -1;
    for (int i = 0; i < w->ranks[rank].num_events; i++) {
        baton_event_type_t type = w->ranks[rank].events[i].type;
        if (w->ranks[rank].events[i].id != id || type == BATON_EVENT_VERDICT ||
            (type == BATON_EVENT_GIVEN_UP) != given_up)
            continue;
        assert_int_equal(found, -1); /* exactly one end */
        found = i;
    }
    return found;
}

const baton_event_t *world_event(struct world *w, uint32_t rank, baton_id_t id)
{
    int i = event_index(w, rank, id, false);
    return i < 0 ? NULL : &w->ranks[rank].events[i];
}

const baton_event_t *world_given_up(struct world *w, uint32_t rank, baton_id_t id)
{
    int i = event_index(w, rank, id, true), end = event_index(w, rank, id, false);
    assert_true(end < 0 || i < end);
    assert_int_equal(end >= 0 && w->ranks[rank].events[end].given_up, end >= 0 && i >= 0);
    return i < 0 ? NULL : &w->ranks[rank].events[i];
}

const baton_event_t *world_verdict(struct world *w, uint32_t rank, baton_id_t id)
{
    const baton_event_t *found = NULL;
    for (int i = 0; i < w->ranks[rank].num_events; i++) {
        const baton_event_t *e = &w->ranks[rank].events[i];
        if (e->type != BATON_EVENT_VERDICT || e->id != id)
            continue;
        assert_true(found == NULL || id == 0); /* exactly one */
        found = e;
    }
    return found;
}

int32_t world_peer(const struct world *w, const baton_event_t *event)
{
    const struct directory *d = w->directory;
    if (event->peer == 0) {
        assert_int_equal(event->peer_engine[0], 0);
        return -1;
    }
    const uint32_t rank = directory_rank(d, event->peer);
    assert_int_not_equal(rank, DIRECTORY_NONE);
    assert_string_equal(event->peer_engine, d->engines[d->engine_of[rank]]->name);
    assert_true(event->peer_life == d->engines[d->engine_of[rank]]->life);
    assert_int_equal(event->peer_rank, d->index_of[rank]);
    return (int32_t)rank;
}

uint64_t world_event_ns(struct world *w, uint32_t rank, baton_id_t id)
{
    int i = event_index(w, rank, id, false);
    assert_true(i >= 0);
    return w->ranks[rank].event_at[i];
}

baton_stats_t world_stats(const struct world *w, uint32_t rank)
{
    baton_stats_t stats;
    core_stats(w->ranks[rank].core, &stats);
    return stats;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint8_t byte_of(uint32_t seed, uint32_t layer, uint32_t plane, uint32_t head, uint32_t token, uint32_t channel)
{
    uint32_t h = seed * 2654435761u ^ (layer * 97 + plane * 31 + head * 13 + token * 7 + channel) * 2246822519u;
    return (uint8_t)((h >> 13) | 1); /* never 0 */
}

static uint8_t *place(struct world_rank *r, uint32_t layer, uint32_t plane, uint32_t head, uint32_t block,
                      uint32_t token, uint32_t channel)
{
    const baton_tensor_t *t = &r->tensors[layer];
    int64_t at = (int64_t)t->offset + block * t->stride.block + plane * t->stride.plane + head * t->stride.head +
                 token * t->stride.token + channel * t->stride.channel;
    return r->pool + at;
}

#define ALL_LAYERS UINT32_MAX

static uint64_t each(struct world *w, uint32_t rank, uint32_t layer, uint32_t seed, uint32_t first,
                     uint32_t blocks_step, uint32_t tokens, bool fill)
{
    struct world_rank *r = &w->ranks[rank];
    uint64_t wrong = 0;
    for (uint32_t l = layer == ALL_LAYERS ? 0 : layer; l < 2 && l <= layer; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < r->geometry.splits[0].head_count; h++)
                for (uint32_t t = 0; t < (tokens + 3) / 4 * 4; t++)
                    for (uint32_t c = 0; c < 8; c++) {
                        uint8_t *at = place(r, l, p, h, first + t / 4 * blocks_step, t % 4, c);
                        uint8_t right = byte_of(seed, l, p, r->geometry.splits[0].head_first + h, t, c);
                        if (fill)
                            *at = t < tokens ? right : (uint8_t)~POISON;
                        else
                            wrong += *at != (t < tokens ? right : POISON);
                    }
    return wrong;
}

void world_fill(struct world *w, uint32_t rank, uint32_t seed, uint32_t first, uint32_t blocks_step, uint32_t tokens)
{
    each(w, rank, ALL_LAYERS, seed, first, blocks_step, tokens, true);
}

void world_fill_layer(struct world *w, uint32_t rank, uint32_t layer, uint32_t seed, uint32_t first,
                      uint32_t blocks_step, uint32_t tokens)
{
    each(w, rank, layer, seed, first, blocks_step, tokens, true);
}

uint64_t world_wrong_layer(struct world *w, uint32_t rank, uint32_t layer, uint32_t seed, uint32_t first,
                           uint32_t blocks_step, uint32_t tokens)
{
    return each(w, rank, layer, seed, first, blocks_step, tokens, false);
}

uint64_t world_wrong(struct world *w, uint32_t rank, uint32_t seed, uint32_t first, uint32_t blocks_step,
                     uint32_t tokens)
{
    return each(w, rank, ALL_LAYERS, seed, first, blocks_step, tokens, false);
}

void world_poison(struct world *w, uint32_t rank)
{
    memset(w->ranks[rank].pool, POISON, w->ranks[rank].geometry.bytes);
}
