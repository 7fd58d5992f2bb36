/* SPDX-License-Identifier: BSD-3-Clause */
/* topo: places in machines described by files, memory limits in made-up control groups, and this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "baton.h"
#include "topo/cgroup.h"
#include "topo/topo.h"

#ifndef TEST_DATA
#define TEST_DATA "tests/data"
#endif

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* ---- what is taken of hwloc -------------------------------------------------------------------------------------- */

struct hwloc_bitmap_s;
struct hwloc_topology;
struct hwloc_bitmap_s *__real_hwloc_bitmap_alloc(void);
struct hwloc_bitmap_s *__wrap_hwloc_bitmap_alloc(void);
void __real_hwloc_bitmap_free(struct hwloc_bitmap_s *bitmap);
void __wrap_hwloc_bitmap_free(struct hwloc_bitmap_s *bitmap);
int __real_hwloc_topology_init(struct hwloc_topology **topology);
int __wrap_hwloc_topology_init(struct hwloc_topology **topology);
void __real_hwloc_topology_destroy(struct hwloc_topology *topology);
void __wrap_hwloc_topology_destroy(struct hwloc_topology *topology);

static int bitmaps, topologies; /* that this program took and did not give back */

struct hwloc_bitmap_s *__wrap_hwloc_bitmap_alloc(void)
{
    bitmaps++;
    return __real_hwloc_bitmap_alloc();
}

void __wrap_hwloc_bitmap_free(struct hwloc_bitmap_s *bitmap)
{
    bitmaps -= bitmap != NULL;
    __real_hwloc_bitmap_free(bitmap);
}

int __wrap_hwloc_topology_init(struct hwloc_topology **topology)
{
    topologies++;
    return __real_hwloc_topology_init(topology);
}

void __wrap_hwloc_topology_destroy(struct hwloc_topology *topology)
{
    topologies--;
    __real_hwloc_topology_destroy(topology);
}

/* Of all tests before it. */
static void all_is_given_back(void **state)
{
    (void)state;
    assert_int_equal(bitmaps, 0);
    assert_int_equal(topologies, 0);
}

/* ---- machines from files ----------------------------------------------------------------------------------------- */

static struct topo_place find(const char *file, const char *cpus)
{
    struct topo_place place;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", TEST_DATA, file);
    assert_int_equal(topo_find(path, cpus, &place), 0);
    return place;
}

/* Two packages, each with one NUMA node of 64 GiB, one L3 of 32 MiB and two PUs. */
static void process_on_one_node(void **state)
{
    (void)state;
    const struct topo_place first = find("topo-2numa.xml", "0-1"), second = find("topo-2numa.xml", "3");
    assert_int_equal(first.numa, 0);
    assert_int_equal(first.numa_os, 0);
    assert_int_equal(first.package, 0);
    assert_int_equal(first.cpus, 2);
    assert_int_equal(second.numa, 1);
    assert_int_equal(second.numa_os, 1);
    assert_int_equal(second.package, 1);
    assert_int_equal(second.cpus, 1);
}

static void process_that_spans_nodes(void **state)
{
    (void)state;
    static const char *const spans[] = {NULL, "0-3", "1-2", "0,3"};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        const struct topo_place place = find("topo-2numa.xml", spans[i]);
        assert_true(place.numa == TOPO_UNKNOWN);
        assert_true(place.numa_os == TOPO_UNKNOWN);
        assert_true(place.package == TOPO_UNKNOWN);
        assert_int_equal(place.cpus, i < 2 ? 4 : 2);
    }
}

static void file_without_a_list_of_cpus(void **state)
{
    (void)state;
    struct topo_place place;
    assert_int_equal(topo_find(TEST_DATA "/topo-2numa.xml", NULL, &place), 0);
    assert_int_equal(place.cpus, 4);
    assert_true(place.numa == TOPO_UNKNOWN);
}

