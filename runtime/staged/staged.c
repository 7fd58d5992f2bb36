/* SPDX-License-Identifier: BSD-3-Clause */
/* staged: see staged.h. Exchanges do the work (exchange.c); this hands out what became of them. */
#include "staged/staged_inside.h"

#include <inttypes.h>
#include <time.h>

#include "base/error.h"

#define CLOSE_NS (5 * CLOCK_NS_PER_S) /* how long closing waits for the driver */
#define TAGS_A_POLL 64
#define ROUNDS_A_TURN 16 /* with a quick driver; what is left keeps the path busy */

void staged_tell(struct staged *s, struct answer **owed, struct port_event event)
{
    struct answer *a = *owed;
    *owed = NULL;
    a->event = event;
    DL_APPEND(s->answers, a);
}

/* The first event to be handed out. */
static struct port_event take_answer(struct staged *s)
{
    struct answer *a = s->answers;
    struct port_event event = a->event;
    DL_DELETE(s->answers, a);
    free(a);
    return event;
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */

static uint8_t *place_of(const struct staged *s, const struct note_run *run)
{
    return (uint8_t *)(uintptr_t)s->wish.mine->region[run->region].at + run->offset;
}

/* What lies in regions that threads may touch. */
static void copy_by_hand(const struct staged *s, const struct note_run *runs, uint32_t num, uint8_t *host,
                         bool to_cache)
{
    for (uint32_t i = 0; i < num; host += runs[i++].bytes) {
        uint8_t *cache = place_of(s, &runs[i]);
        if (!s->wish.mine->region[runs[i].region].is_device)
            memcpy(to_cache ? cache : host, to_cache ? host : cache, runs[i].bytes);
    }
}

/* Turns a driver's error into one that means nothing else here or at a peer. */
static int error_of(const struct staged *s, int rc)
{
    if (rc != 0)
        log_line(s->wish.log, LOG_ERROR, "the driver \"%s\" could not copy: its error %d", s->wish.driver->name, rc);
    return rc > 0 || rc == BATON_EAGAIN || rc == BATON_EBUSY ? BATON_ESYSTEM : rc;
}

int staged_copy(struct staged *s, const struct note_run *runs, uint32_t num, uint8_t *host, bool to_cache, uint64_t id)
{
    const baton_driver_t *d = s->wish.driver;
    baton_piece_t pieces[NOTE_RUNS];
    uint32_t n = 0;
    uint8_t *at = host;
    for (uint32_t i = 0; i < num; at += runs[i++].bytes)
        if (s->wish.mine->region[runs[i].region].is_device)
            pieces[n++] = (baton_piece_t){place_of(s, &runs[i]), at, runs[i].bytes};
    int rc = n > 0 ? d->copy(d->self, pieces, n, to_cache, id) : 0;
    if (rc != 0)
        return rc == BATON_EAGAIN ? rc : error_of(s, rc);
    copy_by_hand(s, runs, num, host, to_cache);
    s->copying += n > 0;
    return n > 0 ? BATON_EBUSY : 0;
}

static bool poll_driver(struct staged *s)
{
    const baton_driver_t *d = s->wish.driver;
    uint64_t tags[TAGS_A_POLL];
    int errors[TAGS_A_POLL];
    int n = d != NULL && s->copying > 0 ? d->poll(d->self, tags, errors, TAGS_A_POLL) : 0;
    look_take(&s->look_copies, n > 0 ? (uint64_t)n : 0, n <= 0);
    for (int i = 0; i < n; i++) {
        int error = error_of(s, errors[i]);
        if (chore_copied(s, tags[i], error) || exchange_copied(s, tags[i], error))
            s->copying -= s->copying > 0;
        else
            log_line(s->wish.log, LOG_ERROR, "the driver \"%s\" ended a copy that it does not have: tag %" PRIu64,
                     d->name, tags[i]);
    }
    return n > 0;
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

static int staged_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    const struct path *p = staged_segment(self, peer);
    return p->read(p->self, peer, offset, bytes, tag);
}

static int staged_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    const struct path *p = staged_segment(self, peer);
    return p->board(p->self, peer, offset, tag);
}

