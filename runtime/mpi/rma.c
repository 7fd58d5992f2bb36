/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: issue, test, park, complete. Reactor's thread. Never waits for a request; never touches a byte outside of the
 * bounds of the peer's segment and of my pool; never calls a completion a proof after its peer was poisoned.
 */
#include "mpi/rma.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* A completion this fresh says that the peer answers: a flush to it will return. */
#define FRESH_NS (10 * CLOCK_NS_PER_MS)

/* ---- peers and operations ---------------------------------------------------------------------------------------- */

static struct rma_peer *peer_of(struct rma *r, uint32_t rank)
{
    if (!r->peers[rank])
        r->peers[rank] = calloc(1, sizeof **r->peers);
    return r->peers[rank];
}

static bool is_data(const struct rma_op *op)
{
    return op->kind == RMA_DATA;
}

static struct rma_op *take_op(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t tag)
{
    struct rma_op *op = r->free_ops;
    if (!op)
        return NULL;
    r->free_ops = op->next;
    *op = (struct rma_op){.kind = kind, .peer = peer, .tag = tag};
    return op;
}

static void free_op(struct rma *r, struct rma_op *op)
{
    free(op->landing);
    op->landing = NULL;
    op->next = r->free_ops;
    r->free_ops = op;
}

/* They are made as they are needed. NULL: all that may be are in use, or there is no memory for one more. */
static struct sieve *take_sieve(struct rma *r)
{
    struct sieve *s = r->free_sieves;
    if (s) {
        r->free_sieves = s->next;
        return s;
    }
    if (r->num_sieves < r->max_sieves && (s = malloc(sizeof *s)))
        r->sieves[r->num_sieves++] = s;
    return s;
}

static void free_sieve(struct rma *r, struct sieve *s)
{
    s->next = r->free_sieves;
    r->free_sieves = s;
}

static void push_done(struct rma *r, struct rma_op *op)
{
    op->next = NULL;
    *r->done_tail = op;
    r->done_tail = &op->next;
}

static int poison(struct rma *r, uint32_t rank, const char *call, int rc)
{
    struct rma_peer *p = r->peers[rank];
    if (!p->is_poisoned) {
        r->poisonings++;
        log_each(r->world->log, LOG_WARN, "%s to rank %" PRIu32 " failed (MPI error %d): nothing more is read from it",
                 call, rank, rc);
    }
    p->is_poisoned = true;
    return BATON_EPEER;
}

static bool is_stray(const struct rma_peer *p, uint64_t tag)
{
    if (p->num_strays > RMA_STRAYS)
        return true;
    for (uint32_t i = 0; i < p->num_strays; i++)
        if (p->strays[i] == tag)
            return true;
    return false;
}

/* Of this batch a part may be under way that no request tells of. A sieve that was read into keeps it from the blocks. */
static void keep_stray(struct rma *r, const struct rma_op *op)
{
    struct rma_peer *p = r->peers[op->peer];
    if ((op->sieve && !op->sieve->write) || is_stray(p, op->tag))
        return;
    if (p->num_strays < RMA_STRAYS)
        p->strays[p->num_strays] = op->tag;
    p->num_strays += p->num_strays <= RMA_STRAYS;
}

/* ---- flushes ----------------------------------------------------------------------------------------------------- */

/* Some components flush by themselves, blocking, after so many operations: time to do it well before. */
static bool is_flush_due(const struct rma *r, const struct rma_peer *p)
{
    return quirks_flush_due(r->quirks, p->unflushed, r->unflushed, r->num_unflushed);
}

/* Only for a peer that has just answered: a flush to a stopped one never returns. */
static int flush(struct rma *r, uint32_t rank)
{
    struct rma_peer *p = r->peers[rank];
    int rc = MPI_Win_flush((int)rank, r->windows->overlay);
    if (rc != MPI_SUCCESS)
        return poison(r, rank, "MPI_Win_flush", rc);
    r->flushes++;
    r->unflushed -= p->unflushed;
    r->num_unflushed -= p->unflushed > 0;
    p->unflushed = 0;
    return 0;
}

