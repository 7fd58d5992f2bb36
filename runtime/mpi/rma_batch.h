/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_batch: one request's worth of a leg. Up to gets_per_request or puts_per_request operations (see quirks.h), of
 * together at most rma_run_bytes, are issued as one operation of the path: the request of the last one completes
 * them all. The runs go straight to where they belong, or through a sieve where that is cheaper.
 *
 * The reactor's thread. Never blocks; never touches a byte outside of my pool and of the pool that the peer's card
 * names.
 */
#ifndef BATON_MPI_RMA_BATCH_H
#define BATON_MPI_RMA_BATCH_H

#include <stdint.h>

#include "core/port.h"

struct rma;

/**
 * Issues the next runs of the leg, for a peer that was admitted. Returns the bytes taken, and moves the leg's cursor
 * behind them; 0: no run is left. BATON_EMESSAGE (a run is out of bounds) or BATON_EPEER: nothing was taken, and the
 * cursor stays.
 */
int64_t rma_batch_issue(struct rma *r, const struct path_leg *leg, uint64_t budget);

#endif
