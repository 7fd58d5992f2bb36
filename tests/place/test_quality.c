/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quality: placements on machines as hwloc describes them, by the whole way from the options of batonrun. Prints a
 * table with each placement's gap to the best one and to the mappings of launchers. Each rank's cores are within its
 * NUMA node, and its GPU and NIC are the nearest, by hwloc's own word.
 */
#include <hwloc.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batonrun/bind.h"
#include "batonrun/placement.h"
#include "with_search.h"

#define MACHINES TEST_DATA "/machines/"

static const struct {
    const char *name, *topology;
} machines[] = {
    {"8 GPUs, 8 NICs, 2x4 NUMA", MACHINES "8gpu-8nic-8numa.xml"},
    {"2 GPUs, 1 NIC, 2x1 NUMA", MACHINES "32em64t-2n8c2t-pci-normalio.xml"},
    {"2 NICs, 2x2 NUMA", MACHINES "28intel64-2p2g7c-CoDgroups.v1tov2.xml"},
    {"1 NIC, 2x1 NUMA", MACHINES "24em64t-2n6c2t-pci.xml"},
    {"8x1 NUMA", MACHINES "16amd64-4distances.xml"},
    {"4 packages, 1 NUMA", MACHINES "16em64t-4s2c2t.xml"},
    {"synthetic, 2x4 NUMA", "pack:2 numa:4 l3:1 core:2 pu:2"},
};
#define NUM_MACHINES (sizeof machines / sizeof machines[0])

static const uint32_t node_counts[] = {1, 2, 3, 4, 8, 16, 64};
#define NUM_COUNTS (sizeof node_counts / sizeof node_counts[0])

#define PER_SWITCH 8

/* `model`: one whose heads such engines can share out. */
static const struct {
    const char *name, *model;
    struct engine_size sizes[JOB_SIDES];
} jobs[] = {
    {"2x2 + 2x2", "llama3-8b", {{2, 2, 1}, {2, 2, 1}}},       {"2x2 + 1x4", "llama3-8b", {{2, 2, 1}, {1, 4, 1}}},
    {"1x8 + 2x4", "llama3-8b", {{1, 8, 1}, {2, 4, 1}}},       {"4x2 + 1x8", "llama3-8b", {{4, 2, 1}, {1, 8, 1}}},
    {"1x3 + 2x2", "deepseek-v3", {{1, 3, 1}, {2, 2, 1}}},     {"2x4x2 + 4x2", "llama3-8b", {{2, 4, 2}, {4, 2, 1}}},
    {"8x1 + 1x8", "llama3-8b", {{8, 1, 1}, {1, 8, 1}}},       {"3x2 + 2x3", "deepseek-v3", {{3, 2, 1}, {2, 3, 1}}},
    {"2x2 + 2x2 MLA", "deepseek-v3", {{2, 2, 1}, {2, 2, 1}}}, {"1x4 + 1x4 MLA", "deepseek-v3", {{1, 4, 1}, {1, 4, 1}}},
    {"1x8 + 2x4 MLA", "deepseek-v3", {{1, 8, 1}, {2, 4, 1}}}, {"1x2x2 + 3x2", "llama3-8b", {{1, 2, 2}, {3, 2, 1}}},
    {"2x1 + 2x4", "llama3-8b", {{2, 1, 1}, {2, 4, 1}}},
};
#define NUM_JOBS (sizeof jobs / sizeof jobs[0])

/* Weights of an engine's own traffic: with it a TP group is kept near; without it only transfers count. */
static const double insides[] = {1, 0};

/* ---- one placement ----------------------------------------------------------------------------------------------- */

/* "n0,n1,…", and the switches above them in a file. */
static void name_hosts(uint32_t num, char *hosts, size_t room, const char *network)
{
    size_t at = 0;
    FILE *f = fopen(network, "w");
    assert_non_null(f);
    for (uint32_t i = 0; i < num; i++)
        at += (size_t)snprintf(hosts + at, room - at, "%sn%u", i > 0 ? "," : "", i);
    assert_true(at < room);
    for (uint32_t i = 0; i < num; i += PER_SWITCH)
        fprintf(f, "SwitchName=s%u Nodes=n[%u-%u]\n", i / PER_SWITCH, i, i + PER_SWITCH - 1);
    fclose(f);
}

