/* SPDX-License-Identifier: BSD-3-Clause */
/* attention: see attention.h. */
#include "engine/attention.h"

#include <math.h>

#include "engine/scalar.h"

static float dot(const float *a, const float *b, uint32_t count)
{
    float sum = 0;
    for (uint32_t c = 0; c < count; c++)
        sum += a[c] * b[c];
    return sum;
}

/* Returns the largest score; a NaN is none. */
static float score(const struct pages *p, uint32_t layer, uint32_t head, const uint32_t *blocks, uint32_t position,
                   const float *query, float *scores)
{
    const float scale = (float)(1.0 / sqrt((double)p->head_size));
    float most = -INFINITY;
    for (uint32_t t = 0; t <= position; t++) {
        const float *key = pages_at(p, layer, PLANE_KEY, head, blocks[t / p->block_tokens], t % p->block_tokens);
        scores[t] = dot(query, key, p->head_size) * scale;
        most = scores[t] > most ? scores[t] : most;
    }
    return most;
}

void attention(const struct pages *p, uint32_t layer, uint32_t head, const uint32_t *blocks, uint32_t position,
               const float *query, float *scores, float *out)
{
    const float most = score(p, layer, head, blocks, position, query, scores);
    float sum = 0;
    for (uint32_t c = 0; c < p->head_size; c++)
        out[c] = 0;
    for (uint32_t t = 0; t <= position; t++) {
        const float *value = pages_at(p, layer, PLANE_VALUE, head, blocks[t / p->block_tokens], t % p->block_tokens);
        const float weight = scalar_exp(scores[t] - most);
        sum += weight;
        for (uint32_t c = 0; c < p->head_size; c++)
            out[c] += weight * value[c];
    }
    for (uint32_t c = 0; c < p->head_size; c++)
        out[c] /= sum;
}
