/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place: placements hold the rules, are as good as an exhaustive search finds where that is possible, and never worse
 * than what launchers do by default once that has been made to hold the same rules. Prints every gap.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "place/board.h"
#include "with_job.h"
#include "with_search.h"

static const struct shape shapes[] = {
    {"one node, 2 packages of 4 NUMA nodes, a GPU each", 1, 1, 2, 4, 1, 1},
    {"4 nodes of 4", 4, 2, 1, 1, 1, 4},
    {"3 nodes of 3", 3, 4, 1, 1, 1, 3},
    {"4 nodes, 2 packages of 2 NUMA nodes of 2", 4, 2, 2, 2, 1, 2},
    {"8 nodes, 2 packages of 4 NUMA nodes, 4 a switch", 8, 4, 2, 4, 1, 1},
    {"2 nodes with 2 caches of 4", 2, 2, 1, 1, 2, 4},
    {"64 nodes, 2 packages of 4 NUMA nodes, 8 a switch", 64, 8, 2, 4, 1, 1},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* The sanitizers take four times as long. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 600u
#define LARGE_JOBS 1u
#else
#define ROUNDS 3000u
#define LARGE_JOBS 4u
#endif

static const struct {
    const char *name;
    struct engines prefill, decode;
} jobs[] = {
    {"2x2 + 2x2", {2, 2, 1}, {2, 2, 1}}, {"2x2 + 1x4", {2, 2, 1}, {1, 4, 1}},   {"1x8 + 2x4", {1, 8, 1}, {2, 4, 1}},
    {"4x2 + 1x8", {4, 2, 1}, {1, 8, 1}}, {"1x3 + 2x2", {1, 3, 1}, {2, 2, 1}},   {"2x4x2 + 4x2", {2, 4, 2}, {4, 2, 1}},
    {"8x1 + 1x8", {8, 1, 1}, {1, 8, 1}}, {"3x2 + 2x3", {3, 2, 1}, {2, 3, 1}},   {"1x2x2 + 2x3", {1, 2, 2}, {2, 3, 1}},
    {"5x1 + 1x5", {5, 1, 1}, {1, 5, 1}}, {"2x2x2 + 1x2", {2, 2, 2}, {1, 2, 1}},
};
#define JOBS (sizeof jobs / sizeof jobs[0])

static const struct {
    const char *name;
    struct place_rules rules;
} ways[] = {
    {"", {0}},
    {"packed", {.nodes = PLACE_PACK}},
    {"spread", {.nodes = PLACE_SPREAD}},
    {"together", {.sides = PLACE_TOGETHER}},
    {"apart", {.sides = PLACE_APART}},
    {"straddling", {.straddle = true}},
    {"spread apart", {.nodes = PLACE_SPREAD, .sides = PLACE_APART}},
};
#define WAYS (sizeof ways / sizeof ways[0])

/* ---- the tests --------------------------------------------------------------------------------------------------- */

struct tally {
    unsigned placed, searched, refused;
    double worst;
};

/* The heuristics alone, which small jobs do not need. */
static double gap_of_heuristics(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                struct place_value best)
{
    uint32_t seat_of[64];
    assert_int_equal(place_heuristic(c, j, rules, seat_of), PLACE_GOOD);
    assert_int_equal(place_breach(c, j, rules, seat_of), PLACE_KEPT);
    struct place_value value = place_value(c, j, rules, seat_of);
    assert_int_equal(value.broken, best.broken);
    return value.cost / best.cost - 1;
}

/* Returns whether there was an exhaustive search to compare with; *best is what that found. */
static bool check_found(const struct cluster *c, const struct job *j, const struct place_rules *rules, struct tally *t,
                        struct place_value *best)
{
    uint32_t seat_of[64];
    bool small = search_reaches(j, rules);
    enum place_error error = place_find(c, j, rules, seat_of);
    *best = (struct place_value){UINT64_MAX, DBL_MAX};
    if (small)
        *best = search_best(c, j, rules);
    if (error != PLACE_GOOD) {
        t->refused++;
        assert_true(!small || best->broken == UINT64_MAX); /* there is none */
        return false;
    }
    t->placed++;
    assert_int_equal(place_breach(c, j, rules, seat_of), PLACE_KEPT);
    struct place_value value = place_value(c, j, rules, seat_of);
    struct place_value by_core = search_repaired(c, j, rules, PLACE_BY_CORE),
                       by_node = search_repaired(c, j, rules, PLACE_BY_NODE);
    assert_false(value_is_less(by_core, value) || value_is_less(by_node, value));
    if (!small)
        return false;
    assert_int_equal(value.broken, best->broken);
    assert_true(fabs(value.cost - best->cost) <= 1e-9 * best->cost);
    t->searched++;
    return true;
}

static void check(const struct cluster *c, const struct job *j, const struct place_rules *rules, const char *name,
                  struct tally *t)
{
    struct place_value best;
    if (!check_found(c, j, rules, t, &best))
        return;
    double gap = gap_of_heuristics(c, j, rules, best);
    assert_true(gap <= 0.05);
    printf("%-75s optimum %10.0f, heuristics + %.1f %%\n", name, best.cost, 100 * gap);
    t->worst = gap > t->worst ? gap : t->worst;
}

static void test_as_good_as_can_be(void **state)
{
    (void)state;
    struct tally t = {0};
    for (unsigned i = 0; i < SHAPES; i++)
        for (unsigned k = 0; k < JOBS; k++)
            for (unsigned w = 0; w < WAYS; w++) {
                char name[160];
                struct cluster c;
                struct job j;
                snprintf(name, sizeof name, "%s: %s %s", shapes[i].name, jobs[k].name, ways[w].name);
                shape_build(&shapes[i], NULL, &c);
                engines_build(&jobs[k].prefill, &jobs[k].decode, 0.3, &j);
                check(&c, &j, &ways[w].rules, name, &t);
                job_fini(&j);
                cluster_fini(&c);
            }
    printf("%u placed, %u compared with an exhaustive search, %u do not fit; heuristics at most %.1f %% above\n",
           t.placed, t.searched, t.refused, 100 * t.worst);
    assert_true(t.placed > 300 && t.searched > 100 && t.refused > 50);
}

/* Nodes of unequal capacity, and fewer slots than seats. */
static void test_slots_are_kept(void **state)
{
    (void)state;
    static const uint32_t capacity[] = {2, 8, 3, 4};
    struct tally t = {0};
    for (unsigned k = 0; k < JOBS; k++)
        for (unsigned w = 0; w < WAYS; w++) {
            struct cluster c;
            struct job j;
            shape_build(&shapes[3], capacity, &c);
            engines_build(&jobs[k].prefill, &jobs[k].decode, 0.1, &j);
            check(&c, &j, &ways[w].rules, jobs[k].name, &t);
            job_fini(&j);
            cluster_fini(&c);
        }
    assert_true(t.searched > 20 && t.refused > 0);
}

/* Nodes that take one side alone, as in a heterogeneous Slurm job. Where rules count nodes, the heuristics alone may
   miss the least number on such nodes; few ranks are placed exactly. */
static void test_nodes_take_their_sides(void **state)
{
    (void)state;
    enum { P = 1 << JOB_PREFILL, D = 1 << JOB_DECODE };
    static const uint32_t capacity[][4] = {{8, 8, 8, 8}, {2, 8, 3, 4}, {4, 4, 6, 2}};
    static const uint8_t sides[][4] = {{P, P, D, D}, {D, P, P, D}, {P, D, D, D}, {D, P, D, P}, {P, P, P, P}};
    struct tally t = {0};
    for (unsigned i = 0; i < 3 * 5; i++)
        for (unsigned k = 0; k < JOBS; k++)
            for (unsigned w = 0; w < WAYS; w++) {
                char name[160];
                struct cluster c;
                struct job j;
                snprintf(name, sizeof name, "capacities %u, sides %u: %s %s", i / 5, i % 5, jobs[k].name, ways[w].name);
                shape_build(&shapes[3], capacity[i / 5], &c);
                cluster_set_sides(&c, sides[i % 5]);
                engines_build(&jobs[k].prefill, &jobs[k].decode, 0.1, &j);
                if (ways[w].rules.nodes == PLACE_ANY && ways[w].rules.sides != PLACE_TOGETHER)
                    check(&c, &j, &ways[w].rules, name, &t);
                else
                    check_found(&c, &j, &ways[w].rules, &t, &(struct place_value){0});
                job_fini(&j);
                cluster_fini(&c);
            }
    printf("%u placed, %u compared with an exhaustive search, %u do not fit; heuristics at most %.1f %% above\n",
           t.placed, t.searched, t.refused, 100 * t.worst);
    assert_true(t.placed > 300 && t.searched > 200 && t.refused > 200);
}

/* A node holds as many units as a local search tries in exchange, and more. */
static void test_many_units_on_a_node(void **state)
{
    (void)state;
    static const struct place_rules none = {0};
    for (uint32_t engines = 63; engines <= 65; engines++) {
        const struct shape shape = {"", 2, 2, 2, 1, 1, 64};
        struct cluster c;
        struct job j;
        uint32_t seat_of[130];
        shape_build(&shape, (const uint32_t[]){engines, engines}, &c);
        engines_build(&(struct engines){engines, 1, 1}, &(struct engines){engines, 1, 1}, 0.3, &j);
        assert_int_equal(place_find(&c, &j, &none, seat_of), PLACE_GOOD);
        assert_int_equal(place_breach(&c, &j, &none, seat_of), PLACE_KEPT);
        job_fini(&j);
        cluster_fini(&c);
    }
}

static void test_a_job_without_flows(void **state)
{
    (void)state;
    static const struct job_team teams[] = {{0, 2, JOB_PREFILL, 0}, {2, 1, JOB_PREFILL, 1}};
    struct job j;
    assert_int_equal(job_init(&j, teams, 2, NULL, 0), 0);
    assert_int_equal(j.num_ranks, 3);
    assert_int_equal(j.first_flow[3], 0);
    job_fini(&j);
}

/* Nodes of 1, 2 and 3 seats: each unlike the others, and all are full. */
static void test_nodes_of_unequal_size(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {1, 3, 2}};
    static const double cost[] = {1, 1.2, 1.6, 2, 10};
    static const struct place_rules none = {0};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cluster_seat seats[6] = {{{0}}};
        struct cluster c;
        struct job j;
        struct tally t = {0};
        for (uint32_t node = 0, at = 0; node < 3; node++)
            for (uint32_t k = 0; k < sizes[i][node]; k++)
                seats[at++].group[CLUSTER_NODE] = node;
        assert_int_equal(cluster_init(&c, seats, 6, 5, NULL, cost), 0);
        for (uint32_t a = 0; a < 3; a++)
            for (uint32_t b = 0; b < 3; b++)
                assert_true(a == b || c.groups[CLUSTER_NODE][a].shape != c.groups[CLUSTER_NODE][b].shape);
        engines_build(&(struct engines){1, 3, 1}, &(struct engines){3, 1, 1}, 0.3, &j);
        check(&c, &j, &none, "nodes of 1, 2 and 3 seats", &t);
        assert_int_equal(t.searched, 1);
        job_fini(&j);
        cluster_fini(&c);
    }
}