static void count_operations(struct rma *r, struct rma_peer *p, uint32_t n)
{
    r->num_unflushed += p->unflushed == 0;
    p->unflushed += n;
    r->unflushed += n;
}

/* ---- may it be issued -------------------------------------------------------------------------------------------- */

static bool is_within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return bytes <= limit && offset <= limit - bytes;
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/*
 * Requests of data, or reads, that one peer may have open: as many as it leaves to others, and fewer, the fewer places
 * are left to park them in, should it fall silent. One at least.
 */
static uint32_t most_of_one(const struct rma *r, bool data)
{
    const struct settings *s = &r->world->settings;
    uint32_t most = (uint32_t)s->rma_peer_requests, parked = r->many_parked;
    uint32_t left = data ? less((uint32_t)s->rma_requests, r->active_data) : RMA_READS - r->active_reads;
    uint32_t share = (most * less(parked, r->num_parked) + parked - 1) / parked;
    most = share < left ? share : left;
    return most > 0 ? most : 1;
}

/* MPI bears no more open requests, of whomever. */
static bool is_full(const struct rma *r)
{
    return r->quirks->requests_within && rma_open_ops(r) >= r->quirks->requests_within;
}

/* 0, or why no operation may go to this peer now. */
static int admit(struct rma *r, uint32_t rank, bool data)
{
    struct rma_peer *p = peer_of(r, rank);
    const struct settings *s = &r->world->settings;
    if (!p)
        return BATON_ENOMEM;
    if (p->is_poisoned)
        return BATON_EPEER;
    if ((data ? r->active_data : r->active_reads) >= (data ? s->rma_requests : RMA_READS))
        return BATON_EAGAIN;
    if ((data ? p->data : p->reads) >= most_of_one(r, data) || r->num_active >= RMA_ACTIVE_MAX)
        return BATON_EAGAIN;
    if (p->is_overdue) /* what is open shows when it is back; else a probe does */
        return BATON_EAGAIN;
    if (p->data + p->reads > 0 && is_flush_due(r, p)) /* let it drain; the last one's completion flushes */
        return BATON_EAGAIN;
    return r->free_ops && !is_full(r) ? 0 : BATON_EAGAIN;
}

static void activate(struct rma *r, struct rma_op *op, MPI_Request request)
{
    struct rma_peer *p = r->peers[op->peer];
    op->issued_ns = clock_now_ns();
    r->active[r->num_active] = request;
    r->active_op[r->num_active++] = op;
    if (is_data(op)) {
        p->data++;
        r->active_data++;
        r->bytes_open += op->bytes;
    } else {
        p->reads++;
        r->active_reads++;
    }
}

static void deactivate(struct rma *r, const struct rma_op *op)
{
    if (is_data(op)) {
        r->active_data--;
        r->bytes_open -= op->bytes;
    } else {
        r->active_reads--;
    }
}

/* ---- reading metadata -------------------------------------------------------------------------------------------- */

static int check_read(const struct rma *r, uint32_t peer, uint64_t offset, uint64_t bytes)
{
    if (peer >= (uint32_t)r->world->size || bytes == 0 || bytes > INT_MAX)
        return error_set(BATON_EINVAL, "a read of %" PRIu64 " bytes from rank %" PRIu32, bytes, peer);
    if (!is_within(offset, bytes, r->windows->parts[peer].bytes))
        return error_set(BATON_EMESSAGE,
                         "a read of %" PRIu64 " bytes at %" PRIu64 " is outside of rank %" PRIu32
                         "'s segment of %" PRIu64,
                         bytes, offset, peer, r->windows->parts[peer].bytes);
    return 0;
}

/*
 * A peer that is mapped here is read by load: no request, done at once. The fence before orders these loads after
 * those by which the caller learned that it may read; the one after, before whatever it does with them.
 */
static void read_mapped(struct rma *r, struct rma_op *op, uint64_t offset)
{
    const uint8_t *from = r->windows->parts[op->peer].mapped + offset;
    atomic_thread_fence(memory_order_seq_cst);
    if (op->kind == RMA_WORD && offset % sizeof(uint64_t) == 0)
        *(uint64_t *)(void *)op->landing =
            atomic_load_explicit((const _Atomic uint64_t *)(const void *)from, memory_order_acquire);
    else
        memcpy(op->landing, from, op->bytes);
    atomic_thread_fence(memory_order_seq_cst);
    push_done(r, op);
}

