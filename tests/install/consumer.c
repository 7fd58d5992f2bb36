/* SPDX-License-Identifier: BSD-3-Clause */
/* consumer: opens a world of one rank, moves a request to itself and compares it: the whole library, from outside. */
#include <baton.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../with_geometry.h"

static void check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, baton_strerror(rc), baton_errmsg());
    baton_exit(1);
}

static void wait_for(baton_t *b, int events)
{
    struct pollfd p = {.fd = baton_event_fd(b), .events = POLLIN};
    while (events > 0) {
        baton_event_t e;
        int n = baton_poll(b, &e, 1);
        check(n, "poll");
        if (n == 0 && poll(&p, 1, 10000) == 0)
            check(BATON_ETIMEDOUT, "waiting");
        if (n == 1 && e.status != BATON_STATUS_DONE)
            check(e.error, e.detail);
        events -= n;
    }
}

int main(void)
{
    baton_open_params_t me = {.size = sizeof me, .engine = "both", .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};
    baton_geometry_t g = small_geometry(16, 8);
    const uint32_t from[2] = {1, 6}, to[2] = {3, 2};
    baton_tensor_t tensor;
    baton_cache_t *cache;
    baton_t *b;
    check(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND | BATON_LAYOUT_KV_BLOCK), "layout");
#ifdef BATON_NO_MPI
    check(baton_open_f(BATON_COMM_NULL_F, &me, &b), "open");
#else
    check(baton_open(MPI_COMM_NULL, &me, &b), "open");
#endif
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "cache");
    check(baton_start(b), "start");
    char *base = baton_cache_base(cache);
    size_t block = (size_t)tensor.stride.block;
    for (int i = 0; i < 2; i++)
        memset(base + from[i] * block, 'a' + i, block);
    check(baton_offer(b,
                      &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                              .key = "k",
                                              .num_tables = 1,
                                              .tables = {{.blocks = from, .num_blocks = 2}},
                                              .num_tokens = 32},
                      NULL),
          "offer");
    check(baton_want(b,
                     &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                            .key = "k",
                                            .engine = "both",
                                            .num_tables = 1,
                                            .tables = {{.blocks = to, .num_blocks = 2}},
                                            .num_tokens = 32},
                     NULL),
          "want");
    wait_for(b, 2);
    for (int i = 0; i < 2; i++)
        if (memcmp(base + from[i] * block, base + to[i] * block, block) != 0 || base[to[i] * block] != 'a' + i)
            check(BATON_ESTALE, "bytes");
    check(baton_close(b), "close");
    printf("baton %s moved 2 blocks\n", baton_version());
    return 0;
}
