/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ground: what a process stands on, on its node: its own segment, and the segments of its neighbours as they are mapped
 * here. Whoever opens a context fills it: `mpi` for a world of MPI, tests by themselves.
 *
 * PEERS are numbers, from 0 to num_peers - 1. In a world of MPI they are the ranks, in the order of its communicator.
 * PLACES are the dense numbers of the peers of one node, in the order of their own: words and lanes are counted by
 * them.
 *
 * SEGMENT. Each process has one: a first page with its bell, then metadata that front lays out (board, table arena,
 * card, the area of words and lanes, buffers for staging), then its pool. Segments are aligned to 2 MiB and populated
 * by their owners. Offsets count from the aligned beginning.
 *
 * The numbers and places are there from the beginning, the segments once the world has been started. From then on
 * nothing changes, and any thread may read it. What the segments hold is another matter: their owners, and the words
 * and lanes in them, say who stores into it.
 */
#ifndef BATON_CORE_GROUND_H
#define BATON_CORE_GROUND_H

#include <stdint.h>

#include "base/bell.h"

#define GROUND_META_OFFSET 4096u /* where metadata begins in a segment */

struct ground_peer {
    uint8_t *mapped; /* its segment; NULL: it is on another node */
    uint64_t bytes;  /* of that */
    int process;     /* its id, where it is of my node and we share a namespace of such ids, else 0 */
    uint32_t place;  /* on its node */
};

struct ground {
    uint32_t self, num_peers;        /* my number; all peers, me among them */
    uint32_t places;                 /* the peers of my node, me among them */
    uint8_t *segment;                /* mine */
    uint64_t pool_offset;            /* where my pool begins in it, aligned to 2 MiB */
    const struct ground_peer *peers; /* by number */
};

/**
 * My bell: peers of this node ring it for messages that they sent (by lanes, at the end of that turn), and so do this
 * process's threads and copy workers.
 */
static inline struct bell *ground_bell(const struct ground *g)
{
    return (struct bell *)(void *)g->segment;
}

#endif
