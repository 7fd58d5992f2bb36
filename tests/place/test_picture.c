/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture: the graph of a placement has each rank once, within its NUMA node, package and node, with what it got; each
 * device once, where it is; and the flows between ranks with their bytes, the heaviest where there are many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batonrun/placement.h"
#include "place/explain.h"
#include "place/pairs.h"
#include "place/picture.h"
#include "with_dot.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void read_graph(struct dot_read *graph, struct placement *p, const struct placement_options *options,
                       const struct engine_size *sizes)
{
    char path[] = "/tmp/test_picture.XXXXXX", *text = NULL;
    struct placement_options o = *options;
    struct why why = {""};
    int fd = mkstemp(path);
    size_t room = 0;
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "r");
    assert_non_null(f);
    o.picture.dot = path;
    if (placement_find(p, &o, sizes, NULL, NULL, &why) != 0 || placement_write_picture(p, &why) != 0)
        fail_msg("%s", why.text);
    assert_true(getdelim(&text, &room, '\0', f) > 0);
    fclose(f);
    unlink(path);
    dot_read(graph, text);
    free(text);
}

static const struct dot_thing *rank_of(const struct dot_read *g, uint32_t rank)
{
    char name[16];
    snprintf(name, sizeof name, "r%u", rank);
    return dot_find(g->nodes, g->num_nodes, name);
}

/* Those whose names begin so. */
static uint32_t count(const struct dot_thing *things, uint32_t num, const char *kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < num; i++)
        n += strncmp(things[i].name, kind, strlen(kind)) == 0;
    return n;
}

/* The cluster is of that kind, and its label begins with this. */
static const struct dot_thing *check_cluster(const struct dot_read *g, uint32_t number, const char *kind,
                                             const char *title)
{
    assert_true(number < g->num_clusters);
    const struct dot_thing *c = &g->clusters[number];
    assert_int_equal(strncmp(c->name, kind, strlen(kind)), 0);
    assert_true(dot_has(c->label, title) && strncmp(c->label, title, strlen(title)) == 0);
    return c;
}

/* ---- ranks and devices ------------------------------------------------------------------------------------------- */

static void check_rank(const struct dot_read *g, const struct placement *p, uint32_t rank)
{
    const struct world_place *place = &p->places[rank];
    const struct world_node *node = &p->world.nodes[place->node];
    const struct machine_core *core = &node->machine->cores[place->seat.first_core];
    const struct job_team *team = &p->job.teams[p->job.team_of[rank]];
    const struct engine_size *size = &p->sizes[team->side];
    const uint32_t in_engine = rank - flows_first_rank(p->sizes, team->side, team->engine);
    const struct dot_thing *r = rank_of(g, rank);
    char line[256], range[32];
    int at = snprintf(line, sizeof line, "%u: %s%u tp %u", rank, pairs_side_name(team->side), team->engine,
                      in_engine % size->tp);
    if (size->pp > 1)
        snprintf(line + at, sizeof line - (size_t)at, " pp %u", in_engine / size->tp);
    assert_true(dot_has(r->label, line));
    explain_range(place->seat.first_core, place->seat.end_core - 1, range);
    snprintf(line, sizeof line, "cores %s", placement_can_bind(p) ? range : "all");
    assert_true(dot_has(r->label, line));
    for (uint32_t i = 0; i < place->seat.num_gpus; i++)
        assert_non_null(strstr(r->label, node->machine->gpus[place->seat.first_gpu + i].name));
    assert_true(place->nic == NULL || dot_has(r->label, place->nic->name));
    assert_int_equal(strstr(r->style, "rounded") != NULL, team->side == JOB_DECODE);
    snprintf(line, sizeof line, "NUMA node %u", core->numa);
    const struct dot_thing *c = check_cluster(g, r->within, "cluster_numa", line);
    snprintf(line, sizeof line, "package %u", core->package);
    c = check_cluster(g, c->within, "cluster_package", line);
    check_cluster(g, c->within, "cluster_node", node->host);
}

/* Each NUMA node has ranks, or one node that says that it has none: Graphviz does not draw an empty cluster. */
static void check_free(const struct dot_read *g)
{
    for (uint32_t i = 0; i < g->num_clusters; i++) {
        uint32_t ranks = 0, others = 0;
        for (uint32_t k = 0; k < g->num_nodes; k++)
            if (g->nodes[k].within == i) {
                ranks += g->nodes[k].name[0] == 'r';
                others += strcmp(g->nodes[k].label, "no rank") == 0;
            }
        if (strncmp(g->clusters[i].name, "cluster_numa", 12) == 0)
            assert_int_equal(others, ranks == 0);
    }
}

