/* SPDX-License-Identifier: BSD-3-Clause */
/* test_threads: an MPI that gives less than MPI_THREAD_MULTIPLE, and roles read from the environment. */
#include <stdlib.h>

#include "baton.h"
#include "harness.h"

static baton_open_params_t me(baton_progress_mode_t mode)
{
    baton_open_params_t p = {.engine = "e",
                             .role = BATON_ROLE_BOTH,
                             .tp = (uint32_t)harness.size,
                             .pp = 1,
                             .tp_rank = (uint32_t)harness.rank,
                             .progress = mode};
    return p;
}

static void refuses_a_thread_without_support(void)
{
    baton_open_params_t p = me(BATON_PROGRESS_THREAD);
    baton_t *b;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), BATON_ETHREAD);
    CHECK_HAS(baton_errmsg(), "MPI_THREAD_");
}

static void refuses_a_thread_asked_for_by_one_rank(void)
{
    baton_open_params_t p = me(harness.rank == 0 ? BATON_PROGRESS_THREAD : BATON_PROGRESS_AUTO);
    baton_t *b;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), BATON_ETHREAD); /* on every rank the same */
}

static void works_by_the_callers_thread(void)
{
    baton_open_params_t p = me(BATON_PROGRESS_AUTO);
    baton_event_t e = {0};
    baton_t *b;
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), 0))
        return;
    baton_geometry_t g = {.model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .block_tokens = 16,
                          .head_size = 64,
                          .num_blocks = 4,
                          .heads_total = (uint32_t)harness.size,
                          .head_first = p.tp_rank,
                          .head_count = 1,
                          .layers_total = 1,
                          .layer_count = 1};
    baton_tensor_t tensor;
    baton_cache_t *cache;
    const uint32_t from = 1, to = 2;
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    CHECK_EQ(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), 0);
    CHECK_EQ(baton_start(b), 0);
    unsigned char *base = baton_cache_base(cache);
    memset(base + 1024, 1 + harness.rank, 1024);
    CHECK_EQ(baton_offer(b, &(baton_offer_params_t){.key = "k", .blocks = &from, .num_blocks = 1, .num_tokens = 16},
                         NULL, NULL),
             0);
    CHECK_EQ(baton_want(
                 b, &(baton_want_params_t){.key = "k", .engine = "e", .blocks = &to, .num_blocks = 1, .num_tokens = 16},
                 NULL),
             0);
    for (int ended = 0, turns = 0; ended < 2 && turns < 100000000; turns++) {
        CHECK(baton_progress(b) >= 0);
        if (baton_poll(b, &e, 1) == 1) {
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            ended++;
        }
    }
    CHECK_EQ(base[2048], 1 + harness.rank);
    CHECK_EQ(base[2048 + 1023], 1 + harness.rank);
    CHECK_EQ(base[2048 + 1024], 0);
    CHECK_EQ(baton_close(b), 0);
}

static void reads_its_role(void)
{
    baton_open_params_t p = {.progress = BATON_PROGRESS_CALLER};
    unsetenv("BATON_ENGINE");
    unsetenv("BATON_ROLE");
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_ENGINE");
    setenv("BATON_ENGINE", "decode3", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_ROLE");
    setenv("BATON_ROLE", "decode", 1);
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK_EQ(p.tp, 1);
    setenv("BATON_TP", "4", 1);
    setenv("BATON_TP_RANK", "4", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_TP_RANK");
    CHECK_EQ(p.tp, 1); /* set only on success */
    setenv("BATON_TP_RANK", "3", 1);
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK(strcmp(p.engine, "decode3") == 0);
    CHECK_EQ(p.role, BATON_ROLE_DECODE);
    CHECK_EQ(p.tp_rank, 3);
    CHECK_EQ(p.progress, BATON_PROGRESS_CALLER); /* left as it was */
    setenv("BATON_PP", "two", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_PP");
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness.size);
    RUN(refuses_a_thread_without_support);
    RUN(refuses_a_thread_asked_for_by_one_rank);
    RUN(works_by_the_callers_thread);
    RUN(reads_its_role);
    return harness_end();
}