static void cache_and_memory(void **state)
{
    (void)state;
    const struct topo_place place = find("topo-2numa.xml", "2");
    assert_true(place.llc_bytes == 32 * MIB); /* not the 1 MiB of the L2 below it */
    assert_int_equal(place.llc, 1);
    assert_int_equal(find("topo-2numa.xml", "0-1").llc, 0);
    assert_true(find("topo-2numa.xml", "1-2").llc == TOPO_UNKNOWN);
    assert_true(place.memory_bytes == 128 * GIB); /* the described machine's, whatever limits this process has */
    assert_int_equal(find("topo-3numa-far.xml", "2").llc_bytes, 0);
    assert_true(find("topo-3numa-far.xml", "2").llc == TOPO_UNKNOWN);
}

/* A third node, of another kind of memory, is equally near to all PUs: it is no process's own node. */
static void node_of_the_whole_machine_is_not_taken(void **state)
{
    (void)state;
    assert_int_equal(find("topo-3numa-far.xml", "0").numa, 0);
    assert_int_equal(find("topo-3numa-far.xml", "2-3").numa, 1);
    assert_true(find("topo-3numa-far.xml", NULL).numa == TOPO_UNKNOWN);
}

static void nearest_fabric_device_wins(void **state)
{
    (void)state;
    assert_string_equal(find("topo-2numa-devices.xml", "0").nic, "mlx5_0");
    assert_string_equal(find("topo-2numa-devices.xml", "2-3").nic, "mlx5_1");
    assert_string_equal(find("topo-2numa-devices.xml", NULL).nic, "mlx5_0"); /* none is nearer, so the first is taken */
}

static void nearest_network_card_where_there_is_no_fabric(void **state)
{
    (void)state;
    assert_string_equal(find("topo-2numa-ethernet.xml", "1").nic, "eth0");
    assert_string_equal(find("topo-2numa-ethernet.xml", "2").nic, "eth1");
}

static void loopback_is_no_nic(void **state)
{
    (void)state;
    assert_string_equal(find("topo-3numa-far.xml", "0").nic, "");
    assert_string_equal(find("topo-2numa.xml", "0").nic, "");
}

static void gpu_beats_a_mere_display(void **state)
{
    (void)state;
    assert_string_equal(find("topo-2numa-devices.xml", "2").gpu, "nvml0");
    assert_string_equal(find("topo-2numa-devices.xml", "0").gpu, "nvml0"); /* though the display is nearer */
    assert_string_equal(find("topo-2numa-ethernet.xml", "0").gpu, "");
}

static void expect_unknown(const char *xml, const char *cpus)
{
    struct topo_place place;
    memset(&place, 0x5a, sizeof place);
    assert_int_equal(topo_find(xml, cpus, &place), BATON_ESYSTEM);
    assert_true(place.numa == TOPO_UNKNOWN);
    assert_true(place.package == TOPO_UNKNOWN);
    assert_int_equal(place.cpus, 0);
    assert_int_equal(place.llc_bytes, 0);
    assert_true(place.llc == TOPO_UNKNOWN);
    assert_int_equal(place.memory_bytes, 0);
    assert_string_equal(place.nic, "");
    assert_string_equal(place.gpu, "");
}

static void what_cannot_be_read_is_unknown(void **state)
{
    (void)state;
    expect_unknown(TEST_DATA "/topo-none.xml", NULL);
    expect_unknown(TEST_DATA "/topo-2numa.xml", "64-70"); /* PUs that it does not have */
    expect_unknown(TEST_DATA "/topo-2numa.xml", "");
    expect_unknown(TEST_DATA "/topo-2numa.xml", "first");
}

/* ---- control groups ---------------------------------------------------------------------------------------------- */

static char folder[64]; /* plays the root of a system */

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/baton-topo-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file below the made-up root, with the folders above it. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", folder, path);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1(top) "35 31 0:32 " top " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define MOUNT_OTHER                                                                                                    \
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"                                                                   \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,memory_not\n"

static void no_files_no_limit(void **state)
{
    (void)state;
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
    put("/proc/self/cgroup", "0::/job\n");
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V2);
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
    put("/sys/fs/cgroup/job/memory.max", "max\n");
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
}

