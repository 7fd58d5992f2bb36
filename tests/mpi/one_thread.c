/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_thread: an MPI whose window over nodes is for one thread, and cannot be freed (quirks.h: one_thread and
 * keeps_window). A context with a reactor is refused. One that uses the caller's thread moves its bytes, says what
 * holds there, and leaves without freeing. The last case leaves the process, since MPI_Finalize may hang.
 */
#include <stdbool.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"

#define BYTES 1024 /* of a block */

/* The first half of the ranks is engine "e", the others are engine "f". Each wants what the other offers. */
static const char *engine(bool other)
{
    return (harness.rank < harness.size / 2) != other ? "e" : "f";
}

static baton_t *opened(baton_progress_mode_t mode, baton_cache_t **cache)
{
    uint32_t half = (uint32_t)harness.size / 2;
    baton_open_params_t p = {.size = sizeof p,
                             .role = BATON_ROLE_BOTH,
                             .tp = half,
                             .pp = 1,
                             .tp_rank = (uint32_t)harness.rank % half,
                             .progress = mode};
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .head_size = BYTES / 16,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 4}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}}, /* each rank holds the head */
                          .layers_total = 1,
                          .layer_count = 1};
    baton_tensor_t tensor;
    baton_t *b;
    strcpy(p.engine, engine(false));
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    CHECK_EQ(baton_cache_create(b, &g, BATON_MEMORY_HOST, cache), 0);
    return b;
}

/* Whether the reason is the window's thread, and both ways out are named. */
static void a_reactor_is_refused(void)
{
    static const baton_progress_mode_t modes[] = {BATON_PROGRESS_THREAD, BATON_PROGRESS_AUTO};
    for (int i = 0; i < 2; i++) {
        baton_cache_t *cache;
        baton_t *b = opened(modes[i], &cache);
        CHECK_EQ(baton_start(b), BATON_EWINDOW);
        CHECK_HAS(baton_errmsg(), "ucx window");
        CHECK_HAS(baton_errmsg(), "OMPI_MCA_osc=rdma,sm");
        CHECK_HAS(baton_errmsg(), "BATON_PROGRESS_CALLER");
        CHECK_EQ(baton_close(b), 0); /* a window that was never used is freed */
    }
}

static void move(baton_t *b, unsigned char *base)
{
    const uint32_t from = 1, to = 2;
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = engine(false),
                                    .num_tables = 1,
                                    .tables = {{.blocks = &from, .num_blocks = 1}},
                                    .num_tokens = 16};
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = engine(true),
                                   .engine = engine(true),
                                   .num_tables = 1,
                                   .tables = {{.blocks = &to, .num_blocks = 1}},
                                   .num_tokens = 16};
    baton_event_t e;
    memset(base + BYTES, engine(false)[0], BYTES);
    CHECK_EQ(baton_offer(b, &o, NULL), 0);
    CHECK_EQ(baton_want(b, &w, NULL), 0);
    for (int ended = 0; ended < 2;) {
        CHECK(baton_progress(b) >= 0);
        if (baton_poll(b, &e, 1) != 1)
            continue;
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        ended++;
    }
    for (int i = 0; i < BYTES; i++)
        if (!CHECK_EQ(base[2 * BYTES + i], engine(true)[0]))
            break;
}

static void the_callers_thread_moves_and_leaves(void)
{
    char text[2048];
    baton_cache_t *cache;
    baton_t *b = opened(BATON_PROGRESS_CALLER, &cache);
    if (!CHECK_EQ(baton_start(b), 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    CHECK(baton_describe(b, text, sizeof text) > 0);
    CHECK_HAS(text, "only the thread that opened the context may call MPI");
    CHECK_HAS(text, "never freed");
    move(b, baton_cache_base(cache));
    CHECK_EQ(baton_close(b), BATON_EPEER);
    CHECK_HAS(baton_errmsg(), "MPI_Win_free");
    CHECK_HAS(baton_errmsg(), "baton_exit");
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(a_reactor_is_refused);
    RUN(the_callers_thread_moves_and_leaves);
    harness_leave(baton_exit);
}