struct tally {
    unsigned placed, refused, searched;
    double worst, worst_of_heuristics, least_by_core, least_by_node;
};

/* "1.23", or "-" where the rules leave that mapping no way. */
static const char *ratio_text(struct place_value other, struct place_value here, double *least, char text[16])
{
    double ratio = here.cost > 0 ? other.cost / here.cost : 1;
    if (other.broken == UINT64_MAX)
        return "-";
    *least = ratio < *least ? ratio : *least;
    snprintf(text, 16, "%.2f", ratio);
    return text;
}

static double gap_to(struct place_value here, struct place_value best)
{
    assert_int_equal(here.broken, best.broken);
    return best.cost > 0 ? here.cost / best.cost - 1 : here.cost;
}

static double gap_of_heuristics(const struct placement *p, const struct place_rules *rules, struct place_value best)
{
    uint32_t seat_of[EXACT_RANKS_MAX];
    assert_int_equal(place_heuristic(&p->world.cluster, &p->job, rules, seat_of), PLACE_GOOD);
    return gap_to(place_value(&p->world.cluster, &p->job, rules, seat_of), best);
}

/* A launcher's mapping, with the flows that follow from it where several ranks hold the same heads. */
static struct place_value value_of(const struct placement *p, const struct place_rules *rules, enum place_default how)
{
    const struct cluster *c = &p->world.cluster;
    struct place_value value = search_repaired(c, &p->job, rules, how);
    struct choice choice = placement_choice(p, rules);
    uint32_t seat_of[64];
    struct job own;
    struct why why;
    enum place_error error = place_repaired(c, &p->job, rules, how, seat_of);
    assert_int_equal(error == PLACE_GOOD, value.broken != UINT64_MAX);
    if (error != PLACE_GOOD)
        return value;
    assert_int_equal(place_breach(c, &p->job, rules, seat_of), PLACE_KEPT);
    assert_int_equal(choice_job(&choice, seat_of, p->job.num_ranks, &own, &why), 0);
    struct place_value with_own = place_value(c, &own, rules, seat_of);
    assert_true(p->serve->has_replicas || fabs(with_own.cost - value.cost) <= 1e-9 * value.cost);
    job_fini(&own);
    return with_own;
}

static void judge(const struct placement *p, const char *name, struct tally *t)
{
    static const struct place_rules rules = {0};
    const struct cluster *c = &p->world.cluster;
    char by_core[16], by_node[16];
    assert_int_equal(place_breach(c, &p->job, &rules, p->seat_of), PLACE_KEPT);
    struct place_value value = place_value(c, &p->job, &rules, p->seat_of);
    struct place_value core = value_of(p, &rules, PLACE_BY_CORE), node = value_of(p, &rules, PLACE_BY_NODE);
    assert_false(value_is_less(core, value) || value_is_less(node, value));
    printf("%s %14.0f %8s %8s", name, value.cost / 1e6, ratio_text(core, value, &t->least_by_core, by_core),
           ratio_text(node, value, &t->least_by_node, by_node));
    t->placed++;
    if (search_reaches(&p->job, &rules)) {
        struct place_value best = search_best(c, &p->job, &rules);
        double gap = gap_to(value, best), of_heuristics = gap_of_heuristics(p, &rules, best);
        printf(" %9.1f %% %9.1f %%", 100 * gap, 100 * of_heuristics);
        assert_true(gap <= 0.05);
        t->worst = fmax(t->worst, gap);
        t->worst_of_heuristics = fmax(t->worst_of_heuristics, of_heuristics);
        t->searched++;
    }
    puts("");
}