/* The next runs of a leg, as many as fit into a slot and a note. *cursor moves behind them. */
static void take_runs(const struct path_leg *leg, uint64_t budget, struct plan_cursor *cursor, struct exchange *x)
{
    struct plan_run runs[NOTE_RUNS];
    uint64_t most = budget < STAGED_SLOT_BYTES ? budget : STAGED_SLOT_BYTES;
    x->num_runs = plan_next(leg->transfer, cursor, runs, NOTE_RUNS, most);
    for (uint32_t i = 0; i < x->num_runs; i++) {
        const struct note_run src = {runs[i].src_region, (uint32_t)runs[i].bytes, runs[i].src},
                              dst = {runs[i].dst_region, (uint32_t)runs[i].bytes, runs[i].dst};
        x->mine[i] = leg->write ? src : dst;
        x->theirs[i] = leg->write ? dst : src;
        x->bytes += runs[i].bytes;
    }
}

static int64_t staged_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct staged *s = self;
    struct plan_cursor cursor = *leg->cursor;
    if (s->peers[leg->peer].begun >= STAGED_OF_PEER)
        return BATON_EAGAIN;
    struct slot *slot = leg->write ? slot_take(s) : NULL;
    if (leg->write && slot == NULL)
        return BATON_EAGAIN;
    struct exchange *x = exchange_add(s, leg->write ? EXCHANGE_PUSH : EXCHANGE_PULL, leg->peer);
    if (x == NULL) {
        if (slot != NULL)
            slot_give_back(slot);
        return BATON_EAGAIN;
    }
    x->slot = slot;
    x->held = slot != NULL ? slot->generation : 0;
    x->tag = leg->tag;
    x->state = leg->write ? X_COPY : X_TELL;
    take_runs(leg, budget, &cursor, x);
    if (x->num_runs == 0) {
        exchange_remove(s, x);
        return 0;
    }
    *leg->cursor = cursor;
    return (int64_t)x->bytes;
}

/* A push has landed before its PORT_MOVED comes. */
static int staged_settle(void *self, uint32_t peer, uint64_t tag)
{
    (void)peer;
    struct answer *a = calloc(1, sizeof *a);
    if (a == NULL)
        return BATON_EAGAIN;
    staged_tell(self, &a, (struct port_event){.kind = PORT_SETTLED, .tag = tag});
    return 0;
}

bool staged_give_up(struct staged *s, uint64_t tag)
{
    struct exchange *x, *next;
    struct answer *a, *after;
    bool waits = false;
    DL_FOREACH_SAFE(s->answers, a, after)
    {
        if (a->event.tag == tag) {
            DL_DELETE(s->answers, a);
            free(a);
        }
    }
    DL_FOREACH_SAFE(s->exchanges, x, next)
    {
        if (exchange_is_mine(x) && x->tag == tag)
            waits |= exchange_give_up(s, x);
    }
    return waits;
}

static enum path_park staged_park(void *self, uint32_t peer, uint64_t tag)
{
    const bool waits = staged_give_up(self, tag);
    const struct path *p = staged_segment(self, peer);
    /* Tables and generations, which the core reads over it, but never while bytes of that tag are under way. */
    enum path_park below = p->park(p->self, peer, tag);
    return waits ? PATH_PARK_LATER : below;
}

/* Nothing of a dead rank comes into my cache any more, once my driver has done what it was given. */
static bool staged_ended(void *self, uint32_t peer)
{
    struct staged *s = self;
    struct exchange *x, *next;
    DL_FOREACH_SAFE(s->exchanges, x, next)
    {
        if (x->peer == peer && x->kind != EXCHANGE_SERVE && x->state == X_COPYING)
            return false;
    }
    s->peers[peer].has_ended = true;
    DL_FOREACH_SAFE(s->exchanges, x, next)
    {
        if (x->peer == peer && x->state != X_COPYING)
            exchange_remove(s, x);
    }
    return true;
}

static int staged_progress(void *self, struct port_event *events, int max)
{
    struct staged *s = self;
    int n = 0, rounds = 0;
    do {
        exchanges_step(s);
        chores_step(s);
    } while (poll_driver(s) && ++rounds < ROUNDS_A_TURN);
    while (n < max && s->answers != NULL)
        events[n++] = take_answer(s);
    look_take(&s->look_answers, (uint64_t)n, s->answers == NULL);
    return n;
}

