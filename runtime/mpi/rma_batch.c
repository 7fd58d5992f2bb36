/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_batch: see the header. Every run is checked against both pools before its first byte moves. */
#include "mpi/rma_batch.h"

#include <inttypes.h>

#include "base/error.h"
#include "mpi/address.h"
#include "mpi/rma.h"

/* ---- issuing ----------------------------------------------------------------------------------------------------- */

/* Bytes that are moved by MPI through one window. */
struct batch {
    MPI_Win win;
    struct sieve_piece piece[QUIRKS_RUNS_MAX];
    uint32_t num;
};

/* Where my side of a run lies. NULL: outside of my cache. */
static uint8_t *mine_at(const struct windows *v, uint32_t region, uint64_t offset, uint64_t bytes)
{
    if (!path_holds(&v->mine, region, offset, bytes))
        return NULL;
    return (uint8_t *)(uintptr_t)v->mine.region[region].at + offset;
}

/* The window that the peer's side of a run is reached by, and where in it. MPI_WIN_NULL: outside of its cache. */
static MPI_Win theirs_at(const struct rma *r, const struct path_leg *leg, uint32_t region, uint64_t offset,
                         uint64_t bytes, uint64_t *displacement)
{
    const struct path_regions *theirs = leg->theirs;
    if (!path_holds(theirs, region, offset, bytes))
        return MPI_WIN_NULL;
    const struct address at = address_of(r->windows, leg->peer);
    if (theirs->is_wrapped)
        return exposure_place(&r->windows->exposure, (uint32_t)at.rank, theirs, region, offset, displacement);
    if (!rma_is_within(theirs->region[region].at, theirs->region[region].bytes, at.bytes))
        return MPI_WIN_NULL;
    *displacement = at.base + theirs->region[region].at + offset;
    return at.window;
}

/*
 * Finds where the runs lie on both sides, as long as they go through one window. `batch` is empty, or has the window of
 * what it holds. 0, or BATON_EMESSAGE.
 */
static int resolve(const struct rma *r, const struct path_leg *leg, const struct plan_run *runs, uint32_t n,
                   struct batch *batch)
{
    for (batch->num = 0; batch->num < n; batch->num++) {
        const struct plan_run *run = &runs[batch->num];
        struct sieve_piece *piece = &batch->piece[batch->num];
        MPI_Win win;
        piece->bytes = run->bytes;
        if (leg->write) {
            piece->mine = mine_at(r->windows, run->src_region, run->src, run->bytes);
            win = theirs_at(r, leg, run->dst_region, run->dst, run->bytes, &piece->theirs);
        } else {
            piece->mine = mine_at(r->windows, run->dst_region, run->dst, run->bytes);
            win = theirs_at(r, leg, run->src_region, run->src, run->bytes, &piece->theirs);
        }
        if (piece->mine == NULL || win == MPI_WIN_NULL)
            return error_set(BATON_EMESSAGE,
                             "a run of %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64 " is outside of rank %" PRIu32
                             "'s cache or of mine",
                             run->bytes, run->src, run->dst, leg->peer);
        if (batch->win == MPI_WIN_NULL)
            batch->win = win;
        if (win != batch->win)
            break;
    }
    return 0;
}

/* Takes the next runs that go through one window, and moves *cursor behind them. 0, or BATON_EMESSAGE. */
static int take_runs(const struct rma *r, const struct path_leg *leg, uint64_t budget, uint32_t most,
                     struct plan_cursor *cursor, struct batch *batch)
{
    struct plan_run runs[QUIRKS_RUNS_MAX];
    struct plan_cursor before = *cursor;
    uint32_t n = plan_next(leg->transfer, cursor, runs, most, budget);
    int error = resolve(r, leg, runs, n, batch);
    if (error == 0 && batch->num < n) {
        *cursor = before;
        plan_next(leg->transfer, cursor, runs, batch->num, budget);
    }
    return error;
}

/* `request` NULL: without a request of its own. */
static int issue_piece(bool write, int rank, MPI_Win win, const struct sieve_piece *piece, MPI_Request *request)
{
    int bytes = (int)piece->bytes;
    MPI_Aint at = (MPI_Aint)piece->theirs;
    if (write)
        return request != NULL ? MPI_Rput(piece->mine, bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, win, request)
                               : MPI_Put(piece->mine, bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, win);
    return request != NULL ? MPI_Rget(piece->mine, bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, win, request)
                           : MPI_Get(piece->mine, bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, win);
}

