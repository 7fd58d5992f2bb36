// SPDX-License-Identifier: BSD-3-Clause
// consumer_hpp: baton.hpp as it is installed: a world of one rank offers a block to itself, releases it, and closes.
#include <baton.hpp>
#include <iostream>

static void run()
{
    baton::open_params me;
    me.engine = "both";
    baton::geometry g;
    g.model = "m";
    g.dtype = "bf16";
    g.elem_bytes = 2;
    g.head_size = 64;
    g.layers_total = g.layer_count = 1;
    g.groups = {{baton::kind::full, 16, 8}};
    g.splits = {{1, 0, 1}};
    g.lay_out();
    baton::context b = baton::open(me);
    b.cache_create(g);
    b.start();
    const std::uint32_t blocks[] = {3};
    baton::offer_params o;
    o.key = "k";
    o.tables = blocks;
    o.num_tokens = 16;
    b.offer(o);
    baton::want_params w;
    w.key = "k";
    w.engine = "both"; // and no tokens: nothing is needed, the offer is released
    b.want(w);
    baton::event e;
    for (int events = 0; events < 2;)
        if (b.poll(e)) {
            if (!e.is_done())
                throw std::system_error(e.error(), std::string(e.detail()));
            events++;
        }
    b.close();
    std::cout << "baton " << baton::version() << " released an offer, in C++" << std::endl;
}

int main()
{
    try {
        run();
    } catch (const std::system_error &e) {
        std::cerr << e.what() << std::endl;
        return 1;
    }
    return 0;
}
