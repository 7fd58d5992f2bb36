/* SPDX-License-Identifier: BSD-3-Clause */
/* runs: see runs.h. The leg's cursor moves by what the net took, whatever was made of the plan ahead of it. */
#include "front/runs.h"

#include "plan/plan.h"

/*
 * So many pieces at most are named at a time. That is as much as the net moves by one request, of pieces that are so
 * short that there are many: what it does not take was made in vain.
 */
#define PIECES_MOST 512u
#define PIECES_AT_ONCE 64u

/* Whether a piece goes on with a run: the second one of equal size begins the steps. */
static bool follows(const struct net_run *run, const struct plan_run *piece)
{
    if (piece->bytes != run->bytes || piece->src_region != run->from_region || piece->dst_region != run->to_region)
        return false;
    return run->count == 1 || (piece->src == run->from + run->count * (uint64_t)run->from_step &&
                               piece->dst == run->to + run->count * (uint64_t)run->to_step);
}

/* Adds a piece to the last of *n runs, or as a new one. False: there is no room for one. */
static bool add(struct net_run *runs, uint32_t *n, uint32_t room, const struct plan_run *piece)
{
    struct net_run *last = *n > 0 ? &runs[*n - 1] : NULL;
    if (last != NULL && follows(last, piece)) {
        if (last->count++ == 1) {
            last->from_step = (int64_t)(piece->src - last->from);
            last->to_step = (int64_t)(piece->dst - last->to);
        }
        return true;
    }
    if (*n == room)
        return false;
    runs[(*n)++] = (struct net_run){.from = piece->src,
                                    .to = piece->dst,
                                    .bytes = piece->bytes,
                                    .count = 1,
                                    .from_region = piece->src_region,
                                    .to_region = piece->dst_region};
    return true;
}

/*
 * Makes the next runs of a leg, of `budget` bytes at most. Returns their number; 0: it is at its end. *bytes: what they
 * have in all. *is_last: nothing comes behind them.
 */
static uint32_t make(const struct path_leg *leg, struct net_run *runs, uint32_t room, uint64_t budget, uint64_t *bytes,
                     bool *is_last)
{
    struct plan_run piece[PIECES_AT_ONCE];
    struct plan_cursor at = *leg->cursor;
    uint32_t n = 0, pieces = 0, got, added;
    *bytes = 0;
    do {
        got = plan_next(leg->transfer, &at, piece, PIECES_AT_ONCE, budget - *bytes);
        for (added = 0; added < got && add(runs, &n, room, &piece[added]); added++)
            *bytes += piece[added].bytes;
        pieces += added;
    } while (added == got && got > 0 && pieces < PIECES_MOST);
    *is_last = added == got && plan_at_end(leg->transfer, &at);
    return n;
}

int64_t runs_move(const struct net *net, const struct path_leg *leg, uint64_t budget)
{
    struct net_run runs[NET_RUNS];
    struct net_move move = {
        .peer = leg->peer, .write = leg->write, .tag = leg->tag, .theirs = leg->theirs, .runs = runs};
    uint64_t taken = 0, handed;
    bool is_last;
    while (taken < budget) {
        int64_t more = net->room(net->self, leg->peer);
        if (more > 0) {
            const uint32_t room = more < NET_RUNS ? (uint32_t)more : NET_RUNS;
            move.num_runs = make(leg, runs, room, budget - taken, &handed, &is_last);
            if (move.num_runs == 0) /* the leg is at its end */
                return (int64_t)taken;
            move.board = is_last ? leg->board : 0;
            more = net->move(net->self, &move);
            if (more > 0 && (uint64_t)more > handed)
                more = BATON_EMESSAGE;
        }
        if (more <= 0) /* an error after something was taken comes back at the next call */
            return taken > 0 ? (int64_t)taken : more < 0 ? more : BATON_EAGAIN;
        plan_pass(leg->transfer, leg->cursor, (uint64_t)more);
        taken += (uint64_t)more;
    }
    return (int64_t)taken;
}
