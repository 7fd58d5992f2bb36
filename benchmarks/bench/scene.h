/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene: one context between two engines that cut one cache differently, cast from the ranks of the run: the consumer's
 * rank is the decode engine's first, the others are in turn the prefill engine's, then the decode engine's further
 * ranks; who is left over looks on. Several scenes may be open at once.
 *
 * The consumer leads, by small messages outside of what is timed. One transfer brings it what it holds of scattered
 * blocks; the decode engine's further ranks want nothing, so the producers cancel what no one else comes for.
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

/** Collective: all but the consumer obey it here until it comes too. */
void scenes_serve(struct scenes *all);

/* ---- the consumer's ---------------------------------------------------------------------------------------------- */

/** Bytes of a transfer. */
uint64_t scene_bytes(const struct scene *s);

/** One transfer of fresh blocks: nanoseconds from before the want to after its event. *path moved them. */
uint64_t scene_move(struct scenes *all, unsigned index, baton_path_t *path);

/** One more, into poisoned blocks, compared byte by byte. Wrong data: a line on standard error and status 1. */
void scene_verify(struct scenes *all, unsigned index);

/** The same blocks' bytes as scene_move would move by raw MPI, one MPI_Rget a run. Nanoseconds; 0: it stalled. */
uint64_t scene_raw(struct scenes *all, unsigned index, struct raw *raw);

/** What a get costs beside its bytes, in bytes: by 64 bytes and 16 KiB, both in nanoseconds a get. */
double scene_get_bytes(struct scenes *all, unsigned index, struct raw *raw, double *small_ns, double *large_ns);

/** The bytes of a run: of the longest. */
uint64_t scene_run_bytes(const struct scene *s);

#endif
