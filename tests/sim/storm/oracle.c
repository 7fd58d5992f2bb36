/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle: one end for every call; nothing writes into blocks that are not lent; what is told as done is what one offer
 * of that key had in its blocks, all of it; an offer is done only if every rank that takes from it was; limits hold.
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

/* Of the place, without the call: 16 bits. */
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
        for (uint32_t h = 0; h < g->head_count; h++)
            for (uint32_t t = 0; t < c->num_blocks * g->block_tokens; t++)
                for (uint32_t k = 0; k < g->head_size; k++)
                    visit(s, c, element(r, l, p, h, c->blocks[t / g->block_tokens], t % g->block_tokens, k), layer, p,
                          g->head_first + h, t, k, value);
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
        value = STORM_FREE; /* what lies behind the tokens offered is nobody's */
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
    uint32_t n = 0, total = r->geometry.num_blocks, first = storm_below(s, total);
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

/* The engine uses them again at once. */
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
    for (uint32_t b = 0; b < g->num_blocks; b++)
        for (uint32_t l = 0; l < g->num_tensors; l++)
            for (uint32_t p = 0; p < g->planes; p++)
                for (uint32_t h = 0; h < g->head_count; h++)
                    for (uint32_t t = 0; t < g->block_tokens; t++)
                        for (uint32_t k = 0; k < g->head_size; k++)
                            r->block_of[(element(r, l, p, h, b, t, k) - r->pool) / 4] = b;
}

void storm_check_write(struct storm *s, struct storm_rank *r, uint64_t offset)
{
    uint32_t block = r->block_of[offset / 4], owner = r->owner[block];
    const struct storm_call *c = owner != 0 ? &s->calls[owner - 1] : NULL;
    if (c == NULL || !c->is_want || (c->ended && !c->quarantined))
        storm_fail(s, "rank %u: block %u is written to, and it is %s", r->rank, block,
                   c == NULL     ? "free"
                   : !c->is_want ? "an offer's"
                                 : "reported");
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static uint32_t source[STORM_RANKS_MAX]; /* of the want that is looked at, by producer rank: the offer found so far */

static void is_right(struct storm *s, struct storm_call *c, uint8_t *at, uint32_t layer, uint32_t plane, uint32_t head,
                     uint32_t token, uint32_t channel, uint32_t unused)
{
    uint32_t found;
    (void)unused;
    memcpy(&found, at, sizeof found);
    if (token >= c->tokens || token < c->held) {
        uint32_t right = token >= c->tokens && c->zero_tail ? 0 : STORM_WANTED;
        if (found != right)
            storm_fail(s, "want %u: token %u is not one that moves, and has 0x%08x", c->number, token, found);
        return;
    }
    uint32_t number = found >> 16;
    const struct storm_call *o = number >= 1 && number <= s->num_calls ? &s->calls[number - 1] : NULL;
    if (o == NULL || o->is_want || (found & 0xffff) != place(layer, plane, head, token, channel))
        storm_fail(s, "want %u is done with 0x%08x at layer %u, plane %u, head %u, token %u, channel %u", c->number,
                   found, layer, plane, head, token, channel);
    else if (o->key != c->key || o->engine != c->engine || (o->ended && o->ended_ns < c->submitted_ns))
        storm_fail(s, "want %u of key k%u is done with the bytes of offer %u of key k%u", c->number, c->key, number,
                   o->key);
    else if (source[o->rank] != 0 && source[o->rank] != number)
        storm_fail(s, "want %u mixes the offers %u and %u of rank %u", c->number, source[o->rank], number, o->rank);
    else
        source[o->rank] = number;
}

static bool takes_from(struct storm *s, uint32_t consumer_rank, uint32_t producer_rank)
{
    bool reads[BATON_ENGINE_RANKS_MAX];
    const struct directory *d = s->directory;
    if (link_readers(s->ranks[producer_rank].core, d->engine_of[consumer_rank], d->engine_of[producer_rank],
                     d->index_of[producer_rank], reads) != 0)
        return false;
    return reads[d->index_of[consumer_rank]];
}

/* Whether that rank has a want that ended well with this very offer's bytes, or needed none of them. */
static bool was_served(const struct storm *s, const struct storm_call *o, uint32_t rank)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        if (c->is_want && c->rank == rank && c->key == o->key && c->engine == o->engine && c->ended &&
            c->status == BATON_STATUS_DONE &&
            (c->tokens <= c->held || c->from[o->rank] == o->number || c->from[o->rank] == 0))
            return true;
    }
    return false;
}

