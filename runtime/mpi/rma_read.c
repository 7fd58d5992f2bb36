/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_read: see the header. */
#include "mpi/rma_read.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "base/error.h"
#include "mpi/address.h"
#include "mpi/rma.h"

int rma_read_check(const struct rma *r, uint32_t peer, uint64_t offset, uint64_t bytes)
{
    if (peer >= (uint32_t)r->world->size || bytes == 0 || bytes > INT_MAX)
        return error_set(BATON_EINVAL, "a read of %" PRIu64 " bytes from rank %" PRIu32 " is not possible", bytes,
                         peer);
    const struct address at = address_of(r->windows, peer);
    if (!rma_is_within(offset, bytes, at.bytes))
        return error_set(BATON_EMESSAGE,
                         "a read of %" PRIu64 " bytes at %" PRIu64 " is outside of rank %" PRIu32
                         "'s segment of %" PRIu64 " bytes",
                         bytes, offset, peer, at.bytes);
    if (at.window == MPI_WIN_NULL)
        return error_set(BATON_EINVAL, "rank %" PRIu32 " is on this node: there is no window over nodes", peer);
    return 0;
}

/* Into the operation's landing. */
static int get(struct rma *r, struct rma_op *op, uint64_t offset, uint64_t bytes)
{
    MPI_Request request;
    struct rma_peer *p = r->peers.by_rank[op->peer];
    const struct address at = address_of(r->windows, op->peer);
    int rc = MPI_Rget(op->landing, (int)bytes, MPI_BYTE, at.rank, (MPI_Aint)(at.base + offset), (int)bytes, MPI_BYTE,
                      at.window, &request);
    if (rc != MPI_SUCCESS)
        return rma_peer_poison(&r->peers, p, "MPI_Rget", rc);
    rma_peer_count(&r->peers, p, 2); /* MPI counts the request as one more */
    rma_requests_add(&r->requests, op, request);
    return 0;
}

int rma_read_issue(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    int error = BATON_ENOMEM;
    struct rma_op *op = rma_op_take(&r->ops, kind, peer, tag);
    if (op == NULL)
        return BATON_EAGAIN;
    op->bytes = bytes;
    op->landing = calloc(1, bytes);
    if (op->landing != NULL)
        error = get(r, op, offset, bytes);
    if (error)
        rma_op_free(&r->ops, op);
    return error;
}

int rma_read_behind(struct rma *r, struct rma_op *op, uint64_t offset)
{
    int error = BATON_ENOMEM;
    const enum rma_kind kind = op->kind;
    op->kind = RMA_PROOF;
    op->landing = calloc(1, sizeof(uint64_t));
    if (op->landing != NULL)
        error = get(r, op, offset, sizeof(uint64_t));
    if (error) {
        free(op->landing);
        op->landing = NULL;
        op->kind = kind;
    }
    return error;
}

void rma_read_probe(struct rma *r, struct rma_peer *p, uint64_t now)
{
    bool is_early = now < p->probed_ns + r->world->settings.park_ms * CLOCK_NS_PER_MS;
    bool has_place = r->requests.active_reads < RMA_READS && !rma_requests_are_full(&r->requests);
    if (p->is_probed || p->is_poisoned || is_early || !has_place)
        return;
    if (rma_read_issue(r, RMA_PROBE, p->rank, WINDOWS_PATTERN_OFFSET, sizeof(uint64_t), 0) != 0)
        return;
    p->is_probed = true;
    p->probed_ns = now;
}
