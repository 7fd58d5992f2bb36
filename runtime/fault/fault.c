/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: see fault.h. All of it is the reactor's, except the thread that raises a signal later. */
#include "fault/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "fault/rules.h"
#include "wire/message.h"

#define SPOILT_MAX 64
#define STRUCK (1u << ACTIONS)

/* A message that is delayed. */
struct held {
    struct held *prev, *next;
    uint64_t due_ns;
    uint32_t peer, bytes;
    uint8_t data[];
};

struct faults {
    struct port port, under;
    struct port_handoff handoff;
    struct rules rules;
    uint64_t random;    /* the state of the generator */
    struct held *held;  /* in the order in which they are to go */
    uint32_t *held_for; /* by rank: how many messages to it are held */
    char *const *bases; /* of my cache, by region */
    struct {
        uint64_t tag;
        char *at;
    } spoilt[SPOILT_MAX]; /* pulls whose byte `at` is changed once all bytes have landed; tag 0: none */
    unsigned *struck;     /* by rank: STRUCK and what the rules said of a message that waits for credit; else 0 */
};

/* ---- signals ----------------------------------------------------------------------------------------------------- */

struct raising {
    int number;
    uint64_t ms;
};

static void stall(uint64_t ms)
{
    clock_sleep_until(clock_now_ns() + ms * CLOCK_NS_PER_MS);
}

static void *raise_later(void *arg)
{
    struct raising *r = arg;
    stall(r->ms);
    kill(getpid(), r->number);
    free(r);
    return NULL;
}

static void hit(int signal_number, uint64_t ms)
{
    pthread_t thread;
    struct raising *r = ms > 0 ? malloc(sizeof *r) : NULL;
    if (r == NULL) {
        raise(signal_number); /* in this thread, at once: kill may reach it a moment later, inside MPI */
        return;
    }
    *r = (struct raising){signal_number, ms};
    if (thread_start(&thread, "baton-fault", NULL, raise_later, r) == 0)
        pthread_detach(thread);
    else
        free(r);
}

/* ---- rules at work ----------------------------------------------------------------------------------------------- */

static uint64_t draw(struct faults *f) /* xorshift64* (Vigna 2016) */
{
    f->random ^= f->random >> 12;
    f->random ^= f->random << 25;
    f->random ^= f->random >> 27;
    return f->random * UINT64_C(0x2545f4914f6cdd1d) >> 33;
}

/* Applies the rules to one event. Stalls and signals happen here; the result has a bit for each action that is left. */
static unsigned strike(struct faults *f, enum event event, unsigned type, uint64_t *delay_ms)
{
    unsigned done = 0;
    for (unsigned i = 0; i < f->rules.num; i++) {
        struct rule *r = &f->rules.rule[i];
        if (r->event != event || (r->type != RULES_ANY_TYPE && r->type != type))
            continue;
        r->seen++;
        if ((r->only != 0 && r->seen != r->only) || draw(f) % 1000 >= r->chance)
            continue;
        done |= 1u << r->action;
        if (r->action == STALL)
            stall(r->ms);
        else if (r->action == STOP || r->action == KILL)
            hit(r->action == STOP ? SIGSTOP : SIGKILL, r->ms);
        else if (r->action == DELAY && delay_ms != NULL)
            *delay_ms = r->ms;
    }
    return done;
}

static bool has_rule(const struct faults *f, enum event event)
{
    for (unsigned i = 0; i < f->rules.num; i++)
        if (f->rules.rule[i].event == event)
            return true;
    return false;
}

static unsigned type_of(const void *message, uint32_t bytes)
{
    struct wire_message m;
    return wire_decode(message, bytes, &m) == 0 ? m.type : RULES_ANY_TYPE;
}

static void hold(struct faults *f, uint64_t due_ns, uint32_t peer, const uint8_t *data, uint32_t bytes)
{
    struct held *h = malloc(sizeof *h + bytes);
    if (h == NULL)
        return; /* the message is dropped, which is a fault too */
    h->due_ns = due_ns;
    h->peer = peer;
    h->bytes = bytes;
    memcpy(h->data, data, bytes);
    DL_APPEND(f->held, h);
    f->held_for[peer]++;
}