static int get_whole(struct rma *r, struct rma_op *op, uint64_t offset)
{
    MPI_Request request;
    int rc = MPI_Rget(op->landing, (int)op->bytes, MPI_BYTE, (int)op->peer, (MPI_Aint)offset, (int)op->bytes, MPI_BYTE,
                      r->windows->overlay, &request);
    if (rc != MPI_SUCCESS)
        return poison(r, op->peer, "MPI_Rget", rc);
    count_operations(r, r->peers[op->peer], 2);
    activate(r, op, request);
    return 0;
}

/* A new op that reads so much of the peer's segment. */
static int read_piece(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    int error = BATON_ENOMEM;
    struct rma_op *op = take_op(r, kind, peer, tag);
    if (!op)
        return BATON_EAGAIN;
    op->bytes = bytes;
    op->landing = calloc(1, bytes);
    if (op->landing && r->windows->parts[peer].mapped) {
        read_mapped(r, op, offset);
        return 0;
    }
    if (op->landing)
        error = get_whole(r, op, offset);
    if (error)
        free_op(r, op);
    return error;
}

int rma_read(struct rma *r, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    int error = check_read(r, peer, offset, bytes);
    if (error == 0)
        error = admit(r, peer, false);
    return error ? error : read_piece(r, RMA_CARD, peer, offset, bytes, tag);
}

int rma_read_word(struct rma *r, uint32_t peer, uint64_t offset, uint64_t tag)
{
    int error = check_read(r, peer, offset, sizeof(uint64_t));
    if (error == 0)
        error = admit(r, peer, false);
    return error ? error : read_piece(r, RMA_WORD, peer, offset, sizeof(uint64_t), tag);
}

/* ---- moving runs ------------------------------------------------------------------------------------------------- */

static uint8_t *my_pool(const struct rma *r)
{
    return r->windows->segment + r->windows->pool_offset;
}

static int check_runs(const struct rma *r, const struct port_leg *leg, const struct plan_run *runs, uint32_t n)
{
    uint64_t theirs = leg->pool_bytes, mine = r->windows->pool_bytes;
    uint64_t src = leg->write ? mine : theirs, dst = leg->write ? theirs : mine;
    if (!is_within(leg->pool_offset, theirs, r->windows->parts[leg->peer].bytes))
        return error_set(BATON_EMESSAGE, "rank %" PRIu32 "'s card tells of a pool outside of its segment", leg->peer);
    for (uint32_t i = 0; i < n; i++) {
        if (runs[i].src_region != 0 || runs[i].dst_region != 0)
            return error_set(BATON_EMESSAGE, "a run in a region other than 0");
        if (!is_within(runs[i].src, runs[i].bytes, src) || !is_within(runs[i].dst, runs[i].bytes, dst))
            return error_set(BATON_EMESSAGE,
                             "a run of %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64 " is outside of rank %" PRIu32
                             "'s pool or of mine",
                             runs[i].bytes, runs[i].src, runs[i].dst, leg->peer);
    }
    return 0;
}

/* Contiguous bytes to be moved by MPI. */
struct rma_piece {
    uint8_t *mine;
    MPI_Aint theirs; /* in the peer's segment */
    uint64_t bytes;
};

/* With a request of its own or (request NULL) without. */
static int issue_piece(const struct rma *r, const struct port_leg *leg, const struct rma_piece *piece,
                       MPI_Request *request)
{
    MPI_Win win = r->windows->overlay;
    int bytes = (int)piece->bytes, peer = (int)leg->peer;
    if (leg->write)
        return request ? MPI_Rput(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win, request)
                       : MPI_Put(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win);
    return request ? MPI_Rget(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win, request)
                   : MPI_Get(piece->mine, bytes, MPI_BYTE, peer, piece->theirs, bytes, MPI_BYTE, win);
}