/* Tight jobs of more ranks than are placed exactly: each is made of a placement, so that it fits. */
static void test_what_fits_is_placed(void **state)
{
    (void)state;
    static const double cost[] = {1, 1.2, 1.6, 2, 10};
    static const struct place_rules none = {0}, apart = {.sides = PLACE_APART};
    uint64_t seed = 7;
    unsigned tried = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t nodes = 2 + (uint32_t)(seed >> 33) % 5, sizes[2], num[2] = {0, 0}, at = 0;
        uint32_t capacity[8] = {0};
        struct cluster_seat seats[256] = {{{0}}};
        bool is_apart = round % 4 == 0;
        for (unsigned i = 0; i < 2; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            sizes[i] = 1 + (uint32_t)(seed >> 33) % 7;
        }
        for (uint32_t node = 0; node < nodes; node++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint32_t teams[2] = {(uint32_t)(seed >> 33) % 3, (uint32_t)(seed >> 40) % 3};
            if (is_apart && teams[0] > 0)
                teams[1] = 0;
            for (unsigned i = 0; i < 2; i++) {
                num[i] += teams[i];
                capacity[node] += teams[i] * sizes[i];
            }
            for (uint32_t k = 0; k < (capacity[node] > 0 ? capacity[node] : 1); k++)
                seats[at++].group[CLUSTER_NODE] = node;
        }
        if (num[0] * sizes[0] + num[1] * sizes[1] <= EXACT_RANKS_MAX || num[0] == 0 || num[1] == 0)
            continue;
        struct cluster c;
        struct job j;
        uint32_t seat_of[256];
        assert_int_equal(cluster_init(&c, seats, at, 5, capacity, cost), 0);
        engines_build(&(struct engines){num[0], sizes[0], 1}, &(struct engines){num[1], sizes[1], 1}, 0.3, &j);
        assert_int_equal(place_find(&c, &j, is_apart ? &apart : &none, seat_of), PLACE_GOOD);
        assert_int_equal(place_breach(&c, &j, is_apart ? &apart : &none, seat_of), PLACE_KEPT);
        tried++;
        job_fini(&j);
        cluster_fini(&c);
    }
    assert_true(tried > ROUNDS / 3);
}

