/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic: see scale.h. Half of the engines prefill, half decode. A decode engine takes its requests from a few prefill
 * engines, as behind a router that keeps requests near; which ones is random. Each request is offered and wanted on all
 * ranks when it arrives. Lengths and pauses are random.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scale.h"
#include "verdict/verdict.h"
#include "wire/card.h"
#include "wire/row.h"

#define PEERS 6u
#define PAUSE_NS (10 * SCALE_MS) /* of a decode engine between two requests, on average */
#define TOKENS_LEAST 16u
#define TOKENS_MOST 1024u
#define BLOCK_TOKENS 16u
#define NUM_BLOCKS 8192u
#define BLOCK_STEP 4051u /* between two blocks of a request: no divisor of their number */
#define LAYERS 2u
#define LEASES 256u        /* fewer than the default: each core reserves them */
#define TOMBSTONE_MS 1000u /* less than the default, so that worlds of 10,000 cores fit into memory */
#define ARENA_BYTES 65536u
#define BOARD_OFFSET 4096u
#define ARENA_OFFSET (UINT32_C(1) << 20)
#define CARD_OFFSET (UINT32_C(1) << 30)
#define REST_MS 10000u /* until all that was remembered for a time is forgotten */

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(struct scale *s)
{
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* A member's number is one more than its rank. */
int scale_card(const struct scale *s, uint32_t rank, uint8_t *out, uint32_t room)
{
    const struct scale_cache *c = &s->cache[rank % SCALE_TP];
    const struct wire_card card = {.member = rank + 1,
                                   .board_offset = BOARD_OFFSET,
                                   .board_slots = LEASES,
                                   .arena_offset = ARENA_OFFSET,
                                   .arena_bytes = ARENA_BYTES,
                                   .pool_bytes = c->geometry.bytes,
                                   .has_geometry = true,
                                   .geometry = c->geometry};
    return wire_card_encode(&card, out, room);
}

static bool make_cache(struct scale *s, uint32_t tp_rank)
{
    struct scale_cache *c = &s->cache[tp_rank];
    baton_geometry_t *g = &c->geometry;
    *g = (baton_geometry_t){.size = sizeof *g,
                            .model = "model",
                            .dtype = "bf16",
                            .elem_bytes = 2,
                            .planes = 2,
                            .head_size = 128,
                            .num_groups = 1,
                            .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = NUM_BLOCKS}},
                            .num_splits = 1,
                            .splits = {{.heads_total = SCALE_TP, .head_first = tp_rank, .head_count = 1}},
                            .layers_total = LAYERS,
                            .layer_count = LAYERS};
    c->tensors = calloc(LAYERS, sizeof *c->tensors);
    uint8_t *room = malloc(WIRE_CARD_MAX);
    int bytes = 0;
    if (c->tensors != NULL && room != NULL && baton_geometry_layout(g, c->tensors, 0) == 0)
        bytes = scale_card(s, tp_rank, room, WIRE_CARD_MAX);
    free(room);
    c->card_bytes = bytes > 0 ? (uint32_t)bytes : 0;
    return bytes > 0;
}

/* Each engine has a node, and so a host. Prefill engines come first. */
static void make_row(const struct scale *s, uint32_t rank, uint8_t *out)
{
    const uint32_t engine = rank / SCALE_TP, tp_rank = rank % SCALE_TP;
    struct wire_row row = {.role = engine < s->num_sides ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE,
                           .tp = SCALE_TP,
                           .pp = 1,
                           .tp_rank = (uint16_t)tp_rank,
                           .node = engine,
                           .num_boxes = 1,
                           .box = {{0, LAYERS, tp_rank, 1, 0}},
                           .number = rank + 1,
                           .card_offset = CARD_OFFSET,
                           .card_bytes = s->cache[tp_rank].card_bytes,
                           .rules = PLAN_RULES};
    snprintf(row.engine, sizeof row.engine, "engine%u", engine);
    snprintf(row.host, sizeof row.host, "node%05u.cluster.example", engine);
    wire_row_encode(&row, out);
}

