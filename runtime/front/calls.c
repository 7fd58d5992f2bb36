/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: see calls.h.
 *
 * One word of each entry says what it is, and how often its place was given: a thread that looked at the place before
 * it was given again changes nothing. Whoever changes the word from OPEN decides what becomes of the call:
 *
 *   FREE ──submit──► OPEN ──pass, of its end──► FREE
 *                    │  └──pass, of its GIVEN_UP──► GIVEN
 *                    └─give_up─► GIVING ─told─► GIVEN ──pass, of its end──► FREE
 *                                  └─not told─► OPEN
 *
 * What else an entry has is written before it is OPEN, and lies still until it is FREE. While it is GIVING, its end
 * does not pass, so it stays.
 */
#include "front/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FREE, OPEN, GIVING, GIVEN, STATES };

/* A copy of what the GIVEN_UP of an open call says, since the call itself belongs to the core meanwhile. */
struct entry {
    _Atomic uint64_t word;   /* STATES times how often the place was given, and what it is now */
    _Atomic uint64_t due_ns; /* the call's shown_due_ns */
    _Atomic uint32_t below;  /* free: the place below it on the stack of those that are */
    bool passed_on;          /* the core was told to end it. Whoever makes turns */
    bool hears;              /* a verdict on it will be told */
    _Atomic int of;          /* OFFER or WANT; also read while the place is given anew */
    baton_mode_t mode;
    baton_id_t id;
    char key[BATON_KEY_MAX];
    uint32_t attempt;
    void *user;
    uint32_t num_blocks;
    uint64_t submitted_ns;
    baton_status_t status; /* what its GIVEN_UP said; written by who made it GIVING, or by who made it GIVEN at once */
    int error;
};

struct calls {
    _Atomic uint32_t used; /* places that were ever given: those behind them were never touched */
    /* The topmost place that was given back, plus one, in the low half; above it how often this has changed (ABA). */
    _Atomic uint64_t free_places;
    struct entry entry[];
};

#define PLACE_BITS 32
#define PLACE_MASK UINT64_C(0xffffffff)

struct calls *calls_create(uint32_t most)
{
    return calloc(1, sizeof(struct calls) + most * sizeof(struct entry));
}

void calls_destroy(struct calls *c)
{
    free(c);
}

/* How many places a look at all calls takes in. One that is given meanwhile is for the next look. */
static uint32_t num_used(struct calls *c)
{
    return atomic_load_explicit(&c->used, memory_order_relaxed);
}

static uint64_t word_of(struct calls *c, uint32_t place)
{
    /* acquire: what an open entry has was written before, by the release in enter. */
    return atomic_load_explicit(&c->entry[place].word, memory_order_acquire);
}

static bool is_want(const struct entry *entry)
{
    return atomic_load_explicit(&entry->of, memory_order_relaxed) == BATON_EVENT_WANT;
}

static unsigned state_of(uint64_t word)
{
    return (unsigned)(word % STATES);
}

/* From one state of a call to another. False: it was in another one. */
static bool turn_to(struct calls *c, uint32_t place, uint64_t word, unsigned state)
{
    /* acquire and release: as word_of, and what this thread wrote into the entry is seen by whoever finds it so. */
    return atomic_compare_exchange_strong_explicit(&c->entry[place].word, &word, word - state_of(word) + state,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* One that was given back, or else a new one. */
static uint32_t take_place(struct calls *c)
{
    /* acquire: what the place was used for before is over, by the release in leave. */
    uint64_t top = atomic_load_explicit(&c->free_places, memory_order_acquire);
    while ((top & PLACE_MASK) != 0) {
        const uint32_t place = (uint32_t)(top & PLACE_MASK) - 1;
        const uint32_t below = atomic_load_explicit(&c->entry[place].below, memory_order_relaxed);
        const uint64_t next = ((top >> PLACE_BITS) + 1) << PLACE_BITS | below;
        if (atomic_compare_exchange_weak_explicit(&c->free_places, &top, next, memory_order_acquire,
                                                  memory_order_acquire))
            return place;
    }
    return atomic_fetch_add_explicit(&c->used, 1, memory_order_relaxed);
}

static void leave(struct calls *c, uint32_t place)
{
    struct entry *entry = &c->entry[place];
    const uint64_t word = word_of(c, place);
    atomic_store_explicit(&entry->word, word - state_of(word) + STATES + FREE, memory_order_relaxed);
    uint64_t top = atomic_load_explicit(&c->free_places, memory_order_relaxed), next;
    do {
        atomic_store_explicit(&entry->below, (uint32_t)(top & PLACE_MASK), memory_order_relaxed);
        next = ((top >> PLACE_BITS) + 1) << PLACE_BITS | (place + 1);
    } while (!atomic_compare_exchange_weak_explicit(&c->free_places, &top, next, memory_order_release,
                                                    memory_order_relaxed));
}

static void enter(struct calls *c, struct call *call)
{
    const uint32_t place = call->end.place = take_place(c);
    struct entry *entry = &c->entry[place];
    entry->passed_on = false;
    entry->hears = call->verdict != NULL;
    atomic_store_explicit(&entry->of, call->kind == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                          memory_order_relaxed);
    entry->mode = call->kind == CALL_WANT ? call->want.mode : BATON_MODE_AUTO;
    entry->id = call->id;
    entry->attempt = call->attempt;
    entry->user = call->user;
    entry->num_blocks = call->num_blocks;
    entry->submitted_ns = call->submitted_ns;
    memcpy(entry->key, call_name(call), sizeof entry->key);
    call->shown_due_ns = &entry->due_ns;
    call_set_due(call, call_due_ns(call));
    atomic_store_explicit(&entry->word, atomic_load_explicit(&entry->word, memory_order_relaxed) + OPEN,
                          memory_order_release);
}

bool calls_submit(struct calls *c, struct call *call, struct mpsc *queue)
{
    if (!mpsc_reserve(queue))
        return false;
    enter(c, call);
    mpsc_push(queue, &call->item);
    return true;
}

uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < num_used(c) && n < max; i++) {
        struct entry *entry = &c->entry[i];
        if (state_of(word_of(c, i)) != GIVEN || entry->passed_on)
            continue;
        entry->passed_on = true;
        ends[n++] = (struct calls_end){entry->id, entry->status, entry->error};
    }
    return n;
}

