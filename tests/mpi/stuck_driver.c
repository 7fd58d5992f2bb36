/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck_driver: rank 0 offers blocks of a device whose driver ends no copy, and rank 1 wants them. The contexts close
 * meanwhile: every rank hears EPEER, and the driver may go on with its copies after that. So MPI cannot be left by
 * MPI_Finalize here.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"

enum { BLOCKS = 4, BLOCK_TOKENS = 16, COPIES = 16, PIECES = 1024 };

static struct {
    baton_piece_t pieces[COPIES][PIECES];
    uint32_t num[COPIES];
    int copies;
} driver;

static int copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    (void)self, (void)tag;
    if (driver.copies == COPIES)
        return BATON_EAGAIN;
    CHECK(!to_device && num <= PIECES);
    memcpy(driver.pieces[driver.copies], pieces, num * sizeof *pieces);
    driver.num[driver.copies++] = num;
    return 0;
}

static int none_ended(void *self, uint64_t *tags, int *errors, int max)
{
    (void)self, (void)tags, (void)errors, (void)max;
    return 0;
}

static baton_event_t next_event(baton_t *b)
{
    baton_event_t e;
    struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN};
    while (baton_poll(b, &e, 1) == 0)
        poll(&fd, 1, 1000);
    return e;
}

static void closing_with_a_stuck_driver(void)
{
    const baton_driver_t stuck = {sizeof stuck, "stuck", NULL, copy, none_ended};
    baton_open_params_t me = {.size = sizeof me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "bf16",
                          .elem_bytes = 2,
                          .planes = 2,
                          .head_size = 64,
                          .layers_total = 1,
                          .layer_count = 1,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 2, .head_count = 2}}};
    const uint32_t blocks[] = {2, 0};
    const baton_table_t table = {blocks, 2, 0};
    baton_tensor_t tensor;
    baton_cache_t *cache;
    baton_t *b;
    bool offers = harness.rank == 0;
    strcpy(me.engine, offers ? "p" : "d");
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &me, &b), 0);
    void *device = malloc(g.bytes);
    if (offers) {
        CHECK_EQ(baton_driver_set(b, &stuck), 0);
        CHECK_EQ(baton_cache_wrap(b, &g, BATON_MEMORY_DEVICE, &device, &g.bytes, 1, &cache), 0);
    } else {
        CHECK_EQ(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), 0);
    }
    if (!CHECK_EQ(baton_start(b), 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    char page[4096];
    CHECK(baton_describe(b, page, sizeof page) < (int)sizeof page);
    if (getenv("BATON_FAKE_NODES") == NULL)
        CHECK_HAS(page, offers ? ": the cache of this one is a device's memory" : "rank 0 first: a device's memory");
    const baton_offer_params_t o = {
        .size = sizeof o, .key = "k", .num_tokens = 2 * BLOCK_TOKENS, .num_tables = 1, .tables = {table}};
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = "k",
                                   .engine = "p",
                                   .num_tokens = 2 * BLOCK_TOKENS,
                                   .num_tables = 1,
                                   .tables = {table},
                                   .timeout_ms = 1000};
    CHECK_EQ(offers ? baton_offer(b, &o, NULL, NULL) : baton_want(b, &w, NULL), 0);
    CHECK_EQ(next_event(b).error, BATON_ETIMEDOUT);
    CHECK_EQ(baton_close(b), BATON_EPEER);
    CHECK_HAS(baton_errmsg(), "stuck");
    CHECK_HAS(baton_errmsg(), "baton_exit");
    CHECK_EQ(driver.copies > 0, offers);
    for (int i = 0; i < driver.copies; i++)
        for (uint32_t k = 0; k < driver.num[i]; k++)
            memcpy(driver.pieces[i][k].host, driver.pieces[i][k].device, driver.pieces[i][k].bytes);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(closing_with_a_stuck_driver);
    harness_leave(baton_exit);
}
