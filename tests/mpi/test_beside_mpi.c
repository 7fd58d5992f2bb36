/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beside_mpi: no call of MPI is made in turns that are lent, in a world of two nodes. Each rank takes what its
 * neighbour offers, and what one of the other node does. The linker leads Baton's calls of MPI here (--wrap).
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "baton.h"
#include "front/context.h"
#include "harness.h"
#include "with_clock.h"
#include "with_tune.h"

enum { BLOCK_TOKENS = 4, BLOCK_BYTES = 4096, BLOCKS = 16, ROUNDS = 60, ROUND_MS = 30000 };

static baton_t *_Atomic watched; /* the context, while it is open */
static const char *_Atomic called;
static _Atomic unsigned calls; /* in turns that are lent; in all */
static _Atomic unsigned all_calls;

/* A call of MPI in Baton's code. */
static void note(const char *name)
{
    const baton_t *b = watched;
    atomic_fetch_add(&all_calls, 1);
    if (b == NULL || !turns_are_lent(&b->loop.turns) || owned_by(&b->loop.turns.lock) != (uint32_t)syscall(SYS_gettid))
        return;
    called = name;
    atomic_fetch_add(&calls, 1);
}

#define WRAP(name, params, args)                                                                                       \
    int __real_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params                                                                                       \
    {                                                                                                                  \
        note(#name);                                                                                                   \
        return __real_MPI_##name args;                                                                                 \
    }
#define MAKES(kind, name, params, args) WRAP(name, params, args)
#define FREES(kind, name, params, args) WRAP(name, params, args)
#include "with_calls.h"

/* ---- the context ------------------------------------------------------------------------------------------------- */

static struct {
    baton_t *b;
    baton_cache_t *cache;
    char neighbour[BATON_ENGINE_NAME_MAX], other[BATON_ENGINE_NAME_MAX]; /* engines */
} f;

static void up(void)
{
    baton_tensor_t tensor;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .head_size = BLOCK_BYTES / BLOCK_TOKENS,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_open_params_t me = {.size = sizeof me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};
    snprintf(me.engine, sizeof me.engine, "e%d", harness.rank);
    snprintf(f.neighbour, sizeof f.neighbour, "e%d", harness.rank ^ 1);
    snprintf(f.other, sizeof f.other, "e%d", (harness.rank + harness.size / 2) % harness.size);
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &me, &f.b), 0) ||
        !CHECK_EQ(baton_cache_create(f.b, &g, BATON_MEMORY_HOST, &f.cache), 0) || !CHECK_EQ(baton_start(f.b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
    watched = f.b;
}

static void down(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    watched = NULL;
    CHECK_EQ(baton_close(f.b), 0);
}

static uint64_t lent(void)
{
    const count_t *count = f.b->loop.turns.count;
    return count_of(&count[TURNS_CALL]) + count_of(&count[TURNS_POLL]) + count_of(&count[TURNS_WORKER]);
}

/* Turns were lent, and MPI was called, but not in these. */
static void check_calls(void)
{
    CHECK(lent() > 0);
    CHECK(all_calls > 0);
    if (!CHECK_EQ(calls, 0))
        fprintf(stderr, "# rank %d: MPI_%s was called in a turn that was lent\n", harness.rank, called);
    calls = all_calls = 0;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

static uint8_t *block(uint32_t i)
{
    return (uint8_t *)baton_cache_base(f.cache) + (size_t)i * BLOCK_BYTES;
}

/* Offers a block under that key, to so many engines: the neighbour, then one of the other node. */
static baton_id_t offer(const char *key, uint32_t i, uint32_t consumers)
{
    const char *const names[] = {f.neighbour, f.other};
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = key,
                                    .num_tables = 1,
                                    .tables = {{.blocks = &i, .num_blocks = 1}},
                                    .num_tokens = BLOCK_TOKENS,
                                    .num_consumers = consumers,
                                    .consumers = names,
                                    .ttl_ms = ROUND_MS};
    baton_id_t id = 0;
    memset(block(i), harness.rank + 1, BLOCK_BYTES);
    CHECK_EQ(baton_offer(f.b, &o, &id), 0);
    return id;
}

static void want(const char *engine, const char *key, uint32_t to, baton_mode_t mode)
{
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = engine,
                                   .mode = mode,
                                   .num_tables = 1,
                                   .tables = {{.blocks = &to, .num_blocks = 1}},
                                   .num_tokens = BLOCK_TOKENS,
                                   .timeout_ms = ROUND_MS};
    memset(block(to), 0, BLOCK_BYTES);
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
}

