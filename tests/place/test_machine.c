/* SPDX-License-Identifier: BSD-3-Clause */
/* machine: what is read of descriptions, and how machines are cut into seats. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "place/machine.h"

static void read_synthetic(struct machine *m, const char *text)
{
    struct why why = {""};
    if (machine_read(m, MACHINE_SYNTHETIC, text, &why) != 0)
        fail_msg("%s", why.text);
}

static char *file_text(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void read_xml(struct machine *m, const char *text)
{
    struct why why = {""};
    if (machine_read(m, MACHINE_XML, text, &why) != 0)
        fail_msg("%s", why.text);
}

static void read_file(struct machine *m, const char *name)
{
    char *text = file_text(name);
    read_xml(m, text);
    free(text);
}

/* Replaces the first `from`, which is as long as `to`. */
static void replace(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
}

/* "0-4 4-8": the cores of each seat; "0-4+0" with its GPU. */
static const char *seats_of(const struct machine *m, struct machine_cut cut)
{
    static char text[4096];
    uint32_t num;
    size_t at = 0;
    struct machine_seat *seats = machine_seats(m, &cut, &num);
    assert_non_null(seats);
    for (uint32_t i = 0; i < num; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u-%u", i > 0 ? " " : "", seats[i].first_core,
                               seats[i].end_core);
        for (uint32_t g = 0; g < seats[i].num_gpus; g++)
            at += (size_t)snprintf(text + at, sizeof text - at, "+%s", m->gpus[seats[i].first_gpu + g].name);
    }
    free(seats);
    return text;
}

static void test_synthetic(void **state)
{
    (void)state;
    struct machine m;
    read_synthetic(&m, "pack:2 numa:2 l3:2 core:3 pu:2");
    assert_int_equal(m.num_cores, 24);
    assert_int_equal(m.num_pus, 48);
    for (uint32_t i = 0; i < 24; i++) {
        assert_int_equal(m.cores[i].package, i / 12);
        assert_int_equal(m.cores[i].numa, i / 6);
        assert_int_equal(m.cores[i].cache, i / 3);
        assert_int_equal(m.cores[i].num_pus, 2);
        assert_int_equal(m.pus[m.cores[i].first_pu], 2 * i);
    }
    assert_int_equal(m.num_gpus + m.num_nics, 0);
    assert_null(machine_nic(&m, 0, 0));
    machine_fini(&m);
}

/* Cores have a cache in common only where there is one. */
static void test_caches(void **state)
{
    (void)state;
    static const char *const without[] = {"pack:2 numa:1 core:8 pu:1", "core:16 pu:1", "pack:2 core:8 l2:1 pu:1"};
    struct machine m;
    for (unsigned i = 0; i < sizeof without / sizeof without[0]; i++) {
        read_synthetic(&m, without[i]);
        for (uint32_t a = 0; a < m.num_cores; a++)
            for (uint32_t b = 0; b < a; b++)
                assert_int_not_equal(m.cores[a].cache, m.cores[b].cache);
        machine_fini(&m);
    }
    read_synthetic(&m, "numa:2 l3:1 core:8 pu:1");
    for (uint32_t i = 0; i < m.num_cores; i++)
        assert_int_equal(m.cores[i].cache, i / 8);
    machine_fini(&m);
}

