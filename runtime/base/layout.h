/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout: who is who in a world of engines that is described by a few numbers: "2x4x1 4x2x1", prefill engines first,
 * each side as engines x TP x PP ("2x4": PP 1; "0x0": none). Ranks are numbered engine after engine; within one, stage
 * after stage. Pure: no environment is read here, but through the caller's function.
 */
#ifndef BATON_BASE_LAYOUT_H
#define BATON_BASE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#define LAYOUT_RANKS_MAX 65536 /* of a side */

/** One side: so many engines, of tp x pp ranks each. Without engines, tp and pp are 1. */
struct layout_side {
    uint32_t engines, tp, pp;
};

struct layout {
    struct layout_side prefill, decode;
};

/** Reads "ExT" or "ExTxP", at most BATON_ENGINE_RANKS_MAX ranks an engine. False: malformed or too large. */
bool layout_read_side(const char *text, struct layout_side *out);
/** Reads both sides, with one space between them; at least one of them has engines. */
bool layout_read(const char *text, struct layout *out);

static inline uint32_t layout_ranks(const struct layout_side *s)
{
    return s->engines * s->tp * s->pp;
}

/** Fills engine, role, tp, pp and their ranks for a rank of the world. False: the layout has no such rank. */
bool layout_find(const struct layout *l, uint32_t rank, baton_open_params_t *out);

/**
 * The number that the launcher gave this process in the world (Open MPI, PMIx, PMI as of MPICH and Slurm, Slurm alone),
 * by the environment. -1: no launcher did.
 */
int32_t layout_world_rank(char *(*variable)(const char *name));

#endif
