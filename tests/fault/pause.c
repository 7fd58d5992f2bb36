/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pause: a consumer is stopped for longer than BATON_PEER_MS while it waits for the offers of two healthy producers,
 * each on a node of its own. When it is continued its wants go on; another consumer is served meanwhile. Ranks 0 and 1
 * are prefill, 2 and 3 decode; rank 0 stops rank 2. All settings are the defaults.
 */
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "with_clock.h"

#define BLOCKS 4u
#define TOKENS 64u
#define STOP_MS 1000
#define STOPPED_MS 6000

static int rank;

/* Takes the ends of two calls. Returns how many were done by that time. */
static int ends(baton_t *b, double until)
{
    struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN};
    int over = 0, done = 0;
    while (over < 2 && now_ms() < until) {
        baton_event_t e;
        poll(&fd, 1, 20);
        if (baton_poll(b, &e, 1) < 1)
            continue;
        over++;
        done += e.status == BATON_STATUS_DONE;
        if (e.status != BATON_STATUS_DONE)
            fprintf(stderr, "rank %d: %s: %s of %s:%u: %s\n", rank, e.key, baton_errname(e.error), e.peer_engine,
                    e.peer_rank, e.detail);
    }
    return done;
}

static void offer(baton_t *b, uint8_t *pool, int consumer)
{
    char key[32];
    uint32_t blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = (uint32_t)consumer * BLOCKS + i;
    memset(pool, 10 + rank, BLOCKS * 4 * 16 * 256);
    snprintf(key, sizeof key, "p%d.d%d", rank, consumer);
    check(rank,
          baton_offer(b,
                      &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                              .key = key,
                                              .num_tables = 1,
                                              .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                              .num_tokens = TOKENS,
                                              .ttl_ms = 20000},
                      NULL),
          "offer");
}

static void want(baton_t *b, int producer)
{
    char key[32], engine[BATON_ENGINE_NAME_MAX];
    uint32_t blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = (uint32_t)producer * BLOCKS + i;
    snprintf(key, sizeof key, "p%d.d%d", producer, rank);
    snprintf(engine, sizeof engine, "prefill%d", producer);
    check(rank,
          baton_want(b,
                     &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                            .key = key,
                                            .engine = engine,
                                            .num_tables = 1,
                                            .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                            .num_tokens = TOKENS,
                                            .timeout_ms = 40000},
                     NULL),
          "want");
}

int main(void)
{
    int level, pid = (int)getpid(), pids[4];
    baton_t *b;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    baton_open_params_t me = {.size = sizeof me};
    baton_geometry_t g = {.size = sizeof g,
                          .model = "pause",
                          .dtype = "bf16",
                          .elem_bytes = 2,
                          .planes = 1,
                          .head_size = 128,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 4 * BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    check(rank, baton_role_from_env(&me), "role");
    check(rank, baton_geometry_layout(&g, &tensor, 0), "layout");
    check(rank, baton_open(MPI_COMM_WORLD, &me, &b), "open");
    check(rank, baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "cache");
    check(rank, baton_start(b), "start");
    uint8_t *pool = baton_cache_base(cache);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now_ms();
    int done;
    if (me.role == BATON_ROLE_PREFILL) {
        sleep_until(began + STOP_MS);
        if (rank == 0)
            kill(pids[2], SIGSTOP);
        offer(b, pool, 3);
        sleep_until(began + STOP_MS + STOPPED_MS);
        if (rank == 0)
            kill(pids[2], SIGCONT);
        sleep_until(began + STOP_MS + STOPPED_MS + 1500); /* enough time for the wants to be given up */
        offer(b, pool, 2);
        done = ends(b, now_ms() + 20000);
    } else {
        want(b, 0);
        want(b, 1);
        done = ends(b, began + (rank == 3 ? STOP_MS + 4000 : 30000));
    }
    int wrong = 0;
    for (uint32_t p = 0; p < 2 && me.role == BATON_ROLE_DECODE; p++)
        for (uint32_t i = 0; i < BLOCKS * 16 * 256; i++)
            wrong += pool[p * BLOCKS * 16 * 256 + i] != 10 + p;
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    baton_stats(b, &stats);
    printf("rank %d: %d done, %u lost peers, %d wrong bytes\n", rank, done, (unsigned)stats.peers_lost, wrong);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    int rc = baton_close(b);
    if (rc != 0)
        fprintf(stderr, "rank %d: close: %s\n", rank, baton_errmsg());
    if (rc != 0)
        baton_exit(1);
    MPI_Finalize();
    return done != 2 || wrong > 0;
}
