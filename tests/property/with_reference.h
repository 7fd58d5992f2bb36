/* SPDX-License-Identifier: BSD-3-Clause */
/* reference: the transfer as a naive loop over elements. Shares only the structs of baton.h with the planner. */
#ifndef BATON_TESTS_REFERENCE_H
#define BATON_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#define REFERENCE_TENSORS_MAX 8

/** One rank's cache: its memory, the request's tables by group, and how often each byte was written. */
struct reference_cache {
    baton_geometry_t geometry;
    baton_tensor_t tensors[REFERENCE_TENSORS_MAX];
    baton_table_t tables[BATON_GROUPS_MAX];
    uint32_t num_regions;
    uint64_t region_bytes[REFERENCE_TENSORS_MAX];
    uint64_t region_at[REFERENCE_TENSORS_MAX]; /* where each begins in `memory` */
    uint64_t bytes;                            /* of all regions */
    uint8_t *memory;
    uint8_t *writes;
    uint32_t *ids; /* block ids of all tables */
};

/** Whether a want of `tokens` tokens that holds the first `held` moves this token. A state is token 0. */
bool reference_wanted(const baton_group_t *group, uint32_t token, uint32_t held, uint32_t tokens);

/** The group that a tensor belongs to. */
baton_group_t reference_group(const struct reference_cache *c, const baton_tensor_t *t);

/** Writes the wanted elements: bytes that depend on (tensor's name, plane, head, token, channel). */
void reference_fill(struct reference_cache *c, uint32_t held, uint32_t tokens);

/**
 * How many bytes of a consumer are wrong: those of wanted elements that have a wrong value or were not written exactly
 * once, and any other byte that was written at all. Changes `writes`.
 */
uint64_t reference_wrong(struct reference_cache *c, uint32_t held, uint32_t tokens);

#endif
