/* SPDX-License-Identifier: BSD-3-Clause */
/* world: what seats have in common, what ranks get, which placements hold the rules, and whether ranks are bound. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/placement.h"
#include "place/world.h"

#define NODES_MAX 8

/* Nodes n0, n1, … that are all like the machine of this text. */
static void build(struct world *w, struct machine *m, const char *text, uint32_t num, uint32_t capacity,
                  const struct network *network)
{
    static const char *const names[NODES_MAX] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    struct world_node nodes[NODES_MAX] = {{0}};
    struct machine_cut cut = {0};
    struct why why = {""};
    assert_int_equal(machine_parse(m, text, &why), 0);
    for (uint32_t i = 0; i < num; i++)
        nodes[i] = (struct world_node){.host = names[i], .machine = m, .capacity = capacity};
    assert_int_equal(world_init(w, nodes, num, &cut, network, &costs_assumed, &why), 0);
}

/* ---- distances --------------------------------------------------------------------------------------------------- */

/* Switches of three heights, between costs 10 and 20. */
static void test_steps_between_switches(void **state)
{
    (void)state;
    static const char text[] = "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n2\nSwitchName=c Nodes=n3\n"
                               "SwitchName=d Switches=a,b\nSwitchName=e Switches=c\nSwitchName=f Switches=d,e\n";
    struct network network;
    struct machine m;
    struct world w;
    struct why why = {""};
    assert_int_equal(network_read(&network, text, &why), 0);
    build(&w, &m, "C2:0.2.1.0:0.2.1.0:0.2.1.0:1.2.1.0:0.1.2.1", 4, 1, &network);
    const uint32_t far = w.cluster.num_levels - 1;
    assert_true(fabs(w.cluster.cost[CLUSTER_NETWORK] - 10) < 1e-9);
    assert_true(fabs(w.cluster.cost[far] - 20) < 1e-9);
    for (uint32_t level = CLUSTER_NETWORK; level < far; level++)
        assert_true(fabs(w.cluster.cost[level + 1] - w.cluster.cost[level] - 10.0 / (far - CLUSTER_NETWORK)) < 1e-9);
    world_fini(&w);
    machine_fini(&m);
    network_fini(&network);
}

/* Two seats that each span both NUMA nodes of their package have no NUMA node in common, but their package. */
static void test_large_seats_have_groups_of_their_own(void **state)
{
    (void)state;
    struct machine m;
    struct world w;
    build(&w, &m, "C16:0.4.4.1:0.4.4.1:0.8.2.1:1.16.1.0:0.1.16.1", 1, 2, NULL); /* a package a seat */
    assert_int_equal(w.nodes[0].num_seats, 2);
    assert_int_equal(cluster_level(&w.cluster, 0, 1), CLUSTER_NODE);
    world_fini(&w);
    machine_fini(&m);
    build(&w, &m, "C16:0.4.4.1:0.4.4.1:0.16.1.0:1.16.1.0:0.1.16.1", 1, 2,
          NULL); /* two NUMA nodes of one package each */
    assert_int_equal(cluster_level(&w.cluster, 0, 1), CLUSTER_PACKAGE);
    world_fini(&w);
    machine_fini(&m);
}

/* ---- what ranks get ---------------------------------------------------------------------------------------------- */

