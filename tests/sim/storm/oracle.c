/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle: every call ends once; nothing writes into blocks that are not lent; a want that is done has all the bytes of
 * one offer of its key, of the life of the engine that was meant, and what was attached to such an offer; an offer is
 * done only if every rank that takes from it was served; limits hold.
 */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint8_t *element(const struct storm_rank *r, uint32_t tensor, uint32_t plane, uint32_t head, uint32_t block,
                        uint32_t token, uint32_t channel)
{
    const baton_tensor_t *t = &r->tensors[tensor];
    return r->pool + t->offset + block * t->stride.block + plane * t->stride.plane + head * t->stride.head +
           token * t->stride.token + channel * t->stride.channel;
}

/* A hash of the place, without the call: 16 bits. */
static uint32_t place(uint32_t layer, uint32_t plane, uint32_t head, uint32_t token, uint32_t channel)
{
    return (uint32_t)(storm_hash((((layer * 2u + plane) * 64u + head) * 256u + token) * 8u + channel) & 0xffff);
}

typedef void visit_fn(struct storm *s, struct storm_call *c, uint8_t *at, uint32_t layer, uint32_t plane, uint32_t head,
                      uint32_t token, uint32_t channel, uint32_t value);

static void each_of(struct storm *s, struct storm_call *c, uint32_t layer, visit_fn *visit, uint32_t value)
{
    struct storm_rank *r = &s->ranks[c->rank];
    const baton_geometry_t *g = &r->geometry;
    uint32_t l = layer - g->layer_first;
    for (uint32_t p = 0; p < g->planes; p++)
        for (uint32_t h = 0; h < g->splits[0].head_count; h++)
            for (uint32_t t = 0; t < c->num_blocks * g->groups[0].block_tokens; t++)
                for (uint32_t k = 0; k < g->head_size; k++)
                    visit(
                        s, c,
                        element(r, l, p, h, c->blocks[t / g->groups[0].block_tokens], t % g->groups[0].block_tokens, k),
                        layer, p, g->splits[0].head_first + h, t, k, value);
}

static void each(struct storm *s, struct storm_call *c, visit_fn *visit, uint32_t value)
{
    const baton_geometry_t *g = &s->ranks[c->rank].geometry;
    for (uint32_t l = 0; l < g->layer_count; l++)
        each_of(s, c, g->layer_first + l, visit, value);
}

static void put(struct storm *s, struct storm_call *c, uint8_t *at, uint32_t layer, uint32_t plane, uint32_t head,
                uint32_t token, uint32_t channel, uint32_t value)
{
    (void)s;
    if (value == 0 && token >= c->begun)
        value = STORM_FREE; /* behind the offered tokens: nobody's */
    else if (value == 0)
        value = c->number << 16 | place(layer, plane, head, token, channel);
    memcpy(at, &value, sizeof value);
}

void storm_fill(struct storm *s, struct storm_call *c, uint32_t value)
{
    each(s, c, put, value);
}

void storm_fill_layer(struct storm *s, struct storm_call *c, uint32_t layer, uint32_t value)
{
    each_of(s, c, layer, put, value);
}

static void is_free(struct storm *s, struct storm_call *c, uint8_t *at, uint32_t layer, uint32_t plane, uint32_t head,
                    uint32_t token, uint32_t channel, uint32_t value)
{
    (void)plane, (void)channel;
    uint32_t found;
    memcpy(&found, at, sizeof found);
    if (found != value)
        storm_fail(s, "rank %u: 0x%08x in a block that lay free (taken for call %u: layer %u, head %u, token %u)",
                   c->rank, found, c->number, layer, head, token);
}

