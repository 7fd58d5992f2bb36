/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port: a network in virtual time. Messages keep their order between two ranks, and may be lost or doubled. A one-sided
 * operation touches memory at one moment and completes at a later one. What happens if the peer is stopped or gone
 * depends on the path: memory of the same node stays when its process is gone, but over a network no answers come.
 */
#include "storm.h"

#include "shm/copy.h"
#include "../../with_vicinity.h"

#include <stdlib.h>
#include <string.h>

#include "wire/fields.h"

#define CREDITS 6

enum due_kind {
    DUE_MESSAGE,
    DUE_READ,
    DUE_BOARD,
    DUE_MOVE,
    DUE_PROOF,
    DUE_LANDING,
    DUE_STRAY,
    DUE_SETTLE,
    DUE_SUM,
    DUE_ZERO,
    DUE_PLAN,
    DUE_BELL,
    DUE_TURN,
    DUE_JOINED,
    DUE_LEFT
};

struct storm_due {
    uint64_t at, touch, order; /* when it completes; when it touches memory (MOVE, PROOF, READ, BOARD) */
    uint64_t issued;           /* MOVE */
    uint64_t came;             /* to a rank that was stopped then; 0: it did not have to wait */
    enum due_kind kind;
    bool touched, parked, write;
    bool aside;        /* MOVE: its slot is free again, since it was open too long */
    bool captures;     /* a put that completes locally: it takes the bytes, and another due lands them later */
    uint32_t from, to; /* the rank that is asked; the rank that gets the event */
    int error;
    uint64_t tag, offset, bytes, generation;
    uint64_t board; /* MOVE: of its leg's last bytes, where the generation stands that is read behind them; else 0 */
    struct plan_run *runs;
    uint32_t num_runs;
    const struct plan_transfer *zeroed; /* the core keeps the transfer until this completes */
    struct storm_plan plan;
    uint8_t data[];
};

/* ---- the heap ---------------------------------------------------------------------------------------------------- */

static uint64_t next_of(const struct storm_due *d)
{
    return d->touched ? d->at : d->touch;
}

static bool before(const struct storm_due *a, const struct storm_due *b)
{
    uint64_t ta = next_of(a), tb = next_of(b);
    return ta != tb ? ta < tb : a->order < b->order;
}

static void sift_up(struct storm *s, uint32_t i)
{
    while (i > 0 && before(s->heap[i], s->heap[(i - 1) / 2])) {
        struct storm_due *up = s->heap[(i - 1) / 2];
        s->heap[(i - 1) / 2] = s->heap[i];
        s->heap[i] = up;
        i = (i - 1) / 2;
    }
}

static void push(struct storm *s, struct storm_due *d)
{
    if (s->num_due == s->heap_room) {
        s->heap_room = s->heap_room ? 2 * s->heap_room : 64;
        s->heap = realloc(s->heap, s->heap_room * sizeof(struct storm_due *));
    }
    s->heap[s->num_due++] = d;
    sift_up(s, s->num_due - 1);
}

static void sift_down(struct storm *s, uint32_t i)
{
    for (;;) {
        uint32_t least = i, l = 2 * i + 1, r = l + 1;
        if (l < s->num_due && before(s->heap[l], s->heap[least]))
            least = l;
        if (r < s->num_due && before(s->heap[r], s->heap[least]))
            least = r;
        if (least == i)
            return;
        struct storm_due *down = s->heap[i];
        s->heap[i] = s->heap[least];
        s->heap[least] = down;
        i = least;
    }
}

static struct storm_due *pop(struct storm *s)
{
    struct storm_due *first = s->heap[0];
    s->heap[0] = s->heap[--s->num_due];
    sift_down(s, 0);
    return first;
}

static void due_free(struct storm_due *d)
{
    free(d->runs);
    free(d);
}

void storm_drop_all(struct storm *s)
{
    while (s->num_due > 0)
        due_free(s->heap[--s->num_due]);
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].answered != NULL)
            due_free(s->ranks[i].answered);
    free(s->heap);
    s->heap = NULL;
    s->heap_room = 0;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Each pair of ranks draws its own delays, so that what happens to one pair changes nothing for others. */
static uint64_t draw(struct storm *s, uint32_t from, uint32_t to, uint64_t below)
{
    struct storm_pair *p = &s->pairs[from * s->num_ranks + to];
    return storm_hash(s->seed ^ storm_hash(((uint64_t)from << 40) ^ ((uint64_t)to << 20) ^ ++p->drawn)) % below;
}

static struct storm_due *due(struct storm *s, enum due_kind kind, uint32_t from, uint32_t to, uint64_t tag,
                             uint64_t bytes)
{
    struct storm_due *d = calloc(1, sizeof *d + bytes);
    d->kind = kind;
    d->order = ++s->order;
    d->from = from;
    d->to = to;
    d->tag = tag;
    d->bytes = bytes;
    d->touched = true;
    return d;
}

void storm_later(struct storm *s, uint64_t at, const struct storm_plan *plan)
{
    struct storm_due *d = due(s, DUE_PLAN, 0, 0, 0, 0);
    d->at = at;
    d->plan = *plan;
    push(s, d);
}

void storm_tell(struct storm *s, uint32_t to, uint32_t member, bool has_come, uint64_t delay_ns)
{
    struct storm_due *d = due(s, has_come ? DUE_JOINED : DUE_LEFT, member, to, 0, 0);
    d->at = s->now + delay_ns;
    push(s, d);
}

static bool shares_node(const struct storm *s, uint32_t a, uint32_t b)
{
    return s->path[a * s->num_ranks + b] == BATON_PATH_SHM;
}

