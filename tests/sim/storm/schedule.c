/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule: draws a world and its history from the seed. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES 8192u
#define ACTIONS_MS 120u
#define LONG_MS 3000u /* an offer's time to live that no end should need */

/* ---- the world --------------------------------------------------------------------------------------------------- */

static uint64_t between(struct storm *s, uint64_t least, uint64_t most)
{
    return least + storm_below(s, (uint32_t)(most - least + 1));
}

static void draw_settings(struct storm *s)
{
    struct settings *set = &s->settings;
    settings_read(set, NULL);
    set->leases = between(s, 2, 8);
    set->waiting = between(s, 2, 24);
    set->tombstones = between(s, 1, 8);
    if (set->tombstones > 4)
        set->tombstones *= 64; /* enough for the words of all ranks */
    set->tombstone_ms = between(s, 5, 60);
    set->handshake_ms = between(s, 3, 20);
    set->backoff_ms = between(s, 1, 4);
    set->resend_ms = s->tangled ? between(s, 1, 4) : between(s, 2, 10);
    set->beat_ms = between(s, 2, 10);
    set->peer_ms = between(s, 20, 60);
    set->verdict_ms = between(s, 10, 80);
    set->requests = 16;
    set->grant_blocks = storm_chance(s, 500) ? WIRE_TABLE_ENTRIES_SENT : between(s, 0, 8);
    set->chunk_bytes = between(s, 32, 512);
    set->rma_bytes = between(s, 64, storm_chance(s, 500) ? 512 : 4096);
    set->copy_bytes = between(s, 64, storm_chance(s, 500) ? 512 : 4096);
    set->copy_workers = between(s, 1, 3);
    set->park_ms = between(s, 1, 20);
    set->quiet_ms = between(s, 1, 30);
    set->checksum = storm_chance(s, s->tangled ? 400 : 250);
    set->paranoid = s->seed % 3 == 0; /* wants never share blocks here */
}

static void draw_character(struct storm *s)
{
    s->tangled = storm_chance(s, 600);
    s->num_keys = s->tangled ? 1 : 1 + storm_below(s, STORM_KEYS_MAX);
    s->tries = storm_chance(s, 300);
    s->calm = storm_chance(s, 300);
    s->deafened = s->calm && storm_chance(s, 500);
    s->passive = storm_chance(s, 500);
    s->local_puts = storm_chance(s, 500);
    s->proves = storm_hash(s->seed ^ UINT64_C(0x70726f766573)) % 2 == 0; /* all else is as it is without */
    s->lends = storm_hash(s->seed ^ UINT64_C(0x6c656e6473)) % 2 == 0;    /* likewise */
    s->death = (enum storm_death)storm_below(s, 3);
    s->loss = s->calm || storm_chance(s, s->tangled ? 300 : 600) ? 0 : 1 + storm_below(s, s->tangled ? 250 : 80);
    s->twice = storm_chance(s, 500) ? 0 : storm_below(s, 200);
    s->damaged = s->calm || storm_chance(s, 600) ? 0 : storm_below(s, 80);
    s->bad_cards = s->calm || storm_chance(s, 500) ? 0 : storm_below(s, s->tangled ? 800 : 300);
    s->forged = s->calm || storm_chance(s, 700) ? 0 : 1 + storm_below(s, 60);
    s->spoilt = s->calm || storm_chance(s, 500) ? 0 : storm_below(s, 20);
    s->strays = s->calm || storm_chance(s, 700) ? 0 : 1 + storm_below(s, 60);
    s->pidfds = storm_chance(s, 300);
    s->crowded = storm_chance(s, 250);
    s->slots = 1 + storm_below(s, s->crowded ? 4 : 16);
    s->peer_slots = 1 + storm_below(s, s->slots);
    s->slot_bytes = 32 + storm_below(s, 480);
    s->slow_ns = (20 + storm_below(s, s->calm ? 500 : s->tangled ? 12000 : 4000)) * STORM_US;
}

/* Where nobody comes and goes, all is as it would be in a world of MPI. */
static uint64_t draw_number(struct storm *s, uint32_t rank)
{
    uint64_t number = 1000 + rank;
    bool is_known = s->changes;
    while (is_known) { /* drawn anew where it is known */
        number = storm_hash(s->luck + storm_luck(s, UINT32_MAX));
        is_known = number == 0;
        for (uint32_t i = 0; i < rank; i++)
            is_known |= s->ranks[i].number == number;
    }
    return number;
}

