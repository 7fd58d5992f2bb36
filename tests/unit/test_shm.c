/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm path over segments of this process: what each call of core/path.h promises. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/log.h"
#include "base/bell.h"
#include "base/clock.h"
#include "shm/shm.h"
#include "with_vicinity.h"
#include "with_owner.h"

enum { ME, PEER, STRANGER, RANKS };
enum { BLOCKS = 16, TOKENS = 8 * BLOCKS, POOL_OFFSET = 4096, BOARD_OFFSET = 64, EVENTS = 64 };

/* My segment and a peer's, with pools of one shape, and a transfer of all blocks. */
struct pair {
    baton_geometry_t g;
    baton_tensor_t tensor;
    struct plan *plan;
    struct plan_transfer transfer;
    uint32_t ids[BLOCKS];
    uint8_t *segment[2];
    char *pool[2];
    struct path_region lengths[2];
    struct path_regions regions[2]; /* of the pools */
    uint64_t bytes;
    struct bell bell;
    struct vicinity *vicinity;
    struct shm *shm;
    struct path path, attach;
};

static void ring(void *bell, bool runs_out)
{
    (void)runs_out;
    bell_ring(bell);
}

static uint64_t inline_bytes; /* of the pairs that are made next */

static char said[256]; /* the last line of the log */

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source;
    snprintf(said, sizeof said, "%s", line);
}

static const struct logger logger = {.level = LOG_ERROR, .sink = hear};

/* It has been forked, and has the peer's segment in the same place. */
static struct process their_process(const struct pair *p, pid_t owner)
{
    struct process process = process_of(owner);
    process.sample = (struct process_sample){p->segment[PEER], (uint64_t)(uintptr_t)p->segment[PEER]};
    return process;
}

/* The peer's memory is that of a process (0: it is not known which), read and written in these places. */
static void pair_init_owned(struct pair *p, uint64_t worker_bytes, pid_t owner, char **read, char **write)
{
    struct plan_why why;
    struct plan_box all = {0, 1, 0, 1, 0};
    memset(p, 0, sizeof *p);
    p->g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = 64,
                              .num_groups = 1,
                              .groups = {{.block_tokens = 8, .num_blocks = BLOCKS}},
                              .num_splits = 1,
                              .splits = {{.heads_total = 1, .head_count = 1}},
                              .layers_total = 1,
                              .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&p->g, &p->tensor, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&p->g, &p->g, &all, 1, &p->plan, &why), 0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        p->ids[i] = i;
    const struct plan_tables tables = {.num = 1, .table = {{p->ids, BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&p->transfer, p->plan, 0, TOKENS, &tables, &tables, &why), 0);
    p->bytes = POOL_OFFSET + p->g.bytes;
    for (int i = 0; i < 2; i++) {
        p->segment[i] = malloc(p->bytes);
        for (uint64_t k = 0; k < p->bytes; k++)
            p->segment[i][k] = (uint8_t)(k * 7 + k / 251 + (unsigned)i * 100);
    }
    bell_init(&p->bell);
    const struct shm_segment segments[RANKS] = {{.process = process_of(0)}, /* the stranger's: none */
                                                {p->segment[ME], p->bytes, process_of(getpid())},
                                                {p->segment[PEER], p->bytes, their_process(p, owner)}};
    for (int i = 0; i < 2; i++)
        p->pool[i] = (char *)p->segment[i] + POOL_OFFSET;
    for (int i = 0; i < 2; i++) {
        p->lengths[i].bytes = p->g.bytes;
        p->regions[i] = (struct path_regions){.num = 1, .region = &p->lengths[i]};
    }
    const struct shm_memory memory[RANKS] = {
        {0}, {&p->pool[ME], &p->pool[ME], &p->regions[ME], false}, {read, write, &p->regions[PEER], false}};
    p->vicinity = with_vicinity(ME, RANKS, (const uint32_t[]){ME, PEER}, 2);
    const struct shm_wish wish = {.vicinity = p->vicinity,
                                  .segments = segments,
                                  .memory = memory,
                                  .workers = 2,
                                  .worker_bytes = worker_bytes,
                                  .inline_bytes = inline_bytes,
                                  .look = ring,
                                  .arg = &p->bell,
                                  .log = &logger};
    assert_int_equal(shm_create(&wish, &p->shm), 0);
    shm_path(p->shm, &p->path);
    shm_attach_path(p->shm, &p->attach);
}

