/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reference: the transfer as a naive loop over elements. Shares nothing with the planner but the geometry struct.
 */
#ifndef BATON_TESTS_REFERENCE_H
#define BATON_TESTS_REFERENCE_H

#include <stdint.h>

#include "baton.h"

/** One rank's cache: its memory, the request's blocks in it, and how often each byte was written. */
struct reference_cache {
    baton_geometry_t geometry;
    uint8_t *memory;
    uint32_t *blocks;
    uint8_t *writes;
};

/** Writes the request's first `tokens` tokens: bytes that depend on (tensor's name, plane, head, token, channel). */
void reference_fill(struct reference_cache *c, uint32_t tokens);

/**
 * What is wrong with a consumer: an element of the request that is not right or was not written exactly once, or any
 * other byte that was written at all. 0: nothing.
 */
uint64_t reference_wrong(const struct reference_cache *c, uint32_t tokens);

#endif