void storm_take_blocks(struct storm *s, struct storm_call *c)
{
    struct storm_rank *r = &s->ranks[c->rank];
    uint32_t n = 0, total = r->geometry.groups[0].num_blocks, first = storm_below(s, total);
    if (c->num_blocks == 0)
        return;
    c->blocks = malloc(c->num_blocks * sizeof *c->blocks);
    for (uint32_t i = 0; i < total && n < c->num_blocks; i++)
        if (r->owner[(first + i * 7) % total] == 0) {
            uint32_t b = (first + i * 7) % total;
            bool twice = false;
            for (uint32_t k = 0; k < n; k++)
                twice |= c->blocks[k] == b;
            if (!twice)
                c->blocks[n++] = b;
        }
    if (n < c->num_blocks) {
        free(c->blocks);
        c->blocks = NULL;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        r->owner[c->blocks[i]] = c->number;
    each(s, c, is_free, STORM_FREE);
}

/* The engine gets a call's blocks back, and uses them again at once. */
static void give_back(struct storm *s, struct storm_call *c)
{
    for (uint32_t i = 0; i < c->num_blocks; i++)
        s->ranks[c->rank].owner[c->blocks[i]] = 0;
    storm_fill(s, c, STORM_FREE);
}

void storm_map(struct storm_rank *r)
{
    const baton_geometry_t *g = &r->geometry;
    r->block_of = calloc(g->bytes / 4, sizeof *r->block_of);
    for (uint32_t b = 0; b < g->groups[0].num_blocks; b++)
        for (uint32_t l = 0; l < g->num_tensors; l++)
            for (uint32_t p = 0; p < g->planes; p++)
                for (uint32_t h = 0; h < g->splits[0].head_count; h++)
                    for (uint32_t t = 0; t < g->groups[0].block_tokens; t++)
                        for (uint32_t k = 0; k < g->head_size; k++)
                            r->block_of[(element(r, l, p, h, b, t, k) - r->pool) / 4] = b;
}

void storm_check_write(struct storm *s, struct storm_rank *r, uint64_t offset)
{
    uint32_t block = r->block_of[offset / 4], owner = r->owner[block];
    const struct storm_call *c = owner != 0 ? &s->calls[owner - 1] : NULL;
    if (c == NULL || !c->is_want || c->ended)
        storm_fail(s, "rank %u: block %u is written into, but it is %s", r->rank, block,
                   c == NULL     ? "free"
                   : !c->is_want ? "an offer's"
                                 : "reported");
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static uint32_t source[STORM_RANKS_MAX]; /* by producer rank: the offer whose bytes the want has */

static void is_right(struct storm *s, struct storm_call *c, uint8_t *at, uint32_t layer, uint32_t plane, uint32_t head,
                     uint32_t token, uint32_t channel, uint32_t unused)
{
    uint32_t found;
    (void)unused;
    memcpy(&found, at, sizeof found);
    if (token >= c->tokens || token < c->held) {
        uint32_t right = token >= c->tokens && c->zero_tail ? 0 : STORM_WANTED;
        if (found != right)
            storm_fail(s, "want %u: token %u must not move, but has 0x%08x", c->number, token, found);
        return;
    }
    uint32_t number = found >> 16;
    const struct storm_call *o = number >= 1 && number <= s->num_calls ? &s->calls[number - 1] : NULL;
    if (o == NULL || o->is_want || (found & 0xffff) != place(layer, plane, head, token, channel))
        storm_fail(s, "want %u is done with 0x%08x at layer %u, plane %u, head %u, token %u, channel %u", c->number,
                   found, layer, plane, head, token, channel);
    else if (o->key != c->key || o->attempt != c->attempt || o->engine != c->engine ||
             (o->answered_ns != 0 && o->answered_ns < c->submitted_ns))
        storm_fail(s, "want %u of key k%u is done with the bytes of offer %u of key k%u", c->number, c->key, number,
                   o->key);
    else if (source[o->rank] != 0 && source[o->rank] != number)
        storm_fail(s, "want %u mixes the offers %u and %u of rank %u", c->number, source[o->rank], number, o->rank);
    else
        source[o->rank] = number;
}

static bool holds(const struct storm *s, uint32_t rank, uint32_t layer, uint32_t head)
{
    const baton_geometry_t *g = &s->ranks[rank].geometry;
    return g->num_tensors > 0 && layer >= g->layer_first && layer < g->layer_first + g->layer_count &&
           head >= g->splits[0].head_first && head < g->splits[0].head_first + g->splits[0].head_count;
}

/*
 * Whether a producer rank's offer ends by a consumer rank: the two hold something in common, and the producer's engine
 * holds all that the consumer rank does. Found entry by entry from the caches alone, without the planner and the links.
 */
static bool takes_from(const struct storm *s, uint32_t consumer_rank, uint32_t producer_rank)
{
    const baton_geometry_t *g = &s->ranks[consumer_rank].geometry;
    const struct storm_life *producer = storm_life_of(s, producer_rank);
    bool any = false;
    for (uint32_t layer = g->layer_first; g->num_tensors > 0 && layer < g->layer_first + g->layer_count; layer++)
        for (uint32_t head = g->splits[0].head_first; head < g->splits[0].head_first + g->splits[0].head_count;
             head++) {
            bool is_there = false;
            for (uint32_t k = 0; k < producer->num_ranks; k++)
                is_there |= holds(s, producer->ranks[k], layer, head);
            if (!is_there)
                return false;
            any |= holds(s, producer_rank, layer, head);
        }
    return any;
}

/* Whether that rank has a want that ended well, with the bytes of this very offer or without need of any. */
static bool was_served(const struct storm *s, const struct storm_call *o, uint32_t rank)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (c->is_want && c->rank == rank && c->key == o->key && c->attempt == o->attempt && c->engine == o->engine &&
            c->ended && c->status == BATON_STATUS_DONE &&
            (c->tokens <= c->held || c->from[o->rank] == o->number || c->from[o->rank] == 0))
            return true;
    }
    return false;
}

