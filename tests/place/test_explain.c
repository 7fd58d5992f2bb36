/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explain: what the page of --explain says is so: which engines' transfers count, how many cores --cores-per-rank would
 * give each rank, which hosts an engine has; and its columns are aligned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/placement.h"

#define MACHINES TEST_DATA "/machines/"

/* The page of a placement, which the caller frees, and finishes the placement. */
static char *page_of(const struct placement_options *o, uint32_t prefill, uint32_t decode, uint32_t tp,
                     struct placement *p)
{
    const struct engine_size sizes[JOB_SIDES] = {{prefill, tp, 1}, {decode, tp, 1}};
    char *text = NULL;
    size_t length;
    struct why why = {""};
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    if (placement_find(p, o, sizes, NULL, NULL, &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(placement_explain(p, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- which transfers count --------------------------------------------------------------------------------------- */

/* Whether bytes flow from one engine, with one rank, to the other. */
static bool is_counted(const struct job *j, uint32_t prefill, uint32_t decode)
{
    for (uint32_t f = j->first_flow[prefill]; f < j->first_flow[prefill + 1]; f++)
        if (j->flows[f].peer == decode)
            return true;
    return false;
}

static void check_transfers(uint32_t prefill, uint32_t decode)
{
    struct placement_options o = placement_defaults();
    struct placement p;
    o.topologies[0] = "core:16 pu:2";
    o.hosts = "a";
    char *text = page_of(&o, prefill, decode, 1, &p), wanted[64];
    const char *line = strstr(text, "transfers, as if requests were shared out in order: ");
    assert_non_null(line);
    const size_t length = strcspn(line, "\n");
    for (uint32_t i = 0; i < prefill; i++) {
        snprintf(wanted, sizeof wanted, " prefill%u to decode", i);
        const char *at = strstr(line, wanted);
        const bool is_shown = at != NULL && at < line + length;
        unsigned first, last;
        assert_int_equal(is_shown, i < 3);
        if (!is_shown)
            continue;
        const int numbers = sscanf(at + strlen(wanted), "%u-%u", &first, &last);
        assert_true(numbers >= 1);
        last = numbers == 2 ? last : first;
        for (uint32_t k = 0; k < decode; k++)
            if (is_counted(&p.job, i, prefill + k) != (k >= first && k <= last))
                fail_msg("%ux1 and %ux1: %.*s", prefill, decode, (int)length, line);
    }
    assert_int_equal(strstr(text, "and so on\n") != NULL, prefill > 3);
    assert_int_equal(strstr(text, "where a router pairs engines otherwise") != NULL, prefill > 1 && decode > 1);
    free(text);
    placement_fini(&p);
}

static void test_transfers(void **state)
{
    (void)state;
    for (uint32_t prefill = 1; prefill <= 6; prefill++)
        for (uint32_t decode = 1; decode <= 7; decode++)
            if (prefill > 1 || decode > 1)
                check_transfers(prefill, decode);
}

/* With one engine a side, or engines of one side, there is nothing to say. */
static void test_no_transfers(void **state)
{
    (void)state;
    for (uint32_t decode = 0; decode < 2; decode++) {
        struct placement_options o = placement_defaults();
        struct placement p;
        o.topologies[0] = "core:16 pu:2";
        o.hosts = "a";
        char *text = page_of(&o, decode == 0 ? 4 : 1, decode, 1, &p);
        assert_null(strstr(text, "transfers, "));
        free(text);
        placement_fini(&p);
    }
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

#define WITH "with --cores-per-rank "

/* The number that the page advises, 0 if none, and whether it gives each rank as many. */
static uint32_t check_cores(const struct placement_options *options, uint32_t prefill, uint32_t decode, uint32_t tp)
{
    struct placement_options o = *options;
    struct placement p;
    unsigned cores = 0, idle, all;
    uint32_t taken = 0, widest = 0;
    char *text = page_of(&o, prefill, decode, tp, &p);
    const char *remark = strstr(text, WITH);
    for (uint32_t r = 0; r < p.job.num_ranks; r++) {
        const uint32_t own = p.places[r].seat.end_core - p.places[r].seat.first_core;
        taken += own;
        widest = own > widest ? own : widest;
    }
    if (remark != NULL) {
        while (remark > text && remark[-1] != '\n')
            remark--;
        assert_int_equal(
            sscanf(remark, "%u of %u cores of the nodes with ranks have no rank: " WITH "%u", &idle, &all, &cores), 3);
        assert_null(strstr(strchr(remark, '\n'), WITH)); /* once for all */
        assert_int_equal(idle, all - taken);
        assert_true(idle > all / 2 && cores > widest);
    }
    free(text);
    placement_fini(&p);
    if (cores == 0)
        return 0;
    o.cores_per_rank = cores;
    text = page_of(&o, prefill, decode, tp, &p);
    for (uint32_t r = 0; r < p.job.num_ranks; r++)
        assert_true(p.places[r].seat.end_core - p.places[r].seat.first_core >= cores);
    assert_null(strstr(text, WITH));
    free(text);
    placement_fini(&p);
    return cores;
}

static void test_cores(void **state)
{
    (void)state;
    static const char *const topologies[] = {"pack:2 numa:2 core:8 pu:2", "pack:2 numa:1 l3:4 core:4 pu:1",
                                             "pack:1 numa:4 l3:2 core:5 pu:2", "pack:2 numa:3 core:7 pu:1"};
    static const char *const hosts[] = {"n0", "n[0-2]", "n[0-3]:8", "n[0-1]:16"};
    uint32_t advised = 0;
    for (unsigned t = 0; t < 4; t++)
        for (unsigned h = 0; h < 4; h++)
            for (unsigned i = 0; i < 18; i++) {
                struct placement_options o = placement_defaults();
                o.topologies[0] = topologies[t];
                o.hosts = hosts[h];
                o.spread = i >= 9;
                advised += check_cores(&o, 1 + i % 3, 1 + i / 3 % 3, 1) > 0;
            }
    assert_true(advised >= 20);
}

/* Three places of three cores are not to be had of two caches of five, although the cores are enough. */
static void test_cores_of_caches(void **state)
{
    (void)state;
    struct placement_options o = placement_defaults();
    o.topologies[0] = "pack:1 numa:4 l3:2 core:5 pu:2";
    o.hosts = "n[0-2]";
    assert_int_equal(check_cores(&o, 1, 0, 9), 0);
}

/* Two ranks that have a NUMA node of four, unless they are told to have more, or it would not help. */
static void test_cores_advised(void **state)
{
    (void)state;
    struct placement_options o = placement_defaults();
    o.topologies[0] = "pack:2 numa:2 core:8 pu:2";
    o.hosts = "n0";
    assert_int_equal(check_cores(&o, 1, 1, 1), 16);
    o.cores_per_rank = 1; /* as they wish */
    assert_int_equal(check_cores(&o, 1, 1, 1), 0);
    o.cores_per_rank = 0;
    o.hosts = "n0:2"; /* places are as large as can be */
    assert_int_equal(check_cores(&o, 1, 1, 1), 0);
    o.hosts = "n0";
    o.pack = true;
    assert_int_equal(check_cores(&o, 1, 1, 1), 0);
    o.pack = false;
    o.topologies[0] = MACHINES "8gpu-8nic-8numa.xml"; /* GPUs decide */
    assert_int_equal(check_cores(&o, 1, 1, 1), 0);
}

/* ---- hosts and columns ------------------------------------------------------------------------------------------- */

static void test_summary(void **state)
{
    (void)state;
    struct placement_options o = placement_defaults();
    struct placement p;
    o.topologies[0] = "core:4 pu:2";
    o.hosts = "n[0-8]:4";
    char *text = page_of(&o, 6, 6, 2, &p), name[32], line[64];
    const char *tables = strstr(text, "\n    rank ");
    assert_non_null(tables);
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < 6; i++) { /* on the host of its first rank, alone or with the engine before or after */
            const char *host = p.world.nodes[p.places[12 * side + 2 * i].node].host;
            bool found = false;
            for (uint32_t first = 0; first <= i; first++)
                for (uint32_t last = i; last < 6; last++) {
                    snprintf(name, sizeof name, last > first ? "%u-%u" : "%u", first, last);
                    snprintf(line, sizeof line, "\n%s%s: %s\n", side == JOB_PREFILL ? "prefill" : "decode", name, host);
                    const char *at = strstr(text, line);
                    found |= at != NULL && at < tables;
                }
            assert_true(found);
        }
    free(text);
    placement_fini(&p);
    o.hosts = "n[0-7]:4";
    text = page_of(&o, 6, 6, 2, &p);
    assert_null(strstr(text, "\nprefill"));
    free(text);
    placement_fini(&p);
    o.hosts = "n[0-8]:1"; /* an engine on several hosts */
    o.straddle = true;
    text = page_of(&o, 1, 1, 4, &p);
    assert_non_null(strstr(text, "\nprefill0: n"));
    const char *first = strstr(text, "\nprefill0: n") + 1;
    uint32_t hosts = 0;
    for (const char *at = first; *at != '\n'; at++)
        hosts += *at == ' ';
    assert_int_equal(hosts, 4);
    free(text);
    placement_fini(&p);
}

/* All NICs stand below the word NIC, however many GPUs a rank has, and each GPU has its number in BATON_GPU. */
static void test_gpus(void **state)
{
    (void)state;
    for (uint32_t each = 1; each <= 8; each *= 2) {
        struct placement_options o = placement_defaults();
        struct placement p;
        uint32_t nics = 0, gpus = 0;
        o.topologies[0] = MACHINES "8gpu-8nic-8numa.xml";
        o.hosts = "n[0-1]:8";
        o.gpus_per_rank = each;
        char *text = page_of(&o, 1, 1, 1, &p);
        const char *head = strstr(text, "\n    rank ") + 1, *column = strstr(head, "NIC\n");
        assert_non_null(strstr(head, "  GPU (BATON_GPU) "));
        assert_non_null(column);
        for (const char *at = text; (at = strstr(at, "  mlx5_")) != NULL; at++, nics++) {
            const char *line = at;
            while (line[-1] != '\n')
                line--;
            assert_int_equal(at + 2 - line, column - head);
        }
        const struct machine *m = &p.machines[0];
        for (uint32_t g = 0; g < m->num_gpus; g++) {
            char wanted[128];
            snprintf(wanted, sizeof wanted, "%s (%u)", m->gpus[g].name, m->gpus[g].number);
            gpus += strstr(text, wanted) != NULL;
        }
        assert_int_equal(nics, p.job.num_ranks);
        assert_int_equal(gpus, p.job.num_ranks * each < 8 ? p.job.num_ranks * each : 8);
        free(text);
        placement_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),     cmocka_unit_test(test_no_transfers),
        cmocka_unit_test(test_cores),         cmocka_unit_test(test_cores_of_caches),
        cmocka_unit_test(test_cores_advised), cmocka_unit_test(test_summary),
        cmocka_unit_test(test_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