static void build_rank(struct storm *s, uint32_t rank, const struct storm_kind *e, uint32_t index, uint32_t life,
                       uint32_t node)
{
    struct storm_rank *r = &s->ranks[rank];
    uint32_t tp_rank = index % e->tp, stage = index / e->tp;
    uint32_t heads = e->heads_total > e->tp ? e->heads_total / e->tp : 1, head_first = tp_rank * e->heads_total / e->tp;
    bool bare = e->bare && stage == 0;
    uint32_t per_stage = e->bare ? STORM_LAYERS : STORM_LAYERS / e->pp;
    uint32_t layer_first = e->bare ? 0 : stage * per_stage;
    r->storm = s;
    r->rank = rank;
    r->life = life;
    r->index = index;
    r->number = draw_number(s, rank);
    r->verdicts = (uint8_t)e->verdicts;
    r->node = node;
    r->fate = STORM_AWAITED;
    storm_port(r);
    r->geometry =
        (baton_geometry_t){.size = sizeof(baton_geometry_t),
                           .model = "m",
                           .dtype = "u32",
                           .elem_bytes = 4,
                           .planes = e->planes,
                           .head_size = e->head_size,
                           .num_groups = 1,
                           .groups = {{.block_tokens = e->block_tokens, .num_blocks = e->num_blocks}},
                           .num_splits = 1,
                           .splits = {{.heads_total = e->heads_total, .head_first = head_first, .head_count = heads}},
                           .layers_total = STORM_LAYERS,
                           .layer_first = layer_first,
                           .layer_count = per_stage};
    if (baton_geometry_layout(&r->geometry, r->tensors, e->layout) != 0)
        storm_fail(s, "baton_geometry_layout refuses the layout");
    r->pool = malloc(r->geometry.bytes);
    for (uint64_t i = 0; i < r->geometry.bytes; i += 4)
        memcpy(r->pool + i, &(uint32_t){STORM_FREE}, 4);
    r->arena = calloc(1, ARENA_BYTES);
    r->board = calloc(s->settings.leases, sizeof *r->board);
    r->window = calloc(s->settings.leases, sizeof *r->window);
    r->told = calloc(s->settings.leases, sizeof *r->told);
    r->beside = beside_create(&r->net, STORM_RANKS_MAX, &s->log);
    if (r->beside == NULL)
        storm_fail(s, "no memory for the net of rank %u", rank);
    storm_map(r);
    r->owner = calloc(e->num_blocks, sizeof *r->owner);
    struct wire_card card = {.member = r->number,
                             .board_offset = 4096,
                             .board_slots = (uint32_t)s->settings.leases,
                             .arena_offset = 65536,
                             .arena_bytes = ARENA_BYTES,
                             .pool_offset = 524288,
                             .pool_bytes = r->geometry.bytes,
                             .has_geometry = !bare,
                             .geometry = r->geometry};
    int n = wire_card_encode(&card, r->card, sizeof r->card);
    r->card_bytes = n > 0 ? (uint32_t)n : 0;
    struct wire_row row = {.role = BATON_ROLE_BOTH,
                           .tp = (uint16_t)e->tp,
                           .pp = (uint16_t)e->pp,
                           .tp_rank = (uint16_t)tp_rank,
                           .pp_rank = (uint16_t)stage,
                           .node = node,
                           .num_boxes = !bare,
                           .box = {{layer_first, bare ? 0 : per_stage, head_first, bare ? 0 : heads, 0}},
                           .number = r->number,
                           .life = s->changes ? s->lives[life].life : 0,
                           .card_offset = 262144,
                           .card_bytes = r->card_bytes,
                           .verdicts = r->verdicts,
                           .rules = PLAN_RULES};
    snprintf(row.engine, sizeof row.engine, "e%u", s->lives[life].name);
    wire_row_encode(&row, r->row);
    if (bare)
        r->geometry.num_tensors = 0; /* no tensors: the mark of a rank without a cache here */
}