/* An offer is done only if as many engines as it has seats were served: every rank of them that takes from it. */
static void check_offer_done(struct storm *s, const struct storm_call *o)
{
    uint32_t served = 0;
    for (uint32_t e = 0; e < s->num_lives; e++) {
        const struct storm_life *life = &s->lives[e];
        uint32_t takers = 0, good = 0;
        for (uint32_t i = 0; i < life->num_ranks && e != o->engine; i++)
            if (takes_from(s, life->ranks[i], o->rank)) {
                takers++;
                good += was_served(s, o, life->ranks[i]);
            }
        bool idle_release = takers == 0; /* no rank there takes from this one: a release is enough */
        served += e != o->engine && good == takers && (takers > 0 || idle_release);
    }
    if (served == 0)
        storm_fail(s, "offer %u is done, but no engine was served in full", o->number);
}

/* As long as it takes to send an end three more times if each message is delayed. */
#define UNHEARD_MS(s) (20 * (s)->settings.resend_ms + 20 * (s)->slow_ns / STORM_MS + 50)

/* Whether the offer must have heard the end of all wants of that rank: they came while it lived, and are long over. */
static bool has_told(const struct storm *s, const struct storm_call *o, uint32_t rank)
{
    bool told = false;
    if (s->ranks[rank].core->stats.ends_unanswered > 0)
        return false; /* it had no room for all the ends that it owed */
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (!c->is_want || c->rank != rank || c->key != o->key || c->attempt != o->attempt || c->engine != o->engine)
            continue;
        if (!c->ended || c->ended_ns + UNHEARD_MS(s) * STORM_MS > s->now)
            return false;
        told |= c->submitted_ns >= o->submitted_ns && (c->status != BATON_STATUS_FAILED || c->error == BATON_ETOKENS ||
                                                       c->error == BATON_EGONE || c->error == BATON_ECANCELED);
    }
    return told;
}

/* Whether all ranks of the two lives have known each other, and their own, for so long that no word can be unheard. */
static bool have_met(const struct storm *s, uint32_t one, uint32_t other)
{
    const struct storm_life *lives[2] = {&s->lives[one], &s->lives[other]};
    for (uint32_t i = 0; i < lives[0]->num_ranks + lives[1]->num_ranks; i++) {
        const uint32_t first = lives[0]->num_ranks;
        const struct storm_rank *r = &s->ranks[i < first ? lives[0]->ranks[i] : lives[1]->ranks[i - first]];
        if (r->fate != STORM_RUNS || r->closes || !storm_is_whole(r, one) || !storm_is_whole(r, other))
            return false;
        for (uint32_t k = 0; k < s->num_ranks; k++)
            if ((s->ranks[k].life == one || s->ranks[k].life == other) &&
                r->view[k].since_ns + UNHEARD_MS(s) * STORM_MS > s->now)
                return false;
    }
    return true;
}

/*
 * If only messages of ends are lost, no offer lives to its time once all ranks of the one engine that wanted it have
 * ended their wants.
 */
static void check_not_pinned(struct storm *s, const struct storm_call *o)
{
    uint32_t engine = DIRECTORY_NONE, takers = 0, told = 0;
    if (!s->deafened || o->seats != 1)
        return;
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (!c->is_want || c->key != o->key || c->attempt != o->attempt || c->engine != o->engine)
            continue;
        if (engine != DIRECTORY_NONE && s->ranks[c->rank].life != engine)
            return;
        engine = s->ranks[c->rank].life;
    }
    if (engine == DIRECTORY_NONE || (o->seat != DIRECTORY_NONE && o->seat != s->lives[engine].name) ||
        (s->changes && !have_met(s, o->engine, engine)))
        return;
    for (uint32_t i = 0; i < s->lives[engine].num_ranks; i++)
        if (takes_from(s, s->lives[engine].ranks[i], o->rank)) {
            takers++;
            told += has_told(s, o, s->lives[engine].ranks[i]);
        }
    if (takers > 0 && told == takers)
        storm_fail(s, "offer %u of rank %u lived to its time, though all wants for it had ended", o->number, o->rank);
}

void storm_note_answer(struct storm *s, uint32_t rank, const struct wire_message *m)
{
    struct storm_call *c = storm_call_of(s, m->want_id);
    if (c == NULL)
        return;
    uint64_t *gone_ns = &c->gone_ns[rank];
    if (m->type == WIRE_NACK && m->nack.error == BATON_EGONE)
        *gone_ns = s->now;
    else if (m->type == WIRE_GRANT || m->type == WIRE_WRITTEN)
        *gone_ns = 0;
}