static void check(const char *machine, const char *topology, uint32_t nodes, unsigned job, double inside,
                  struct tally *t)
{
    char hosts[1024], network[] = "/tmp/test_quality.XXXXXX", name[96];
    struct placement_options o = placement_defaults();
    struct placement p;
    struct why why = {""};
    int fd = mkstemp(network);
    assert_true(fd >= 0 && close(fd) == 0);
    name_hosts(nodes, hosts, sizeof hosts, network);
    o.hosts = hosts;
    o.topologies[0] = topology;
    o.network = network;
    o.inside = inside;
    assert_int_equal(cut_read_model(NULL, jobs[job].model, &o.cut.model, &why), 0);
    snprintf(name, sizeof name, "%-25s %5u  %-13s %6.0f", machine, nodes, jobs[job].name, inside);
    if (placement_find(&p, &o, jobs[job].sizes, NULL, NULL, &why) == 0) {
        judge(&p, name, t);
    } else { /* there is no way, if all are tried */
        static const struct place_rules rules = {0};
        assert_true(strstr(why.text, "do not fit") != NULL || strstr(why.text, "hosts take") != NULL ||
                    strstr(why.text, "host takes") != NULL);
        assert_true(!search_reaches(&p.job, &rules) || cluster_room(&p.world.cluster) < p.job.num_ranks ||
                    search_best(&p.world.cluster, &p.job, &rules).broken == UINT64_MAX);
        t->refused++;
    }
    placement_fini(&p);
    unlink(network);
}

static void test_gaps(void **state)
{
    (void)state;
    struct tally t = {.least_by_core = INFINITY, .least_by_node = INFINITY};
    puts("cost: bytes times distance, in millions. by core, by node: that of launchers' mappings, once they hold the\n"
         "rules, over it. gap: to the best placement, of this one and of the heuristics alone. Engines marked MLA, and "
         "those\n"
         "with 3 ranks, hold the same heads several times: flows are those that follow from each placement.\n");
    printf("%-25s %5s  %-13s %6s %14s %8s %8s %11s %11s\n", "machine", "nodes", "engines", "inside", "cost", "by core",
           "by node", "gap", "heuristics");
    for (unsigned m = 0; m < NUM_MACHINES; m++)
        for (unsigned n = 0; n < NUM_COUNTS; n++)
            for (unsigned j = 0; j < NUM_JOBS; j++)
                for (unsigned i = 0; i < 2; i++)
                    check(machines[m].name, machines[m].topology, node_counts[n], j, insides[i], &t);
    printf(
        "\n%u placed, %u do not fit; %u compared with all placements: at most %.1f %% above the best, the heuristics "
        "alone %.1f %%; at least %.2f times as good as by core, %.2f by node\n",
        t.placed, t.refused, t.searched, 100 * t.worst, 100 * t.worst_of_heuristics, t.least_by_core, t.least_by_node);
    assert_true(t.placed > 700 && t.searched > 300);
}

/* A mapping in order may be the best where hosts are of several kinds. */
static void test_hosts_of_several_kinds(void **state)
{
    (void)state;
    static const struct engine_size sizes[JOB_SIDES] = {{2, 3, 2}, {4, 2, 1}};
    struct tally t = {.least_by_core = INFINITY, .least_by_node = INFINITY};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct why why = {""};
    o.hosts = "n0:5,n1:5,n2:1,n3,n4";
    o.topologies[0] = "pack:3 l3:2 core:2 pu:1";
    o.topologies[1] = "n4=" MACHINES "16amd64-4distances.xml";
    assert_int_equal(cut_read_model(NULL, "llama3-8b", &o.cut.model, &why), 0);
    if (placement_find(&p, &o, sizes, NULL, NULL, &why) != 0)
        fail_msg("%s", why.text);
    judge(&p, "several kinds of hosts", &t);
    placement_fini(&p);
}

static double cost_on(const char *hosts, const char *topology, const struct engine_size *sizes)
{
    static const struct place_rules rules = {0};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct why why = {""};
    o.hosts = hosts;
    o.topologies[0] = topology;
    if (placement_find(&p, &o, sizes, NULL, NULL, &why) != 0)
        fail_msg("%s", why.text);
    double cost = place_value(&p.world.cluster, &p.job, &rules, p.seat_of).cost;
    placement_fini(&p);
    return cost;
}

/* A placement on fewer slots is one on more slots too. */
static void test_more_slots_cost_no_more(void **state)
{
    (void)state;
    static const struct engine_size sizes[JOB_SIDES] = {{4, 1, 2}, {5, 1, 1}};
    static const char topology[] = "pack:2 numa:3 core:2 pu:2";
    assert_true(cost_on("n0:12,n1:12", topology, sizes) <= cost_on("n0:10,n1:3", topology, sizes));
}