/* It stands once within the node, at the cores that are near it. */
static void check_device(const struct dot_read *g, uint32_t node, const struct machine *m, bool is_gpu,
                         const struct machine_device *d)
{
    const struct machine_core *first = &m->cores[d->first_core], *last = &m->cores[d->end_core - 1];
    const bool in_package = first->package == last->package, in_numa = in_package && first->numa == last->numa;
    char name[64], line[MACHINE_DEVICE_BYTES + 8];
    const struct dot_thing *found = NULL;
    snprintf(line, sizeof line, "%s %s", is_gpu ? "GPU" : "NIC", d->name);
    for (uint32_t i = 0; i < g->num_clusters; i++) {
        uint32_t top = i;
        while (g->clusters[top].within != DOT_TOP && strncmp(g->clusters[top].name, "cluster_node", 12) != 0)
            top = g->clusters[top].within;
        snprintf(name, sizeof name, "cluster_node%u_0", node);
        if (strcmp(g->clusters[top].name, name) == 0 && dot_has(g->clusters[i].label, line)) {
            assert_null(found);
            found = &g->clusters[i];
        }
    }
    if (found == NULL)
        fail_msg("the graph lacks %s", line);
    const char *kind = in_numa ? "cluster_numa" : in_package ? "cluster_package" : "cluster_node";
    assert_int_equal(strncmp(found->name, kind, strlen(kind)), 0);
    if (in_numa) {
        snprintf(line, sizeof line, "NUMA node %u", first->numa);
        assert_true(dot_has(found->label, line));
    }
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */

static double bytes_of(const struct job *j, uint32_t a, uint32_t b)
{
    for (uint32_t i = j->first_flow[a]; i < j->first_flow[a + 1]; i++)
        if (j->flows[i].peer == b)
            return j->flows[i].bytes;
    fail_msg("ranks %u and %u exchange nothing", a, b);
    return 0;
}

static bool is_inside(const struct job *j, uint32_t a, uint32_t b)
{
    return j->teams[j->team_of[a]].side == j->teams[j->team_of[b]].side;
}

/* Edges of one kind: each is a flow with its bytes, none stands twice, and none that is left out is heavier. */
static void check_flows(const struct dot_read *g, const struct placement *p, bool inside)
{
    const struct job *j = &p->job; /* within engines bytes weigh 1 by default */
    uint32_t drawn = 0, flows = 0, heavier = 0;
    double lightest = 1e300;
    for (uint32_t i = 0; i < g->num_edges; i++) {
        const struct dot_thing *e = &g->edges[i];
        char bytes[32];
        uint32_t a, b;
        assert_int_equal(sscanf(e->name, "r%u", &a), 1);
        assert_int_equal(sscanf(e->to, "r%u", &b), 1);
        rank_of(g, a);
        rank_of(g, b);
        if (is_inside(j, a, b) != inside)
            continue;
        assert_true(a < b); /* prefill comes first */
        assert_string_equal(e->style, inside ? "dashed" : "");
        assert_string_equal(e->label, explain_bytes(bytes_of(j, a, b), bytes));
        for (uint32_t k = 0; k < i; k++)
            assert_true(strcmp(g->edges[k].name, e->name) != 0 || strcmp(g->edges[k].to, e->to) != 0);
        lightest = bytes_of(j, a, b) < lightest ? bytes_of(j, a, b) : lightest;
        drawn++;
    }
    for (uint32_t r = 0; r < j->num_ranks; r++)
        for (uint32_t i = j->first_flow[r]; i < j->first_flow[r + 1]; i++)
            if (j->flows[i].peer > r && is_inside(j, r, j->flows[i].peer) == inside) {
                flows++;
                heavier += j->flows[i].bytes > lightest;
            }
    assert_int_equal(drawn, flows < PICTURE_FLOWS_MAX ? flows : PICTURE_FLOWS_MAX);
    assert_true(heavier < PICTURE_FLOWS_MAX);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void check(const char *topology, const char *hosts, const struct engine_size *sizes)
{
    struct placement_options o = placement_defaults();
    struct placement p;
    struct dot_read g;
    o.topologies[0] = topology;
    o.hosts = hosts;
    read_graph(&g, &p, &o, sizes);
    const struct machine *m = &p.machines[0];
    assert_int_equal(count(g.clusters, g.num_clusters, "cluster_node"), p.world.num_nodes);
    assert_int_equal(count(g.clusters, g.num_clusters, "cluster_package"), p.world.num_nodes * machine_packages(m));
    assert_int_equal(count(g.nodes, g.num_nodes, "r"), p.job.num_ranks);
    for (uint32_t r = 0; r < p.job.num_ranks; r++)
        check_rank(&g, &p, r);
    check_free(&g);
    for (uint32_t i = 0; i < p.world.num_nodes; i++) {
        for (uint32_t k = 0; k < m->num_gpus; k++)
            check_device(&g, i, m, true, &m->gpus[k]);
        for (uint32_t k = 0; k < m->num_nics; k++)
            check_device(&g, i, m, false, &m->nics[k]);
    }
    check_flows(&g, &p, false);
    check_flows(&g, &p, true);
    dot_read_fini(&g);
    placement_fini(&p);
}

/* "n0:8,…", or long names. */
static const char *hosts_of(uint32_t num, bool is_long, uint32_t slots)
{
    static char text[1 << 16];
    size_t at = 0;
    for (uint32_t i = 0; i < num; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%u%s:%u", i > 0 ? "," : "",
                               is_long ? "the-compute-node-of-a-cluster-with-a-rather-long-name-number-" : "n", i,
                               is_long ? ".rack-17.building-3.some-institute.example.org" : "", slots);
    assert_true(at < sizeof text);
    return text;
}

#define MACHINES TEST_DATA "/machines/"

static void test_64_ranks(void **state)
{
    (void)state;
    static const struct engine_size a[] = {{4, 8, 1}, {8, 4, 1}}, b[] = {{2, 8, 1}, {6, 8, 1}},
                                    c[] = {{2, 8, 2}, {4, 8, 1}}, d[] = {{32, 1, 1}, {32, 1, 1}};
    static const char *const topologies[] = {MACHINES "8gpu-8nic-8numa.xml", "pack:2 numa:1 l3:4 core:8 pu:2",
                                             MACHINES "28intel64-2p2g7c-CoDgroups.v1tov2.xml",
                                             MACHINES "24em64t-2n6c2t-pci.xml"};
    for (unsigned i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        check(topologies[i], hosts_of(8, false, 8), a);
        check(topologies[i], hosts_of(8, true, 8), b);
        check(topologies[i], hosts_of(8, false, 8), c);
        check(topologies[i], hosts_of(8, true, 8), d);
    }
    check("pack:2 numa:1 l3:4 core:8 pu:2", "one", a);
    check("pack:2 core:64 pu:1", "one", d);
    check("core:256 pu:2", "one", b);
}

/* Of many nodes the first are drawn with their ranks, and the others are a sentence. */
static void test_many_nodes(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{64, 8, 1}, {36, 8, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct dot_read g;
    o.topologies[0] = MACHINES "8gpu-8nic-8numa.xml";
    o.hosts = hosts_of(110, false, 8);
    read_graph(&g, &p, &o, sizes);
    assert_int_equal(count(g.clusters, g.num_clusters, "cluster_node"), PICTURE_NODES_MAX);
    assert_int_equal(count(g.nodes, g.num_nodes, "r"), PICTURE_NODES_MAX * 8);
    assert_true(g.num_edges <= 2 * PICTURE_FLOWS_MAX);
    for (uint32_t i = 0; i < g.num_edges; i++) {
        dot_find(g.nodes, g.num_nodes, g.edges[i].name);
        dot_find(g.nodes, g.num_nodes, g.edges[i].to);
    }
    assert_true(dot_has(g.label, "nodes with ranks that are not drawn: 36"));
    assert_true(dot_has(g.label, "nodes without ranks, which are not drawn: 10"));
    dot_read_fini(&g);
    placement_fini(&p);
}

/* Of many equal flows those that are drawn are of all nodes, and of many ranks there. */
static void test_flows_are_spread(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{16, 8, 1}, {32, 4, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct dot_read g;
    uint32_t of_node[32] = {0}, of_rank[256] = {0}, nodes = 0, ranks = 0;
    o.topologies[0] = MACHINES "8gpu-8nic-8numa.xml";
    o.hosts = "n[0-31]:8";
    read_graph(&g, &p, &o, sizes);
    for (uint32_t i = 0; i < g.num_edges; i++) {
        const uint32_t ends[] = {(uint32_t)atoi(g.edges[i].name + 1), (uint32_t)atoi(g.edges[i].to + 1)};
        for (unsigned k = 0; k < 2 && !is_inside(&p.job, ends[0], ends[1]); k++) {
            of_node[p.places[ends[k]].node]++;
            of_rank[ends[k]]++;
        }
    }
    for (unsigned i = 0; i < 32; i++)
        nodes += of_node[i] > 0;
    for (unsigned i = 0; i < 256; i++)
        ranks += of_rank[i] > 0;
    assert_int_equal(nodes, 32);
    assert_true(ranks >= 96);
    dot_read_fini(&g);
    placement_fini(&p);
}

/* Each engine has a colour of its own. */
static void test_colors(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{3, 2, 1}, {32, 2, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct dot_read g;
    o.topologies[0] = "core:80 pu:2";
    o.hosts = "a";
    read_graph(&g, &p, &o, sizes);
    for (uint32_t r = 0; r < p.job.num_ranks; r++)
        for (uint32_t s = 0; s < r; s++)
            assert_int_equal(strcmp(rank_of(&g, r)->color, rank_of(&g, s)->color) == 0,
                             p.job.team_of[r] == p.job.team_of[s]);
    dot_read_fini(&g);
    placement_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_64_ranks),
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_flows_are_spread),
        cmocka_unit_test(test_colors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
