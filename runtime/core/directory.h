/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory: all ranks of the world by engine, built once from the rows that every rank contributed. Immutable after
 * that, so any thread may read it.
 */
#ifndef BATON_CORE_DIRECTORY_H
#define BATON_CORE_DIRECTORY_H

#include <stdint.h>

#include "base/hash.h"
#include "wire/message.h"
#include "wire/row.h"

#define DIRECTORY_NONE UINT32_MAX

struct directory_engine {
    char name[BATON_ENGINE_NAME_MAX];
    uint32_t index; /* among the engines */
    uint32_t num_ranks;
    uint64_t life;                     /* of this start of it */
    const char **hosts;                /* the same order as ranks, in their rows */
    const baton_distance_t *distances; /* the same order, in the directory's `distances` */
    uint32_t *ranks;             /* world ranks, in order of (pp_rank, tp_rank): a rank's place here is its index */
    struct plan_member *members; /* the same order */
    uint32_t told;               /* the first of its ranks that told of its model; DIRECTORY_NONE: none did */
    UT_hash_handle by_name;
};

struct directory {
    uint32_t num_ranks;
    struct wire_row *rows;       /* by rank */
    uint32_t *engine_of;         /* by rank: engine index */
    uint32_t *index_of;          /* by rank: index in its engine */
    uint32_t *next_on_node;      /* by rank: the next rank of its node, the first after the last */
    uint32_t *by_number;         /* ranks by their members' numbers: hashed, DIRECTORY_NONE where there is none */
    uint32_t number_mask;        /* of the places there */
    baton_distance_t *distances; /* from one rank, engine by engine; NULL before directory_measure */
    uint32_t num_engines;
    struct directory_engine *engines; /* in order of their lowest rank */
    struct directory_engine *named;   /* the same, by name */
};

/**
 * Decodes and checks rows (num_ranks * WIRE_ROW_BYTES bytes). Ranks of one engine must agree on tp and pp, on the model
 * and on block_tokens as far as they tell, fill each (pp_rank, tp_rank) exactly once, and number at most
 * BATON_ENGINE_RANKS_MAX.
 * 0, BATON_EMESSAGE, BATON_EGEOMETRY or BATON_ENOMEM, with *why.
 */
int directory_create(const uint8_t *rows, uint32_t num_ranks, struct directory **out, struct plan_why *why);
void directory_destroy(struct directory *d);

/** The wire version that two ranks speak: the older of theirs. */
unsigned directory_version(const struct directory *d, uint32_t rank, uint32_t peer);

/** How far all ranks are from this one. What is not known of a place is not the same place. 0, or BATON_ENOMEM. */
int directory_measure(struct directory *d, uint32_t rank);

/** The rank whose member has that number, or DIRECTORY_NONE. */
uint32_t directory_rank(const struct directory *d, uint64_t number);

/** Index of the engine of that name, or DIRECTORY_NONE. Takes as long with many engines as with few. */
uint32_t directory_find(const struct directory *d, const char *engine);

#endif
