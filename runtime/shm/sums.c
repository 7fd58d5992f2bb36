/* SPDX-License-Identifier: BSD-3-Clause */
/* sums: hashes of parts, in the order in which a plan walks them, so that both sides of a leg hash the same bytes. */
#include "shm/copy.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define RUNS_A_BATCH 64

static void add_part(XXH3_state_t *state, const struct plan_transfer *t, uint32_t part, uint32_t piece, bool source,
                     char *const *bases)
{
    struct plan_run runs[RUNS_A_BATCH];
    struct plan_cursor at;
    uint64_t left = plan_part(t, part, piece, &at);
    while (left > 0) {
        uint32_t n = plan_next(t, &at, runs, RUNS_A_BATCH, left);
        for (uint32_t i = 0; i < n; i++) {
            const char *bytes =
                source ? bases[runs[i].src_region] + runs[i].src : bases[runs[i].dst_region] + runs[i].dst;
            XXH3_64bits_update(state, bytes, runs[i].bytes);
            left -= runs[i].bytes;
        }
    }
}

void copy_sums(const struct plan_transfer *t, bool source, char *const *bases, uint32_t first, uint32_t count,
               uint64_t *out)
{
    XXH3_state_t state;
    for (uint32_t i = 0; i < count; i++) {
        XXH3_64bits_reset(&state);
        for (uint32_t piece = 0; piece < plan_num_pieces(t->plan); piece++)
            add_part(&state, t, first + i, piece, source, bases);
        out[i] = XXH3_64bits_digest(&state);
    }
}

void copy_zeros(const struct plan_transfer *t, char *const *dst_bases)
{
    struct plan_run runs[RUNS_A_BATCH];
    struct plan_cursor at = {0};
    uint32_t n;
    while ((n = plan_next(t, &at, runs, RUNS_A_BATCH, UINT64_MAX)) > 0)
        for (uint32_t i = 0; i < n; i++)
            memset(dst_bases[runs[i].dst_region] + runs[i].dst, 0, runs[i].bytes);
}
