/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start: what baton_start makes, and caches that come late. Start has two halves: one that needs no cache, and one that
 * needs those of all ranks. Where a rank opened with BATON_OPEN_CACHE_LATER and has declared none by then, the second
 * half waits: in the reactor's thread or, with BATON_PROGRESS_CALLER, in baton_cache_ready.
 */
#ifndef BATON_FRONT_START_H
#define BATON_FRONT_START_H

#include <stdatomic.h>
#include <stdbool.h>

#include "baton.h"

#include "base/owned.h"

struct baton;

struct start {
    baton_driver_t driver; /* of a device's memory; all 0: none was given */
    atomic_bool is_whole;  /* the core and the paths are there, until the context is closed. Read by any thread */
    bool stages;           /* segments have buffers for bytes that are staged */
    /* where caches come late */
    atomic_bool is_declared; /* this rank's cache; set by any thread */
    atomic_int ready;  /* 0: the second half is done, or was never late; BATON_EAGAIN; or the error it ended with */
    struct owned look; /* held by a thread of the caller's that takes a look */
    bool is_late;      /* set by start */
    bool has_agreed;   /* with the other ranks, to go on or not. Of the thread that makes turns, then of close */
    char why[256];     /* why start failed, early or late; written before `ready` and the state */
};

/**
 * Closing before baton_start: ranks that are there already fail at once, and close too. Collective. Other than 0: a
 * rank is lost, and no collective may follow.
 */
int start_forgo(struct baton *b);

/** Whether a cache may be declared now: 0 or BATON_ESTATE. */
int late_check(const struct baton *b);
/** This rank's cache has been declared. */
void late_declared(struct baton *b);
/** Waits, and takes the second half. The reactor's thread. BATON_EAGAIN: it must end. */
int late_run(struct baton *b);

/**
 * Closing, or MPI_Finalize: takes the part in agreements that is left, so that no rank waits for this one. Collective;
 * waits for the others BATON_CLOSE_MS at most. No thread makes turns any more. Other than 0: a rank is lost, no
 * collective may follow, and the error sentence says what is known of it.
 */
int late_close(struct baton *b);

#endif