/* All but the last without a request: the quirks table says that the last one's request completes them too. */
static int issue_pieces(struct rma *r, struct rma_op *op, const struct port_leg *leg, const struct rma_piece *pieces,
                        uint32_t n)
{
    MPI_Request request;
    for (uint32_t i = 0; i < n; i++) {
        int rc = issue_piece(r, leg, &pieces[i], i + 1 < n ? NULL : &request);
        if (rc != MPI_SUCCESS) {
            op->runs = i;
            if (i > 0) /* else nothing was begun */
                keep_stray(r, op);
            return poison(r, op->peer, leg->write ? "a put" : "a get", rc);
        }
    }
    op->runs = n;
    count_operations(r, r->peers[op->peer], n + 1);
    activate(r, op, request);
    return 0;
}

/* Each run by itself, to where it belongs. The bytes taken; *cursor moves behind them. */
static int64_t move_runs(struct rma *r, const struct port_leg *leg, struct plan_cursor *cursor, uint64_t budget)
{
    struct plan_run runs[QUIRKS_RUNS_MAX];
    struct rma_piece pieces[QUIRKS_RUNS_MAX];
    uint32_t together = leg->write ? r->quirks->puts_per_request : r->quirks->gets_per_request;
    uint32_t n = plan_next(leg->transfer, cursor, runs, together, budget);
    int error = check_runs(r, leg, runs, n);
    if (n == 0 || error)
        return error;
    struct rma_op *op = take_op(r, RMA_DATA, leg->peer, leg->tag);
    for (uint32_t i = 0; i < n; i++) {
        pieces[i] =
            (struct rma_piece){.mine = my_pool(r) + (leg->write ? runs[i].src : runs[i].dst),
                               .theirs = (MPI_Aint)(leg->pool_offset + (leg->write ? runs[i].dst : runs[i].src)),
                               .bytes = runs[i].bytes};
        op->bytes += runs[i].bytes;
    }
    error = issue_pieces(r, op, leg, pieces, n);
    if (error) {
        free_op(r, op);
        return error;
    }
    return (int64_t)op->bytes;
}

/* Takes the next runs as far as they fit. *cursor moves behind them. 0, or what is wrong with one. */
static int take_runs(const struct rma *r, const struct port_leg *leg, struct sieve *s, struct plan_cursor *cursor,
                     uint64_t budget)
{
    struct plan_run runs[QUIRKS_RUNS_MAX];
    uint32_t n, taken;
    do {
        struct plan_cursor before = *cursor;
        uint64_t left = budget - s->wanted;
        n = plan_next(leg->transfer, cursor, runs, QUIRKS_RUNS_MAX, left);
        int error = check_runs(r, leg, runs, n);
        if (error)
            return error;
        for (taken = 0; taken < n && sieve_put(s, &runs[taken]);)
            taken++;
        if (taken < n) { /* again, as far as they were taken */
            *cursor = before;
            plan_next(leg->transfer, cursor, runs, taken, left);
        }
    } while (taken == n && n > 0);
    return 0;
}

/* A sieve is used again once its request is complete, which must cover all that goes through it. */
static uint32_t spans_together(const struct rma *r, bool write)
{
    if (write)
        return r->quirks->put_is_remote ? r->quirks->puts_per_request : 1;
    return r->quirks->gets_per_request;
}

/*
 * The next runs by spans, where that is cheaper. The bytes taken; *cursor moves behind them. 0: no sieve, or not
 * cheaper, and nothing was done.
 */
