/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_requests: see the header. Two arrays of requests, each beside an array of their operations. */
#include "mpi/rma_requests.h"

#include <stdlib.h>

#include "base/error.h"
#include "mpi/mpi_error.h"

enum { LEAST_OPEN = 3 }; /* operations that any peer may have open: of data, a read, a probe */

static size_t room_to_park(const struct world *w)
{
    return (size_t)RMA_PARKED + RMA_ACTIVE_MAX + LEAST_OPEN * (size_t)w->size;
}

/* RMA_PARKED, or what MPI's limit on open requests leaves beside all the active ones. */
static uint32_t limit_parked(const struct settings *s, const struct quirks *quirks)
{
    uint64_t limit = RMA_PARKED, active = s->rma_requests + RMA_READS;
    if (quirks->requests_within != 0 && limit > quirks->requests_within - active)
        limit = quirks->requests_within - active;
    return (uint32_t)limit;
}

size_t rma_requests_most(const struct world *w)
{
    return RMA_ACTIVE_MAX + room_to_park(w);
}

bool rma_requests_init(struct rma_requests *q, const struct world *w, const struct quirks *quirks,
                       struct rma_peers *peers)
{
    q->world = w;
    q->quirks = quirks;
    q->peers = peers;
    q->parked_room = (uint32_t)room_to_park(w);
    q->parked_limit = limit_parked(&w->settings, quirks);
    q->parked = calloc(q->parked_room, sizeof(MPI_Request));
    q->parked_op = calloc(q->parked_room, sizeof(struct rma_op *));
    return q->parked != NULL && q->parked_op != NULL;
}

void rma_requests_fini(struct rma_requests *q)
{
    free(q->parked);
    free(q->parked_op);
    *q = (struct rma_requests){0};
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

bool rma_requests_are_full(const struct rma_requests *q)
{
    return q->quirks->requests_within != 0 && rma_requests_open(q) >= q->quirks->requests_within;
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* How many places one peer may have: see LIMITS. One at least. */
static uint32_t share_of_one(const struct rma_requests *q, bool data)
{
    const struct settings *s = &q->world->settings;
    uint32_t most = (uint32_t)s->rma_peer_requests, limit = q->parked_limit;
    uint32_t left = data ? less((uint32_t)s->rma_requests, q->active_data) : RMA_READS - q->active_reads;
    uint32_t share = (most * less(limit, q->num_parked) + limit - 1) / limit;
    most = share < left ? share : left;
    return most > 0 ? most : 1;
}

bool rma_requests_have_room(const struct rma_requests *q, const struct rma_peer *p, bool data)
{
    uint64_t active = data ? q->active_data : q->active_reads;
    uint64_t most = data ? q->world->settings.rma_requests : RMA_READS;
    if (active >= most || q->num_active >= RMA_ACTIVE_MAX || rma_requests_are_full(q))
        return false;
    return (data ? p->data : p->reads) < share_of_one(q, data);
}

/* ---- the active ones --------------------------------------------------------------------------------------------- */

void rma_requests_add(struct rma_requests *q, struct rma_op *op, MPI_Request request)
{
    rma_peer_begin(q->peers->by_rank[op->peer], rma_op_is_data(op));
    op->issued_ns = clock_now_ns();
    q->active[q->num_active] = request;
    q->active_op[q->num_active++] = op;
    if (rma_op_is_data(op)) {
        q->active_data++;
        q->bytes_open += op->bytes;
    } else {
        q->active_reads++;
    }
}

/* Leaves a gap: compact closes it. */
static void take_out(struct rma_requests *q, uint32_t at)
{
    const struct rma_op *op = q->active_op[at];
    q->active_op[at] = NULL;
    if (rma_op_is_data(op)) {
        q->active_data--;
        q->bytes_open -= op->bytes;
    } else {
        q->active_reads--;
    }
}

static void compact(struct rma_requests *q)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->num_active; i++) {
        if (q->active_op[i] == NULL)
            continue;
        q->active[kept] = q->active[i];
        q->active_op[kept++] = q->active_op[i];
    }
    q->num_active = kept;
}