/* Which of the storm's ranks a core means. All below names ranks so, but for the port's functions and events. */
static uint32_t member_of(const struct storm_rank *r, uint32_t peer)
{
    return r->member_at[peer];
}

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static void flip_bits(struct storm *s, struct storm_due *d)
{
    for (uint64_t n = 1 + draw(s, d->from, d->to, 4); n > 0; n--) {
        uint64_t bit = draw(s, d->from, d->to, 8 * d->bytes);
        d->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

/* Whether to lose this message of a want's end: none, one or two of the first to each rank, and some answers. */
static bool is_lost_end(struct storm *s, uint32_t from, uint32_t to, const struct wire_message *m)
{
    if (!s->deafened || s->now >= s->horizon)
        return false;
    if (m->type == WIRE_ENDED)
        return draw(s, from, to, 10) < 3;
    struct storm_call *c = storm_call_of(s, m->want_id);
    if ((m->type != WIRE_DONE && m->type != WIRE_CANCEL && m->type != WIRE_RELEASE) || c == NULL)
        return false;
    uint8_t *told = &c->told[to];
    return (*told)++ < storm_hash(s->seed ^ storm_hash(m->want_id * STORM_RANKS_MAX + to)) % 3;
}

static int32_t error_of(const struct wire_message *m)
{
    const struct wire_field *f;
    for (uint32_t num = wire_fields(m->type, &f); num > 0; num--, f++)
        if (strcmp(f->name, "error") == 0)
            return *(const int32_t *)((const uint8_t *)m + f->offset);
    return 0;
}

/*
 * Tables that a grant carries are those of its lease. With luck they are rewritten: they name other blocks, and are
 * those of another lease. Returns the message's length by now.
 */
static uint32_t forge(struct storm *s, struct wire_message *m, bool luck, uint8_t out[WIRE_MESSAGE_MAX])
{
    struct wire_grant *g = &m->grant;
    uint8_t data[WIRE_TABLE_SENT_MAX];
    struct plan_tables tables;
    uint32_t *entries;
    if (wire_table_decode(g->table.data, g->table.num, g->slot, g->generation, &tables, &entries) != 0) {
        storm_fail(s, "a grant of slot %u carries other tables than its lease's", g->slot);
        return wire_encode(m, out);
    }
    if (luck) {
        for (uint32_t i = 0; i < tables.num; i++)
            for (uint32_t k = 0; k < tables.table[i].num_blocks; k++)
                entries[tables.table[i].blocks + k - entries] ^= 1;
        wire_table_encode(g->slot, g->generation + 1, &tables, data);
        g->table.data = data;
    }
    free(entries);
    return wire_encode(m, out);
}

/* The sender's lease that a message names; generation 0: it names none. */
static struct lease lease_in(const struct wire_message *m)
{
    if (m->type == WIRE_GRANT)
        return (struct lease){.slot = m->grant.slot, .generation = m->grant.generation};
    if (m->type == WIRE_WANT)
        return (struct lease){.slot = m->want.slot, .generation = m->want.generation};
    return (struct lease){0};
}

/* A rank of another node that is told of a lease finds it, unless that has ended meanwhile. */
static void check_window(const struct storm_rank *r, uint32_t peer, const struct wire_message *m)
{
    const struct lease lease = lease_in(m);
    if (lease.generation != 0 && r->board[lease.slot] == lease.generation &&
        r->window[lease.slot] != lease.generation && !shares_node(r->storm, r->rank, peer))
        storm_fail(r->storm, "rank %u tells rank %u of a lease that this one does not find", r->rank, peer);
}

static int send_now(void *self, uint32_t rank, const void *message, uint32_t bytes)
{
    struct storm_rank *r = self;
    struct storm *s = r->storm;
    const uint32_t peer = member_of(r, rank);
    struct storm_pair *p = &s->pairs[r->rank * s->num_ranks + peer];
    struct wire_message m;
    if (wire_decode(message, bytes, &m) != 0)
        storm_fail(s, "rank %u sends a malformed message to rank %u", r->rank, peer);
    if (p->under_way >= CREDITS)
        return BATON_EAGAIN;
    const struct wire_name *name = wire_name_of(&m);
    storm_say(s, "%u -> %u %s want %llu key %s error %d", r->rank, peer, wire_type_name(m.type),
              (unsigned long long)m.want_id, name != NULL ? name->key : "", error_of(&m));
    if (m.to != s->ranks[peer].number)
        storm_fail(s, "rank %u sends rank %u what is for another member", r->rank, peer);
    if (m.number <= p->number)
        storm_fail(s, "rank %u sends message %u to rank %u behind message %u", r->rank, m.number, peer, p->number);
    p->number = m.number;
    check_window(r, peer, &m);
    storm_note_answer(s, r->rank, &m);
    uint64_t luck = draw(s, r->rank, peer, 1000);
    uint32_t loss = s->now < s->horizon ? s->loss : 0; /* after all deadlines, what is repeated comes through */
    int times = luck < loss || is_lost_end(s, r->rank, peer, &m) ? 0 : luck < loss + s->twice ? 2 : 1;
    uint8_t again[WIRE_MESSAGE_MAX];
    if (m.type == WIRE_GRANT && m.grant.table.num > 0) {
        bytes = forge(s, &m, draw(s, r->rank, peer, 1000) < s->forged, again);
        message = again;
    }
    while (times-- > 0) {
        struct storm_due *d = due(s, DUE_MESSAGE, r->rank, peer, 0, ENVELOPE_BYTES + bytes);
        uint64_t at = s->now + 10 * STORM_US + draw(s, r->rank, peer, s->slow_ns);
        d->at = p->last_ns = at > p->last_ns ? at : p->last_ns;
        memcpy(d->data + ENVELOPE_BYTES, message, bytes);
        envelope_seal(&p->counts, (struct envelope_route){r->rank, peer}, d->data, bytes);
        envelope_sent(&p->counts, false);
        if (s->now < s->horizon && draw(s, r->rank, peer, 1000) < s->damaged)
            flip_bits(s, d);
        p->under_way++;
        push(s, d);
    }
    return 0;
}

/* Nobody sends a message to a member of which it heard more than a beat ago that it went. */
static void check_there(const struct storm_rank *r, uint32_t peer)
{
    struct storm *s = r->storm;
    const uint32_t member = member_of(r, peer);
    const uint64_t left_ns = r->view[member].left_ns;
    if (left_ns != 0 && s->now > left_ns + s->settings.beat_ms * STORM_MS)
        storm_fail(s, "rank %u sends a message to rank %u, of which it heard %llu us ago that it has gone", r->rank,
                   member, (unsigned long long)((s->now - left_ns) / STORM_US));
}

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct storm_rank *r = self;
    const struct net *net = beside_net(r->beside);
    struct wire_message m;
    const struct lease lease = wire_decode(message, bytes, &m) == 0 ? lease_in(&m) : (struct lease){0};
    check_there(r, peer);
    if (shares_node(r->storm, r->rank, member_of(r, peer)))
        return send_now(r, peer, message, bytes);
    if (lease.generation > r->told[lease.slot])
        r->told[lease.slot] = lease.generation;
    return net->send(net->self, peer, message, bytes);
}

/* Begins an operation that touches memory of `peer` at some moment between now and its completion. */
static struct storm_due *operation(struct storm_rank *r, enum due_kind kind, uint32_t peer, uint64_t tag,
                                   uint64_t offset, uint64_t bytes, uint64_t most)
{
    struct storm *s = r->storm;
    struct storm_due *d = due(s, kind, peer, r->rank, tag, kind == DUE_READ ? bytes : 0);
    d->bytes = bytes;
    d->offset = offset;
    d->touched = false;
    d->touch = s->now + draw(s, r->rank, peer, most);
    d->at = d->touch + draw(s, r->rank, peer, most);
    push(s, d);
    return d;
}

/* Bytes of a tag that will be told are waited for before anything else is asked by that tag. */
static void check_asks(struct storm_rank *r, uint64_t tag)
{
    struct storm *s = r->storm;
    for (uint32_t i = 0; i < s->num_due; i++) {
        const struct storm_due *d = s->heap[i];
        if ((d->kind == DUE_MOVE || d->kind == DUE_PROOF) && d->tag == tag && d->to == r->rank && !d->parked)
            storm_fail(s, "rank %u asks for something by a tag whose bytes are under way", r->rank);
    }
}

static int read_now(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    check_asks(self, tag);
    operation(self, DUE_READ, member_of(self, peer), tag, offset, bytes, STORM_MS / 2);
    return 0;
}

static int board_now(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    check_asks(self, tag);
    operation(self, DUE_BOARD, member_of(self, peer), tag, offset, 0, STORM_MS / 5);
    return 0;
}

static int port_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct storm_rank *r = self;
    const struct path *far = &beside_net(r->beside)->path;
    return shares_node(r->storm, r->rank, member_of(r, peer)) ? read_now(r, peer, offset, bytes, tag)
                                                              : far->read(far->self, peer, offset, bytes, tag);
}