/*
 * Only the last piece has a request: the quirks table says that this one completes the others too. After an error
 * op->runs is the number of pieces that were begun.
 */
static int issue_batch(struct rma *r, struct rma_op *op, const struct path_leg *leg, const struct batch *batch)
{
    MPI_Request request = MPI_REQUEST_NULL;
    struct rma_peer *p = r->peers.by_rank[op->peer];
    const int rank = address_of(r->windows, op->peer).rank;
    for (uint32_t i = 0; i < batch->num; i++) {
        int rc = issue_piece(leg->write, rank, batch->win, &batch->piece[i], i + 1 < batch->num ? NULL : &request);
        if (rc != MPI_SUCCESS) {
            op->runs = i;
            if (i > 0)
                rma_peer_keep_stray(p, op);
            return rma_peer_poison(&r->peers, p, leg->write ? "a put" : "a get", rc);
        }
    }
    op->runs = batch->num;
    rma_peer_count(&r->peers, p, batch->num + 1); /* MPI counts the request as one more */
    rma_requests_add(&r->requests, op, request);
    return 0;
}

/* ---- runs by themselves ------------------------------------------------------------------------------------------ */

/* Each run straight to where it belongs. The bytes taken; *cursor moves behind them. */
static int64_t issue_runs(struct rma *r, const struct path_leg *leg, uint64_t budget, struct plan_cursor *cursor)
{
    struct batch batch = {.win = MPI_WIN_NULL};
    uint32_t together = leg->write ? r->quirks->puts_per_request : r->quirks->gets_per_request;
    int error = take_runs(r, leg, budget, together, cursor, &batch);
    if (batch.num == 0 || error)
        return error;
    struct rma_op *op = rma_op_take(&r->ops, RMA_DATA, leg->peer, leg->tag);
    for (uint32_t i = 0; i < batch.num; i++)
        op->bytes += batch.piece[i].bytes;
    error = issue_batch(r, op, leg, &batch);
    if (error) {
        rma_op_free(&r->ops, op);
        return error;
    }
    return (int64_t)op->bytes;
}

/* ---- runs through a sieve ---------------------------------------------------------------------------------------- */

/* Adds the next runs as far as they fit and go through one window. *cursor moves behind them. 0, or BATON_EMESSAGE. */
static int add_runs(const struct rma *r, const struct path_leg *leg, uint64_t budget, struct sieve *s,
                    struct plan_cursor *cursor, MPI_Win *win)
{
    struct batch batch = {.win = MPI_WIN_NULL};
    uint32_t added;
    do {
        struct plan_cursor before = *cursor;
        uint64_t left = budget - s->run_bytes;
        int error = take_runs(r, leg, left, QUIRKS_RUNS_MAX, cursor, &batch);
        if (error)
            return error;
        for (added = 0; added < batch.num && sieve_add(s, &batch.piece[added]);)
            added++;
        if (added < batch.num) { /* move the cursor only behind those that fitted */
            struct plan_run runs[QUIRKS_RUNS_MAX];
            *cursor = before;
            plan_next(leg->transfer, cursor, runs, added, left);
        }
    } while (added == batch.num && added > 0);
    *win = batch.win;
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
static int64_t issue_sieve(struct rma *r, const struct path_leg *leg, struct sieve *s, MPI_Win win)
{
    struct batch batch = {.win = win, .num = s->num_spans};
    sieve_lay_out(s);
    if (s->write)
        sieve_fill(s);
    for (uint32_t i = 0; i < s->num_spans; i++)
        batch.piece[i] = (struct sieve_piece){
            .mine = s->bytes + s->span[i].at, .theirs = s->span[i].begin, .bytes = s->span[i].end - s->span[i].begin};
    struct rma_op *op = rma_op_take(&r->ops, RMA_DATA, leg->peer, leg->tag);
    op->bytes = s->run_bytes;
    op->sieve = s;
    int error = issue_batch(r, op, leg, &batch);
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
    MPI_Win win;
    int error = add_runs(r, leg, budget, s, cursor, &win);
    if (error || !sieve_is_cheaper(s)) {
        sieve_give_back(&r->sieves, s);
        return error;
    }
    return issue_sieve(r, leg, s, win);
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