/* Jobs of 11 to 32 ranks, drawn at random: what is found is hardly worse than the best of many further starts. */
static void test_further_starts_find_little(void **state)
{
    (void)state;
    static const struct place_rules none = {0};
    static const double insides[] = {0, 0.01, 0.1, 0.3, 1, 5};
    uint64_t seed = 7, random = 7;
    double worst = 1;
    unsigned tried = 0;
    while (tried < 120) {
        uint32_t r[10];
        for (unsigned i = 0; i < 10; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            r[i] = (uint32_t)(seed >> 33);
        }
        const struct shape shape = {"", 2 + r[0] % 6, 1 + r[1] % 4, 1 + r[2] % 2, 1 + r[3] % 3, 1, 1 + r[4] % 3};
        const struct engines p = {1 + r[5] % 8, 1 + r[6] % 4, 1}, d = {1 + r[7] % 8, 1 + r[8] % 4, 1};
        uint32_t ranks = p.num * p.tp + d.num * d.tp, seat_of[32];
        struct cluster c;
        struct job j;
        struct board b;
        if (ranks <= EXACT_RANKS_MAX || ranks > 32)
            continue;
        shape_build(&shape, NULL, &c);
        engines_build(&p, &d, insides[r[9] % 6], &j);
        assert_int_equal(board_init(&b, &c, &j, &none, BOARD_RANKS), 0);
        if (place_find(&c, &j, &none, seat_of) == PLACE_GOOD) {
            double found = place_value(&c, &j, &none, seat_of).cost, best = found;
            for (unsigned i = 0; i < 40; i++) {
                board_clear(&b);
                if (!start_random(&b, &random))
                    continue;
                assert_int_equal(improve_nodes(&b) | improve_seats(&b), 0);
                best = board_cost(&b) < best ? board_cost(&b) : best;
            }
            worst = best > 0 && found / best > worst ? found / best : worst;
            tried++;
        }
        board_fini(&b);
        job_fini(&j);
        cluster_fini(&c);
    }
    printf("%u placements, at most %.1f %% above the best of 40 further starts\n", tried, 100 * (worst - 1));
    assert_true(worst <= 1.1);
}

