/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application that uses MPI itself: it initialises MPI, makes communicators of its own, and gives Baton the ranks
 * that belong to engines. The last rank is the application's router, and Baton does not know of it. The other ranks'
 * roles follow from their numbers, so that any launcher will do:
 *
 *   mpirun -n 5 coexist        # a prefill engine and a decode engine of TP 2 each, and a router
 */
#include <mpi.h>

#include <baton.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 8, BLOCK_TOKENS = 16, REQUESTS = 20 };

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, baton_strerror(rc), baton_errmsg());
        baton_exit(1);
    }
}

/* Which blocks the two sides use for a request: the router decides, and sends it to all by MPI. */
struct order {
    char key[32];
    uint32_t from[2], to[2];
};

static void route(int router)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct order order = {.from = {i % BLOCKS, (i + 3) % BLOCKS}, .to = {(i + 5) % BLOCKS, (i + 1) % BLOCKS}};
        snprintf(order.key, sizeof order.key, "request-%u", i);
        MPI_Bcast(&order, sizeof order, MPI_BYTE, router, MPI_COMM_WORLD);
    }
}

/* Returns how many elements were wrong. */
static unsigned serve(MPI_Comm engines, int router)
{
    int rank, size;
    unsigned wrong = 0;
    baton_t *b;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    baton_event_t e;
    MPI_Comm_rank(engines, &rank);
    MPI_Comm_size(engines, &size);
    uint32_t tp = (uint32_t)size / 2;
    bool prefill = (uint32_t)rank < tp;
    baton_open_params_t me = {.size = sizeof me,
                              .role = prefill ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE,
                              .tp = tp,
                              .pp = 1,
                              .tp_rank = (uint32_t)rank % tp};
    strcpy(me.engine, prefill ? "prefill" : "decode");
    check(baton_open(engines, &me, &b), "baton_open"); /* Baton works on a duplicate of this communicator */
    baton_geometry_t g = {.size = sizeof g,
                          .model = "example",
                          .dtype = "fp32",
                          .elem_bytes = 4,
                          .planes = 2,
                          .head_size = 64,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 4, .head_first = 4 / tp * me.tp_rank, .head_count = 4 / tp}},
                          .layers_total = 1,
                          .layer_count = 1};
    check(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_BLOCK_MAJOR), "layout");
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "baton_cache_create");
    check(baton_start(b), "baton_start");
    float *base = baton_cache_base(cache);
    uint64_t each = g.bytes / BLOCKS / sizeof *base;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct order order;
        MPI_Bcast(&order, sizeof order, MPI_BYTE, router, MPI_COMM_WORLD); /* beside Baton's own MPI */
        for (unsigned k = 0; prefill && k < 2; k++)
            for (uint64_t n = 0; n < each; n++)
                base[order.from[k] * each + n] = (float)(i + k);
        const baton_offer_params_t offer = {.size = sizeof offer,
                                            .key = order.key,
                                            .num_tables = 1,
                                            .tables = {{.blocks = order.from, .num_blocks = 2}},
                                            .num_tokens = 2 * BLOCK_TOKENS};
        const baton_want_params_t want = {.size = sizeof want,
                                          .key = order.key,
                                          .engine = "prefill",
                                          .num_tables = 1,
                                          .tables = {{.blocks = order.to, .num_blocks = 2}},
                                          .num_tokens = 2 * BLOCK_TOKENS};
        check(prefill ? baton_offer(b, &offer, NULL, NULL) : baton_want(b, &want, NULL), "offer or want");
        int n;
        while ((n = baton_poll(b, &e, 1)) == 0) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, engines, &flag, MPI_STATUS_IGNORE); /* its own MPI calls */
        }
        check(n, "baton_poll");
        wrong += e.status != BATON_STATUS_DONE;
        for (unsigned k = 0; !prefill && k < 2; k++)
            for (uint64_t m = 0; m < each; m++)
                wrong += base[order.to[k] * each + m] != (float)(i + k);
    }
    check(baton_close(b), "baton_close");
    return wrong;
}

int main(int argc, char **argv)
{
    int level, rank, size;
    unsigned wrong = 0, all = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level); /* with less, blocks move only inside baton_poll */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 3 || size % 2 == 0) {
        fprintf(stderr, "coexist: an odd number of ranks is needed, at least 3\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bool router = rank == size - 1;
    MPI_Comm mine;
    MPI_Comm_split(MPI_COMM_WORLD, router, rank, &mine);
    if (router)
        route(rank);
    else
        wrong = serve(mine, size - 1);
    MPI_Reduce(&wrong, &all, 1, MPI_UNSIGNED, MPI_SUM, size - 1, MPI_COMM_WORLD);
    if (router)
        printf("router: %d requests over %d ranks, %u failures or wrong elements\n", REQUESTS, size - 1, all);
    MPI_Comm_free(&mine);
    MPI_Finalize();
    return all > 0;
}