/* `write`: where the peer's pool is written, if that is not where it is read. */
static void pair_init_to_write(struct pair *p, uint64_t worker_bytes, char **write)
{
    pair_init_owned(p, worker_bytes, getpid(), &p->pool[PEER], write);
}

static void pair_init(struct pair *p, uint64_t worker_bytes)
{
    pair_init_owned(p, worker_bytes, 0, &p->pool[PEER], &p->pool[PEER]);
}

static void pair_fini(struct pair *p)
{
    p->path.close(p->path.self);
    vicinity_destroy(p->vicinity);
    plan_destroy(p->plan);
    free(p->segment[ME]);
    free(p->segment[PEER]);
}

static int progress(struct pair *p, struct port_event *events)
{
    shm_wake(p->shm);
    return p->path.progress(p->path.self, events, EVENTS);
}

/* The next event, which is the only one. */
static struct port_event next(struct pair *p)
{
    struct port_event events[EVENTS];
    int n;
    while ((n = progress(p, events)) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    assert_int_equal(n, 1);
    return events[0];
}

static void assert_nothing(struct pair *p)
{
    struct port_event events[EVENTS];
    assert_int_equal(progress(p, events), 0);
    assert_false(p->path.busy(p->path.self));
}

static struct path_leg leg_of(struct pair *p, bool write, struct plan_cursor *at)
{
    return (struct path_leg){.peer = PEER, .write = write, .tag = 5, .transfer = &p->transfer, .cursor = at};
}

/* ---- what is read at once ---------------------------------------------------------------------------------------- */

static void test_it_says_what_it_is(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 1 << 20);
    assert_int_equal(p.path.kind, BATON_PATH_SHM);
    assert_true(p.path.ended(p.path.self, PEER));
    assert_int_equal(p.attach.kind, BATON_PATH_CMA);
    pair_fini(&p);
}

static void test_reads(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 1 << 20);
    assert_nothing(&p);
    assert_int_equal(p.path.read(p.path.self, PEER, p.bytes - 100, 100, 7), 0);
    assert_true(p.path.busy(p.path.self)); /* nobody rings for it */
    struct port_event e = next(&p);
    assert_int_equal(e.kind, PORT_READ);
    assert_int_equal(e.tag, 7);
    assert_int_equal(e.error, 0);
    assert_int_equal(e.bytes, 100);
    assert_memory_equal(e.data, p.segment[PEER] + p.bytes - 100, 100);
    assert_int_equal(p.path.read(p.path.self, PEER, p.bytes - 100, 101, 7), BATON_EMESSAGE);
    assert_int_equal(p.path.read(p.path.self, PEER, UINT64_MAX, 8, 7), BATON_EMESSAGE);
    assert_nothing(&p);
    pair_fini(&p);
}

static void test_generations(void **state)
{
    (void)state;
    struct pair p;
    uint64_t generation = UINT64_C(0x0123456789abcdef);
    pair_init(&p, 1 << 20);
    memcpy(p.segment[PEER] + BOARD_OFFSET, &generation, sizeof generation);
    assert_int_equal(p.path.board(p.path.self, PEER, BOARD_OFFSET, 8), 0);
    struct port_event e = next(&p);
    assert_int_equal(e.kind, PORT_BOARD);
    assert_int_equal(e.tag, 8);
    assert_true(e.generation == generation);
    assert_int_equal(p.path.board(p.path.self, PEER, BOARD_OFFSET + 4, 8), BATON_EMESSAGE);
    assert_int_equal(p.path.board(p.path.self, PEER, (p.bytes & ~UINT64_C(7)), 8), BATON_EMESSAGE);
    assert_int_equal(p.path.board(p.path.self, PEER, UINT64_MAX - 7, 8), BATON_EMESSAGE);
    assert_nothing(&p);
    pair_fini(&p);
}