void storm_build_life(struct storm *s, const struct storm_kind *kind, uint32_t name, uint32_t nodes)
{
    const uint32_t life = s->num_lives++;
    s->lives[life].name = name;
    s->lives[life].life = s->changes ? storm_hash(s->luck + storm_luck(s, UINT32_MAX)) : 0;
    for (uint32_t i = 0; i < kind->tp * kind->pp; i++) {
        const uint32_t rank = s->num_ranks++;
        build_rank(s, rank, kind, i, life, storm_below(s, nodes));
        s->lives[life].ranks[s->lives[life].num_ranks++] = rank;
    }
}

void storm_build(struct storm *s)
{
    struct storm_kind kinds[8];
    uint32_t nodes, num_ranks = 0, tp_most = storm_chance(s, 20) ? 8 : storm_chance(s, 200) ? 4 : 2;
    draw_character(s);
    if (s->tangled)
        tp_most = 1 + storm_below(s, 2);
    draw_settings(s);
    s->num_engines = tp_most == 8 ? 8 : 2 + storm_below(s, 3);
    uint32_t heads_total = storm_chance(s, 400) ? 1 : 1u << storm_below(s, 4), block_tokens = 1 + storm_below(s, 3);
    uint32_t planes = 1 + storm_below(s, 2), head_size = 1 + storm_below(s, 2);
    for (uint32_t i = 0; i < s->num_engines; i++) {
        struct storm_kind *e = &kinds[i];
        *e = (struct storm_kind){.tp = tp_most == 8 ? 8 : 1 + storm_below(s, tp_most),
                                 .pp = tp_most < 4 ? 1 + storm_below(s, 2) : 1,
                                 .heads_total = heads_total,
                                 .layout = storm_below(s, 16) & ~(planes == 1 ? 6u : 0u),
                                 .block_tokens = storm_chance(s, 500) ? block_tokens : 1 + storm_below(s, 4),
                                 .num_blocks = 8 + storm_below(s, 24),
                                 .planes = planes,
                                 .head_size = head_size};
        if ((e->layout & 6) == 6)
            e->layout &= ~4u;
        e->verdicts = storm_below(s, 3);
        if (!s->tries && !s->deafened)
            storm_chance(s, 150); /* it decides nothing: so the world of each seed stays what it was */
        e->bare = e->pp == 2 && storm_chance(s, 100);
        num_ranks += e->tp * e->pp;
    }
    nodes = 1 + storm_below(s, num_ranks < 4 ? num_ranks : 4);
    for (uint32_t e = 0; e < s->num_engines; e++)
        storm_build_life(s, &kinds[e], e, nodes);
    s->most_ranks = s->num_ranks;
    if (s->changes)
        storm_draw_lives(s, kinds, nodes);
    s->path = calloc((size_t)s->num_ranks * s->num_ranks, sizeof *s->path);
    s->pairs = calloc((size_t)s->num_ranks * s->num_ranks, sizeof *s->pairs);
    for (uint32_t a = 0; a < s->num_ranks; a++)
        for (uint32_t b = 0; b < s->num_ranks; b++)
            s->path[a * s->num_ranks + b] = s->ranks[a].node == s->ranks[b].node ? BATON_PATH_SHM : BATON_PATH_RMA;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        s->ranks[i].words = calloc(1, handoff_bytes((uint32_t)s->settings.leases, s->num_ranks));
        bell_init(&s->ranks[i].bell);
    }
    storm_meet_all(s);
}

void storm_begin(struct storm *s, struct storm_rank *r)
{
    struct core_config config = {.settings = &s->settings,
                                 .directory = r->directory,
                                 .self = r->view[r->rank].rank,
                                 .geometry = r->geometry.num_tensors > 0 ? &r->geometry : NULL,
                                 .path = r->path,
                                 .path_out = r->path,
                                 .arena = r->arena,
                                 .arena_bytes = ARENA_BYTES,
                                 .port = &r->port,
                                 .log = &s->log};
    storm_words_take(s, r);
    if (core_create(&config, &r->core) != 0 || verdicts_create(r->core) != 0) {
        storm_fail(s, "core_create failed");
    } else if (s->seed % 4 == 0) { /* as for engines of a thousand ranks, who serves whom is computed bit by bit */
        r->core->works.looks_most = 1;
        r->core->works.pause_ns = s->seed % 8 == 0 ? 2 * STORM_MS : STORM_MS / 8;
    }
    r->fate = STORM_RUNS;
}

