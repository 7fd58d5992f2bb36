// SPDX-License-Identifier: BSD-3-Clause
// consumer: the header in C++: opens a world of one rank, starts it with a cache, fills a block, and closes.
#include <baton.h>
#include <cstdio>
#include <cstring>
#include <string>

static void check(int rc, const std::string &what)
{
    if (rc >= 0)
        return;
    std::fprintf(stderr, "%s: %s: %s\n", what.c_str(), baton_strerror(rc), baton_errmsg());
    baton_exit(1);
}

int main()
{
    baton_open_params_t me = BATON_INIT(baton_open_params_t);
    std::strcpy(me.engine, "both");
    me.role = BATON_ROLE_BOTH;
    me.tp = me.pp = 1;
    baton_geometry_t g = BATON_INIT(baton_geometry_t);
    std::strcpy(g.model, "m");
    std::strcpy(g.dtype, "bf16");
    g.elem_bytes = g.planes = 2;
    g.head_size = 64;
    g.layers_total = g.layer_count = 1;
    g.num_groups = g.num_splits = 1;
    g.groups[0].block_tokens = 16;
    g.groups[0].num_blocks = 8;
    g.splits[0].heads_total = g.splits[0].head_count = 1;
    baton_tensor_t tensor;
    baton_cache_t *cache = nullptr;
    baton_t *b = nullptr;
    check(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND), "layout");
    check(baton_open(MPI_COMM_NULL, &me, &b), "open");
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "cache");
    check(baton_start(b), "start");
    std::memset(baton_cache_base(cache), 42, g.bytes);
    const uint32_t blocks[] = {3};
    baton_offer_params_t o = BATON_INIT(baton_offer_params_t);
    o.key = "k";
    o.num_tables = 1;
    o.tables[0].blocks = blocks;
    o.tables[0].num_blocks = 1;
    o.num_tokens = 16;
    check(baton_offer(b, &o, nullptr), "offer");
    baton_want_params_t w = BATON_INIT(baton_want_params_t);
    w.key = "k";
    w.engine = "both";
    w.num_tokens = 0; // nothing is needed: the offer is released
    check(baton_want(b, &w, nullptr), "want");
    baton_event_t e;
    for (int events = 0; events < 2;) {
        int n = baton_poll(b, &e, 1);
        check(n, "poll");
        if (n > 0 && e.status != BATON_STATUS_DONE)
            check(e.error, e.detail);
        events += n;
    }
    check(baton_close(b), "close");
    std::printf("baton %s released an offer\n", baton_version());
    return 0;
}