/* One rank has its NUMA node's cores, two share them out, and those of another NUMA node stay free. */
static void test_ranks_have_free_cores_too(void **state)
{
    (void)state;
    struct machine m;
    struct world w;
    struct world_place places[3];
    build(&w, &m, "C16:0.1.16.1:0.8.2.1:0.16.1.0:1.16.1.0:0.1.16.1", 1, 8, NULL);
    static const uint32_t one[] = {1}, three[] = {1, 3, 6};
    assert_int_equal(world_places(&w, one, 1, places), 0);
    assert_int_equal(places[0].seat.first_core, 0);
    assert_int_equal(places[0].seat.end_core, 8);
    assert_int_equal(world_places(&w, three, 3, places), 0);
    assert_int_equal(places[0].seat.end_core, 4);
    assert_int_equal(places[1].seat.first_core, 4);
    assert_int_equal(places[1].seat.end_core, 8);
    assert_int_equal(places[2].seat.first_core, 8);
    assert_int_equal(places[2].seat.end_core, 16);
    world_fini(&w);
    machine_fini(&m);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* Two nodes of four seats that take three ranks each, the second one decode ranks alone; teams of 2 and 2. */
static void test_breaches(void **state)
{
    (void)state;
    static const double cost[] = {1, 1.2, 1.6, 2, 10};
    static const struct job_team teams[] = {{0, 2, JOB_PREFILL, 0}, {2, 2, JOB_DECODE, 0}};
    static const struct place_rules none = {0}, apart = {.sides = PLACE_APART}, straddle = {.straddle = true};
    static const struct {
        uint32_t seat_of[4];
        const struct place_rules *rules;
        enum place_breach breach;
    } cases[] = {
        {{0, 1, 4, 5}, &none, PLACE_KEPT},         {{0, 1, 4, 5}, &apart, PLACE_KEPT},
        {{0, 1, 2, 3}, &none, PLACE_BREACH_SEATS}, /* four ranks on a node that takes three */
        {{0, 0, 4, 5}, &none, PLACE_BREACH_SEATS}, {{0, 1, 4, 8}, &none, PLACE_BREACH_SEATS},
        {{0, 1, 3, 4}, &none, PLACE_BREACH_TEAM},  {{0, 1, 3, 4}, &straddle, PLACE_KEPT},
        {{4, 5, 0, 1}, &none, PLACE_BREACH_SIDES}, {{0, 4, 1, 5}, &straddle, PLACE_BREACH_SIDES},
        {{0, 1, 2, 4}, &apart, PLACE_BREACH_TEAM},
    };
    struct cluster_seat seats[8] = {{{0}}};
    struct cluster c;
    struct job j;
    for (uint32_t i = 0; i < 8; i++)
        seats[i].group[CLUSTER_NODE] = i / 4;
    assert_int_equal(cluster_init(&c, seats, 8, 5, (const uint32_t[]){3, 3}, cost), 0);
    cluster_set_sides(&c, (const uint8_t[]){0xff, 1 << JOB_DECODE});
    assert_int_equal(job_init(&j, teams, 2, NULL, 0), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(place_breach(&c, &j, cases[i].rules, cases[i].seat_of), cases[i].breach);
    }
    cluster_fini(&c);
    assert_int_equal(cluster_init(&c, seats, 8, 5, NULL, cost), 0);
    assert_int_equal(place_breach(&c, &j, &apart, (const uint32_t[]){0, 1, 2, 3}), PLACE_BREACH_SIDES);
    assert_int_equal(place_breach(&c, &j, &none, (const uint32_t[]){0, 1, 2, 3}), PLACE_KEPT);
    cluster_fini(&c);
    job_fini(&j);
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */

static double bytes_between(const struct job *j, uint32_t a, uint32_t b)
{
    for (uint32_t f = j->first_flow[a]; f < j->first_flow[a + 1]; f++)
        if (j->flows[f].peer == b)
            return j->flows[f].bytes;
    return 0;
}

/* An engine of TP 2 and two stages: hidden values go from each rank to that of the next stage, and round the rings. */
static void test_flows_within_an_engine(void **state)
{
    (void)state;
    static const struct engine_size sizes[JOB_SIDES] = {{1, 2, 2}, {0, 1, 1}};
    const struct flows_source source = {.sizes = sizes,
                                        .load = {.tokens = {100, 0}, .layers = 32, .token_bytes = 8, .inside = 0.5}};
    struct job j;
    struct why why = {""};
    assert_int_equal(flows_job(&source, NULL, &j, &why), 0);
    const double values = 100 * 8 * 0.5;
    assert_true(fabs(bytes_between(&j, 0, 2) - values) < 1e-9);
    assert_true(fabs(bytes_between(&j, 1, 3) - values) < 1e-9);
    assert_true(fabs(bytes_between(&j, 0, 3)) < 1e-9);
    /* both directions of a ring of two: each 4 (t - 1) / t values a layer of the stage */
    assert_true(fabs(bytes_between(&j, 0, 1) - 2 * 4.0 / 2 * values * 16) < 1e-6);
    assert_true(fabs(bytes_between(&j, 2, 3) - bytes_between(&j, 0, 1)) < 1e-9);
    job_fini(&j);
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static void place_engines(struct placement *p, const char *hosts, const char *topology, struct engine_size prefill,
                          bool oversubscribe)
{
    const struct engine_size sizes[JOB_SIDES] = {prefill, {0, 1, 1}};
    struct placement_options o = placement_defaults();
    struct why why = {""};
    o.hosts = hosts;
    o.topologies[0] = topology;
    o.oversubscribe = oversubscribe;
    if (placement_find(p, &o, sizes, NULL, NULL, &why) != 0)
        fail_msg("%s", why.text);
}

static void place(struct placement *p, const char *hosts, const char *topology, uint32_t prefill, bool oversubscribe)
{
    place_engines(p, hosts, topology, (struct engine_size){prefill, 1, 1}, oversubscribe);
}

/* Two hosts of three cores get 12 ranks: two TP groups of 4 and one, not 6 ranks each. */
static void test_crowded_hosts_take_whole_groups(void **state)
{
    (void)state;
    struct placement p;
    place_engines(&p, "a,b", "core:3 pu:1", (struct engine_size){3, 4, 1}, true);
    assert_true(p.crowded);
    for (uint32_t r = 0; r < 12; r++)
        assert_int_equal(p.places[r].node, p.places[r / 4 * 4].node);
    placement_fini(&p);
}

/* Nobody named slots on this machine: GPUs do not count where there are fewer than ranks. */
static void test_fewer_gpus_than_ranks(void **state)
{
    (void)state;
    struct placement p;
    place(&p, NULL, TEST_DATA "/topo-2numa-gpus.xml", 6, false);
    assert_false(p.crowded);
    for (uint32_t r = 0; r < 6; r++)
        assert_int_equal(p.places[r].seat.num_gpus, 0);
    placement_fini(&p);
    place(&p, NULL, TEST_DATA "/topo-2numa-gpus.xml", 4, false);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(p.places[r].seat.num_gpus, 1);
    placement_fini(&p);
}

/* Ranks that share cores are not bound, nor are they where there are more than there is room for. */
static void test_binding(void **state)
{
    (void)state;
    struct placement p;
    place(&p, "a:2", "core:8 pu:2", 2, false);
    assert_true(placement_can_bind(&p));
    p.crowded = true;
    assert_false(placement_can_bind(&p));
    p.crowded = false;
    p.places[1].seat.first_core = p.places[0].seat.end_core - 1;
    assert_false(placement_can_bind(&p));
    placement_fini(&p);
    place(&p, "a:2", "core:8 pu:2", 4, true);
    assert_true(p.crowded);
    assert_false(placement_can_bind(&p));
    placement_fini(&p);
}

/* The only adapter of a host is no choice. */
static void test_adapters(void **state)
{
    (void)state;
    static const char *const machines[] = {TEST_DATA "/machines/24em64t-2n6c2t-pci.xml",
                                           TEST_DATA "/topo-2numa-gpus.xml"};
    struct placement p;
    place(&p, "a:2", machines[0], 2, false);
    assert_int_equal(p.machines[0].num_nics, 1);
    assert_null(placement_adapter(&p, 0));
    placement_fini(&p);
    place(&p, "a:2", machines[1], 2, false);
    assert_int_equal(p.machines[0].num_nics, 2);
    assert_string_equal(placement_adapter(&p, 0), "mlx5_0");
    placement_fini(&p);
}

/* A core is in the NUMA node of its package, not in that of slower memory that all packages share. */
static void test_two_kinds_of_memory(void **state)
{
    (void)state;
    struct machine m;
    struct why why = {""};
    if (machine_read(&m, MACHINE_SYNTHETIC, "[numa] pack:2 [numa] core:2 pu:1", &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(m.num_cores, 4);
    assert_int_equal(m.cores[0].numa, m.cores[1].numa);
    assert_int_not_equal(m.cores[1].numa, m.cores[2].numa);
    assert_int_equal(m.cores[2].numa, m.cores[3].numa);
    machine_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_between_switches),
        cmocka_unit_test(test_large_seats_have_groups_of_their_own),
        cmocka_unit_test(test_ranks_have_free_cores_too),
        cmocka_unit_test(test_breaches),
        cmocka_unit_test(test_flows_within_an_engine),
        cmocka_unit_test(test_crowded_hosts_take_whole_groups),
        cmocka_unit_test(test_fewer_gpus_than_ranks),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_two_kinds_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