static int64_t move_spans(struct rma *r, const struct port_leg *leg, struct plan_cursor *cursor, uint64_t budget)
{
    struct rma_piece pieces[QUIRKS_RUNS_MAX];
    struct sieve *s = take_sieve(r);
    if (!s)
        return 0;
    sieve_begin(s, leg->write, spans_together(r, leg->write), r->world->settings.rma_run_bytes);
    int error = take_runs(r, leg, s, cursor, budget);
    if (error || !sieve_is_cheaper(s)) {
        free_sieve(r, s);
        return error;
    }
    sieve_set(s);
    if (s->write)
        sieve_fill(s, my_pool(r));
    for (uint32_t i = 0; i < s->num_spans; i++)
        pieces[i] = (struct rma_piece){.mine = s->bytes + s->span[i].at,
                                       .theirs = (MPI_Aint)(leg->pool_offset + s->span[i].begin),
                                       .bytes = s->span[i].end - s->span[i].begin};
    struct rma_op *op = take_op(r, RMA_DATA, leg->peer, leg->tag);
    op->bytes = s->wanted;
    op->sieve = s;
    error = issue_pieces(r, op, leg, pieces, s->num_spans);
    if (error) { /* where something was begun, the sieve is never used again */
        if (op->runs == 0)
            free_sieve(r, s);
        free_op(r, op);
        return error;
    }
    return (int64_t)op->bytes;
}

/* ---- moving a leg ------------------------------------------------------------------------------------------------ */

/* One request's worth of a leg. The bytes taken; the cursor moves only where they were. */
static int64_t move_batch(struct rma *r, const struct port_leg *leg, uint64_t budget)
{
    struct plan_cursor cursor = *leg->cursor;
    uint64_t most = r->world->settings.rma_run_bytes;
    int64_t taken = admit(r, leg->peer, true);
    if (taken < 0)
        return taken;
    if (budget > most)
        budget = most;
    taken = move_spans(r, leg, &cursor, budget);
    if (taken == 0) {
        cursor = *leg->cursor;
        taken = move_runs(r, leg, &cursor, budget);
    }
    if (taken > 0)
        *leg->cursor = cursor;
    return taken;
}

int64_t rma_move(struct rma *r, const struct port_leg *leg, uint64_t budget)
{
    int64_t taken = 0;
    if (leg->peer >= (uint32_t)r->world->size || budget == 0)
        return error_set(BATON_EINVAL, "a move of %" PRIu64 " bytes with rank %" PRIu32, budget, leg->peer);
    if (r->windows->overlay == MPI_WIN_NULL)
        return error_set(BATON_EINVAL, "rank %" PRIu32 " is on this node: there is no window over nodes", leg->peer);
    while ((uint64_t)taken < budget) {
        int64_t got = move_batch(r, leg, budget - (uint64_t)taken);
        if (got <= 0)
            return taken > 0 ? taken : got; /* an error after something was taken comes back at the next call */
        taken += got;
    }
    return taken;
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

/* Operations of that tag that are still in MPI. */
static uint32_t count_open(const struct rma *r, uint32_t peer, uint64_t tag)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->num_active; i++)
        n += r->active_op[i]->tag == tag && r->active_op[i]->peer == peer;
    for (uint32_t i = 0; i < r->num_parked; i++)
        n += r->parked_op[i]->tag == tag && r->parked_op[i]->peer == peer;
    return n;
}

static void forget(struct rma_op *op, uint32_t peer, uint64_t tag)
{
    if (op->tag == tag && op->peer == peer)
        op->is_forgotten = true;
}

enum port_park rma_park(struct rma *r, uint32_t peer, uint64_t tag)
{
    if (peer >= (uint32_t)r->world->size || !r->peers[peer])
        return PORT_PARK_QUIET;
    for (uint32_t i = 0; i < r->num_active; i++)
        forget(r->active_op[i], peer, tag);
    for (uint32_t i = 0; i < r->num_parked; i++)
        forget(r->parked_op[i], peer, tag);
    for (struct rma_op *op = r->done_head; op; op = op->next)
        forget(op, peer, tag);
    if (is_stray(r->peers[peer], tag))
        return PORT_PARK_NEVER;
    return count_open(r, peer, tag) > 0 ? PORT_PARK_LATER : PORT_PARK_QUIET;
}

/* Whether this completed operation is the one after which its tag is quiet: that is said once. */
static bool is_last(const struct rma *r, const struct rma_op *op)
{
    if (count_open(r, op->peer, op->tag) > 0 || is_stray(r->peers[op->peer], op->tag))
        return false;
    for (const struct rma_op *done = r->done_head; done; done = done->next)
        if (done->ends_tag && done->tag == op->tag && done->peer == op->peer)
            return false; /* several completed together */
    return true;
}

