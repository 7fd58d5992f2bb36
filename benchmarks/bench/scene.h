/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene: one context between two engines that cut one cache differently. The ranks of the run play both: the consumer's
 * rank is the decode engine's first; the next ones are the prefill engine's, then the decode engine's further ranks.
 * Ranks that are left over do nothing. Several scenes may be open at once.
 *
 * The consumer leads, by small messages outside of what is timed. One transfer brings the consumer its part of
 * scattered blocks. The decode engine's further ranks want nothing, so the producers cancel the offers that nobody else
 * wants.
 */
#ifndef BENCH_SCENE_H
#define BENCH_SCENE_H

#include "bench/context.h"
#include "bench/raw.h"
#include "bench/walk.h"
#include "plan/plan.h"

#define SCENE_HEADS 8u /* KV heads of a model, 128 channels of 2 bytes each, 16 tokens a block, K and V */

/** How the two sides cut and lay out the model's heads. */
struct cut {
    const char *name;
    uint32_t producers, consumers; /* tensor parallelism of the two engines */
    unsigned source, target;       /* BATON_LAYOUT_... */
    uint32_t heads;                /* of the model */
    baton_mode_t mode;             /* of its wants */
};

struct scene {
    struct bench *bench;
    struct cut cut;
    struct context context;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    uint32_t num_blocks, batch;
    struct walk walk[2]; /* of the producers' ids, of the consumer's */
    uint64_t place, drawn, serial;
    uint32_t *ids[2]; /* the last draw */
};

enum { SCENES_MOST = 2 };
/** Scenes open at once. */
struct scenes {
    struct scene *scene[SCENES_MOST];
    unsigned count;
};

/** Ranks that a cut needs. */
static inline uint32_t scene_ranks(const struct cut *c)
{
    return c->producers + c->consumers;
}

/**
 * Collective. `pool` bytes for the consumer at least, transfers of `batch_bytes` to it. Fills the producers' caches.
 */
void scene_open(struct bench *b, struct scenes *all, struct scene *s, const struct cut *cut, uint64_t pool,
                uint64_t batch_bytes);
/** Collective. Closes the scene opened last. */
void scene_close(struct scenes *all);

/** Collective: all others obey the consumer here, until it calls this too. */
void scenes_serve(struct scenes *all);

/* ---- the consumer's ---------------------------------------------------------------------------------------------- */

/** Bytes of a transfer. */
uint64_t scene_bytes(const struct scene *s);

/** One transfer of fresh blocks: nanoseconds from before the want to after its event. *path moved them. */
uint64_t scene_move(struct scenes *all, unsigned index, baton_path_t *path);

/** One more, into poisoned blocks, compared byte by byte. Wrong data: a line on standard error and status 1. */
void scene_verify(struct scenes *all, unsigned index);

/** Moves by raw MPI what scene_move would move, one MPI_Rget a run. Nanoseconds; 0: it stalled. */
uint64_t scene_raw(struct scenes *all, unsigned index, struct raw *raw);

/** How many bytes cost as much as a get itself, by gets of 64 bytes (*small) and of 16 KiB (*large), in nanoseconds
   each. */
double scene_get_bytes(struct scenes *all, unsigned index, struct raw *raw, double *small_ns, double *large_ns);

/** Bytes of the longest run. */
uint64_t scene_run_bytes(const struct scene *s);

#endif
