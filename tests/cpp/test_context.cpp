/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_context: the library through baton.hpp, on any number of ranks. The first half of them, at least one, is the
 * prefill engine "p", the rest is the decode engine "d". One rank alone is both.
 */
#include "baton.hpp" /* before <mpi.h>, of which it leaves out the former C++ bindings */

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "other_file.hpp"

using namespace std::chrono_literals;

namespace
{
constexpr std::uint32_t layers = 2, heads = 12, head_size = 32, blocks = 64, block_tokens = 16;

/* Numbers that differ between requests, and between all elements of one. */
std::uint16_t element(unsigned request, std::uint32_t layer, std::uint32_t plane, std::uint32_t head,
                      std::uint32_t token, std::uint32_t channel)
{
    std::uint32_t n = (((request * layers + layer) * 2 + plane) * heads + head) * 1000 + token;
    return static_cast<std::uint16_t>((n * head_size + channel) * 40503u >> 5);
}

/* All bytes that an event's call moved, or that a rank received, whatever the path. */
template <class Counts> std::uint64_t by_all_paths(Counts counts)
{
    return counts(baton::path::shm) + counts(baton::path::rma) + counts(baton::path::cma) + counts(baton::path::staged);
}

/* Who has the cache's memory: Baton; the engine, a region for each tensor; the same, declared after start(); or a
 * device. */
enum class owner { baton, engine, engine_later, device };

/* Copies when it is polled, the last call first. */
class late_driver : public baton::driver
{
  public:
    const char *name() const noexcept override
    {
        return "late";
    }
    baton::errc copy(baton::span<const baton::piece> pieces, bool to_device, std::uint64_t tag) noexcept override
    {
        calls_.push_back({{pieces.begin(), pieces.end()}, to_device, tag});
        return baton::errc::ok;
    }
    bool poll(std::uint64_t &tag, baton::errc &) noexcept override
    {
        if (calls_.empty())
            return false;
        const call &c = calls_.back();
        for (const baton::piece &p : c.pieces)
            std::memcpy(c.to_device ? p.device : p.host, c.to_device ? p.host : p.device, p.bytes);
        tag = c.tag;
        calls_.pop_back();
        return true;
    }

  private:
    struct call {
        std::vector<baton::piece> pieces;
        bool to_device;
        std::uint64_t tag;
    };
    std::vector<call> calls_;
};

/* This rank's context, from open to close, with a cache that another layout has on the other side. */
struct world {
    bool produces, consumes;
    baton::open_params me;
    baton::geometry g;
    std::vector<std::vector<std::byte>> memory; // of the engine: it outlives the context
    std::vector<baton::span<std::byte>> regions;
    late_driver driver;
    baton::context b;
    baton::cache cache;

    explicit world(owner owner, baton::progress progress = baton::progress::automatic)
        : produces(harness.rank < half()), consumes(!produces || harness.size == 1)
    {
        me.engine = produces ? "p" : "d";
        me.role = harness.size == 1 ? baton::role::both : produces ? baton::role::prefill : baton::role::decode;
        me.tp = static_cast<std::uint32_t>(produces ? half() : harness.size - half());
        me.tp_rank = static_cast<std::uint32_t>(produces ? harness.rank : harness.rank - half());
        me.progress = progress;
        me.cache_later = owner == owner::engine_later;
        g.model = "m";
        g.dtype = "u16";
        g.elem_bytes = 2;
        g.head_size = head_size;
        g.layers_total = g.layer_count = layers;
        g.groups = {{baton::kind::full, block_tokens, blocks}};
        g.splits = {{heads, heads / me.tp * me.tp_rank, heads / me.tp}};
        g.lay_out(produces ? baton::layout::hnd : baton::layout::nhd | baton::layout::kv_block);
        b = baton::open(MPI_COMM_WORLD, me);
        if (owner == owner::device)
            b.driver_set(driver);
        if (owner == owner::engine || owner == owner::device)
            wrap(owner == owner::device ? baton::memory::device : baton::memory::host);
        else if (owner == owner::baton)
            cache = b.cache_create(g);
        b.start();
        if (owner == owner::baton)
            regions = {cache.bytes()};
        for (auto region : regions)
            std::memset(region.data(), 0xa5, region.size());
    }
    world() : world(owner::baton)
    {
    }