/* ---- completion -------------------------------------------------------------------------------------------------- */

/*
 * The op's request is complete, and it is in neither set any more. Success proves nothing where the peer was poisoned:
 * the first request after a peer's death was seen to report it without a byte written.
 */
static void complete(struct rma *r, struct rma_op *op, int rc, uint64_t now)
{
    struct rma_peer *p = r->peers[op->peer];
    if (is_data(op))
        p->data--;
    else
        p->reads--;
    if (rc != MPI_SUCCESS) {
        poison(r, op->peer, "a request", rc);
        p->has_ended = true;
        if (is_data(op))
            keep_stray(r, op);
        op->landing = NULL; /* left to MPI */
    }
    op->error = p->is_poisoned ? BATON_EPEER : 0;
    if (!p->is_poisoned) {
        patience_learn(&p->patience, now - op->issued_ns);
        p->is_overdue = false;
        p->proof_ns = op->issued_ns > p->proof_ns ? op->issued_ns : p->proof_ns;
        p->proof_at_ns = now;
        if (p->data + p->reads == 0 && is_flush_due(r, p))
            flush(r, op->peer);
    }
    if (op->kind == RMA_PROBE) {
        p->is_probed = false;
        free_op(r, op);
        return;
    }
    if (op->sieve && !op->error) {
        if (!op->is_forgotten && !op->sieve->write) /* else nothing may come into its blocks any more */
            sieve_empty(op->sieve, my_pool(r));
        free_sieve(r, op->sieve);
    }
    op->ends_tag = op->is_forgotten && is_last(r, op);
    push_done(r, op);
}

static void compact_active(struct rma *r)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->num_active; i++) {
        if (!r->active_op[i])
            continue;
        r->active[kept] = r->active[i];
        r->active_op[kept++] = r->active_op[i];
    }
    r->num_active = kept;
}

static void test_active(struct rma *r, uint64_t now)
{
    int n = 0, index[RMA_ACTIVE_MAX];
    MPI_Status status[RMA_ACTIVE_MAX];
    struct rma_op *completed[RMA_ACTIVE_MAX];
    if (r->num_active == 0)
        return;
    int rc = MPI_Testsome((int)r->num_active, r->active, &n, index, status);
    if (rc != MPI_SUCCESS && world_error_class(rc) != MPI_ERR_IN_STATUS) {
        world_mpi_error(BATON_EMPI, "testing one-sided requests", rc);
        if (!r->failed)
            log_line(r->world->log, LOG_ERROR, "%s", baton_errmsg());
        r->failed = true;
        return;
    }
    if (n == MPI_UNDEFINED || n == 0)
        return;
    for (int i = 0; i < n; i++) {
        completed[i] = r->active_op[index[i]];
        r->active_op[index[i]] = NULL;
        deactivate(r, completed[i]);
    }
    compact_active(r); /* first, so that what is counted as open is */
    for (int i = 0; i < n; i++)
        complete(r, completed[i], rc == MPI_SUCCESS ? MPI_SUCCESS : status[i].MPI_ERROR, now);
}

/* ---- parking ----------------------------------------------------------------------------------------------------- */

static void park_overdue(struct rma *r, uint64_t now)
{
    const struct settings *s = &r->world->settings;
    if (r->num_active == 0 || now < r->next_look_ns)
        return;
    r->next_look_ns = now + s->park_ms * CLOCK_NS_PER_MS / 4;
    for (uint32_t i = 0; i < r->num_active; i++) {
        struct rma_op *op = r->active_op[i];
        if (now <= op->issued_ns || now - op->issued_ns <= patience_ns(&r->peers[op->peer]->patience, s))
            continue;
        r->peers[op->peer]->is_overdue = true;
        if (r->num_parked == r->max_parked)
            continue;
        r->parked[r->num_parked] = r->active[i];
        r->parked_op[r->num_parked++] = op;
        r->active_op[i] = NULL;
        deactivate(r, op);
    }
    compact_active(r);
}

