/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fair: no transfer and no peer is passed more often than its turn allows, no peer takes more than its share, silent
 * peers take nothing from others, and nobody waits for what is free. This is checked by what the port sees and by what
 * the movers still have to move, not by how the core orders them. Peers are named as the core names them: by their
 * ranks in its directory.
 */
#include "storm.h"

static struct storm_pair *pair_of(const struct storm_rank *r, uint32_t peer)
{
    return &r->storm->pairs[r->rank * r->storm->num_ranks + r->member_at[peer]];
}

/* Whether the mover has bytes that could move now. */
static bool could_move(const struct mover *m)
{
    if (m->state != MOVER_MOVING || plan_at_end(&m->chunk.transfer, &m->chunk.cursor))
        return false;
    uint32_t layers = m->reach.done >= m->chunk.end ? UINT32_MAX : m->reach.layer_end;
    return layers == UINT32_MAX || plan_ahead(&m->chunk.transfer, &m->chunk.cursor, layers) > 0;
}

/* Calls `visit` for each mover that could move. */
static void each_waiting(struct storm_rank *r, void (*visit)(struct storm_rank *r, const struct mover *m, void *arg),
                         void *arg)
{
    for (struct op *op = r->core->ops.by_tag; op != NULL; op = op->hh.next)
        if ((op->kind == OP_LEG || op->kind == OP_PUSH) && could_move((const struct mover *)op))
            visit(r, (const struct mover *)op, arg);
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* Bytes under way with each peer, without those of transfers that were given up. */
struct shares {
    uint64_t held[STORM_RANKS_MAX];
    bool silent[STORM_RANKS_MAX];
    /* By peer: of its path's limit what talking peers do not hold, nor silent peers beyond a quarter of the limit. */
    uint64_t free[STORM_RANKS_MAX];
};

static baton_path_t path_of(const struct storm_rank *r, uint32_t peer)
{
    return r->path[peer];
}

static const struct mover *mover_of(const struct op *op)
{
    bool moves = op != NULL && (op->kind == OP_LEG || op->kind == OP_PUSH);
    return moves && ((const struct mover *)op)->state == MOVER_MOVING ? (const struct mover *)op : NULL;
}

/* Whether no bytes came of that peer for longer than the core's patience with it, as far as it has heard. */
static bool is_silent(const struct storm_rank *r, uint32_t peer)
{
    const struct storm *s = r->storm;
    return r->heard_ns >=
           pair_of(r, peer)->sign_ns + patience_ns(&r->core->movers->flows[peer]->share.patience, &s->settings);
}

static uint64_t free_of(const struct storm_rank *r, const struct shares *shares, baton_path_t path)
{
    const struct storm *s = r->storm;
    uint64_t talking = 0, silent = 0, limit = storm_limit(s, path);
    for (uint32_t i = 0; i < r->directory->num_ranks; i++)
        if (path_of(r, i) == path)
            *(shares->silent[i] ? &silent : &talking) += shares->held[i];
    talking += silent > limit / 4 ? silent - limit / 4 : 0;
    return limit > talking ? limit - talking : 0;
}

static void shares_of(const struct storm_rank *r, struct shares *out)
{
    const uint32_t num = r->directory->num_ranks;
    *out = (struct shares){.free = {0}};
    for (const struct op *op = r->core->ops.by_tag; op != NULL; op = op->hh.next)
        if (mover_of(op) != NULL)
            out->held[mover_of(op)->peer] += mover_of(op)->taken - mover_of(op)->tally.bytes;
    for (uint32_t i = 0; i < num; i++)
        out->silent[i] = out->held[i] > 0 && is_silent(r, i);
    uint64_t copies = free_of(r, out, BATON_PATH_SHM), rma = free_of(r, out, BATON_PATH_RMA);
    for (uint32_t i = 0; i < num; i++)
        out->free[i] = path_of(r, i) == BATON_PATH_SHM ? copies : rma;
}

void storm_note_begin(struct storm_rank *r, uint32_t peer)
{
    struct shares shares;
    shares_of(r, &shares);
    if (shares.held[peer] == 0)
        pair_of(r, peer)->sign_ns = r->storm->now;
}

void storm_note_come(struct storm_rank *r, uint32_t peer, uint64_t tag)
{
    struct op *op;
    op = op_find(&r->core->ops, tag);
    if (mover_of(op) != NULL)
        pair_of(r, peer)->sign_ns = r->storm->now;
}

static void check_share(struct storm_rank *r, const struct shares *shares, uint32_t peer, uint64_t budget)
{
    struct storm *s = r->storm;
    uint64_t held = shares->held[peer];
    if (shares->silent[peer])
        storm_fail(s, "rank %u moves more bytes with rank %u, which is silent", r->rank, r->member_at[peer]);
    if (held + 2 * budget > shares->free[peer] + 1)
        storm_fail(s, "rank %u: rank %u holds %llu bytes and may take %llu of %llu: more than half", r->rank,
                   r->member_at[peer], (unsigned long long)held, (unsigned long long)budget,
                   (unsigned long long)shares->free[peer]);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static struct storm_wait *wait_of(struct storm_rank *r, uint64_t tag)
{
    for (uint32_t i = 0; i < r->num_waits; i++)
        if (r->waits[i].tag == tag)
            return &r->waits[i];
    if (r->num_waits == STORM_WAITS_MAX)
        return NULL;
    r->waits[r->num_waits] = (struct storm_wait){.tag = tag};
    return &r->waits[r->num_waits++];
}

static bool still_waits(const struct storm_rank *r, uint64_t tag)
{
    struct op *op;
    op = op_find(&r->core->ops, tag);
    return op != NULL && (op->kind == OP_LEG || op->kind == OP_PUSH) && could_move((const struct mover *)op);
}

/* Forgets movers that no longer wait. */
static void forget(struct storm_rank *r)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->num_waits; i++)
        if (still_waits(r, r->waits[i].tag))
            r->waits[kept++] = r->waits[i];
    r->num_waits = kept;
}

