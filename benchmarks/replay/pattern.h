/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern: what a cache must hold. Every element's value is a function of (request, layer, plane, head, token, channel)
 * alone, so producer and consumer compute it without a word to each other, whatever their geometries. Blocks that
 * nobody may read or write hold poison: one byte, another on each side.
 *
 * Nothing of the library is used here but the geometry's numbers: addresses come from loops over the tensors' strides,
 * so that an error in the planner is not repeated by its judge.
 */
#ifndef REPLAY_PATTERN_H
#define REPLAY_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "baton.h"
#include "replay/why.h"

#define PATTERN_POISON_PRODUCER 0xa5
#define PATTERN_POISON_CONSUMER 0x5b

/** One rank's cache. */
struct pattern {
    const baton_geometry_t *geometry;
    unsigned char *base;
    uint64_t seed;
};

/** The blocks of one request: blocks[i] holds tokens [i * block_tokens, (i + 1) * block_tokens). */
struct pattern_table {
    uint64_t request;
    const uint32_t *blocks;
    uint32_t num_blocks;
    uint32_t num_tokens;
};

struct pattern_place {
    uint32_t layer, plane, head, token, channel;
};

/** An element that is not as it must be. */
struct pattern_miss {
    struct pattern_place place;
    uint32_t block;           /* its id */
    uint32_t expected, found; /* values of an element; bytes where poison was expected */
};

struct pattern_result {
    uint64_t mismatches;       /* elements */
    struct pattern_miss first; /* valid where mismatches is not 0 */
};

/** 0, or -1 where the cache is of a kind that the loops here cannot walk (channels apart, elements not aligned). */
int pattern_init(struct pattern *p, const baton_geometry_t *g, void *base, uint64_t seed, struct why *why);

/** The value that an element must have. */
uint32_t pattern_value(const struct pattern *p, uint64_t request, const struct pattern_place *at);

/** Where an element of the request lies. */
void *pattern_address(const struct pattern *p, const struct pattern_table *t, const struct pattern_place *at);

/** Writes the request's tokens. */
void pattern_fill(const struct pattern *p, const struct pattern_table *t);

/** The same for tokens [token_first, token_end) of one head of one layer, with the values of head `as`. */
void pattern_fill_head(const struct pattern *p, const struct pattern_table *t, uint32_t layer, uint32_t head,
                       uint32_t as, uint32_t token_first, uint32_t token_end);

/** Checks every element of the request's tokens; adds to *out. */
void pattern_verify(const struct pattern *p, const struct pattern_table *t, struct pattern_result *out);

/** Writes poison over tokens [token_first, num_blocks * block_tokens). */
void pattern_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first, unsigned char poison);

/** Checks that the same tokens still hold it; adds to *out, an element with a foreign byte counting once. */
void pattern_verify_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first,
                           unsigned char poison, struct pattern_result *out);

/**
 * Says in a clause what lies where a miss was found (poison, another head's row, another request's …), as far as its
 * row tells: tries requests `*others` .. `*others + num_others - 1`. Empty where nothing fits.
 */
void pattern_explain(const struct pattern *p, const struct pattern_table *t, const struct pattern_miss *miss,
                     uint64_t others, uint64_t num_others, char *text, size_t size);

#endif
