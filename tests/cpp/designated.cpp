/* SPDX-License-Identifier: BSD-3-Clause */
/* designated: parameters in the form of C++20, as the first lines of baton.hpp show it. It is compiled, not run. */
#include "baton.hpp"

int main()
{
    const std::uint32_t blocks[] = {7, 3, 12}, window[] = {5};
    const std::string_view consumers[] = {"decode0"};
    baton::geometry geometry = {.model = "m",
                                .dtype = "bf16",
                                .elem_bytes = 2,
                                .head_size = 128,
                                .layers_total = 1,
                                .layer_count = 1,
                                .groups = {{.block_tokens = 16, .num_blocks = 64}},
                                .splits = {{.heads_total = 8, .head_count = 8}}};
    geometry.lay_out(baton::layout::nhd | baton::layout::kv_block);
    auto b = baton::open(baton::open_params::from_env());
    baton::cache cache = b.cache_create(geometry);
    b.start();
    std::uint32_t token = 17;
    baton::call_id offer = b.offer({.key = "r1",
                                    .tables = {blocks},
                                    .num_tokens = 40,
                                    .ttl = std::chrono::seconds(5),
                                    .consumers = consumers,
                                    .attach = baton::bytes_of(token),
                                    .in_chunks = true});
    b.append(offer, {.num_tokens = 40, .tables = {{blocks}, {window}}});
    b.want({.key = "r1", .engine = "prefill0", .tables = {blocks}, .num_tokens = 40, .mode = baton::mode::push});
    std::array<baton::event, 64> buffer;
    for (const baton::event &e : b.poll(buffer))
        std::printf("%s\n", e.error().message().c_str());
    baton::span<baton::event> events = b.poll(buffer);
    b.close();
    return cache.bytes().empty() || events.empty();
}