static bool make_directory(struct scale *s, char why[640])
{
    struct plan_why plan_why;
    struct bytes bytes = {0};
    uint8_t *rows = malloc((size_t)s->num_ranks * WIRE_ROW_BYTES);
    if (rows == NULL)
        return snprintf(why, 640, "no memory for the rows"), false;
    for (uint32_t i = 0; i < s->num_ranks; i++)
        make_row(s, i, rows + (size_t)i * WIRE_ROW_BYTES);
    bytes_of(&bytes);
    const int rc = directory_of_world(rows, s->num_ranks, &s->directory, &plan_why);
    bytes_of(NULL);
    s->directory_bytes = bytes.now;
    free(rows);
    return rc == 0 || (snprintf(why, 640, "no directory: %s", plan_why.text), false);
}

static bool make_rank(struct scale *s, uint32_t rank)
{
    struct scale_rank *r = &s->ranks[rank];
    const struct core_config config = {.settings = &s->settings,
                                       .directory = s->directory,
                                       .self = rank,
                                       .geometry = &s->cache[rank % SCALE_TP].geometry,
                                       .path = s->path,
                                       .path_out = s->path,
                                       .arena = r->arena = calloc(1, ARENA_BYTES),
                                       .arena_bytes = ARENA_BYTES,
                                       .port = &r->port,
                                       .log = &s->log};
    r->scale = s;
    r->rank = rank;
    r->timer_ns = UINT64_MAX;
    r->board = calloc(LEASES, sizeof *r->board);
    r->met = calloc(1, s->num_ranks / 8 + 1);
    if (r->arena == NULL || r->board == NULL || r->met == NULL)
        return false;
    scale_port(r);
    bytes_of(&r->bytes);
    const bool good = core_create(&config, &r->core) == 0 && verdicts_create(r->core) == 0;
    bytes_of(NULL);
    r->bytes_at_start = r->bytes.now;
    return good;
}

static bool build(struct scale *s, uint32_t ranks, uint32_t requests, uint64_t seed, char why[640])
{
    *s = (struct scale){.now = SCALE_MS, .random = seed, .num_sides = ranks / (2 * SCALE_TP), .num_requests = requests};
    s->num_ranks = 2 * SCALE_TP * s->num_sides;
    s->peers = s->num_sides < PEERS ? s->num_sides : PEERS;
    if (settings_read(&s->settings, NULL) != 0)
        return snprintf(why, 640, "no settings"), false;
    s->settings.leases = LEASES;
    s->settings.tombstone_ms = TOMBSTONE_MS;
    s->ranks = calloc(s->num_ranks, sizeof *s->ranks);
    s->path = calloc(s->num_ranks, sizeof *s->path);
    s->requests = calloc(requests, sizeof *s->requests);
    s->paired = calloc((size_t)s->num_sides * s->peers, sizeof *s->paired);
    bool good = s->ranks != NULL && s->path != NULL && s->requests != NULL && s->paired != NULL;
    for (uint32_t i = 0; good && i < s->num_ranks; i++)
        s->path[i] = BATON_PATH_RMA;
    for (uint32_t i = 0; good && i < SCALE_TP; i++)
        good = make_cache(s, i);
    if (!good)
        return snprintf(why, 640, "no memory, or no card"), false;
    if (!make_directory(s, why))
        return false;
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (!make_rank(s, i))
            return snprintf(why, 640, "no core for rank %u", i), false;
    return true;
}

