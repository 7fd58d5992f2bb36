/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cursor: walks a plan for one request's block tables. plan_next is the hot path of every transfer. What moves of a
 * piece is linear in its tokens, so a place is a token and the bytes behind of its unit: the tokens from there on that
 * lie in one block on both sides.
 */
#include "plan/program.h"

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static int side_init(const struct plan_tables *side, uint32_t index, const baton_group_t *group, uint32_t first,
                     uint32_t end, const uint32_t **blocks, uint32_t *begin, struct plan_why *why)
{
    if (side == NULL)
        return 0;
    if (index >= side->num)
        return plan_table_check(group, &(baton_table_t){0}, first, end, why);
    *blocks = side->table[index].blocks;
    *begin = side->table[index].first_token;
    return plan_table_check(group, &side->table[index], first, end, why);
}

int plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t tokens,
                       const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why)
{
    *t = (struct plan_transfer){.plan = plan};
    for (uint32_t i = 0; i < plan->num_pairs; i++) {
        const struct pair *p = &plan->pair[i];
        struct plan_span *s = &t->span[i];
        plan_wanted(&p->dst, held, tokens, &s->first, &s->end);
        int rc = side_init(src, p->src_index, &p->src, s->first, s->end, &s->src_blocks, &s->src_first, why);
        if (rc == 0)
            rc = side_init(dst, p->dst_index, &p->dst, s->first, s->end, &s->dst_blocks, &s->dst_first, why);
        if (rc != 0)
            return rc;
    }
    for (uint32_t i = 0; i < plan->num_pieces; i++) {
        const struct plan_span *s = &t->span[plan->piece[i].pair];
        t->bytes += (s->end - s->first) * plan_token_bytes(plan, i);
    }
    return 0;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static const struct plan_span *span_at(const struct plan_transfer *t, const struct plan_cursor *c)
{
    return &t->span[t->plan->piece[c->piece].pair];
}

/* Passes pieces of which nothing is left. */
static void settle(const struct plan_transfer *t, struct plan_cursor *c)
{
    while (c->piece < t->plan->num_pieces && c->token >= span_at(t, c)->end - span_at(t, c)->first) {
        c->piece++;
        c->token = 0;
    }
}

bool plan_at_end(const struct plan_transfer *t, const struct plan_cursor *c)
{
    struct plan_cursor at = *c;
    settle(t, &at);
    return at.piece >= t->plan->num_pieces;
}

/** The tokens at a cursor that lie in one block on both sides, and where. */
struct unit {
    const struct shape *shape;
    uint32_t tokens;
    uint32_t src_index, src_token, dst_index, dst_token; /* blocks, by their places in the tables; tokens within them */
    uint64_t bytes;
};

static struct unit unit_at(const struct plan_transfer *t, const struct plan_cursor *c)
{
    const struct plan_piece *piece = &t->plan->piece[c->piece];
    const struct pair *pair = &t->plan->pair[piece->pair];
    const struct plan_span *span = &t->span[piece->pair];
    uint32_t at = span->first + c->token, src = at - span->src_first, dst = at - span->dst_first;
    struct unit u = {.shape = &t->plan->shape[piece->program],
                     .tokens = span->end - at,
                     .src_index = src / pair->src.block_tokens,
                     .src_token = src % pair->src.block_tokens,
                     .dst_index = dst / pair->dst.block_tokens,
                     .dst_token = dst % pair->dst.block_tokens};
    if (u.tokens > pair->src.block_tokens - u.src_token)
        u.tokens = pair->src.block_tokens - u.src_token;
    if (u.tokens > pair->dst.block_tokens - u.dst_token)
        u.tokens = pair->dst.block_tokens - u.dst_token;
    u.bytes = u.tokens * u.shape->token_bytes;
    return u;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Where runs are collected: at most max of them, at most budget bytes. */
struct sink {
    struct plan_run *out;
    uint32_t n, max;
    uint64_t budget;
    uint32_t src_region, dst_region;
};

/* Takes as much of a run as fits, joined to the last one where they touch on both sides. Returns the bytes taken. */
static inline uint64_t sink_put(struct sink *s, uint64_t src, uint64_t dst, uint64_t bytes)
{
    struct plan_run *last = s->n > 0 ? &s->out[s->n - 1] : NULL;
    if (bytes > s->budget)
        bytes = s->budget;
    if (last != NULL && last->src + last->bytes == src && last->dst + last->bytes == dst &&
        last->src_region == s->src_region && last->dst_region == s->dst_region) {
        last->bytes += bytes;
    } else if (s->n < s->max) {
        s->out[s->n++] = (struct plan_run){
            .src = src, .dst = dst, .bytes = bytes, .src_region = s->src_region, .dst_region = s->dst_region};
    } else {
        return 0;
    }
    s->budget -= bytes;
    return bytes;
}

/* Walks `bytes` of loops from `done` on; returns the bytes then behind. */
static uint64_t walk(const struct plan_program *p, uint64_t src, uint64_t dst, uint64_t done, uint64_t bytes,
                     struct sink *s)
{
    uint32_t at[PLAN_LOOPS_MAX] = {0};
    uint64_t within = 0;
    if (done > 0) { /* resumed: find the place again */
        uint64_t k = done / p->run;
        within = done % p->run;
        for (unsigned i = p->num_loops; i-- > 0; k /= p->loop[i].count) {
            at[i] = (uint32_t)(k % p->loop[i].count);
            src += (uint64_t)(at[i] * p->loop[i].src);
            dst += (uint64_t)(at[i] * p->loop[i].dst);
        }
    }
    while (done < bytes) {
        uint64_t left = p->run - within, took = s->budget > 0 ? sink_put(s, src + within, dst + within, left) : 0;
        done += took;
        if (took < left)
            break;
        within = 0;
        for (unsigned i = p->num_loops; i-- > 0;) {
            src += (uint64_t)p->loop[i].src;
            dst += (uint64_t)p->loop[i].dst;
            if (++at[i] < p->loop[i].count)
                break;
            src -= (uint64_t)(p->loop[i].src * at[i]);
            dst -= (uint64_t)(p->loop[i].dst * at[i]);
            at[i] = 0;
        }
    }
    return done;
}

/* The program for fewer tokens than its shape counts. */
static struct plan_program part_of(const struct shape *s, uint32_t tokens)
{
    struct plan_program p = s->part;
    if (s->part_loop < 0)
        p.run *= tokens;
    else
        p.loop[s->part_loop].count = tokens;
    return p;
}

static uint64_t walk_unit(const struct unit *u, uint64_t src, uint64_t dst, uint64_t done, struct sink *s)
{
    if (u->tokens < u->shape->direction[SHAPE_TOKEN].count) {
        struct plan_program part = part_of(u->shape, u->tokens);
        return walk(&part, src, dst, done, u->bytes, s);
    }
    if (u->shape->whole.num_loops > 0)
        return walk(&u->shape->whole, src, dst, done, u->bytes, s);
    return done + sink_put(s, src + done, dst + done, u->bytes - done);
}

static uint64_t offset_of(uint64_t base, int64_t block, int64_t token, const uint32_t *blocks, uint32_t index,
                          uint32_t token_in)
{
    uint32_t id = blocks != NULL ? blocks[index] : 0;
    return base + (uint64_t)block * id + (uint64_t)token * token_in;
}

uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget)
{
    struct sink s = {.out = out, .max = max, .budget = budget};
    for (settle(t, c); s.budget > 0 && c->piece < t->plan->num_pieces; settle(t, c)) {
        const struct plan_piece *piece = &t->plan->piece[c->piece];
        const struct plan_span *span = &t->span[piece->pair];
        const struct unit u = unit_at(t, c);
        const struct plan_loop *token = &u.shape->direction[SHAPE_TOKEN];
        uint64_t src =
            offset_of(piece->src_base, u.shape->src_block, token->src, span->src_blocks, u.src_index, u.src_token);
        uint64_t dst =
            offset_of(piece->dst_base, u.shape->dst_block, token->dst, span->dst_blocks, u.dst_index, u.dst_token);
        s.src_region = piece->src_region;
        s.dst_region = piece->dst_region;
        c->unit_done = walk_unit(&u, src, dst, c->unit_done, &s);
        if (c->unit_done < u.bytes)
            break; /* out of room */
        c->unit_done = 0;
        c->token += u.tokens;
    }
    return s.n;
}

/* The last place at or before `token` where a block begins on either side, or the span. */
static uint32_t unit_before(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t token)
{
    const struct pair *pair = &t->plan->pair[t->plan->piece[c->piece].pair];
    const struct plan_span *span = span_at(t, c);
    uint32_t at = span->first + token, src = (at - span->src_first) % pair->src.block_tokens,
             dst = (at - span->dst_first) % pair->dst.block_tokens, back = src < dst ? src : dst;
    return back < token ? token - back : 0;
}

uint64_t plan_skip(const struct plan_transfer *t, struct plan_cursor *c, uint64_t budget)
{
    uint64_t passed = 0;
    for (settle(t, c); c->piece < t->plan->num_pieces && (passed == 0 || passed < budget); settle(t, c)) {
        uint64_t token_bytes = plan_token_bytes(t->plan, c->piece), room = budget > passed ? budget - passed : 0;
        uint32_t left = span_at(t, c)->end - span_at(t, c)->first - c->token, to = c->token;
        if (c->unit_done == 0 && room / token_bytes >= left)
            to += left; /* all of the piece */
        else if (c->unit_done == 0)
            to = unit_before(t, c, c->token + (uint32_t)(room / token_bytes));
        if (to > c->token) { /* many units in one step */
            passed += (to - c->token) * token_bytes;
            c->token = to;
            continue;
        }
        const struct unit u = unit_at(t, c);
        if (passed > 0 && u.bytes - c->unit_done > room)
            break;
        passed += u.bytes - c->unit_done;
        c->token += u.tokens;
        c->unit_done = 0;
    }
    return passed;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static uint32_t part_tokens(const struct pair *p)
{
    return p->src.block_tokens > p->dst.block_tokens ? p->src.block_tokens : p->dst.block_tokens;
}

static uint32_t parts_of(const struct plan_transfer *t, uint32_t pair)
{
    const struct plan_span *s = &t->span[pair];
    uint32_t tokens = part_tokens(&t->plan->pair[pair]);
    return s->end > s->first ? (s->end - 1) / tokens - s->first / tokens + 1 : 0;
}

uint32_t plan_num_parts(const struct plan_transfer *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->plan->num_pairs; i++)
        n += parts_of(t, i);
    return n;
}

uint64_t plan_part(const struct plan_transfer *t, uint32_t part, uint32_t piece, struct plan_cursor *c)
{
    uint32_t pair = 0, n;
    for (; pair < t->plan->num_pairs && part >= (n = parts_of(t, pair)); pair++)
        part -= n;
    if (t->plan->piece[piece].pair != pair)
        return 0;
    const struct plan_span *s = &t->span[pair];
    uint64_t tokens = part_tokens(&t->plan->pair[pair]), begin = (s->first / tokens + part) * tokens,
             end = begin + tokens;
    begin = begin > s->first ? begin : s->first;
    end = end < s->end ? end : s->end;
    *c = (struct plan_cursor){.piece = piece, .token = (uint32_t)(begin - s->first)};
    return (end - begin) * plan_token_bytes(t->plan, piece);
}

/* ---- layers that are ready --------------------------------------------------------------------------------------- */

uint64_t plan_ahead(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t layer_end)
{
    uint64_t bytes = 0;
    for (uint32_t i = c->piece; i < t->plan->num_pieces; i++) {
        const struct plan_piece *p = &t->plan->piece[i];
        const struct plan_span *s = &t->span[p->pair];
        if (p->layer >= layer_end || layer_end - p->layer < p->num_layers)
            break;
        uint64_t behind = i == c->piece ? c->token * plan_token_bytes(t->plan, i) + c->unit_done : 0;
        bytes += (s->end - s->first) * plan_token_bytes(t->plan, i) - behind;
    }
    return bytes;
}