/* ---- flows that depend on places --------------------------------------------------------------------------------- */

struct all {
    const struct placement *placement;
    struct choice choice;
    uint32_t seat_of[8];
    struct place_value least;
};

static void try_all(struct all *a, uint32_t rank)
{
    const struct cluster *c = &a->placement->world.cluster;
    const struct job *j = &a->placement->job;
    if (rank == j->num_ranks) {
        struct job own;
        struct why why;
        if (place_breach(c, j, a->choice.rules, a->seat_of) != PLACE_KEPT)
            return;
        assert_int_equal(choice_job(&a->choice, a->seat_of, rank, &own, &why), 0);
        struct place_value value = place_value(c, &own, a->choice.rules, a->seat_of);
        if (value_is_less(value, a->least))
            a->least = value;
        job_fini(&own);
        return;
    }
    for (a->seat_of[rank] = 0; a->seat_of[rank] < c->num_seats; a->seat_of[rank]++) {
        uint32_t k = 0;
        while (k < rank && a->seat_of[k] != a->seat_of[rank])
            k++;
        if (k == rank)
            try_all(a, rank + 1);
    }
}

/* Each of the prefill ranks holds all that the decode ranks read. */
static void test_the_nearest_replica(void **state)
{
    (void)state;
    static const struct {
        const char *hosts, *topology;
        struct engine_size sizes[JOB_SIDES];
        double inside;
    } worlds[] = {
        {"a,b", "pack:2 numa:2 core:1 pu:2", {{1, 2, 1}, {1, 2, 1}}, 0},
        {"a,b", "pack:2 numa:2 core:1 pu:2", {{1, 2, 1}, {1, 2, 1}}, 1},
        {"a,b", "pack:2 numa:2 core:1 pu:2", {{1, 3, 1}, {1, 2, 1}}, 0},
        {"a,b", "pack:2 numa:2 core:1 pu:2", {{1, 2, 1}, {1, 3, 1}}, 0.01},
        {"a,b,c", "pack:2 numa:1 core:1 pu:2", {{1, 2, 1}, {3, 1, 1}}, 0.001},
        {"a,b,c", "pack:1 numa:2 core:1 pu:2", {{1, 3, 1}, {2, 1, 1}}, 0.01},
    };
    for (unsigned i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        static const struct place_rules rules = {0};
        struct placement_options o = placement_defaults();
        struct placement p;
        struct why why = {""};
        o.hosts = worlds[i].hosts;
        o.topologies[0] = worlds[i].topology;
        o.inside = worlds[i].inside;
        assert_int_equal(cut_read_model(NULL, "deepseek-v3", &o.cut.model, &why), 0);
        if (placement_find(&p, &o, worlds[i].sizes, NULL, NULL, &why) != 0)
            fail_msg("%s", why.text);
        assert_true(p.serve->has_replicas);
        struct all a = {&p, placement_choice(&p, &rules), {0}, {UINT64_MAX, 0}};
        struct place_value value = place_value(&p.world.cluster, &p.job, &rules, p.seat_of);
        try_all(&a, 0);
        printf("world %u: %.0f, the best of all %.0f\n", i, value.cost / 1e6, a.least.cost / 1e6);
        assert_true(value.cost <= 1.05 * a.least.cost);
        placement_fini(&p);
    }
}

/* ---- what ranks get ---------------------------------------------------------------------------------------------- */

static hwloc_topology_t load(const char *path)
{
    hwloc_topology_t t;
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_xml(t, path), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    return t;
}

/* The hardware threads that a device of that name is attached to. */
static hwloc_const_bitmap_t near_device(hwloc_topology_t t, const char *name)
{
    for (hwloc_obj_t os = NULL; (os = hwloc_get_next_osdev(t, os)) != NULL;)
        if (strcmp(os->name, name) == 0)
            return hwloc_get_non_io_ancestor_obj(t, os)->cpuset;
    fail_msg("hwloc knows no device %s", name);
    return NULL;
}

