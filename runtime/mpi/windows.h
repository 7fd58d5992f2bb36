/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows: the segments. Each rank has one: a first page, its metadata, and its pool. The segments of a node lie in one
 * MPI_Win_allocate_shared window. With more than one node, an MPI_Win_create over the same bytes, the overlay, exposes
 * them to all ranks. Both windows are locked for all ranks, without conflict checks, from their creation to their
 * release.
 *
 * TWO WINDOWS OVER THE SAME BYTES. The standard leaves conflicting accesses through both undefined. Here accesses never
 * conflict. The board, the arena and the card are stored by their owner alone. The bell and the words and lanes in the
 * area (shm/HANDOFF.md) are stored by ranks of the node too, by C11 atomics through the shared window, and nobody reads
 * them through the overlay. Into a pool other ranks put or store only those blocks that a want of the owner lent them
 * by its lease, each byte by one of them, and none by the owner meanwhile. With the unified memory model an
 * MPI_Win_sync and a fence make them visible.
 *
 * THE FIRST PAGE. The bell at 0, the owner's process at WINDOWS_PROCESS_OFFSET, its MPI library at
 * WINDOWS_LIBRARY_OFFSET, and the test pattern from WINDOWS_PATTERN_OFFSET to the page's end.
 *
 * The thread that starts opens and closes the windows; windows_sync and the look-ups are the reactor's.
 */
#ifndef BATON_MPI_WINDOWS_H
#define BATON_MPI_WINDOWS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "core/world.h"
#include "mpi/exposure.h"
#include "mpi/world.h"

#define WINDOWS_PROCESS_OFFSET 128u
#define WINDOWS_LIBRARY_OFFSET 160u
#define WINDOWS_PATTERN_OFFSET 256u
#define WINDOWS_PATTERN_BYTES (4096u - WINDOWS_PATTERN_OFFSET)

/** What a rank's MPI library calls itself. */
struct windows_library {
    uint32_t magic; /* WINDOWS_LIBRARY_MAGIC: there is a name */
    char name[92];  /* "Open MPI v4.1.4" */
};
#define WINDOWS_LIBRARY_MAGIC UINT32_C(0x694c5042)

struct windows_segment {
    uint64_t bytes;
    uint8_t *mapped; /* NULL on another node */
    bool is_again;   /* beside MPI's own mapping (memory/huge.h) */
};

struct windows {
    MPI_Win shared, overlay; /* MPI_WIN_NULL: there is none */
    uint8_t *allocated;      /* my part of the shared window, as MPI gave it */
    uint8_t *segment;        /* `slack` bytes behind that: here, or mapped once more (memory/huge.h) */
    uint64_t slack, segment_bytes, pool_offset, pool_bytes;
    bool has_huge;                      /* the segment is of huge pages */
    char why_small[80];                 /* else: why not */
    uint64_t spare_offset, spare_bytes; /* of my segment: metadata that nobody uses yet */
    bool is_pool_used;                  /* the engine may use its pool already */
    struct windows_segment *segments;   /* by rank */
    struct exposure exposure;           /* of memory that engines own */
    struct path_region pool;            /* my pool, as an address here */
    struct path_regions mine;           /* the pool, or what my engine exposed, as addresses here */
    char shared_name[MPI_MAX_OBJECT_NAME], overlay_name[MPI_MAX_OBJECT_NAME];
};

/** Fills *v, zeroed before. Collective, agreed. On an error everything is undone, unless the ranks are lost. */
int windows_open(struct windows *v, struct world *w, const struct world_segment *wish);

/** Unlocks and frees the windows over nodes: those over engines' memory, and the overlay. Collective. */
void windows_close_overlay(struct windows *v, struct world *w);
/** Unlocks and frees: overlay, then shared. Collective. */
void windows_close(struct windows *v, struct world *w);

/**
 * MPI_Win_sync on both windows and a full fence: orders all my loads and stores before the call, and what MPI wrote
 * into my segment until then, before all after it.
 */
void windows_sync(const struct windows *v);

/** The bell of a rank; NULL: it is not mapped here. */
struct bell *windows_bell(const struct windows *v, uint32_t rank);

/** The process id of a rank that is mapped here and shares this process's id namespace, else 0. */
int windows_process(const struct windows *v, uint32_t rank);

/**
 * Makes a window over memory of mine: no error on it ends the process, and it is locked for all ranks. `none` makes an
 * error, with its sentence, of what MPI_Win_create returned. Collective, agreed.
 */
int windows_create(struct world *w, void *base, uint64_t bytes, const char *which, int (*none)(int rc), MPI_Win *win);
/** Unlocks and frees. MPI_WIN_NULL is no window. Collective. */
void windows_release(MPI_Win *win, const char *which, const struct logger *log);

/** Byte `at` of the pattern in the first page of a rank. */
uint8_t windows_pattern(uint32_t rank, uint32_t at);

#endif