    void wrap(baton::memory kind = baton::memory::host)
    {
        memory.assign(layers, std::vector<std::byte>(g.bytes / layers));
        for (std::uint32_t i = 0; i < layers; i++) {
            g.tensors[i].region = layers - 1 - i; // in another order than the tensors
            g.tensors[i].offset = 0;
        }
        regions.assign(memory.begin(), memory.end());
        std::vector<baton::region> each;
        for (auto bytes : regions)
            each.push_back({bytes, kind});
        cache = b.cache_wrap(g, each);
    }

    /* Nobody closes while another rank's calls are open: they would end as BATON_ECLOSED. */
    void down()
    {
        MPI_Barrier(MPI_COMM_WORLD);
        b.close();
    }

    static int half()
    {
        return harness.size > 1 ? harness.size / 2 : 1;
    }

    std::uint16_t *at(const std::vector<std::uint32_t> &ids, std::uint32_t layer, std::uint32_t plane,
                      std::uint32_t head, std::uint32_t token) const
    {
        const baton::tensor &t = g.tensors[layer];
        std::int64_t offset = static_cast<std::int64_t>(t.offset) + ids[token / block_tokens] * t.stride.block +
                              plane * t.stride.plane + head * t.stride.head + token % block_tokens * t.stride.token;
        return reinterpret_cast<std::uint16_t *>(regions[t.region].data() + offset);
    }

    /* Writes the elements of tokens [first, end) of some layers, or counts those that are wrong. */
    template <class Each>
    void walk(const std::vector<std::uint32_t> &ids, std::uint32_t layer_end, std::uint32_t first, std::uint32_t end,
              Each each) const
    {
        for (std::uint32_t l = 0; l < layer_end; l++)
            for (std::uint32_t p = 0; p < 2; p++)
                for (std::uint32_t h = 0; h < g.splits[0].head_count; h++)
                    for (std::uint32_t t = first; t < end; t++)
                        for (std::uint32_t c = 0; c < head_size; c++)
                            each(at(ids, l, p, h, t)[c], l, p, g.splits[0].head_first + h, t, c);
    }
    void fill(unsigned request, const std::vector<std::uint32_t> &ids, std::uint32_t first, std::uint32_t end) const
    {
        walk(ids, layers, first, end, [=](std::uint16_t &e, auto... place) { e = element(request, place...); });
    }
    long wrong(unsigned request, const std::vector<std::uint32_t> &ids, std::uint32_t end) const
    {
        long n = 0;
        walk(ids, layers, 0, end, [&](std::uint16_t &e, auto... place) { n += e != element(request, place...); });
        return n;
    }

