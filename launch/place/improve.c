/* SPDX-License-Identifier: BSD-3-Clause */
/* improve: local search, see board.h. */
#include <stdlib.h>
#include <string.h>

#include "place/board.h"

#define PASSES_MAX 16
#define ALL_NODES_MAX 128         /* in larger clusters, units are tried only near what they exchange bytes with */
#define NEAR_NODES_MAX 64         /* under one switch */
#define LISTED_MAX 64             /* units of a node that are tried in exchange for another: bits of a mask */
#define TOGETHER_MAX 8            /* of so many, and no more, two or three are tried together too */
#define LOOKS_MAX (1u << 23)      /* at flows, for exchanges between nodes of one start */
#define TRY_LOOKS 64u             /* that an exchange takes as long as, beside its own */
#define SEAT_LOOKS_MAX (1u << 24) /* the same, for exchanges within nodes */
#define SEAT_TRY_LOOKS 8u
#define GROWN_MAX 1024    /* ranks of a node that are seated anew */
#define EXACT_ON_NODE 8   /* ranks */
#define EXACT_LOOKS 8192u /* that placing a node exactly takes about as long as */

/* ---- between nodes ----------------------------------------------------------------------------------------------- */

struct search {
    struct board *board;
    uint32_t *nodes, num; /* candidates */
    uint32_t *seen, stamp;
    uint64_t looks; /* that are left */
};

/* A unit's flows to ranks that sit. Those within a node count as the node's distance: seats are chosen later. */
static double unit_cost(const struct board *b, uint32_t unit)
{
    const struct job *j = b->job;
    const struct unit *u = &b->units[unit];
    double cost = 0;
    for (uint32_t r = u->first; r < u->first + u->count; r++)
        for (uint32_t f = j->first_flow[r]; f < j->first_flow[r + 1]; f++) {
            uint32_t other = b->seat_of[j->flows[f].peer];
            if (other != PLACE_NONE && b->unit_of[j->flows[f].peer] != unit)
                cost += j->flows[f].bytes * cluster_node_distance(b->cluster, b->seat_of[r], other);
        }
    return cost;
}

static void add_node(struct search *s, uint32_t node)
{
    if (s->seen[node] != s->stamp)
        s->nodes[s->num++] = node;
    s->seen[node] = s->stamp;
}

static void find_nodes(struct search *s, uint32_t unit)
{
    const struct board *b = s->board;
    const struct cluster *c = b->cluster;
    const struct job *j = b->job;
    const struct unit *u = &b->units[unit];
    uint32_t nodes = c->num_groups[CLUSTER_NODE];
    s->num = 0;
    s->stamp++;
    for (uint32_t i = 0; i < nodes && nodes <= ALL_NODES_MAX; i++)
        add_node(s, i);
    if (nodes <= ALL_NODES_MAX)
        return;
    for (uint32_t f = j->first_flow[u->first]; f < j->first_flow[u->first + u->count]; f++) {
        uint32_t node = cluster_node(c, b->seat_of[j->flows[f].peer]);
        if (s->seen[node] == s->stamp)
            continue;
        const struct cluster_group *near =
            &c->groups[CLUSTER_NETWORK][c->group_of[CLUSTER_NETWORK][c->groups[CLUSTER_NODE][node].first]];
        uint32_t end = node + NEAR_NODES_MAX / 2, first = node > NEAR_NODES_MAX / 2 ? node - NEAR_NODES_MAX / 2 : 0;
        first = first > near->first_child ? first : near->first_child;
        end = end < near->end_child ? end : near->end_child;
        for (uint32_t i = first; i < end; i++)
            add_node(s, i);
    }
}

/* Units on a node; only the first LISTED_MAX of them are listed. */
static uint32_t units_on(const struct board *b, uint32_t node, uint32_t units[LISTED_MAX])
{
    const struct cluster_group *g = &b->cluster->groups[CLUSTER_NODE][node];
    uint32_t n = 0;
    for (uint32_t seat = g->first; seat < g->end && n < LISTED_MAX; seat++) {
        uint32_t unit = b->rank_at[seat] != PLACE_NONE ? b->unit_of[b->rank_at[seat]] : PLACE_NONE, k = 0;
        while (k < n && units[k] != unit)
            k++;
        if (unit != PLACE_NONE && k == n)
            units[n++] = unit;
    }
    return n;
}

