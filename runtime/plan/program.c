/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program: makes copy programs out of strides. Any thread; pure functions. A shape has five directions (layer, plane,
 * head, token, channel), each with a count and a stride on both sides. A program is a shape whose directions are
 * ordered; those that count 1 are dropped, and neighbours are merged. Each shape has two programs. The one for whole
 * blocks merges the tokens with what lies around them. The other is for fewer tokens, whose number is known only in
 * the walk.
 */
#include "plan/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- merging ----------------------------------------------------------------------------------------------------- */

struct ordered {
    struct plan_loop loop;
    bool is_tokens; /* counts tokens whose number is not known yet: nothing merges across this loop */
};

/* Orders the directions by the destination's stride, the largest outermost, so that writes run forward. */
static unsigned order(const struct shape *s, bool partial, struct ordered out[SHAPE_DIRECTIONS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < SHAPE_DIRECTIONS; i++) {
        const struct plan_loop l = s->direction[i];
        if (l.count == 1)
            continue;
        unsigned at = n++;
        for (; at > 0 &&
               (out[at - 1].loop.dst < l.dst || (out[at - 1].loop.dst == l.dst && out[at - 1].loop.src < l.src));
             at--)
            out[at] = out[at - 1];
        out[at] = (struct ordered){l, partial && i == SHAPE_TOKEN};
    }
    return n;
}

/* Returns the index of the loop that counts tokens; -1: there is none, or their number is known. */
static int merge(const struct shape *s, bool partial, struct plan_program *out)
{
    struct ordered loop[SHAPE_DIRECTIONS];
    unsigned n = order(s, partial, loop);
    int tokens = -1;
    bool run_is_tokens = false;
    *out = (struct plan_program){.run = s->elem_bytes};
    while (n > 0 && !run_is_tokens && loop[n - 1].loop.src == (int64_t)out->run &&
           loop[n - 1].loop.dst == (int64_t)out->run) {
        run_is_tokens = loop[--n].is_tokens; /* then the walk multiplies the run by their number */
        out->run *= run_is_tokens ? 1 : loop[n].loop.count;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct plan_loop *l = &loop[i].loop;
        struct plan_loop *outer = out->num_loops > 0 ? &out->loop[out->num_loops - 1] : NULL;
        bool apart = loop[i].is_tokens || (tokens >= 0 && (unsigned)tokens + 1 == out->num_loops);
        if (outer != NULL && !apart && outer->src == l->src * l->count && outer->dst == l->dst * l->count) {
            *outer = (struct plan_loop){outer->count * l->count, l->src, l->dst};
        } else {
            if (loop[i].is_tokens)
                tokens = (int)out->num_loops;
            out->loop[out->num_loops++] = *l;
        }
    }
    return tokens;
}

