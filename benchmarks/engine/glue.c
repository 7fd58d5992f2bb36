/* SPDX-License-Identifier: BSD-3-Clause */
/* glue: see glue.h. From top to bottom: the cache, the life of a context, the verbs, the events. */
#include "engine/glue.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory.h"
#include "replay/clock.h"

/* ---- the cache: Baton is told where this rank's blocks lie, and which layers and heads they have ----------------- */

static int describe(struct glue *g, const struct slice *slice, uint32_t num_blocks)
{
    const struct shape *s = &g->options->shape;
    const struct options_cache *cache = &g->options->cache[glue_side(g)];
    g->geometry = (baton_geometry_t){
        .size = sizeof g->geometry,
        .dtype = "fp32",
        .elem_bytes = sizeof(float),
        .planes = 2,
        .head_size = s->head_size,
        .layers_total = s->layers,
        .layer_first = slice->layer_first,
        .layer_count = slice->layer_count,
        .num_groups = 1,
        .groups = {{.block_tokens = cache->block_tokens, .num_blocks = num_blocks}},
        .num_splits = 1,
        .splits = {{.heads_total = s->kv_heads, .head_first = slice->kv_first, .head_count = slice->kv_count}}};
    snprintf(g->geometry.model, sizeof g->geometry.model, "llama-%llu", (unsigned long long)s->seed);
    return baton_geometry_layout(&g->geometry, g->tensors, cache->layout);
}

static char *base_of(const struct glue *g, uint32_t region)
{
    return g->own.count > 0 ? g->own.regions[region].base : baton_cache_base(g->cache);
}

/* The same for the model, which computes in these blocks. */
static void find_pages(struct glue *g)
{
    const baton_strides_t *stride = &g->tensors[0].stride;
    g->pages = (struct pages){
        .num_layers = g->geometry.layer_count,
        .num_heads = g->geometry.splits[0].head_count,
        .head_size = g->geometry.head_size,
        .block_tokens = g->geometry.groups[0].block_tokens,
        .num_blocks = g->geometry.groups[0].num_blocks,
        .block = stride->block,
        .plane = stride->plane,
        .head = stride->head,
        .token = stride->token,
    };
    for (uint32_t l = 0; l < g->pages.num_layers; l++)
        g->pages.layer[l] = base_of(g, g->tensors[l].region) + g->tensors[l].offset;
}

/* An engine that measures its memory first declares it after baton_start. */
static int declare(struct glue *g)
{
    if (memory_make(&g->own, &g->geometry, g->tensors) != 0)
        return BATON_ENOMEM;
    return baton_cache_wrap(g->baton, &g->geometry, g->own.regions, g->own.count, &g->cache);
}

/* ---- the life of a context --------------------------------------------------------------------------------------- */

/* Whether all ranks of an engine have this one's clock. */
static int is_here(struct glue *g, const baton_engine_t *e)
{
    baton_engine_rank_t *ranks = calloc(e->num_ranks, sizeof *ranks);
    const int count = ranks != NULL ? baton_engine_ranks(g->baton, e->name, ranks, (int)e->num_ranks) : BATON_ENOMEM;
    bool all = count > 0;
    for (int i = 0; i < count; i++)
        all &= ranks[i].distance < BATON_DISTANCE_WORLD;
    free(ranks);
    return count < 0 ? count : all;
}

/* Which engines there are: the router's list. */
static int meet_engines(struct glue *g)
{
    const int count = baton_engines(g->baton, NULL, NULL, 0);
    g->world = calloc((size_t)count, sizeof *g->world);
    g->engines[SIDE_PREFILL] = calloc((size_t)count, sizeof *g->engines[SIDE_PREFILL]);
    g->engines[SIDE_DECODE] = calloc((size_t)count, sizeof *g->engines[SIDE_DECODE]);
    if (g->world == NULL || g->engines[SIDE_PREFILL] == NULL || g->engines[SIDE_DECODE] == NULL)
        return BATON_ENOMEM;
    baton_engines(g->baton, NULL, g->world, count);
    g->one_machine = true;
    for (int i = 0; i < count; i++) {
        const baton_engine_t *e = &g->world[i];
        const enum side side = e->role == BATON_ROLE_PREFILL ? SIDE_PREFILL : SIDE_DECODE;
        if (strcmp(e->name, g->me.engine) == 0)
            g->number = g->num_engines[side];
        g->engines[side][g->num_engines[side]++] = e->name;
        const int here = is_here(g, e);
        if (here < 0)
            return here;
        g->one_machine &= here != 0;
    }
    return 0;
}

