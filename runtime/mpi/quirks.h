/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quirks: what each MPI implementation gets wrong on the rma path, or promises beyond the standard. One row of a table
 * is chosen at start, and baton_describe prints it. The self-test (selftest.c) takes back what this MPI does not keep.
 *
 * Any thread. Makes no MPI call, so that a test can ask for any library by its version string.
 */
#ifndef BATON_MPI_QUIRKS_H
#define BATON_MPI_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>

#define QUIRKS_RUNS_MAX 64u /* of one request */

struct quirks {
    char library[96];         /* the first line of MPI_Get_library_version; MPICH: and its device */
    uint32_t per_request;     /* k: k - 1 MPI_Get and one MPI_Rget, whose request completes them all; likewise puts */
    bool put_is_remote;       /* the completion of an MPI_Rput's request implies remote completion */
    uint64_t flush_within;    /* operations without a flush after which MPI flushes by itself, blocking; 0: never */
    uint32_t requests_within; /* requests that may be open at a time: MPI aborts beyond; 0: any number */
    bool holds_on_dead;       /* an operation on a dead process may never return: no probe goes to it */
    bool one_thread;          /* a call of MPI by another thread than the one that made the window ends the process */
    bool keeps_window;        /* once the window was used, MPI_Win_free and MPI_Finalize may hang: it is never freed */
    bool close_first;         /* MPI_Finalize aborts if a window over nodes is open, or if a thread is inside MPI */
    bool is_forced;           /* per_request comes from the environment */
    const char *why;          /* a sentence for baton_describe */
};

/**
 * Chooses the row for this MPI library and the component named by the overlay window ("ucx window 3"). `forced` other
 * than 0 overrides per_request.
 */
void quirks_choose(struct quirks *q, const char *library, const char *window_name, uint64_t forced);

/** What to set so that this MPI library makes a window over all nodes that any thread may use: for errors. */
const char *quirks_remedy(const char *library);

/**
 * Whether it is time to flush a peer. Since their last flushes `of_peer` operations went to this peer, and `of_all` to
 * the `num_peers` peers that had any. A peer with half of the average or more is flushed, so that all operations
 * together stay well below flush_within, however many peers share them.
 */
bool quirks_flush_due(const struct quirks *q, uint64_t of_peer, uint64_t of_all, uint64_t num_peers);

#endif