/* The first of those that a mask, not 0, stands for. A loop over all of them takes away the lowest bit each time. */
static uint32_t first_of(const uint32_t *units, uint64_t mask)
{
    return units[__builtin_ctzll(mask)];
}

/* Takes off a unit and those of the mask, and returns what their flows cost. */
static double take(struct board *b, uint32_t unit, const uint32_t *others, uint64_t mask)
{
    double cost = unit_cost(b, unit);
    board_take_unit(b, unit);
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        cost += unit_cost(b, first_of(others, left));
        board_take_unit(b, first_of(others, left));
    }
    return cost;
}

/* Puts them on these nodes, if these take them, and returns what their flows cost there; less than 0: they do not. */
static double put(struct board *b, uint32_t unit, uint32_t to, const uint32_t *others, uint64_t mask, uint32_t from)
{
    double cost = 0;
    if (!board_takes(b, to, b->units[unit].count, b->units[unit].side))
        return -1;
    board_put_unit(b, unit, to);
    cost += unit_cost(b, unit);
    uint64_t left = mask;
    for (; left != 0; left &= left - 1) {
        uint32_t other = first_of(others, left);
        if (!board_takes(b, from, b->units[other].count, b->units[other].side))
            break;
        board_put_unit(b, other, from);
        cost += unit_cost(b, other);
    }
    if (left == 0)
        return cost;
    for (uint64_t done = mask ^ left; done != 0; done &= done - 1)
        board_take_unit(b, first_of(others, done));
    board_take_unit(b, unit);
    return -1;
}

/* Exchanges a unit with those of the mask, and undoes it unless it is better. */
static bool exchange(struct board *b, uint32_t unit, uint32_t to, const uint32_t *others, uint64_t mask)
{
    uint32_t from = board_node(b, unit);
    uint64_t broken = board_broken(b);
    double before = take(b, unit, others, mask), after = put(b, unit, to, others, mask, from);
    struct place_value then = {broken, before}, now = {board_broken(b), after};
    if (after >= 0 && value_is_less(now, then))
        return true;
    if (after >= 0)
        take(b, unit, others, mask);
    put(b, unit, from, others, mask, to);
    return false;
}

static uint32_t flows_of(const struct board *b, uint32_t unit)
{
    const struct unit *u = &b->units[unit];
    return b->job->first_flow[u->first + u->count] - b->job->first_flow[u->first];
}

/* Tries the units of the mask in exchange. */
static bool try_mask(struct search *s, uint32_t unit, uint32_t to, const uint32_t *others, uint64_t mask)
{
    struct board *b = s->board;
    uint32_t count = b->units[unit].count, back = 0;
    uint64_t looks = TRY_LOOKS + flows_of(b, unit);
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        back += b->units[first_of(others, left)].count;
        looks += flows_of(b, first_of(others, left));
    }
    if (board_room(b, to) + back < count || board_room(b, board_node(b, unit)) + count < back)
        return false;
    if (s->looks < looks) {
        s->looks = 0; /* the search ends: there is no looking at what may not be tried */
        return false;
    }
    s->looks -= looks;
    return exchange(b, unit, to, others, mask);
}

/* Ranks of the two smallest units; of fewer than two, more than there can be. */
static uint64_t two_least(const struct board *b, const uint32_t *units, uint32_t n)
{
    uint32_t least = UINT32_MAX, second = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = b->units[units[i]].count;
        second = count < least ? least : count < second ? count : second;
        least = count < least ? count : least;
    }
    return (uint64_t)least + second;
}

static bool improve_with(struct search *s, uint32_t unit, uint32_t to)
{
    const struct board *b = s->board;
    uint32_t others[LISTED_MAX], n = units_on(b, to, others);
    if (try_mask(s, unit, to, others, 0))
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (try_mask(s, unit, to, others, UINT64_C(1) << i))
            return true;
    if (n > TOGETHER_MAX || two_least(b, others, n) > board_room(b, board_node(b, unit)) + b->units[unit].count)
        return false;
    for (uint64_t mask = 3; mask < UINT64_C(1) << n; mask++) {
        int together = __builtin_popcountll(mask);
        if ((together == 2 || together == 3) && try_mask(s, unit, to, others, mask))
            return true;
    }
    return false;
}