static int port_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct storm_rank *r = self;
    const struct path *far = &beside_net(r->beside)->path;
    return shares_node(r->storm, r->rank, member_of(r, peer)) ? board_now(r, peer, offset, tag)
                                                              : far->board(far->self, peer, offset, tag);
}

static void take_runs(struct storm_due *d, const struct plan_transfer *t, struct plan_cursor at)
{
    struct plan_run runs[16];
    for (uint64_t left = d->bytes; left > 0;) {
        uint32_t n = plan_next(t, &at, runs, 16, left);
        d->runs = realloc(d->runs, (d->num_runs + n) * sizeof *d->runs);
        memcpy(d->runs + d->num_runs, runs, n * sizeof *runs);
        d->num_runs += n;
        for (uint32_t i = 0; i < n; i++)
            left -= runs[i].bytes;
    }
}

static struct storm_pair *pair_of(struct storm *s, uint32_t rank, uint32_t peer)
{
    return &s->pairs[rank * s->num_ranks + peer];
}

static void free_slot(struct storm *s, const struct storm_due *d)
{
    if (d->aside)
        return;
    pair_of(s, d->to, d->from)->moving--;
    s->ranks[d->to].moving[shares_node(s, d->to, d->from)]--;
}

/* Operations that were open too long leave their slots to others. */
static void put_aside(struct storm *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->num_due; i++) {
        struct storm_due *d = s->heap[i];
        if (d->kind != DUE_MOVE || d->to != rank || d->aside || shares_node(s, rank, d->from) ||
            s->now - d->issued < s->settings.park_ms * STORM_MS)
            continue;
        free_slot(s, d);
        d->aside = true;
        pair_of(s, rank, d->from)->overdue = true;
    }
}

/* The operation fails, at once or later. Its bytes still move at some time, and nobody tells the core. */
static int64_t go_astray(struct storm_rank *r, struct storm_due *d)
{
    struct storm *s = r->storm;
    uint64_t bytes = d->bytes;
    if (r->has_stray < STORM_STRAYS_MAX)
        r->stray[r->has_stray++] = d->tag;
    struct storm_due *stray = due(s, DUE_STRAY, d->from, d->to, d->tag, 0);
    stray->at = s->now + draw(s, r->rank, d->from, 40 * STORM_MS);
    stray->write = d->write;
    stray->runs = d->runs;
    stray->num_runs = d->num_runs;
    d->runs = NULL;
    d->num_runs = 0;
    push(s, stray);
    if (draw(s, r->rank, d->from, 2) == 0) { /* fails later, as one of several that were begun */
        d->error = BATON_EMPI;
        return (int64_t)bytes;
    }
    d->parked = true; /* the call failed half-way: no completion comes */
    return BATON_EMPI;
}

bool storm_has_room(struct storm *s, uint32_t rank, uint32_t peer)
{
    const struct storm_pair *p = pair_of(s, rank, peer);
    put_aside(s, rank);
    if (shares_node(s, rank, peer))
        return s->ranks[rank].moving[1] < s->slots;
    return s->ranks[rank].moving[0] < s->slots && p->moving < s->peer_slots && !p->overdue;
}

/* Where a generation is read by the move that takes the rest of a leg. 0: that leg's is asked for. */
static uint64_t board_behind(const struct storm *s, const struct path_leg *leg)
{
    const bool can = s->proves && storm_hash(s->seed ^ leg->tag) % 4 != 0;
    return can && plan_at_end(leg->transfer, leg->cursor) ? leg->board : 0;
}

