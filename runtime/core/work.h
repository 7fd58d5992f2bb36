/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work: what takes longer than a step may. It is done in pieces: as many as a step may do where it begins, the rest by
 * core_step, in turn with other work. survey.c and link.c find out in this way who serves whom.
 *
 * Pieces are run by the file that begins the work and by core.c; so these functions are inline.
 */
#ifndef BATON_CORE_WORK_H
#define BATON_CORE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <utlist.h>

#include "core/timer.h"

#define LOOKS_A_STEP 4096 /* at members of engines: some 0.3 ms */

/** One piece was done and there is more; that was the last; there is no memory for it now. */
enum work_state { WORK_MORE, WORK_DONE, WORK_LATER };

/** Zeroed before. */
struct work {
    enum work_state (*piece)(struct core *core, struct work *work);
    struct work *prev, *next;
};

/** All of one core; zeroed before, but for looks_most and pause_ns. */
struct works {
    struct work *first;
    struct timer timer;
    uint32_t looks, looks_most; /* at members of engines, in this step; and when it is enough */
    uint64_t pause_ns;          /* then; tests stretch it */
};

static inline void work_begin(struct core *core, struct works *works, struct work *work,
                              enum work_state (*piece)(struct core *core, struct work *work))
{
    enum work_state state = WORK_MORE;
    work->piece = piece;
    while (state == WORK_MORE && works->looks < works->looks_most)
        state = piece(core, work);
    if (state != WORK_DONE)
        DL_APPEND(works->first, work);
}

/** It is done no further: its last piece has not been done. */
static inline void work_end(struct works *works, struct work *work)
{
    DL_DELETE(works->first, work);
}

/** As much as this step may. Works take turns, so that small ones do not wait for large ones. */
static inline void works_run(struct core *core, struct works *works)
{
    enum work_state state = WORK_MORE;
    while (works->first != NULL && works->looks < works->looks_most && state != WORK_LATER) {
        struct work *w = works->first;
        DL_DELETE(works->first, w);
        state = w->piece(core, w);
        if (state != WORK_DONE)
            DL_APPEND(works->first, w);
    }
}

#endif
