/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends: the words of a want's end (DONE, CANCEL, RELEASE), which let go of the producers' blocks.
 *
 *   consumer   says each with growing pauses until that producer rank answers, for BATON_TTL_MS at most. The want
 *              itself is over meanwhile, and nothing waits for an answer: neither its event nor closing. A rank that is
 *              owed the word counts as business, so that its loss is noticed; one that is gone for certain is owed
 *              none. Of at most twice BATON_REQUESTS wants words are owed: then the oldest want's are given up, and its
 *              offers end by their time to live.
 *   producer   answers in lists (ENDED), since nobody waits for them: when one is full, or a quarter of resend_ms
 *              after its first
 */
#include "core/ends.h"

#include <stdlib.h>
#include <string.h>

#include "core/peer.h"
#include "core/post.h"
#include "core/speaker.h"
#include "core/state.h"

#define ANSWERS_MOST 64

struct ending;

/* The word that one producer rank is owed. */
struct end {
    struct end *prev, *next;
    struct ending *ending;
    struct speaker speaker; /* its peer is the rank */
    enum wire_type type;
    int32_t error;
    uint64_t generation;
};

/* All that is owed about one want. */
struct ending {
    uint64_t want;
    UT_hash_handle hh;
    struct wire_name name;
    uint64_t deadline_ns; /* the want's */
    struct timer timer;   /* the rest is given up */
    struct end *ends;
};

struct answers {
    uint32_t peer, num;
    uint64_t wants[ANSWERS_MOST];
    struct timer timer;
};

struct ends {
    struct ending *endings;    /* by want; oldest first */
    struct answers *answers[]; /* by rank: those that it is owed; NULL: never any */
};

/* ---- the consumer's side ----------------------------------------------------------------------------------------- */

static struct ending *ending_of(const struct core *core, uint64_t want)
{
    struct ending *e;
    HASH_FIND(hh, core->ends->endings, &want, sizeof want, e);
    return e;
}

static void end_remove(struct core *core, struct end *end)
{
    peer_end(core, end->speaker.peer);
    speaker_stop(core, &end->speaker);
    DL_DELETE(end->ending->ends, end);
    free(end);
}

static void ending_free(struct core *core, struct ending *e)
{
    while (e->ends != NULL)
        end_remove(core, e->ends);
    timer_stop(&core->timers, &e->timer);
    HASH_DEL(core->ends->endings, e);
    free(e);
}

static void ending_give_up(struct core *core, struct ending *e)
{
    const struct end *end;
    uint32_t num;
    DL_COUNT(e->ends, end, num);
    count_add(&core->stats.ends_unanswered, num);
    log_line(core->c.log, LOG_INFO, "the end of want %s was not answered by rank %u and %u others", e->name.key,
             e->ends->speaker.peer, num - 1);
    ending_free(core, e);
}

static void on_until(struct core *core, struct timer *t)
{
    ending_give_up(core, (struct ending *)((char *)t - offsetof(struct ending, timer)));
}

static struct end *end_of(const struct ending *e, uint32_t peer)
{
    struct end *end = e->ends;
    while (end != NULL && end->speaker.peer != peer)
        end = end->next;
    return end;
}

static void remove_of(struct core *core, struct ending *e, uint32_t peer)
{
    struct end *end = end_of(e, peer);
    if (end != NULL)
        end_remove(core, end);
    if (e->ends == NULL)
        ending_free(core, e);
}

static void say(struct core *core, struct speaker *speaker)
{
    const struct end *end = (struct end *)((char *)speaker - offsetof(struct end, speaker));
    const struct ending *e = end->ending;
    uint64_t left = e->deadline_ns > core->now ? (e->deadline_ns - core->now) / NS_PER_MS : 0;
    struct wire_message m = {
        .type = end->type,
        .want_id = e->want,
        .end = {
            .name = e->name, .error = end->error, .generation = end->generation, .time_left_ms = (uint32_t)left + 1}};
    post_send(core->post, speaker->peer, &m);
}

static struct ending *ending_create(struct core *core, const struct wire_message *m)
{
    if (ends_owed(core) >= 2 * core->c.settings->requests)
        ending_give_up(core, core->ends->endings); /* uthash keeps the order in which they were added */
    struct ending *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->want = m->want_id;
    HASH_ADD(hh, core->ends->endings, want, sizeof e->want, e);
    if (e->hh.tbl == NULL) {
        free(e);
        return NULL;
    }
    e->name = m->end.name;
    e->deadline_ns = core->now + m->end.time_left_ms * NS_PER_MS;
    return e;
}

