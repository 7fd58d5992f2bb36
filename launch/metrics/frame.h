/* SPDX-License-Identifier: BSD-3-Clause */
/* frame: what baton-top shows: a job's metrics summed by engine and by pair of engines, between two looks, as text. */
#ifndef BATON_LAUNCH_METRICS_FRAME_H
#define BATON_LAUNCH_METRICS_FRAME_H

#include <stdint.h>

#include "metrics/pages.h"

#define FRAME_ROWS 64 /* engines, and pairs of them, that have a row; further ones count in the totals alone */

/** The ranks of one engine, of what they are or have come to. */
struct frame_engine {
    char name[BATON_ENGINE_NAME_MAX];
    uint32_t ranks, up;
    uint64_t received, pushed, wants_done, failures, offers_done, stalls;
    uint64_t open, moving; /* now: offers and wants; transfers with one rank */
};

/** What the ranks of one engine had to do with those of another. */
struct frame_pair {
    char name[BATON_ENGINE_NAME_MAX], peer[BATON_ENGINE_NAME_MAX];
    uint64_t transfers, bytes, failures;
    struct histogram transfer_ns;
};

struct frame {
    struct frame_engine engines[FRAME_ROWS], total;
    uint32_t num_engines, num_hosts;
    struct frame_pair pairs[FRAME_ROWS];
    uint32_t num_pairs;
    uint64_t at_ns; /* of when it is */
};

/** Of one job's ranks. `at_ns`: of when this is, by any clock that all frames have in common. */
void frame_sum(struct frame *f, struct pages_rank *const *ranks, uint32_t num, uint64_t at_ns);

/** A line of text, without its newline. */
typedef void (*frame_line)(void *arg, const char *text);

/**
 * `before`: the look before, by which rates are made; NULL: totals are shown. Engines come in the order of their first
 * ranks, then pairs of engines with the slowest transfers first, then ranks that are not well. `real_now_ns`: by the
 * real-time clock.
 */
void frame_print(const struct frame *f, const struct frame *before, const char *job, struct pages_rank *const *ranks,
                 uint32_t num, uint64_t real_now_ns, frame_line put, void *arg);

#endif
