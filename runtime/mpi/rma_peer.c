/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_peer: see the header. A peer's state is made when something is first asked of it, and stays until the end. */
#include "mpi/rma_peer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "baton.h"

#include "mpi/address.h"

#define FRESH_NS (10 * CLOCK_NS_PER_MS)

bool rma_peers_init(struct rma_peers *s, const struct world *w, const struct windows *v, const struct quirks *q)
{
    s->world = w;
    s->windows = v;
    s->quirks = q;
    s->by_rank = calloc((size_t)w->size, sizeof(struct rma_peer *));
    return s->by_rank != NULL;
}

void rma_peers_fini(struct rma_peers *s)
{
    for (int i = 0; s->by_rank != NULL && i < s->world->size; i++)
        free(s->by_rank[i]);
    free(s->by_rank);
    *s = (struct rma_peers){0};
}

struct rma_peer *rma_peer_of(struct rma_peers *s, uint32_t rank)
{
    if (rank >= (uint32_t)s->world->size)
        return NULL;
    if (s->by_rank[rank] != NULL)
        return s->by_rank[rank];
    struct rma_peer *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->rank = rank;
    s->by_rank[rank] = p;
    return p;
}

void rma_peer_begin(struct rma_peer *p, bool data)
{
    p->data += data;
    p->reads += !data;
}

void rma_peer_end(struct rma_peer *p, bool data)
{
    p->data -= data;
    p->reads -= !data;
}

int rma_peer_poison(struct rma_peers *s, struct rma_peer *p, const char *call, int rc)
{
    if (!p->is_poisoned) {
        count_add(&s->poisonings, 1);
        log_each(s->world->log, LOG_WARN,
                 "%s to rank %" PRIu32 " failed (MPI error %d): nothing more is read from it or written to it", call,
                 p->rank, rc);
    }
    p->is_poisoned = true;
    return BATON_EPEER;
}

/* ---- strays ------------------------------------------------------------------------------------------------------ */

bool rma_peer_has_stray(const struct rma_peer *p, uint64_t tag)
{
    if (p->num_strays > RMA_STRAYS)
        return true;
    for (uint32_t i = 0; i < p->num_strays; i++)
        if (p->strays[i] == tag)
            return true;
    return false;
}

void rma_peer_keep_stray(struct rma_peer *p, const struct rma_op *op)
{
    bool stays_in_sieve = op->sieve != NULL && !op->sieve->write;
    if (stays_in_sieve || rma_peer_has_stray(p, op->tag))
        return;
    if (p->num_strays < RMA_STRAYS)
        p->strays[p->num_strays] = op->tag;
    p->num_strays++;
}

/* ---- flushes ----------------------------------------------------------------------------------------------------- */

void rma_peer_count(struct rma_peers *s, struct rma_peer *p, uint32_t n)
{
    s->num_unflushed += p->unflushed == 0;
    p->unflushed += n;
    s->unflushed += n;
}

bool rma_peer_is_flush_due(const struct rma_peers *s, const struct rma_peer *p)
{
    return quirks_flush_due(s->quirks, p->unflushed, s->unflushed, s->num_unflushed);
}

int rma_peer_flush(struct rma_peers *s, struct rma_peer *p)
{
    const struct address at = address_of(s->windows, p->rank);
    int rc = MPI_Win_flush(at.rank, at.window);
    for (int i = 0; i < s->windows->exposure.num && rc == MPI_SUCCESS; i++)
        rc = MPI_Win_flush(at.rank, s->windows->exposure.windows[i]);
    if (rc != MPI_SUCCESS)
        return rma_peer_poison(s, p, "MPI_Win_flush", rc);
    count_add(&s->flushes, 1);
    s->unflushed -= p->unflushed;
    s->num_unflushed -= p->unflushed > 0;
    p->unflushed = 0;
    return 0;
}

/* ---- whether it answers ------------------------------------------------------------------------------------------ */

void rma_peer_note_answer(struct rma_peer *p, uint64_t issued_ns, uint64_t now)
{
    patience_learn(&p->patience, now - issued_ns);
    p->is_overdue = false;
    p->answered_issue_ns = issued_ns > p->answered_issue_ns ? issued_ns : p->answered_issue_ns;
    p->answered_ns = now;
}

bool rma_peer_is_fresh(const struct rma_peer *p, uint64_t now)
{
    return now - p->answered_ns < FRESH_NS;
}
