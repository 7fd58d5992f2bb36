/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program: copy programs out of strides. A shape is the product of five directions (layer, plane, head, token,
 * channel), each with a count and a stride on both sides; a program is a shape with its directions ordered, those of
 * one step dropped and neighbours merged. Shapes are kept unmerged too, for the last, partly filled block.
 */
#include "plan/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Outermost first: by the destination's stride, so that writes run forward. */
static unsigned ordered(const struct shape *s, uint32_t tokens, struct plan_loop out[SHAPE_DIRECTIONS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < SHAPE_DIRECTIONS; i++) {
        struct plan_loop l = s->direction[i];
        if (i == SHAPE_TOKEN)
            l.count = tokens;
        if (l.count == 1)
            continue;
        unsigned at = n++;
        for (; at > 0 && (out[at - 1].dst < l.dst || (out[at - 1].dst == l.dst && out[at - 1].src < l.src)); at--)
            out[at] = out[at - 1];
        out[at] = l;
    }
    return n;
}

void shape_program(const struct shape *s, uint32_t tokens, struct plan_program *out)
{
    struct plan_loop loop[SHAPE_DIRECTIONS];
    unsigned n = ordered(s, tokens, loop);
    *out = (struct plan_program){.run = s->elem_bytes, .src_block = s->src_block, .dst_block = s->dst_block};
    while (n > 0 && loop[n - 1].src == (int64_t)out->run && loop[n - 1].dst == (int64_t)out->run)
        out->run *= loop[--n].count;
    for (unsigned i = 0; i < n; i++) {
        struct plan_loop *outer = out->num_loops > 0 ? &out->loop[out->num_loops - 1] : NULL;
        if (outer != NULL && outer->src == loop[i].src * loop[i].count && outer->dst == loop[i].dst * loop[i].count)
            *outer = (struct plan_loop){outer->count * loop[i].count, loop[i].src, loop[i].dst};
        else
            out->loop[out->num_loops++] = loop[i];
    }
    out->unit_bytes = out->run;
    for (unsigned i = 0; i < out->num_loops; i++)
        out->unit_bytes *= out->loop[i].count;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static struct shape shape_of(const baton_geometry_t *g, const baton_tensor_t *src, const baton_tensor_t *dst,
                             uint32_t heads)
{
    const baton_strides_t *a = &src->stride, *b = &dst->stride;
    return (struct shape){
        .elem_bytes = g->elem_bytes,
        .src_block = a->block,
        .dst_block = b->block,
        .direction = {[SHAPE_LAYER] = {1, 0, 0},
                      [SHAPE_PLANE] = {g->planes, a->plane, b->plane},
                      [SHAPE_HEAD] = {heads, a->head, b->head},
                      [SHAPE_TOKEN] = {g->block_tokens, a->token, b->token},
                      [SHAPE_CHANNEL] = {g->head_size, a->channel, b->channel}},
    };
}

static bool loop_equal(const struct plan_loop *a, const struct plan_loop *b)
{
    return a->count == b->count && a->src == b->src && a->dst == b->dst;
}

static bool shape_equal(const struct shape *a, const struct shape *b)
{
    bool equal = a->elem_bytes == b->elem_bytes && a->src_block == b->src_block && a->dst_block == b->dst_block;
    for (unsigned i = 0; i < SHAPE_DIRECTIONS; i++)
        equal = equal && loop_equal(&a->direction[i], &b->direction[i]);
    return equal;
}

/* Index of the shape among the plan's, added if it is new; or BATON_EGEOMETRY. */
static int shape_index(struct plan *p, const struct shape *s, struct plan_why *why)
{
    for (uint32_t i = 0; i < p->num_programs; i++)
        if (shape_equal(&p->shape[i], s))
            return (int)i;
    if (p->num_programs == PLAN_PROGRAMS_MAX) {
        snprintf(why->text, sizeof why->text, "the tensors have more than %d different shapes", PLAN_PROGRAMS_MAX);
        return BATON_EGEOMETRY;
    }
    p->shape[p->num_programs] = *s;
    shape_program(s, p->block_tokens, &p->program[p->num_programs]);
    return (int)p->num_programs++;
}

/* By name; tensors are in the same order most often, so the search begins behind the last one found. */
static const baton_tensor_t *tensor_find(const baton_geometry_t *g, const char *name, uint32_t *hint)
{
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        uint32_t at = (*hint + i) % g->num_tensors;
        if (strcmp(g->tensors[at].name, name) == 0) {
            *hint = at + 1;
            return &g->tensors[at];
        }
    }
    return NULL;
}

static int add_piece(struct plan *p, const baton_geometry_t *src, const baton_geometry_t *dst,
                     const baton_tensor_t *from, const baton_tensor_t *to, const struct plan_box *box,
                     struct plan_why *why)
{
    struct shape shape = shape_of(dst, from, to, box->head_count);
    int program = shape_index(p, &shape, why);
    if (program < 0)
        return program;
    p->piece[p->num_pieces++] = (struct plan_piece){
        .program = (uint32_t)program,
        .src_region = from->region,
        .dst_region = to->region,
        .layer = to->layer,
        .src_base = from->offset + (uint64_t)(box->head_first - src->head_first) * (uint64_t)from->stride.head,
        .dst_base = to->offset + (uint64_t)(box->head_first - dst->head_first) * (uint64_t)to->stride.head};
    return 0;
}

