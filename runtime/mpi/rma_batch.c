/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_batch: see the header. Every run is checked against both pools before its first byte moves. */
#include "mpi/rma_batch.h"

#include <inttypes.h>

#include "base/error.h"
#include "mpi/rma.h"

/* ---- issuing ----------------------------------------------------------------------------------------------------- */

/* Contiguous bytes to be moved by MPI. */
struct piece {
    uint8_t *mine;
    MPI_Aint theirs; /* in the peer's segment */
    uint64_t bytes;
};

static int check_runs(const struct rma *r, const struct path_leg *leg, const struct plan_run *runs, uint32_t n)
{
    uint64_t theirs = leg->pool_bytes, mine = r->windows->pool_bytes;
    uint64_t src = leg->write ? mine : theirs, dst = leg->write ? theirs : mine;
    if (!rma_is_within(leg->pool_offset, theirs, r->windows->segments[leg->peer].bytes))
        return error_set(BATON_EMESSAGE, "rank %" PRIu32 "'s card names a pool outside of its segment", leg->peer);
    for (uint32_t i = 0; i < n; i++) {
        if (runs[i].src_region != 0 || runs[i].dst_region != 0)
            return error_set(BATON_EMESSAGE, "a run lies in a region other than 0");
        if (!rma_is_within(runs[i].src, runs[i].bytes, src) || !rma_is_within(runs[i].dst, runs[i].bytes, dst))
            return error_set(BATON_EMESSAGE,
                             "a run of %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64 " is outside of rank %" PRIu32
                             "'s pool or of mine",
                             runs[i].bytes, runs[i].src, runs[i].dst, leg->peer);
    }
    return 0;
}

/* `request` NULL: without a request of its own. */
static int issue_piece(const struct rma *r, const struct path_leg *leg, const struct piece *piece, MPI_Request *request)
{
    MPI_Win win = r->windows->overlay;
    int bytes = (int)piece->bytes, peer = (int)leg->peer;
    if (leg->write)
        return request != NULL
                   ? MPI_Rput(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win, request)
                   : MPI_Put(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win);
    return request != NULL ? MPI_Rget(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win, request)
                           : MPI_Get(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win);
}

/*
 * Only the last piece has a request: the quirks table says that this one completes the others too. After an error
 * op->runs is the number of pieces that were begun.
 */
static int issue_pieces(struct rma *r, struct rma_op *op, const struct path_leg *leg, const struct piece *pieces,
                        uint32_t n)
{
    MPI_Request request = MPI_REQUEST_NULL;
    struct rma_peer *p = r->peers.by_rank[op->peer];
    for (uint32_t i = 0; i < n; i++) {
        int rc = issue_piece(r, leg, &pieces[i], i + 1 < n ? NULL : &request);
        if (rc != MPI_SUCCESS) {
            op->runs = i;
            if (i > 0)
                rma_peer_keep_stray(p, op);
            return rma_peer_poison(&r->peers, p, leg->write ? "a put" : "a get", rc);
        }
    }
    op->runs = n;
    rma_peer_count(&r->peers, p, n + 1); /* MPI counts the request as one more */
    rma_requests_add(&r->requests, op, request);
    return 0;
}

/* ---- runs by themselves ------------------------------------------------------------------------------------------ */

/* Each run straight to where it belongs. The bytes taken; *cursor moves behind them. */
static int64_t issue_runs(struct rma *r, const struct path_leg *leg, uint64_t budget, struct plan_cursor *cursor)
{
    struct plan_run runs[QUIRKS_RUNS_MAX];
    struct piece pieces[QUIRKS_RUNS_MAX];
    uint32_t together = leg->write ? r->quirks->puts_per_request : r->quirks->gets_per_request;
    uint32_t n = plan_next(leg->transfer, cursor, runs, together, budget);
    int error = check_runs(r, leg, runs, n);
    if (n == 0 || error)
        return error;
    struct rma_op *op = rma_op_take(&r->ops, RMA_DATA, leg->peer, leg->tag);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t mine = leg->write ? runs[i].src : runs[i].dst, theirs = leg->write ? runs[i].dst : runs[i].src;
        pieces[i] = (struct piece){.mine = windows_pool(r->windows) + mine,
                                   .theirs = (MPI_Aint)(leg->pool_offset + theirs),
                                   .bytes = runs[i].bytes};
        op->bytes += runs[i].bytes;
    }
    error = issue_pieces(r, op, leg, pieces, n);
    if (error) {
        rma_op_free(&r->ops, op);
        return error;
    }
    return (int64_t)op->bytes;
}