/*
 * What waits for a peer needs no turn before that rings: for a note of its own, or where it has made room for mine. One
 * that has died never does, and nobody may ask whether it lives: the few exchanges with it then stay until close.
 */
static bool is_rung(const struct staged *s, const struct exchange *x)
{
    return (x->state == X_AWAIT && x->is_given_up) || (x->state == X_TELL && s->peers[x->peer].is_full);
}

/* The driver's ends first: what follows from them joins the answers. */
static void staged_look(void *self)
{
    struct staged *s = self;
    const struct answer *a;
    uint64_t answers;
    DL_COUNT(s->answers, a, answers);
    look_begin(&s->look_copies, s->copying);
    look_begin(&s->look_answers, answers + s->copying);
}

static bool staged_has_looked(const void *self)
{
    const struct staged *s = self;
    return look_has_ended(&s->look_copies) && look_has_ended(&s->look_answers);
}

static bool staged_busy(const void *self)
{
    const struct staged *s = self;
    const struct exchange *x;
    DL_FOREACH(s->exchanges, x)
    {
        if (!is_rung(s, x))
            return true;
    }
    return s->chores != NULL || s->answers != NULL;
}

bool staged_takes(struct staged *s, const struct port_event *e)
{
    struct note n;
    if (e->kind != PORT_MESSAGE) {
        bool is_mine = (e->tag & STAGED_TAGS) != 0;
        if (is_mine)
            exchange_answer(s, e);
        return is_mine;
    }
    if (!note_is(e->data, e->bytes))
        return false;
    if (note_decode(e->data, e->bytes, &n) != 0 || e->peer >= s->wish.num_ranks)
        log_each(s->wish.log, LOG_WARN, "rank %u sent a malformed note about staged bytes: it is ignored", e->peer);
    else if (!s->peers[e->peer].has_ended)
        exchange_note(s, e->peer, &n);
    return true;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* The driver may still copy into slots and landings. */
static bool driver_rests(struct staged *s)
{
    uint64_t until = clock_now_ns() + CLOSE_NS;
    while (s->copying > 0 && clock_now_ns() < until)
        if (!poll_driver(s))
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return s->copying == 0;
}

static int staged_close(void *self)
{
    struct staged *s = self;
    struct exchange *x, *next;
    if (!driver_rests(s)) {
        error_set(BATON_EPEER, "the driver \"%s\" has not ended %u copies", s->wish.driver->name, s->copying);
        log_line(s->wish.log, LOG_ERROR, "%s", baton_errmsg());
        return BATON_EPEER;
    }
    DL_FOREACH_SAFE(s->exchanges, x, next)
    {
        exchange_remove(s, x);
    }
    chores_free(s);
    for (uint32_t i = 0; i < s->free_landings; i++)
        free(s->landings[i]);
    while (s->answers != NULL)
        take_answer(s);
    free(s->peers);
    free(s->slots);
    free(s);
    return 0;
}

void staged_path(struct staged *s, struct path *out)
{
    *out = (struct path){.self = s,
                         .read = staged_read,
                         .board = staged_board,
                         .move = staged_move,
                         .settle = staged_settle,
                         .park = staged_park,
                         .ended = staged_ended,
                         .progress = staged_progress,
                         .look = staged_look,
                         .has_looked = staged_has_looked,
                         .busy = staged_busy,
                         .close = staged_close,
                         .kind = BATON_PATH_STAGED,
                         .name = "staging"};
}

int staged_create(const struct staged_wish *wish, struct staged **out)
{
    struct staged *s = calloc(1, sizeof *s);
    if (s == NULL)
        return BATON_ENOMEM;
    s->wish = *wish;
    s->num_slots = (uint32_t)(wish->area_bytes / (STAGED_SLOT_BYTES + 4096)); /* a word takes less than a page */
    s->peers = calloc(wish->num_ranks, sizeof *s->peers);
    s->slots = calloc(s->num_slots > 0 ? s->num_slots : 1, sizeof *s->slots);
    if (s->peers == NULL || s->slots == NULL) {
        staged_close(s);
        return BATON_ENOMEM;
    }
    *out = s;
    return 0;
}