static int add_pieces(struct plan *p, const baton_geometry_t *src, const baton_geometry_t *dst,
                      const struct plan_box *boxes, uint32_t num_boxes, struct plan_why *why)
{
    uint32_t hint = 0;
    for (uint32_t t = 0; t < dst->num_tensors; t++) {
        const baton_tensor_t *to = &dst->tensors[t], *from = NULL;
        for (uint32_t i = 0; i < num_boxes; i++) {
            if (to->layer < boxes[i].layer_first || to->layer - boxes[i].layer_first >= boxes[i].layer_count)
                continue;
            if (from == NULL)
                from = tensor_find(src, to->name, &hint);
            if (from == NULL || from->layer != to->layer) {
                snprintf(why->text, sizeof why->text, "tensor \"%.60s\" of layer %u is not in the producer's cache",
                         to->name, to->layer);
                return BATON_EGEOMETRY;
            }
            int rc = add_piece(p, src, dst, from, to, &boxes[i], why);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

/*
 * Where neighbouring pieces follow each other without a gap on both sides within a block (caches that keep all layers
 * in one block), they become one piece with a layer direction.
 */
static int fold_layers(struct plan *p, struct plan_why *why)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->num_pieces;) {
        struct plan_piece piece = p->piece[i];
        const struct plan_program *program = &p->program[piece.program];
        uint32_t n = 1;
        while (program->num_loops == 0 && i + n < p->num_pieces) {
            const struct plan_piece *next = &p->piece[i + n];
            if (next->program != piece.program || next->src_region != piece.src_region ||
                next->dst_region != piece.dst_region || next->src_base != piece.src_base + n * program->run ||
                next->dst_base != piece.dst_base + n * program->run)
                break;
            n++;
        }
        if (n > 1) {
            struct shape shape = p->shape[piece.program];
            shape.direction[SHAPE_LAYER] = (struct plan_loop){n, (int64_t)program->run, (int64_t)program->run};
            int folded = shape_index(p, &shape, why);
            if (folded < 0)
                return folded;
            piece.program = (uint32_t)folded;
        }
        p->piece[kept++] = piece;
        i += n;
    }
    p->num_pieces = kept;
    return 0;
}

static int check_pair(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                      uint32_t num_boxes, struct plan_why *why)
{
    const struct plan_box a = {src->layer_first, src->layer_count, src->head_first, src->head_count};
    const struct plan_box b = {dst->layer_first, dst->layer_count, dst->head_first, dst->head_count};
    if (src->block_tokens != dst->block_tokens) {
        snprintf(why->text, sizeof why->text, "block_tokens differs: %u and %u", src->block_tokens, dst->block_tokens);
        return BATON_EGEOMETRY;
    }
    for (uint32_t i = 0; i < num_boxes; i++) {
        struct plan_box in_a, in_b;
        if (!box_intersect(&boxes[i], &a, &in_a) || !box_intersect(&boxes[i], &b, &in_b) ||
            memcmp(&in_a, &boxes[i], sizeof in_a) != 0 || memcmp(&in_b, &boxes[i], sizeof in_b) != 0) {
            snprintf(why->text, sizeof why->text, "layers or heads are not those that the directory told");
            return BATON_EGEOMETRY;
        }
    }
    return 0;
}

int plan_compile(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                 uint32_t num_boxes, struct plan **out, struct plan_why *why)
{
    int rc = check_pair(src, dst, boxes, num_boxes, why);
    if (rc != 0)
        return rc;
    struct plan *p = calloc(1, sizeof *p);
    size_t most = (size_t)dst->num_tensors * num_boxes;
    if (p != NULL)
        p->piece = malloc((most ? most : 1) * sizeof *p->piece);
    if (p == NULL || p->piece == NULL) {
        plan_destroy(p);
        return BATON_ENOMEM;
    }
    p->block_tokens = dst->block_tokens;
    rc = add_pieces(p, src, dst, boxes, num_boxes, why);
    if (rc == 0)
        rc = fold_layers(p, why);
    if (rc != 0) {
        plan_destroy(p);
        return rc;
    }
    struct plan_piece *fit = realloc(p->piece, (p->num_pieces ? p->num_pieces : 1) * sizeof *fit);
    if (fit != NULL)
        p->piece = fit;
    *out = p;
    return 0;
}

void plan_destroy(struct plan *p)
{
    if (p == NULL)
        return;
    free(p->piece);
    free(p);
}

uint32_t plan_num_pieces(const struct plan *p)
{
    return p->num_pieces;
}

uint32_t plan_num_programs(const struct plan *p)
{
    return p->num_programs;
}

const struct plan_piece *plan_piece_at(const struct plan *p, uint32_t i)
{
    return &p->piece[i];
}

const struct plan_program *plan_program_at(const struct plan *p, uint32_t i)
{
    return &p->program[i];
}

size_t plan_footprint(const struct plan *p)
{
    return sizeof *p + p->num_pieces * sizeof *p->piece;
}