static void take_down(struct scale *s)
{
    for (uint32_t i = 0; s->ranks != NULL && i < s->num_ranks; i++) {
        if (s->ranks[i].core != NULL)
            core_destroy(s->ranks[i].core);
        free(s->ranks[i].arena);
        free(s->ranks[i].board);
        free(s->ranks[i].met);
    }
    for (uint32_t i = 0; i < SCALE_TP; i++) {
        free(s->cache[i].tensors);
    }
    scale_drop_all(s);
    directory_destroy(s->directory);
    free(s->ranks);
    free(s->path);
    free(s->requests);
    free(s->paired);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Ids tell the request of a call, and whether it is the want. */
static baton_id_t id_of(uint32_t request, bool is_want)
{
    return 2 * ((uint64_t)request + 1) + is_want;
}

static struct call *record(struct scale *s, struct scale_rank *r, uint32_t request, bool is_want, uint32_t tokens,
                           uint32_t first_block)
{
    const uint32_t blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    uint32_t ids[TOKENS_MOST / BLOCK_TOKENS];
    struct bytes *former = bytes_of(&r->bytes); /* the call is the core's from core_submit on */
    struct call *call = calloc(1, sizeof *call + blocks * sizeof call->blocks[0]);
    struct outcome *given_up = calloc(1, sizeof *given_up);
    bytes_of(former);
    if (call == NULL || given_up == NULL)
        abort();
    call->kind = is_want ? CALL_WANT : CALL_OFFER;
    call->id = id_of(request, is_want);
    call->submitted_ns = s->now;
    call->given_up = given_up;
    snprintf(call->key, sizeof call->key, "request-%u", request);
    for (uint32_t i = 0; i < blocks; i++)
        ids[i] = (first_block + i * BLOCK_STEP) % NUM_BLOCKS;
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{ids, blocks, 0}}}, NULL, NULL);
    return call;
}

static void submit(struct scale *s, struct scale_rank *r, struct call *call)
{
    struct bytes *former = bytes_of(&r->bytes);
    core_submit(r->core, s->now, call);
    bytes_of(former);
    scale_step(s, r, NULL, 0);
}

/* On every rank of the two engines, at one moment. */
static void ask(struct scale *s, uint32_t request, uint32_t prefill, uint32_t decode, uint32_t tokens)
{
    for (uint32_t i = 0; i < SCALE_TP; i++) {
        struct scale_rank *from = &s->ranks[prefill * SCALE_TP + i], *to = &s->ranks[decode * SCALE_TP + i];
        struct call *offer = record(s, from, request, false, tokens, (uint32_t)draw(s));
        struct call *want = record(s, to, request, true, tokens, (uint32_t)draw(s));
        offer->offer.num_tokens = tokens;
        offer->offer.ttl_ms = (uint32_t)s->settings.ttl_ms;
        offer->offer.num_seats = 1;
        memcpy(offer->offer.seats[0], s->directory->engines[decode]->name, sizeof offer->offer.seats[0]);
        want->want = (struct call_want){.engine = prefill,
                                        .num_tokens = tokens,
                                        .timeout_ms = (uint32_t)s->settings.want_ms,
                                        .mode = BATON_MODE_PULL};
        submit(s, from, offer);
        submit(s, to, want);
    }
}

/* A random pause whose lengths have the exponential distribution. */
static uint64_t pause_ns(struct scale *s)
{
    const double even = ((double)(draw(s) >> 11) + 1) / 9007199254740992.0;
    return (uint64_t)(-log(even) * (double)PAUSE_NS);
}

void scale_arrive(struct scale *s, uint32_t decode_engine)
{
    if (s->begun == s->num_requests)
        return;
    const uint32_t request = s->begun++, which = (uint32_t)(draw(s) % s->peers);
    const uint32_t prefill = (decode_engine + which * (s->num_sides / s->peers)) % s->num_sides;
    const uint32_t tokens = TOKENS_LEAST + (uint32_t)(draw(s) % (TOKENS_MOST - TOKENS_LEAST + 1));
    uint8_t *paired = &s->paired[decode_engine * s->peers + which];
    s->requests[request] =
        (struct scale_request){.at = s->now, .wants = SCALE_TP, .offers = SCALE_TP, .first = !*paired};
    *paired = true;
    ask(s, request, prefill, s->num_sides + decode_engine, tokens);
    scale_later(s, s->now + pause_ns(s), decode_engine);
}

static void note_end(struct scale *s, const baton_event_t *e)
{
    struct scale_request *q = &s->requests[e->id / 2 - 1];
    if (e->status != BATON_STATUS_DONE && s->failed++ == 0)
        snprintf(s->failure, sizeof s->failure, "%s ended with %s: %s", e->key, baton_errname(e->error), e->detail);
    if (e->id % 2 == 0) {
        q->offers--;
    } else if (--q->wants == 0) {
        q->received_ns = s->now - q->at;
    }
    s->ended += q->offers == 0 && q->wants == 0;
}