static int64_t port_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct storm_rank *r = self;
    struct storm *s = r->storm;
    const uint32_t peer = member_of(r, leg->peer);
    const bool is_near = shares_node(s, r->rank, peer);
    struct storm_pair *p = pair_of(s, r->rank, peer);
    const struct net *net = beside_net(r->beside);
    if (!storm_has_room(s, r->rank, peer))
        return BATON_EAGAIN;
    if ((!is_near && net->room(net->self, leg->peer) < 0) || draw(s, r->rank, peer, 10) == 0) {
        p->refused_step = r->steps;
        return BATON_EAGAIN;
    }
    storm_check_turn(r, leg, budget);
    storm_note_begin(r, leg->peer);
    struct plan_cursor from = *leg->cursor;
    uint64_t bytes = plan_skip(leg->transfer, leg->cursor, budget < s->slot_bytes ? budget : s->slot_bytes);
    struct storm_due *d = operation(r, DUE_MOVE, peer, leg->tag, 0, bytes, 2 * STORM_MS);
    d->issued = s->now;
    p->moving++;
    r->moving[is_near]++;
    d->write = leg->write;
    take_runs(d, leg->transfer, from);
    d->board = board_behind(s, leg);
    d->captures = leg->write && s->local_puts && !is_near;
    if (draw(s, r->rank, peer, 1000) < s->strays && !is_near)
        return go_astray(r, d);
    return (int64_t)bytes;
}

static int settle_now(void *self, uint32_t rank, uint64_t tag)
{
    struct storm_rank *r = self;
    struct storm *s = r->storm;
    const uint32_t peer = member_of(r, rank);
    uint64_t last = s->now;
    check_asks(r, tag);
    for (uint32_t i = 0; i < s->num_due; i++) /* puts that have not landed yet */
        if (s->heap[i]->kind == DUE_LANDING && s->heap[i]->tag == tag && s->heap[i]->to == r->rank)
            last = s->heap[i]->at > last ? s->heap[i]->at : last;
    struct storm_due *d = due(s, DUE_SETTLE, peer, r->rank, tag, 0);
    d->at = last + draw(s, r->rank, peer, STORM_MS / 5);
    push(s, d);
    return 0;
}

static int port_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct storm_rank *r = self;
    const struct path *far = &beside_net(r->beside)->path;
    return shares_node(r->storm, r->rank, member_of(r, peer)) ? settle_now(r, peer, tag)
                                                              : far->settle(far->self, peer, tag);
}

/* Whether an operation of that tag failed and may still move bytes. */
static bool went_astray(const struct storm_rank *r, uint64_t tag)
{
    for (uint32_t i = 0; i < r->has_stray && i < STORM_STRAYS_MAX; i++)
        if (r->stray[i] == tag)
            return true;
    return false;
}

/* Operations of that tag that are under way touch memory until they complete; no call can stop them. */
static enum path_park port_park(void *self, uint32_t peer, uint64_t tag)
{
    struct storm_rank *r = self;
    struct storm *s = r->storm;
    enum path_park answer = PATH_PARK_QUIET;
    (void)peer;
    for (uint32_t i = 0; i < s->num_due; i++) {
        struct storm_due *d = s->heap[i];
        if (d->tag != tag || d->to != r->rank || d->kind == DUE_MESSAGE || d->kind == DUE_LANDING ||
            d->kind == DUE_STRAY || d->kind == DUE_SUM || d->kind == DUE_ZERO || d->kind == DUE_PLAN ||
            d->kind == DUE_BELL)
            continue;
        d->parked = true;
        if (d->kind == DUE_MOVE || d->kind == DUE_PROOF)
            answer = PATH_PARK_LATER;
    }
    return went_astray(r, tag) ? PATH_PARK_NEVER : answer;
}

static void port_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    struct storm_rank *r = self;
    if (generation <= r->board[slot])
        storm_fail(r->storm, "rank %u: the generation of slot %u goes from %llu to %llu", r->rank, slot,
                   (unsigned long long)r->board[slot], (unsigned long long)generation);
    if (!far && r->board[slot] != 0 && r->board[slot] == r->told[slot])
        storm_fail(r->storm, "rank %u: a lease of slot %u ends like one of which no other node was told", r->rank,
                   slot);
    r->board[slot] = generation;
    r->is_unsynced |= far;
    beside_store(r->beside, far);
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    struct storm_rank *r = self;
    const uint32_t member = member_of(r, peer);
    if (!shares_node(r->storm, r->rank, member) && !r->storm->pidfds)
        return PORT_UNKNOWN;
    return r->storm->ranks[member].fate == STORM_CRASHED ? PORT_DEAD : PORT_ALIVE;
}

bool storm_is_still(const struct storm *s, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < s->num_due; i++) { /* operations between the two, in either direction */
        const struct storm_due *d = s->heap[i];
        bool moves = d->kind == DUE_MOVE || d->kind == DUE_LANDING || d->kind == DUE_STRAY;
        if (moves && ((d->from == a && d->to == b) || (d->from == b && d->to == a)))
            return false;
    }
    return true;
}

/* The transport says so of itself, or since whoever told that the member went has ended what it had with it. */
static bool ended_now(void *self, uint32_t peer)
{
    struct storm_rank *r = self;
    const struct storm *s = r->storm;
    const uint32_t member = member_of(r, peer);
    return (s->death == STORM_DEATH_ERROR || r->view[member].left_ns != 0) && storm_is_still(s, r->rank, member);
}

static bool port_ended(void *self, uint32_t peer)
{
    struct storm_rank *r = self;
    const struct path *far = &beside_net(r->beside)->path;
    return shares_node(r->storm, r->rank, member_of(r, peer)) || far->ended(far->self, peer);
}

/* ---- ranks of other nodes, in turns that are not lent ------------------------------------------------------------ */

static int net_room(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return NET_RUNS;
}

static void net_sync(void *self)
{
    struct storm_rank *r = self;
    memcpy(r->window, r->board, r->storm->settings.leases * sizeof *r->board);
    r->is_unsynced = false;
}

/* Events are told by `deliver`. */
static int net_progress(void *self, struct port_event *events, int max)
{
    const struct storm_rank *r = self;
    (void)events, (void)max;
    return r->hears_far;
}

static bool net_busy(const void *self)
{
    (void)self;
    return false;
}