static void test_seats(void **state)
{
    (void)state;
    struct machine m;
    read_synthetic(&m, "pack:2 numa:2 l3:2 core:3 pu:2"); /* caches at every 3, NUMA nodes at every 6 */
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 1}), "0-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 2}), "0-12 12-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 3}), "0-6 6-12 12-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 4}), "0-6 6-12 12-18 18-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 6}), "0-3 3-6 6-12 12-15 15-18 18-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 9}), "0-1 1-3 3-6 6-9 9-12 12-15 15-18 18-21 21-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.cores_per_rank = 5}), "0-6 6-12 12-18 18-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.cores_per_rank = 4}), "0-6 6-12 12-18 18-24");
    assert_string_equal(seats_of(&m, (struct machine_cut){.cores_per_rank = 2}),
                        "0-2 2-4 4-6 6-8 8-10 10-12 12-14 14-16 16-18 18-20 20-22 22-24"); /* across caches */
    /* two hardware threads each: a core of two, or two cores of one */
    assert_int_equal(strlen(seats_of(&m, (struct machine_cut){0})),
                     strlen(seats_of(&m, (struct machine_cut){.slots = 24})));
    machine_fini(&m);
    read_synthetic(&m, "core:4 pu:1");
    assert_string_equal(seats_of(&m, (struct machine_cut){0}), "0-2 2-4");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 6}),
                        "0-1 0-1 1-2 2-3 2-3 3-4"); /* more than cores */
    assert_string_equal(seats_of(&m, (struct machine_cut){.cores_per_rank = 9}), "0-4");
    machine_fini(&m);
    read_synthetic(&m, "numa:2 core:7 pu:1"); /* not 7 seats, of which one would be a single core */
    assert_string_equal(seats_of(&m, (struct machine_cut){0}), "0-2 2-4 4-7 7-9 9-11 11-14");
    machine_fini(&m);
    read_synthetic(&m, "core:1 pu:1");
    assert_string_equal(seats_of(&m, (struct machine_cut){0}), "0-1");
    machine_fini(&m);
}

static void test_devices(void **state)
{
    (void)state;
    struct machine m;
    read_file(&m, "topo-2numa-devices.xml"); /* eth0 and mlx5_0 beside cores 0 and 1; mlx5_1 and a GPU beside 2 and 3 */
    assert_int_equal(m.num_nics, 2);
    assert_string_equal(machine_nic(&m, 1, 0)->name, "mlx5_0");
    assert_string_equal(machine_nic(&m, 1, 1)->name, "mlx5_0");
    assert_string_equal(machine_nic(&m, 2, 0)->name, "mlx5_1");
    assert_string_equal(seats_of(&m, (struct machine_cut){.gpus_per_rank = 1}), "2-4+nvml0");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 2}), "0-2 2-4");
    machine_fini(&m);
    read_file(&m, "topo-2numa-ethernet.xml");
    assert_int_equal(m.num_nics, 2);
    assert_string_equal(machine_nic(&m, 0, 0)->name, "eth0");
    assert_string_equal(machine_nic(&m, 3, 0)->name, "eth1");
    assert_string_equal(seats_of(&m, (struct machine_cut){.slots = 2, .gpus_per_rank = 1}),
                        "0-2 2-4"); /* it has none */
    machine_fini(&m);
}

/* Adapters near the same cores are in the order of their numbers. */
static void test_order(void **state)
{
    (void)state;
    struct machine m;
    char *text = file_text("topo-2numa-devices.xml");
    replace(text, "name=\"eth0\" osdev_type=\"2\"/>", "name=\"m_10\" osdev_type=\"3\"/>");
    replace(text, "name=\"mlx5_0\" osdev_type=\"3\"/>", "name=\"m_2\"    osdev_type=\"3\"/>");
    read_xml(&m, text);
    assert_int_equal(m.num_nics, 3);
    assert_string_equal(machine_nic(&m, 0, 0)->name, "m_2");
    assert_string_equal(machine_nic(&m, 0, 1)->name, "m_10");
    machine_fini(&m);
    free(text);
}

static void check_devices(const struct machine_device *a, const struct machine_device *b, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_int_equal(a[i].first_core, b[i].first_core);
        assert_int_equal(a[i].end_core, b[i].end_core);
    }
}