/* An offer that is done: of some engines, as many as it has seats, every rank that takes from it was served. */
static void check_offer_done(struct storm *s, const struct storm_call *o)
{
    const struct directory *d = s->directory;
    uint32_t served = 0;
    for (uint32_t e = 0; e < d->num_engines; e++) {
        uint32_t takers = 0, good = 0;
        for (uint32_t i = 0; i < d->engines[e].num_ranks && e != o->engine; i++)
            if (takes_from(s, d->engines[e].ranks[i], o->rank)) {
                takers++;
                good += was_served(s, o, d->engines[e].ranks[i]);
            }
        bool idle_release = takers == 0; /* nobody there takes from this rank: a word of its first rank is enough */
        served += e != o->engine && good == takers && (takers > 0 || idle_release);
    }
    if (served == 0)
        storm_fail(s, "offer %u is done, and no engine was served in full", o->number);
}

static void check_time(struct storm *s, const struct storm_call *c)
{
    uint64_t late = s->now - c->submitted_ns;
    uint64_t grace = 3 * s->slow_ns + 20 * STORM_MS; /* the words of a push's end, and what was under way */
    if (s->calm && c->is_want && late > c->time_ns + grace)
        storm_fail(s, "want %u ended %llu us after its deadline", c->number,
                   (unsigned long long)((late - c->time_ns) / STORM_US));
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

bool storm_hears(const struct storm *s, uint32_t rank)
{
    uint8_t verdicts = s->directory->rows[rank].verdicts;
    return verdicts == BATON_VERDICTS_ALL || (verdicts == BATON_VERDICTS_LEADER && s->directory->index_of[rank] == 0);
}

/* Whether that rank has a call of this key and verb that ended so. */
static bool has_ended(const struct storm *s, uint32_t rank, const char *key, bool is_want, baton_status_t status)
{
    for (uint32_t i = 0; i < s->num_calls; i++) {
        const struct storm_call *c = &s->calls[i];
        char name[8];
        snprintf(name, sizeof name, "k%u", c->key);
        if (c->rank == rank && c->is_want == is_want && c->ended && c->status == status && strcmp(name, key) == 0)
            return true;
    }
    return false;
}

/* Done for the engine: done by every rank of it. Not done: by the rank that is named, or that one is silent or lost. */
static void check_verdict(struct storm *s, struct storm_rank *r, const baton_event_t *e)
{
    const struct directory_engine *engine = &s->directory->engines[s->directory->engine_of[r->rank]];
    bool is_want = e->of == BATON_EVENT_WANT,
         silent = e->error == BATON_ETIMEDOUT || e->error == BATON_EPEER || e->error == BATON_EAGAIN;
    storm_say(s, "%u verdict on %llu (%s): status %d error %d of rank %d %s", r->rank, (unsigned long long)e->id,
              e->key, e->status, e->error, e->peer, e->detail);
    if (!storm_hears(s, r->rank))
        storm_fail(s, "rank %u hears a verdict and asked for none", r->rank);
    if ((e->status == BATON_STATUS_DONE) != (e->error == 0) || (e->status == BATON_STATUS_DONE) != (e->peer < 0))
        storm_fail(s, "rank %u: a verdict of status %d, error %d, rank %d", r->rank, e->status, e->error, e->peer);
    for (uint32_t i = 0; i < engine->num_ranks && e->status == BATON_STATUS_DONE; i++)
        if (engine->members[i].num_boxes > 0 && !has_ended(s, engine->ranks[i], e->key, is_want, BATON_STATUS_DONE))
            storm_fail(s, "rank %u hears that %s is done, and it is not at rank %u", r->rank, e->key, engine->ranks[i]);
    if (e->peer >= 0 && !silent && !has_ended(s, (uint32_t)e->peer, e->key, is_want, e->status))
        storm_fail(s, "rank %u hears that %s ended as %d at rank %d, and it did not", r->rank, e->key, e->status,
                   e->peer);
    if (e->id == 0)
        return;
    struct storm_call *c = &s->calls[e->id - 1];
    if (e->id > s->num_calls || c->rank != r->rank || c->is_want != is_want)
        storm_fail(s, "rank %u: a verdict on call %llu, which is none of its", r->rank, (unsigned long long)e->id);
    else if (++c->verdicts > 1)
        storm_fail(s, "call %u has two verdicts", c->number);
}

void storm_on_event(struct storm *s, struct storm_rank *r, const baton_event_t *e)
{
    if (e->type == BATON_EVENT_VERDICT) {
        check_verdict(s, r, e);
        return;
    }
    if (e->id == 0 || e->id > s->num_calls || s->calls[e->id - 1].rank != r->rank) {
        storm_fail(s, "rank %u: an event of call %llu, which is none of its", r->rank, (unsigned long long)e->id);
        return;
    }
    struct storm_call *c = &s->calls[e->id - 1];
    storm_say(s, "%u event %d of %u: status %d error %d%s %s", r->rank, e->type, c->number, e->status, e->error,
              e->quarantined ? " quarantined" : "", e->detail);
    if (e->type == BATON_EVENT_QUIET) {
        if (!c->quarantined)
            storm_fail(s, "call %u: quiet, and it was not in quarantine", c->number);
        c->quarantined = false;
        give_back(s, c);
        return;
    }
    if (c->ended)
        storm_fail(s, "call %u ended twice", c->number);
    if ((e->type == BATON_EVENT_WANT) != c->is_want)
        storm_fail(s, "call %u: an event of the wrong type", c->number);
    if ((e->status == BATON_STATUS_DONE) != (e->error == 0))
        storm_fail(s, "call %u: status %d with error %d", c->number, e->status, e->error);
    c->ended = true;
    c->quarantined = e->quarantined != 0;
    c->status = e->status;
    c->error = e->error;
    c->ended_ns = s->now;
    storm_cover_end(c);
    check_time(s, c);
    memset(source, 0, sizeof source);
    if (c->is_want && c->status == BATON_STATUS_DONE && c->tokens > c->held) {
        each(s, c, is_right, 0);
        c->from = malloc(sizeof source);
        memcpy(c->from, source, sizeof source);
    }
    if (!c->is_want && c->status == BATON_STATUS_DONE)
        check_offer_done(s, c);
    if (storm_chance(s, s->tangled ? 800 : 150))
        storm_again(s, c);
    if (!c->quarantined)
        give_back(s, c);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

void storm_check_limits(struct storm *s, struct storm_rank *r)
{
    const struct core *core = r->core;
    const struct settings *set = &s->settings;
    if (core->num_waiting > set->waiting || core->num_ended > set->tombstones ||
        leases_live(core->leases) > set->leases)
        storm_fail(s, "rank %u: %u waiting, %u tombstones, %u leases: past a limit", r->rank, core->num_waiting,
                   core->num_ended, leases_live(core->leases));
    if (core->num_unsent > 4 * set->requests)
        storm_fail(s, "rank %u: %u messages wait for credits", r->rank, core->num_unsent);
    if (core->inflight > set->inflight_bytes + 1536) /* a block is taken whole */
        storm_fail(s, "rank %u: %llu bytes in flight", r->rank, (unsigned long long)core->inflight);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* What touches memory of a rank that crashed elsewhere may never be told: those wait for close. */
static bool may_be_open(const struct storm *s, const struct storm_call *c)
{
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        bool other = s->directory->engine_of[i] == c->engine || !c->is_want;
        if (other && s->ranks[i].fate == STORM_CRASHED && s->path[c->rank * s->num_ranks + i] == BATON_PATH_RMA)
            return true;
    }
    return false;
}

void storm_check_end(struct storm *s)
{
    for (uint32_t i = 0; i < s->num_calls && !s->failed; i++) {
        const struct storm_call *c = &s->calls[i];
        if (s->ranks[c->rank].fate == STORM_CRASHED || may_be_open(s, c))
            continue;
        if (!c->ended)
            storm_fail(s, "%s %u of rank %u never ended", c->is_want ? "want" : "offer", c->number, c->rank);
        if (c->quarantined)
            storm_fail(s, "call %u of rank %u stays in quarantine", c->number, c->rank);
        bool owed = storm_hears(s, c->rank) && c->ended && c->error != BATON_EEXIST;
        if (s->ranks[c->rank].fate == STORM_RUNS && c->verdicts != owed)
            storm_fail(s, "call %u of rank %u has %u verdicts", c->number, c->rank, c->verdicts);
    }
    for (uint32_t i = 0; i < s->num_ranks && !s->failed; i++) {
        struct storm_rank *r = &s->ranks[i];
        storm_cover_rank(r);
        if (r->fate != STORM_RUNS)
            continue;
        bool open = false;
        for (uint32_t k = 0; k < s->num_calls; k++)
            open |= s->calls[k].rank == i && (!s->calls[k].ended || s->calls[k].quarantined);
        const struct core *core = r->core;
        if (!open && (core->num_live > 0 || core->wants != NULL || core->num_legs > 0 || core->num_pushes > 0 ||
                      core->inflight > 0 || core->run != NULL || core->serving > 0 || core->awaiting > 0 ||
                      leases_live(core->leases) > 0))
            storm_fail(s, "rank %u has no open call and yet %u offers, %u legs, %u pushes, %u leases", i,
                       core->num_live, core->num_legs, core->num_pushes, leases_live(core->leases));
    }
}