void storm_free(struct storm *s)
{
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        core_destroy(s->ranks[i].core);
        directory_destroy(s->ranks[i].directory);
        free(s->ranks[i].pool);
        free(s->ranks[i].arena);
        handoffs_destroy(s->ranks[i].handoffs);
        rings_destroy(s->ranks[i].owed);
        vicinity_destroy(s->ranks[i].vicinity);
        free(s->ranks[i].words);
        free(s->ranks[i].board);
        free(s->ranks[i].window);
        free(s->ranks[i].told);
        beside_destroy(s->ranks[i].beside);
        free(s->ranks[i].owner);
        free(s->ranks[i].block_of);
    }
    for (uint32_t i = 0; i < s->num_calls; i++) {
        free(s->calls[i].blocks);
        free(s->calls[i].from);
    }
    free(s->calls);
    storm_drop_all(s);
    free(s->path);
    free(s->pairs);
}

/* ---- its history ------------------------------------------------------------------------------------------------- */

static uint64_t moment(struct storm *s, uint64_t from, uint64_t within_us)
{
    return from + storm_below(s, (uint32_t)within_us) * STORM_US;
}

/* The next rank of any life of that name; `rank` is the one before. NULL: there is no other. */
static struct storm_rank *next_of_name(struct storm *s, uint32_t name, const struct storm_rank *before)
{
    for (uint32_t i = before != NULL ? before->rank + 1 : 0; i < s->num_ranks; i++)
        if (storm_life_of(s, i)->name == name)
            return &s->ranks[i];
    return NULL;
}

/* Some wants name the life of an engine that they mean. */
static uint32_t draw_life(struct storm *s, uint32_t name)
{
    uint32_t life = storm_luck(s, s->num_lives);
    return s->changes && s->lives[life].name == name ? life + 1 : 0;
}

/*
 * One request: every rank of the producer offers and every rank of the consumers wants, each at its own time. Those of
 * other lives do so too, if they are there by then.
 */
void storm_draw_request(struct storm *s, uint64_t from_ns)
{
    uint32_t producer = storm_below(s, s->num_engines), seats = 1 + (s->num_engines > 2 ? storm_below(s, 2) : 0);
    uint32_t tokens = 1 + storm_below(s, 8), spread = s->crowded || storm_chance(s, 500) ? 1000 : 30000;
    uint64_t at = moment(s, from_ns, s->crowded ? 2000 : ACTIONS_MS * 1000 / 2);
    bool named = storm_chance(s, 300);
    struct storm_plan offer = {.action = STORM_OFFER,
                               .key = storm_below(s, s->num_keys),
                               .attempt = s->tries ? storm_below(s, 3) : 0,
                               .tokens = tokens,
                               .time_ms = s->deafened ? LONG_MS : 5 + storm_below(s, 100),
                               .seats = seats};
    struct storm_plan want = {.action = STORM_WANT,
                              .key = offer.key,
                              .attempt = offer.attempt,
                              .tokens = tokens,
                              .engine = producer,
                              .time_ms = 5 + storm_below(s, 100),
                              .mode = storm_chance(s, 500) ? BATON_MODE_PUSH : BATON_MODE_PULL};
    if (storm_chance(s, 100))
        want.tokens = storm_below(s, tokens + 2); /* none, fewer or more than offered */
    if (storm_chance(s, 200))
        want.held = storm_below(s, tokens + 1);
    for (uint32_t k = 0; k < seats; k++) {
        uint32_t consumer = (producer + 1 + storm_below(s, s->num_engines - 1)) % s->num_engines;
        if (k > 0 && consumer == offer.seat[0])
            consumer = DIRECTORY_NONE;
        offer.seat[k] = named ? consumer : DIRECTORY_NONE;
        if (consumer == DIRECTORY_NONE)
            continue;
        for (struct storm_rank *r = next_of_name(s, consumer, NULL); r != NULL; r = next_of_name(s, consumer, r)) {
            want.rank = r->rank;
            want.life = draw_life(s, producer);
            if (!storm_chance(s, 20))
                storm_later(s, moment(s, at, spread), &want);
        }
    }
    for (struct storm_rank *r = next_of_name(s, producer, NULL); r != NULL; r = next_of_name(s, producer, r)) {
        offer.rank = r->rank;
        if (!storm_chance(s, 20))
            storm_later(s, moment(s, at, spread), &offer);
    }
}

