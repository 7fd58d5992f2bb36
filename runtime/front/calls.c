/* SPDX-License-Identifier: BSD-3-Clause */
/* calls: see calls.h. */
#include "front/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the GIVEN_UP of an open call says. The call itself belongs to the core meanwhile; only due_ns is read here. */
struct entry {
    bool open, given_up, passed_on; /* given up: the engine was told so; passed on: the core was told to end it */
    bool hears;                     /* a verdict on it will be told */
    baton_event_type_t of;          /* OFFER or WANT */
    baton_mode_t mode;
    baton_id_t id;
    char key[BATON_KEY_MAX];
    uint32_t attempt;
    void *user;
    uint32_t num_blocks;
    uint64_t submitted_ns;
    const _Atomic uint64_t *due_ns; /* in the call, which lives as long as this is open */
    baton_status_t status;          /* what its GIVEN_UP said */
    int error;
};

struct calls {
    pthread_mutex_t lock;
    uint32_t most, num_free;
    uint32_t *free_places; /* a stack */
    struct entry entry[];
};

struct calls *calls_create(uint32_t most)
{
    struct calls *c = calloc(1, sizeof *c + most * sizeof c->entry[0]);
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
    c->entry[place].open = false;
    c->free_places[c->num_free++] = place;
}

static void enter(struct calls *c, struct call *call)
{
    uint32_t place = call->end.place = c->free_places[--c->num_free];
    struct entry *entry = &c->entry[place];
    *entry = (struct entry){.open = true,
                            .hears = call->verdict != NULL,
                            .of = call->kind == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                            .mode = call->kind == CALL_WANT ? call->want.mode : BATON_MODE_AUTO,
                            .id = call->id,
                            .attempt = call->attempt,
                            .user = call->user,
                            .num_blocks = call->num_blocks,
                            .submitted_ns = call->submitted_ns,
                            .due_ns = &call->due_ns};
    memcpy(entry->key, call_name(call), sizeof entry->key);
}

bool calls_submit(struct calls *c, struct call *call, struct ring *ring)
{
    pthread_mutex_lock(&c->lock); /* so that nobody gives up a call that is refused after all */
    enter(c, call);
    uint32_t place = call->end.place; /* the call is the reactor's once it is in the ring */
    bool given = ring_push(ring, call);
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
        struct entry *entry = &c->entry[i];
        if (!entry->open || !entry->given_up || entry->passed_on)
            continue;
        entry->passed_on = true;
        ends[n++] = (struct calls_end){entry->id, entry->status, entry->error};
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

bool calls_is_given_up(struct calls *c, uint32_t place)
{
    pthread_mutex_lock(&c->lock);
    bool is = c->entry[place].given_up;
    pthread_mutex_unlock(&c->lock);
    return is;
}

bool calls_pass(struct calls *c, struct outcome *outcome)
{
    baton_event_t *e = &outcome->event;
    bool pass = true;
    pthread_mutex_lock(&c->lock);
    struct entry *entry = &c->entry[outcome->place];
    if (e->type == BATON_EVENT_GIVEN_UP) {
        pass = !entry->given_up;
        entry->given_up = entry->passed_on = true;
        if (pass) {
            entry->status = e->status;
            entry->error = e->error;
        }
    } else {
        if (entry->given_up) {
            e->given_up = 1;
            e->status = entry->status;
            e->error = entry->error;
            outcome_drop_attached(outcome);
        }
        leave(c, outcome->place);
    }
    pthread_mutex_unlock(&c->lock);
    return pass;
}

static struct outcome *outcome_of(const struct entry *entry, uint64_t now, const struct calls_reason *why)
{
    struct outcome *outcome = calloc(1, sizeof *outcome);
    if (outcome == NULL)
        return NULL;
    baton_event_t *e = &outcome->event;
    *e = (baton_event_t){.type = BATON_EVENT_GIVEN_UP,
                         .of = entry->of,
                         .status = why->status,
                         .error = why->error,
                         .id = entry->id,
                         .attempt = entry->attempt,
                         .user = entry->user,
                         .mode = entry->mode,
                         .verdict = entry->hears ? BATON_VERDICT_FOLLOWS : BATON_VERDICT_NONE,
                         .peer = -1,
                         .num_blocks = entry->num_blocks,
                         .total_ns = now > entry->submitted_ns ? now - entry->submitted_ns : 0};
    memcpy(e->key, entry->key, sizeof e->key);
    snprintf(e->detail, sizeof e->detail, "%s", why->detail);
    return outcome;
}

uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->most; i++) {
        struct entry *entry = &c->entry[i];
        bool is =
            entry->open && !entry->given_up && atomic_load_explicit(entry->due_ns, memory_order_relaxed) <= why->due_ns;
        struct outcome *outcome = is ? outcome_of(entry, now, why) : NULL;
        if (outcome == NULL)
            continue;
        if (!tell(arg, outcome)) {
            outcome_free(outcome);
            continue;
        }
        entry->given_up = true;
        entry->status = why->status;
        entry->error = why->error;
        n++;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}