static void shape_merge(struct shape *s)
{
    s->token_bytes = s->elem_bytes;
    for (unsigned i = 0; i < SHAPE_DIRECTIONS; i++)
        s->token_bytes *= i == SHAPE_TOKEN ? 1 : s->direction[i].count;
    merge(s, false, &s->whole);
    s->token_loop = merge(s, true, &s->partial);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static struct shape shape_of(const struct plan_extent *src, const struct plan_extent *dst, const baton_strides_t *a,
                             const baton_strides_t *b, uint32_t heads)
{
    uint32_t least =
        src->group.block_tokens < dst->group.block_tokens ? src->group.block_tokens : dst->group.block_tokens;
    return (struct shape){
        .elem_bytes = dst->elem_bytes,
        .src_block = a->block,
        .dst_block = b->block,
        .direction = {[SHAPE_LAYER] = {1, 0, 0},
                      [SHAPE_PLANE] = {dst->planes, a->plane, b->plane},
                      [SHAPE_HEAD] = {heads, a->head, b->head},
                      [SHAPE_TOKEN] = {least, a->token, b->token},
                      [SHAPE_CHANNEL] = {dst->head_size, a->channel, b->channel}},
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

/* Returns the index of the shape in the plan, which gets it if it is new; or BATON_EGEOMETRY. */
static int shape_index(struct plan *p, const struct shape *s, struct plan_why *why)
{
    for (uint32_t i = 0; i < p->num_shapes; i++)
        if (shape_equal(&p->shape[i], s))
            return (int)i;
    if (p->num_shapes == PLAN_PROGRAMS_MAX) {
        snprintf(why->text, sizeof why->text, "the tensors have more than %d different shapes", PLAN_PROGRAMS_MAX);
        return BATON_EGEOMETRY;
    }
    p->shape[p->num_shapes] = *s;
    shape_merge(&p->shape[p->num_shapes]);
    return (int)p->num_shapes++;
}

/* Returns the index of the pair of groups in the plan, which gets it if it is new; or BATON_EGEOMETRY. */
static int pair_index(struct plan *p, uint32_t src_index, uint32_t dst_index, const baton_group_t *src,
                      const baton_group_t *dst, struct plan_why *why)
{
    for (uint32_t i = 0; i < p->num_pairs; i++)
        if (p->pair[i].src_index == src_index && p->pair[i].dst_index == dst_index)
            return (int)i;
    if (p->num_pairs == PLAN_PAIRS_MAX) {
        snprintf(why->text, sizeof why->text, "more than %d pairs of groups share tensors", PLAN_PAIRS_MAX);
        return BATON_EGEOMETRY;
    }
    p->pair[p->num_pairs] = (struct pair){src_index, dst_index, *src, *dst};
    return (int)p->num_pairs++;
}

/* By name. Most often both sides list their tensors in one order, so the search begins behind the last one found. */
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

static int tensors_match(const baton_tensor_t *from, const baton_tensor_t *to, const struct plan_extent *a,
                         const struct plan_extent *b, struct plan_why *why)
{
    const struct {
        const char *field;
        uint32_t a, b;
    } numbers[] = {
        {"layer", from->layer, to->layer},
        {"split", from->split, to->split},
        {"planes", a->planes, b->planes},
        {"head_size", a->head_size, b->head_size},
        {"elem_bytes", a->elem_bytes, b->elem_bytes},
        {"kind", a->group.kind, b->group.kind},
        {"window_tokens", a->group.window_tokens, b->group.window_tokens},
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].a != numbers[i].b) {
            snprintf(why->text, sizeof why->text, "%s of tensor \"%.40s\" differs: %u and %u", numbers[i].field,
                     to->name, numbers[i].a, numbers[i].b);
            return BATON_EGEOMETRY;
        }
    return 0;
}

static int add_piece(struct plan *p, const baton_geometry_t *src, const baton_geometry_t *dst,
                     const baton_tensor_t *from, const baton_tensor_t *to, const struct plan_box *box,
                     struct plan_why *why)
{
    struct plan_extent a = geometry_extent(src, from), b = geometry_extent(dst, to);
    int rc = tensors_match(from, to, &a, &b, why);
    if (rc != 0)
        return rc;
    struct shape shape = shape_of(&a, &b, &from->stride, &to->stride, box->head_count);
    int program = shape_index(p, &shape, why);
    int pair = program < 0 ? program : pair_index(p, from->group, to->group, &a.group, &b.group, why);
    if (pair < 0)
        return pair;
    p->piece[p->num_pieces++] = (struct plan_piece){
        .program = (uint32_t)program,
        .pair = (uint32_t)pair,
        .src_region = from->region,
        .dst_region = to->region,
        .layer = to->layer,
        .num_layers = 1,
        .src_base = from->offset + (uint64_t)(box->head_first - a.split.head_first) * (uint64_t)from->stride.head,
        .dst_base = to->offset + (uint64_t)(box->head_first - b.split.head_first) * (uint64_t)to->stride.head};
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/*
 * Lists the tensors by layer, since a producer computes the lower layers first: layer << 32 | index. Free it. NULL: no
 * memory.
 */
static uint64_t *order_by_layer(const baton_geometry_t *g)
{
    uint64_t *order = calloc((size_t)g->num_tensors + 1, sizeof *order);
    bool sorted = true;
    for (uint32_t i = 0; order != NULL && i < g->num_tensors; i++) {
        order[i] = (uint64_t)g->tensors[i].layer << 32 | i;
        sorted &= i == 0 || order[i] > order[i - 1];
    }
    if (!sorted)
        qsort(order, g->num_tensors, sizeof *order, by_number);
    return order;
}

static int add_in_order(struct plan *p, const baton_geometry_t *src, const baton_geometry_t *dst, const uint64_t *order,
                        const struct plan_box *boxes, uint32_t num_boxes, struct plan_why *why)
{
    uint32_t hint = 0;
    for (uint32_t t = 0; t < dst->num_tensors; t++) {
        const baton_tensor_t *to = &dst->tensors[order[t] & UINT32_MAX], *from = NULL;
        for (uint32_t i = 0; i < num_boxes; i++) {
            if (boxes[i].split != to->split || to->layer < boxes[i].layer_first ||
                to->layer - boxes[i].layer_first >= boxes[i].layer_count)
                continue;
            if (from == NULL)
                from = tensor_find(src, to->name, &hint);
            if (from == NULL) {
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

static int add_pieces(struct plan *p, const baton_geometry_t *src, const baton_geometry_t *dst,
                      const struct plan_box *boxes, uint32_t num_boxes, struct plan_why *why)
{
    uint64_t *order = order_by_layer(dst);
    if (order == NULL) {
        snprintf(why->text, sizeof why->text, "no memory to order %u tensors", dst->num_tensors);
        return BATON_ENOMEM;
    }
    int rc = add_in_order(p, src, dst, order, boxes, num_boxes, why);
    free(order);
    return rc;
}

/*
 * Joins neighbouring pieces that touch on both sides within a block, as in caches that keep all layers in one block, to
 * one piece that also has the direction of layers.
 */
static void fold_layers(struct plan *p, struct plan_why *why)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->num_pieces;) {
        struct plan_piece piece = p->piece[i];
        const struct plan_program *whole = &p->shape[piece.program].whole;
        uint32_t n = 1;
        for (; whole->num_loops == 0 && i + n < p->num_pieces; n++) {
            const struct plan_piece *next = &p->piece[i + n];
            if (next->program != piece.program || next->pair != piece.pair || next->src_region != piece.src_region ||
                next->dst_region != piece.dst_region || next->layer != piece.layer + n ||
                next->src_base != piece.src_base + n * whole->run || next->dst_base != piece.dst_base + n * whole->run)
                break;
        }
        if (n > 1) {
            struct shape shape = p->shape[piece.program];
            shape.direction[SHAPE_LAYER] = (struct plan_loop){n, (int64_t)whole->run, (int64_t)whole->run};
            int folded = shape_index(p, &shape, why);
            if (folded < 0) {
                n = 1; /* the plan has no room for another shape: the pieces stay apart */
            } else {
                piece.program = (uint32_t)folded;
                piece.num_layers = n;
            }
        }
        p->piece[kept++] = piece;
        i += n;
    }
    p->num_pieces = kept;
}

static int check_boxes(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                       uint32_t num_boxes, struct plan_why *why)
{
    struct plan_member a = {.num_boxes = plan_boxes(src, a.box)}, b = {.num_boxes = plan_boxes(dst, b.box)};
    for (uint32_t i = 0; i < num_boxes; i++)
        if (!plan_member_covers(&a, &boxes[i]) || !plan_member_covers(&b, &boxes[i])) {
            snprintf(why->text, sizeof why->text,
                     "the layers or heads of the caches differ from those in the directory");
            return BATON_EGEOMETRY;
        }
    return 0;
}

int plan_compile(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                 uint32_t num_boxes, struct plan **out, struct plan_why *why)
{
    int rc = check_boxes(src, dst, boxes, num_boxes, why);
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
    rc = add_pieces(p, src, dst, boxes, num_boxes, why);
    if (rc != 0) {
        plan_destroy(p);
        return rc;
    }
    fold_layers(p, why);
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

const struct plan_piece *plan_piece_at(const struct plan *p, uint32_t i)
{
    return &p->piece[i];
}

uint64_t plan_token_bytes(const struct plan *p, uint32_t piece)
{
    return p->shape[p->piece[piece].program].token_bytes;
}

size_t plan_footprint(const struct plan *p)
{
    return sizeof *p + p->num_pieces * sizeof *p->piece;
}
