/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attention: one query over the keys and values in a request's blocks. Scores, their sum and the mean of values are
 * computed in the order of tokens, in float, so that the result depends neither on blocks nor on the cut. Pure.
 */
#ifndef ENGINE_ATTENTION_H
#define ENGINE_ATTENTION_H

#include "engine/pages.h"

/**
 * The mean of the values of tokens 0 to `position`, weighted by softmax(query . key / sqrt(head_size)). `head` is one
 * of this rank's KV heads, counted from 0. `scores` has room for position + 1 numbers; `out` has head_size.
 */
void attention(const struct pages *p, uint32_t layer, uint32_t head, const uint32_t *blocks, uint32_t position,
               const float *query, float *scores, float *out);

#endif
