/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_batch: see the header. Every piece is checked against both pools before its first byte moves. */
#include "mpi/rma_batch.h"

#include <inttypes.h>

#include "base/error.h"
#include "mpi/address.h"
#include "mpi/rma.h"

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Bytes that are moved by MPI through one window. */
struct batch {
    MPI_Win win;
    struct sieve_piece piece[QUIRKS_RUNS_MAX];
    uint32_t num;
};

/* A place in a move: a run, a piece of it, and how many bytes of that are done. All zero: the beginning. */
struct place {
    uint32_t run, piece;
    uint64_t done;
};

static uint64_t bytes_of(const struct net_move *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->num_runs; i++)
        bytes += m->runs[i].count * m->runs[i].bytes;
    return bytes;
}

/* Moves on by bytes of one piece. */
static void pass(const struct net_move *m, struct place *at, uint64_t bytes)
{
    at->done += bytes;
    if (at->done < m->runs[at->run].bytes)
        return;
    at->done = 0;
    if (++at->piece < m->runs[at->run].count)
        return;
    at->piece = 0;
    at->run++;
}

/* Where my side of a piece lies. NULL: outside of my cache. */
static uint8_t *mine_at(const struct windows *v, uint32_t region, uint64_t offset, uint64_t bytes)
{
    if (!path_holds(&v->mine, region, offset, bytes))
        return NULL;
    return (uint8_t *)(uintptr_t)v->mine.region[region].at + offset;
}

/* The window that the peer's side of a piece is reached by, and where in it. MPI_WIN_NULL: outside of its cache. */
static MPI_Win theirs_at(const struct rma *r, const struct net_move *m, uint32_t region, uint64_t offset,
                         uint64_t bytes, uint64_t *displacement)
{
    const struct path_regions *theirs = m->theirs;
    if (!path_holds(theirs, region, offset, bytes))
        return MPI_WIN_NULL;
    const struct address at = address_of(r->windows, m->peer);
    if (theirs->is_wrapped)
        return exposure_place(&r->windows->exposure, (uint32_t)at.rank, theirs, region, offset, displacement);
    if (!rma_is_within(theirs->region[region].at, theirs->region[region].bytes, at.bytes))
        return MPI_WIN_NULL;
    *displacement = at.base + theirs->region[region].at + offset;
    return at.window;
}

/* Finds where the piece at a place lies on both sides, at most `budget` bytes of it. 0, or BATON_EMESSAGE. */
static int resolve(const struct rma *r, const struct net_move *m, const struct place *at, uint64_t budget,
                   struct sieve_piece *out, MPI_Win *win)
{
    const struct net_run *run = &m->runs[at->run];
    const uint64_t from = run->from + at->piece * (uint64_t)run->from_step + at->done;
    const uint64_t to = run->to + at->piece * (uint64_t)run->to_step + at->done, left = run->bytes - at->done;
    out->bytes = left < budget ? left : budget;
    if (m->write) {
        out->mine = mine_at(r->windows, run->from_region, from, out->bytes);
        *win = theirs_at(r, m, run->to_region, to, out->bytes, &out->theirs);
    } else {
        out->mine = mine_at(r->windows, run->to_region, to, out->bytes);
        *win = theirs_at(r, m, run->from_region, from, out->bytes, &out->theirs);
    }
    if (out->mine != NULL && *win != MPI_WIN_NULL)
        return 0;
    return error_set(BATON_EMESSAGE,
                     "a run of %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64 " is outside of rank %" PRIu32
                     "'s cache or of mine",
                     out->bytes, from, to, m->peer);
}

/*
 * Takes the next pieces, as long as they go through one window, and moves *at behind them. `batch` has the window of
 * what was taken before, or none. 0, or BATON_EMESSAGE.
 */
static int take_pieces(const struct rma *r, const struct net_move *m, uint64_t budget, uint32_t most, struct place *at,
                       struct batch *batch)
{
    for (batch->num = 0; batch->num < most && budget > 0 && at->run < m->num_runs; batch->num++) {
        struct sieve_piece *piece = &batch->piece[batch->num];
        MPI_Win win;
        int error = resolve(r, m, at, budget, piece, &win);
        if (error)
            return error;
        if (batch->win == MPI_WIN_NULL)
            batch->win = win;
        if (win != batch->win)
            break;
        pass(m, at, piece->bytes);
        budget -= piece->bytes;
    }
    return 0;
}

/* ---- issuing ----------------------------------------------------------------------------------------------------- */

int rma_batch_piece(bool write, int rank, MPI_Win win, const struct sieve_piece *piece, MPI_Request *request)
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
 * Issues the batch, which moves the next `bytes` of the runs, as one operation; `s`: the sieve that it goes through.
 * Only the last piece has a request: the quirks table says that this one completes the others too. Returns `bytes`.
 * After an error the sieve is free again only if no piece was begun.
 */