/* Who asks right after the call has the answer; then nobody else is told. */
static void test_answers_at_once(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    struct port_event e;
    const uint64_t generation = 77;
    inline_bytes = 1 << 16;
    pair_init(&p, 2048);
    inline_bytes = 0;
    memcpy(p.segment[PEER] + BOARD_OFFSET, &generation, sizeof generation);
    assert_false(p.path.answer(p.path.self, PEER, 7, &e)); /* nothing was asked */
    assert_int_equal(p.path.read(p.path.self, PEER, p.bytes - 100, 100, 6), 0);
    assert_int_equal(p.path.read(p.path.self, PEER, 0, 64, 7), 0);
    assert_false(p.path.answer(p.path.self, PEER, 6, &e)); /* it is not the last one that was asked */
    assert_true(p.path.answer(p.path.self, PEER, 7, &e));
    assert_true(e.kind == PORT_READ && e.tag == 7 && e.bytes == 64);
    assert_memory_equal(e.data, p.segment[PEER], 64);
    assert_int_equal(next(&p).tag, 6);
    assert_nothing(&p);
    struct path_leg leg = leg_of(&p, false, &at);
    leg.board = BOARD_OFFSET;
    const uint64_t before = clock_now_ns();
    assert_true(p.path.move(p.path.self, &leg, UINT64_MAX) == (int64_t)p.transfer.bytes);
    assert_true(p.path.answer(p.path.self, PEER, leg.tag, &e));
    assert_true(e.kind == PORT_MOVED && e.moved == p.transfer.bytes && e.generation == generation);
    assert_true(e.at_ns >= before && e.at_ns <= clock_now_ns()); /* when the copy was done */
    assert_int_equal(p.path.settle(p.path.self, PEER, 9), 0);
    assert_true(p.path.answer(p.path.self, PEER, 9, &e));
    assert_int_equal(e.kind, PORT_SETTLED);
    assert_nothing(&p);
    assert_false(p.path.busy(p.path.self));
    pair_fini(&p);
}

/* What a worker does is told later. */
static void test_no_answer_of_workers(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    struct port_event e;
    pair_init(&p, 1 << 20);
    struct path_leg leg = leg_of(&p, false, &at);
    assert_true(p.path.move(p.path.self, &leg, UINT64_MAX) == (int64_t)p.transfer.bytes);
    assert_false(p.path.answer(p.path.self, PEER, leg.tag, &e));
    assert_int_equal(next(&p).kind, PORT_MOVED);
    assert_nothing(&p);
    pair_fini(&p);
}

static void test_an_answer_that_is_parked_never_comes(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 1 << 20);
    assert_int_equal(p.path.read(p.path.self, PEER, 0, 8, 7), 0);
    assert_int_equal(p.path.board(p.path.self, PEER, BOARD_OFFSET, 8), 0);
    assert_int_equal(p.path.park(p.path.self, PEER, 7), PATH_PARK_QUIET);
    assert_int_equal(next(&p).tag, 8);
    assert_nothing(&p);
    pair_fini(&p);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static void move_all(bool write)
{
    struct pair p;
    struct plan_cursor at = {0};
    struct port_event events[EVENTS];
    uint64_t taken = 0, moved = 0;
    pair_init(&p, 2048);
    struct path_leg leg = leg_of(&p, write, &at);
    uint8_t *mine = p.segment[ME] + POOL_OFFSET, *theirs = p.segment[PEER] + POOL_OFFSET;
    uint8_t *right = malloc(p.g.bytes);
    memcpy(right, write ? mine : theirs, p.g.bytes);
    bool was_full = false;
    while (moved < p.transfer.bytes) {
        int64_t n = taken < p.transfer.bytes ? p.path.move(p.path.self, &leg, 1000) : 0;
        was_full |= n == BATON_EAGAIN; /* as much is queued as may be */
        assert_true(n >= 0 || n == BATON_EAGAIN);
        taken += n > 0 ? (uint64_t)n : 0;
        int count = taken < p.transfer.bytes && n > 0 ? 0 : progress(&p, events);
        for (int i = 0; i < count; i++) {
            assert_int_equal(events[i].kind, PORT_MOVED);
            assert_int_equal(events[i].tag, 5);
            moved += events[i].moved;
        }
    }
    assert_true(was_full);
    assert_true(bell_read(&p.bell) > 0);
    assert_true(moved == p.transfer.bytes && taken == moved);
    assert_memory_equal(mine, right, p.g.bytes);
    assert_memory_equal(theirs, right, p.g.bytes);
    assert_int_equal(p.path.settle(p.path.self, PEER, 5), 0);
    assert_int_equal(next(&p).kind, PORT_SETTLED);
    assert_int_equal(p.path.park(p.path.self, PEER, 5), PATH_PARK_QUIET);
    assert_nothing(&p);
    free(right);
    pair_fini(&p);
}