static int fault_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct faults *f = self;
    uint8_t data[WIRE_MESSAGE_MAX];
    uint64_t delay_ms = 0;
    unsigned done = f->struck[peer]; /* a message that waited for credit is no second event */
    if (done == 0)
        done = STRUCK | strike(f, SEND, type_of(message, bytes), &delay_ms);
    f->struck[peer] = 0;
    if (done & 1u << DROP)
        return 0;
    memcpy(data, message, bytes);
    if (done & 1u << CORRUPT)
        data[draw(f) % bytes] ^= 0x20;
    if ((done & 1u << DELAY) || f->held_for[peer] > 0) {
        uint64_t due_ns = clock_now_ns() + delay_ms * CLOCK_NS_PER_MS;
        hold(f, due_ns, peer, data, bytes);
        if (done & 1u << DOUBLE)
            hold(f, due_ns, peer, data, bytes);
        return 0;
    }
    int rc = f->under.send(f->under.self, peer, data, bytes);
    if (rc == BATON_EAGAIN)
        f->struck[peer] = done;
    if (rc == 0 && (done & 1u << DOUBLE))
        f->under.send(f->under.self, peer, data, bytes);
    return rc;
}

/* The rules apply when the bytes come: only then is it known whether they are a card or a table. */
static int fault_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct faults *f = self;
    return f->under.path.read(f->under.path.self, peer, offset, bytes, tag);
}

static int fault_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct faults *f = self;
    strike(f, BOARD, RULES_ANY_TYPE, NULL);
    return f->under.path.board(f->under.path.self, peer, offset, tag);
}

/* A pull is spoilt once. While SPOILT_MAX wait to be spoilt, no other is. */
static void spoil_later(struct faults *f, uint64_t tag, char *at)
{
    int free_place = -1;
    for (int i = 0; i < SPOILT_MAX; i++) {
        if (f->spoilt[i].tag == tag)
            return;
        if (f->spoilt[i].tag == 0)
            free_place = i;
    }
    if (free_place >= 0) {
        f->spoilt[free_place].tag = tag;
        f->spoilt[free_place].at = at;
    }
}

static void spoil(struct faults *f, uint64_t tag)
{
    for (int i = 0; i < SPOILT_MAX; i++)
        if (f->spoilt[i].tag == tag) {
            if (f->spoilt[i].at != NULL)
                *f->spoilt[i].at ^= 0x20;
            f->spoilt[i].tag = 0;
        }
}

/* Where the first byte of a run lands. NULL: no thread may touch it. */
static char *place_of(const struct faults *f, const struct plan_run *run)
{
    char *base = f->bases != NULL ? f->bases[run->dst_region] : NULL;
    return base != NULL ? base + run->dst : NULL;
}

static int64_t fault_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct faults *f = self;
    struct plan_cursor at = *leg->cursor;
    struct plan_run run;
    struct path_leg below = *leg;
    if (has_rule(f, BOARD)) /* so that the generation is read by a call of its own, to which rules apply */
        below.board = 0;
    int64_t taken = f->under.path.move(f->under.path.self, &below, budget);
    unsigned done = taken > 0 ? strike(f, MOVE, RULES_ANY_TYPE, NULL) : 0;
    if ((done & 1u << CORRUPT) && !leg->write && plan_next(leg->transfer, &at, &run, 1, 1) == 1)
        spoil_later(f, leg->tag, place_of(f, &run));
    return taken;
}

static int fault_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct faults *f = self;
    strike(f, SETTLE, RULES_ANY_TYPE, NULL);
    return f->under.path.settle(f->under.path.self, peer, tag);
}

static enum path_park fault_park(void *self, uint32_t peer, uint64_t tag)
{
    struct faults *f = self;
    return f->under.path.park(f->under.path.self, peer, tag);
}

static void fault_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    struct faults *f = self;
    f->under.raise(f->under.self, slot, generation, far);
}

static enum port_alive fault_alive(void *self, uint32_t peer)
{
    struct faults *f = self;
    return f->under.alive(f->under.self, peer);
}

