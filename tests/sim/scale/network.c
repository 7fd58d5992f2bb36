/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network: see scale.h. A message arrives after the latency. A one-sided operation takes the latency both ways, and its
 * bytes go one after another through the links of both ranks. Nothing is lost, and nobody is refused.
 */
#include "scale.h"

#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

#define POLL_NS (50 * SCALE_US) /* a rank that has something in hand steps at least so often */
#define SEGMENT_BOARD 4096u     /* where the parts of a segment begin, as traffic.c says in the cards */
#define SEGMENT_ARENA (UINT32_C(1) << 20)
#define SEGMENT_CARD (UINT32_C(1) << 30)

enum due_kind { DUE_MESSAGE, DUE_READ, DUE_BOARD, DUE_MOVE, DUE_TIMER, DUE_ARRIVAL };

struct due {
    uint64_t at, order;
    enum due_kind kind;
    uint32_t from, to; /* the rank that is asked; the one that gets the event, or the decode engine of an arrival */
    uint64_t tag, offset, bytes;
    uint8_t data[];
};

/* ---- the heap ---------------------------------------------------------------------------------------------------- */

static bool before(const struct due *a, const struct due *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static struct due *later(struct scale *s, enum due_kind kind, uint64_t at, uint64_t data)
{
    if (s->queue.num == s->queue.room) {
        s->queue.room = s->queue.room > 0 ? 2 * s->queue.room : 1024;
        s->queue.heap = realloc(s->queue.heap, s->queue.room * sizeof(struct due *));
    }
    struct due *d = malloc(sizeof *d + data);
    if (s->queue.heap == NULL || d == NULL)
        abort();
    *d = (struct due){.at = at, .order = ++s->queue.order, .kind = kind, .bytes = data};
    uint32_t i = s->queue.num++;
    for (; i > 0 && before(d, s->queue.heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->queue.heap[i] = s->queue.heap[(i - 1) / 2];
    s->queue.heap[i] = d;
    return d;
}

static struct due *pop(struct scale *s)
{
    struct due *first = s->queue.heap[0], *last = s->queue.heap[--s->queue.num];
    uint32_t i = 0;
    for (uint32_t k = 1; k < s->queue.num; k = 2 * i + 1) {
        k += k + 1 < s->queue.num && before(s->queue.heap[k + 1], s->queue.heap[k]);
        if (!before(s->queue.heap[k], last))
            break;
        s->queue.heap[i] = s->queue.heap[k];
        i = k;
    }
    s->queue.heap[i] = last;
    return first;
}

void scale_later(struct scale *s, uint64_t at, uint32_t decode_engine)
{
    later(s, DUE_ARRIVAL, at, 0)->to = decode_engine;
}

void scale_drop_all(struct scale *s)
{
    while (s->queue.num > 0)
        free(s->queue.heap[--s->queue.num]);
    free(s->queue.heap);
}

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static void note_met(struct scale_rank *r, uint32_t peer)
{
    const uint8_t bit = (uint8_t)(1u << (peer % 8));
    r->num_met += (r->met[peer / 8] & bit) == 0;
    r->met[peer / 8] |= bit;
}

/* The core calls the port: what the port allocates is not the core's. */
static struct due *begin(struct scale_rank *r, enum due_kind kind, uint32_t peer, uint64_t at, uint64_t data)
{
    struct scale *s = r->scale;
    struct bytes *core = bytes_of(NULL);
    struct due *d = later(s, kind, at, data);
    bytes_of(core);
    note_met(r, peer);
    note_met(&s->ranks[peer], r->rank);
    d->from = peer;
    d->to = r->rank;
    return d;
}

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct scale_rank *r = self;
    struct scale *s = r->scale;
    struct due *d = begin(r, DUE_MESSAGE, peer, s->now + SCALE_LATENCY_NS, bytes);
    d->from = r->rank;
    d->to = peer;
    memcpy(d->data, message, bytes);
    s->counts.messages++;
    s->counts.message_bytes += bytes;
    return 0;
}

/* When bytes that peer's link and then mine carry are here. Each link carries one after another. */
static uint64_t carried(struct scale_rank *r, uint32_t peer, uint64_t bytes)
{
    struct scale *s = r->scale;
    uint64_t *out = &s->ranks[peer].link_free_ns[0], *in = &r->link_free_ns[1], first = s->now;
    first = *out > first ? *out : first;
    first = *in > first ? *in : first;
    *out = *in = first + bytes / SCALE_LINK_BYTES_PER_NS;
    return *in + 2 * SCALE_LATENCY_NS;
}

static int port_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct scale_rank *r = self;
    struct due *d = begin(r, DUE_READ, peer, carried(r, peer, bytes), bytes);
    d->tag = tag;
    d->offset = offset;
    r->scale->counts.reads++;
    return 0;
}

static int port_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct scale_rank *r = self;
    struct due *d = begin(r, DUE_BOARD, peer, r->scale->now + 2 * SCALE_LATENCY_NS, 0);
    d->tag = tag;
    d->offset = offset;
    r->scale->counts.reads++;
    return 0;
}