int glue_open(struct glue *g, const struct options *options, const struct load *load, const struct slice *slice,
              uint32_t num_blocks, struct why *why)
{
    g->options = options;
    g->load = load;
    g->own.kind = (enum memory_kind)options->cache[glue_side(g)].memory;
    const bool own = memory_is_own(&g->own);
    g->me.flags = own ? BATON_OPEN_CACHE_LATER : 0;
    int rc = describe(g, slice, num_blocks);
    if (rc == 0)
        rc = baton_open(MPI_COMM_WORLD, &g->me, &g->baton);
    if (rc == 0 && !own)
        rc = baton_cache_create(g->baton, &g->geometry, memory_word(&g->own), &g->cache);
    if (rc == 0)
        rc = baton_start(g->baton);
    if (rc == 0 && own)
        rc = declare(g);
    if (rc == 0)
        while ((rc = baton_cache_ready(g->baton)) == BATON_EAGAIN) /* each rank waits for the caches of all */
            clock_sleep_ns(NS_PER_MS);
    if (rc == 0)
        rc = meet_engines(g);
    if (rc < 0) {
        why_set(why, "%s: %s", baton_strerror(rc), baton_errmsg());
        return rc;
    }
    find_pages(g);
    return 0;
}

int glue_close(struct glue *g, struct why *why)
{
    g->stats = BATON_INIT(baton_stats_t);
    if (g->baton != NULL)
        baton_stats(g->baton, &g->stats);
    const int rc = g->baton != NULL ? baton_close(g->baton) : 0;
    g->baton = NULL;
    free(g->engines[SIDE_PREFILL]);
    free(g->engines[SIDE_DECODE]);
    free(g->world);
    if (rc < 0)
        why_set(why, "baton_close: %s: %s", baton_strerror(rc), baton_errmsg());
    else if (g->own.count > 0) /* after a failure, a peer may still be reading it */
        memory_drop(&g->own);
    return rc;
}

uint32_t glue_route(const struct glue *g, enum side side, uint32_t index)
{
    return (side == SIDE_PREFILL ? index : g->load->requests[index].root) % g->num_engines[side];
}

/* ---- the verbs --------------------------------------------------------------------------------------------------- */

struct key {
    char text[32];
};

/* Offer and want meet by it: a prompt's blocks, or those that a turn of a conversation leaves for the next one. */
static struct key key_of(bool of_turn, uint32_t index)
{
    struct key key;
    snprintf(key.text, sizeof key.text, "%s-%u", of_turn ? "turn" : "prompt", index);
    return key;
}

/* Says what Baton refused, and why. */
static bool accepted(struct glue *g, int rc)
{
    if (rc >= 0)
        return true;
    fprintf(stderr, "baton-serve: %s: %s: %s\n", g->me.engine, baton_strerror(rc), baton_errmsg());
    g->failures++;
    return false;
}

static void take(void *self, struct request *r, bool of_turn_before)
{
    struct glue *g = self;
    const enum side from = glue_side(g) == SIDE_PREFILL ? SIDE_DECODE : SIDE_PREFILL;
    const uint32_t first = r->in.from / g->pages.block_tokens;
    const uint32_t end = (r->in.until + g->pages.block_tokens - 1) / g->pages.block_tokens;
    const struct key key = key_of(of_turn_before, of_turn_before ? g->load->requests[r->index].parent : r->index);
    const baton_want_params_t want = {
        .size = sizeof want,
        .key = key.text,
        .engine = g->engines[from][glue_route(g, from, r->index)],
        .num_tables = end > first,
        .tables = {{.blocks = r->blocks + first, .num_blocks = end - first, .first_token = r->in.from}},
        .num_tokens = r->in.until,
        .held_tokens = r->in.from, /* of the prefix cache */
        .timeout_ms = g->options->timeout_ms,
        .mode = g->options->mode,
        .user = &r->in};
    r->in.begun_ns = clock_ns();
    if (!accepted(g, baton_want(g->baton, &want, &r->in.id)))
        r->in.mine = OUTCOME_FAILED; /* a call that is refused is a transfer that has failed */
}

