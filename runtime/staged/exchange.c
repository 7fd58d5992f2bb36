/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange: bytes of one slot on their way from one cache to another.
 *
 *   PULL   tell ASK, await HERE, read, board, copy into my cache, tell FREE
 *   SERVE  wait for a slot, copy out of my cache, tell HERE
 *   PUSH   copy out of my cache, tell PUT, await LANDED
 *   TAKE   read, board, copy into my cache, tell LANDED
 */
#include "staged/staged_inside.h"

#include "base/error.h"

/* How many there are with its peer that the same side began. */
static uint32_t *count_of_kind(struct staged *s, const struct exchange *x)
{
    return exchange_is_mine(x) ? &s->peers[x->peer].begun : &s->peers[x->peer].served;
}

struct exchange *exchange_add(struct staged *s, enum exchange_kind kind, uint32_t peer)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->id = ++s->last_id;
    x->kind = kind;
    x->peer = peer;
    bool is_mine = exchange_is_mine(x);
    x->moved = is_mine ? calloc(1, sizeof *x->moved) : NULL;
    x->quiet = is_mine ? calloc(1, sizeof *x->quiet) : NULL;
    if (!is_mine || (x->moved != NULL && x->quiet != NULL))
        HASH_ADD(hh, s->by_id, id, sizeof x->id, x);
    if (x->hh.tbl == NULL) {
        free(x->moved);
        free(x->quiet);
        free(x);
        return NULL;
    }
    DL_APPEND(s->exchanges, x);
    ++*count_of_kind(s, x);
    return x;
}

/*
 * Gives back the landing, which the driver does not copy out of. What is still read of the peer's slot comes nowhere:
 * it is copied into a landing only when its event comes, and a parked operation has none.
 */
static void leave_landing(struct staged *s, struct exchange *x)
{
    const struct path *p = staged_segment(s, x->peer);
    if (x->state == X_READING || x->state == X_BOARDING)
        p->park(p->self, x->peer, STAGED_TAGS | x->id);
    if (x->landing == NULL)
        return;
    landing_give_back(s, x->landing);
    x->landing = NULL;
    s->peers[x->peer].landed--;
}

void exchange_remove(struct staged *s, struct exchange *x)
{
    --*count_of_kind(s, x);
    bool has_slot = x->slot != NULL && x->slot->state == SLOT_USED && x->slot->generation == x->held;
    if (has_slot) /* else it was lent, and may be another's by now */
        slot_give_back(x->slot);
    leave_landing(s, x);
    HASH_DEL(s->by_id, x);
    DL_DELETE(s->exchanges, x);
    free(x->moved);
    free(x->quiet);
    free(x);
}

static struct exchange *find(struct staged *s, uint64_t id)
{
    struct exchange *x;
    HASH_FIND(hh, s->by_id, &id, sizeof id, x);
    return x;
}

