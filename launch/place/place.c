/* SPDX-License-Identifier: BSD-3-Clause */
/* place: see place.h. */
#include "place/place.h"

#include <stdlib.h>
#include <string.h>

#include "place/board.h"

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* What is found if nodes are filled with teams that may lie on several. False: there are none, or that has no room. */
static bool start_fills(struct board *b)
{
    struct board fills;
    bool good = board_init(&fills, b->cluster, b->job, b->rules, BOARD_FILLS) == 0 && fills.num_units < b->num_units &&
                start_greedy(&fills, START_FIRST) && improve_nodes(&fills) == 0;
    if (good)
        board_load(b, fills.seat_of);
    b->looks += fills.looks;
    board_fini(&fills);
    return good;
}

static bool start(struct board *b, unsigned number, uint64_t *random)
{
    switch (number) {
    case 0:
        return start_greedy(b, START_FIRST);
    case 1:
        return start_greedy(b, START_TIGHT);
    case 2:
        return start_fills(b) || start_greedy(b, START_ROOMY);
    case 3:
        return start_default(b, PLACE_BY_CORE);
    case 4:
        return start_default(b, PLACE_BY_NODE);
    case 5:
        return start_packed(b);
    default:
        return start_random(b, random);
    }
}

#define STARTS 6         /* that are not random */
#define RANDOM_STARTS 32 /* at most, while searches have taken less than RANDOM_LOOKS */
#define RANDOM_LOOKS (1u << 23)

/* The best so far. PLACE_NO_FIT: there is none. */
struct found {
    enum place_error error;
    struct place_value least;
    uint32_t *seat_of;
};

/* Of equal placements, the one that gives earlier seats to earlier ranks, as people expect it. */
static bool comes_first(const struct board *b, const uint32_t *seat_of)
{
    for (uint32_t r = 0; r < b->job->num_ranks; r++)
        if (b->seat_of[r] != seat_of[r])
            return b->seat_of[r] < seat_of[r];
    return false;
}

/* `improved`: within nodes too, so that it counts beside an equal one. */
static void consider(const struct board *b, bool improved, struct found *f)
{
    struct place_value value = board_value(b);
    bool less = f->error != PLACE_GOOD || value_is_less(value, f->least);
    if (!less && (!improved || value_is_less(f->least, value) || !comes_first(b, f->seat_of)))
        return;
    f->least = value;
    memcpy(f->seat_of, b->seat_of, b->job->num_ranks * sizeof *f->seat_of);
    f->error = PLACE_GOOD;
}

/* Ranks in order, one host after the other. 0; -1: no memory. */
static int consider_order(struct board *b, struct found *f)
{
    if (!start_default(b, PLACE_BY_CORE))
        return 0;
    if (improve_seats(b) != 0)
        return -1;
    consider(b, true, f);
    return 0;
}

/* The best of all starts, as they are and improved, in seat_of. */
static enum place_error find(struct board *b, uint32_t *seat_of)
{
    struct found f = {.error = PLACE_NO_FIT, .seat_of = seat_of};
    uint64_t random = 1;
    if (consider_order(b, &f) != 0)
        return PLACE_NO_MEMORY;
    for (unsigned i = 0; i < STARTS || (i < STARTS + RANDOM_STARTS && b->looks < RANDOM_LOOKS); i++) {
        board_clear(b);
        if (!start(b, i, &random))
            continue;
        consider(b, false, &f); /* improve_nodes counts what is within a node by the node's distance alone */
        if (improve_nodes(b) != 0 || improve_seats(b) != 0)
            return PLACE_NO_MEMORY;
        consider(b, true, &f);
    }
    return f.error;
}

/* The best of all, where there are few ranks. */
static enum place_error find_exact(struct board *b, uint32_t *seat_of)
{
    struct found f = {.error = PLACE_NO_FIT, .seat_of = seat_of};
    uint32_t ranks[EXACT_RANKS_MAX];
    for (uint32_t i = 0; i < b->job->num_ranks; i++)
        ranks[i] = i;
    if (consider_order(b, &f) != 0)
        return PLACE_NO_MEMORY;
    board_clear(b);
    enum place_error error = exact_place(b, ranks, b->job->num_ranks, b->cluster->num_levels - 1, 0);
    if (error == PLACE_GOOD)
        consider(b, true, &f);
    return error;
}