static int64_t issue_batch(struct rma *r, const struct net_move *m, const struct batch *batch, uint64_t bytes,
                           struct sieve *s)
{
    MPI_Request request = MPI_REQUEST_NULL;
    struct rma_op *op = rma_op_take(&r->ops, RMA_DATA, m->peer, m->tag);
    struct rma_peer *p = r->peers.by_rank[m->peer];
    const int rank = address_of(r->windows, m->peer).rank;
    op->bytes = bytes;
    op->runs = batch->num;
    op->sieve = s;
    for (uint32_t i = 0; i < batch->num; i++) {
        int rc = rma_batch_piece(m->write, rank, batch->win, &batch->piece[i], i + 1 < batch->num ? NULL : &request);
        if (rc == MPI_SUCCESS)
            continue;
        if (i > 0)
            rma_peer_keep_stray(p, op);
        else if (s != NULL)
            sieve_give_back(&r->sieves, s);
        rma_op_free(&r->ops, op);
        return rma_peer_poison(&r->peers, p, m->write ? "a put" : "a get", rc);
    }
    op->board = m->board != 0 && bytes == bytes_of(m) ? m->board : 0;
    rma_peer_count(&r->peers, p, batch->num + 1); /* MPI counts the request as one more */
    rma_requests_add(&r->requests, op, request);
    return (int64_t)bytes;
}

/* ---- pieces by themselves ---------------------------------------------------------------------------------------- */

/* Each piece straight to where it belongs. The bytes taken. */
static int64_t issue_pieces(struct rma *r, const struct net_move *m, uint64_t budget)
{
    struct place at = {0};
    struct batch batch = {.win = MPI_WIN_NULL};
    int error = take_pieces(r, m, budget, r->quirks->per_request, &at, &batch);
    if (batch.num == 0 || error)
        return error;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < batch.num; i++)
        bytes += batch.piece[i].bytes;
    return issue_batch(r, m, &batch, bytes, NULL);
}

/* ---- pieces through a sieve -------------------------------------------------------------------------------------- */

/* Adds the first pieces as far as they fit and go through one window. 0, or BATON_EMESSAGE. */
static int add_pieces(const struct rma *r, const struct net_move *m, uint64_t budget, struct sieve *s, MPI_Win *win)
{
    struct place at = {0};
    struct batch batch = {.win = MPI_WIN_NULL};
    uint32_t added;
    do {
        int error = take_pieces(r, m, budget - s->run_bytes, QUIRKS_RUNS_MAX, &at, &batch);
        if (error)
            return error;
        for (added = 0; added < batch.num && sieve_add(s, &batch.piece[added]);)
            added++;
    } while (added == batch.num && added > 0);
    *win = batch.win;
    return 0;
}

/* A sieve is used again once its request is complete, so that must cover all that goes through the sieve. */
static uint32_t spans_together(const struct rma *r, bool write)
{
    return write && !r->quirks->put_is_remote ? 1 : r->quirks->per_request;
}

/* The sieve's spans as one operation. */
static int64_t issue_sieve(struct rma *r, const struct net_move *m, struct sieve *s, MPI_Win win)
{
    struct batch batch = {.win = win, .num = s->num_spans};
    sieve_lay_out(s);
    if (s->write)
        sieve_fill(s);
    for (uint32_t i = 0; i < s->num_spans; i++)
        batch.piece[i] = (struct sieve_piece){
            .mine = s->bytes + s->span[i].at, .theirs = s->span[i].begin, .bytes = s->span[i].end - s->span[i].begin};
    return issue_batch(r, m, &batch, s->run_bytes, s);
}

/* The bytes taken. 0: nothing was done, since no sieve is free or it is not cheaper. */
static int64_t issue_spans(struct rma *r, const struct net_move *m, uint64_t budget)
{
    struct sieve *s = sieve_take(&r->sieves);
    if (s == NULL)
        return 0;
    sieve_begin(s, m->write, spans_together(r, m->write), r->world->settings.rma_run_bytes);
    MPI_Win win;
    int error = add_pieces(r, m, budget, s, &win);
    if (error || !sieve_is_cheaper(s)) {
        sieve_give_back(&r->sieves, s);
        return error;
    }
    return issue_sieve(r, m, s, win);
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

int64_t rma_batch_issue(struct rma *r, const struct net_move *move)
{
    uint64_t most = r->world->settings.rma_run_bytes;
    int64_t taken = issue_spans(r, move, most);
    return taken != 0 ? taken : issue_pieces(r, move, most);
}