struct count {
    const struct path_leg *leg;
    struct shares shares;
    uint32_t of_peer[STORM_RANKS_MAX]; /* movers that could move */
    uint64_t oldest[STORM_RANKS_MAX];  /* tag of the first of these that began */
    uint32_t peers;
};

static void count(struct storm_rank *r, const struct mover *m, void *arg)
{
    struct count *c = arg;
    (void)r;
    uint32_t peer = m->peer;
    if (c->of_peer[peer]++ > 0)
        return;
    c->oldest[peer] = m->op.tag;
    c->peers++;
}

static void pass_mover(struct storm_rank *r, const struct mover *m, void *arg)
{
    const struct count *c = arg;
    uint32_t peer = m->peer;
    struct storm_wait *w = peer == c->leg->peer ? wait_of(r, m->op.tag) : NULL;
    if (w == NULL)
        return;
    w->most = c->of_peer[peer] > w->most ? c->of_peer[peer] : w->most;
    w->passed = m->op.tag == c->leg->tag ? 0 : w->passed + 1;
    if (w->passed >= w->most)
        storm_fail(r->storm, "rank %u: one of %u transfers with rank %u waits while others had %u turns", r->rank,
                   w->most, r->member_at[peer], w->passed);
}

/*
 * Counts a turn of another peer, if this one holds nothing though there was room: else nobody passed it. A peer whose
 * transfers all ended begins to wait anew with its next one.
 */
static void pass_peer(struct storm_rank *r, uint32_t peer, const struct count *c)
{
    struct storm *s = r->storm;
    struct storm_pair *p = pair_of(r, peer);
    bool none = c->of_peer[peer] == 0 || peer == c->leg->peer;
    if (none || !still_waits(r, p->waiting)) {
        p->passed = p->most = 0;
        p->waiting = c->oldest[peer];
    }
    if (none)
        return;
    p->most = c->peers > p->most ? c->peers : p->most;
    bool full = c->shares.held[peer] > 0 || c->shares.free[peer] == 0;
    bool is_left = r->is_lent && path_of(r, peer) == BATON_PATH_RMA;
    if (full || is_left || p->refused_step == r->steps || !storm_has_room(s, r->rank, r->member_at[peer]))
        return;
    if (++p->passed >= p->most)
        storm_fail(s, "rank %u: of %u peers, rank %u waits while others had %u turns", r->rank, p->most,
                   r->member_at[peer], p->passed);
}

void storm_check_turn(struct storm_rank *r, const struct path_leg *leg, uint64_t budget)
{
    struct count c = {.leg = leg};
    shares_of(r, &c.shares);
    check_share(r, &c.shares, leg->peer, budget);
    each_waiting(r, count, &c);
    each_waiting(r, pass_mover, &c);
    for (uint32_t i = 0; i < r->directory->num_ranks; i++)
        if (r->member_at[i] != DIRECTORY_NONE)
            pass_peer(r, i, &c);
}

/* ---- nobody waits for what is free ------------------------------------------------------------------------------- */

static void could_have_moved(struct storm_rank *r, const struct mover *m, void *arg)
{
    const struct shares *shares = arg;
    uint32_t peer = m->peer;
    const struct storm_pair *p = pair_of(r, peer);
    if (shares->held[peer] == 0 && p->refused_step != r->steps && shares->free[peer] > 0 &&
        storm_has_room(r->storm, r->rank, r->member_at[peer]))
        storm_fail(r->storm, "rank %u: a transfer with rank %u waits though %llu bytes are free", r->rank,
                   r->member_at[peer], (unsigned long long)shares->free[peer]);
}

void storm_check_idle(struct storm_rank *r)
{
    struct shares shares;
    shares_of(r, &shares);
    each_waiting(r, could_have_moved, &shares);
    forget(r);
}
