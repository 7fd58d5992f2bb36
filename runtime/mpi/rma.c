/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: admits operations, takes in their completions, and tells what became of them. Never waits for a request; never
 * takes a completion for a proof after its peer was poisoned.
 */
#include "mpi/rma.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "mpi/rma_batch.h"
#include "mpi/rma_read.h"
#include "observe/timeline.h"

/* ---- issuing ----------------------------------------------------------------------------------------------------- */

/* 0, or why no operation may go to this peer now. */
static int admit(struct rma *r, uint32_t rank, bool data)
{
    struct rma_peer *p = rma_peer_of(&r->peers, rank);
    if (p == NULL)
        return BATON_ENOMEM;
    if (p->is_poisoned)
        return BATON_EPEER;
    if (!rma_requests_have_room(&r->requests, p, data))
        return BATON_EAGAIN;
    if (p->is_overdue) /* the end of what is open shows that it is back, or a probe does */
        return BATON_EAGAIN;
    if (p->data + p->reads > 0 &&
        rma_peer_is_flush_due(&r->peers, p)) /* what is open ends; the last one's end flushes */
        return BATON_EAGAIN;
    return r->ops.free != NULL ? 0 : BATON_EAGAIN;
}

int rma_read(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    int error = rma_read_check(r, peer, offset, bytes);
    if (error == 0)
        error = admit(r, peer, false);
    return error ? error : rma_read_issue(r, kind, peer, offset, bytes, tag);
}

int rma_room(struct rma *r, uint32_t peer)
{
    if (peer >= (uint32_t)r->world->size)
        return error_set(BATON_EINVAL, "a move with rank %" PRIu32 " is not possible", peer);
    if (r->windows->overlay == MPI_WIN_NULL)
        return error_set(BATON_EINVAL, "rank %" PRIu32 " is on this node: there is no window over nodes", peer);
    int error = admit(r, peer, true);
    return error ? error : (int)NET_RUNS;
}

int64_t rma_move(struct rma *r, const struct net_move *move)
{
    int room = rma_room(r, move->peer);
    return room > 0 ? rma_batch_issue(r, move) : room;
}

int rma_settle(struct rma *r, uint32_t peer, uint64_t tag)
{
    struct rma_peer *p = rma_peer_of(&r->peers, peer);
    uint64_t now = clock_now_ns();
    if (p == NULL)
        return BATON_EAGAIN;
    if (p->is_poisoned)
        return BATON_EPEER;
    if (!r->quirks->put_is_remote) {
        if (!rma_peer_is_fresh(p, now)) { /* a flush of a silent peer might never return */
            rma_read_probe(r, p, now);
            return BATON_EAGAIN;
        }
        int error = rma_peer_flush(&r->peers, p);
        if (error)
            return error;
    }
    struct rma_op *op = rma_op_take(&r->ops, RMA_SETTLE, peer, tag);
    if (op == NULL)
        return BATON_EAGAIN;
    rma_op_finish(&r->ops, op);
    return 0;
}

/*
 * Whether the transport said by itself that the connection has ended: a request completed in error. A call that is
 * refused says less, since what was begun before may still be under way. The probe is for the next time that this is
 * asked.
 */