void storm_again(struct storm *s, const struct storm_call *former)
{
    struct storm_plan again = {.action = former->is_want ? STORM_WANT : STORM_OFFER,
                               .rank = former->rank,
                               .key = former->key,
                               .attempt = former->attempt + (s->tries && storm_chance(s, 800)),
                               .tokens = former->tokens,
                               .time_ms = s->deafened && !former->is_want ? LONG_MS : 5 + storm_below(s, 100),
                               .engine = s->lives[former->engine].name,
                               .mode = storm_chance(s, 500) ? BATON_MODE_PUSH : BATON_MODE_PULL,
                               .seats = 1,
                               .seat = {DIRECTORY_NONE}};
    if (former->is_want && storm_chance(s, 250))
        again.tokens = 0;                   /* it holds all by now, which releases the producer */
    if (s->now < 3 * ACTIONS_MS * STORM_MS) /* calls must come to an end */
        storm_later(s, moment(s, s->now, 1 + s->slow_ns / STORM_US), &again);
}

void storm_schedule(struct storm *s)
{
    uint32_t requests = 2 + storm_below(s, s->crowded ? 12 : 6), cancels = s->tangled             ? storm_below(s, 48)
                                                                           : storm_chance(s, 600) ? storm_below(s, 16)
                                                                                                  : 0;
    for (uint32_t i = 0; i < requests; i++)
        storm_draw_request(s, 0);
    for (uint32_t i = 0; i < cancels; i++)
        storm_later(s, moment(s, 0, ACTIONS_MS * 1000), &(struct storm_plan){.action = STORM_CANCEL});
    uint32_t stops = s->calm || storm_chance(s, 400) ? 0 : 1 + storm_below(s, 2);
    for (uint32_t i = 0; i < stops; i++) {
        struct storm_plan p = {.action = STORM_STOP, .rank = storm_below(s, s->num_ranks)};
        uint64_t at = moment(s, 0, ACTIONS_MS * 1000);
        storm_later(s, at, &p);
        p.action = STORM_RESUME;
        storm_later(s, (at / STORM_GRID + 1 + storm_below(s, storm_chance(s, 500) ? 40 : 800)) * STORM_GRID, &p);
    }
    uint32_t crashes = s->calm || storm_chance(s, 600) ? 0 : 1 + storm_below(s, 2);
    for (uint32_t i = 0; i < crashes; i++)
        storm_later(s, moment(s, 0, ACTIONS_MS * 1000),
                    &(struct storm_plan){.action = STORM_CRASH, .rank = storm_below(s, s->num_ranks)});
    if (s->seed % 5 == 0 && !s->deafened) { /* ranks close while calls are open, each at its time */
        uint64_t at = moment(s, 0, ACTIONS_MS * 1000);
        for (uint32_t i = 0; i < s->num_ranks; i++)
            storm_later(s, moment(s, at, 30000), &(struct storm_plan){.action = STORM_CLOSE, .rank = i});
    }
    uint32_t lies = storm_chance(s, 600) ? 0 : 1 + storm_below(s, 4);
    for (uint32_t i = 0; i < lies; i++)
        storm_later(s, moment(s, 0, ACTIONS_MS * 1000),
                    &(struct storm_plan){.action = STORM_LIE,
                                         .rank = storm_below(s, s->num_ranks),
                                         .to = storm_below(s, s->num_ranks),
                                         .subject = storm_below(s, s->num_ranks)});
    if (s->changes)
        storm_draw_changes(s);
}

/* ---- actions ----------------------------------------------------------------------------------------------------- */

static struct storm_call *call_new(struct storm *s)
{
    if (s->num_calls == s->calls_room) {
        s->calls_room = s->calls_room ? 2 * s->calls_room : 32;
        s->calls = realloc(s->calls, s->calls_room * sizeof *s->calls);
    }
    struct storm_call *c = &s->calls[s->num_calls++];
    *c = (struct storm_call){.number = s->num_calls, .submitted_ns = s->now};
    return c;
}

