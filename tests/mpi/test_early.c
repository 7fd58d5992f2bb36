/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_early: as many wants as a rank may have open come before their offers, or end at once while their producer is
 * stopped. Ranks are pairs: each even one is a prefill engine of its own, and the next one a decode engine that wants
 * from it alone.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "baton.h"
#include "harness.h"
#include "with_tune.h"

#define CALLS 4096 /* BATON_REQUESTS */
#define BLOCKS 64
#define BLOCK_TOKENS 16
#define AGAIN_US 700000                 /* wants that found no place have asked again */
#define PROMPT_NS (10 * CLOCK_NS_PER_S) /* where pauses grew, a quarter of the calls took longer */
#define TIMEOUT_MS 20000

static struct {
    baton_t *b;
    baton_cache_t *cache;
    char mine[BATON_ENGINE_NAME_MAX], theirs[BATON_ENGINE_NAME_MAX];
    bool producer, consumer;
    pid_t peer;
} f;

static void need(int rc)
{
    if (CHECK_EQ(rc, 0))
        return;
    fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
}

static void up(void)
{
    baton_tensor_t tensor;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "f32",
                          .elem_bytes = 4,
                          .planes = 1,
                          .head_size = 16,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_open_params_t me = {.size = sizeof me, .tp = 1, .pp = 1, .progress = BATON_PROGRESS_THREAD};
    int peer = harness.rank ^ 1, pid = getpid(), other = 0;
    memset(&f, 0, sizeof f);
    f.producer = harness.rank % 2 == 0 && peer < harness.size;
    f.consumer = harness.rank % 2 == 1;
    if (peer < harness.size)
        MPI_Sendrecv(&pid, 1, MPI_INT, peer, 0, &other, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    f.peer = other;
    snprintf(f.mine, sizeof f.mine, "e%d", harness.rank);
    snprintf(f.theirs, sizeof f.theirs, "e%d", peer);
    me.role = f.consumer ? BATON_ROLE_DECODE : BATON_ROLE_PREFILL;
    strcpy(me.engine, f.mine);
    need(baton_geometry_layout(&g, &tensor, 0));
    need(baton_open(MPI_COMM_WORLD, &me, &f.b));
    need(baton_cache_create(f.b, &g, BATON_MEMORY_HOST, &f.cache));
    need(baton_start(f.b));
}

static void down(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(f.b), 0);
}

static void offer(uint32_t i)
{
    const uint32_t block = i % BLOCKS;
    char key[32];
    snprintf(key, sizeof key, "key %u", i);
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = key,
                                    .num_tables = 1,
                                    .tables = {{.blocks = &block, .num_blocks = 1}},
                                    .num_tokens = BLOCK_TOKENS,
                                    .ttl_ms = TIMEOUT_MS};
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
}

static void want(uint32_t i, baton_mode_t mode, uint32_t timeout_ms)
{
    const uint32_t block = i % BLOCKS;
    char key[32];
    snprintf(key, sizeof key, "key %u", i);
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = f.theirs,
                                   .num_tables = 1,
                                   .tables = {{.blocks = &block, .num_blocks = 1}},
                                   .num_tokens = BLOCK_TOKENS,
                                   .mode = mode,
                                   .timeout_ms = timeout_ms};
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
}

/* Polls until so many calls have ended with that status, or until then. How many ended, and how many were given up. */
static uint32_t ends(uint32_t num, baton_status_t status, uint64_t until, uint32_t *given_up)
{
    struct pollfd p = {.fd = baton_event_fd(f.b), .events = POLLIN};
    baton_event_t events[64];
    uint32_t n = 0;
    while (n < num && clock_now_ns() < until) {
        int got = baton_poll(f.b, events, 64);
        for (int i = 0; i < got; i++) {
            if (events[i].type == BATON_EVENT_GIVEN_UP)
                ++*given_up;
            else if (CHECK_EQ(events[i].status, status))
                n++;
        }
        if (got == 0)
            poll(&p, 1, 20);
    }
    return n;
}

static void wants_before_their_offers(baton_mode_t mode)
{
    uint32_t given_up = 0, num = f.consumer || f.producer ? CALLS : 0;
    for (uint32_t i = 0; f.consumer && i < CALLS; i++)
        want(i, mode, TIMEOUT_MS);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(AGAIN_US);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t i = 0; f.producer && i < CALLS; i++)
        offer(CALLS - 1 - i); /* those that found a place come last */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(ends(num, BATON_STATUS_DONE, clock_now_ns() + PROMPT_NS, &given_up), num);
    CHECK_EQ(given_up, 0);
}

static void pulls_before_their_offers(void)
{
    up();
    wants_before_their_offers(BATON_MODE_PULL);
    down();
}

static void pushes_before_their_offers(void)
{
    up();
    wants_before_their_offers(BATON_MODE_PUSH);
    down();
}

/*
 * The first words of these wants reach the stopped rank, no other can leave in time. When the producer goes on, they
 * end at once, and closing succeeds.
 */
static void wants_of_a_stopped_rank(void)
{
    uint32_t given_up = 0, ended;
    up();
    if (f.producer) { /* they meet, so that no want waits for the handshake */
        offer(CALLS);
        CHECK_EQ(ends(1, BATON_STATUS_DONE, clock_now_ns() + PROMPT_NS, &given_up), 1);
    }
    if (f.consumer) {
        want(CALLS, BATON_MODE_PULL, TIMEOUT_MS);
        CHECK_EQ(ends(1, BATON_STATUS_DONE, clock_now_ns() + PROMPT_NS, &given_up), 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.consumer) {
        kill(f.peer, SIGSTOP);
        for (uint32_t i = 0; i < CALLS; i++)
            want(i, BATON_MODE_PUSH, 300);
        ended = ends(CALLS, BATON_STATUS_EXPIRED, clock_now_ns() + 2 * CLOCK_NS_PER_S, &given_up);
        kill(f.peer, SIGCONT);
        ended += ends(CALLS - ended, BATON_STATUS_EXPIRED, clock_now_ns() + PROMPT_NS, &given_up);
        CHECK_EQ(ended, CALLS);
    }
    down();
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(pulls_before_their_offers); /* all find a place at their producer */
    tune("waiting", "4096");
    RUN(pulls_before_their_offers); /* most do not, and ask again */
    RUN(pushes_before_their_offers);
    RUN(wants_of_a_stopped_rank);
    return harness_end();
}