static void net_fill(struct storm_rank *r)
{
    r->net = (struct net){.self = r, .send = send_now, .sync = net_sync, .room = net_room};
    r->net.path = (struct path){.self = r,
                                .read = read_now,
                                .board = board_now,
                                .settle = settle_now,
                                .park = port_park,
                                .ended = ended_now,
                                .progress = net_progress,
                                .busy = net_busy};
}

void storm_turn(struct storm *s, struct storm_rank *r, bool may_lend)
{
    const struct path *far = &beside_net(r->beside)->path;
    r->is_lent = s->lends && may_lend && storm_hash(s->seed ^ storm_hash(r->rank ^ ++r->turns << 8)) % 2 == 0;
    beside_lend(r->beside, r->is_lent);
    far->progress(far->self, NULL, 0);
}

/* Something that the turn has left is done by the next turn, which comes soon. */
static void end_turn(struct storm *s, struct storm_rank *r)
{
    const struct path *far = &beside_net(r->beside)->path;
    r->is_lent = r->hears_far = false;
    beside_lend(r->beside, false);
    if (r->is_awaited || !far->busy(far->self))
        return;
    struct storm_due *d = due(s, DUE_TURN, r->rank, r->rank, 0, 0);
    d->at = s->now + draw(s, r->rank, r->rank, storm_left_ns(s));
    r->is_awaited = true;
    push(s, d);
}

/* ---- hashes and zeros -------------------------------------------------------------------------------------------- */

/* Stores zeros now; the completion comes later. */
static int port_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct storm_rank *r = self;
    if (draw(r->storm, r->rank, r->rank, 10) == 0)
        return BATON_EAGAIN;
    struct storm_due *d = due(r->storm, DUE_ZERO, r->rank, r->rank, tag, 0);
    d->at = r->storm->now + draw(r->storm, r->rank, r->rank, STORM_MS);
    d->zeroed = transfer;
    push(r->storm, d);
    return 0;
}

static int port_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    struct storm_rank *r = self;
    if (!beside_see(r->beside) || draw(r->storm, r->rank, r->rank, 10) == 0)
        return BATON_EAGAIN;
    copy_sums(transfer, source, (char *[]){(char *)r->pool}, first, count, out);
    struct storm_due *d = due(r->storm, DUE_SUM, r->rank, r->rank, tag, 0);
    d->at = r->storm->now + draw(r->storm, r->rank, r->rank, STORM_MS);
    push(r->storm, d);
    return 0;
}

/* Whether ranks of a node take each other's offers by words: in every other run. */
static bool has_words(const struct storm *s)
{
    return s->seed % 2 == 1;
}

/* In every other run with words, so many ranks speak that a word is heard only after milliseconds, in few of them. */
static const struct storm *speaks_much;
static bool (*told)(void *self, uint32_t *slot);

static bool told_late(void *self, uint32_t *slot)
{
    return speaks_much->now / STORM_MS % 8 == 0 && told(self, slot);
}

static struct handoff words_of(const struct storm *s, const struct storm_rank *r)
{
    return (struct handoff){.area = r->words,
                            .board = (const _Atomic uint64_t *)r->board,
                            .slots = (uint32_t)s->settings.leases,
                            .places = s->num_ranks};
}

void storm_words_join(struct storm *s, struct storm_rank *a, struct storm_rank *b)
{
    const uint32_t rank = a->view[b->rank].rank;
    const struct handoffs_rank near = {.at = words_of(s, b), .place = a->rank, .its = b->rank};
    rings_join(a->owed, rank, &b->bell);
    if (has_words(s) && shares_node(s, a->rank, b->rank))
        handoffs_join(a->handoffs, rank, &near);
}

void storm_words_leave(struct storm *s, struct storm_rank *a, const struct storm_rank *gone)
{
    const uint32_t rank = a->view[gone->rank].rank;
    const struct handoff mine = words_of(s, a);
    handoffs_leave(a->handoffs, rank);
    rings_leave(a->owed, rank);
    handoff_clear(&mine, gone->rank);
}

void storm_words_forget(struct storm *s, const struct storm_rank *r, uint64_t engine)
{
    const struct handoff mine = words_of(s, r);
    handoff_forget(&mine, engine);
}

/* A rank whose neighbours come later has words too. */
static const struct port_handoff *table_of(struct storm *s, struct storm_rank *r)
{
    const struct port_handoff *table = handoffs_port(r->handoffs);
    const uint32_t other = r->view[r->rank].rank == 0 ? 1 : 0;
    if (!s->changes || !has_words(s) || table != NULL)
        return table;
    handoffs_join(r->handoffs, other, &(struct handoffs_rank){.at = words_of(s, r)});
    table = handoffs_port(r->handoffs);
    handoffs_leave(r->handoffs, other);
    return table;
}

void storm_words(struct storm *s, struct storm_rank *r)
{
    r->vicinity = with_whole_vicinity(r->view[r->rank].rank, s->most_ranks);
    if (rings_create(r->vicinity, &r->owed) != 0 || handoffs_create(r->vicinity, r->owed, &r->handoffs) != 0) {
        storm_fail(s, "no memory for the words of rank %u", r->rank);
        return;
    }
    storm_words_join(s, r, r);
}

void storm_words_take(struct storm *s, struct storm_rank *r)
{
    r->port.handoff = table_of(s, r);
    if (r->port.handoff != NULL && s->seed % 4 == 1) {
        r->late_words = *r->port.handoff;
        r->port.handoff = &r->late_words;
        told = r->late_words.told;
        r->late_words.told = told_late;
        speaks_much = s;
    }
}