/* Written and read again it is the same. */
static void check_text(const struct machine *m, const char *wanted)
{
    char text[MACHINE_TEXT_BYTES], again[MACHINE_TEXT_BYTES];
    struct machine copy;
    struct why why = {""};
    assert_true(machine_write(m, text));
    if (wanted != NULL)
        assert_string_equal(text, wanted);
    if (machine_parse(&copy, text, &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(copy.num_cores, m->num_cores);
    assert_int_equal(copy.num_pus, m->num_pus);
    assert_memory_equal(copy.cores, m->cores, m->num_cores * sizeof *m->cores);
    assert_memory_equal(copy.pus, m->pus, m->num_pus * sizeof *m->pus);
    assert_int_equal(copy.num_gpus, m->num_gpus);
    assert_int_equal(copy.num_nics, m->num_nics);
    check_devices(copy.gpus, m->gpus, m->num_gpus);
    for (uint32_t i = 0; i < m->num_gpus; i++)
        assert_int_equal(copy.gpus[i].number, m->gpus[i].number);
    for (uint32_t i = 0; i < m->num_nics; i++)
        assert_int_equal(copy.nics[i].is_fabric, m->nics[i].is_fabric);
    check_devices(copy.nics, m->nics, m->num_nics);
    assert_string_equal(copy.facts, m->facts);
    assert_true(machine_write(&copy, again));
    assert_string_equal(again, text);
    machine_fini(&copy);
}

/* What one version of a text says, another does. */
static void check_parsed(const char *text, const char *wanted)
{
    struct machine m;
    struct why why = {""};
    if (machine_parse(&m, text, &why) != 0)
        fail_msg("%s", why.text);
    check_text(&m, wanted);
    machine_fini(&m);
}

/* GPUs are numbered by PCI address, whatever cores they are near. */
static void test_gpu_numbers(void **state)
{
    (void)state;
    struct machine m;
    char *text = file_text("machines/8gpu-8nic-8numa.xml");
    read_xml(&m, text);
    assert_int_equal(m.num_gpus, 8);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(m.gpus[i].number, i);
    machine_fini(&m);
    replace(text, "pci_busid=\"0000:10:00.0\"", "pci_busid=\"0000:90:00.0\"");
    read_xml(&m, text);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(m.gpus[i].number, i == 0 ? 7 : i - 1);
    check_text(&m, NULL);
    machine_fini(&m);
    free(text);
}

static void test_text(void **state)
{
    (void)state;
#define ONE "C1:0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:0.1.1.0" /* core, with one hardware thread */
    static const char *const bad[] = {"",
                                      "C",
                                      "X",
                                      "Fx",
                                      "C0",
                                      "C1:0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0",          /* no hardware threads */
                                      "C1:0.1.1.0:0.1.1.0:0.1.1.0:0.1.1.0",          /* none of them */
                                      "C1:0.1.1.0:0.1.1.0:0.1.1.0:17.1.1.0:0.1.1.0", /* too many */
                                      "C1:0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:",
                                      "C1:0.1.1:0.1.1.0:0.1.1.0:1.1.1.0:0.1.1.0",
                                      "C1:0.1.1.0,0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:0.1.1.0", /* two caches */
                                      "C2:0.1.1.0:0.2.1.0:0.2.1.0:1.2.1.0:0.1.2.1",         /* one cache */
                                      "C2:0.1.3.1:0.2.1.0:0.2.1.0:1.2.1.0:0.1.2.1",
                                      "C2:0.0.2.0:0.2.1.0:0.2.1.0:1.2.1.0:0.1.2.1",
                                      "C2:0.2.0.0:0.2.1.0:0.2.1.0:1.2.1.0:0.1.2.1",
                                      "C65537:0.65537.1.0:0.65537.1.0:0.65537.1.0:1.65537.1.0:0.1.65537.1",
                                      "C65536:0.65536.1.0:0.65536.1.0:0.65536.1.0:2.65536.1.0:0.1.65536.1:0.1.65536.1",
                                      "C9:0.9.1.0:0.9.1.0:0.9.1.0:1.9.1.0:1.1.9.65536",
                                      "C3:0.1.3.40000:0.1.3.1:0.1.3.1:1.3.1.0:0.1.3.1",
                                      ONE " ",
                                      ONE "\n",
                                      ONE " C1:1.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:1.1.1.0",
                                      ONE " G0.2.0.x",
                                      ONE " G0.1.0.",
                                      ONE " G1.1.0.x",
                                      ONE " G0.1.x",
                                      ONE " E0.1",
                                      ONE " F",
                                      ONE " Fx G0.1.0.x",
                                      ONE " Fx y"};
    struct machine m;
    struct why why;
    read_synthetic(&m, "pack:2 numa:2 core:4 pu:2");
    check_text(&m, "C16:0.1.16.1:0.4.4.1:0.8.2.1:2.16.1.0:0.1.16.2:1.1.16.2");
    machine_fini(&m);
    check_parsed("C16:0.1.8.1,8.1.8.1:0.4.1.0,1.4.3.1:0.8.1.0,1.4.1.0,1.4.1.0:2.16.1.0:0.1.16.2:1.1.1.0,3.1.15.2",
                 "C16:0.1.16.1:0.4.4.1:0.8.2.1:2.16.1.0:0.1.16.2:1.1.16.2");
    read_synthetic(&m, "pack:2 l3:2 core:4 pu:2");
    check_text(&m, "C16:0.4.4.1:0.16.1.0:0.8.2.1:2.16.1.0:0.1.16.2:1.1.16.2");
    machine_fini(&m);
    check_parsed("C16:0.4.4.1:0.8.1.0,0.8.1.0:0.8.2.1:2.16.1.0:0.1.16.2:1.1.16.2",
                 "C16:0.4.4.1:0.16.1.0:0.8.2.1:2.16.1.0:0.1.16.2:1.1.16.2");
    check_parsed(ONE, ONE);
    /* cores with one hardware thread or two, and numbers in no order */
    check_parsed("C4:3.1.1.0,1.1.1.0,2.2.1.0:0.4.1.0:0.4.1.0:1.1.2.1,2.1.1.0,1.1.1.0:9.1.1.0,4.1.3.1:7.1.2.1",
                 "C4:3.1.1.0,1.1.1.0,2.2.1.0:0.4.1.0:0.4.1.0:1.1.1.0,2.2.1.0,1.1.1.0:9.1.1.0,4.1.3.1:7.1.2.1");
    check_parsed("C10:0.1.10.1:0.2.2.1,2.3.1.0,2.3.1.0:0.2.2.1,2.6.1.0:1.10.1.0:0.1.2.1,4.1.2.1,8.1.6.1",
                 "C10:0.1.10.1:0.2.2.1,2.6.1.0:0.2.2.1,2.6.1.0:1.10.1.0:0.1.2.1,4.1.2.1,8.1.6.1"); /* of two sizes */
    read_synthetic(&m, "pack:2 numa:80 core:2 pu:2");
    check_text(&m, "C320:0.1.320.1:0.2.160.1:0.160.2.1:2.320.1.0:0.1.320.2:1.1.320.2");
    machine_fini(&m);
    read_synthetic(&m, "pack:8 numa:4 l3:8 core:8 pu:2");
    check_text(&m, "C2048:0.8.256.1:0.64.32.1:0.256.8.1:2.2048.1.0:0.1.2048.2:1.1.2048.2");
    machine_fini(&m);
    read_synthetic(&m, "pack:2 numa:4 l3:2 core:8 pu:2(indexes=package:numa:l3:core:pu)");
    check_text(&m, NULL);
    machine_fini(&m);
    read_synthetic(&m, "pack:1 core:4 l2:1 pu:1");
    check_text(&m, "C4:0.1.4.1:0.4.1.0:0.4.1.0:1.4.1.0:0.1.4.1");
    machine_fini(&m);
    read_file(&m, "topo-2numa-devices.xml");
    check_text(&m, "C4:0.2.2.1:0.2.2.1:0.2.2.1:1.4.1.0:0.1.4.1 G2.4.0.nvml0 E0.2.0.mlx5_0 E2.4.1.mlx5_1");
    snprintf(m.facts, sizeof m.facts, "11301.110.eth0");
    check_text(&m,
               "C4:0.2.2.1:0.2.2.1:0.2.2.1:1.4.1.0:0.1.4.1 G2.4.0.nvml0 E0.2.0.mlx5_0 E2.4.1.mlx5_1 F11301.110.eth0");
    machine_fini(&m);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(machine_parse(&m, bad[i], &why), -1);
        machine_fini(&m);
    }
}

/* Dots in names, as those of VLANs, and bytes that are no letters. */
static void test_odd_names(void **state)
{
    (void)state;
    struct machine m;
    char *text = file_text("topo-2numa-ethernet.xml");
    replace(text, "name=\"eth0\"", "name=\"a.7\" ");
    replace(text, "name=\"eth1\"", "name=\"b 2\" ");
    read_xml(&m, text);
    assert_string_equal(machine_nic(&m, 0, 0)->name, "a.7");
    assert_string_equal(machine_nic(&m, 3, 0)->name, "b_2");
    check_text(&m, NULL);
    machine_fini(&m);
    free(text);
    static const char dots[] = "C4:0.4.1.0:0.4.1.0:0.4.1.0:1.4.1.0:0.1.4.1 G0.2.3.x.1.2 N0.4.0.eth0.100";
    check_parsed(dots, dots);
}

static const char *seats_of_text(const char *text, struct machine_cut cut)
{
    struct machine m;
    struct why why = {""};
    if (machine_parse(&m, text, &why) != 0)
        fail_msg("%s", why.text);
    const char *seats = seats_of(&m, cut);
    machine_fini(&m);
    return seats;
}

/* NUMA nodes of unequal size, as a cpuset leaves them. */
static void test_uneven(void **state)
{
    (void)state;
    static const char five[] = "C24:0.3.4.1,4.12.1.0:0.3.4.1,4.12.1.0:0.24.1.0:1.24.1.0:0.1.24.1";
    assert_string_equal(seats_of_text(five, (struct machine_cut){0}),
                        "0-3 3-6 6-9 9-12 12-14 14-16 16-18 18-20 20-22 22-24");
    assert_string_equal(seats_of_text(five, (struct machine_cut){.slots = 10}),
                        "0-3 3-6 6-9 9-12 12-14 14-16 16-18 18-20 20-22 22-24");
    assert_string_equal(seats_of_text(five, (struct machine_cut){.slots = 7}), "0-3 3-6 6-9 9-12 12-16 16-20 20-24");
    assert_string_equal(seats_of_text(five, (struct machine_cut){.slots = 12}),
                        "0-1 1-3 3-6 6-9 9-12 12-13 13-15 15-17 17-18 18-20 20-22 22-24"); /* more than fit */
    /* a NUMA node with a single core has no seat of two cores */
    assert_string_equal(
        seats_of_text("C9:0.1.1.0,1.8.1.0:0.1.1.0,1.8.1.0:0.9.1.0:1.9.1.0:0.1.9.1", (struct machine_cut){0}),
        "1-3 3-5 5-7 7-9");
    assert_string_equal(seats_of_text("C12:0.1.4.1,4.8.1.0:0.1.4.1,4.8.1.0:0.12.1.0:1.12.1.0:0.1.12.1",
                                      (struct machine_cut){.slots = 4}),
                        "4-6 6-8 8-10 10-12");
    /* packages of 9 cores: three NUMA nodes with room for one seat each, and one with room for four */
    assert_string_equal(
        seats_of_text("C18:0.3.3.1,3.9.1.0:0.3.3.1,3.9.1.0:0.9.2.1:1.18.1.0:0.1.18.1", (struct machine_cut){0}),
        "0-3 3-6 6-9 9-11 11-13 13-15 15-18");
}

/* GPUs without locality are near all cores. */
static void test_overlapping_gpus(void **state)
{
    (void)state;
    static const struct machine_cut each = {.gpus_per_rank = 1}, two = {.gpus_per_rank = 2};
    struct machine m;
    read_file(&m, "topo-2numa-gpus.xml"); /* cuda0 and cuda2 in NUMA node 0, cuda3 in node 1, cuda1 in neither */
    assert_string_equal(seats_of(&m, each), "0-4+cuda0 4-8+cuda2 8-12+cuda1 12-16+cuda3");
    assert_string_equal(seats_of(&m, two), "0-8+cuda0+cuda2 8-16+cuda1+cuda3");
    machine_fini(&m);
    assert_string_equal(
        seats_of_text("C16:0.8.2.1:0.8.2.1:0.16.1.0:1.16.1.0:0.1.16.1 G0.8.0.a G0.16.1.b G0.16.2.c G8.16.3.d", each),
        "0-4+a 4-8+b 8-12+c 12-16+d");
    assert_string_equal(
        seats_of_text("C16:0.8.2.1:0.8.2.1:0.16.1.0:1.16.1.0:0.1.16.1 G0.8.0.a G0.8.1.b G8.16.2.c", each),
        "0-4+a 4-8+b 8-16+c");
}

/* Cores that ranks are to have limit the seats with GPUs, but not those that slots ask for. */
static void test_gpus_and_cores(void **state)
{
    (void)state;
    static const char text[] = "C16:0.8.2.1:0.8.2.1:0.16.1.0:1.16.1.0:0.1.16.1 G0.8.0.a G0.8.1.b G8.16.2.c G8.16.3.d";
    assert_string_equal(seats_of_text(text, (struct machine_cut){.gpus_per_rank = 1, .cores_per_rank = 4}),
                        "0-4+a 4-8+b 8-12+c 12-16+d");
    assert_string_equal(seats_of_text(text, (struct machine_cut){.gpus_per_rank = 1, .cores_per_rank = 5}),
                        "0-8+a 8-16+c");
    assert_string_equal(seats_of_text(text, (struct machine_cut){3, .gpus_per_rank = 1, .cores_per_rank = 5}),
                        "0-4+a 4-8+b 8-12+c 12-16+d");
    assert_string_equal(seats_of_text("C1:0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:0.1.1.0 G0.1.0.a G0.1.1.b",
                                      (struct machine_cut){.gpus_per_rank = 1}),
                        "0-1+a 0-1+b"); /* fewer cores than GPUs */
    /* within the cores near GPUs, seats are cut at NUMA nodes and caches */
    assert_string_equal(seats_of_text("C8:0.4.2.1:0.4.2.1:0.8.1.0:1.8.1.0:0.1.8.1 G0.8.0.a G0.8.1.b G0.8.2.c",
                                      (struct machine_cut){.gpus_per_rank = 1}),
                        "0-2+a 2-4+b 4-8+c");
    assert_string_equal(seats_of_text("C9:0.3.3.1:0.9.1.0:0.9.1.0:1.9.1.0:0.1.9.1 G0.9.0.a G0.9.1.b",
                                      (struct machine_cut){.gpus_per_rank = 1}),
                        "0-3+a 3-9+b");
}

static void test_refused(void **state)
{
    (void)state;
    struct machine m;
    struct why why = {""};
    assert_int_equal(machine_read(&m, MACHINE_SYNTHETIC, "cores", &why), -1);
    assert_string_equal(why.text, "hwloc cannot read this synthetic description");
    machine_fini(&m);
    assert_int_equal(machine_read(&m, MACHINE_XML, "<topology", &why), -1);
    assert_string_equal(why.text, "hwloc cannot read this XML");
    machine_fini(&m);
}

/* Some releases of hwloc die of a node that does not have all of its sets, others read it. */
static void test_xml_that_contradicts_itself(void **state)
{
    (void)state;
    static const char set[] = " complete_nodeset=\"0x00000002\"", node[] = "\"NUMANode\" os_index=\"1\"";
    struct machine m;
    struct why why = {""};
    char *text = file_text("topo-2numa.xml"), *at = strstr(text, node);
    assert_non_null(at);
    at = strstr(at, set);
    assert_non_null(at);
    memmove(at, at + strlen(set), strlen(at + strlen(set)) + 1);
    if (machine_read(&m, MACHINE_XML, text, &why) != 0)
        assert_string_equal(why.text, "hwloc dies of this XML");
    machine_fini(&m);
    free(text);
}

/* Where this process was told to ignore SIGCHLD, it learns no status of the one that tries the XML. */
static void test_xml_without_statuses(void **state)
{
    (void)state;
    struct machine m;
    char *text = file_text("topo-2numa.xml");
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    read_xml(&m, text);
    signal(SIGCHLD, before);
    assert_int_equal(m.num_cores, 4);
    machine_fini(&m);
    free(text);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct machine m;
    struct why why = {""};
    if (machine_read(&m, MACHINE_HERE, NULL, &why) != 0)
        fail_msg("%s", why.text);
    assert_true(m.num_cores > 0 && m.num_pus >= m.num_cores);
    machine_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_seats),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_overlapping_gpus),
        cmocka_unit_test(test_gpus_and_cores),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_gpu_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_xml_that_contradicts_itself),
        cmocka_unit_test(test_xml_without_statuses),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