/* A half-full cluster, in which many exchanges can be tried. */
static void test_half_full(void **state)
{
    (void)state;
    static const struct shape shape = {"", 128, 16, 2, 2, 1, 4};
    static const struct place_rules none = {0};
    struct cluster c;
    struct job j;
    shape_build(&shape, NULL, &c);
    engines_build(&(struct engines){256, 2, 1}, &(struct engines){128, 4, 1}, 0.3, &j);
    uint32_t *seat_of = calloc(j.num_ranks, sizeof *seat_of);
    assert_non_null(seat_of);
    uint64_t began = clock_now_ns();
    assert_int_equal(place_find(&c, &j, &none, seat_of), PLACE_GOOD);
    printf("half full, %u ranks: %.2f s\n", j.num_ranks, (double)(clock_now_ns() - began) * 1e-9);
    assert_true((double)(clock_now_ns() - began) * 1e-9 < 30);
    free(seat_of);
    job_fini(&j);
    cluster_fini(&c);
}

/* Ranks of the fullest NUMA node less those of the emptiest, on one node. */
static uint32_t unevenness(const struct cluster *c, const uint32_t *seat_of, uint32_t num_ranks)
{
    uint32_t in[8] = {0}, least = UINT32_MAX, most = 0;
    assert_true(c->num_groups[CLUSTER_NUMA] <= 8);
    for (uint32_t r = 0; r < num_ranks; r++)
        in[c->group_of[CLUSTER_NUMA][seat_of[r]]]++;
    for (uint32_t i = 0; i < c->num_groups[CLUSTER_NUMA]; i++) {
        least = in[i] < least ? in[i] : least;
        most = in[i] > most ? in[i] : most;
    }
    return most - least;
}

