/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest pull: the program of README.md, line by line. */
/* clang-format off */
#include <baton.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static void check(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", baton_strerror(rc), baton_errmsg());
        baton_exit(1);
    }
}

int main(void)
{
    baton_t *b;
    baton_open_params_t me = {.size = sizeof me};
    check(baton_role_from_env(&me)); /* which engine this rank belongs to: the launcher says so */
    check(baton_open(MPI_COMM_NULL, &me, &b));
    baton_geometry_t g = {
        .size = sizeof g, .model = "demo", .dtype = "bf16", .elem_bytes = 2, .planes = 2, .head_size = 128,
        .layers_total = 1, .layer_count = 1, .num_groups = 1, .groups = {{.block_tokens = 16, .num_blocks = 64}},
        .num_splits = 1, .splits = {{.heads_total = 8, .head_first = 8 / me.tp * me.tp_rank, .head_count = 8 / me.tp}}};
    baton_tensor_t tensor; /* of the one layer */
    baton_cache_t *cache;
    check(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND)); /* a block holds its heads in turn */
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache));
    check(baton_start(b));
    baton_table_t table = {(uint32_t[]){7, 3, 12}, 3, 0}; /* 40 tokens lie in, or go to, these 3 blocks */
    baton_offer_params_t o = {.size = sizeof o, .key = "r1", .num_tokens = 40, .num_tables = 1, .tables = {table}};
    baton_want_params_t w = {.size = sizeof w, .key = "r1", .engine = "prefill0", .num_tokens = 40, .num_tables = 1,
                             .tables = {table}};
    if (me.role == BATON_ROLE_PREFILL) memset(baton_cache_base(cache), 42, g.bytes);
    check(me.role == BATON_ROLE_PREFILL ? baton_offer(b, &o, NULL) : baton_want(b, &w, NULL));
    baton_event_t e;
    for (struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN}; baton_poll(b, &e, 1) == 0;)
        poll(&fd, 1, -1); /* an engine would compute here */
    printf("%s: %s, %llu bytes\n", me.engine, baton_strerror(e.error), (unsigned long long)e.bytes);
    check(baton_close(b));
    return e.status != BATON_STATUS_DONE;
}