static void submit(struct storm *s, struct storm_call *c, const struct storm_plan *p)
{
    struct storm_rank *r = &s->ranks[c->rank];
    struct call *call = calloc(1, sizeof *call + c->num_blocks * sizeof(uint32_t));
    call->kind = c->is_want ? CALL_WANT : CALL_OFFER;
    call->id = storm_id(s, c);
    call->submitted_ns = s->now;
    call->attempt = c->attempt;
    snprintf(call->key, sizeof call->key, "k%u", c->key);
    if (c->is_want) {
        call->want = (struct call_want){.engine = p->index,
                                        .life = s->changes ? s->lives[c->engine].life : 0,
                                        .num_tokens = c->tokens,
                                        .held_tokens = c->held,
                                        .timeout_ms = p->time_ms,
                                        .mode = c->mode,
                                        .zero_tail = c->zero_tail};
    } else {
        call->offer = (struct call_offer){.num_tokens = c->tokens,
                                          .ttl_ms = p->time_ms,
                                          .num_seats = p->seats,
                                          .in_layers = c->in_layers,
                                          .in_chunks = c->in_chunks};
        for (uint32_t k = 0; k < p->seats; k++)
            if (p->seat[k] != DIRECTORY_NONE)
                snprintf(call->offer.seats[k], sizeof call->offer.seats[k], "e%u", p->seat[k]);
        call->offer.num_attach = sizeof c->number; /* so that it is known whose the attached bytes are */
        memcpy(call->offer.attach, &c->number, sizeof c->number);
    }
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{c->blocks, c->given, 0}}}, NULL, &c->num_blocks);
    if (storm_hears(s, c->rank))
        call->verdict = calloc(1, sizeof *call->verdict);
    call->given_up = calloc(1, sizeof *call->given_up);
    uint64_t end = s->now + p->time_ms * STORM_MS;
    s->horizon = end > s->horizon ? end : s->horizon;
    storm_turn(s, r, true);
    core_submit(r->core, s->now, call);
    storm_collect(s, r);
}

/* Prefill goes on: each layer is computed at its time, some never. The call may have ended in the step that made it. */
static void draw_layers(struct storm *s, const struct storm_call *c, uint64_t at, uint32_t tokens)
{
    const baton_geometry_t *g = &s->ranks[c->rank].geometry;
    for (uint32_t l = 0; l < g->layer_count; l++)
        if (!storm_chance(s, 30))
            storm_later(s, moment(s, at, 1 + storm_below(s, 30000)),
                        &(struct storm_plan){.action = STORM_READY,
                                             .rank = c->rank,
                                             .call = c->number,
                                             .layer = g->layer_first + l,
                                             .tokens = tokens});
}

/* Prefill goes on chunk by chunk; some chunks never come. */
static void draw_chunks(struct storm *s, const struct storm_call *c)
{
    uint64_t at = s->now;
    for (uint32_t tokens = 0; tokens < c->tokens && !storm_chance(s, 20);) {
        at = moment(s, at, 1 + storm_below(s, 15000));
        tokens += 1 + storm_below(s, c->tokens - tokens);
        storm_later(s, at,
                    &(struct storm_plan){.action = STORM_APPEND, .rank = c->rank, .call = c->number, .tokens = tokens});
        if (c->in_layers)
            draw_layers(s, c, at, tokens);
    }
}

static void append(struct storm *s, const struct storm_plan *p)
{
    struct storm_call *c = &s->calls[p->call - 1];
    uint32_t block_tokens = s->ranks[c->rank].geometry.groups[0].block_tokens,
             blocks = storm_chance(s, 200) ? c->num_blocks : (p->tokens + block_tokens - 1) / block_tokens;
    if (c->answered_ns != 0 || p->tokens <= c->begun)
        return;
    c->last_word_ns = s->now;
    storm_say(s, "%u: %u tokens of %u are there", c->rank, p->tokens, c->number);
    if (c->in_layers)
        storm_fill(s, c, 0); /* the chunk before is complete */
    c->begun = p->tokens;
    if (!c->in_layers)
        storm_fill(s, c, 0);
    blocks = blocks > c->given ? blocks - c->given : 0;
    struct call *word = calloc(1, sizeof *word + blocks * sizeof(uint32_t));
    word->kind = CALL_APPEND;
    word->id = storm_id(s, c);
    word->append.num_tokens = p->tokens;
    call_set_tables(word, &(struct plan_tables){.num = 1, .table = {{c->blocks + c->given, blocks, 0}}}, NULL, NULL);
    c->given += blocks;
    storm_cover_call(&s->ranks[c->rank], c, "append");
    storm_turn(s, &s->ranks[c->rank], true);
    core_submit(s->ranks[c->rank].core, s->now, word);
    storm_collect(s, &s->ranks[c->rank]);
}