static bool improve_unit(struct search *s, uint32_t unit)
{
    find_nodes(s, unit);
    for (uint32_t i = 0; i < s->num; i++)
        if (s->nodes[i] != board_node(s->board, unit) && improve_with(s, unit, s->nodes[i]))
            return true;
    return false;
}

int improve_nodes(struct board *b)
{
    uint32_t nodes = b->cluster->num_groups[CLUSTER_NODE];
    struct search s = {.board = b,
                       .looks = LOOKS_MAX,
                       .nodes = calloc((size_t)nodes + 1, sizeof *s.nodes),
                       .seen = calloc((size_t)nodes + 1, sizeof *s.seen)};
    int rc = s.nodes != NULL && s.seen != NULL ? 0 : -1;
    bool better = true;
    for (uint32_t pass = 0; rc == 0 && better && pass < PASSES_MAX; pass++) {
        better = false;
        for (uint32_t u = 0; u < b->num_units && s.looks > 0; u++)
            better |= improve_unit(&s, u);
    }
    b->looks += LOOKS_MAX - s.looks;
    free(s.nodes);
    free(s.seen);
    return rc;
}

/* ---- within a node ----------------------------------------------------------------------------------------------- */

static uint32_t ranks_on(const struct board *b, const struct cluster_group *node, uint32_t *ranks)
{
    uint32_t n = 0;
    for (uint32_t seat = node->first; seat < node->end; seat++)
        if (b->rank_at[seat] != PLACE_NONE)
            ranks[n++] = b->rank_at[seat];
    return n;
}

static struct worth worth_on(const struct board *b, uint32_t node, const uint32_t *ranks, uint32_t n)
{
    struct worth worth = {.crowd = board_crowd(b, node)};
    for (uint32_t i = 0; i < n; i++)
        worth.value.cost += board_cost_at(b, ranks[i], b->seat_of[ranks[i]]);
    return worth; /* flows between two of them count twice, and all others do not depend on their seats */
}

/* What a rank that sits adds to its node, but for what is the same on any of the node's seats. */
static struct worth worth_of(const struct board *b, uint32_t rank)
{
    uint32_t seat = b->seat_of[rank], numa = b->cluster->group_of[CLUSTER_NUMA][seat], num = b->in_numa[numa];
    const struct cluster_group *g = &b->cluster->groups[CLUSTER_NUMA][numa];
    return (struct worth){{.cost = board_cost_at(b, rank, seat)}, crowd_of(g, num) - crowd_of(g, num - 1)};
}

/* Exchanges a rank's seat with another, or undoes it. */
static bool exchange_seats(struct board *b, uint32_t rank, uint32_t seat)
{
    uint32_t mine = b->seat_of[rank], other = b->rank_at[seat];
    struct worth before = worth_of(b, rank), after;
    board_take(b, rank);
    if (other != PLACE_NONE) {
        before.value.cost += board_cost_at(b, other, seat);
        before.crowd = 0; /* as many ranks sit everywhere after it */
        board_take(b, other);
        board_put(b, other, mine);
    }
    board_put(b, rank, seat);
    after = worth_of(b, rank);
    if (other != PLACE_NONE) {
        board_take(b, rank);
        after.value.cost += board_cost_at(b, other, mine);
        after.crowd = 0;
        board_put(b, rank, seat);
    }
    if (worth_is_less(after, before))
        return true;
    board_take(b, rank);
    if (other != PLACE_NONE) {
        board_take(b, other);
        board_put(b, other, seat);
    }
    board_put(b, rank, mine);
    return false;
}

static bool is_next_to_free(const struct board *b, uint32_t seat, uint32_t first)
{
    return seat > first && b->rank_at[seat] == PLACE_NONE && b->rank_at[seat - 1] == PLACE_NONE &&
           cluster_level(b->cluster, seat, seat - 1) == CLUSTER_CACHE;
}

/* A node and its ranks, and the looks that are left for all nodes. */
struct crew {
    const struct cluster_group *node;
    const uint32_t *ranks;
    uint32_t num;
    uint64_t *looks;
};

/* Whether there are looks for one more exchange, which takes them. */
static bool may_exchange(const struct board *b, const struct crew *crew, uint32_t rank)
{
    uint64_t looks = SEAT_TRY_LOOKS + b->job->first_flow[rank + 1] - b->job->first_flow[rank];
    bool may = *crew->looks >= looks;
    *crew->looks -= may ? looks : 0;
    return may;
}

