/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_read: one piece of a peer's segment, read by MPI_Rget into memory of its own: a card, a table, a word.
 *
 * The thread that makes a turn. Never blocks; never reads outside of the peer's segment.
 */
#ifndef BATON_MPI_RMA_READ_H
#define BATON_MPI_RMA_READ_H

#include <stdint.h>

#include "mpi/rma_op.h"

struct rma;
struct rma_peer;

/** Whether these bytes lie in the peer's segment, and can be read: 0, BATON_EINVAL or BATON_EMESSAGE. */
int rma_read_check(const struct rma *r, uint32_t peer, uint64_t offset, uint64_t bytes);

/** Reads them, once they were checked. 0, BATON_EAGAIN (no operation is free), BATON_ENOMEM, BATON_EPEER. */
int rma_read_issue(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);

/** Reads a word behind data that are complete, as the same operation from now on. 0; or as above: it is as it was. */
int rma_read_behind(struct rma *r, struct rma_op *op, uint64_t offset);

/** Reads a word that nobody asked for, to find out whether the peer answers: at most one in park_ms. */
void rma_read_probe(struct rma *r, struct rma_peer *p, uint64_t now);

#endif