int rma_requests_test(struct rma_requests *q, struct rma_completion completed[RMA_ACTIVE_MAX])
{
    int n = 0, index[RMA_ACTIVE_MAX];
    MPI_Status status[RMA_ACTIVE_MAX];
    if (q->num_active == 0)
        return 0;
    int rc = MPI_Testsome((int)q->num_active, q->active, &n, index, status);
    if (rc != MPI_SUCCESS && mpi_error_class(rc) != MPI_ERR_IN_STATUS) {
        mpi_error_set(BATON_EMPI, "testing one-sided requests", rc);
        if (!q->has_failed)
            log_line(q->world->log, LOG_ERROR, "%s", baton_errmsg());
        q->has_failed = true;
        return 0;
    }
    if (n == MPI_UNDEFINED || n == 0)
        return 0;
    for (int i = 0; i < n; i++) {
        completed[i].op = q->active_op[index[i]];
        completed[i].rc = rc == MPI_SUCCESS ? MPI_SUCCESS : status[i].MPI_ERROR;
        take_out(q, (uint32_t)index[i]);
    }
    compact(q);
    return n;
}

/* ---- the parked ones --------------------------------------------------------------------------------------------- */

void rma_requests_park(struct rma_requests *q, uint64_t now)
{
    const struct settings *s = &q->world->settings;
    if (q->num_active == 0 || now < q->next_look_ns)
        return;
    q->next_look_ns = now + s->park_ms * CLOCK_NS_PER_MS / 4;
    for (uint32_t i = 0; i < q->num_active; i++) {
        struct rma_op *op = q->active_op[i];
        struct rma_peer *p = q->peers->by_rank[op->peer];
        if (now <= op->issued_ns || now - op->issued_ns <= patience_ns(&p->patience, s))
            continue;
        p->is_overdue = true;
        if (q->num_parked == q->parked_room)
            continue;
        q->parked[q->num_parked] = q->active[i];
        q->parked_op[q->num_parked++] = op;
        take_out(q, i);
    }
    compact(q);
}

struct rma_op *rma_requests_next_parked(struct rma_requests *q, uint32_t *at)
{
    if (q->num_parked == 0)
        return NULL;
    *at = q->next_parked++ % q->num_parked;
    return q->parked_op[*at];
}

int rma_requests_test_parked(struct rma_requests *q, uint32_t at, bool *done)
{
    int is_complete = 0;
    int rc = MPI_Test(&q->parked[at], &is_complete, MPI_STATUS_IGNORE);
    *done = is_complete != 0;
    return rc;
}

void rma_requests_unpark(struct rma_requests *q, uint32_t at)
{
    q->num_parked--;
    q->parked[at] = q->parked[q->num_parked];
    q->parked_op[at] = q->parked_op[q->num_parked];
}

/* ---- operations of one tag --------------------------------------------------------------------------------------- */

/* The i-th of all that are open. */
static struct rma_op *op_at(const struct rma_requests *q, uint32_t i)
{
    return i < q->num_active ? q->active_op[i] : q->parked_op[i - q->num_active];
}

uint32_t rma_requests_count(const struct rma_requests *q, uint32_t peer, uint64_t tag)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rma_requests_open(q); i++)
        n += rma_op_is_of(op_at(q, i), peer, tag);
    return n;
}

struct rma_op *rma_requests_data(const struct rma_requests *q, uint32_t peer, uint64_t tag)
{
    for (uint32_t i = 0; i < rma_requests_open(q); i++)
        if (rma_op_is_data(op_at(q, i)) && rma_op_is_of(op_at(q, i), peer, tag))
            return op_at(q, i);
    return NULL;
}

void rma_requests_forget(struct rma_requests *q, uint32_t peer, uint64_t tag)
{
    for (uint32_t i = 0; i < rma_requests_open(q); i++)
        op_at(q, i)->is_forgotten |= rma_op_is_of(op_at(q, i), peer, tag);
}
