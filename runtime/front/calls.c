/* SPDX-License-Identifier: BSD-3-Clause */
/* calls: see calls.h. */
#include "front/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a GIVEN_UP needs to say. The record itself belongs to the core meanwhile, but for due_ns. */
struct call {
    bool open, given_up, passed_on; /* given up: it was told so; passed on: the core was told to end it */
    bool hears;                     /* a verdict on it will be told */
    enum core_submit_kind kind;
    baton_mode_t mode;
    baton_id_t id;
    char key[BATON_KEY_MAX];
    uint32_t attempt;
    void *user;
    uint32_t num_blocks;
    uint64_t submitted_ns;
    const _Atomic uint64_t *due_ns; /* in the record, which lives as long as the call is open */
    baton_status_t status;          /* given up: as what */
    int error;
};

struct calls {
    pthread_mutex_t lock;
    uint32_t most, num_free;
    uint32_t *free_places; /* a stack */
    struct call call[];
};

struct calls *calls_create(uint32_t most)
{
    struct calls *c = calloc(1, sizeof *c + most * sizeof c->call[0]);
    uint32_t *places = malloc(most * sizeof *places);
    if (c == NULL || places == NULL) {
        free(c);
        free(places);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->most = c->num_free = most;
    c->free_places = places;
    for (uint32_t i = 0; i < most; i++)
        places[i] = most - 1 - i;
    return c;
}

void calls_destroy(struct calls *c)
{
    if (c == NULL)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c->free_places);
    free(c);
}

static void leave(struct calls *c, uint32_t place)
{
    c->call[place].open = false;
    c->free_places[c->num_free++] = place;
}

static void enter(struct calls *c, struct core_submit *s)
{
    s->place = c->free_places[--c->num_free];
    struct call *call = &c->call[s->place];
    *call = (struct call){.open = true,
                          .hears = s->verdict != NULL,
                          .kind = s->kind,
                          .mode = s->mode,
                          .id = s->id,
                          .attempt = s->attempt,
                          .user = s->user,
                          .num_blocks = s->num_blocks,
                          .submitted_ns = s->submitted_ns,
                          .due_ns = &s->due_ns};
    memcpy(call->key, core_submit_name(s), sizeof call->key);
}

bool calls_submit(struct calls *c, struct core_submit *s, struct ring *ring)
{
    pthread_mutex_lock(&c->lock); /* so that nobody ends a call that is then refused */
    enter(c, s);
    uint32_t place = s->place; /* s is the reactor's once it is in the ring */
    bool given = ring_push(ring, s);
    if (!given)
        leave(c, place);
    pthread_mutex_unlock(&c->lock);
    return given;
}

uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->most && n < max; i++) {
        struct call *call = &c->call[i];
        if (!call->open || !call->given_up || call->passed_on)
            continue;
        call->passed_on = true;
        ends[n++] = (struct calls_end){call->id, call->status, call->error};
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

bool calls_is_given_up(struct calls *c, uint32_t place)
{
    pthread_mutex_lock(&c->lock);
    bool is = c->call[place].given_up;
    pthread_mutex_unlock(&c->lock);
    return is;
}

bool calls_pass(struct calls *c, struct core_submit *s)
{
    bool pass = true;
    pthread_mutex_lock(&c->lock);
    struct call *call = &c->call[s->place];
    if (s->event.type == BATON_EVENT_GIVEN_UP) {
        pass = !call->given_up;
        call->given_up = call->passed_on = true;
        if (pass) {
            call->status = s->event.status;
            call->error = s->event.error;
        }
    } else {
        if (call->given_up) {
            s->event.given_up = 1;
            s->event.status = call->status;
            s->event.error = call->error;
        }
        leave(c, s->place);
    }
    pthread_mutex_unlock(&c->lock);
    return pass;
}

static struct core_submit *event_of(const struct call *call, uint64_t now, const struct calls_reason *why)
{
    struct core_submit *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->kind = call->kind;
    s->event = (baton_event_t){.type = BATON_EVENT_GIVEN_UP,
                               .of = call->kind == CORE_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                               .status = why->status,
                               .error = why->error,
                               .id = call->id,
                               .attempt = call->attempt,
                               .user = call->user,
                               .mode = call->mode,
                               .verdict = call->hears ? BATON_VERDICT_FOLLOWS : BATON_VERDICT_NONE,
                               .peer = -1,
                               .num_blocks = call->num_blocks,
                               .total_ns = now > call->submitted_ns ? now - call->submitted_ns : 0};
    memcpy(s->event.key, call->key, sizeof s->event.key);
    snprintf(s->event.detail, sizeof s->event.detail, "%s", why->detail);
    return s;
}

uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->most; i++) {
        struct call *call = &c->call[i];
        bool is =
            call->open && !call->given_up && atomic_load_explicit(call->due_ns, memory_order_relaxed) <= why->due_ns;
        struct core_submit *s = is ? event_of(call, now, why) : NULL;
        if (s == NULL)
            continue;
        if (!tell(arg, s)) {
            core_submit_free(s);
            continue;
        }
        call->given_up = true;
        call->status = why->status;
        call->error = why->error;
        n++;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}