static void offer(struct glue *g, struct request *r, struct key key, uint32_t flags, uint32_t num_blocks,
                  const void *attach, uint32_t bytes)
{
    const enum side to = glue_side(g) == SIDE_PREFILL ? SIDE_DECODE : SIDE_PREFILL;
    const uint32_t reader = to == SIDE_DECODE ? r->index : g->load->requests[r->index].child;
    const baton_offer_params_t params = {.size = sizeof params,
                                         .key = key.text,
                                         .num_tables = num_blocks > 0,
                                         .tables = {{.blocks = r->blocks, .num_blocks = num_blocks}},
                                         .num_tokens = r->out.until,
                                         .ttl_ms = g->options->timeout_ms,
                                         .num_consumers = 1,
                                         .consumers = &g->engines[to][glue_route(g, to, reader)],
                                         .attach = attach,
                                         .num_attach = bytes,
                                         .flags = flags,
                                         .user = &r->out};
    r->out.begun_ns = clock_ns();
    if (!accepted(g, baton_offer(g->baton, &params, &r->out.id)))
        r->out.mine = OUTCOME_FAILED;
}

static void give(void *self, struct request *r, bool to_turn_after, bool streamed, const void *attach, uint32_t bytes)
{
    struct glue *g = self;
    const uint32_t num_blocks = (r->out.until + g->pages.block_tokens - 1) / g->pages.block_tokens;
    const uint32_t flags = (g->options->stream & STREAM_LAYERS ? BATON_OFFER_LAYERS : 0) |
                           (g->options->stream & STREAM_CHUNKS ? BATON_OFFER_CHUNKS : 0);
    offer(g, r, key_of(to_turn_after, r->index), streamed ? flags : 0, num_blocks, attach, bytes);
}

/* Asks that a transfer ends. Its event still comes. */
static void withdraw(void *self, struct transfer *t)
{
    struct glue *g = self;
    if (t->id != 0) /* else the call was refused */
        accepted(g, baton_cancel(g->baton, t->id));
}

/* The reader's want fails at once, rather than at its deadline. */
static void refuse(void *self, struct request *r)
{
    offer(self, r, key_of(false, r->index), BATON_OFFER_CHUNKS, 0, NULL, 0);
    withdraw(self, &r->out);
}

/* On an offer that has ended, this and baton_ready do nothing. */
static void append(void *self, struct request *r, uint32_t tokens)
{
    struct glue *g = self;
    const baton_append_params_t params = {.size = sizeof params, .num_tokens = tokens};
    if (r->out.id != 0 && !accepted(g, baton_append(g->baton, r->out.id, &params)))
        withdraw(g, &r->out);
}

void glue_layer(struct glue *g, struct request *r, uint32_t layer, uint32_t count)
{
    const uint32_t until = r->computed + count;
    const bool chunks = (g->options->stream & STREAM_CHUNKS) != 0;
    if ((g->options->stream & STREAM_LAYERS) == 0 || r->out.id == 0 || (!chunks && until < r->out.until))
        return;
    if (!accepted(g, baton_ready(g->baton, r->out.id, layer, 1, chunks ? until : 0)))
        withdraw(g, &r->out);
}

static void renew(void *self, uint32_t block)
{
    struct glue *g = self;
    pages_poison(&g->pages, block);
}

struct carrier glue_carrier(struct glue *g)
{
    return (struct carrier){g, take, give, append, refuse, withdraw, renew};
}

/* ---- the events -------------------------------------------------------------------------------------------------- */

static void note(const baton_event_t *e)
{
    struct transfer *t = e->user;
    t->ended_ns = t->begun_ns + e->total_ns;
    if (e->type == BATON_EVENT_GIVEN_UP) {
        t->mine = OUTCOME_GIVEN_UP; /* the blocks stay Baton's until the terminal event */
        return;
    }
    t->mine = e->status == BATON_STATUS_DONE ? OUTCOME_DONE : OUTCOME_FAILED;
    t->num_attach = e->num_attach;
    memcpy(t->attach, e->attach, e->num_attach);
}

void glue_poll(struct glue *g)
{
    baton_event_t events[16];
    int n;
    while ((n = baton_poll(g->baton, events, 16)) > 0)
        for (int i = 0; i < n; i++)
            note(&events[i]);
    accepted(g, n);
}

void glue_wait(const struct glue *g, int ms)
{
    struct pollfd fd = {.fd = baton_event_fd(g->baton), .events = POLLIN};
    poll(&fd, 1, ms);
}