static void ready(struct storm *s, const struct storm_plan *p)
{
    struct storm_call *c = &s->calls[p->call - 1];
    if (c->answered_ns != 0)
        return; /* its blocks belong to others by now, or may not be read any more */
    c->last_word_ns = s->now;
    storm_say(s, "%u: layer %u of %u is ready", c->rank, p->layer, c->number);
    if (!c->in_chunks || p->tokens == c->begun) /* else the call comes too late */
        storm_fill_layer(s, c, p->layer, 0);
    struct call *word = calloc(1, sizeof *word);
    word->kind = CALL_READY;
    word->id = storm_id(s, c);
    word->ready = (struct call_ready){p->layer, 1, c->in_chunks ? p->tokens : 0};
    storm_cover_call(&s->ranks[c->rank], c, "ready");
    storm_turn(s, &s->ranks[c->rank], true);
    core_submit(s->ranks[c->rank].core, s->now, word);
    storm_collect(s, &s->ranks[c->rank]);
}

/*
 * Where members come and go: an engine calls once it is whole. A want looks up who is there, as front/api.c does, and
 * comes to the core a while later. False: the call is not made, or later.
 */
static bool looks_up(struct storm *s, struct storm_plan *p)
{
    const struct storm_rank *r = &s->ranks[p->rank];
    const struct directory *d = r->directory;
    const struct directory_engine *mine = d->engines[d->engine_of[r->view[r->rank].rank]];
    const bool is_there = directory_is_complete(mine); /* it may have gone since */
    const struct storm_life *life;
    if (p->found != 0)
        return true;
    life = is_there && p->action == STORM_WANT ? storm_find(r, p->engine, &p->index) : NULL;
    if (!is_there || (p->action == STORM_WANT && life == NULL)) {
        if (s->now < 3 * ACTIONS_MS * STORM_MS && storm_luck(s, 10) > 0)
            storm_later(s, s->now + (1 + storm_luck(s, 8000)) * STORM_US, p);
        return false;
    }
    if (p->action == STORM_OFFER)
        return true;
    p->found = (uint32_t)(life - s->lives) + 1;
    if (p->life != 0 && p->life != p->found)
        return false; /* BATON_EGONE */
    if (storm_luck(s, 4) > 0)
        return true;
    storm_later(s, s->now + storm_luck(s, 3000) * STORM_US, p);
    return false;
}

static void call(struct storm *s, const struct storm_plan *plan)
{
    struct storm_plan made = *plan, *p = &made;
    struct storm_rank *r = &s->ranks[p->rank];
    uint32_t block_tokens = r->geometry.groups[0].block_tokens;
    if (s->num_calls + 1 >= STORM_CALLS_MAX || r->geometry.num_tensors == 0)
        return;
    if (!s->changes)
        storm_find(r, p->engine, &p->index);
    else if (!looks_up(s, p))
        return;
    struct storm_call *c = call_new(s);
    c->rank = p->rank;
    c->key = p->key;
    c->attempt = p->attempt;
    c->tokens = p->tokens;
    c->held = p->held;
    c->num_blocks = (p->tokens + block_tokens - 1) / block_tokens;
    c->is_want = p->action == STORM_WANT;
    c->mode = c->is_want ? p->mode : BATON_MODE_AUTO;
    c->engine = !c->is_want ? r->life : s->changes ? p->found - 1 : p->engine;
    c->time_ns = p->time_ms * STORM_MS;
    c->seats = p->seats;
    c->seat = p->seat[0];
    c->last_word_ns = s->now;
    storm_take_blocks(s, c);
    if (c->num_blocks > 0 && c->blocks == NULL) { /* the engine has no free blocks, so it makes no call */
        s->num_calls--;
        return;
    }
    storm_say(s, "%u %s %u key k%u.%u tokens %u for %u ms%s", c->rank, c->is_want ? "wants" : "offers", c->number,
              c->key, c->attempt, c->tokens, p->time_ms, c->mode == BATON_MODE_PUSH ? " push" : "");
    c->zero_tail = c->is_want && storm_chance(s, 400);
    c->in_layers = !c->is_want && storm_chance(s, 250);
    c->in_chunks = !c->is_want && storm_chance(s, 250);
    c->begun = c->in_chunks ? 0 : c->tokens;
    c->given = c->in_chunks ? 0 : c->num_blocks;
    storm_fill(s, c, c->is_want ? STORM_WANTED : c->in_layers || c->in_chunks ? STORM_FREE : 0);
    if (!c->is_want)
        storm_cover_call(r, c, "call");
    submit(s, c, p);
    if (c->in_chunks)
        draw_chunks(s, c);
    else if (c->in_layers)
        draw_layers(s, c, s->now, 0);
}