/* Until when something was known of the attempt of an offer, if anything was at that time. */
static uint64_t known_until(const struct storm *s, const struct storm_call *o, uint64_t at_ns)
{
    uint64_t until = at_ns;
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        const bool was_refused = c->status == BATON_STATUS_FAILED && c->ended_ns == c->submitted_ns;
        if (c->is_want || c->rank != o->rank || c->key != o->key || c->attempt != o->attempt || c == o || !c->ended ||
            was_refused || c->submitted_ns >= at_ns)
            continue;
        const uint64_t tombstone_ns = c->ended_ns + s->settings.tombstone_ms * STORM_MS;
        until = tombstone_ns > until ? tombstone_ns : until;
    }
    return until;
}

/* Whether an offer or its tombstone stood at each moment from then on until this one came. */
static bool is_remembered(const struct storm *s, const struct storm_call *o, uint64_t since_ns)
{
    uint64_t at_ns = since_ns, until;
    while ((until = known_until(s, o, at_ns)) > at_ns && until <= o->submitted_ns)
        at_ns = until;
    return until > o->submitted_ns;
}

/* Whether a newer attempt was offered there: its tombstone answers for this one too. */
static bool is_outdated(const struct storm *s, const struct storm_call *o)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (!c->is_want && c->rank == o->rank && c->key == o->key && c->attempt > o->attempt)
            return true;
    }
    return false;
}

/*
 * A want that was meant for a former offer, as its producer said, does not end the next one of that key, as long as its
 * producer remembers.
 */
static void check_spared(struct storm *s, const struct storm_call *o, int32_t by)
{
    uint32_t meant = 0, former = 0;
    if (s->settings.tombstones < STORM_KEYS_MAX || is_outdated(s, o))
        return;
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (!c->is_want || (int32_t)c->rank != by || c->key != o->key || c->attempt != o->attempt ||
            c->engine != o->engine || (c->answered_ns != 0 && c->error != o->error))
            continue; /* another one that is open may have said so */
        const uint64_t gone_ns = c->gone_ns[o->rank];
        meant++;
        former += gone_ns != 0 && gone_ns <= o->submitted_ns && is_remembered(s, o, gone_ns);
    }
    if (meant > 0 && former == meant)
        storm_fail(s, "offer %u of rank %u was ended by rank %d, whose want was meant for a former offer", o->number,
                   o->rank, by);
}

/*
 * Where a rank is told late of words, its offer may read a reader's first when its time is over. The word says how long
 * the want had when it began, and the offer goes on for so long from then on.
 */
static uint64_t read_late_ns(const struct storm *s, const struct storm_call *offer, const struct storm_call *want)
{
    const struct storm_rank *r = &s->ranks[offer->rank];
    return r->port.handoff == &r->late_words ? offer->last_word_ns + offer->time_ns + want->time_ns : 0;
}

/* An offer's time begins anew with each call about it, and is as long as that of any want that it may have granted. */
static uint64_t due_of(const struct storm *s, const struct storm_call *c)
{
    uint64_t due = c->last_word_ns + c->time_ns,
             on_its_way = 4 * s->slow_ns + 2 * STORM_MS; /* the message may wait for credits */
    for (uint32_t i = 0; i < s->num_calls && !c->is_want; i++) {
        const struct storm_call *w = &s->calls[i];
        uint64_t until = w->submitted_ns + w->time_ns, late = read_late_ns(s, c, w);
        until = (late > until ? late : until) + on_its_way;
        if (w->is_want && w->key == c->key && w->attempt == c->attempt && w->engine == c->engine &&
            w->submitted_ns < due && until > due)
            due = until;
    }
    return due;
}

/* Nobody expires by what it has not heard: all that came before its time was over has been handed over. */
static void check_heard(struct storm *s, const struct storm_call *c)
{
    if (storm_has_unread(s, c->rank, c->last_word_ns + c->time_ns))
        storm_fail(s, "call %u of rank %u expired, and what had come to that rank before lay unread", c->number,
                   c->rank);
}

/* Whether that leg took a lease of that offer, which has ended by its time though the want may go on for long. */
static bool is_cut_off(struct storm *s, const struct storm_rank *reader, struct leg *leg, const struct storm_call *o)
{
    const struct port_handoff *hand = reader->port.handoff;
    const struct storm_call *want = storm_call_of(s, leg->ask->want);
    const uint32_t rank = reader->view[o->rank].rank;
    const uint64_t due = atomic_load_explicit(&leg->ask->call->due_ns, memory_order_relaxed);
    int why = 0;
    return want->key == o->key && want->attempt == o->attempt && leg->has_taken && leg_rank(leg) == rank &&
           leg->state == LEG_MOVING && due > s->now + 2 * STORM_MS &&
           leg->generation != s->ranks[o->rank].board[leg->slot] &&
           hand->why(hand->self, rank, leg->slot, leg->generation, &why) && why == BATON_ETIMEDOUT;
}

