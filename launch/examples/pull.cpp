/* SPDX-License-Identifier: BSD-3-Clause */
/* pull.c in C++17: the smallest pull. The ranks of one prefill engine offer three blocks, those of a decode engine want
 * them. A call that fails throws, on all ranks alike where it is collective, and the context closes itself. */
#include <baton.hpp>
#include <iostream>
#include <poll.h>

static int run()
{
    const auto me = baton::open_params::from_env(); // which engine this rank belongs to: the launcher says so
    baton::context b = baton::open(me);
    baton::geometry g;
    g.model = "demo";
    g.dtype = "bf16";
    g.elem_bytes = 2;
    g.head_size = 128;
    g.layers_total = g.layer_count = 1;
    g.groups = {{baton::kind::full, 16, 64}};            // tokens of a block, blocks
    g.splits = {{8, 8 / me.tp * me.tp_rank, 8 / me.tp}}; // heads of the model, and of this rank
    g.lay_out();                                         // a block holds its heads in turn
    baton::cache cache = b.cache_create(g);
    b.start();
    const std::uint32_t blocks[] = {7, 3, 12}; // 40 tokens lie in, or go to, these 3 blocks
    if (me.role == baton::role::prefill) {
        std::memset(cache.bytes().data(), 42, cache.bytes().size());
        baton::offer_params offer;
        offer.key = "r1";
        offer.tables = blocks;
        offer.num_tokens = 40;
        b.offer(offer);
    } else {
        baton::want_params want;
        want.key = "r1";
        want.engine = "prefill0";
        want.tables = blocks;
        want.num_tokens = 40;
        b.want(want);
    }
    baton::event e;
    pollfd fd = {b.event_fd(), POLLIN, 0};
    while (!b.poll(e))
        poll(&fd, 1, -1); // an engine would compute here
    std::cout << me.engine << ": " << e.error().message() << ", " << e.bytes() << " bytes" << std::endl;
    b.close();
    return e.is_done() ? 0 : 1;
}

int main()
{
    try {
        return run();
    } catch (const baton::error &e) {
        std::cerr << e.what() << std::endl;
        baton::exit(1);
    }
}
