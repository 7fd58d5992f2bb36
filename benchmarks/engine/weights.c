/* SPDX-License-Identifier: BSD-3-Clause */
/* weights: see weights.h. */
#include "engine/weights.h"

#include <math.h>
#include <stdlib.h>

#include "replay/random.h"

/* What a number belongs to, beside its layer. */
enum part { QUERY, KEY, VALUE, OUT, GATE, UP, DOWN, NORM_ATTENTION, NORM_MLP, EMBEDDING, NORM_LOGITS, LOGITS };

/* The numbers of one tensor: of row i and column j, [-1, 1). */
struct source {
    uint64_t seed;
};

static struct source source_of(const struct shape *s, uint32_t layer, enum part part)
{
    return (struct source){random_mix(s->seed + random_mix(((uint64_t)layer << 8) + part + 1))};
}

static float number(struct source source, uint64_t row, uint64_t column)
{
    const uint64_t hash = random_mix(source.seed + random_mix((row << 32) + column + 1));
    return (float)((double)(hash >> 40) / 8388608.0 - 1.0); /* 24 bits: exact in float */
}

static float *gains(struct source source, uint32_t count)
{
    float *gain = malloc(count * sizeof *gain);
    for (uint32_t i = 0; gain != NULL && i < count; i++)
        gain[i] = 1.0F + number(source, i, 0) / 2.0F;
    return gain;
}

/* Rows from row_first on and columns from column_first on, of a matrix whose whole has all_rows inputs. */
static int fill(struct matrix *m, struct source source, uint32_t row_first, uint32_t rows, uint32_t column_first,
                uint32_t columns, uint32_t all_rows)
{
    const float scale = (float)sqrt(3.0 / all_rows);
    if (matrix_init(m, rows, columns) != 0)
        return -1;
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j++)
            m->w[(size_t)i * m->stride + j] = scale * number(source, row_first + i, column_first + j);
    return 0;
}

static int fill_layer(struct weights_layer *w, const struct shape *s, const struct slice *slice, uint32_t layer)
{
    const uint32_t hidden = shape_hidden(s), size = s->head_size;
    const uint32_t heads = slice->head_first * size, num_heads = slice->head_count * size;
    const uint32_t kv = slice->kv_first * size, num_kv = slice->kv_count * size;
    w->norm[0] = gains(source_of(s, layer, NORM_ATTENTION), hidden);
    w->norm[1] = gains(source_of(s, layer, NORM_MLP), hidden);
    if (w->norm[0] == NULL || w->norm[1] == NULL)
        return -1;
    if (fill(&w->query, source_of(s, layer, QUERY), 0, hidden, heads, num_heads, hidden) != 0 ||
        fill(&w->key, source_of(s, layer, KEY), 0, hidden, kv, num_kv, hidden) != 0 ||
        fill(&w->value, source_of(s, layer, VALUE), 0, hidden, kv, num_kv, hidden) != 0 ||
        fill(&w->out, source_of(s, layer, OUT), heads, num_heads, 0, hidden, hidden) != 0)
        return -1;
    if (fill(&w->gate, source_of(s, layer, GATE), 0, hidden, slice->ffn_first, slice->ffn_count, hidden) != 0 ||
        fill(&w->up, source_of(s, layer, UP), 0, hidden, slice->ffn_first, slice->ffn_count, hidden) != 0)
        return -1;
    return fill(&w->down, source_of(s, layer, DOWN), slice->ffn_first, slice->ffn_count, 0, hidden, s->ffn);
}

static int fill_embedding(struct weights *w, const struct shape *s)
{
    const uint32_t hidden = shape_hidden(s);
    const struct source source = source_of(s, 0, EMBEDDING);
    w->embedding = malloc((size_t)s->vocab * hidden * sizeof *w->embedding);
    if (w->embedding == NULL)
        return -1;
    for (uint32_t t = 0; t < s->vocab; t++)
        for (uint32_t i = 0; i < hidden; i++)
            w->embedding[(size_t)t * hidden + i] = number(source, t, i);
    return 0;
}

int weights_init(struct weights *w, const struct shape *shape, const struct slice *slice)
{
    const uint32_t hidden = shape_hidden(shape);
    *w = (struct weights){.layers = calloc(slice->layer_count, sizeof *w->layers)};
    if (w->layers == NULL)
        return -1;
    w->num_layers = slice->layer_count;
    for (uint32_t l = 0; l < slice->layer_count; l++)
        if (fill_layer(&w->layers[l], shape, slice, slice->layer_first + l) != 0)
            return -1;
    if (slice->first && fill_embedding(w, shape) != 0)
        return -1;
    if (!slice->last)
        return 0;
    w->norm = gains(source_of(shape, 0, NORM_LOGITS), hidden);
    return w->norm != NULL ? fill(&w->logits, source_of(shape, 0, LOGITS), 0, hidden, 0, shape->vocab, hidden) : -1;
}

void weights_fini(struct weights *w)
{
    for (uint32_t l = 0; l < w->num_layers; l++) {
        struct weights_layer *layer = &w->layers[l];
        struct matrix *all[] = {&layer->query, &layer->key, &layer->value, &layer->out,
                                &layer->gate,  &layer->up,  &layer->down};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
            matrix_fini(all[i]);
        free(layer->norm[0]);
        free(layer->norm[1]);
    }
    free(w->layers);
    free(w->embedding);
    free(w->norm);
    matrix_fini(&w->logits);
    *w = (struct weights){0};
}
