/* SPDX-License-Identifier: BSD-3-Clause */
/* llama: see llama.h. */
#include "engine/llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attention.h"
#include "engine/scalar.h"
#include "replay/random.h"

#define ROPE_BASE 10000.0

/* ---- making ------------------------------------------------------------------------------------------------------ */

static float *make_turns(uint32_t head_size, uint32_t positions)
{
    const uint32_t pairs = head_size / 2;
    float *turns = malloc((size_t)positions * head_size * sizeof *turns);
    for (uint32_t p = 0; turns != NULL && p < positions; p++)
        for (uint32_t i = 0; i < pairs; i++) {
            const double angle = p * pow(ROPE_BASE, -2.0 * i / head_size);
            turns[((size_t)p * pairs + i) * 2] = (float)cos(angle);
            turns[((size_t)p * pairs + i) * 2 + 1] = (float)sin(angle);
        }
    return turns;
}

static float *numbers(size_t rows, size_t columns)
{
    return malloc(rows * columns * sizeof(float));
}

static int make_rows(struct llama_rows *r, const struct shape *s, const struct slice *slice, uint32_t tokens,
                     uint32_t positions)
{
    const uint32_t hidden = shape_hidden(s), heads = slice->head_count * s->head_size;
    const uint32_t kv = slice->kv_count * s->head_size;
    *r = (struct llama_rows){
        .hidden = numbers(tokens, hidden),
        .normed = numbers(tokens, hidden),
        .query = numbers(tokens, heads),
        .key = numbers(tokens, kv),
        .value = numbers(tokens, kv),
        .mixed = numbers(tokens, heads),
        .gate = numbers(tokens, slice->ffn_count),
        .up = numbers(tokens, slice->ffn_count),
        .logits = numbers(1, s->vocab),
        .scores = numbers(1, positions),
        .sums = malloc((size_t)tokens * hidden * sizeof *r->sums),
    };
    return r->hidden && r->normed && r->query && r->key && r->value && r->mixed && r->gate && r->up && r->logits &&
                   r->scores && r->sums
               ? 0
               : -1;
}

int llama_init(struct llama *m, const struct shape *shape, const struct slice *slice, const struct pages *pages,
               const struct team *team, uint32_t tokens, uint32_t positions)
{
    *m = (struct llama){.shape = *shape, .slice = *slice, .pages = pages, .team = team};
    if (weights_init(&m->weights, shape, slice) != 0 || make_rows(&m->rows, shape, slice, tokens, positions) != 0)
        return -1;
    m->turns = make_turns(shape->head_size, positions);
    return m->turns != NULL ? 0 : -1;
}

