/* SPDX-License-Identifier: BSD-3-Clause */
/* waiter: words that wait at an attempt until its offer comes, see attempt.h. */
#include <stdlib.h>

#include "core/attempt_inside.h"
#include "core/early.h"
#include "core/state.h"

struct waiter {
    struct word word;
    struct attempt *attempt;
    struct queued place; /* among the attempt's */
    struct timer timer;  /* forgets it */
};

static struct waiter *at(const struct queued *place)
{
    return (struct waiter *)((char *)place - offsetof(struct waiter, place));
}

static struct waiter *find(const struct attempt *a, uint32_t rank)
{
    for (const struct queued *q = a->waiters.first; q != NULL; q = q->next)
        if (at(q)->word.peer == rank)
            return at(q);
    return NULL;
}

static enum early_kind kind_of(const struct word *word)
{
    return word->release ? EARLY_ENDED : EARLY_LIVE;
}

static void destroy(struct core *core, struct waiter *w)
{
    timer_stop(&core->timers, &w->timer);
    queue_leave(&w->place);
    early_drop(core, w->word.peer, kind_of(&w->word));
    reap_add(&core->reap, w);
}

static void on_timer(struct core *core, struct timer *t)
{
    struct waiter *w = (struct waiter *)((char *)t - offsetof(struct waiter, timer));
    destroy(core, w);
    attempt_release(core, w->attempt);
}

const struct word *waiter_word(const struct attempt *a, uint32_t rank)
{
    const struct waiter *w = find(a, rank);
    return w != NULL ? &w->word : NULL;
}

bool waiter_keep(struct core *core, const struct wire_name *name, const struct word *word, uint64_t keep_ms)
{
    struct attempt *a = attempt_find(core, name->key, name->attempt);
    struct waiter *w = a != NULL ? find(a, word->peer) : NULL;
    const enum early_kind kind = kind_of(word);
    if (w != NULL && kind_of(&w->word) != kind) { /* what that said is void */
        waiter_leave(core, a, word->peer);
        a = attempt_find(core, name->key, name->attempt);
        w = NULL;
    }
    if (w == NULL && !early_may_keep(core, word->peer, kind))
        return false;
    if (a == NULL)
        a = attempt_make(core, name->key, name->attempt);
    if (a == NULL)
        return false;
    if (w == NULL) {
        w = reap_new(sizeof *w);
        if (w == NULL) {
            attempt_release(core, a);
            return false;
        }
        w->attempt = a;
        queue_join(&a->waiters, &w->place);
        early_keep(core, word->peer, kind);
    }
    w->word = *word;
    timer_arm(&core->timers, &w->timer, core->now + keep_ms * NS_PER_MS, on_timer);
    return true;
}

void waiter_leave(struct core *core, struct attempt *a, uint32_t rank)
{
    struct waiter *w = find(a, rank);
    if (w == NULL)
        return;
    destroy(core, w);
    attempt_release(core, a);
}

bool waiter_take(struct core *core, struct attempt *a, struct word *word)
{
    if (a->waiters.first == NULL)
        return false;
    struct waiter *w = at(a->waiters.first);
    *word = w->word;
    destroy(core, w);
    return true;
}

void attempt_drop(struct core *core, struct attempt *a)
{
    struct word unused;
    while (waiter_take(core, a, &unused))
        continue;
    attempt_forget(core, a);
}

void attempts_lose(struct core *core, uint32_t rank)
{
    struct attempt *a = attempts_next(core, NULL), *next;
    for (; a != NULL; a = next) {
        next = attempts_next(core, a);
        former_forget(core, a, rank);
        waiter_leave(core, a, rank);
    }
}

void waiters_shut(struct core *core)
{
    struct attempt *a = attempts_next(core, NULL), *next;
    for (; a != NULL; a = next) {
        next = attempts_next(core, a);
        for (const struct queued *q = a->waiters.first; q != NULL; q = q->next)
            if (!at(q)->word.release)
                word_nack(core, &at(q)->word, 0, BATON_ECLOSED, "the producer closes");
        if (a->state == ATTEMPT_AWAITED)
            attempt_drop(core, a);
    }
}