static void test_legs_move(void **state)
{
    (void)state;
    move_all(false);
    move_all(true);
}

/* What is short is in place when the call returns, and the workers hear nothing of it. */
static void test_short_moves_are_copied_at_once(void **state)
{
    (void)state;
    for (int write = 0; write < 2; write++) {
        struct pair p;
        struct plan_cursor at = {0};
        inline_bytes = 1 << 16;
        pair_init(&p, 2048);
        inline_bytes = 0;
        struct path_leg leg = leg_of(&p, write, &at);
        assert_true(p.transfer.bytes <= 1 << 16);
        assert_true(p.path.move(p.path.self, &leg, UINT64_MAX) == (int64_t)p.transfer.bytes);
        assert_memory_equal(p.pool[ME], p.pool[PEER], p.g.bytes);
        assert_true(plan_at_end(&p.transfer, &at));
        assert_true(p.path.busy(p.path.self));
        const struct port_event e = next(&p);
        assert_int_equal(e.kind, PORT_MOVED);
        assert_int_equal(e.tag, 5);
        assert_int_equal(e.error, 0);
        assert_true(e.moved == p.transfer.bytes);
        assert_int_equal(bell_read(&p.bell), 0);
        assert_nothing(&p);
        pair_fini(&p);
    }
}

static void set_generation(struct pair *p, uint64_t generation)
{
    memcpy(p->segment[PEER] + BOARD_OFFSET, &generation, sizeof generation);
}

/* The last bytes of a leg bring the generation, which is read behind all of them. Nothing else does. */
static void last_bytes_bring_the_generation(uint64_t at_once, uint64_t board, bool is_told)
{
    struct pair p;
    struct plan_cursor at = {0};
    struct port_event events[EVENTS];
    inline_bytes = at_once;
    pair_init(&p, 1 << 20);
    inline_bytes = 0;
    struct path_leg leg = leg_of(&p, false, &at);
    leg.board = board;
    set_generation(&p, 70);
    uint64_t moved = 0, taken = 0, told = 0;
    while (!plan_at_end(&p.transfer, &at)) {
        int64_t n = p.path.move(p.path.self, &leg, p.transfer.bytes / 4);
        assert_true(n > 0);
        taken += (uint64_t)n;
        if (at_once > 0) /* else all jobs are under way together */
            assert_int_equal(next(&p).generation, taken == p.transfer.bytes && is_told ? 70 : 0);
    }
    assert_true(taken == p.transfer.bytes);
    if (at_once == 0) {
        set_generation(&p, 71); /* before the end of the last job was heard of */
        while (moved < taken) {
            int n = progress(&p, events);
            for (int i = 0; i < n; i++) {
                assert_int_equal(events[i].kind, PORT_MOVED);
                moved += events[i].moved;
                told = events[i].generation;
                assert_int_equal(told, moved == taken && is_told ? 71 : 0);
            }
        }
    }
    assert_nothing(&p);
    pair_fini(&p);
}