/* Ranks that were rung wake after a while, and of themselves every 2 ms, since rings are put off. 64 slots of words. */
static void hear_bells(struct storm *s, uint32_t from)
{
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        struct storm_rank *r = &s->ranks[i];
        const bool is_rung = bell_read(&r->bell) != r->rings;
        if (r->wakes || r->fate == STORM_AWAITED || (!is_rung && *(const uint64_t *)(const void *)r->words == 0))
            continue;
        r->rings = bell_read(&r->bell);
        r->wakes = true;
        struct storm_due *d = due(s, DUE_BELL, from, i, 0, 0);
        d->at = s->now + draw(s, from, i, is_rung ? STORM_MS : 2 * STORM_MS);
        push(s, d);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define SEGMENT_BOARD 4096u
#define SEGMENT_ARENA 65536u
#define SEGMENT_CARD 262144u

/* A rank's board, as that reader finds it. */
static const uint64_t *board_of(const struct storm *s, uint32_t rank, uint32_t reader)
{
    return shares_node(s, rank, reader) ? s->ranks[rank].board : s->ranks[rank].window;
}

static void touch_read(struct storm *s, struct storm_due *d)
{
    struct storm_rank *r = &s->ranks[d->from];
    if (d->offset >= SEGMENT_CARD) {
        memcpy(d->data, r->card, d->bytes);
        if (draw(s, d->from, d->to, 1000) < s->bad_cards)
            d->data[draw(s, d->from, d->to, d->bytes)] ^= 1;
    } else {
        memcpy(d->data, r->arena + (d->offset - SEGMENT_ARENA), d->bytes);
    }
}

/* Changes a byte on its way, if checksums are on and must find that. */
static void spoil(struct storm *s, const struct storm_due *d, uint8_t *data, uint64_t bytes)
{
    if (s->settings.checksum && draw(s, d->from, d->to, 1000) < s->spoilt)
        data[draw(s, d->from, d->to, bytes)] ^= 1;
}

static void zeros_land(struct storm *s, const struct storm_due *d)
{
    struct storm_rank *r = &s->ranks[d->to];
    struct plan_cursor at = {0};
    struct plan_run run;
    while (plan_next(d->zeroed, &at, &run, 1, UINT64_MAX) > 0 && !s->failed) {
        storm_check_write(s, r, run.dst);
        memset(r->pool + run.dst, 0, run.bytes);
    }
}

/* Sends the bytes of one run on their way. They land whatever happens to their writer. */
static void fly(struct storm *s, const struct storm_due *d, const struct plan_run *run)
{
    struct storm_due *f = due(s, DUE_LANDING, d->from, d->to, d->tag, run->bytes);
    f->offset = run->dst;
    f->at = s->now + draw(s, d->to, d->from, 2 * STORM_MS);
    memcpy(f->data, s->ranks[d->to].pool + run->src, run->bytes);
    spoil(s, d, f->data, run->bytes);
    push(s, f);
}

static void touch_move(struct storm *s, const struct storm_due *d)
{
    struct storm_rank *src = &s->ranks[d->write ? d->to : d->from], *dst = &s->ranks[d->write ? d->from : d->to];
    for (uint32_t i = 0; i < d->num_runs && !s->failed; i++) {
        const struct plan_run *run = &d->runs[i];
        if (d->captures) {
            fly(s, d, run);
            continue;
        }
        storm_check_write(s, dst, run->dst);
        memcpy(dst->pool + run->dst, src->pool + run->src, run->bytes);
        spoil(s, d, dst->pool + run->dst, run->bytes);
    }
}

static void touch(struct storm *s, struct storm_due *d)
{
    bool gone = s->ranks[d->from].fate == STORM_CRASHED && !shares_node(s, d->from, d->to);
    if (s->ranks[d->to].fate == STORM_CRASHED && shares_node(s, d->from, d->to))
        return; /* its threads are gone too; what a network has taken over still happens */
    if (gone && s->death == STORM_DEATH_LIES && !s->ranks[d->from].lied)
        s->ranks[d->from].lied = true; /* it says success, but no byte moves, and a read gives 0 */
    else if (gone)
        d->error = BATON_EPEER;
    else if (d->kind == DUE_READ)
        touch_read(s, d);
    else if (d->kind == DUE_BOARD || d->kind == DUE_PROOF)
        d->generation = board_of(s, d->from, d->to)[(d->offset - SEGMENT_BOARD) / 8];
    else
        touch_move(s, d);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

/* A move of the same leg that is under way. */
static struct storm_due *other_move(const struct storm *s, const struct storm_due *d)
{
    for (uint32_t i = 0; i < s->num_due; i++) {
        struct storm_due *o = s->heap[i];
        if (o->kind == DUE_MOVE && o->tag == d->tag && o->to == d->to)
            return o;
    }
    return NULL;
}

/*
 * Takes the envelope off as a path does: who speaks stands in it. Nothing comes from who is not known yet, or was said
 * to have gone.
 */
static bool opens(struct storm *s, const struct storm_due *d, uint32_t *from)
{
    const uint32_t bytes = (uint32_t)d->bytes;
    const char *why;
    struct envelope_route route;
    if (!envelope_read_route(d->data, bytes, &route) || route.to != d->to || route.from >= s->num_ranks)
        return false;
    const struct storm_view *view = &s->ranks[d->to].view[route.from];
    *from = view->rank;
    return envelope_open(&pair_of(s, d->to, route.from)->counts, d->data, bytes, &why) == ENVELOPE_MESSAGE &&
           view->rank != DIRECTORY_NONE && view->left_ns == 0;
}

static bool event_of(struct storm *s, const struct storm_due *d, struct port_event *e)
{
    *e = (struct port_event){.peer = s->ranks[d->to].view[d->from].rank,
                             .tag = d->tag,
                             .data = d->data,
                             .bytes = (uint32_t)d->bytes,
                             .error = d->error};
    switch (d->kind) {
    case DUE_MESSAGE:
        e->kind = PORT_MESSAGE;
        e->data = d->data + ENVELOPE_BYTES;
        e->bytes = (uint32_t)(d->bytes - ENVELOPE_BYTES);
        return opens(s, d, &e->peer);
    case DUE_READ:
        e->kind = PORT_READ;
        return !d->parked;
    case DUE_BOARD:
        e->kind = PORT_BOARD;
        e->generation = d->error != 0 ? 0 : d->generation;
        return !d->parked;
    case DUE_SETTLE:
        e->kind = PORT_SETTLED;
        return !d->parked;
    case DUE_MOVE:
    case DUE_PROOF:
        e->kind = d->parked ? PORT_QUIET : PORT_MOVED;
        e->moved = d->bytes;
        e->generation = d->error != 0 ? 0 : d->generation;
        e->runs = 1;
        if (d->parked)
            e->error = 0;
        return !d->parked || (other_move(s, d) == NULL && !went_astray(&s->ranks[d->to], d->tag));
    case DUE_ZERO:
        zeros_land(s, d);
        e->kind = PORT_WORKED;
        return true;
    case DUE_SUM:
        e->kind = PORT_WORKED;
        return true;
    case DUE_LANDING:
    case DUE_STRAY:
    case DUE_PLAN:
    case DUE_BELL:
    case DUE_TURN:
    case DUE_JOINED:
    case DUE_LEFT:
        break;
    }
    return false;
}

void storm_collect(struct storm *s, struct storm_rank *r)
{
    struct outcome *out;
    while (!beside_owes(r->beside) && (out = core_take(r->core)) != NULL) {
        if (r->is_unsynced)
            storm_fail(s, "rank %u: an event is told before other nodes know of a lease's end", r->rank);
        storm_on_event(s, r, &out->event);
        outcome_free(out);
    }
    end_turn(s, r);
    storm_check_done(s);
    rings_ring(r->owed, RINGS_LATER);
    hear_bells(s, r->rank);
    storm_check_limits(s, r);
    storm_check_losses(s, r);
    if (s->changes)
        storm_forget(s, r);
}

static bool is_stopped(const struct storm *s, uint32_t rank)
{
    return s->ranks[rank].fate == STORM_STOPPED;
}

/* An operation on a rank that has ended on another node, of which nothing is heard until its end is. */
static bool is_unanswered(const struct storm *s, const struct storm_due *d)
{
    return d->kind != DUE_MESSAGE && d->kind != DUE_JOINED && d->kind != DUE_LEFT && s->death == STORM_DEATH_SILENT &&
           s->ranks[d->from].fate == STORM_CRASHED && !shares_node(s, d->from, d->to) &&
           s->ranks[d->to].view[d->from].left_ns == 0;
}

/* Whether this has to wait: for the rank that gets the event, or for one that must take part. */
static bool waits(const struct storm *s, const struct storm_due *d)
{
    if (d->kind == DUE_PLAN || d->kind == DUE_LANDING || d->kind == DUE_STRAY)
        return false;
    if (is_stopped(s, d->to) && d->touched)
        return true; /* a stopped rank takes no events; its memory may be touched meanwhile */
    if (s->changes && is_unanswered(s, d) && s->ranks[d->to].fate != STORM_CRASHED)
        return true; /* until it is heard that the member went */
    return d->kind != DUE_MESSAGE && d->kind != DUE_JOINED && d->kind != DUE_LEFT && is_stopped(s, d->from) &&
           !s->passive && !shares_node(s, d->from, d->to);
}

/* Operations on a rank that is gone never complete, or fail, or one of them says success. */
static bool is_never_told(const struct storm *s, const struct storm_due *d)
{
    if (d->kind == DUE_PLAN)
        return false;
    return s->ranks[d->to].fate == STORM_CRASHED || is_unanswered(s, d);
}

/* When the first came of what lies unread at that rank; UINT64_MAX: nothing does. */
static uint64_t unread_ns(const struct storm *s, uint32_t rank)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < s->num_due; i++) {
        const struct storm_due *d = s->heap[i];
        bool is_event = d->kind != DUE_PLAN && d->kind != DUE_BELL && d->kind != DUE_TURN && d->kind != DUE_LANDING &&
                        d->kind != DUE_STRAY;
        uint64_t came = d->came != 0 ? d->came : d->at;
        if (d->to == rank && is_event && d->touched && came <= s->now && came < first && !waits(s, d) &&
            !is_never_told(s, d))
            first = came;
    }
    return first;
}

