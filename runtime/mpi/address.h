/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address: what stands for a peer in MPI. In a world of MPI a peer's number is its rank, and each rank's segment begins
 * where its part of the overlay does. The files that move bytes and messages (rma*, outbox, control) learn of a peer's
 * rank, window and place there from this file alone. What all ranks do together at start (world, windows, exposure,
 * ringing, selftest) counts by ranks.
 */
#ifndef BATON_MPI_ADDRESS_H
#define BATON_MPI_ADDRESS_H

#include "mpi/windows.h"

struct address {
    int rank;             /* of the communicator of messages, and of all windows */
    MPI_Win window;       /* over its segment; MPI_WIN_NULL: there is none */
    uint64_t base, bytes; /* where the segment lies in that */
};

/** Of a peer that the net has. */
static inline struct address address_of(const struct windows *v, uint32_t peer)
{
    return (struct address){(int)peer, v->overlay, 0, v->segments[peer].bytes};
}

/** The peer that is meant by a rank of the communicator of messages. UINT32_MAX: none is, or it is -1. */
static inline uint32_t address_peer(int rank)
{
    return (uint32_t)rank;
}

#endif