/* Whether that rank wanted the same before: a message about that may have ended its part of this offer. */
static bool wanted_before(const struct storm *s, const struct storm_call *o, uint32_t rank, uint32_t number)
{
    for (uint32_t i = 0; i + 1 < number; i++) {
        const struct storm_call *c = &s->calls[i];
        if (c->is_want && c->rank == rank && c->key == o->key && c->attempt == o->attempt && c->engine == o->engine)
            return true;
    }
    return false;
}

/*
 * Nor does an offer expire under a rank of its node that reads it: its word stands there, heard or not. Who reads may
 * take long to find out, but for quiet_ms the offer waits for that.
 */
static void check_readers(struct storm *s, const struct storm_call *o)
{
    const uint64_t waited = o->last_word_ns + o->time_ns + s->settings.quiet_ms * STORM_MS;
    if (survey_is_open(s->ranks[o->rank].core) && s->now >= waited)
        return;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        const struct storm_rank *reader = &s->ranks[i];
        if (reader->port.handoff == NULL || reader->fate == STORM_CRASHED || reader->fate == STORM_AWAITED ||
            !storm_is_whole(&s->ranks[o->rank], reader->life) || reader->view[o->rank].rank == DIRECTORY_NONE)
            continue;
        for (struct want *want = reader->core->wants->by_id; want != NULL; want = want->by_id.next)
            for (uint32_t k = 0; want->legs != NULL && k < want->ask.num_legs; k++)
                if (is_cut_off(s, reader, leg_at(want->legs, k), o) &&
                    !wanted_before(s, o, i, storm_call_of(s, want->ask.want)->number))
                    storm_fail(s, "offer %u of rank %u expired under rank %u, which reads it", o->number, o->rank, i);
    }
}

/*
 * A want of an engine that has gone ends at once, or, as long as its blocks are not quiet, is given up quiet_ms later:
 * from when its rank heard of it, or made the want, if it did not know yet when it looked the engine up.
 */
static uint64_t end_by_going(const struct storm *s, const struct storm_call *c, uint64_t due)
{
    const uint64_t gone_ns = storm_gone_ns(s, &s->ranks[c->rank], c->engine);
    const uint64_t end = gone_ns > c->submitted_ns ? gone_ns : c->submitted_ns;
    return end < due ? end : due;
}

/* Every call is answered in time by a rank that was never stopped; messages to that rank may have had to wait. */
static void check_time(struct storm *s, const struct storm_call *c)
{
    bool waited = s->tangled || s->loss > 0;
    for (uint32_t i = 0; i < s->num_ranks; i++)
        waited |= s->ranks[i].was_stopped;
    uint64_t due = due_of(s, c);
    if (c->is_want && storm_gone_ns(s, &s->ranks[c->rank], c->engine) != 0)
        due = end_by_going(s, c, due);
    due += s->settings.quiet_ms * STORM_MS;
    due += s->deafened ? UNHEARD_MS(s) * STORM_MS : 0;
    due += s->lends ? storm_left_ns(s) : 0; /* for which its event may be held back */
    if (!c->is_want) /* it may wait so long until it is known who reads, which is looked at so often */
        due += (s->seed % 4 == 0 ? s->settings.quiet_ms * STORM_MS : 0) + s->ranks[c->rank].core->works.pause_ns;
    if (s->ranks[c->rank].was_stopped || (!c->is_want && waited))
        return;
    if (s->now > due)
        storm_fail(s, "%s %u is answered %llu us late", c->is_want ? "want" : "offer", c->number,
                   (unsigned long long)((s->now - due) / STORM_US));
}

/* A want hears that its offer is gone only if an offer of its attempt, or of a later one, was there. */
static void check_gone(struct storm *s, const struct storm_call *c)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *o = &s->calls[i];
        if (!o->is_want && o->key == c->key && o->engine == c->engine && o->attempt >= c->attempt)
            return;
    }
    storm_fail(s, "want %u of key k%u, attempt %u: gone, but no offer of that or a later attempt was ever there",
               c->number, c->key, c->attempt);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

bool storm_hears(const struct storm *s, uint32_t rank)
{
    const struct storm_rank *r = &s->ranks[rank];
    return r->verdicts == BATON_VERDICTS_ALL || (r->verdicts == BATON_VERDICTS_LEADER && r->index == 0);
}

/* The same of an event that is held back by a turn that was lent. */
static bool is_held(const struct storm_rank *r, const char *key, bool is_want, baton_status_t status)
{
    for (const struct queued *q = r->core->outcomes.due.first; q != NULL; q = q->next) {
        const baton_event_t *e = &outcome_of_due(q)->event;
        const baton_event_type_t of = e->type == BATON_EVENT_GIVEN_UP ? e->of : e->type;
        if (of == (is_want ? BATON_EVENT_WANT : BATON_EVENT_OFFER) && e->status == status && strcmp(e->key, key) == 0)
            return true;
    }
    return false;
}