static void test_the_last_bytes_bring_the_generation(void **state)
{
    (void)state;
    for (uint64_t at_once = 0; at_once <= 1 << 16; at_once += 1 << 16) {
        last_bytes_bring_the_generation(at_once, BOARD_OFFSET, true);
        last_bytes_bring_the_generation(at_once, 0, false);
        last_bytes_bring_the_generation(at_once, BOARD_OFFSET + 4, false);
        last_bytes_bring_the_generation(at_once, UINT64_MAX - 7, false);
    }
}

static void test_a_short_move_is_quiet_at_once(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    inline_bytes = 1 << 16;
    pair_init(&p, 2048);
    inline_bytes = 0;
    struct path_leg leg = leg_of(&p, false, &at);
    assert_true(p.path.move(p.path.self, &leg, 1000) > 0);
    assert_int_equal(p.path.park(p.path.self, PEER, 5), PATH_PARK_QUIET);
    assert_nothing(&p);
    pair_fini(&p);
}

/* Moves so many legs, each whole, in one turn. So many of them are left to workers, each of which rings after one. */
static void assert_left_to_workers(struct pair *p, uint64_t legs, uint32_t expected)
{
    const uint32_t before = bell_read(&p->bell);
    uint64_t moved = 0;
    for (uint64_t i = 0; i < legs; i++) {
        struct plan_cursor at = {0};
        struct path_leg leg = leg_of(p, false, &at);
        assert_true(p->path.move(p->path.self, &leg, UINT64_MAX) == (int64_t)p->transfer.bytes);
    }
    while (moved < legs * p->transfer.bytes) {
        struct port_event events[EVENTS];
        const int n = progress(p, events);
        for (int i = 0; i < n; i++)
            moved += events[i].moved;
    }
    assert_true(moved == legs * p->transfer.bytes);
    for (int i = 0; i < 1000 && bell_read(&p->bell) - before < expected; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* a job can be collected before its worker rings */
    assert_int_equal(bell_read(&p->bell) - before, expected);
}

/* A turn makes short copies of so many bytes; then, and behind what a worker has, it leaves them to workers. */
static void many_short_moves(uint64_t bytes_of_one, uint64_t bytes_of_a_turn)
{
    struct pair p;
    inline_bytes = bytes_of_one;
    pair_init(&p, 1 << 20);
    inline_bytes = 0;
    const uint64_t most = bytes_of_a_turn / p.transfer.bytes;
    assert_true(most > 1);
    assert_left_to_workers(&p, most, 0);
    assert_left_to_workers(&p, most + 2, 2);
    assert_left_to_workers(&p, 1, 0); /* the next turn has begun */
    pair_fini(&p);
}

static void test_many_short_moves_are_for_workers(void **state)
{
    (void)state;
    many_short_moves(1 << 16, 1 << 16);   /* a setting bounds one copy, and then all of a turn too */
    many_short_moves(1 << 20, 256 << 10); /* a turn has a bound of its own */
}

/* A peer's pool may be read where it is mapped, and written by cross-memory attach, or not at all. */
static void test_another_way_to_write(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    char *pool = NULL;
    pair_init_to_write(&p, 1 << 20, NULL);
    struct path_leg leg = leg_of(&p, true, &at);
    assert_int_equal(p.path.move(p.path.self, &leg, 1 << 20), BATON_ENOSYS);
    leg.write = false;
    assert_true(p.path.move(p.path.self, &leg, 1 << 20) > 0);
    assert_int_equal(next(&p).error, 0);
    assert_nothing(&p);
    pair_fini(&p);
    if (!owner_can_attach())
        return;
    pair_init_to_write(&p, 1 << 20, &pool);
    pool = calloc(1, p.g.bytes); /* of this process, as it happens */
    at = (struct plan_cursor){0};
    leg = leg_of(&p, true, &at);
    assert_int_not_equal(shm_alive(p.shm, PEER), PORT_UNKNOWN);
    assert_true(p.attach.move(p.attach.self, &leg, 1 << 20) > 0);
    const struct port_event e = next(&p);
    assert_int_equal(e.error, 0);
    assert_int_equal(e.path, BATON_PATH_CMA);
    assert_memory_equal(pool, p.segment[ME] + POOL_OFFSET, p.g.bytes);
    assert_memory_not_equal(p.segment[PEER] + POOL_OFFSET, pool, p.g.bytes);
    free(pool);
    pair_fini(&p);
}

/* The log says what the kernel said. */
static void test_memory_that_is_gone(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    char *gone = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!owner_can_attach())
        skip();
    pair_init_to_write(&p, 1 << 20, &gone);
    struct path_leg leg = leg_of(&p, true, &at);
    assert_int_not_equal(shm_alive(p.shm, PEER), PORT_UNKNOWN);
    assert_true(p.attach.move(p.attach.self, &leg, 1 << 20) > 0);
    assert_int_equal(next(&p).error, BATON_ESYSTEM);
    assert_non_null(strstr(said, "cross-memory attach to rank 1 failed: Bad address"));
    pair_fini(&p);
    munmap(gone, 1 << 20);
}