static void own_limit_of_version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/task\n");
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "9000000\n");
    put("/sys/fs/cgroup/job/task/memory.max", "5000000\n");
    assert_true(cgroup_memory_limit(folder) == 5000000);
}

static void limit_of_a_group_above_holds(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V2);
    put("/sys/fs/cgroup/a/b/c/memory.max", "9000000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "4000000\n");
    assert_true(cgroup_memory_limit(folder) == 4000000);
    put("/sys/fs/cgroup/memory.max", "3000000\n"); /* the top itself has a limit, as inside a container */
    assert_true(cgroup_memory_limit(folder) == 3000000);
    put("/sys/fs/memory.max", "2000000\n"); /* what lies above the mount is no group */
    put("/memory.max", "1000000\n");
    assert_true(cgroup_memory_limit(folder) == 3000000);
}

static void version_1_among_other_controllers(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpuset:/x\n8:cpu,memory,pids:/slurm/job_7\n1:name=systemd:/y\n0::/\n");
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V1("/"));
    put("/sys/fs/cgroup/cpuset/x/memory.limit_in_bytes", "1\n"); /* this is not the memory hierarchy */
    put("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "7000000\n");
    put("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(cgroup_memory_limit(folder) == 7000000);
}

/* Inside a container the mount's top is its own group, while the path of the group is that of the host. */
static void mount_that_starts_at_the_group(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/pod/box/inner\n");
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V1("/pod/box"));
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
    assert_true(cgroup_memory_limit(folder) == 6000000);
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "2000000\n");
    assert_true(cgroup_memory_limit(folder) == 2000000);
}

static void group_outside_of_the_mount(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V1("/pod/box"));
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
    put("/proc/self/cgroup", "4:memory:/pod/boxes\n");
    assert_true(cgroup_memory_limit(folder) == 6000000);
    put("/proc/self/cgroup", "4:memory:/../elsewhere\n");
    assert_true(cgroup_memory_limit(folder) == 6000000);
}

static void cpu_time_of_version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/task\n");
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V2);
    assert_true(cgroup_cpu_limit(folder) == UINT64_MAX);
    put("/sys/fs/cgroup/job/task/cpu.max", "max 100000\n");
    assert_true(cgroup_cpu_limit(folder) == UINT64_MAX);
    put("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    assert_true(cgroup_cpu_limit(folder) == 1500);
    put("/sys/fs/cgroup/job/task/cpu.max", "25000 50000\n");
    assert_true(cgroup_cpu_limit(folder) == 500);
    put("/sys/fs/cgroup/job/task/cpu.max", "25000 0\n");
    assert_true(cgroup_cpu_limit(folder) == 1500);
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
}

static void cpu_time_of_version_1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:cpuacct,cpu:/job\n5:memory:/job\n");
    put("/proc/self/mountinfo",
        MOUNT_OTHER MOUNT_V1("/") "36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpu_limit(folder) == UINT64_MAX);
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
    assert_true(cgroup_cpu_limit(folder) == 4000);
    put("/sys/fs/cgroup/memory/job/cpu.cfs_quota_us", "100000\n"); /* this is not the hierarchy of CPU time */
    assert_true(cgroup_cpu_limit(folder) == 4000);
}

static void broken_lines_are_no_limit(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "\n0\n0:\n:::\nmemory\n4:memory\n");
    put("/proc/self/mountinfo", "\n1\n1 2 3 4 5\n1 2 3 4 5 6 - \n1 2 3 4 5 6 - cgroup2\n");
    assert_true(cgroup_memory_limit(folder) == UINT64_MAX);
    assert_true(cgroup_cpu_limit(folder) == UINT64_MAX);
}

/* ---- this machine ------------------------------------------------------------------------------------------------ */