/* The word that the rank is owed, made if there is none. NULL: no memory. */
static struct end *end_make(struct core *core, struct ending *e, uint32_t peer)
{
    struct end *end = end_of(e, peer);
    if (end != NULL)
        return end;
    end = peer_know(core, peer) == 0 ? calloc(1, sizeof *end) : NULL;
    if (end == NULL)
        return NULL;
    end->ending = e;
    end->speaker.peer = peer;
    DL_APPEND(e->ends, end);
    peer_hold(core, peer);
    return end;
}

void ends_tell(struct core *core, uint32_t peer, struct wire_message *m)
{
    struct ending *e = ending_of(core, m->want_id);
    if (peer_is_dead(core, peer)) {
        post_send(core->post, peer, m);
        return;
    }
    if (e == NULL)
        e = ending_create(core, m);
    struct end *end = e != NULL ? end_make(core, e, peer) : NULL;
    if (end == NULL) {
        post_send(core->post, peer, m); /* it is told once */
        count_add(&core->stats.ends_unanswered, 1);
        if (e != NULL && e->ends == NULL)
            ending_free(core, e);
        return;
    }
    end->type = m->type; /* in the place of what it was owed before */
    end->error = m->end.error;
    end->generation = m->end.generation;
    timer_arm(&core->timers, &e->timer, core->now + core->c.settings->ttl_ms * NS_PER_MS, on_until);
    speaker_begin(core, &end->speaker, peer, say);
}

void ends_take_back(struct core *core, uint32_t peer, uint64_t want)
{
    struct ending *e = ending_of(core, want);
    if (e != NULL)
        remove_of(core, e, peer);
}

void ends_on_answer(struct core *core, uint32_t peer, const struct wire_message *m)
{
    for (uint32_t i = 0; i < m->ended.wants.num; i++)
        ends_take_back(core, peer, wire_list_at(&m->ended.wants, i));
}

void ends_lose(struct core *core, uint32_t rank)
{
    struct ending *e, *next;
    HASH_ITER(hh, core->ends->endings, e, next)
    {
        remove_of(core, e, rank);
    }
}

/* ---- the producer's side ----------------------------------------------------------------------------------------- */

static void answers_send(struct core *core, struct answers *a)
{
    struct wire_message m = {.type = WIRE_ENDED, .ended.wants = {.num = a->num, .out = a->wants}};
    timer_stop(&core->timers, &a->timer);
    if (a->num > 0)
        post_send(core->post, a->peer, &m);
    a->num = 0;
}

static void on_answers(struct core *core, struct timer *t)
{
    answers_send(core, (struct answers *)((char *)t - offsetof(struct answers, timer)));
}

void ends_answer(struct core *core, uint32_t peer, uint64_t want)
{
    struct answers *a = core->ends->answers[peer];
    if (a == NULL) {
        a = core->ends->answers[peer] = calloc(1, sizeof *a);
        if (a == NULL)
            return; /* it is said again, and answered then */
        a->peer = peer;
    }
    a->wants[a->num++] = want;
    if (a->num == ANSWERS_MOST || core->shut)
        answers_send(core, a);
    else if (a->num == 1)
        timer_arm(&core->timers, &a->timer, core->now + core->c.settings->resend_ms * NS_PER_MS / 4, on_answers);
}

void ends_shut(struct core *core)
{
    for (uint32_t i = 0; i < core->c.directory->num_ranks; i++)
        if (core->ends->answers[i] != NULL)
            answers_send(core, core->ends->answers[i]);
}

void ends_forget(struct core *core, uint32_t rank)
{
    struct answers *a = core->ends->answers[rank];
    if (a == NULL)
        return;
    timer_stop(&core->timers, &a->timer);
    free(a);
    core->ends->answers[rank] = NULL;
}

uint32_t ends_owed(const struct core *core)
{
    return HASH_COUNT(core->ends->endings);
}

int ends_create(struct core *core)
{
    core->ends = calloc(1, sizeof *core->ends + core->c.directory->most * sizeof core->ends->answers[0]);
    return core->ends != NULL ? 0 : BATON_ENOMEM;
}

void ends_destroy(struct core *core)
{
    if (core->ends == NULL)
        return;
    while (core->ends->endings != NULL)
        ending_free(core, core->ends->endings);
    for (uint32_t i = 0; i < core->c.directory->num_ranks; i++)
        ends_forget(core, i);
    free(core->ends);
}