/* Whether that rank has a call of this key and verb that ended so. */
static bool has_ended(const struct storm *s, uint32_t rank, const char *key, bool is_want, baton_status_t status)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        char name[8];
        snprintf(name, sizeof name, "k%u", c->key);
        if (c->rank == rank && c->is_want == is_want && c->answered_ns != 0 && c->status == status &&
            strcmp(name, key) == 0)
            return true;
    }
    return is_held(&s->ranks[rank], key, is_want, status);
}

/* The rank that an event names; -1: none. */
static int32_t peer_of(const struct storm *s, const baton_event_t *e)
{
    uint32_t i = 0;
    while (i < s->num_ranks && s->ranks[i].number != e->peer)
        i++;
    return i < s->num_ranks ? (int32_t)i : -1;
}

/*
 * A verdict says done only if every rank of the engine is done. Else the rank that it names is not done, or is silent
 * or lost.
 */
static void check_verdict(struct storm *s, struct storm_rank *r, const baton_event_t *e)
{
    const struct storm_life *engine = storm_life_of(s, r->rank);
    bool is_want = e->of == BATON_EVENT_WANT,
         silent = e->error == BATON_ETIMEDOUT || e->error == BATON_EPEER || e->error == BATON_EAGAIN;
    const int32_t peer = peer_of(s, e);
    storm_say(s, "%u verdict on %llu (%s): status %d error %d of rank %d %s", r->rank, (unsigned long long)e->id,
              e->key, e->status, e->error, peer, e->detail);
    if (!storm_hears(s, r->rank))
        storm_fail(s, "rank %u hears a verdict but asked for none", r->rank);
    if ((e->status == BATON_STATUS_DONE) != (e->error == 0) || (e->status == BATON_STATUS_DONE) != (peer < 0))
        storm_fail(s, "rank %u: a verdict of status %d, error %d, rank %d", r->rank, e->status, e->error, peer);
    for (uint32_t i = 0; i < engine->num_ranks && e->status == BATON_STATUS_DONE; i++)
        if (s->ranks[engine->ranks[i]].geometry.num_tensors > 0 &&
            !has_ended(s, engine->ranks[i], e->key, is_want, BATON_STATUS_DONE))
            storm_fail(s, "rank %u hears that %s is done, but it is not done at rank %u", r->rank, e->key,
                       engine->ranks[i]);
    if (peer >= 0 && !silent && !has_ended(s, (uint32_t)peer, e->key, is_want, e->status))
        storm_fail(s, "rank %u hears that %s ended as %d at rank %d, but it did not", r->rank, e->key, e->status, peer);
    if (e->id == 0)
        return;
    struct storm_call *c = storm_call_of(s, e->id);
    if (c == NULL || c->rank != r->rank || c->is_want != is_want)
        storm_fail(s, "rank %u: a verdict on call %llu, which it has not made", r->rank, (unsigned long long)e->id);
    else if (++c->verdicts > 1)
        storm_fail(s, "call %u has two verdicts", c->number);
}

/* The attached bytes name an offer whose bytes this want has. */
static void check_attached(struct storm *s, const struct storm_call *c, const baton_event_t *e)
{
    uint32_t number = 0;
    bool served = false;
    if (e->num_attach == sizeof number)
        memcpy(&number, e->attach, sizeof number);
    for (uint32_t i = 0; i < s->num_ranks; i++)
        served |= number != 0 && c->from[i] == number;
    if (!served)
        storm_fail(s, "want %u has %u attached bytes, of offer %u, which did not serve it", c->number, e->num_attach,
                   number);
}