/* The memory of a virtual machine may change at any time. */
static uint64_t memory_of_system(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void this_machine(void **state)
{
    (void)state;
    struct topo_place place;
    cpu_set_t mine;
    char host[256] = "";
    const uint64_t before = memory_of_system();
    assert_int_equal(topo_find(NULL, NULL, &place), 0);
    const uint64_t after = memory_of_system();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_memory_equal(place.host, host, strnlen(host, sizeof place.host - 1));
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    assert_int_equal(place.cpus, CPU_COUNT(&mine));
    assert_in_range(place.memory_bytes, 1, before > after ? before : after);
    assert_true(place.memory_bytes <= cgroup_memory_limit(""));
    if (access("/sys/devices/system/node/node0", F_OK) == 0 && access("/sys/devices/system/node/node1", F_OK) != 0)
        assert_int_equal(place.numa, 0);
    assert_string_not_equal(place.nic, "lo");
}

/* Emulators of a processor have threads of their own in the process, which a binding of the caller leaves free. */
static bool is_alone(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3; /* ".", "..", and one thread */
}

static void binding_of_this_process_counts(void **state)
{
    (void)state;
    cpu_set_t before, one;
    struct topo_place place;
    if (!is_alone())
        skip();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &before))
        cpu--;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int error = topo_find(NULL, NULL, &place);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(error, 0);
    assert_int_equal(place.cpus, 1);
    assert_true(place.numa != TOPO_UNKNOWN);
}

/* The memory policy that the kernel has for an address, or -1. */
static int policy_of(void *address)
{
    int mode = -1;
    const unsigned long by_address = 2; /* MPOL_F_ADDR */
    return syscall(SYS_get_mempolicy, &mode, NULL, 0ul, address, by_address) == 0 ? mode : -1;
}

static void memory_is_bound_where_permitted(void **state)
{
    (void)state;
    const size_t bytes = 4 * MIB;
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    const int before = policy_of(base);
    const int error = topo_bind_memory(base, bytes, 0);
    const int after = policy_of(base);
    base[0] = base[bytes - 1] = 1; /* usable in any case */
    munmap(base, bytes);
    assert_true(error == 0 || error == BATON_ESYSTEM);
    if (error == 0 && before == 0 /* MPOL_DEFAULT */)
        assert_true(after > 0);
    else
        assert_int_equal(after, before);
}

static void memory_is_not_bound_to_a_node_that_is_not_there(void **state)
{
    (void)state;
    char *base = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    assert_int_equal(topo_bind_memory(base, MIB, 100000), BATON_ESYSTEM);
    assert_int_equal(topo_bind_memory(base, MIB, TOPO_UNKNOWN), BATON_ESYSTEM);
    assert_int_equal(topo_bind_memory(base, 0, 0), 0);
    munmap(base, MIB);
}

#define CGROUP_TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_on_one_node),
        cmocka_unit_test(process_that_spans_nodes),
        cmocka_unit_test(file_without_a_list_of_cpus),
        cmocka_unit_test(cache_and_memory),
        cmocka_unit_test(node_of_the_whole_machine_is_not_taken),
        cmocka_unit_test(nearest_fabric_device_wins),
        cmocka_unit_test(nearest_network_card_where_there_is_no_fabric),
        cmocka_unit_test(loopback_is_no_nic),
        cmocka_unit_test(gpu_beats_a_mere_display),
        cmocka_unit_test(what_cannot_be_read_is_unknown),
        CGROUP_TEST(no_files_no_limit),
        CGROUP_TEST(own_limit_of_version_2),
        CGROUP_TEST(limit_of_a_group_above_holds),
        CGROUP_TEST(version_1_among_other_controllers),
        CGROUP_TEST(mount_that_starts_at_the_group),
        CGROUP_TEST(group_outside_of_the_mount),
        CGROUP_TEST(cpu_time_of_version_2),
        CGROUP_TEST(cpu_time_of_version_1),
        CGROUP_TEST(broken_lines_are_no_limit),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(binding_of_this_process_counts),
        cmocka_unit_test(memory_is_bound_where_permitted),
        cmocka_unit_test(memory_is_not_bound_to_a_node_that_is_not_there),
        cmocka_unit_test(all_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
