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

/* An engine's rank, with its cache. */
struct engine {
    baton_t *baton;
    bool prefill;
    float *base;
    uint64_t each; /* elements of a block */
};

/* The first half of the ranks is the prefill engine, the second half the decode engine. */
static void start(MPI_Comm ranks, struct engine *e)
{
    int rank, size;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    uint32_t tp = (uint32_t)size / 2;
    e->prefill = (uint32_t)rank < tp;
    baton_open_params_t me = {.size = sizeof me,
                              .role = e->prefill ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE,
                              .tp = tp,
                              .pp = 1,
                              .tp_rank = (uint32_t)rank % tp};
    snprintf(me.engine, sizeof me.engine, "%s", e->prefill ? "prefill" : "decode");
    check(baton_open(ranks, &me, &e->baton), "baton_open"); /* Baton works on a duplicate of this communicator */
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
    check(baton_cache_create(e->baton, &g, BATON_MEMORY_HOST, &cache), "baton_cache_create");
    check(baton_start(e->baton), "baton_start");
    e->base = baton_cache_base(cache);
    e->each = g.bytes / BLOCKS / sizeof *e->base;
}

/* Fills the blocks of a request, or counts what is wrong in them. */
static unsigned visit(struct engine *e, const uint32_t blocks[2], unsigned request)
{
    unsigned wrong = 0;
    for (unsigned k = 0; k < 2; k++)
        for (uint64_t n = 0; n < e->each; n++) {
            float *element = &e->base[blocks[k] * e->each + n];
            if (e->prefill)
                *element = (float)(request + k);
            else
                wrong += *element != (float)(request + k);
        }
    return wrong;
}

/* Offers the request, or wants it. */
static void call(struct engine *e, const struct order *order)
{
    const baton_offer_params_t offer = {.size = sizeof offer,
                                        .key = order->key,
                                        .num_tables = 1,
                                        .tables = {{.blocks = order->from, .num_blocks = 2}},
                                        .num_tokens = 2 * BLOCK_TOKENS};
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = order->key,
                                      .engine = "prefill",
                                      .num_tables = 1,
                                      .tables = {{.blocks = order->to, .num_blocks = 2}},
                                      .num_tokens = 2 * BLOCK_TOKENS};
    check(e->prefill ? baton_offer(e->baton, &offer, NULL) : baton_want(e->baton, &want, NULL), "offer or want");
}

/* Returns how many requests failed, and how many elements were wrong. */
static unsigned serve(MPI_Comm ranks, int router)
{
    struct engine e;
    unsigned wrong = 0;
    start(ranks, &e);
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct order order;
        baton_event_t event;
        int n, flag;
        MPI_Bcast(&order, sizeof order, MPI_BYTE, router, MPI_COMM_WORLD); /* beside Baton's own MPI */
        if (e.prefill)
            visit(&e, order.from, i);
        call(&e, &order);
        while ((n = baton_poll(e.baton, &event, 1)) == 0)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks, &flag, MPI_STATUS_IGNORE); /* its own calls of MPI */
        check(n, "baton_poll");
        wrong += event.status != BATON_STATUS_DONE;
        if (!e.prefill)
            wrong += visit(&e, order.to, i);
    }
    check(baton_close(e.baton), "baton_close");
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