static int fault_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                     uint64_t *out, uint64_t tag)
{
    struct faults *f = self;
    return f->under.sum(f->under.self, transfer, source, first, count, out, tag);
}

static bool fault_ended(void *self, uint32_t peer)
{
    struct faults *f = self;
    return f->under.path.ended(f->under.path.self, peer);
}

static int fault_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct faults *f = self;
    return f->under.zero(f->under.self, transfer, tag);
}

/* ---- offers of this node ----------------------------------------------------------------------------------------- */

static void fault_write(void *self, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                        const uint64_t *seats, uint32_t num_seats)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    under->write(under->self, slot, generation, offer, seats, num_seats);
}

static void fault_enter(void *self, uint32_t slot)
{
    struct faults *f = self;
    strike(f, ENTER, RULES_ANY_TYPE, NULL);
    f->under.handoff->enter(f->under.handoff->self, slot);
}

static void fault_say_why(void *self, uint32_t slot, uint64_t generation, int error)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    under->say_why(under->self, slot, generation, error);
}

static void fault_leave(void *self, uint32_t slot)
{
    struct faults *f = self;
    strike(f, LEAVE, RULES_ANY_TYPE, NULL);
    f->under.handoff->leave(f->under.handoff->self, slot);
}

static int fault_bind(void *self, uint32_t slot, uint64_t generation, uint64_t engine)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    return under->bind(under->self, slot, generation, engine);
}

static void fault_vacate(void *self, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    under->vacate(under->self, slot, generation, seat, is_free);
}

static struct handoff_word fault_word(void *self, uint32_t slot, uint64_t generation, uint32_t peer)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    return under->word(under->self, slot, generation, peer);
}

static bool fault_told(void *self, uint32_t *slot)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    return under->told(under->self, slot);
}

static enum handoff_taken fault_take(void *self, uint32_t peer, const struct handoff_want *want,
                                     struct handoff_grant *grant)
{
    struct faults *f = self;
    enum handoff_taken taken = f->under.handoff->take(f->under.handoff->self, peer, want, grant);
    if (taken == HANDOFF_TAKEN)
        strike(f, LEASE, RULES_ANY_TYPE, NULL);
    return taken;
}

static bool fault_hold(void *self, uint32_t peer, uint32_t slot, uint64_t generation, uint32_t left_ms)
{
    struct faults *f = self;
    const struct port_handoff *under = f->under.handoff;
    const bool holds = under->hold(under->self, peer, slot, generation, left_ms);
    if (holds)
        strike(f, LEASE, RULES_ANY_TYPE, NULL);
    return holds;
}

static void fault_give_back(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int error)
{
    struct faults *f = self;
    strike(f, GIVE_BACK, RULES_ANY_TYPE, NULL);
    f->under.handoff->give_back(f->under.handoff->self, peer, slot, generation, error);
}

static bool fault_why(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int *error)
{
    const struct port_handoff *under = ((struct faults *)self)->under.handoff;
    return under->why(under->self, peer, slot, generation, error);
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

static void send_held(struct faults *f, uint64_t now)
{
    struct held *h, *next;
    DL_FOREACH_SAFE(f->held, h, next)
    {
        bool first = true;
        struct held *before;
        DL_FOREACH(f->held, before)
        {
            if (before == h)
                break;
            first = first && before->peer != h->peer;
        }
        if (!first || h->due_ns > now || f->under.send(f->under.self, h->peer, h->data, h->bytes) == BATON_EAGAIN)
            continue;
        DL_DELETE(f->held, h);
        f->held_for[h->peer]--;
        free(h);
    }
}

static bool is_card(const struct port_event *e)
{
    return e->bytes >= 2 && e->data[0] == 'B' && e->data[1] == 'C';
}

int faults_filter(struct faults *f, uint64_t now, struct port_event *events, int n)
{
    int kept = 0;
    send_held(f, now);
    for (int i = 0; i < n; i++) {
        struct port_event *e = &events[i];
        unsigned done = 0;
        if (e->kind == PORT_MESSAGE)
            done = strike(f, TAKE, type_of(e->data, e->bytes), NULL);
        else if ((e->kind == PORT_BOARD || (e->kind == PORT_MOVED && e->generation != 0)) && e->error == 0)
            spoil(f, e->tag);
        else if (e->kind == PORT_READ)
            done = strike(f, is_card(e) ? CARD : TABLE, RULES_ANY_TYPE, NULL);
        if (done & 1u << DROP)
            continue;
        if ((done & 1u << CORRUPT) && e->bytes > 0)
            ((uint8_t *)(uintptr_t)e->data)[draw(f) % e->bytes] ^= 0x20; /* the port's own memory, not the peer's */
        events[kept++] = *e;
    }
    return kept;
}

bool faults_pending(const struct faults *f)
{
    return f->held != NULL;
}

static bool fault_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    struct faults *f = self;
    const struct path *under = &f->under.path;
    return under->answer != NULL && under->answer(under->self, peer, tag, event) &&
           faults_filter(f, clock_now_ns(), event, 1) == 1;
}

