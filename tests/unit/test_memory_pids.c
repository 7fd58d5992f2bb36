/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fence of cross-memory attach (shm.h), where it is needed: a producer dies after it has granted, and another
 * process gets its id and has other bytes at the same addresses, while the generation lives on in shared memory. What
 * is read of that stranger must not be told as done, and nothing may be written to it.
 *
 * The id is forced in a namespace of process ids, by ns_last_pid. The stranger takes the producer's place just before
 * the kernel is asked to read or to write: this program's process_vm_readv and process_vm_writev take the place of the
 * C library's. In the place of the producer's segment it has nothing, or other bytes.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "observe/log.h"
#include "base/bell.h"
#include "shm/shm.h"
#include "with_vicinity.h"
#include "with_owner.h"

enum { ME, PRODUCER, RANKS };
enum { BLOCKS = 16, BLOCK_TOKENS = 8, TAG = 5, GENERATION = 77, MINE = 0x11, TRUE = 0x22, STRANGE = 0x33 };
enum { SEGMENT = 4096, SAMPLE = 128 };

static struct {
    baton_geometry_t g;
    baton_tensor_t tensor;
    uint32_t ids[BLOCKS];
    struct plan *plan;
    struct plan_transfer transfer;
    uint8_t *segment; /* that of the producer, which all processes have */
    char *pool;       /* private: the same address in each process */
    char *mine;
    struct path_region length;
    struct path_regions regions; /* of both pools */
    struct bell bell;
    struct process process;
    struct vicinity *vicinity;
    struct shm *shm;
    struct path path;
    struct owner producer, stranger;
    enum { NEVER, AT_A_READ, AT_A_WRITE } comes; /* the stranger, at the next call of the kernel */
    bool has_segment;                            /* one of its own */
    int reads, writes;
} world;

static void ring(void *bell, bool runs_out)
{
    (void)runs_out;
    bell_ring(bell);
}

/* ---- the stranger ------------------------------------------------------------------------------------------------ */