/* All that had come to that rank by then was handed to it. It never goes back. */
static uint64_t heard_ns(struct storm *s, uint32_t rank)
{
    uint64_t first = unread_ns(s, rank), heard = first <= s->now ? first - 1 : s->now;
    if (heard > s->ranks[rank].heard_ns)
        s->ranks[rank].heard_ns = heard;
    return s->ranks[rank].heard_ns;
}

bool storm_has_unread(const struct storm *s, uint32_t rank, uint64_t until)
{
    return unread_ns(s, rank) <= until;
}

/* A turn that is lent has heard nothing new of other nodes. */
void storm_step(struct storm *s, struct storm_rank *r, const struct port_event *e, int n, bool may_lend)
{
    r->steps++;
    storm_turn(s, r, may_lend);
    core_step(r->core, s->now, r->is_lent ? r->heard_ns : heard_ns(s, r->rank), e, n);
    storm_check_idle(r);
    storm_collect(s, r);
}

/* A move completes: its slot is free, and its peer has shown that it answers. */
static void come(struct storm *s, const struct storm_due *d)
{
    free_slot(s, d);
    pair_of(s, d->to, d->from)->overdue = false;
}

/* Reads the generation behind the last move of a leg that completes. False: there is none to be read, or not yet. */
static bool prove(struct storm *s, struct storm_due *d)
{
    struct storm_due *other = other_move(s, d);
    if (d->board == 0 || d->parked || d->error != 0)
        return false;
    if (other != NULL) {
        other->board = d->board;
        return false;
    }
    d->kind = DUE_PROOF;
    d->offset = d->board;
    d->touched = false;
    d->came = 0;
    d->touch = s->now + draw(s, d->to, d->from, STORM_MS / 5);
    d->at = d->touch + draw(s, d->to, d->from, STORM_MS / 5);
    push(s, d);
    return true;
}

/* ---- answers at once --------------------------------------------------------------------------------------------- */

/* Whether paths within a node answer at once, as copies by the reactor do: in every other run. */
static bool answers_at_once(const struct storm *s)
{
    return s->seed / 4 % 2 == 1;
}