bool calls_is_given_up(struct calls *c, uint32_t place)
{
    return state_of(word_of(c, place)) == GIVEN;
}

/* The core gives a call up. */
static enum calls_passing pass_given_up(struct calls *c, const struct outcome *outcome)
{
    struct entry *entry = &c->entry[outcome->place];
    const uint64_t word = word_of(c, outcome->place);
    if (state_of(word) == GIVING)
        return CALLS_LATER;
    entry->passed_on = true;
    if (!turn_to(c, outcome->place, word - state_of(word) + OPEN, GIVEN))
        return state_of(word_of(c, outcome->place)) == GIVING ? CALLS_LATER : CALLS_HELD_BACK;
    entry->status = outcome->event.status; /* read by whoever makes turns alone, as this thread does */
    entry->error = outcome->event.error;
    return CALLS_PASS;
}

enum calls_passing calls_pass(struct calls *c, struct outcome *outcome)
{
    baton_event_t *e = &outcome->event;
    const struct entry *entry = &c->entry[outcome->place];
    if (e->type == BATON_EVENT_GIVEN_UP)
        return pass_given_up(c, outcome);
    const uint64_t word = word_of(c, outcome->place);
    if (state_of(word) == GIVING ||
        (state_of(word) == OPEN && !turn_to(c, outcome->place, word, FREE))) /* another thread was quicker */
        return CALLS_LATER;
    if (state_of(word) == GIVEN) {
        e->given_up = 1;
        e->status = entry->status;
        e->error = entry->error;
        outcome_drop_attached(outcome);
    }
    leave(c, outcome->place);
    return CALLS_PASS;
}

static struct outcome *outcome_of(const struct entry *entry, uint64_t now, const struct calls_reason *why)
{
    struct outcome *outcome = calloc(1, sizeof *outcome);
    if (outcome == NULL)
        return NULL;
    baton_event_t *e = &outcome->event;
    *e = (baton_event_t){.type = BATON_EVENT_GIVEN_UP,
                         .of = is_want(entry) ? BATON_EVENT_WANT : BATON_EVENT_OFFER,
                         .status = why->status,
                         .error = why->error,
                         .id = entry->id,
                         .attempt = entry->attempt,
                         .user = entry->user,
                         .mode = entry->mode,
                         .verdict = entry->hears ? BATON_VERDICT_FOLLOWS : BATON_VERDICT_NONE,
                         .num_blocks = entry->num_blocks,
                         .total_ns = now > entry->submitted_ns ? now - entry->submitted_ns : 0};
    memcpy(e->key, entry->key, sizeof e->key);
    snprintf(e->detail, sizeof e->detail, "%s", why->detail);
    outcome->peer = -1;
    return outcome;
}

/* Whether the call at that place, which was seen to be open, is given up. */
static bool give_up(struct calls *c, uint32_t place, uint64_t word, uint64_t now, const struct calls_reason *why,
                    calls_tell_fn tell, void *arg)
{
    struct entry *entry = &c->entry[place];
    if (!turn_to(c, place, word, GIVING))
        return false;
    struct outcome *outcome = outcome_of(entry, now, why);
    const bool is_told = outcome != NULL && tell(arg, outcome);
    if (outcome != NULL && !is_told)
        outcome_free(outcome);
    if (is_told) {
        entry->status = why->status;
        entry->error = why->error;
    }
    turn_to(c, place, word - OPEN + GIVING, is_told ? GIVEN : OPEN); /* nobody else changes it from GIVING */
    return is_told;
}

uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < num_used(c); i++) {
        const uint64_t word = word_of(c, i);
        if (state_of(word) != OPEN)
            continue;
        const uint64_t due_ns = atomic_load_explicit(&c->entry[i].due_ns, memory_order_relaxed);
        const bool is_meant = !why->wants_only || is_want(&c->entry[i]);
        if (is_meant && due_ns > why->judged_ns && due_ns <= why->due_ns)
            n += give_up(c, i, word, now, why, tell, arg);
    }
    return n;
}

uint64_t calls_next_due_ns(struct calls *c, uint64_t after_ns)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < num_used(c); i++) {
        if (state_of(word_of(c, i)) != OPEN || !is_want(&c->entry[i]))
            continue;
        const uint64_t due_ns = atomic_load_explicit(&c->entry[i].due_ns, memory_order_relaxed);
        if (due_ns > after_ns && due_ns < next)
            next = due_ns;
    }
    return next;
}