void scale_collect(struct scale *s, struct scale_rank *r)
{
    struct outcome *out;
    while ((out = core_take(r->core)) != NULL) {
        if (out->event.type == BATON_EVENT_OFFER || out->event.type == BATON_EVENT_WANT)
            note_end(s, &out->event);
        struct bytes *former = bytes_of(&r->bytes);
        outcome_free(out);
        bytes_of(former);
    }
}

/* ---- the figures ------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void measure_times(const struct scale *s, struct scale_row *out)
{
    uint64_t *times = malloc(s->num_requests * sizeof *times);
    for (unsigned first = 0; times != NULL && first < 2; first++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < s->num_requests; i++)
            if (!first || s->requests[i].first)
                times[n++] = s->requests[i].received_ns;
        qsort(times, n, sizeof *times, by_size);
        *(first ? &out->first_p50_ns : &out->p50_ns) = n > 0 ? times[(n - 1) / 2] : 0;
        *(first ? &out->first_p99_ns : &out->p99_ns) = n > 0 ? times[(n - 1) * 99 / 100] : 0;
    }
    free(times);
}

static void measure_memory(const struct scale *s, struct scale_row *out)
{
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        const struct scale_rank *r = &s->ranks[i];
        const double a_peer = r->num_met > 0 ? (double)(r->bytes.now - r->bytes_at_start) / r->num_met : 0;
        out->peer_bytes = a_peer > out->peer_bytes ? a_peer : out->peer_bytes;
        out->peers = r->num_met > out->peers ? r->num_met : out->peers;
        out->core_most_bytes =
            (uint64_t)r->bytes.most > out->core_most_bytes ? (uint64_t)r->bytes.most : out->core_most_bytes;
    }
}

/* Rows go to all in rounds, each of which doubles what a rank has. What cores count from here on is of requests. */
static void start(struct scale *s, struct scale_row *out)
{
    out->start_ns = (uint64_t)s->num_ranks * WIRE_ROW_BYTES / SCALE_LINK_BYTES_PER_NS;
    for (uint32_t have = 1; have < s->num_ranks; have *= 2)
        out->start_ns += SCALE_LATENCY_NS;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        struct scale_rank *r = &s->ranks[i];
        r->bytes_at_start = r->bytes.most = r->bytes.now;
    }
    out->start_bytes = (uint64_t)(s->directory_bytes + s->ranks[0].bytes.now);
}

static bool run(struct scale *s, struct scale_row *out, char why[640])
{
    const double sides = s->num_sides, requests = s->num_requests;
    const uint64_t patience = s->now + (uint64_t)(2 * requests / sides * (double)PAUSE_NS) + 200000 * SCALE_MS;
    const clock_t begin = clock();
    for (uint32_t i = 0; i < s->num_sides; i++)
        scale_later(s, s->now + pause_ns(s), i);
    while (s->ended < s->num_requests && s->now < patience)
        scale_run(s, s->now + 10 * SCALE_MS);
    out->cpu_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (s->ended < s->num_requests || s->failed > 0)
        return snprintf(why, 640, "%u of %u requests ended, and %u calls failed%s%s", s->ended, s->num_requests,
                        s->failed, s->failed > 0 ? "; the first: " : "", s->failure),
               false;
    out->messages = (double)s->counts.messages / requests;
    out->message_bytes = (double)s->counts.message_bytes / requests;
    out->reads = (double)s->counts.reads / requests;
    out->moves = (double)s->counts.moves / requests;
    scale_run(s, s->now + (TOMBSTONE_MS + REST_MS) * SCALE_MS);
    measure_times(s, out);
    measure_memory(s, out);
    return true;
}

bool scale_world(uint32_t ranks, uint32_t requests, uint64_t seed, struct scale_row *out, char why[640])
{
    struct scale s;
    bool good = build(&s, ranks, requests, seed, why);
    *out = (struct scale_row){.ranks = s.num_ranks, .requests = requests};
    if (good) {
        start(&s, out);
        good = run(&s, out, why);
    }
    take_down(&s);
    return good;
}