/* A ring that two NUMA nodes share costs the same wherever it is cut in two, so it is cut in halves. */
static void test_cores_are_shared_evenly(void **state)
{
    (void)state;
    static const struct place_rules none = {0};
    for (uint32_t half = 3; half <= 8; half++)
        for (uint32_t ranks = half + 1; ranks < 2 * half; ranks++) {
            const struct shape shape = {"", 1, 1, 2, 1, 1, half};
            struct cluster c;
            struct job j;
            uint32_t seat_of[16];
            shape_build(&shape, NULL, &c);
            engines_build(&(struct engines){1, ranks, 1}, &(struct engines){0, 1, 1}, 1, &j);
            assert_int_equal(place_find(&c, &j, &none, seat_of), PLACE_GOOD);
            assert_true(unevenness(&c, seat_of, ranks) <= 1);
            double cost = place_value(&c, &j, &none, seat_of).cost;
            assert_int_equal(place_heuristic(&c, &j, &none, seat_of), PLACE_GOOD);
            assert_true(unevenness(&c, seat_of, ranks) <= 1);
            assert_true(fabs(place_value(&c, &j, &none, seat_of).cost - cost) <= 1e-9 * cost);
            job_fini(&j);
            cluster_fini(&c);
        }
}

static enum place_error place_on(unsigned shape, unsigned job, const struct place_rules *rules, uint32_t *node_of)
{
    struct cluster c;
    struct job j;
    uint32_t seat_of[64];
    shape_build(&shapes[shape], NULL, &c);
    engines_build(&jobs[job].prefill, &jobs[job].decode, 0.3, &j);
    enum place_error error = place_find(&c, &j, rules, seat_of);
    for (uint32_t r = 0; error == PLACE_GOOD && r < j.num_ranks; r++)
        node_of[r] = cluster_node(&c, seat_of[r]);
    job_fini(&j);
    cluster_fini(&c);
    return error;
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct place_rules none = {0}, straddle = {.straddle = true}, apart = {.sides = PLACE_APART};
    uint32_t node_of[64];
    assert_int_equal(place_on(2, 0, &none, node_of), PLACE_NO_FIT); /* 4 teams of 2 on 3 nodes of 3 */
    assert_int_equal(place_on(2, 0, &straddle, node_of), PLACE_GOOD);
    assert_int_equal(place_on(2, 2, &none, node_of), PLACE_TOO_FEW);
    assert_int_equal(place_on(0, 0, &apart, node_of), PLACE_NO_FIT); /* both sides on one node */
}

static void test_spread_uses_all_nodes_and_pack_few(void **state)
{
    (void)state;
    static const struct place_rules spread = {.nodes = PLACE_SPREAD}, pack = {.nodes = PLACE_PACK};
    uint32_t node_of[64];
    assert_int_equal(place_on(1, 0, &spread, node_of), PLACE_GOOD); /* 4 teams of 2 on 4 nodes of 4 */
    for (uint32_t r = 0; r < 8; r += 2)
        for (uint32_t q = r + 2; q < 8; q += 2)
            assert_int_not_equal(node_of[r], node_of[q]);
    assert_int_equal(place_on(1, 0, &pack, node_of), PLACE_GOOD);
    for (uint32_t r = 0; r < 4; r++) /* a prefill engine beside its decode engine */
        assert_int_equal(node_of[r], node_of[4 + r]);
}

static void test_a_team_larger_than_a_node_fills_nodes(void **state)
{
    (void)state;
    static const struct place_rules none = {0};
    uint32_t node_of[64], most[4] = {0};
    assert_int_equal(place_on(1, 3, &none, node_of), PLACE_GOOD); /* 4x2 + 1x8 on 4 nodes of 4 */
    for (uint32_t r = 8; r < 16; r++)
        most[node_of[r]]++;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(most[i] == 0 || most[i] == 4);
}

