/* SPDX-License-Identifier: BSD-3-Clause */
/* attempt: the index of attempts, and tombstones, see attempt.h. */
#include "core/attempt.h"

#include <stdlib.h>
#include <string.h>

#include "core/attempt_inside.h"
#include "core/state.h"

/* ---- the index --------------------------------------------------------------------------------------------------- */

static struct request *request_find(const struct core *core, const char *key)
{
    struct request *r;
    HASH_FIND_STR(core->attempts->requests, key, r);
    return r;
}

static struct request *request_create(struct core *core, const char *key)
{
    struct request *r = reap_new(sizeof *r);
    if (r == NULL)
        return NULL;
    memcpy(r->key, key, sizeof r->key);
    HASH_ADD_STR(core->attempts->requests, key, r);
    if (r->hh.tbl == NULL) {
        reap_add(&core->reap, r);
        return NULL;
    }
    return r;
}

static void request_release(struct core *core, struct request *r)
{
    if (r->attempts != NULL)
        return;
    HASH_DEL(core->attempts->requests, r);
    reap_add(&core->reap, r);
}

struct attempt *attempt_find(const struct core *core, const char *key, uint32_t number)
{
    const struct request *r = request_find(core, key);
    struct attempt *a = r != NULL ? r->attempts : NULL;
    while (a != NULL && a->number != number)
        a = a->behind;
    return a;
}

struct attempt *attempt_make(struct core *core, const char *key, uint32_t number)
{
    struct attempt *a = attempt_find(core, key, number);
    if (a != NULL)
        return a;
    struct request *r = request_find(core, key);
    if (r == NULL)
        r = request_create(core, key);
    if (r == NULL)
        return NULL;
    a = reap_new(sizeof *a);
    if (a == NULL) {
        request_release(core, r);
        return NULL;
    }
    a->request = r;
    a->number = number;
    DL_APPEND2(r->attempts, a, before, behind);
    return a;
}

static void attempt_destroy(struct core *core, struct attempt *a)
{
    formers_free(core, a);
    DL_DELETE2(a->request->attempts, a, before, behind);
    request_release(core, a->request);
    reap_add(&core->reap, a);
}

void attempt_release(struct core *core, struct attempt *a)
{
    if (a->state == ATTEMPT_AWAITED && a->waiters.first == NULL)
        attempt_destroy(core, a);
}

struct attempt *attempts_next(const struct core *core, const struct attempt *a)
{
    const struct request *r = a != NULL ? a->request->hh.next : core->attempts->requests;
    if (a != NULL && a->behind != NULL)
        return a->behind;
    return r != NULL ? r->attempts : NULL;
}

/* ---- its states -------------------------------------------------------------------------------------------------- */

/* It is AWAITED. It still knows the wants of its former offers. */
static void await(struct core *core, struct attempt *a)
{
    if (a->state == ATTEMPT_ENDED) {
        DL_DELETE(core->attempts->ended, a);
        core->attempts->num_ended--;
        timer_stop(&core->timers, &a->timer);
    }
    a->state = ATTEMPT_AWAITED;
    a->offer = NULL;
    a->error = 0;
}

void attempt_forget(struct core *core, struct attempt *a)
{
    await(core, a);
    formers_free(core, a);
    attempt_release(core, a);
}

static void on_tombstone(struct core *core, struct timer *t)
{
    attempt_forget(core, (struct attempt *)((char *)t - offsetof(struct attempt, timer)));
}

void attempt_begin(struct core *core, struct attempt *a, struct offer *offer)
{
    await(core, a);
    a->state = ATTEMPT_OFFERED;
    a->offer = offer;
}

/* The newest attempt that ended answers for the older ones. Tombstones and what they remember are bounded: the oldest
 go * first. */
static void tombstones_bound(struct core *core, const struct attempt *newest)
{
    struct attempts *all = core->attempts;
    struct attempt *a = newest->request->attempts, *next;
    for (; a != NULL; a = next) {
        next = a->behind;
        if (a->state == ATTEMPT_ENDED && a->number < newest->number)
            attempt_forget(core, a);
    }
    uint64_t most = core->c.settings->tombstones;
    while (all->ended->next != NULL && (all->num_ended > most || all->num_formers > formers_most(core)))
        attempt_forget(core, all->ended);
}

void attempt_end(struct core *core, struct attempt *a, int error)
{
    a->state = ATTEMPT_ENDED;
    a->offer = NULL;
    a->error = error;
    DL_APPEND(core->attempts->ended, a);
    core->attempts->num_ended++;
    timer_arm(&core->timers, &a->timer, core->now + core->c.settings->tombstone_ms * NS_PER_MS, on_tombstone);
    tombstones_bound(core, a);
}

const struct attempt *attempt_ended(struct core *core, const struct wire_name *name, const struct word *word)
{
    const struct request *r = request_find(core, name->key);
    struct attempt *a = r != NULL ? r->attempts : NULL;
    for (; a != NULL; a = a->behind) {
        if (a->state != ATTEMPT_ENDED || a->number < name->attempt)
            continue;
        if (a->number > name->attempt || former_was_meant(core, a, word->peer, word->want))
            return a;
    }
    return NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

enum attempt_state attempt_state(const struct attempt *a)
{
    return a->state;
}

uint32_t attempt_number(const struct attempt *a)
{
    return a->number;
}

struct offer *attempt_offer(const struct attempt *a)
{
    return a->offer;
}

int attempt_error(const struct attempt *a)
{
    return a->error;
}

int attempts_create(struct core *core)
{
    core->attempts = calloc(1, sizeof *core->attempts);
    return core->attempts != NULL ? 0 : BATON_ENOMEM;
}

void attempts_destroy(struct core *core)
{
    free(core->attempts);
}