static void unpark(struct rma *r, uint32_t i)
{
    r->num_parked--;
    r->parked[i] = r->parked[r->num_parked];
    r->parked_op[i] = r->parked_op[r->num_parked];
}

/* Later requests of the same peer completed, just now: it answers, so this one's completion was lost. */
static bool is_lost(const struct rma *r, const struct rma_op *op, uint64_t now)
{
    const struct rma_peer *p = r->peers[op->peer];
    return !p->is_poisoned && now - p->proof_at_ns < FRESH_NS &&
           p->proof_ns > op->issued_ns + patience_ns(&p->patience, &r->world->settings);
}

/* One probe at a time and one in park_ms, so a silent peer costs one more request and no more. */
static void probe(struct rma *r, uint32_t rank, uint64_t now)
{
    struct rma_peer *p = r->peers[rank];
    bool is_early = now < p->probed_ns + r->world->settings.park_ms * CLOCK_NS_PER_MS;
    if (p->is_probed || p->is_poisoned || is_early || is_full(r) || r->active_reads >= RMA_READS)
        return;
    if (read_piece(r, RMA_PROBE, rank, WINDOWS_PATTERN_OFFSET, sizeof(uint64_t), 0) != 0)
        return;
    p->is_probed = true;
    p->probed_ns = now;
}

/*
 * Whether the transport said by itself that the connection has ended: a request completed in error. A call that is
 * refused says less: what was begun before it may still be under way. The probe is for the next time that this is asked.
 */
bool rma_ended(struct rma *r, uint32_t rank)
{
    struct rma_peer *p =
        rank < (uint32_t)r->world->size && r->windows->overlay != MPI_WIN_NULL ? peer_of(r, rank) : NULL;
    if (p && !p->has_ended && !r->quirks->holds_on_dead)
        probe(r, rank, clock_now_ns());
    return p && p->has_ended;
}

/*
 * One parked request a turn. A lost completion is settled by a flush, after which the bytes are there; its request may
 * stay open, and since MPI does not let RMA requests be freed, it is left to MPI.
 */
static void test_parked(struct rma *r, uint64_t now)
{
    int done = 0;
    if (r->num_parked == 0)
        return;
    uint32_t i = r->next_parked++ % r->num_parked;
    struct rma_op *op = r->parked_op[i];
    int rc = MPI_Test(&r->parked[i], &done, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && !done)
        probe(r, op->peer, now);
    if (rc == MPI_SUCCESS && !done && is_lost(r, op, now)) {
        if (flush(r, op->peer) != 0)
            return;
        rc = MPI_Test(&r->parked[i], &done, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !done) {
            r->settled++;
            log_line(r->world->log, LOG_WARN,
                     "MPI lost the completion of a get from rank %" PRIu32 ": settled by a flush", op->peer);
            done = 1;
        }
    }
    if (rc == MPI_SUCCESS && !done)
        return;
    unpark(r, i);
    complete(r, op, rc, now);
}

/* ---- settling what was put ---------------------------------------------------------------------------------------- */

int rma_settle(struct rma *r, uint32_t peer, uint64_t tag)
{
    struct rma_peer *p = peer < (uint32_t)r->world->size ? peer_of(r, peer) : NULL;
    uint64_t now = clock_now_ns();
    if (!p)
        return BATON_EAGAIN;
    if (p->is_poisoned)
        return BATON_EPEER;
    if (!r->quirks->put_is_remote) {
        if (now - p->proof_at_ns >= FRESH_NS) { /* does it answer? Else a flush might never return */
            probe(r, peer, now);
            return BATON_EAGAIN;
        }
        int error = flush(r, peer);
        if (error)
            return error;
    }
    struct rma_op *op = take_op(r, RMA_SETTLE, peer, tag);
    if (!op)
        return BATON_EAGAIN;
    push_done(r, op);
    return 0;
}

/* ---- handing out ------------------------------------------------------------------------------------------------- */