    /* The next `num` events, within 20 s. */
    std::vector<baton::event> next(std::size_t num)
    {
        std::vector<baton::event> events;
        baton::event buffer[4];
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (events.size() < num && std::chrono::steady_clock::now() < until) {
            auto got = b.poll(baton::span<baton::event>(buffer).first(std::min<std::size_t>(4, num - events.size())));
            events.insert(events.end(), got.begin(), got.end());
            struct pollfd fd = {b.event_fd(), POLLIN, 0};
            if (got.empty())
                poll(&fd, 1, 100);
        }
        CHECK_EQ(events.size(), num);
        return events;
    }
    baton::event next()
    {
        auto events = next(1);
        return events.empty() ? baton::event{} : events[0];
    }
    /* One event a rank's part: of its offer, of its want. */
    std::vector<baton::event> next_of_each()
    {
        return next(std::size_t{produces} + std::size_t{consumes});
    }
    /* The event of one call among those that come. */
    static const baton::event &of(const std::vector<baton::event> &events, baton::call_id id)
    {
        static const baton::event none{};
        for (const baton::event &e : events)
            if (e.id() == id)
                return e;
        bool call_has_event = false;
        CHECK(call_has_event);
        return none;
    }
    void ends(baton::call_id id, baton::status status, std::error_code error)
    {
        baton::event e = next();
        CHECK(e.id() == id && e.is_terminal());
        if (!CHECK(e.status() == status && e.error() == error))
            fprintf(stderr, "# rank %d: %s, %s: %s\n", harness.rank, baton::name(e.status()), baton::name(e.reason()),
                    c_text(e.detail()));
    }
    static const char *c_text(std::string_view text)
    {
        return text.data(); // an event's texts end by a NUL
    }
};

/* A request's ids: scattered, and others for each request. */
std::vector<std::uint32_t> ids_of(unsigned request, std::uint32_t tokens)
{
    std::vector<std::uint32_t> ids((tokens + block_tokens - 1) / block_tokens);
    for (std::uint32_t i = 0; i < ids.size(); i++)
        ids[i] = (request * 17 + i * 5) % blocks;
    return ids;
}

/* Where it goes to: one rank alone has it twice. */
std::vector<std::uint32_t> ids_to(unsigned request, std::uint32_t tokens)
{
    auto ids = ids_of(request, tokens);
    for (std::uint32_t &id : ids)
        id = harness.size > 1 ? id : (id + blocks / 2) % blocks;
    return ids;
}

/* The reason for which a call throws; ok if it does not. */
template <class Call> baton::errc thrown(Call call)
{
    try {
        call();
    } catch (const baton::error &e) {
        CHECK(std::string(e.what()).find(baton::errmsg()) == 0);
        return e.reason();
    }
    return baton::errc::ok;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* Keys of 255 bytes and 256 bytes of the engine's own, by pull and by push. */
void move_by(world &w, baton::mode mode, unsigned request)
{
    const std::uint32_t tokens = 100;
    const auto ids = ids_of(request, tokens), to = ids_to(request, tokens);
    const std::string key(BATON_KEY_MAX - 1, static_cast<char>('a' + request));
    std::array<unsigned char, BATON_ATTACH_MAX> attach;
    for (std::size_t i = 0; i < attach.size(); i++)
        attach[i] = static_cast<unsigned char>(i ^ request);
    baton::call_id offer{}, want{};
    if (w.produces) {
        w.fill(request, ids, 0, tokens);
        baton::offer_params p;
        p.key = key;
        p.tables = ids;
        p.num_tokens = tokens;
        p.attach = baton::bytes_of(attach);
        offer = w.b.offer(p);
    }
    if (w.consumes) {
        baton::want_params p;
        p.key = key;
        p.engine = "p";
        p.tables = to;
        p.num_tokens = tokens;
        p.mode = mode;
        p.user = &w;
        want = w.b.want(p);
    }
    const auto events = w.next_of_each();
    if (w.produces)
        CHECK(world::of(events, offer).is_done() && world::of(events, offer).type() == baton::event_type::offer);
    if (w.consumes) {
        const baton::event &e = world::of(events, want);
        CHECK(e.type() == baton::event_type::want && e.is_done() && !e.error());
        CHECK(e.key() == key && other_file::key_of(e) == key && e.user_as<world>() == &w && e.mode() == mode);
        CHECK_EQ(e.bytes(), by_all_paths([&](baton::path p) { return e.bytes(p); }));
        CHECK_EQ(e.bytes(), std::uint64_t{tokens} * layers * 2 * w.g.splits[0].head_count * head_size * 2);
        CHECK_EQ(e.attach().size(), attach.size());
        CHECK(std::memcmp(e.attach().data(), attach.data(), attach.size()) == 0);
        CHECK_EQ(w.wrong(request, to, tokens), 0);
        CHECK(e.total() > 0ns && e.wait() <= e.total() && !e.peer() && !e.was_given_up());
    }
}

void pulls_and_pushes()
{
    world w;
    move_by(w, baton::mode::pull, 1);
    move_by(w, baton::mode::push, 2);
    w.down();
    CHECK(!w.b);
}

/* Vectors of the engine's are the cache: a region for each tensor. */
void wraps_memory_of_its_own()
{
    world w(owner::engine);
    CHECK(w.b.cache_ready());
    CHECK(w.cache && w.cache.bytes().empty());
    move_by(w, baton::mode::pull, 1);
    move_by(w, baton::mode::push, 2);
    const std::vector<baton::region> again(1);
    CHECK(thrown([&] { w.b.cache_wrap(w.g, again); }) == baton::errc::estate);
    w.down();
}

/* The same after start(). Until all ranks have done so, the verbs say that it is too early, which is no failure. */
void wraps_after_start()
{
    world w(owner::engine_later);
    std::error_code ec;
    CHECK(!w.b.cache_ready() && !w.b.cache_ready(ec) && !ec);
    w.b.want({}, ec);
    CHECK(ec == baton::errc::eagain);
    MPI_Barrier(MPI_COMM_WORLD);
    w.wrap();
    for (int tries = 0; !w.b.cache_ready(ec) && !ec && tries < 20000; tries++)
        usleep(1000);
    CHECK(w.b.cache_ready(ec) && !ec);
    move_by(w, baton::mode::pull, 3);
    w.down();
}

/* Memory that only the engine's driver touches, late and in another order. */
void stages_through_a_driver()
{
    world w(owner::device);
    move_by(w, baton::mode::pull, 4);
    move_by(w, baton::mode::push, 5);
    CHECK_EQ(w.b.stats().bytes_by(baton::path::staged) > 0, w.consumes);
    w.down();
}

/* One thread lends itself, and the context is moved while calls are open. */
void moves_with_open_calls()
{
    world w(owner::baton, baton::progress::caller);
    const auto ids = ids_of(3, 40), to = ids_to(3, 40);
    if (w.produces) {
        w.fill(3, ids, 0, 40);
        baton::offer_params p;
        p.key = "moved";
        p.tables = ids;
        p.num_tokens = 40;
        w.b.offer(p);
    }
    std::vector<baton::context> contexts;
    contexts.push_back(std::move(w.b));
    contexts.reserve(100);
    CHECK(!w.b && thrown([&] { (void)w.b.poll(baton::span<baton::event>()); }) == baton::errc::einval);
    w.b = std::move(contexts[0]);
    CHECK(w.b.progress() >= 0);
    if (w.consumes) {
        baton::want_params p;
        p.key = "moved";
        p.engine = "p";
        p.tables = to;
        p.num_tokens = 40;
        w.b.want(p);
    }
    for (const baton::event &e : w.next_of_each())
        CHECK(e.is_done());
    if (w.consumes)
        CHECK_EQ(w.wrong(3, to, 40), 0);
    w.down();
}

/* By chunks whose blocks come with them, and in each by layers. */
void streams_chunks_and_layers()
{
    world w;
    const std::uint32_t tokens = 60, cut = 20;
    const auto ids = ids_of(4, tokens), to = ids_to(4, tokens);
    const std::vector<std::uint32_t> first(ids.begin(), ids.begin() + 2), rest(ids.begin() + 2, ids.end());
    if (w.consumes) {
        baton::want_params p;
        p.key = "stream";
        p.engine = "p";
        p.tables = to;
        p.num_tokens = tokens;
        p.zero_tail = true;
        w.b.want(p);
    }
    if (w.produces) {
        baton::offer_params p;
        p.key = "stream";
        p.num_tokens = tokens;
        p.in_chunks = p.in_layers = true;
        baton::call_id offer = w.b.offer(p);
        baton::append_params a;
        a.num_tokens = cut;
        a.tables = first;
        w.fill(4, ids, 0, cut);
        w.b.append(offer, a);
        w.b.ready(offer, 0, layers, cut);
        a.num_tokens = tokens;
        a.tables = rest;
        w.fill(4, ids, cut, tokens);
        w.b.append(offer, a);
        w.b.ready(offer, 0, 1, tokens);
        std::error_code ec;
        w.b.ready(offer, 1, 1, tokens, ec);
        CHECK(!ec);
    }
    for (const baton::event &e : w.next_of_each())
        CHECK(e.is_done());
    if (w.consumes) {
        CHECK_EQ(w.wrong(4, to, tokens), 0);
        CHECK_EQ(w.at(to, 1, 1, 0, 63)[0], 0); // behind the last token
    }
    w.down();
}

void cancels_and_expires()
{
    world w;
    const auto ids = ids_of(5, 16);
    if (w.produces) {
        baton::offer_params p;
        p.key = "cancelled";
        p.tables = ids;
        p.num_tokens = 16;
        baton::call_id id = w.b.offer(p);
        w.b.cancel(id);
        w.ends(id, baton::status::cancelled, baton::errc::ecanceled);
        p.key = "expired";
        p.ttl = 20ms;
        id = w.b.offer(p);
        w.ends(id, baton::status::expired, baton::errc::etimedout);
    }
    if (w.consumes) {
        baton::want_params p;
        p.key = "never";
        p.engine = "p";
        p.tables = ids;
        p.num_tokens = 16;
        baton::call_id id = w.b.want(p);
        w.b.cancel(id);
        w.ends(id, baton::status::cancelled, make_error_code(baton::errc::ecanceled));
        p.timeout = 20ms;
        id = w.b.want(p);
        baton::event e = w.next();
        CHECK(e.id() == id && e.status() == baton::status::expired && e.error() == std::errc::timed_out);
        std::error_code ec;
        w.b.cancel(id, ec); // it has ended: nothing happens
        CHECK(!ec);
        w.b.cancel(static_cast<baton::call_id>(1 << 30), ec);
        CHECK(ec == baton::errc::einval);
    }
    w.down();
}

void refuses_by_code_and_exception()
{
    world w;
    const auto ids = ids_of(6, 16);
    const std::uint32_t outside[] = {blocks};
    std::error_code ec;
    baton::want_params p;
    p.key = "k";
    p.engine = "nobody";
    p.tables = ids;
    p.num_tokens = 16;
    CHECK(thrown([&] { w.b.want(p); }) == baton::errc::eengine);
    CHECK(w.b.want(p, ec) == baton::call_id::none && ec == baton::errc::eengine);
    CHECK_HAS(baton::errmsg(), "nobody");
    p.engine = "p with more than sixty-three bytes in its name, which no engine can have";
    w.b.want(p, ec);
    CHECK(ec == baton::errc::eengine);
    p.engine = "p";
    p.tables = outside;
    w.b.want(p, ec);
    CHECK(ec == baton::errc::eblock);
    p.tables = {{ids}, {ids}};
    w.b.want(p, ec);
    CHECK(ec == baton::errc::einval);
    p.tables = ids;
    p.num_tokens = 17;
    w.b.want(p, ec);
    CHECK(ec == baton::errc::etokens);
    p.num_tokens = 16;
    const std::string longest(BATON_KEY_MAX - 1, 'k'), longer = longest + "k", broken("a\0b", 3);
    for (const std::string &key : {longer, broken, std::string()}) {
        p.key = key;
        w.b.want(p, ec);
        CHECK(ec == baton::errc::ekey);
    }
    p.key = longest;
    p.base_key = longer;
    w.b.want(p, ec);
    CHECK(ec == baton::errc::ekey);
    baton::offer_params o;
    o.key = "k";
    o.tables = ids;
    o.num_tokens = 16;
    const std::vector<std::string_view> nine(BATON_CONSUMERS_MAX + 1, "p"), other = {"nobody"};
    o.consumers = nine;
    w.b.offer(o, ec);
    CHECK(ec == baton::errc::einval);
    o.consumers = other;
    CHECK(thrown([&] { w.b.offer(o); }) == baton::errc::eengine);
    o.consumers = {};
    const std::string bytes(BATON_ATTACH_MAX + 1, 'x');
    o.attach = baton::bytes_of(std::string_view(bytes));
    w.b.offer(o, ec);
    CHECK(ec == baton::errc::einval);
    w.b.append(static_cast<baton::call_id>(1 << 30), {}, ec);
    CHECK(ec == baton::errc::einval);
    CHECK(thrown([&] { w.b.ready(baton::call_id::none, 0, 1); }) == baton::errc::einval);
    CHECK(thrown([&] { w.b.cache_create(w.g); }) == baton::errc::estate);
    CHECK(thrown([&] { w.b.progress(); }) == baton::errc::estate);
    CHECK(thrown([&] { w.b.peer_stats(1000); }) == baton::errc::einval);
    CHECK(thrown([&] { w.b.start(); }) == baton::errc::estate);
    CHECK(w.b.poll(baton::span<baton::event>()).empty());
    w.down();
}

/* At a limit the verbs say so by a code, and go on when events were read. */
void says_when_a_limit_is_reached()
{
    setenv("BATON_REQUESTS", "8", 1);
    world w;
    unsetenv("BATON_REQUESTS");
    std::vector<baton::call_id> open;
    baton::want_params p;
    p.engine = "p";
    std::error_code ec;
    while (!ec && open.size() < 100) {
        const std::string key = "limit" + std::to_string(open.size());
        const std::uint32_t id[] = {static_cast<std::uint32_t>(open.size()) % blocks};
        p.key = key;
        p.tables = id;
        p.num_tokens = block_tokens;
        baton::call_id call = w.b.want(p, ec);
        if (!ec)
            open.push_back(call);
    }
    CHECK(ec == baton::errc::eagain && ec == std::errc::resource_unavailable_try_again);
    CHECK_EQ(open.size(), 8u);
    CHECK(thrown([&] { w.b.want(p); }) == baton::errc::eagain);
    CHECK(w.b.stats().again >= 2);
    for (baton::call_id id : open)
        while (w.b.cancel(id, ec), ec == baton::errc::eagain)
            usleep(1000);
    for (const baton::event &e : w.next(open.size()))
        CHECK(e.status() == baton::status::cancelled);
    w.down();
}

void tells_of_the_world()
{
    world w;
    move_by(w, baton::mode::pull, 8);
    auto engines = w.b.engines();
    CHECK_EQ(engines.size(), harness.size > 1 ? 2u : 1u);
    CHECK(engines.back().name() == "p" && engines[0].name() == (harness.size > 1 ? "d" : "p"));
    const baton::engine &producer = engines.back();
    CHECK_EQ(producer.num_ranks(), static_cast<unsigned>(world::half()));
    CHECK(producer.role() == (harness.size > 1 ? baton::role::prefill : baton::role::both));
    CHECK_EQ(producer.distance() == baton::distance::self, harness.rank < world::half());
    auto ranks = w.b.engine_ranks("p");
    CHECK_EQ(ranks.size(), static_cast<unsigned>(world::half()));
    CHECK(!ranks[0].host().empty());
    for (std::size_t i = 0; i < ranks.size(); i++) {
        CHECK(ranks[i].world_rank() == std::optional(static_cast<std::uint32_t>(i)));
        CHECK_EQ(ranks[i].distance() == baton::distance::self, static_cast<int>(i) == harness.rank);
    }
    CHECK(w.b.engine_ranks(engines[0].name()).back().world_rank() ==
          std::optional(static_cast<std::uint32_t>(harness.size - 1)));
    CHECK_HAS(w.b.describe().c_str(), "\nthreads: reactor");
    CHECK(w.b.pending().empty());
    baton::stats s = w.b.stats();
    CHECK_EQ(s.wants, w.consumes ? 1u : 0u);
    CHECK_EQ(s.wants_done, s.wants);
    CHECK_EQ(s.offers, w.produces ? 1u : 0u);
    CHECK_EQ(by_all_paths([&](baton::path p) { return s.bytes_by(p); }) > 0, w.consumes);
    CHECK_EQ(by_all_paths([&](baton::path p) { return s.peers_by(p); }), static_cast<unsigned>(harness.size));
    CHECK_EQ(s.ended(baton::errc::egone), 0u);
    baton::peer_stats peer = w.b.peer_stats(0);
    CHECK(peer.engine() == "p" && peer.failures() == 0 && peer.failures(baton::errc::epeer) == 0);
    CHECK(peer.path() != baton::path::none);
    w.down();
}

/* An error that all ranks have unwinds them all, and their destructors close the world in order. */
void exceptions_close_on_all_ranks()
{
    bool started = false, caught = false;
    setenv("BATON_FAULT", "nonsense", 1);
    try {
        world w;
        started = true;
    } catch (const baton::error &e) {
        caught = e.reason() == baton::errc::esetting;
        CHECK_HAS(e.what(), "BATON_FAULT");
    }
    unsetenv("BATON_FAULT");
    CHECK(!started && caught);
    try {
        world w;
        throw std::logic_error("of the engine's own");
    } catch (const std::logic_error &) {
    }
    {
        world w; // and without an exception
    }
    baton::open_params me;
    me.engine = "no good name";
    me.tp = static_cast<std::uint32_t>(harness.size);
    me.tp_rank = static_cast<std::uint32_t>(harness.rank);
    std::error_code ec;
    CHECK(!baton::open(MPI_COMM_WORLD, me, ec) && ec == baton::errc::einval);
    CHECK(thrown([&] { (void)baton::open(me); }) == baton::errc::einval);
    me.engine = "e";
    baton::context b = baton::open_f(MPI_Comm_c2f(MPI_COMM_WORLD), me);
    b.start();
    b.close();
    b = baton::open(me, ec);
    CHECK(!ec && b);
    b.close(ec);
    CHECK(!ec && !b);
    CHECK(thrown([&] { b.close(); }) == baton::errc::einval);
    setenv("BATON_ROLE", "nonsense", 1);
    CHECK(thrown([] { baton::open_params::from_env(); }) == baton::errc::esetting);
    unsetenv("BATON_ROLE");
}

/* A child's copy goes out of scope at once and without a word, also where an exception unwinds the child. */
void children_leave_their_scopes()
{
    world w;
    for (bool unwinds : {false, true}) {
        std::FILE *said = std::tmpfile();
        const pid_t child = fork();
        if (child == 0) {
            alarm(5); // the destructor once took a minute
            dup2(fileno(said), STDERR_FILENO);
            const bool is_refused = thrown([&] { (void)w.b.stats(); }) == baton::errc::estate;
            try {
                baton::context copy = std::move(w.b);
                if (unwinds)
                    throw std::runtime_error("the child's own");
            } catch (const std::runtime_error &) {
            }
            _exit(is_refused ? 0 : 1);
        }
        int status = -1;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(lseek(fileno(said), 0, SEEK_END), 0); // it wrote so much
        std::fclose(said);
        move_by(w, baton::mode::pull, unwinds);
    }
    w.down();
}

void hands_over_the_log()
{
    auto lines = std::make_shared<std::string>();
    baton::log_set([lines](baton::log_level level, const baton::log_source &source, std::string_view line) {
        if (level == baton::log_level::warning &&
            source.world_rank() == std::optional(static_cast<std::uint32_t>(harness.rank)))
            *lines += line;
    });
    setenv("BATON_TTL_MSS", "1", 1);
    world w;
    unsetenv("BATON_TTL_MSS");
    baton::log_set({});
    if (w.me.tp_rank == 0) // one rank of each engine warns
        CHECK_HAS(lines->c_str(), "BATON_TTL_MS");
    w.down();
}

/* An exception that no case expects ends the job: the other ranks would wait. */
template <void (*run)()> void guarded()
{
    try {
        run();
    } catch (const std::exception &e) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
} // namespace

#define RUN_GUARDED(function) harness_run(#function, guarded<function>)

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN_GUARDED(pulls_and_pushes);
    RUN_GUARDED(wraps_memory_of_its_own);
    RUN_GUARDED(wraps_after_start);
    RUN_GUARDED(stages_through_a_driver);
    RUN_GUARDED(moves_with_open_calls);
    RUN_GUARDED(streams_chunks_and_layers);
    RUN_GUARDED(cancels_and_expires);
    RUN_GUARDED(refuses_by_code_and_exception);
    RUN_GUARDED(says_when_a_limit_is_reached);
    RUN_GUARDED(tells_of_the_world);
    RUN_GUARDED(exceptions_close_on_all_ranks);
    RUN_GUARDED(children_leave_their_scopes);
    RUN_GUARDED(hands_over_the_log);
    return harness_end();
}