/* ---- runs through a sieve ---------------------------------------------------------------------------------------- */

/* Adds the next runs as far as they fit. *cursor moves behind them. 0, or BATON_EMESSAGE. */
static int add_runs(const struct rma *r, const struct path_leg *leg, uint64_t budget, struct sieve *s,
                    struct plan_cursor *cursor)
{
    struct plan_run runs[QUIRKS_RUNS_MAX];
    uint32_t n, added;
    do {
        struct plan_cursor before = *cursor;
        uint64_t left = budget - s->run_bytes;
        n = plan_next(leg->transfer, cursor, runs, QUIRKS_RUNS_MAX, left);
        int error = check_runs(r, leg, runs, n);
        if (error)
            return error;
        for (added = 0; added < n && sieve_add(s, &runs[added]);)
            added++;
        if (added < n) { /* move the cursor only behind those that fitted */
            *cursor = before;
            plan_next(leg->transfer, cursor, runs, added, left);
        }
    } while (added == n && n > 0);
    return 0;
}

/* A sieve is used again once its request is complete, so that must cover all that goes through the sieve. */
static uint32_t spans_together(const struct rma *r, bool write)
{
    if (write)
        return r->quirks->put_is_remote ? r->quirks->puts_per_request : 1;
    return r->quirks->gets_per_request;
}

/* The sieve's spans as one operation. After an error the sieve is free again only if no piece was begun. */
static int64_t issue_sieve(struct rma *r, const struct path_leg *leg, struct sieve *s)
{
    struct piece pieces[QUIRKS_RUNS_MAX];
    sieve_lay_out(s);
    if (s->write)
        sieve_fill(s, windows_pool(r->windows));
    for (uint32_t i = 0; i < s->num_spans; i++)
        pieces[i] = (struct piece){.mine = s->bytes + s->span[i].at,
                                   .theirs = (MPI_Aint)(leg->pool_offset + s->span[i].begin),
                                   .bytes = s->span[i].end - s->span[i].begin};
    struct rma_op *op = rma_op_take(&r->ops, RMA_DATA, leg->peer, leg->tag);
    op->bytes = s->run_bytes;
    op->sieve = s;
    int error = issue_pieces(r, op, leg, pieces, s->num_spans);
    if (error) {
        if (op->runs == 0)
            sieve_give_back(&r->sieves, s);
        rma_op_free(&r->ops, op);
        return error;
    }
    return (int64_t)op->bytes;
}

/* The bytes taken; *cursor moves behind them. 0: nothing was done, since no sieve is free or it is not cheaper. */
static int64_t issue_spans(struct rma *r, const struct path_leg *leg, uint64_t budget, struct plan_cursor *cursor)
{
    struct sieve *s = sieve_take(&r->sieves);
    if (s == NULL)
        return 0;
    sieve_begin(s, leg->write, spans_together(r, leg->write), r->world->settings.rma_run_bytes);
    int error = add_runs(r, leg, budget, s, cursor);
    if (error || !sieve_is_cheaper(s)) {
        sieve_give_back(&r->sieves, s);
        return error;
    }
    return issue_sieve(r, leg, s);
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

int64_t rma_batch_issue(struct rma *r, const struct path_leg *leg, uint64_t budget)
{
    struct plan_cursor cursor = *leg->cursor;
    uint64_t most = r->world->settings.rma_run_bytes;
    if (budget > most)
        budget = most;
    int64_t taken = issue_spans(r, leg, budget, &cursor);
    if (taken == 0) {
        cursor = *leg->cursor;
        taken = issue_runs(r, leg, budget, &cursor);
    }
    if (taken > 0)
        *leg->cursor = cursor;
    return taken;
}