/* Takes so many events, which end their calls like that. */
static void take(int num, baton_status_t status)
{
    baton_event_t e;
    for (double until = now_ms() + ROUND_MS; num > 0 && now_ms() < until;) {
        if (baton_poll(f.b, &e, 1) != 1) {
            sched_yield();
            continue;
        }
        CHECK_EQ(e.status, status);
        num--;
    }
    CHECK_EQ(num, 0);
}

static bool is_of(uint32_t i, const char *engine)
{
    return block(i)[0] == atoi(engine + 1) + 1 && memcmp(block(i), block(i) + 1, BLOCK_BYTES - 1) == 0;
}

static bool has_two_pairs(void)
{
    return harness.size % 4 == 0 && !is_one_node();
}

/* Each round the neighbour and one of the other node take an offer of each, and both are taken from; both at once. */
static void move_to_both(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        const baton_mode_t mode = i % 4 < 2 ? BATON_MODE_PULL : BATON_MODE_PUSH;
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        if (i % 2 == 0)
            offer(key, 0, 2);
        want(f.neighbour, key, 1, mode);
        want(f.other, key, 2, mode);
        if (i % 2 == 1)
            offer(key, 0, 2);
        take(3, BATON_STATUS_DONE);
        CHECK(is_of(1, f.neighbour) && is_of(2, f.other));
        MPI_Barrier(MPI_COMM_WORLD); /* so that keys of rounds do not meet */
    }
}

static void turns_are_lent_beside_mpi(void)
{
    if (!has_two_pairs())
        return SKIP("pairs of ranks on two nodes");
    up();
    move_to_both(ROUNDS);
    check_calls();
    down();
}

static void with_hashes(void)
{
    if (!has_two_pairs())
        return SKIP("pairs of ranks on two nodes");
    setenv("BATON_CHECKSUM", "1", 1);
    up();
    move_to_both(ROUNDS / 4);
    check_calls();
    down();
    unsetenv("BATON_CHECKSUM");
}

static void with_faults(void)
{
    if (!has_two_pairs())
        return SKIP("pairs of ranks on two nodes");
    setenv("BATON_FAULT", "delay@send.WANT~300+1,double@send.GRANT~300,drop@send.DONE~200", 1);
    tune("handoff", "2");
    up();
    move_to_both(ROUNDS / 4);
    check_calls();
    down();
    tune("handoff", NULL);
    unsetenv("BATON_FAULT");
}

/*
 * An offer that a rank of the other node has taken, and whose bytes it may be reading, is cancelled by a call, in a
 * turn that is lent: its end, which that rank has to find, and its event wait for the reactor.
 */
static void offers_are_cancelled(void)
{
    if (!has_two_pairs())
        return SKIP("pairs of ranks on two nodes");
    up();
    for (unsigned i = 0; i < ROUNDS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        const baton_id_t id = offer(key, 0, 2);
        want(f.other, key, 2, i % 2 == 0 ? BATON_MODE_PULL : BATON_MODE_PUSH);
        take(1, BATON_STATUS_DONE);
        CHECK(is_of(2, f.other));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQ(baton_cancel(f.b, id), 0);
        take(1, BATON_STATUS_CANCELLED);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check_calls();
    down();
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(turns_are_lent_beside_mpi);
    RUN(with_hashes);
    RUN(with_faults);
    RUN(offers_are_cancelled);
    return harness_end();
}
