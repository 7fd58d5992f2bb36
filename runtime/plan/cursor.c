/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cursor: walks a plan over one request's block tables. Any thread; pure functions. plan_next is the hot path of every
 * transfer. A piece moves the same number of bytes for each token, so a place in it is a token, and how many bytes are
 * done of the unit that begins there: the tokens from there on that lie in one block on both sides.
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

static void count_bytes(struct plan_transfer *t)
{
    for (uint32_t i = 0; i < t->plan->num_pieces; i++) {
        const struct plan_span *s = &t->span[t->plan->piece[i].pair];
        t->bytes += (s->end - s->first) * plan_token_bytes(t->plan, i);
    }
}

/* Where the tokens [first, end) of a group end if only those before token `chunk_end` of `tokens` move. */
static uint32_t chunk_of(const baton_group_t *group, uint32_t first, uint32_t end, uint32_t chunk_end, uint32_t tokens)
{
    if (chunk_end >= tokens)
        return end;
    if (group->kind == BATON_KIND_STATE)
        return first;
    return chunk_end < end ? (chunk_end > first ? chunk_end : first) : end;
}

int plan_transfer_chunk(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t end, uint32_t tokens,
                        const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why)
{
    *t = (struct plan_transfer){.plan = plan};
    for (uint32_t i = 0; i < plan->num_pairs; i++) {
        const struct pair *p = &plan->pair[i];
        struct plan_span *s = &t->span[i];
        plan_wanted(&p->dst, held, tokens, &s->first, &s->end);
        s->end = chunk_of(&p->dst, s->first, s->end, end, tokens);
        int rc = side_init(src, p->src_index, &p->src, s->first, s->end, &s->src_blocks, &s->src_first, why);
        if (rc == 0)
            rc = side_init(dst, p->dst_index, &p->dst, s->first, s->end, &s->dst_blocks, &s->dst_first, why);
        if (rc != 0)
            return rc;
    }
    count_bytes(t);
    return 0;
}

int plan_transfer_tail(struct plan_transfer *t, const struct plan *plan, uint32_t tokens,
                       const struct plan_tables *mine, struct plan_why *why)
{
    *t = (struct plan_transfer){.plan = plan};
    for (uint32_t i = 0; i < plan->num_pairs; i++) {
        const baton_group_t *g = &plan->pair[i].dst;
        struct plan_span *s = &t->span[i];
        uint32_t block = g->block_tokens * (g->blocks_per_id > 0 ? g->blocks_per_id : 1);
        if (g->kind == BATON_KIND_STATE || tokens % block == 0)
            continue;
        s->first = tokens;
        s->end = tokens + (block - tokens % block);
        int rc = side_init(mine, plan->pair[i].dst_index, g, s->first, s->end, &s->dst_blocks, &s->dst_first, why);
        if (rc != 0)
            return rc;
        s->src_blocks = s->dst_blocks;
        s->src_first = s->dst_first;
    }
    count_bytes(t);
    return 0;
}

int plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t tokens,
                       const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why)
{
    return plan_transfer_chunk(t, plan, held, tokens, tokens, src, dst, why);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static const struct plan_span *span_at(const struct plan_transfer *t, const struct plan_cursor *c)
{
    return &t->span[t->plan->piece[c->piece].pair];
}

/* Moves the cursor over pieces of which nothing is left. */
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

/* Where a piece's token lies on one side: all that the hot path needs, so that it follows no pointers. */
struct side {
    uint64_t base;
    int64_t block, token;   /* strides */
    const uint32_t *blocks; /* NULL: the address is not asked for, and means nothing */
    uint32_t block_tokens;
    uint32_t index, within; /* the block's index in the table, and the token in the block */
};

static inline void side_seek(struct side *s, uint32_t token)
{
    s->index = token / s->block_tokens;
    s->within = token % s->block_tokens;
}

/* Moves on by tokens that all lie in the present block. */
static inline void side_pass(struct side *s, uint32_t tokens)
{
    s->within += tokens;
    if (s->within == s->block_tokens) {
        s->within = 0;
        s->index++;
    }
}

static inline uint64_t side_address(const struct side *s)
{
    uint32_t block = s->blocks != NULL ? s->blocks[s->index] : 0;
    return s->base + (uint64_t)s->block * block + (uint64_t)s->token * s->within;
}

/* What a cursor stands for: its piece, and the place in it on both sides. */
struct place {
    const struct shape *shape;
    uint64_t token_bytes;
    uint32_t num; /* tokens that move of the piece */
    struct side src, dst;
};

static struct place place_at(const struct plan_transfer *t, const struct plan_cursor *c)
{
    const struct plan_piece *piece = &t->plan->piece[c->piece];
    const struct shape *shape = &t->plan->shape[piece->program];
    const struct pair *pair = &t->plan->pair[piece->pair];
    const struct plan_span *span = &t->span[piece->pair];
    const struct plan_loop *token = &shape->direction[SHAPE_TOKEN];
    struct place p = {
        .shape = shape,
        .token_bytes = shape->token_bytes,
        .num = span->end - span->first,
        .src = {piece->src_base, shape->src_block, token->src, span->src_blocks, pair->src.block_tokens, 0, 0},
        .dst = {piece->dst_base, shape->dst_block, token->dst, span->dst_blocks, pair->dst.block_tokens, 0, 0}};
    side_seek(&p.src, span->first + c->token - span->src_first);
    side_seek(&p.dst, span->first + c->token - span->dst_first);
    return p;
}

/* How many tokens the unit at a place has: those that lie in one block on both sides, at most `left`. */
static inline uint32_t place_unit(const struct place *p, uint32_t left)
{
    uint32_t src = p->src.block_tokens - p->src.within, dst = p->dst.block_tokens - p->dst.within;
    uint32_t least = src < dst ? src : dst;
    return least < left ? least : left;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Where runs are collected: up to `max` runs. `budget` is how many bytes may still come. */
struct sink {
    struct plan_run *out;
    uint32_t n, max;
    uint64_t budget;
    uint32_t src_region, dst_region;
};

/* Takes as much of a run as fits, and joins it to the last run where both sides touch. Returns the bytes taken. */
__attribute__((always_inline)) static inline uint64_t sink_put(struct sink *s, uint64_t src, uint64_t dst,
                                                               uint64_t bytes)
{
    struct plan_run *last = s->n > 0 ? &s->out[s->n - 1] : NULL;
    if (bytes > s->budget)
        bytes = s->budget;
    if (bytes == 0)
        return 0;
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

/*
 * Walks the loops of a program, which has one at least, over `bytes` bytes, of which `done` are done. Returns how many
 * are done then. Not inlined, so that its counters take no registers from units that are one run.
 */
__attribute__((noinline)) static uint64_t walk(const struct plan_program *p, uint64_t src, uint64_t dst, uint64_t done,
                                               uint64_t bytes, struct sink *s)
{
    const uint32_t inner = p->num_loops - 1;
    const struct plan_loop row = p->loop[inner];
    const uint64_t run = p->run;
    uint32_t at[PLAN_LOOPS_MAX] = {0}, column = 0;
    uint64_t within = 0;
    if (done > 0) { /* resumed in the midst of a unit: find the place again */
        uint64_t k = done / run;
        within = done % run;
        column = (uint32_t)(k % row.count);
        k /= row.count;
        for (unsigned i = inner; i-- > 0; k /= p->loop[i].count) {
            at[i] = (uint32_t)(k % p->loop[i].count);
            src += (uint64_t)(at[i] * p->loop[i].src);
            dst += (uint64_t)(at[i] * p->loop[i].dst);
        }
    }
    while (done < bytes) {
        uint64_t from = src + (uint64_t)(column * row.src), to = dst + (uint64_t)(column * row.dst);
        for (; column < row.count; column++, within = 0) {
            uint64_t took = sink_put(s, from + within, to + within, run - within);
            done += took;
            if (took < run - within)
                return done;
            from += (uint64_t)row.src;
            to += (uint64_t)row.dst;
        }
        column = 0;
        for (unsigned i = inner; i-- > 0;) {
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

/* The program for fewer tokens than a whole block of the smaller side has. */
static struct plan_program partial_program(const struct shape *s, uint32_t tokens)
{
    struct plan_program p = s->partial;
    if (s->token_loop < 0)
        p.run *= tokens;
    else
        p.loop[s->token_loop].count = tokens;
    return p;
}

/* Walks a unit of so many tokens and bytes, of which `done` bytes are done. Returns how many are done then. */
static inline uint64_t walk_unit(const struct place *p, uint32_t tokens, uint64_t bytes, uint64_t done, struct sink *s)
{
    const struct plan_program *program = &p->shape->whole;
    uint64_t src = side_address(&p->src), dst = side_address(&p->dst);
    struct plan_program partial;
    if (tokens < p->shape->direction[SHAPE_TOKEN].count) {
        partial = partial_program(p->shape, tokens);
        program = &partial;
    }
    if (program->num_loops == 0)
        return done + sink_put(s, src + done, dst + done, bytes - done);
    return walk(program, src, dst, done, bytes, s);
}

/* Takes runs of the cursor's piece. False: the sink is full before the piece ends. */
static bool walk_piece(const struct plan_transfer *t, struct plan_cursor *c, struct sink *s)
{
    struct place p = place_at(t, c);
    s->src_region = t->plan->piece[c->piece].src_region;
    s->dst_region = t->plan->piece[c->piece].dst_region;
    while (c->token < p.num && s->budget > 0) {
        uint32_t tokens = place_unit(&p, p.num - c->token);
        uint64_t bytes = tokens * p.token_bytes;
        c->unit_done = walk_unit(&p, tokens, bytes, c->unit_done, s);
        if (c->unit_done < bytes)
            return false;
        c->unit_done = 0;
        c->token += tokens;
        side_pass(&p.src, tokens);
        side_pass(&p.dst, tokens);
    }
    return true;
}

uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget)
{
    struct sink s = {.out = out, .max = max, .budget = budget};
    settle(t, c);
    while (s.budget > 0 && c->piece < t->plan->num_pieces && walk_piece(t, c, &s))
        settle(t, c);
    return s.n;
}

/* The last token at or before `token` with which a block begins on either side, or else the span. */
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
        if (to > c->token) { /* over many units in one step */
            passed += (to - c->token) * token_bytes;
            c->token = to;
            continue;
        }
        const struct place p = place_at(t, c);
        uint32_t tokens = place_unit(&p, left);
        uint64_t rest = tokens * token_bytes - c->unit_done;
        if (passed > 0 && rest > room)
            break;
        passed += rest;
        c->token += tokens;
        c->unit_done = 0;
    }
    return passed;
}

/* How many bytes are left of the unit at a settled cursor. */
static uint64_t unit_left(const struct plan_transfer *t, const struct plan_cursor *c)
{
    const struct place p = place_at(t, c);
    return place_unit(&p, p.num - c->token) * p.token_bytes - c->unit_done;
}

void plan_pass(const struct plan_transfer *t, struct plan_cursor *c, uint64_t bytes)
{
    for (settle(t, c); bytes > 0 && c->piece < t->plan->num_pieces; settle(t, c)) {
        if (bytes >= unit_left(t, c)) {
            bytes -= plan_skip(t, c, bytes);
        } else {
            c->unit_done += bytes;
            bytes = 0;
        }
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* The tokens of a part: one block of the larger size. */
static uint32_t part_tokens(const struct pair *p)
{
    return p->src.block_tokens > p->dst.block_tokens ? p->src.block_tokens : p->dst.block_tokens;
}

/* How many parts the span of a pair of groups has. */
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

uint64_t plan_left(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t piece)
{
    const struct plan_span *s = &t->span[t->plan->piece[piece].pair];
    uint64_t token_bytes = plan_token_bytes(t->plan, piece);
    uint64_t done = piece == c->piece ? c->token * token_bytes + c->unit_done : 0;
    return (s->end - s->first) * token_bytes - done;
}

uint64_t plan_ahead(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t layer_end)
{
    uint64_t bytes = 0;
    for (uint32_t i = c->piece; i < t->plan->num_pieces; i++) {
        const struct plan_piece *p = &t->plan->piece[i];
        if (p->layer >= layer_end || layer_end - p->layer < p->num_layers)
            break;
        bytes += plan_left(t, c, i);
    }
    return bytes;
}