/* A region of either side may be shorter than the plan has it, or not be there. */
static void test_a_plan_that_leaves_the_regions(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct pair p;
        struct plan_cursor at = {0};
        int rank = i % 2 == 0 ? ME : PEER;
        bool write = i / 2 % 2 == 0;
        pair_init(&p, 1 << 20);
        uint8_t *into = p.segment[write ? PEER : ME], *before = malloc(p.bytes);
        memcpy(before, into, p.bytes);
        if (i < 4)
            p.lengths[rank].bytes = 0;
        else
            p.regions[rank].num = 0;
        struct path_leg leg = leg_of(&p, write, &at);
        assert_true(p.path.move(p.path.self, &leg, 1 << 20) > 0);
        struct port_event e = next(&p);
        assert_int_equal(e.kind, PORT_MOVED);
        assert_int_equal(e.error, BATON_EMESSAGE);
        assert_memory_equal(into, before, p.bytes);
        free(before);
        pair_fini(&p);
    }
}

static void test_a_parked_leg_is_quiet_once(void **state)
{
    (void)state;
    struct pair p;
    struct plan_cursor at = {0};
    pair_init(&p, 1 << 20);
    struct path_leg leg = leg_of(&p, false, &at);
    for (int i = 0; i < 4; i++)
        assert_true(p.path.move(p.path.self, &leg, 1000) > 0);
    assert_int_equal(p.path.park(p.path.self, PEER, 5), PATH_PARK_LATER);
    struct port_event e = next(&p);
    assert_int_equal(e.kind, PORT_QUIET);
    assert_int_equal(e.tag, 5);
    assert_nothing(&p);
    assert_int_equal(p.path.park(p.path.self, PEER, 5), PATH_PARK_QUIET);
    pair_fini(&p);
}

/* ---- my own cache, and who lives --------------------------------------------------------------------------------- */

/* So many jobs wait at most. What is refused then leaves nothing behind, and is taken once others have ended. */
static void test_too_many_jobs(void **state)
{
    (void)state;
    enum { TAGS = 4096 };
    struct pair p;
    uint64_t sum, moved = 0, tag = 100;
    struct plan_cursor at = {0};
    struct port_event events[EVENTS];
    pair_init(&p, 1 << 30);
    struct path_leg leg = leg_of(&p, false, &at);
    for (leg.tag = tag; p.path.move(p.path.self, &leg, 1) > 0 && leg.tag < tag + TAGS; leg.tag++)
        at = (struct plan_cursor){0};
    const uint64_t taken = leg.tag - tag;
    assert_in_range(taken, 200, 1000);
    assert_int_equal(at.unit_done, 0);
    assert_int_equal(p.path.move(p.path.self, &leg, 1), BATON_EAGAIN);
    assert_int_equal(shm_sum(p.shm, &p.transfer, true, 0, 1, &sum, 9), BATON_EAGAIN);
    assert_int_equal(shm_zero(p.shm, &p.transfer, 10), BATON_EAGAIN);
    assert_int_equal(p.path.park(p.path.self, PEER, leg.tag), PATH_PARK_QUIET);
    assert_int_equal(p.path.park(p.path.self, PEER, tag), PATH_PARK_LATER);
    for (uint64_t came = 0; came < taken;) {
        const int n = progress(&p, events);
        for (int i = 0; i < n; i++) {
            assert_in_range(events[i].tag, tag, tag + taken - 1);
            assert_int_equal(events[i].kind, events[i].tag == tag ? PORT_QUIET : PORT_MOVED);
            moved += events[i].tag == tag ? 0 : events[i].moved;
        }
        came += (uint64_t)n;
    }
    assert_int_equal(moved % (taken - 1), 0);
    assert_nothing(&p);
    assert_true(p.path.move(p.path.self, &leg, 1) > 0);
    assert_int_equal(next(&p).tag, leg.tag);
    assert_nothing(&p);
    pair_fini(&p);
}