/* No other network device is attached to fewer hardware threads that include these. */
static void check_nic(hwloc_topology_t t, const struct machine_device *nic, hwloc_const_bitmap_t cpus)
{
    int width = nic != NULL ? hwloc_bitmap_weight(near_device(t, nic->name)) : INT_MAX;
    assert_true(nic == NULL || hwloc_bitmap_isincluded(cpus, near_device(t, nic->name)));
    for (hwloc_obj_t os = NULL; (os = hwloc_get_next_osdev(t, os)) != NULL;) {
        hwloc_const_bitmap_t near = near_device(t, os->name);
        if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && hwloc_bitmap_isincluded(cpus, near))
            assert_true(hwloc_bitmap_weight(near) >= width);
    }
}

/* A rank's hardware threads, its helpers' among them, are those of one NUMA node, near its GPU, and no other rank's. */
static void check_rank(const struct placement *p, hwloc_topology_t t, uint32_t rank, const char *bindings,
                       hwloc_bitmap_t taken)
{
    const struct world_place *place = &p->places[rank];
    const struct machine *m = p->world.nodes[place->node].machine;
    struct bind_place found;
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc(), helpers = hwloc_bitmap_alloc();
    hwloc_obj_t numa = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, m->cores[place->seat.first_core].numa);
    assert_true(bind_find(bindings, rank, &found));
    assert_int_equal(hwloc_bitmap_list_sscanf(cpus, found.cpus), 0);
    assert_int_equal(hwloc_bitmap_list_sscanf(helpers, found.helpers), 0);
    assert_true(hwloc_bitmap_weight(cpus) >= 1 && hwloc_bitmap_weight(helpers) >= 1);
    assert_false(hwloc_bitmap_intersects(cpus, helpers));
    hwloc_bitmap_or(cpus, cpus, helpers);
    assert_true(hwloc_bitmap_isincluded(cpus, numa->cpuset));
    assert_false(hwloc_bitmap_intersects(cpus, taken));
    hwloc_bitmap_or(taken, taken, cpus);
    assert_int_equal(place->seat.num_gpus, m->num_gpus > 0);
    for (uint32_t i = 0; i < place->seat.num_gpus; i++)
        assert_true(hwloc_bitmap_isincluded(cpus, near_device(t, m->gpus[place->seat.first_gpu + i].name)));
    check_nic(t, place->nic, cpus);
    hwloc_bitmap_free(cpus);
    hwloc_bitmap_free(helpers);
}

#define HOSTS 12

static void check_places(const char *topology, const struct engine_size *sizes)
{
    static const char hosts[] = "n0,n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11";
    struct placement_options o = placement_defaults();
    struct placement p;
    struct why why = {""};
    hwloc_bitmap_t taken[HOSTS];
    hwloc_topology_t t = load(topology);
    for (unsigned i = 0; i < HOSTS; i++)
        taken[i] = hwloc_bitmap_alloc();
    o.hosts = hosts;
    o.topologies[0] = topology;
    if (placement_find(&p, &o, sizes, NULL, NULL, &why) != 0)
        fail_msg("%s: %s", topology, why.text);
    assert_true(placement_can_bind(&p));
    char *bindings = placement_bindings(&p);
    assert_non_null(bindings);
    for (uint32_t r = 0; r < p.job.num_ranks; r++)
        check_rank(&p, t, r, bindings, taken[p.places[r].node]);
    free(bindings);
    placement_fini(&p);
    for (unsigned i = 0; i < HOSTS; i++)
        hwloc_bitmap_free(taken[i]);
    hwloc_topology_destroy(t);
}

static void test_ranks_have_what_is_near(void **state)
{
    (void)state;
    for (unsigned m = 0; m < NUM_MACHINES; m++)
        for (unsigned j = 0; j < NUM_JOBS && strstr(machines[m].topology, ".xml") != NULL; j++)
            check_places(machines[m].topology, jobs[j].sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_hosts_of_several_kinds),
        cmocka_unit_test(test_more_slots_cost_no_more),
        cmocka_unit_test(test_the_nearest_replica),
        cmocka_unit_test(test_ranks_have_what_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