bool rma_ended(struct rma *r, uint32_t peer)
{
    struct rma_peer *p = r->windows->overlay != MPI_WIN_NULL ? rma_peer_of(&r->peers, peer) : NULL;
    if (p == NULL)
        return false;
    if (!p->has_ended && !r->quirks->holds_on_dead)
        rma_read_probe(r, p, clock_now_ns());
    return p->has_ended;
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

enum path_park rma_park(struct rma *r, uint32_t peer, uint64_t tag)
{
    if (peer >= (uint32_t)r->world->size || r->peers.by_rank[peer] == NULL)
        return PATH_PARK_QUIET;
    rma_requests_forget(&r->requests, peer, tag);
    for (struct rma_op *op = r->ops.done_head; op != NULL; op = op->next)
        op->is_forgotten |= rma_op_is_of(op, peer, tag);
    if (rma_peer_has_stray(r->peers.by_rank[peer], tag))
        return PATH_PARK_NEVER;
    return rma_requests_count(&r->requests, peer, tag) > 0 ? PATH_PARK_LATER : PATH_PARK_QUIET;
}

/* Whether this forgotten operation is the one whose end makes its tag quiet, which is told once. */
static bool is_last(const struct rma *r, const struct rma_op *op)
{
    if (rma_requests_count(&r->requests, op->peer, op->tag) > 0 ||
        rma_peer_has_stray(r->peers.by_rank[op->peer], op->tag))
        return false;
    for (const struct rma_op *done = r->ops.done_head; done != NULL; done = done->next)
        if (done->ends_tag && rma_op_is_of(done, op->peer, op->tag))
            return false; /* several completed together */
    return true;
}

/* ---- completion -------------------------------------------------------------------------------------------------- */

/* Success proves nothing where the peer was poisoned: see rma_peer.h. */
static void learn(struct rma *r, struct rma_op *op, int rc, uint64_t now)
{
    struct rma_peer *p = r->peers.by_rank[op->peer];
    if (rc != MPI_SUCCESS) {
        rma_peer_poison(&r->peers, p, "a request", rc);
        p->has_ended = true;
        if (rma_op_is_data(op))
            rma_peer_keep_stray(p, op);
        op->landing = NULL; /* left to MPI */
    }
    op->error = p->is_poisoned ? BATON_EPEER : 0;
    if (p->is_poisoned)
        return;
    rma_peer_note_answer(p, op->issued_ns, now);
    if (p->data + p->reads == 0 && rma_peer_is_flush_due(&r->peers, p))
        rma_peer_flush(&r->peers, p);
}

/*
 * Data are complete behind which the leg's generation is to be read: that is left to what of the leg is still under
 * way, or begun. True: begun, and the operation goes on as that.
 */
static bool goes_on(struct rma *r, struct rma_op *op)
{
    const uint64_t board = op->board;
    struct rma_op *other = rma_requests_data(&r->requests, op->peer, op->tag);
    op->board = 0;
    if (board == 0 || op->error || op->is_forgotten)
        return false;
    if (other != NULL) {
        other->board = board;
        return false;
    }
    return rma_read_check(r, op->peer, board, sizeof(uint64_t)) == 0 && admit(r, op->peer, false) == 0 &&
           rma_read_behind(r, op, board) == 0;
}

static void trace(const struct rma *r, const struct rma_op *op, uint64_t now)
{
    if (r->world->log->timeline != NULL && rma_op_is_data(op))
        timeline_add(r->world->log->timeline, &(struct timeline_record){.kind = TIMELINE_BATCH,
                                                                        .ns = op->issued_ns,
                                                                        .until_ns = now,
                                                                        .id = op->tag,
                                                                        .peer = op->peer,
                                                                        .bytes = op->bytes,
                                                                        .runs = op->runs});
}

/* The operation's request is complete, and in no set any more. */
static void complete(struct rma *r, struct rma_op *op, int rc, uint64_t now)
{
    struct rma_peer *p = r->peers.by_rank[op->peer];
    rma_peer_end(p, rma_op_is_data(op));
    learn(r, op, rc, now);
    if (op->kind == RMA_PROBE) {
        p->is_probed = false;
        rma_op_free(&r->ops, op);
        return;
    }
    if (op->sieve != NULL && !op->error) {
        if (!op->is_forgotten && !op->sieve->write) /* what is given up must not come into its blocks any more */
            sieve_empty(op->sieve);
        sieve_give_back(&r->sieves, op->sieve);
        op->sieve = NULL;
    }
    trace(r, op, now);
    if (goes_on(r, op))
        return;
    op->ends_tag = op->is_forgotten && is_last(r, op);
    rma_op_finish(&r->ops, op);
}

static void test_active(struct rma *r, uint64_t now)
{
    struct rma_completion completed[RMA_ACTIVE_MAX];
    int n = rma_requests_test(&r->requests, completed);
    for (int i = 0; i < n; i++)
        complete(r, completed[i].op, completed[i].rc, now);
}

/* Later requests of the same peer completed, just now: it answers, so MPI lost this one's completion. */
static bool is_lost(const struct rma *r, const struct rma_op *op, uint64_t now)
{
    const struct rma_peer *p = r->peers.by_rank[op->peer];
    return !p->is_poisoned && rma_peer_is_fresh(p, now) &&
           p->answered_issue_ns > op->issued_ns + patience_ns(&p->patience, &r->world->settings);
}

/*
 * A lost completion is settled by a flush, after which the bytes are there. Its request may stay open: MPI does not let
 * requests of RMA be freed, so it is left to MPI.
 */
static void test_parked(struct rma *r, uint64_t now)
{
    uint32_t at;
    bool is_done;
    struct rma_op *op = rma_requests_next_parked(&r->requests, &at);
    if (op == NULL)
        return;
    struct rma_peer *p = r->peers.by_rank[op->peer];
    int rc = rma_requests_test_parked(&r->requests, at, &is_done);
    if (rc == MPI_SUCCESS && !is_done)
        rma_read_probe(r, p, now);
    if (rc == MPI_SUCCESS && !is_done && is_lost(r, op, now)) {
        if (rma_peer_flush(&r->peers, p) != 0)
            return;
        rc = rma_requests_test_parked(&r->requests, at, &is_done);
        if (rc == MPI_SUCCESS && !is_done) {
            count_add(&r->settled, 1);
            log_line(r->world->log, LOG_WARN,
                     "MPI lost the completion of an operation with rank %" PRIu32 ": settled by a flush", op->peer);
            is_done = true;
        }
    }
    if (rc == MPI_SUCCESS && !is_done)
        return;
    rma_requests_unpark(&r->requests, at);
    complete(r, op, rc, now);
}

/* ---- handing out ------------------------------------------------------------------------------------------------- */

static struct port_event event_of(const struct rma_op *op)
{
    struct port_event e = {.error = op->error, .peer = op->peer, .tag = op->tag};
    switch (op->kind) {
    case RMA_READ:
        e.kind = PORT_READ;
        e.data = op->error ? NULL : op->landing;
        e.bytes = op->error ? 0 : (uint32_t)op->bytes;
        break;
    case RMA_WORD:
        e.kind = PORT_BOARD;
        if (!op->error)
            memcpy(&e.generation, op->landing, sizeof e.generation);
        break;
    case RMA_PROOF:
        if (!op->error)
            memcpy(&e.generation, op->landing, sizeof e.generation);
        /* fallthrough */
    case RMA_DATA:
        e.kind = PORT_MOVED;
        e.path = BATON_PATH_RMA;
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
    uint64_t taken = 0;
    bool is_synced = false;
    for (; n < max && r->ops.done_head != NULL; taken++) {
        struct rma_op *op = rma_op_hand_out(&r->ops);
        if (op->ends_tag) {
            events[n++] = (struct port_event){.kind = PORT_QUIET, .peer = op->peer, .tag = op->tag};
            continue;
        }
        if (op->is_forgotten)
            continue;
        if ((op->kind == RMA_WORD || op->kind == RMA_PROOF) && !is_synced) {
            /* Whoever gets the word reports the bytes that came before it: they must be visible to loads. */
            windows_sync(r->windows);
            is_synced = true;
        }
        events[n++] = event_of(op);
    }
    look_take(&r->look, taken, r->ops.done_head == NULL);
    return n;
}

/* Those that are done, and those of which MPI may know it. */
void rma_look(struct rma *r)
{
    uint64_t done = 0;
    for (const struct rma_op *op = r->ops.done_head; op != NULL; op = op->next)
        done++;
    look_begin(&r->look, done + RMA_ACTIVE_MAX);
}

int rma_progress(struct rma *r, struct port_event *events, int max)
{
    rma_ops_release(&r->ops);
    if (rma_open_ops(r) > 0) {
        uint64_t now = clock_now_ns();
        test_active(r, now);
        test_parked(r, now);
        rma_requests_park(&r->requests, now);
        count_set(&r->parked, r->requests.num_parked);
    }
    return hand_out(r, events, max);
}

struct rma_counts rma_counts(const struct rma *r)
{
    return (struct rma_counts){.flushes = count_of(&r->peers.flushes),
                               .settled = count_of(&r->settled),
                               .poisonings = count_of(&r->peers.poisonings),
                               .parked = (uint32_t)count_of(&r->parked)};
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int rma_init(struct rma *r, const struct world *w, const struct windows *v, const struct quirks *q)
{
    size_t most = rma_requests_most(w);
    r->world = w;
    r->windows = v;
    r->quirks = q;
    bool is_made = rma_ops_init(&r->ops, most);
    is_made &= rma_peers_init(&r->peers, w, v, q);
    is_made &= rma_requests_init(&r->requests, w, q, &r->peers);
    is_made &= sieve_pool_init(&r->sieves, w->settings.rma_sieve_bytes);
    return is_made ? 0 : error_set(BATON_ENOMEM, "no memory for %zu one-sided operations", most);
}

void rma_fini(struct rma *r)
{
    rma_ops_fini(&r->ops);
    sieve_pool_fini(&r->sieves);
    rma_requests_fini(&r->requests);
    rma_peers_fini(&r->peers);
    memset(r, 0, sizeof *r);
}
