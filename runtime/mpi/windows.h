/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows: the segments. One MPI_Win_allocate_shared window a node holds them; with more than one node, an
 * MPI_Win_create over the same bytes (the overlay) exposes them to the world. Both are locked for all ranks, without
 * conflict checks, from creation to release.
 *
 * Two windows over the same bytes: the standard leaves conflicting accesses through both undefined. Here the owner
 * alone stores into its metadata (but for the doorbell, which is rung by C11 atomics through the shared window alone),
 * and into its pool; other ranks put or store only into blocks that a want of the owner lent them by its lease, each
 * byte by one of them and none by the owner meanwhile. So accesses never conflict, and with the unified memory model
 * an MPI_Win_sync and a fence make them visible.
 *
 * Opened and closed by the thread that starts; windows_sync and the look-ups are the reactor's.
 *
 * Page 0 of a segment: the bell at 0, who its owner is at WINDOWS_PROCESS_OFFSET, the test pattern from
 * WINDOWS_PATTERN_OFFSET to the page's end.
 */
#ifndef BATON_MPI_WINDOWS_H
#define BATON_MPI_WINDOWS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "mpi/world.h"

#define WINDOWS_PROCESS_OFFSET 128u
#define WINDOWS_PATTERN_OFFSET 256u
#define WINDOWS_PATTERN_BYTES (4096u - WINDOWS_PATTERN_OFFSET)

/** What this rank asks for. */
struct windows_wish {
    uint64_t meta_bytes, pool_bytes;
    uint64_t memory_limit; /* 0: not known */
    void (*bind)(void *base, uint64_t bytes, void *arg);
    void *bind_arg;
};

struct windows_part {
    uint64_t bytes;
    uint8_t *mapped; /* NULL on another node */
};

struct windows {
    MPI_Win shared, overlay; /* MPI_WIN_NULL: not there */
    uint8_t *allocated;      /* my part of the shared window, as MPI gave it */
    uint8_t *segment;        /* the same, aligned */
    uint64_t segment_bytes, pool_offset, pool_bytes;
    struct windows_part *parts; /* by rank */
    char shared_name[MPI_MAX_OBJECT_NAME], overlay_name[MPI_MAX_OBJECT_NAME];
};

/** Fills *v, zeroed before. Collective, agreed. On an error everything is undone, but where the world was lost. */
int windows_open(struct windows *v, struct world *w, const struct windows_wish *wish);

/** Unlocks and frees: overlay, then shared. Collective. */
void windows_close(struct windows *v, struct world *w);

/** MPI_Win_sync on both windows and a full fence. */
void windows_sync(const struct windows *v);

/** The bell of a rank that is mapped here, else NULL. */
struct bell *windows_bell(const struct windows *v, uint32_t rank);

/** The process id of a rank that is mapped here and shares this process' id namespace, else 0. */
int windows_process(const struct windows *v, uint32_t rank);

/** The first byte of my pool. */
static inline uint8_t *windows_pool(const struct windows *v)
{
    return v->segment + v->pool_offset;
}

/** Byte `at` of the pattern in rank's page 0. */
uint8_t windows_pattern(uint32_t rank, uint32_t at);

#endif