static void cancel(struct storm *s)
{
    if (s->num_calls == 0)
        return;
    uint32_t recent = s->num_calls < 6 ? s->num_calls : 6;
    struct storm_call *c = &s->calls[s->num_calls - 1 - storm_below(s, recent)];
    if (c->answered_ns != 0 || s->ranks[c->rank].fate != STORM_RUNS || s->ranks[c->rank].closes)
        return;
    storm_say(s, "%u cancels %u", c->rank, c->number);
    struct call *word = calloc(1, sizeof *word);
    word->kind = CALL_CANCEL;
    word->id = storm_id(s, c);
    c->cancelled = true;
    storm_cover_call(&s->ranks[c->rank], c, "cancel");
    storm_turn(s, &s->ranks[c->rank], true);
    core_submit(s->ranks[c->rank].core, s->now, word);
    storm_collect(s, &s->ranks[c->rank]);
}

/* Says that a rank is dead, as a rank that cannot know, or as a neighbour that means another member. */
static void lie(struct storm *s, const struct storm_plan *p)
{
    const struct storm_rank *r = &s->ranks[p->rank], *subject = &s->ranks[p->subject];
    const struct storm_view *to = &r->view[p->to];
    struct wire_message m = {.type = WIRE_WITNESS, .subject = {subject->number, WIRE_DEAD}};
    if (r->node == subject->node)
        m.subject.member ^= UINT64_C(1) << 63;
    if (p->rank != p->to && to->rank != DIRECTORY_NONE && to->left_ns == 0)
        post_send(r->core->post, to->rank, &m);
}

void storm_act(struct storm *s, const struct storm_plan *p)
{
    struct storm_rank *r = &s->ranks[p->rank];
    bool runs = r->fate == STORM_RUNS && !r->closes;
    switch (p->action) {
    case STORM_OFFER:
    case STORM_WANT:
        if (runs)
            call(s, p);
        break;
    case STORM_CANCEL:
        cancel(s);
        break;
    case STORM_READY:
        if (runs)
            ready(s, p);
        break;
    case STORM_APPEND:
        if (runs)
            append(s, p);
        break;
    case STORM_STOP:
        if (r->fate == STORM_RUNS && (int32_t)p->rank != s->untouched) {
            storm_say(s, "%u stops", p->rank);
            r->fate = STORM_STOPPED;
            r->was_stopped = true;
        }
        break;
    case STORM_RESUME:
        if (r->fate == STORM_STOPPED) {
            storm_say(s, "%u goes on", p->rank);
            r->resumed_ns = s->now;
            r->fate = STORM_RUNS;
        }
        break;
    case STORM_LIE:
        if (runs)
            lie(s, p);
        break;
    case STORM_CLOSE:
        if (runs) {
            storm_say(s, "%u closes", p->rank);
            r->closes = true;
            storm_turn(s, r, false);
            core_shut(r->core, s->now);
            storm_collect(s, r);
        }
        break;
    case STORM_CRASH:
        if (r->fate == STORM_RUNS || r->fate == STORM_STOPPED)
            storm_end(s, r, false);
        break;
    case STORM_COME:
        storm_come(s, r);
        break;
    case STORM_GO:
        storm_go(s, r);
        break;
    }
}
