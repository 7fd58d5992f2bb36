/* SPDX-License-Identifier: BSD-3-Clause */
/* calls: see calls.h. */
#include "front/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an end needs to say. The record itself belongs to the core meanwhile. */
struct call {
    bool open, told, given_up; /* told: its end; given_up: the core was told so */
    bool hears;                /* a verdict on it will be told */
    enum core_submit_kind kind;
    baton_mode_t mode;
    baton_id_t id;
    char key[BATON_KEY_MAX];
    void *user;
    uint32_t num_blocks;
    uint64_t submitted_ns;
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
                          .user = s->user,
                          .num_blocks = s->num_blocks,
                          .submitted_ns = s->submitted_ns};
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

uint32_t calls_told(struct calls *c, baton_id_t *ids, uint32_t max)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->most && n < max; i++) {
        if (!c->call[i].open || !c->call[i].told || c->call[i].given_up)
            continue;
        c->call[i].given_up = true;
        ids[n++] = c->call[i].id;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

bool calls_pass(struct calls *c, struct core_submit *s)
{
    bool pass = true;
    pthread_mutex_lock(&c->lock);
    struct call *call = &c->call[s->place];
    if (s->event.quarantined) {
        pass = !call->told;
        call->told = true;
    } else {
        if (call->told && s->event.type != BATON_EVENT_QUIET) {
            s->event.type = BATON_EVENT_QUIET;
            s->event.status = BATON_STATUS_DONE;
            s->event.error = 0;
            s->event.detail[0] = '\0';
        }
        leave(c, s->place);
    }
    pthread_mutex_unlock(&c->lock);
    return pass;
}

static struct core_submit *end_of(const struct call *call, uint64_t now, int error, const char *detail)
{
    struct core_submit *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->kind = call->kind;
    s->event = (baton_event_t){.type = call->kind == CORE_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                               .status = BATON_STATUS_FAILED,
                               .error = error,
                               .id = call->id,
                               .user = call->user,
                               .mode = call->mode,
                               .quarantined = 1,
                               .verdict = call->hears ? BATON_VERDICT_FOLLOWS : BATON_VERDICT_NONE,
                               .peer = -1,
                               .num_blocks = call->num_blocks,
                               .total_ns = now > call->submitted_ns ? now - call->submitted_ns : 0};
    memcpy(s->event.key, call->key, sizeof s->event.key);
    snprintf(s->event.detail, sizeof s->event.detail, "%s", detail);
    return s;
}

uint32_t calls_abandon(struct calls *c, uint64_t now, int error, const char *detail, struct core_submit **ends)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->most; i++) {
        struct call *call = &c->call[i];
        struct core_submit *s = call->open && !call->told ? end_of(call, now, error, detail) : NULL;
        if (s == NULL)
            continue;
        call->told = true;
        s->next = *ends;
        *ends = s;
        n++;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}
