/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rest: rank 1 comes to MPI_Finalize while bytes come to it from rank 0, of another node, over an MPI in which each
 * read takes 50 ms. MPI_Finalize waits for the thread that makes them: reads under way end, and no further ones begin,
 * since all of them would take three times as long as it waits.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "shim.h"
#include "with_log.h"

enum { BLOCKS = 512, BLOCK_BYTES = 65536, BLOCK_TOKENS = 16, LATE_MS = 50 };

/* Waits until a byte of any block is there. False: none came in 20 s. */
static bool await_bytes(const volatile unsigned char *base)
{
    for (double until = MPI_Wtime() + 20; MPI_Wtime() < until; usleep(100))
        for (size_t i = 0; i < BLOCKS; i++)
            if (base[i * BLOCK_BYTES] != 0)
                return true;
    return false;
}

static void offer_all(baton_t *b, const uint32_t *blocks, unsigned char *base)
{
    for (size_t i = 0; i < (size_t)BLOCKS * BLOCK_BYTES; i++)
        base[i] = 1;
    need(baton_offer(b,
                     &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                             .key = "k",
                                             .num_tables = 1,
                                             .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                             .num_tokens = BLOCKS * BLOCK_TOKENS},
                     NULL),
         "baton_offer");
}

static void want_all(baton_t *b, const uint32_t *blocks)
{
    need(baton_want(b,
                    &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                           .key = "k",
                                           .engine = "e0",
                                           .num_tables = 1,
                                           .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                           .num_tokens = BLOCKS * BLOCK_TOKENS},
                    NULL),
         "baton_want");
}

static baton_t *up(int rank, unsigned char **base)
{
    baton_t *b;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    baton_open_params_t me = {.size = sizeof me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};
    snprintf(me.engine, sizeof me.engine, "e%d", rank);
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
    baton_log_set(hear, NULL);
    need(baton_open(MPI_COMM_WORLD, &me, &b), "baton_open");
    need(baton_geometry_layout(&g, &tensor, 0), "baton_geometry_layout");
    need(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "baton_cache_create");
    need(baton_start(b), "baton_start");
    *base = baton_cache_base(cache);
    return b;
}

int main(int argc, char **argv)
{
    static uint32_t blocks[BLOCKS];
    unsigned char *base;
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = i;
    baton_t *b = up(rank, &base);
    if (rank == 0)
        offer_all(b, blocks, base);
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        PMPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sleep(1); /* it serves meanwhile: an offer that ends would end its reads */
    } else {
        shim_set(&(struct shim_rule){
            .call = SHIM_RGET, .fault = SHIM_LATE, .nth = 1, .times = 1000000, .late_ns = LATE_MS * UINT64_C(1000000)});
        want_all(b, blocks);
        if (!await_bytes(base))
            return 4;
        PMPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == 1 && shim_calls(SHIM_RGET) == 0)
        return 5;
    if (shim_late() > 0) {
        fprintf(stderr, "%u reads are under way\n", shim_late());
        return 6;
    }
    if (unstopped > 0)
        return 9;
    printf("rank %d came to rest\n", rank);
    return 0;
}