static void test_hashes_and_zeros(void **state)
{
    (void)state;
    struct pair p;
    uint64_t before = 0, after = 0;
    pair_init(&p, 1 << 20);
    assert_int_equal(shm_sum(p.shm, &p.transfer, true, 0, 1, &before, 9), 0);
    assert_int_equal(next(&p).kind, PORT_WORKED);
    memset(p.segment[ME] + POOL_OFFSET, 0x5a, p.g.bytes);
    assert_int_equal(shm_zero(p.shm, &p.transfer, 10), 0);
    struct port_event e = next(&p);
    assert_int_equal(e.kind, PORT_WORKED);
    assert_int_equal(e.tag, 10);
    for (uint64_t i = 0; i < p.g.bytes; i++)
        assert_int_equal(p.segment[ME][POOL_OFFSET + i], 0);
    assert_int_equal(shm_sum(p.shm, &p.transfer, false, 0, 1, &after, 11), 0);
    assert_int_equal(next(&p).tag, 11);
    assert_true(before != 0 && before != after);
    pair_fini(&p);
}

static void test_who_lives(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p, 1 << 20);
    assert_int_equal(shm_alive(p.shm, PEER), PORT_UNKNOWN);
    assert_int_equal(shm_alive(p.shm, STRANGER), PORT_UNKNOWN);
    assert_int_not_equal(shm_alive(p.shm, ME), PORT_DEAD); /* unknown where the system has no pidfds */
    pair_fini(&p);
}

/* A process that has ended is dead for certain. Its generation is told: what was read of it before was proven then. */
static void test_a_peer_has_ended(void **state)
{
    (void)state;
    struct pair p;
    char *bases[1];
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    assert_true(child > 0);
    pair_init_owned(&p, 1 << 20, child, bases, &p.pool[PEER]);
    bases[0] = p.pool[PEER];
    const bool is_known = shm_alive(p.shm, PEER) != PORT_UNKNOWN; /* the system has pidfds */
    for (int is_dead = 0; is_dead < 2; is_dead++) {
        if (is_known)
            assert_int_equal(shm_alive(p.shm, PEER), is_dead ? PORT_DEAD : PORT_ALIVE);
        assert_int_equal(p.path.board(p.path.self, PEER, BOARD_OFFSET, 8), 0);
        const struct port_event e = next(&p);
        assert_int_equal(e.kind, PORT_BOARD);
        assert_int_equal(e.error, 0);
        if (!is_dead) {
            kill(child, SIGKILL);
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
    }
    assert_true(p.path.ended(p.path.self, PEER));
    pair_fini(&p);
}

/* Descriptors of processes that it is given are closed even if it cannot be made. */
static void test_no_memory_for_it(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory needs more than the limit */
#endif
    if (TEST_EMULATED)
        skip(); /* an emulator keeps no such limit */
    enum { MANY = 1 << 17 };
    struct shm_segment *segments = calloc(MANY, sizeof *segments);
    struct shm_memory *memory = calloc(MANY, sizeof *memory);
    struct rlimit before, none;
    struct shm *shm = NULL;
    assert_true(segments != NULL && memory != NULL);
    for (uint32_t i = 0; i < MANY; i++)
        segments[i].process = process_of(0);
    segments[7].process = process_of(getpid());
    if (process_alive(&segments[7].process) != PROCESS_ALIVE) {
        free(segments);
        free(memory);
        skip();
    }
    struct vicinity *vicinity;
    assert_int_equal(vicinity_create(0, 1, MANY - 1, &vicinity), 0);
    const struct shm_wish wish = {.vicinity = vicinity, .segments = segments, .memory = memory};
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    int rc = shm_create(&wish, &shm);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, BATON_ENOMEM);
    assert_null(shm);
    assert_int_equal(fcntl(segments[7].process.descriptor, F_GETFD), -1);
    free(segments);
    free(memory);
    vicinity_destroy(vicinity);
}

