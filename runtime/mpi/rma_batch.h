/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_batch: one request's worth of a move. Up to per_request operations (see quirks.h), of together at most
 * rma_run_bytes, are issued as one operation of the path: the request of the last one completes them all. The runs'
 * pieces go straight to where they belong, or through a sieve where that is cheaper.
 *
 * The thread that makes a turn. Never blocks; never touches a byte outside of my pool and of the pool that the peer's
 * card names.
 */
#ifndef BATON_MPI_RMA_BATCH_H
#define BATON_MPI_RMA_BATCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/net.h"
#include "mpi/sieve.h"

struct rma;

/**
 * Issues the first runs of the move, for a peer that was admitted. Returns the bytes taken. BATON_EMESSAGE (a piece is
 * out of bounds) or BATON_EPEER: nothing was taken.
 */
int64_t rma_batch_issue(struct rma *r, const struct net_move *move);

/** Issues one operation of a batch. `request` NULL: without a request of its own. MPI's return code. */
int rma_batch_piece(bool write, int rank, MPI_Win win, const struct sieve_piece *piece, MPI_Request *request);

#endif
