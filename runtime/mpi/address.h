/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address: what stands for a peer in MPI. Only this file turns a peer's number into a rank of a communicator or a place
 * in a window, or back. In a world of MPI the number is the rank, and each rank's segment
 * begins where its part of the overlay does.
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
