/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern: what a cache must hold. Every element's value is a function of (request, tensor, plane, head, token,
 * channel) alone, so producer and consumer compute it without any message, whatever their geometries. Blocks that
 * nobody may read or write hold poison: one byte value, different on the two sides.
 *
 * Nothing of the library is used here but the geometry's numbers: addresses come from loops over the tensors' strides.
 * So an error of the planner is not repeated in the check.
 */
#ifndef REPLAY_PATTERN_H
#define REPLAY_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "baton.h"
#include "model/model.h"
#include "option/why.h"

#define PATTERN_POISON_PRODUCER 0xa5
#define PATTERN_POISON_CONSUMER 0x5b

/** One rank's cache. */
struct pattern {
    const baton_geometry_t *geometry;
    unsigned char *base;
    uint64_t seed;
};

/** Some tokens of some layers. Zeros: all of them. A state belongs to the piece that has token 0. */
struct pattern_piece {
    struct model_span layers, tokens;
};

/** The blocks of one request, a table for each group, and what its consumer needs of them. */
struct pattern_table {
    uint64_t request;
    uint32_t num_tokens;
    uint32_t held;             /* leading tokens that the consumer does not need */
    struct pattern_piece only; /* what is filled, poisoned or verified in one call */
    baton_table_t group[BATON_GROUPS_MAX];
};

struct pattern_place {
    uint32_t layer, plane, head, token, channel;
    uint32_t part; /* which of the layer's tensors: pattern_part of its name */
};

/** A wrong element. */
struct pattern_miss {
    struct pattern_place place;
    const baton_tensor_t *tensor;
    uint32_t block;           /* its id */
    uint32_t expected, found; /* values of an element; bytes where poison was expected */
};

struct pattern_result {
    uint64_t mismatches;       /* elements */
    struct pattern_miss first; /* valid where mismatches is not 0 */
};

/** A number for what stands behind the layer in a tensor's name; 0 for nothing. */
uint32_t pattern_part(const char *name);

/** 0, or -1 if the loops here cannot walk the cache: its channels are apart, or its elements not aligned. */
int pattern_init(struct pattern *p, const baton_geometry_t *g, void *base, uint64_t seed, struct why *why);

/** The value that an element must have. */
uint32_t pattern_value(const struct pattern *p, uint64_t request, const struct pattern_place *at);

/** Where an element of the request lies; NULL: in none of this rank's tensors. */
void *pattern_address(const struct pattern *p, const struct pattern_table *t, const struct pattern_place *at);

/** Writes the values of all tokens that the tables have room for. */
void pattern_fill(const struct pattern *p, const struct pattern_table *t);

/**
 * The same for some layers and tokens. A state belongs to all tokens together: it is written with the request's last
 * token, and until then keeps its bytes.
 */
void pattern_fill_some(const struct pattern *p, const struct pattern_table *t, struct model_span layers,
                       struct model_span tokens);

/** The same for one head of one tensor and tokens [token_first, token_end), with the values of head `as`. */
void pattern_fill_head(const struct pattern *p, const struct pattern_table *t, uint32_t tensor, uint32_t head,
                       uint32_t as, uint32_t token_first, uint32_t token_end);

/** Checks every element that the consumer needs; adds to *out. */
void pattern_verify(const struct pattern *p, const struct pattern_table *t, struct pattern_result *out);

/** Checks that all else in the tables' blocks still holds poison: before and behind what is wanted, and what is
   held. */
void pattern_verify_rest(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                         struct pattern_result *out);

/**
 * Writes poison over the tables' blocks from token_first to their end. A state belongs to all tokens together: it is
 * poisoned if any of the request's tokens are.
 */
void pattern_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first, unsigned char poison);

/** Checks that all of the tables' blocks hold poison. Adds to *out: an element with a wrong byte counts once. */
void pattern_verify_poison(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                           struct pattern_result *out);

/**
 * Says in a clause what was found in place of a wrong element, as far as its row shows: poison, another head's row,
 * another request's. Tries num_others requests from `others` on. Empty if nothing fits.
 */
void pattern_explain(const struct pattern *p, const struct pattern_table *t, const struct pattern_miss *miss,
                     uint64_t others, uint64_t num_others, char *text, size_t size);

#endif