static void exchange_all(struct board *b, const struct crew *crew)
{
    const struct cluster_group *node = crew->node;
    bool better = true;
    for (uint32_t pass = 0; better && pass < PASSES_MAX; pass++) {
        better = false;
        for (uint32_t i = 0; i < crew->num; i++)
            for (uint32_t seat = node->first; seat < node->end; seat++)
                if (b->rank_at[seat] != crew->ranks[i] && !is_next_to_free(b, seat, node->first)) {
                    if (!may_exchange(b, crew, crew->ranks[i]))
                        return;
                    better |= exchange_seats(b, crew->ranks[i], seat);
                }
    }
}

/* Seats the ranks anew: the one that exchanges most with those that sit, on the seat that is best for it. */
static void grow_seats(struct board *b, const struct cluster_group *node, const uint32_t *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        board_take(b, ranks[i]);
    for (uint32_t done = 0; done < n; done++) {
        uint32_t next = PLACE_NONE, best = PLACE_NONE;
        double most = -1, least = 0;
        for (uint32_t i = 0; i < n; i++) {
            double bytes = 0;
            for (uint32_t f = b->job->first_flow[ranks[i]]; f < b->job->first_flow[ranks[i] + 1]; f++) {
                uint32_t seat = b->seat_of[b->job->flows[f].peer];
                bytes += seat != PLACE_NONE && seat >= node->first && seat < node->end ? b->job->flows[f].bytes : 0;
            }
            if (b->seat_of[ranks[i]] == PLACE_NONE && bytes > most) {
                next = ranks[i];
                most = bytes;
            }
        }
        for (uint32_t seat = node->first; seat < node->end; seat++) {
            double cost = b->rank_at[seat] == PLACE_NONE ? board_cost_at(b, next, seat) : 0;
            if (b->rank_at[seat] == PLACE_NONE && (best == PLACE_NONE || cost < least)) {
                best = seat;
                least = cost;
            }
        }
        board_put(b, next, best);
    }
}

static void reseat(struct board *b, const uint32_t *ranks, const uint32_t *seats, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        board_take(b, ranks[i]);
    for (uint32_t i = 0; i < n; i++)
        board_put(b, ranks[i], seats[i]);
}

/* Seats a node's ranks anew, by growth or exactly, if that is better. `seats`: room for as many. */
static void seat_anew(struct board *b, const struct crew *crew, uint32_t node, bool exactly, uint32_t *seats)
{
    struct worth worth = worth_on(b, node, crew->ranks, crew->num);
    for (uint32_t k = 0; k < crew->num; k++)
        seats[k] = b->seat_of[crew->ranks[k]];
    if (exactly) {
        exact_place(b, crew->ranks, crew->num, CLUSTER_NODE, node);
    } else {
        grow_seats(b, crew->node, crew->ranks, crew->num);
        exchange_all(b, crew);
    }
    if (!worth_is_less(worth_on(b, node, crew->ranks, crew->num), worth))
        reseat(b, crew->ranks, seats, crew->num);
}

int improve_seats(struct board *b)
{
    const struct cluster *c = b->cluster;
    uint64_t looks = SEAT_LOOKS_MAX;
    uint32_t *ranks = calloc((size_t)b->job->num_ranks + 1, sizeof *ranks);
    uint32_t *seats = calloc((size_t)b->job->num_ranks + 1, sizeof *seats);
    int rc = ranks != NULL && seats != NULL ? 0 : -1;
    for (uint32_t i = 0; rc == 0 && i < c->num_groups[CLUSTER_NODE]; i++) {
        const struct cluster_group *node = &c->groups[CLUSTER_NODE][i];
        uint32_t n = ranks_on(b, node, ranks);
        if (n < 2)
            continue;
        const struct crew crew = {node, ranks, n, &looks};
        exchange_all(b, &crew);
        if (n <= GROWN_MAX)
            seat_anew(b, &crew, i, false, seats);
        if (n <= EXACT_ON_NODE) {
            seat_anew(b, &crew, i, true, seats);
            b->looks += EXACT_LOOKS;
        }
    }
    b->looks += SEAT_LOOKS_MAX - looks;
    free(ranks);
    free(seats);
    return rc;
}
