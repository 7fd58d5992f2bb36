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
    bool is_forced;            /* both come from the environment */
    const char *why;
};

/**
 * Chooses the row for this MPI library and the component named by the overlay window ("ucx window 3"). `forced_gets`
 * other than 0 overrides gets_per_request and puts_per_request.
 */
void quirks_choose(struct quirks *q, const char *library, const char *window_name, uint64_t forced_gets);

#endif