static int64_t port_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct scale_rank *r = self;
    struct scale *s = r->scale;
    const uint64_t bytes = plan_skip(leg->transfer, leg->cursor, budget);
    uint64_t at = carried(r, leg->peer, bytes), board = plan_at_end(leg->transfer, leg->cursor) ? leg->board : 0;
    if (board != 0) {
        at += 2 * SCALE_LATENCY_NS;
        s->counts.reads++;
    }
    struct due *d = begin(r, DUE_MOVE, leg->peer, at, 0);
    d->tag = leg->tag;
    d->bytes = bytes;
    d->offset = board;
    s->counts.moves++;
    return (int64_t)bytes;
}

/* Asked when a leg has ended. Nothing of it is under way then: no operation fails here. */
static enum path_park port_park(void *self, uint32_t peer, uint64_t tag)
{
    (void)self;
    (void)peer;
    (void)tag;
    return PATH_PARK_QUIET;
}

static int port_settle(void *self, uint32_t peer, uint64_t tag)
{
    (void)self;
    (void)peer;
    (void)tag;
    return BATON_ENOSYS;
}

static bool port_ended(void *self, uint32_t peer)
{
    (void)self;
    (void)peer;
    return false;
}

static void port_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    struct scale_rank *r = self;
    (void)far;
    r->board[slot] = generation;
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    (void)self;
    (void)peer;
    return PORT_UNKNOWN;
}

void scale_port(struct scale_rank *r)
{
    r->port = (struct port){.path = {.self = r,
                                     .read = port_read,
                                     .board = port_board,
                                     .move = port_move,
                                     .settle = port_settle,
                                     .park = port_park,
                                     .ended = port_ended},
                            .self = r,
                            .send = port_send,
                            .raise = port_raise,
                            .alive = port_alive};
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Sees to it that the rank is stepped when its next timer is due. */
static void set_timer(struct scale *s, struct scale_rank *r)
{
    uint64_t at = core_next_ns(r->core);
    if (core_is_busy(r->core) && at > s->now + POLL_NS)
        at = s->now + POLL_NS;
    at = at > s->now ? at : s->now;
    if (at >= r->timer_ns)
        return;
    r->timer_ns = at;
    later(s, DUE_TIMER, at, 0)->to = r->rank;
}

void scale_step(struct scale *s, struct scale_rank *r, const struct port_event *e, int n)
{
    struct bytes *former = bytes_of(&r->bytes);
    core_step(r->core, s->now, s->now, e, n);
    bytes_of(former);
    scale_collect(s, r);
    set_timer(s, r);
}

static void read_segment(const struct scale *s, struct due *d)
{
    const struct scale_rank *r = &s->ranks[d->from];
    if (d->offset >= SEGMENT_CARD)
        scale_card(s, d->from, d->data, d->bytes);
    else
        memcpy(d->data, r->arena + (d->offset - SEGMENT_ARENA), d->bytes);
}

static uint64_t generation_at(const struct scale *s, const struct due *d)
{
    return s->ranks[d->from].board[(d->offset - SEGMENT_BOARD) / 8];
}

static void event_of(const struct scale *s, struct due *d, struct port_event *e)
{
    *e = (struct port_event){.peer = d->from, .tag = d->tag, .data = d->data, .bytes = (uint32_t)d->bytes};
    if (d->kind == DUE_MESSAGE) {
        e->kind = PORT_MESSAGE;
    } else if (d->kind == DUE_READ) {
        e->kind = PORT_READ;
        read_segment(s, d);
    } else if (d->kind == DUE_BOARD) {
        e->kind = PORT_BOARD;
        e->generation = generation_at(s, d);
    } else {
        e->kind = PORT_MOVED;
        e->generation = d->offset != 0 ? generation_at(s, d) : 0;
        e->moved = d->bytes;
        e->runs = 1;
    }
}

/* The timer for which the rank was to be stepped may have moved on since. */
static void time_out(struct scale *s, struct scale_rank *r, uint64_t at)
{
    if (r->timer_ns != at)
        return;
    r->timer_ns = UINT64_MAX;
    if (core_next_ns(r->core) <= s->now || core_is_busy(r->core))
        scale_step(s, r, NULL, 0);
    else
        set_timer(s, r);
}

void scale_run(struct scale *s, uint64_t until)
{
    while (s->queue.num > 0 && s->queue.heap[0]->at <= until) {
        struct due *d = pop(s);
        struct port_event e;
        s->now = d->at;
        if (d->kind == DUE_ARRIVAL) {
            scale_arrive(s, d->to);
        } else if (d->kind == DUE_TIMER) {
            time_out(s, &s->ranks[d->to], d->at);
        } else {
            event_of(s, d, &e);
            scale_step(s, &s->ranks[d->to], &e, 1);
        }
        free(d);
    }
    s->now = until > s->now ? until : s->now;
}
