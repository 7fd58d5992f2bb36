/* SPDX-License-Identifier: BSD-3-Clause */
/* cursor: walks a plan for one request's block tables. plan_next is the hot path of every transfer. */
#include "plan/program.h"

void plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t num_tokens,
                        const uint32_t *src_blocks, const uint32_t *dst_blocks)
{
    *t = (struct plan_transfer){.plan = plan,
                                .src_blocks = src_blocks,
                                .dst_blocks = dst_blocks,
                                .num_blocks = (num_tokens - 1) / plan->block_tokens + 1};
    t->tail_tokens = num_tokens - (t->num_blocks - 1) * plan->block_tokens;
    for (uint32_t i = 0; i < plan->num_programs; i++)
        shape_program(&plan->shape[i], t->tail_tokens, &t->tail[i]);
    for (uint32_t i = 0; i < plan->num_pieces; i++) {
        uint32_t program = plan->piece[i].program;
        t->bytes += (uint64_t)(t->num_blocks - 1) * plan->program[program].unit_bytes + t->tail[program].unit_bytes;
    }
}

bool plan_at_end(const struct plan_transfer *t, const struct plan_cursor *c)
{
    return c->piece >= t->plan->num_pieces;
}

static const struct plan_program *program_at(const struct plan_transfer *t, const struct plan_cursor *c)
{
    uint32_t program = t->plan->piece[c->piece].program;
    return c->block + 1 == t->num_blocks ? &t->tail[program] : &t->plan->program[program];
}

uint64_t plan_unit_bytes(const struct plan_transfer *t, const struct plan_cursor *c)
{
    return program_at(t, c)->unit_bytes;
}

static void next_unit(const struct plan_transfer *t, struct plan_cursor *c)
{
    c->unit_done = 0;
    if (++c->block == t->num_blocks) {
        c->block = 0;
        c->piece++;
    }
}

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

/* Walks one unit's loops from `done` bytes on; returns the bytes then behind. */
static uint64_t walk_unit(const struct plan_program *p, uint64_t src, uint64_t dst, uint64_t done, struct sink *s)
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
    while (done < p->unit_bytes) {
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

uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget)
{
    struct sink s = {.out = out, .max = max, .budget = budget};
    while (s.budget > 0 && !plan_at_end(t, c)) {
        const struct plan_piece *piece = &t->plan->piece[c->piece];
        const struct plan_program *p = program_at(t, c);
        uint64_t src = piece->src_base + (uint64_t)p->src_block * t->src_blocks[c->block];
        uint64_t dst = piece->dst_base + (uint64_t)p->dst_block * t->dst_blocks[c->block];
        s.src_region = piece->src_region;
        s.dst_region = piece->dst_region;
        if (p->num_loops == 0) {
            uint64_t left = p->run - c->unit_done;
            c->unit_done += sink_put(&s, src + c->unit_done, dst + c->unit_done, left);
        } else {
            c->unit_done = walk_unit(p, src, dst, c->unit_done, &s);
        }
        if (c->unit_done < p->unit_bytes)
            break; /* out of room */
        next_unit(t, c);
    }
    return s.n;
}

uint64_t plan_skip(const struct plan_transfer *t, struct plan_cursor *c, uint64_t budget)
{
    uint64_t passed = 0;
    while (!plan_at_end(t, c)) {
        const struct plan_program *p = program_at(t, c);
        uint64_t left = p->unit_bytes - c->unit_done;
        if (passed > 0 && left > budget - passed)
            break;
        if (c->unit_done == 0 && c->block + 1 < t->num_blocks && left <= budget) {
            /* whole blocks before the last, as many as fit: one step, however many */
            uint64_t fit = (budget - passed) / left, rest = t->num_blocks - 1 - c->block;
            uint64_t n = fit < rest ? fit : rest;
            passed += n * left;
            c->block += (uint32_t)n;
            continue;
        }
        passed += left;
        next_unit(t, c);
        if (passed >= budget)
            break;
    }
    return passed;
}
