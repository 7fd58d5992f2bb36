/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weights: a rank's slice of the model's numbers. Each is a hash of the seed and its place in the whole model, so every
 * cut has the same numbers, and nothing is loaded. A weight of a matrix with m inputs lies in [-sqrt(3/m), sqrt(3/m)),
 * a norm's gain in [1/2, 3/2), a channel of an embedding in [-1, 1).
 */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "engine/matrix.h"
#include "engine/shape.h"

struct weights_layer {
    float *norm[2];                                       /* gains before attention, before the MLP */
    struct matrix query, key, value, out, gate, up, down; /* of this rank's heads and columns */
};

struct weights {
    struct weights_layer *layers; /* the slice's layer_count */
    uint32_t num_layers;
    float *embedding; /* [vocab][hidden], on the first stage */
    float *norm;      /* gains before the logits, on the last stage */
    struct matrix logits;
};

/** 0, or -1 for want of memory. Call weights_fini in either case. */
int weights_init(struct weights *w, const struct shape *shape, const struct slice *slice);
void weights_fini(struct weights *w);

#endif
