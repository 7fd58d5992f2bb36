/* SPDX-License-Identifier: BSD-3-Clause */
/* engine: all ranks of one engine as the planner sees them, and the cache of any of them. */
#ifndef PLAN_TOOL_ENGINE_H
#define PLAN_TOOL_ENGINE_H

#include "cache.h"
#include "description.h"
#include "plan/plan.h"
#include "preset.h"

#define ENGINE_RANKS_MAX 65536

/** E engines of TP by PP ranks. Rank r of one is TP rank r % tp of stage r / tp, as batonrun seats them. */
struct engine_size {
    uint32_t engines, tp, pp;
};

/** Ranks of one of these engines. */
static inline uint32_t engine_size_ranks(const struct engine_size *size)
{
    return size->tp * size->pp;
}

/** What an engine is made of. The caller keeps what the pointers point to. */
struct engine_source {
    const char *role; /* "prefill" or "decode" */
    struct engine_size size;
    const struct model_cut *cut;
    const struct description *description; /* else NULL: the cut of a model counts */
    uint32_t tokens;                       /* of the request that its caches have room for */
    uint32_t first_rank;                   /* in the world, of its first rank: from it follow the nodes */
    uint32_t ranks_per_node;
};

/** Layers [first, end) of a pipeline stage. A stage's layers are not below those of the stage before. */
struct engine_stage {
    uint32_t first, end;
};

struct engine {
    struct engine_source source;
    uint32_t num_ranks;
    struct plan_member *members; /* by rank */
    struct engine_stage *stages; /* by stage */
};

/** "TPxPP" or "ExTPxPP", each from 1 on. 0, or -1 with *why. */
int engine_size_read(const char *option, const char *text, struct engine_size *out, struct why *why);

/** Checks the cache of every rank. 0, or -1 with *why, which names the rank. Call engine_fini in both cases. */
int engine_init(struct engine *e, const struct engine_source *source, struct why *why);
void engine_fini(struct engine *e);

int engine_cache(const struct engine *e, uint32_t rank, struct cache *out, struct why *why);

/** Ranks [*first, *end) that a rank with this box may exchange with: those of the stages that hold its layers. */
void engine_ranks_of(const struct engine *e, const struct plan_box *box, uint32_t *first, uint32_t *end);

#endif