static void be_strange(struct owner *self, void *arg)
{
    (void)self, (void)arg;
    memset(world.pool, STRANGE, world.g.bytes);
    owner_need(munmap(world.segment, SEGMENT) == 0);
    if (!world.has_segment)
        return;
    owner_need(mmap(world.segment, SEGMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
               world.segment);
}

static bool next_id(pid_t id)
{
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    bool is_set = file >= 0 && dprintf(file, "%d", (int)id - 1) > 0;
    if (file >= 0)
        close(file);
    return is_set;
}

/* The producer dies, and the stranger gets its id. */
static void replace(void)
{
    pid_t id = world.producer.id;
    owner_end(&world.producer);
    world.comes = NEVER;
    assert_true(next_id(id));
    owner_start(&world.stranger, be_strange, NULL);
    assert_int_equal(world.stranger.id, id);
}

ssize_t process_vm_readv(pid_t id, const struct iovec *mine, unsigned long num_mine, const struct iovec *theirs,
                         unsigned long num_theirs, unsigned long flags)
{
    world.reads++;
    if (world.comes == AT_A_READ)
        replace();
    return syscall(SYS_process_vm_readv, id, mine, num_mine, theirs, num_theirs, flags);
}

ssize_t process_vm_writev(pid_t id, const struct iovec *mine, unsigned long num_mine, const struct iovec *theirs,
                          unsigned long num_theirs, unsigned long flags)
{
    world.writes++;
    if (world.comes == AT_A_WRITE)
        replace();
    return syscall(SYS_process_vm_writev, id, mine, num_mine, theirs, num_theirs, flags);
}

/* ---- a producer and me ------------------------------------------------------------------------------------------- */

static void be_true(struct owner *self, void *arg)
{
    (void)self, (void)arg;
    memset(world.pool, TRUE, world.g.bytes);
}

static const struct logger quiet = {.level = LOG_NONE};

static void world_init(void)
{
    struct plan_why why;
    const struct plan_box all = {0, 1, 0, 1, 0};
    memset(&world, 0, sizeof world);
    world.g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                                 .elem_bytes = 2,
                                 .planes = 2,
                                 .head_size = 64,
                                 .num_groups = 1,
                                 .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                                 .num_splits = 1,
                                 .splits = {{.heads_total = 1, .head_count = 1}},
                                 .layers_total = 1,
                                 .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&world.g, &world.tensor, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&world.g, &world.g, &all, 1, &world.plan, &why), 0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        world.ids[i] = i;
    const struct plan_tables tables = {.num = 1, .table = {{world.ids, BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&world.transfer, world.plan, 0, BLOCKS * BLOCK_TOKENS, &tables, &tables, &why),
                     0);
    world.segment = owner_common(SEGMENT);
    ((uint64_t *)world.segment)[0] = GENERATION;
    memset(world.segment + SAMPLE, TRUE, PROCESS_SAMPLE_BYTES);
    world.pool = malloc(world.g.bytes);
    world.mine = malloc(world.g.bytes);
    memset(world.mine, MINE, world.g.bytes);
    owner_start(&world.producer, be_true, NULL);
    world.process = process_of(world.producer.id);
    world.process.sample = (struct process_sample){world.segment + SAMPLE, (uint64_t)(uintptr_t)world.segment + SAMPLE};
    assert_int_equal(process_alive(&world.process), PROCESS_ALIVE); /* at the handshake */
    bell_init(&world.bell);
    const struct shm_segment segments[RANKS + 1] = {
        {.process = process_of(0)}, {.process = process_of(0)}, {world.segment, SEGMENT, world.process}};
    world.length.bytes = world.g.bytes;
    world.regions = (struct path_regions){.num = 1, .region = &world.length};
    const struct shm_memory memory[RANKS + 1] = {
        {0}, {&world.mine, &world.mine, &world.regions, false}, {&world.pool, &world.pool, &world.regions, false}};
    world.vicinity = with_vicinity(ME, RANKS, (const uint32_t[]){ME, PRODUCER}, RANKS);
    const struct shm_wish wish = {.vicinity = world.vicinity,
                                  .segments = segments,
                                  .memory = memory,
                                  .workers = 1,
                                  .worker_bytes = 1 << 20,
                                  .look = ring,
                                  .arg = &world.bell,
                                  .log = &quiet};
    assert_int_equal(shm_create(&wish, &world.shm), 0);
    shm_attach_path(world.shm, &world.path);
}

static void world_fini(void)
{
    struct path path;
    if (world.stranger.id != 0)
        owner_end(&world.stranger);
    else
        owner_end(&world.producer);
    shm_path(world.shm, &path);
    path.close(path.self); /* forgets the process */
    vicinity_destroy(world.vicinity);
    plan_destroy(world.plan);
    munmap(world.segment, SEGMENT);
    free(world.pool);
    free(world.mine);
}

static struct port_event next(void)
{
    struct path path; /* shm_path's `progress` tells of both */
    struct port_event e;
    shm_path(world.shm, &path);
    shm_wake(world.shm);
    while (path.progress(path.self, &e, 1) == 0)
        usleep(100);
    return e;
}

static struct port_event move(bool write)
{
    struct plan_cursor at = {0};
    struct path_leg leg = {.peer = PRODUCER, .write = write, .tag = TAG, .transfer = &world.transfer, .cursor = &at};
    assert_true(world.path.move(world.path.self, &leg, UINT64_MAX) == (int64_t)world.transfer.bytes);
    struct port_event e = next();
    assert_int_equal(e.kind, PORT_MOVED);
    return e;
}

static struct port_event read_generation(void)
{
    assert_int_equal(world.path.board(world.path.self, PRODUCER, 0, TAG), 0);
    struct port_event e = next();
    assert_int_equal(e.kind, PORT_BOARD);
    return e;
}

static void assert_all(uint8_t byte)
{
    for (uint64_t i = 0; i < world.g.bytes; i++)
        assert_int_equal((uint8_t)world.mine[i], byte);
}

static void assert_stranger_is_whole(void)
{
    uint8_t *there = malloc(world.g.bytes);
    const struct iovec mine = {there, world.g.bytes}, theirs = {world.pool, world.g.bytes};
    assert_int_equal(syscall(SYS_process_vm_readv, world.stranger.id, &mine, 1, &theirs, 1, 0), world.g.bytes);
    for (uint64_t i = 0; i < world.g.bytes; i++)
        assert_int_equal(there[i], STRANGE);
    free(there);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void test_the_producer_itself(void **state)
{
    (void)state;
    world_init();
    assert_int_equal(move(false).error, 0);
    assert_all(TRUE);
    struct port_event e = read_generation();
    assert_int_equal(e.error, 0);
    assert_true(e.generation == GENERATION);
    assert_int_equal(world.reads, 1);
    assert_int_equal(move(true).error, 0);
    assert_int_equal(world.writes, 1);
    world_fini();
}

/* The kernel reads the stranger's bytes and reports success: the sample alone can tell. */
static void test_a_stranger_is_read(void **state)
{
    (void)state;
    for (int has_segment = 0; has_segment < 2; has_segment++) {
        world_init();
        world.comes = AT_A_READ;
        world.has_segment = has_segment != 0;
        assert_int_equal(move(false).error, BATON_EPEER);
        assert_int_equal(world.comes, NEVER);
        assert_all(has_segment ? STRANGE : MINE);
        assert_true(read_generation().generation == GENERATION); /* it still matches */
        world_fini();
    }
}

/* Before it is asked who it is, and after that: then it is spared only if it has nothing in the place of the sample. */
static void test_a_stranger_is_written(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        world_init();
        world.comes = i < 2 ? AT_A_READ : AT_A_WRITE;
        world.has_segment = i == 1;
        assert_int_equal(move(true).error, BATON_EPEER);
        assert_int_equal(world.comes, NEVER);
        assert_stranger_is_whole();
        world_fini();
    }
}

/* The producer dies after the last read: the bytes are its own. */
static void test_it_dies_after_the_last_read(void **state)
{
    (void)state;
    world_init();
    assert_int_equal(move(false).error, 0);
    replace();
    struct port_event e = read_generation();
    assert_int_equal(e.error, 0);
    assert_true(e.generation == GENERATION);
    assert_all(TRUE);
    world_fini();
}

/* A write asks nothing of it. A read finds that it is a stranger. */
static void test_a_stranger_is_there_before(void **state)
{
    (void)state;
    world_init();
    replace();
    assert_int_equal(move(true).error, BATON_EPEER);
    assert_stranger_is_whole();
    assert_true(world.reads == 0 && world.writes == 0);
    assert_int_equal(move(false).error, BATON_EPEER);
    assert_all(MINE);
    assert_int_equal(shm_alive(world.shm, PRODUCER), PORT_DEAD);
    world_fini();
}

/* ---- the namespace ----------------------------------------------------------------------------------------------- */

static int run(void *arg)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_producer_itself),        cmocka_unit_test(test_a_stranger_is_read),
        cmocka_unit_test(test_a_stranger_is_written),      cmocka_unit_test(test_it_dies_after_the_last_read),
        cmocka_unit_test(test_a_stranger_is_there_before),
    };
    (void)arg;
    if (!next_id(100)) {
        printf("skipped: ns_last_pid cannot be set in a namespace of process ids\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}

int main(void)
{
    if (!owner_can_attach()) {
        printf("skipped: no cross-memory attach, or no pidfd\n");
        return 77;
    }
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
        printf("skipped: no namespace of process ids can be made\n");
        return 77;
    }
    return owner_elsewhere(run, NULL, 0); /* the first process of the namespace */
}