/* Whether bytes may still come into my cache, or a peer's, by it. */
static bool is_under_way(const struct exchange *x)
{
    if (x->kind == EXCHANGE_PUSH) /* copied out of my blocks, or on its way into the peer's */
        return x->state == X_COPYING || x->state == X_AWAIT;
    return x->state == X_COPYING;
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* The last one of a tag that was given up while it was under way tells so. */
static void tell_quiet(struct staged *s, struct exchange *x)
{
    const struct exchange *other;
    if (!x->owes_quiet)
        return;
    x->owes_quiet = false;
    DL_FOREACH(s->exchanges, other)
    {
        if (other->owes_quiet && other->tag == x->tag)
            return;
    }
    staged_tell(s, &x->quiet, (struct port_event){.kind = PORT_QUIET, .tag = x->tag});
}

/* An exchange that I began is over: with all bytes in place, or with x->error. */
static void tell_moved(struct staged *s, struct exchange *x)
{
    if (x->moved != NULL && !x->is_given_up)
        staged_tell(
            s, &x->moved,
            (struct port_event){
                .kind = PORT_MOVED, .tag = x->tag, .path = BATON_PATH_STAGED, .moved = x->bytes, .error = x->error});
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* A full slot is the peer's from now on, also if the note about it finds no room yet. */
static void leave_slot(struct exchange *x)
{
    if (x->slot == NULL)
        return;
    if (x->error == 0 && !x->is_given_up) {
        slot_lend(x->slot, x->peer);
    } else {
        slot_give_back(x->slot);
        x->slot = NULL;
    }
}

/* Goes on after bytes were copied, or were not. */
static void after_copy(struct staged *s, struct exchange *x)
{
    leave_landing(s, x);
    leave_slot(x);
    x->state = X_TELL;
    if (x->kind == EXCHANGE_PULL)
        tell_moved(s, x);
    if (x->kind == EXCHANGE_PUSH && (x->error != 0 || x->is_given_up)) {
        tell_moved(s, x);
        x->state = X_ENDED;
    }
    tell_quiet(s, x);
}

static bool step_slot(struct staged *s, struct exchange *x)
{
    x->slot = slot_take(s);
    if (x->slot == NULL)
        return false;
    x->held = x->slot->generation;
    x->state = X_COPY;
    return true;
}

static bool step_copy(struct staged *s, struct exchange *x)
{
    bool to_cache = x->kind == EXCHANGE_PULL || x->kind == EXCHANGE_TAKE;
    uint8_t *host = to_cache ? x->landing : slot_bytes(s, x->slot);
    int rc = staged_copy(s, x->mine, x->num_runs, host, to_cache, x->id);
    if (rc == BATON_EAGAIN)
        return false;
    if (rc == BATON_EBUSY) {
        x->state = X_COPYING;
        return true;
    }
    x->error = rc;
    after_copy(s, x);
    return true;
}

static void note_of(const struct staged *s, const struct exchange *x, struct note *n)
{
    static const enum note_type types[] = {
        [EXCHANGE_SERVE] = NOTE_HERE, [EXCHANGE_PUSH] = NOTE_PUT, [EXCHANGE_TAKE] = NOTE_LANDED};
    bool is_asked = x->kind == EXCHANGE_PULL && x->generation == 0;
    *n = (struct note){.type = x->kind != EXCHANGE_PULL ? types[x->kind]
                               : is_asked               ? NOTE_ASK
                                                        : NOTE_FREE,
                       .id = exchange_is_mine(x) ? x->id : x->peer_id,
                       .error = exchange_is_mine(x) ? 0 : x->error};
    if (x->slot != NULL) {
        n->slot = slot_offset(s, x->slot);
        n->word = slot_word_offset(s, x->slot);
        n->generation = x->held; /* not what it is by now: then its bytes are another's */
    }
    if (n->type == NOTE_FREE)
        n->generation = x->generation;
    if (n->type == NOTE_ASK || n->type == NOTE_PUT) {
        n->num_runs = x->num_runs;
        memcpy(n->run, x->theirs, x->num_runs * sizeof n->run[0]);
    }
}

static bool step_tell(struct staged *s, struct exchange *x)
{
    struct note n;
    uint8_t message[WIRE_MESSAGE_MAX];
    note_of(s, x, &n);
    if (x->slot != NULL)
        s->wish.ground.sync(s->wish.ground.arg); /* the bytes that it names, and then the note */
    int rc = s->peers[x->peer].has_ended
                 ? BATON_EPEER
                 : s->wish.ground.send(s->wish.ground.arg, x->peer, message, note_encode(&n, message));
    s->peers[x->peer].is_full = rc == BATON_EAGAIN;
    if (rc == BATON_EAGAIN)
        return false;
    if (rc != 0)
        slot_return(s, x->peer, x->held);
    bool is_answered = n.type == NOTE_ASK || n.type == NOTE_PUT;
    x->state = is_answered && rc == 0 ? X_AWAIT : X_ENDED;
    if (is_answered && rc != 0) {
        x->error = rc;
        tell_moved(s, x);
    }
    return true;
}

/* After the path to the peer's segment was asked. False: it has no room now. */
static bool after_asking(struct staged *s, struct exchange *x, int rc, enum exchange_state state)
{
    if (rc == BATON_EAGAIN)
        return false;
    x->state = state;
    x->error = rc;
    if (rc != 0)
        after_copy(s, x);
    return true;
}

static bool step_read(struct staged *s, struct exchange *x)
{
    const struct path *p = staged_segment(s, x->peer);
    if (x->landing == NULL) {
        x->landing = landing_take(s, s->peers[x->peer].landed);
        if (x->landing == NULL)
            return false;
        x->since_ns = clock_now_ns();
        s->peers[x->peer].landed++;
    }
    int rc = p->read(p->self, x->peer, x->at, (uint32_t)x->bytes, STAGED_TAGS | x->id);
    return after_asking(s, x, rc, X_READING);
}

static bool step_board(struct staged *s, struct exchange *x)
{
    const struct path *p = staged_segment(s, x->peer);
    return after_asking(s, x, p->board(p->self, x->peer, x->word, STAGED_TAGS | x->id), X_BOARDING);
}

static bool step(struct staged *s, struct exchange *x)
{
    switch (x->state) {
    case X_SLOT:
        return step_slot(s, x);
    case X_COPY:
        return step_copy(s, x);
    case X_TELL:
        return step_tell(s, x);
    case X_READ:
        return step_read(s, x);
    case X_BOARD:
        return step_board(s, x);
    default:
        return false;
    }
}

static bool is_reading(const struct exchange *x)
{
    return x->state == X_READ || x->state == X_READING || x->state == X_BOARD || x->state == X_BOARDING;
}

/* A source that put and does not let me read: it may have taken its slot back by now, and others need the landing. */
static bool is_overdue(const struct staged *s, const struct exchange *x)
{
    return x->kind == EXCHANGE_TAKE && is_reading(x) && x->landing != NULL &&
           clock_now_ns() - x->since_ns > s->wish.lent_ms * CLOCK_NS_PER_MS;
}

void exchanges_step(struct staged *s)
{
    struct exchange *x, *next;
    DL_FOREACH_SAFE(s->exchanges, x, next)
    {
        if (is_overdue(s, x)) {
            x->error = BATON_EPEER;
            after_copy(s, x);
        }
        while (step(s, x))
            continue;
        if (x->state == X_ENDED)
            exchange_remove(s, x);
    }
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

/* Not told to the peer, and nothing is under way of it: it needs no end. */
static bool is_untold(const struct exchange *x)
{
    return x->kind == EXCHANGE_PUSH ? x->state == X_COPY || x->state == X_TELL
                                    : x->state == X_TELL && x->generation == 0;
}

bool exchange_give_up(struct staged *s, struct exchange *x)
{
    bool waits = is_under_way(x);
    x->is_given_up = true;
    x->owes_quiet = waits;
    if (is_untold(x)) {
        slot_return(s, x->peer, x->held);
        exchange_remove(s, x);
    } else if (is_reading(x) || x->state == X_COPY) { /* nothing of it may come into my blocks any more */
        leave_landing(s, x);
        x->state = X_TELL; /* FREE */
    }
    return waits;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* Runs of mine that a peer named. 0 or BATON_EMESSAGE. */
static int take_runs(const struct staged *s, const struct note *n, struct exchange *x)
{
    for (uint32_t i = 0; i < n->num_runs; i++) {
        const struct note_run *r = &n->run[i];
        x->bytes += r->bytes;
        bool is_good = r->bytes > 0 && path_holds(s->wish.mine, r->region, r->offset, r->bytes);
        if (!is_good || x->bytes > STAGED_SLOT_BYTES)
            return BATON_EMESSAGE;
        x->mine[i] = *r;
    }
    x->num_runs = n->num_runs;
    return 0;
}

static void take_place(struct exchange *x, const struct note *n)
{
    x->at = n->slot;
    x->word = n->word;
    x->generation = n->generation;
    x->state = X_READ;
}

/* Tells the peer that I am at my limit. Where that finds no room either, its own deadline ends what it waits for. */
static void refuse(struct staged *s, uint32_t peer, const struct note *n)
{
    uint8_t message[WIRE_MESSAGE_MAX];
    enum note_type type = n->type == NOTE_PUT ? NOTE_LANDED : NOTE_HERE;
    const struct note no = {.type = type, .id = n->id, .error = BATON_EBUSY};
    int rc = s->wish.ground.send(s->wish.ground.arg, peer, message, note_encode(&no, message));
    log_each(s->wish.log, LOG_WARN, "rank %u stages more than it may, or there is no memory: it gets %s", peer,
             rc == 0 ? "a refusal" : "no answer");
}

static void on_request(struct staged *s, uint32_t peer, const struct note *n)
{
    bool puts = n->type == NOTE_PUT;
    struct exchange *x = NULL;
    if (s->peers[peer].served < STAGED_BY_PEER)
        x = exchange_add(s, puts ? EXCHANGE_TAKE : EXCHANGE_SERVE, peer);
    if (x == NULL) {
        refuse(s, peer, n);
        return;
    }
    x->peer_id = n->id;
    x->error = take_runs(s, n, x);
    if (x->error == 0 && puts && !s->wish.is_writable)
        x->error = BATON_EINVAL;
    if (puts)
        take_place(x, n);
    x->state = x->error != 0 ? X_TELL : puts ? X_READ : X_SLOT;
}

static void on_here(struct staged *s, struct exchange *x, const struct note *n)
{
    if (n->error != 0) {
        x->error = n->error;
        tell_moved(s, x);
        x->state = X_ENDED;
        return;
    }
    take_place(x, n);
    if (n->generation == 0)
        x->generation = UINT64_MAX; /* which no word has: it is refused after the read */
    if (x->is_given_up)
        x->state = X_TELL; /* FREE */
}

static void on_landed(struct staged *s, struct exchange *x, const struct note *n)
{
    x->error = n->error;
    x->state = X_ENDED;
    slot_return(s, x->peer, x->held);
    tell_moved(s, x);
    tell_quiet(s, x);
}

void exchange_note(struct staged *s, uint32_t peer, const struct note *n)
{
    struct exchange *x = find(s, n->id);
    bool is_awaited = x != NULL && x->peer == peer && x->state == X_AWAIT;
    if (n->type == NOTE_ASK || n->type == NOTE_PUT)
        on_request(s, peer, n);
    else if (n->type == NOTE_FREE)
        slot_return(s, peer, n->generation);
    else if (n->type == NOTE_HERE && is_awaited && x->kind == EXCHANGE_PULL)
        on_here(s, x, n);
    else if (n->type == NOTE_LANDED && is_awaited && x->kind == EXCHANGE_PUSH)
        on_landed(s, x, n);
}

void exchange_answer(struct staged *s, const struct port_event *e)
{
    struct exchange *x = find(s, e->tag & ~STAGED_TAGS);
    if (x == NULL)
        return;
    bool was_asked =
        (e->kind == PORT_READ && x->state == X_READING) || (e->kind == PORT_BOARD && x->state == X_BOARDING);
    if (!was_asked)
        return;
    x->state = e->kind == PORT_READ ? X_BOARD : X_COPY;
    x->error = e->error;
    if (e->error == 0 && e->kind == PORT_READ)
        memcpy(x->landing, e->data, x->bytes);
    else if (e->error == 0 && e->generation != x->generation)
        x->error = BATON_ESTALE;
    if (x->error != 0)
        after_copy(s, x);
}

bool exchange_copied(struct staged *s, uint64_t id, int error)
{
    struct exchange *x = find(s, id);
    if (x == NULL || x->state != X_COPYING)
        return false;
    x->error = error;
    after_copy(s, x);
    return true;
}