/* Costs alone decide where it is cut, and it may be on nodes that are never full. */
static void test_a_team_larger_than_a_node_lies_anywhere(void **state)
{
    (void)state;
    static const double cost[] = {1, 1.2, 1.6, 2, 10};
    static const uint32_t sizes[][4] = {{4, 3, 3, 0}, {4, 4, 4, 4}, {6, 6, 0, 0}, {2, 2, 3, 5}};
    static const struct place_rules none = {0}, straddle = {.straddle = true};
    static const struct engines large[] = {{1, 8, 1}, {1, 6, 1}, {1, 8, 1}, {1, 9, 1}};
    static const struct engines small[] = {{2, 1, 1}, {4, 1, 1}, {2, 1, 1}, {3, 1, 1}};
    for (unsigned i = 0; i < 4; i++) {
        struct cluster_seat seats[16] = {{{0}}};
        struct cluster c;
        struct job j;
        uint32_t seat_of[16], at = 0;
        for (uint32_t node = 0; node < 4; node++)
            for (uint32_t k = 0; k < sizes[i][node]; k++)
                seats[at++].group[CLUSTER_NODE] = node;
        assert_int_equal(cluster_init(&c, seats, at, 5, NULL, cost), 0);
        engines_build(&large[i], &small[i], 0.01, &j);
        assert_int_equal(place_find(&c, &j, &none, seat_of), PLACE_GOOD);
        assert_int_equal(place_breach(&c, &j, &none, seat_of), PLACE_KEPT);
        double found = place_value(&c, &j, &none, seat_of).cost;
        assert_int_equal(place_find(&c, &j, &straddle, seat_of), PLACE_GOOD);
        assert_true(fabs(found - place_value(&c, &j, &straddle, seat_of).cost) <= 1e-9 * found);
        job_fini(&j);
        cluster_fini(&c);
    }
}

static void test_the_same_again(void **state)
{
    (void)state;
    static const struct place_rules none = {0};
    uint32_t first[64] = {0}, second[64] = {0};
    assert_int_equal(place_on(6, 5, &none, first), PLACE_GOOD);
    assert_int_equal(place_on(6, 5, &none, second), PLACE_GOOD);
    assert_memory_equal(first, second, sizeof first);
}

/* 10,000 ranks on 1,250 nodes, 32 a switch. */
static void test_large(void **state)
{
    (void)state;
    static const struct shape shape = {"", 1250, 32, 2, 4, 1, 1};
    static const struct engines sides[4][2] = {{{625, 8, 1}, {625, 8, 1}},
                                               {{1250, 4, 1}, {625, 8, 1}},
                                               {{5000, 1, 1}, {625, 8, 1}},
                                               {{312, 16, 1}, {1250, 4, 1}}};
    static const struct place_rules none = {0};
    for (unsigned i = 0; i < LARGE_JOBS; i++) {
        struct cluster c;
        struct job j;
        shape_build(&shape, NULL, &c);
        engines_build(&sides[i][0], &sides[i][1], 0.3, &j);
        uint32_t *seat_of = calloc(j.num_ranks, sizeof *seat_of);
        assert_non_null(seat_of);
        uint64_t began = clock_now_ns();
        assert_int_equal(place_find(&c, &j, &none, seat_of), PLACE_GOOD);
        double seconds = (double)(clock_now_ns() - began) * 1e-9;
        assert_int_equal(place_breach(&c, &j, &none, seat_of), PLACE_KEPT);
        struct place_value value = place_value(&c, &j, &none, seat_of);
        struct place_value by_core = search_repaired(&c, &j, &none, PLACE_BY_CORE);
        printf("%ux%u + %ux%u, %u ranks: %.2f s, cost %.0f, filled in order %.0f\n", sides[i][0].num, sides[i][0].tp,
               sides[i][1].num, sides[i][1].tp, j.num_ranks, seconds, value.cost, by_core.cost);
        assert_true(value.cost < 0.75 * by_core.cost); /* a router's pairs are beside each other */
        assert_true(seconds < 60);
        free(seat_of);
        job_fini(&j);
        cluster_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_good_as_can_be),
        cmocka_unit_test(test_slots_are_kept),
        cmocka_unit_test(test_nodes_take_their_sides),
        cmocka_unit_test(test_nodes_of_unequal_size),
        cmocka_unit_test(test_many_units_on_a_node),
        cmocka_unit_test(test_a_job_without_flows),
        cmocka_unit_test(test_what_fits_is_placed),
        cmocka_unit_test(test_further_starts_find_little),
        cmocka_unit_test(test_half_full),
        cmocka_unit_test(test_cores_are_shared_evenly),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_spread_uses_all_nodes_and_pack_few),
        cmocka_unit_test(test_a_team_larger_than_a_node_fills_nodes),
        cmocka_unit_test(test_a_team_larger_than_a_node_lies_anywhere),
        cmocka_unit_test(test_the_same_again),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