static struct port_event event_of(const struct rma_op *op)
{
    struct port_event e = {.error = op->error, .peer = op->peer, .tag = op->tag};
    switch (op->kind) {
    case RMA_CARD:
        e.kind = PORT_READ;
        e.data = op->error ? NULL : op->landing;
        e.bytes = op->error ? 0 : (uint32_t)op->bytes;
        break;
    case RMA_WORD:
        e.kind = PORT_BOARD;
        if (!op->error)
            memcpy(&e.generation, op->landing, sizeof e.generation);
        break;
    case RMA_DATA:
        e.kind = PORT_MOVED;
        e.moved = op->bytes;
        e.runs = op->runs;
        break;
    case RMA_SETTLE:
        e.kind = PORT_SETTLED;
        break;
    case RMA_PROBE: /* never comes here: freed when complete */
        break;
    }
    return e;
}

static int hand_out(struct rma *r, struct port_event *events, int max)
{
    int n = 0;
    bool synced = false;
    while (n < max && r->done_head) {
        struct rma_op *op = r->done_head;
        r->done_head = op->next;
        if (!r->done_head)
            r->done_tail = &r->done_head;
        if (op->ends_tag) {
            events[n++] = (struct port_event){.kind = PORT_QUIET, .peer = op->peer, .tag = op->tag};
        } else if (!op->is_forgotten) {
            if (op->kind == RMA_WORD && !synced) {
                /* Whoever gets the word reports the bytes that came before it: they must be visible to loads. */
                windows_sync(r->windows);
                synced = true;
            }
            events[n++] = event_of(op);
        }
        op->next = r->handed;
        r->handed = op;
    }
    return n;
}

void rma_release(struct rma *r)
{
    while (r->handed) {
        struct rma_op *op = r->handed;
        r->handed = op->next;
        free_op(r, op);
    }
}

int rma_progress(struct rma *r, struct port_event *events, int max)
{
    if (rma_open_ops(r) > 0) {
        uint64_t now = clock_now_ns();
        test_active(r, now);
        test_parked(r, now);
        park_overdue(r, now);
    }
    return hand_out(r, events, max);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* settings.parked, or what a limit of MPI's on open requests leaves beside all the active ones. */
static uint32_t most_parked(const struct settings *s, const struct quirks *q)
{
    uint64_t most = s->parked, active = s->rma_requests + RMA_READS;
    if (q->requests_within && most > q->requests_within - active)
        most = q->requests_within - active;
    return (uint32_t)most;
}

int rma_init(struct rma *r, struct world *w, const struct windows *v, const struct quirks *q)
{
    size_t parked = (size_t)w->settings.parked + RMA_ACTIVE_MAX + RMA_LEAST * (size_t)w->size;
    size_t pool = RMA_ACTIVE_MAX + parked;
    r->world = w;
    r->windows = v;
    r->quirks = q;
    r->done_tail = &r->done_head;
    r->max_parked = (uint32_t)parked;
    r->many_parked = most_parked(&w->settings, q);
    r->peers = calloc((size_t)w->size, sizeof(struct rma_peer *));
    r->ops = calloc(pool, sizeof *r->ops);
    r->parked = calloc(r->max_parked, sizeof(MPI_Request));
    r->parked_op = calloc(r->max_parked, sizeof(struct rma_op *));
    r->max_sieves = (uint32_t)(w->settings.rma_sieve_bytes / sizeof(struct sieve));
    r->sieves = calloc(r->max_sieves + 1, sizeof *r->sieves);
    if (!r->peers || !r->ops || !r->parked || !r->parked_op || !r->sieves)
        return error_set(BATON_ENOMEM, "no memory for %zu one-sided operations", pool);
    for (size_t i = 0; i < pool; i++)
        free_op(r, &r->ops[i]);
    return 0;
}

void rma_fini(struct rma *r)
{
    rma_release(r);
    while (r->done_head) {
        struct rma_op *op = r->done_head;
        r->done_head = op->next;
        free_op(r, op);
    }
    for (int i = 0; r->peers && i < r->world->size; i++)
        free(r->peers[i]);
    for (uint32_t i = 0; i < r->num_sieves; i++)
        free(r->sieves[i]);
    free(r->sieves);
    free(r->peers);
    free(r->ops);
    free(r->parked);
    free(r->parked_op);
    memset(r, 0, sizeof *r);
}
