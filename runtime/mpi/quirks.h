/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quirks: what each MPI implementation gets wrong, or promises beyond the standard, on the rma path. One table, one
 * row chosen at start, printed by fabric_describe; the self-test (selftest.c) may still take a promise back.
 */
#ifndef BATON_MPI_QUIRKS_H
#define BATON_MPI_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>

#define QUIRKS_RUNS_MAX 64u /* of one request */

struct quirks {
    char library[96];          /* the first line of MPI_Get_library_version */
    uint32_t gets_per_request; /* k - 1 MPI_Get and one MPI_Rget, whose request completes them all; 1: each its own */
    uint32_t puts_per_request; /* the same of MPI_Put and MPI_Rput */
    bool put_is_remote;        /* an MPI_Rput's request implies remote completion */
    uint64_t flush_within;     /* operations without a flush after which MPI flushes by itself, blocking; 0: never */
    uint32_t requests_within;  /* requests that may be open at a time, or MPI aborts; 0: any number */
    bool holds_on_dead;        /* an operation on a dead process may never return: no probe goes to it */
    bool is_forced;            /* both come from the environment */
    const char *why;
};

/**
 * Chooses the row for this MPI library and the component named by the overlay window ("ucx window 3"). `forced_gets`
 * other than 0 overrides gets_per_request and puts_per_request.
 */
void quirks_choose(struct quirks *q, const char *library, const char *window_name, uint64_t forced_gets);

/**
 * Whether a peer is to be flushed that has had `of_peer` operations since its last flush, of `of_all` to all peers together,
 * `num_peers` of which have had any. Those that hold half of the average or more are: however many peers share the
 * operations, all together stay well below flush_within.
 */
bool quirks_flush_due(const struct quirks *q, uint64_t of_peer, uint64_t of_all, uint64_t num_peers);

#endif