void storm_on_event(struct storm *s, struct storm_rank *r, const baton_event_t *e)
{
    if (e->type == BATON_EVENT_VERDICT) {
        check_verdict(s, r, e);
        return;
    }
    struct storm_call *c = storm_call_of(s, e->id);
    if (c == NULL || c->rank != r->rank) {
        storm_fail(s, "rank %u: an event of call %llu, which it has not made", r->rank, (unsigned long long)e->id);
        return;
    }
    storm_say(s, "%u event %d of %u: status %d error %d%s %s", r->rank, e->type, c->number, e->status, e->error,
              e->given_up ? " given up before" : "", e->detail);
    bool gives_up = e->type == BATON_EVENT_GIVEN_UP;
    if (c->ended || (gives_up && c->given_up))
        storm_fail(s, "call %u ended, or was given up, twice", c->number);
    if (((gives_up ? e->of : e->type) == BATON_EVENT_WANT) != c->is_want)
        storm_fail(s, "call %u: an event of the wrong type", c->number);
    if ((e->status == BATON_STATUS_DONE) != (e->error == 0) || (gives_up && e->error == 0))
        storm_fail(s, "call %u: status %d with error %d", c->number, e->status, e->error);
    if (e->given_up != c->given_up || (c->given_up && (e->status != c->status || e->error != c->error)))
        storm_fail(s, "call %u ends as %d, error %d, but was given up as %d, error %d", c->number, e->status, e->error,
                   c->status, c->error);
    if (c->given_up) { /* the engine has its blocks back */
        c->ended = true;
        storm_cover_end(c);
        give_back(s, c);
        return;
    }
    if (e->attempt != c->attempt)
        storm_fail(s, "call %u: an event of attempt %u", c->number, e->attempt);
    c->ended = !gives_up;
    c->ended_ns = s->now;
    c->given_up = gives_up;
    c->status = e->status;
    c->error = e->error;
    c->answered_ns = s->now;
    storm_cover_end(c);
    if (c->is_want && c->error == BATON_EINVAL)
        storm_fail(s, "want %u is refused, but nothing is wrong with it: %s", c->number, e->detail);
    if (c->is_want && c->error == BATON_EMESSAGE && s->damaged == 0 && s->forged == 0) /* of who serves whom, say */
        storm_fail(s, "want %u fails, since both sides are not of one opinion: %s", c->number, e->detail);
    check_time(s, c);
    memset(source, 0, sizeof source);
    if (c->is_want && c->status == BATON_STATUS_DONE && c->tokens > c->held) {
        each(s, c, is_right, 0);
        c->from = malloc(sizeof source);
        memcpy(c->from, source, sizeof source);
        check_attached(s, c, e);
    }
    if (e->num_attach != 0 && !(c->is_want && c->ended && c->status == BATON_STATUS_DONE))
        storm_fail(s, "call %u is not a want that is done, and its event has attached bytes", c->number);
    s->num_unchecked += c->is_unchecked = !c->is_want && c->status == BATON_STATUS_DONE;
    if (c->is_want && c->error == BATON_EGONE)
        check_gone(s, c);
    if (c->status == BATON_STATUS_EXPIRED)
        check_heard(s, c);
    if (!c->is_want && c->status == BATON_STATUS_EXPIRED) {
        check_not_pinned(s, c);
        check_readers(s, c);
    }
    if (!c->is_want && c->error == BATON_EGONE)
        check_spared(s, c, peer_of(s, e));
    if (storm_chance(s, s->tangled ? 800 : 150))
        storm_again(s, c);
    if (c->ended)
        give_back(s, c);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Words that wait at a rank and say that a want has ended. */
static uint32_t ended_words(const struct core *core)
{
    uint32_t n = 0;
    for (const struct attempt *a = attempts_next(core, NULL); a != NULL; a = attempts_next(core, a))
        for (uint32_t i = 0; i < core->c.directory->num_ranks; i++) {
            const struct word *word = waiter_word(a, i);
            n += word != NULL && word->release;
        }
    return n;
}

void storm_check_limits(struct storm *s, struct storm_rank *r)
{
    const struct core *core = r->core;
    const struct settings *set = &s->settings;
    const uint32_t live = core->early->kept[EARLY_LIVE], ended = core->early->kept[EARLY_ENDED];
    const uint32_t tombstones = core->attempts->num_ended;
    if (live + ended > 0 && ended_words(core) != ended)
        storm_fail(s, "rank %u: words of ended wants have the places of others", r->rank);
    if (live > set->waiting || ended > set->tombstones || tombstones > set->tombstones ||
        leases_live(core->leases) > set->leases)
        storm_fail(s, "rank %u: %u waiting, %u tombstones, %u leases: more than a limit", r->rank, live + ended,
                   tombstones, leases_live(core->leases));
    if (ends_owed(core) > 2 * set->requests)
        storm_fail(s, "rank %u: the ends of %u wants are owed", r->rank, ends_owed(core));
    if (post_waiting(core->post) > 4 * set->requests + s->num_ranks) /* each peer has a place for one */
        storm_fail(s, "rank %u: %u messages wait for credits", r->rank, post_waiting(core->post));
    uint64_t copied = budget_held(&core->movers->copies), far = budget_held(&core->movers->rma);
    uint64_t most_copied = storm_limit(s, BATON_PATH_SHM), most_far = storm_limit(s, BATON_PATH_RMA);
    if (copied > most_copied + most_copied / 4 + 1536 ||
        far > most_far + most_far / 4 + 1536) /* a block is taken whole */
        storm_fail(s, "rank %u: %llu bytes copied, %llu in flight", r->rank, (unsigned long long)copied,
                   (unsigned long long)far);
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* While a rank holds events back, wants may be done that were not told yet. */
void storm_check_done(struct storm *s)
{
    bool is_held = false;
    for (uint32_t i = 0; i < s->num_ranks && s->num_unchecked > 0; i++)
        is_held |= beside_owes(s->ranks[i].beside);
    for (uint32_t i = 0; i < s->num_calls && s->num_unchecked > 0 && !is_held; i++) {
        if (!s->calls[i].is_unchecked)
            continue;
        s->calls[i].is_unchecked = false;
        s->num_unchecked--;
        check_offer_done(s, &s->calls[i]);
    }
}

/* Whether a rank has known another one for so long that it must have answered it. */
static bool has_known(const struct storm_rank *r, const struct storm_rank *other, uint64_t answer_ns)
{
    const struct storm_view *view = &r->view[other->rank];
    return !r->storm->changes || (view->rank != DIRECTORY_NONE && r->storm->now > view->since_ns + answer_ns);
}

/*
 * A rank that was stopped itself blames nobody for the silence: it may give up only ranks that are stopped or gone, or
 * were until just now. Where beats are lost or damaged, or take as long as a peer may be silent, nothing is checked.
 */
void storm_check_losses(struct storm *s, struct storm_rank *r)
{
    const struct settings *set = &s->settings;
    uint64_t answer_ns = 4 * s->slow_ns + (4 * set->beat_ms + 2) * STORM_MS;
    if (r->core->stats.peers_lost == r->losses)
        return;
    r->losses = r->core->stats.peers_lost;
    for (uint32_t i = 0; i < r->directory->num_ranks; i++) {
        const struct peer *p = r->core->peers->by_rank[i];
        if (p == NULL || !p->lost || p->lost_ns != s->now)
            continue;
        const struct storm_rank *other = &s->ranks[r->member_at[i]];
        if (p->dead && other->fate != STORM_CRASHED)
            storm_fail(s, "rank %u takes rank %u for dead, but it is not", r->rank, other->rank);
        if (other->fate == STORM_RUNS && s->loss == 0 && s->damaged == 0 && answer_ns < set->peer_ms * STORM_MS &&
            (other->resumed_ns == 0 || s->now > other->resumed_ns + answer_ns) && has_known(other, r, answer_ns))
            storm_fail(s, "rank %u gives up rank %u, which has answered all the time", r->rank, other->rank);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/*
 * Operations on memory of a rank that crashed on another node, and operations that failed half-way, may never complete:
 * their calls stay open until close.
 */
static bool may_be_open(const struct storm *s, const struct storm_call *c)
{
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].has_stray > 0)
            return true;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        bool other = s->ranks[i].life == c->engine || !c->is_want;
        if (other && s->ranks[i].fate == STORM_CRASHED && s->path[c->rank * s->num_ranks + i] == BATON_PATH_RMA)
            return true;
    }
    return false;
}

void storm_check_end(struct storm *s)
{
    for (uint32_t i = 0; i < s->num_calls && !s->failed; i++) {
        const struct storm_call *c = &s->calls[i];
        if (s->ranks[c->rank].fate == STORM_CRASHED)
            continue;
        if (c->answered_ns == 0)
            storm_fail(s, "%s %u of rank %u is never answered", c->is_want ? "want" : "offer", c->number, c->rank);
        if (!c->ended && !may_be_open(s, c))
            storm_fail(s, "%s %u of rank %u never ended", c->is_want ? "want" : "offer", c->number, c->rank);
        bool owed = storm_hears(s, c->rank) && c->error != BATON_EEXIST;
        if (s->ranks[c->rank].fate == STORM_RUNS && !s->ranks[c->rank].closes && c->verdicts != owed)
            storm_fail(s, "call %u of rank %u has %u verdicts", c->number, c->rank, c->verdicts);
    }
    for (uint32_t i = 0; i < s->num_ranks && !s->failed; i++) {
        struct storm_rank *r = &s->ranks[i];
        if (r->fate == STORM_AWAITED)
            continue;
        storm_cover_rank(r);
        if (r->fate != STORM_RUNS)
            continue;
        if (s->changes)
            storm_check_members(s, r);
        bool open = false;
        for (uint32_t k = 0; k < s->num_calls; k++)
            open |= s->calls[k].rank == i && !s->calls[k].ended;
        const struct core *core = r->core;
        bool has_room = s->settings.tombstones / 4 >= s->num_ranks * s->num_keys; /* for words that offers never meet */
        if (s->calm && !s->tries && has_room && ends_owed(core) > 0)
            storm_fail(s, "rank %u: the ends of %u wants are never answered", i, ends_owed(core));
        if (!open &&
            (offers_open(core) > 0 || wants_open(core) > 0 || wants_legs(core) > 0 || core->ops.num[OP_PUSH] > 0 ||
             budget_held(&core->movers->copies) > 0 || budget_held(&core->movers->rma) > 0 || movers_wait(core) ||
             core->serving > 0 || leases_live(core->leases) > 0))
            storm_fail(s, "rank %u has no open call, but %u offers, %u legs, %u pushes, %u leases", i,
                       offers_open(core), wants_legs(core), core->ops.num[OP_PUSH], leases_live(core->leases));
    }
}