/* Takes the only operation of that tag out of the heap, of several none. NULL: there is none, or it waits for more. */
static struct storm_due *take_only(struct storm *s, uint32_t rank, uint64_t tag)
{
    uint32_t at = UINT32_MAX;
    for (uint32_t i = 0; i < s->num_due; i++) {
        const struct storm_due *d = s->heap[i];
        if (d->tag != tag || d->to != rank || d->kind == DUE_MESSAGE || d->kind == DUE_PLAN || d->kind == DUE_BELL)
            continue;
        if (at != UINT32_MAX || d->parked || d->touched != (d->kind == DUE_SETTLE))
            return NULL;
        at = i;
    }
    if (at == UINT32_MAX)
        return NULL;
    struct storm_due *d = s->heap[at];
    s->heap[at] = s->heap[--s->num_due];
    for (uint32_t i = s->num_due / 2; i-- > 0;)
        sift_down(s, i);
    return d;
}

static bool port_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    struct storm_rank *r = self;
    struct storm *s = r->storm;
    if (!answers_at_once(s) || !shares_node(s, r->rank, member_of(r, peer)) ||
        storm_hash(s->seed ^ tag * 31 ^ r->steps) % 4 == 0)
        return false;
    struct storm_due *d = take_only(s, r->rank, tag);
    if (d == NULL)
        return false;
    d->touched = true;
    touch(s, d);
    if (d->kind == DUE_MOVE) {
        come(s, d);
        if (d->board != 0 && d->error == 0)
            d->generation = s->ranks[d->from].board[(d->board - SEGMENT_BOARD) / 8];
        storm_note_come(r, peer, d->tag);
    }
    const bool is_told = event_of(s, d, event);
    if (is_told)
        storm_cover(r, event);
    if (r->answered != NULL)
        due_free(r->answered);
    r->answered = d; /* its data stay until the next one */
    return is_told;
}

void storm_port(struct storm_rank *r)
{
    r->port = (struct port){.path = {.self = r,
                                     .read = port_read,
                                     .board = port_board,
                                     .move = port_move,
                                     .settle = port_settle,
                                     .answer = port_answer,
                                     .park = port_park,
                                     .ended = port_ended},
                            .self = r,
                            .send = port_send,
                            .raise = port_raise,
                            .alive = port_alive,
                            .sum = port_sum,
                            .zero = port_zero};
    net_fill(r);
}

static void deliver(struct storm *s)
{
    struct storm_due *d = pop(s);
    uint64_t at = next_of(d);
    s->now = at > s->now ? at : s->now;
    if (waits(s, d)) { /* ranks resume on this grid too, so all that waits keeps its order */
        uint64_t later = (s->now / STORM_GRID + 1) * STORM_GRID;
        if (d->touched && d->came == 0 && is_stopped(s, d->to))
            d->came = s->now;
        d->touch = d->touched ? d->touch : later;
        d->at = d->at > later ? d->at : later;
        push(s, d);
        return;
    }
    if (!d->touched) {
        d->touched = true;
        touch(s, d);
        d->at = d->at > s->now ? d->at : s->now;
        push(s, d);
        return;
    }
    if (d->kind == DUE_MESSAGE)
        s->pairs[d->from * s->num_ranks + d->to].under_way--;
    struct port_event e;
    if (d->kind == DUE_PLAN) {
        storm_act(s, &d->plan);
    } else if (d->kind == DUE_JOINED && s->ranks[d->to].fate == STORM_RUNS) {
        if (!storm_on_joined(s, &s->ranks[d->to], d->from)) {
            d->at = s->now + draw(s, d->from, d->to, STORM_MS);
            d->came = 0;
            push(s, d);
            return;
        }
    } else if (d->kind == DUE_LEFT && s->ranks[d->to].fate == STORM_RUNS) {
        storm_on_left(s, &s->ranks[d->to], d->from);
    } else if (d->kind == DUE_BELL) {
        s->ranks[d->to].wakes = false;
        if (s->ranks[d->to].fate != STORM_CRASHED)
            storm_step(s, &s->ranks[d->to], NULL, 0, true);
    } else if (d->kind == DUE_TURN) {
        s->ranks[d->to].is_awaited = false;
        if (s->ranks[d->to].fate != STORM_CRASHED)
            storm_step(s, &s->ranks[d->to], NULL, 0, false);
    } else if (d->kind == DUE_LANDING) {
        storm_check_write(s, &s->ranks[d->from], d->offset);
        memcpy(s->ranks[d->from].pool + d->offset, d->data, d->bytes);
    } else if (d->kind == DUE_STRAY) {
        if (s->ranks[d->from].fate != STORM_CRASHED && s->ranks[d->to].fate != STORM_CRASHED)
            touch_move(s, d);
    } else if (!is_never_told(s, d)) {
        if (d->kind == DUE_MOVE) {
            come(s, d);
            if (prove(s, d))
                return;
        }
        if (d->kind == DUE_MOVE || d->kind == DUE_PROOF)
            storm_note_come(&s->ranks[d->to], s->ranks[d->to].view[d->from].rank, d->tag);
        if (event_of(s, d, &e)) {
            const bool is_near = shares_node(s, d->to, d->from);
            storm_cover(&s->ranks[d->to], &e);
            s->ranks[d->to].hears_far = !is_near;
            storm_step(s, &s->ranks[d->to], &e, 1, is_near);
        }
    }
    due_free(d);
}

static struct storm_rank *next_timer(struct storm *s, uint64_t *at)
{
    struct storm_rank *who = NULL;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        if (s->ranks[i].fate != STORM_RUNS)
            continue;
        uint64_t t = core_next_ns(s->ranks[i].core);
        if (t <= s->now && t > heard_ns(s, i))
            t = UINT64_MAX;                 /* what has come is handed over before */
        if (core_is_busy(s->ranks[i].core)) /* the reactor polls */
            t = t < s->now + STORM_MS / 4 ? t : s->now + STORM_MS / 4;
        if (t < *at) {
            *at = t;
            who = &s->ranks[i];
        }
    }
    return who;
}

void storm_run(struct storm *s, uint64_t until)
{
    while (!s->failed) {
        uint64_t at = s->num_due > 0 ? next_of(s->heap[0]) : UINT64_MAX;
        struct storm_rank *who = next_timer(s, &at);
        if (at > until)
            break;
        if (who == NULL) {
            deliver(s);
            continue;
        }
        s->now = at > s->now ? at : s->now;
        storm_step(s, who, NULL, 0, false);
    }
    if (!s->failed)
        s->now = until > s->now ? until : s->now;
}