static enum place_error find_by(enum place_error (*how)(struct board *b, uint32_t *seat_of), const struct cluster *c,
                                const struct job *j, const struct place_rules *rules, uint32_t *seat_of)
{
    struct board b;
    if (cluster_room(c) < j->num_ranks)
        return PLACE_TOO_FEW;
    enum place_error error = board_init(&b, c, j, rules, BOARD_RANKS) == 0 ? how(&b, seat_of) : PLACE_NO_MEMORY;
    board_fini(&b);
    return error;
}

enum place_error place_heuristic(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                 uint32_t *seat_of)
{
    return find_by(find, c, j, rules, seat_of);
}

enum place_error place_find(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                            uint32_t *seat_of)
{
    return find_by(j->num_ranks <= EXACT_RANKS_MAX ? find_exact : find, c, j, rules, seat_of);
}

enum place_error place_default(const struct cluster *c, const struct job *j, enum place_default how, uint32_t *seat_of)
{
    uint32_t nodes = c->num_groups[CLUSTER_NODE], node = 0;
    if (cluster_room(c) < j->num_ranks)
        return PLACE_TOO_FEW;
    uint32_t *used = calloc((size_t)nodes + 1, sizeof *used);
    if (used == NULL)
        return PLACE_NO_MEMORY;
    for (uint32_t r = 0; r < j->num_ranks; r++) {
        while (used[node] == c->capacity[node])
            node = (node + 1) % nodes;
        seat_of[r] = c->groups[CLUSTER_NODE][node].first + used[node]++;
        if (how == PLACE_BY_NODE)
            node = (node + 1) % nodes;
    }
    free(used);
    return PLACE_GOOD;
}

enum place_error place_repaired(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                enum place_default how, uint32_t *seat_of)
{
    struct board b;
    enum place_error error = PLACE_NO_MEMORY;
    if (board_init(&b, c, j, rules, BOARD_RANKS) == 0)
        error = start_default(&b, how) ? PLACE_GOOD : PLACE_NO_FIT;
    if (error == PLACE_GOOD)
        memcpy(seat_of, b.seat_of, j->num_ranks * sizeof *seat_of);
    board_fini(&b);
    return error;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* Whether a unit's ranks are on one node. */
static bool is_whole(const struct board *b, uint32_t unit)
{
    const struct unit *u = &b->units[unit];
    for (uint32_t i = 1; i < u->count; i++)
        if (cluster_node(b->cluster, b->seat_of[u->first + i]) != cluster_node(b->cluster, b->seat_of[u->first]))
            return false;
    return true;
}

static enum place_breach find_breach(struct board *b, const uint32_t *seat_of)
{
    for (uint32_t r = 0; r < b->job->num_ranks; r++) {
        if (seat_of[r] >= b->cluster->num_seats || b->rank_at[seat_of[r]] != PLACE_NONE)
            return PLACE_BREACH_SEATS;
        board_put(b, r, seat_of[r]);
    }
    for (uint32_t u = 0; u < b->num_units; u++)
        if (!is_whole(b, u))
            return PLACE_BREACH_TEAM;
    for (uint32_t i = 0; i < b->cluster->num_groups[CLUSTER_NODE]; i++) {
        const uint32_t *held = b->held[i];
        if (held[JOB_PREFILL] + held[JOB_DECODE] > b->cluster->capacity[i])
            return PLACE_BREACH_SEATS;
        if (b->rules->sides == PLACE_APART && held[JOB_PREFILL] > 0 && held[JOB_DECODE] > 0)
            return PLACE_BREACH_SIDES;
        for (unsigned side = 0; side < JOB_SIDES; side++)
            if (held[side] > 0 && !cluster_takes(b->cluster, i, side))
                return PLACE_BREACH_SIDES;
    }
    return PLACE_KEPT;
}

enum place_breach place_breach(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                               const uint32_t *seat_of)
{
    struct board b;
    enum place_breach breach =
        board_init(&b, c, j, rules, BOARD_RANKS) == 0 ? find_breach(&b, seat_of) : PLACE_BREACH_SEATS;
    board_fini(&b);
    return breach;
}

struct place_value place_value(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                               const uint32_t *seat_of)
{
    struct board b;
    struct place_value value = {UINT64_MAX, 0};
    if (board_init(&b, c, j, rules, BOARD_RANKS) == 0) {
        board_load(&b, seat_of);
        value = board_value(&b);
    }
    board_fini(&b);
    return value;
}