static int fault_progress(void *self, struct port_event *events, int max)
{
    struct faults *f = self;
    int n = f->under.path.progress(f->under.path.self, events, max);
    return faults_filter(f, clock_now_ns(), events, n);
}

static void fault_look(void *self)
{
    struct faults *f = self;
    f->under.path.look(f->under.path.self);
}

static bool fault_has_looked(const void *self)
{
    const struct faults *f = self;
    return f->under.path.has_looked(f->under.path.self);
}

static bool fault_busy(const void *self)
{
    const struct faults *f = self;
    return faults_pending(f) || f->under.path.busy(f->under.path.self);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void port_fill(struct faults *f)
{
    f->port = (struct port){.path = {.self = f,
                                     .read = fault_read,
                                     .board = fault_board,
                                     .move = fault_move,
                                     .settle = fault_settle,
                                     .answer = fault_answer,
                                     .park = fault_park,
                                     .ended = fault_ended,
                                     .progress = fault_progress,
                                     .look = fault_look,
                                     .has_looked = fault_has_looked,
                                     .busy = fault_busy},
                            .self = f,
                            .send = fault_send,
                            .raise = fault_raise,
                            .alive = fault_alive,
                            .sum = fault_sum,
                            .zero = fault_zero};
    f->handoff = (struct port_handoff){.self = f,
                                       .write = fault_write,
                                       .enter = fault_enter,
                                       .say_why = fault_say_why,
                                       .leave = fault_leave,
                                       .bind = fault_bind,
                                       .vacate = fault_vacate,
                                       .word = fault_word,
                                       .told = fault_told,
                                       .take = fault_take,
                                       .hold = fault_hold,
                                       .give_back = fault_give_back,
                                       .why = fault_why};
}

int faults_create(const char *text, uint32_t rank, const struct port *port, uint32_t num_ranks, char *const *bases,
                  bool words, struct faults **out)
{
    *out = NULL;
    if (text == NULL || text[0] == '\0')
        return 0;
    struct faults *f = calloc(1, sizeof *f);
    if (f == NULL || (f->held_for = calloc(num_ranks, sizeof *f->held_for)) == NULL ||
        (f->struck = calloc(num_ranks, sizeof *f->struck)) == NULL) {
        faults_destroy(f);
        return error_set(BATON_ENOMEM, "no memory for BATON_FAULT");
    }
    f->under = *port;
    f->bases = bases;
    f->rules.seed = 1;
    port_fill(f);
    if (words && port->handoff != NULL)
        f->port.handoff = &f->handoff;
    int rc = rules_read(&f->rules, text, rank);
    if (rc != 0) {
        faults_destroy(f);
        return rc;
    }
    f->random = (f->rules.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ rank; /* each rank its own chances; never 0 */
    f->random += f->random == 0;
    *out = f;
    return 0;
}

void faults_destroy(struct faults *f)
{
    struct held *h, *next;
    if (f == NULL)
        return;
    DL_FOREACH_SAFE(f->held, h, next)
    {
        free(h);
    }
    free(f->held_for);
    free(f->struck);
    free(f);
}

const struct port *faults_port(const struct faults *f)
{
    return &f->port;
}