void llama_fini(struct llama *m)
{
    struct llama_rows *r = &m->rows;
    void *all[] = {r->hidden, r->normed, r->query, r->key,    r->value,  r->mixed,
                   r->gate,   r->up,     r->sums,  r->logits, r->scores, m->turns};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    weights_fini(&m->weights);
    *m = (struct llama){0};
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

static void norm(const struct llama *m, const float *gain, uint32_t tokens)
{
    const uint32_t hidden = shape_hidden(&m->shape);
    for (uint32_t t = 0; t < tokens; t++)
        scalar_norm(m->rows.hidden + (size_t)t * hidden, gain, hidden, m->rows.normed + (size_t)t * hidden);
}

/* RoPE: each pair of channels is turned by an angle that grows with the position. */
static void turn(const struct llama *m, float *head, uint32_t position)
{
    const uint32_t pairs = m->shape.head_size / 2;
    const float *turns = m->turns + (size_t)position * m->shape.head_size;
    for (uint32_t i = 0; i < pairs; i++) {
        const float x = head[2 * i], y = head[2 * i + 1];
        head[2 * i] = x * turns[2 * i] - y * turns[2 * i + 1];
        head[2 * i + 1] = x * turns[2 * i + 1] + y * turns[2 * i];
    }
}

/* Queries, and keys and values into the pages. */
static void project(const struct llama *m, uint32_t layer, const struct batch *b)
{
    const struct weights_layer *w = &m->weights.layers[layer];
    const struct llama_rows *r = &m->rows;
    const uint32_t size = m->shape.head_size, heads = m->slice.head_count, kv = m->slice.kv_count;
    matrix_multiply(&w->query, r->normed, b->count, r->query);
    matrix_multiply(&w->key, r->normed, b->count, r->key);
    matrix_multiply(&w->value, r->normed, b->count, r->value);
    for (uint32_t t = 0; t < b->count; t++) {
        const struct batch_token *at = &b->tokens[t];
        const uint32_t block = at->blocks[at->position / m->pages->block_tokens];
        const uint32_t place = at->position % m->pages->block_tokens;
        for (uint32_t h = 0; h < heads; h++)
            turn(m, r->query + ((size_t)t * heads + h) * size, at->position);
        for (uint32_t h = 0; h < kv; h++) {
            float *key = r->key + ((size_t)t * kv + h) * size, *value = r->value + ((size_t)t * kv + h) * size;
            turn(m, key, at->position);
            memcpy(pages_at(m->pages, layer, PLANE_KEY, h, block, place), key, size * sizeof *key);
            memcpy(pages_at(m->pages, layer, PLANE_VALUE, h, block, place), value, size * sizeof *value);
        }
    }
}

static void attend(const struct llama *m, uint32_t layer, const struct batch *b)
{
    const uint32_t size = m->shape.head_size, heads = m->slice.head_count;
    const uint32_t group = m->shape.heads / m->shape.kv_heads;
    for (uint32_t t = 0; t < b->count; t++)
        for (uint32_t h = 0; h < heads; h++) {
            const size_t row = ((size_t)t * heads + h) * size;
            const uint32_t kv_head = (m->slice.head_first + h) / group - m->slice.kv_first;
            attention(m->pages, layer, kv_head, b->tokens[t].blocks, b->tokens[t].position, m->rows.query + row,
                      m->rows.scores, m->rows.mixed + row);
        }
}

/* Adds to the hidden state what the ranks of the stage have computed of it. */
static int reduce(const struct llama *m, const struct matrix *matrix, const float *x, uint32_t tokens)
{
    const uint64_t count = (uint64_t)tokens * shape_hidden(&m->shape);
    matrix_sum(matrix, x, tokens, m->rows.sums);
    if (m->team->seat.tp > 1 && m->team->sum(m->team->self, m->rows.sums, count) != 0)
        return -1;
    matrix_add_sums(m->rows.hidden, m->rows.sums, count);
    return 0;
}

static int mlp(const struct llama *m, uint32_t layer, uint32_t tokens)
{
    const struct weights_layer *w = &m->weights.layers[layer];
    const size_t count = (size_t)tokens * m->slice.ffn_count;
    matrix_multiply(&w->gate, m->rows.normed, tokens, m->rows.gate);
    matrix_multiply(&w->up, m->rows.normed, tokens, m->rows.up);
    for (size_t i = 0; i < count; i++)
        m->rows.gate[i] = scalar_silu(m->rows.gate[i]) * m->rows.up[i];
    return reduce(m, &w->down, m->rows.gate, tokens);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void embed(const struct llama *m, const struct batch *b)
{
    const uint32_t hidden = shape_hidden(&m->shape);
    for (uint32_t t = 0; t < b->count; t++)
        memcpy(m->rows.hidden + (size_t)t * hidden, m->weights.embedding + (size_t)b->tokens[t].token * hidden,
               hidden * sizeof(float));
}

static struct batch_answer answer(const struct llama *m, const float *hidden)
{
    struct batch_answer best = {0};
    const float *logits = m->rows.logits;
    scalar_norm(hidden, m->weights.norm, shape_hidden(&m->shape), m->rows.normed);
    matrix_multiply(&m->weights.logits, m->rows.normed, 1, m->rows.logits);
    for (uint32_t i = 0; i < m->shape.vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        best.logits = random_mix(best.logits + bits + 1);
        if (logits[i] > logits[best.token])
            best.token = i;
    }
    return best;
}

static void answer_all(const struct llama *m, struct batch *b)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < b->count; t++)
        if (b->tokens[t].asks)
            b->answers[n++] = answer(m, m->rows.hidden + (size_t)t * shape_hidden(&m->shape));
}

int llama_step(struct llama *m, struct batch *b, llama_layer_fn on_layer, void *user)
{
    const uint64_t count = (uint64_t)b->count * shape_hidden(&m->shape);
    if (m->slice.first)
        embed(m, b);
    else if (m->team->receive(m->team->self, m->rows.hidden, count) != 0)
        return -1;
    for (uint32_t l = 0; l < m->slice.layer_count; l++) {
        norm(m, m->weights.layers[l].norm[0], b->count);
        project(m, l, b);
        if (on_layer != NULL)
            on_layer(user, m->slice.layer_first + l);
        attend(m, l, b);
        if (reduce(m, &m->weights.layers[l].out, m->rows.mixed, b->count) != 0)
            return -1;
        norm(m, m->weights.layers[l].norm[1], b->count);
        if (mlp(m, l, b->count) != 0)
            return -1;
    }
    if (m->slice.last)
        answer_all(m, b);
    else if (m->team->send(m->team->self, m->rows.hidden, count) != 0)
        return -1;
    return 0;
}