/* Each progress has room for one event, and gets another one: a look ends with those that came before it. */
static void test_a_look_ends_though_more_comes(void **state)
{
    (void)state;
    enum { ANSWERS = 5 };
    struct pair p;
    struct port_event e;
    pair_init(&p, 4096);
    for (uint64_t tag = 1; tag <= ANSWERS; tag++)
        assert_int_equal(p.path.board(p.path.self, PEER, 0, tag), 0);
    p.path.look(p.path.self);
    for (uint64_t tag = 1; tag <= ANSWERS; tag++) {
        assert_false(p.path.has_looked(p.path.self));
        assert_int_equal(p.path.board(p.path.self, PEER, 0, ANSWERS + tag), 0);
        while (p.path.progress(p.path.self, &e, 1) == 0)
            continue;
        assert_int_equal(e.tag, tag);
    }
    while (!p.path.has_looked(p.path.self)) /* no copy has ended */
        assert_int_equal(p.path.progress(p.path.self, &e, 1), 1);
    assert_true(e.tag < 2 * ANSWERS);
    pair_fini(&p);
}

/* An end of a copy and answers take turns at being first. */
static void test_answers_do_not_keep_ends_back(void **state)
{
    (void)state;
    struct pair p;
    struct port_event e = {.tag = 0};
    pair_init(&p, 4096);
    struct plan_cursor at = {0};
    const struct path_leg leg = {.peer = PEER, .tag = 1000, .transfer = &p.transfer, .cursor = &at};
    assert_true(p.path.move(p.path.self, &leg, 64) > 0);
    shm_wake(p.shm);
    for (uint64_t tag = 1; e.tag != 1000; tag++) {
        assert_int_equal(p.path.board(p.path.self, PEER, 0, tag), 0);
        if (p.path.progress(p.path.self, &e, 1) == 0)
            e.tag = 0;
        assert_true(tag < 2000000);
    }
    pair_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_look_ends_though_more_comes),
        cmocka_unit_test(test_answers_do_not_keep_ends_back),
        cmocka_unit_test(test_it_says_what_it_is),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_answers_at_once),
        cmocka_unit_test(test_no_answer_of_workers),
        cmocka_unit_test(test_an_answer_that_is_parked_never_comes),
        cmocka_unit_test(test_legs_move),
        cmocka_unit_test(test_short_moves_are_copied_at_once),
        cmocka_unit_test(test_the_last_bytes_bring_the_generation),
        cmocka_unit_test(test_a_short_move_is_quiet_at_once),
        cmocka_unit_test(test_many_short_moves_are_for_workers),
        cmocka_unit_test(test_another_way_to_write),
        cmocka_unit_test(test_memory_that_is_gone),
        cmocka_unit_test(test_a_plan_that_leaves_the_regions),
        cmocka_unit_test(test_a_parked_leg_is_quiet_once),
        cmocka_unit_test(test_too_many_jobs),
        cmocka_unit_test(test_hashes_and_zeros),
        cmocka_unit_test(test_who_lives),
        cmocka_unit_test(test_a_peer_has_ended),
        cmocka_unit_test(test_no_memory_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
