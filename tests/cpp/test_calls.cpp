/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_calls: what each function of baton.hpp hands to that of baton.h, and what it makes of the answer. Those of
 * baton.h are fakes, so that this runs in one process without MPI.
 */
#include "baton.hpp"

#include <memory>
#include <stdexcept>
#include <unistd.h>

#include "check.hpp"
#include "fake.hpp"
#include "other_file.hpp"

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;

static baton::context some_context()
{
    fake::reset();
    baton::open_params me;
    me.engine = "both";
    return baton::open(me);
}

/* What is written to standard error while this lives. */
class written
{
  public:
    written() : file_(std::tmpfile()), saved_(dup(STDERR_FILENO))
    {
        dup2(fileno(file_), STDERR_FILENO);
    }
    written(const written &) = delete;
    ~written()
    {
        std::fclose(file_);
    }
    std::string end()
    {
        char text[1000];
        dup2(saved_, STDERR_FILENO);
        close(saved_);
        std::rewind(file_);
        return std::string(text, std::fread(text, 1, sizeof text, file_));
    }

  private:
    std::FILE *file_;
    int saved_;
};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* What it is told, and what it answers. */
struct some_driver : baton::driver {
    std::vector<baton::piece> pieces;
    std::vector<std::uint64_t> tags;
    bool to_device = false;

    const char *name() const noexcept override
    {
        return "some";
    }
    baton::errc copy(baton::span<const baton::piece> given, bool to, std::uint64_t tag) noexcept override
    {
        if (tag == 0)
            return baton::errc::eagain;
        pieces.assign(given.begin(), given.end());
        to_device = to;
        tags.push_back(tag);
        return baton::errc::ok;
    }
    bool poll(std::uint64_t &tag, baton::errc &error) noexcept override
    {
        if (tags.empty())
            return false;
        tag = tags.back();
        tags.pop_back();
        if (tag == 3)
            error = baton::errc::esystem;
        return true;
    }
};

/* Calls both forms of a function with an error as the answer: one throws it, one returns it, and neither does else. */
template <class Throws, class Returns> static void fails_both_ways(const char *what, Throws throws, Returns returns)
{
    std::error_code ec;
    int caught = 0;
    fake::state.answer = BATON_EGONE;
    try {
        throws();
    } catch (const baton::error &e) {
        caught++;
        CHECK_EQ(e.what(), "a sentence about -13: the offer has ended"sv);
        CHECK(e.reason() == baton::errc::egone);
    }
    if (caught != 1)
        check::failed(__FILE__, __LINE__) << what << " throws nothing\n";
    returns(ec);
    if (ec != baton::errc::egone)
        check::failed(__FILE__, __LINE__) << what << " returns " << ec << "\n";
    fake::state.answer = 0;
    ec = baton::errc::egone;
    throws();
    returns(ec);
    if (ec)
        check::failed(__FILE__, __LINE__) << what << " leaves an old error\n";
}

static void each_function_fails_both_ways()
{
    baton::context b = some_context();
    baton::geometry g;
    baton::event e;
    std::byte memory[8];
    const baton::region regions[] = {{memory}};
    const auto id = static_cast<baton::call_id>(1);
#define FAILS(call, nothrow)                                                                                           \
    fails_both_ways(                                                                                                   \
        #call, [&] { (void)(call); }, [&](std::error_code &ec) { (void)(nothrow); })
    FAILS(b.cache_create(g), b.cache_create(g, baton::memory::host, ec));
    FAILS(b.cache_wrap(g, regions), b.cache_wrap(g, regions, ec));
    FAILS(b.cache_ready(), b.cache_ready(ec));
    some_driver driver;
    FAILS(b.driver_set(driver), b.driver_set(driver, ec));
    FAILS(b.start(), b.start(ec));
    FAILS(b.offer({}), b.offer({}, ec));
    FAILS(b.append(id, {}), b.append(id, {}, ec));
    FAILS(b.ready(id, 0, 1), b.ready(id, 0, 1, 0, ec));
    FAILS(b.want({}), b.want({}, ec));
    FAILS(b.cancel(id), b.cancel(id, ec));
    FAILS(b.poll(e), b.poll(e, ec));
    FAILS(b.poll(baton::span<baton::event>(&e, 1)), b.poll(baton::span<baton::event>(&e, 1), ec));
    FAILS(b.event_fd(), b.event_fd(ec));
    FAILS(b.progress(), b.progress(ec));
    std::uint64_t version = 0;
    FAILS(b.engines(), b.engines(ec));
    FAILS(b.engines(version), b.engines(version, ec));
    FAILS(b.engine_ranks("e"), b.engine_ranks("e", ec));
    FAILS(b.pending(), b.pending(ec));
    FAILS(b.stats(), b.stats(ec));
    FAILS(b.peer_stats(0), b.peer_stats(0, ec));
    FAILS(b.describe(), b.describe(ec));
#undef FAILS
}

static void what_is_returned_after_an_error_is_empty()
{
    baton::context b = some_context();
    baton::event e;
    std::error_code ec;
    fake::state.answer = BATON_ESTATE;
    CHECK(b.want({}, ec) == baton::call_id::none);
    CHECK(b.offer({}, ec) == baton::call_id::none);
    CHECK(!b.cache_create({}, baton::memory::host, ec));
    CHECK(!b.poll(e, ec));
    CHECK_EQ(b.event_fd(ec), -1);
    CHECK(b.engines(ec).empty() && b.engine_ranks("e", ec).empty() && b.pending(ec).empty() && b.describe(ec).empty());
    CHECK(!baton::open(baton::open_params(), ec));
    CHECK_EQ(baton::open_params::from_env(ec).engine, "");
    CHECK_EQ(ec, baton::errc::estate);
    bool caught = false;
    try {
        (void)baton::open_f(7, baton::open_params());
    } catch (const baton::error &) {
        caught = true;
    }
    CHECK(caught);
}

static void files_share_codes_and_exceptions()
{
    CHECK(other_file::gone() == baton::errc::egone);
    CHECK(other_file::gone().category() == baton::category());
    CHECK_EQ(other_file::throws_through([] { baton::context().start(); }), BATON_EINVAL);
    CHECK_EQ(other_file::throws_through([] {}), 0);
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

static void open_says_who_this_rank_is()
{
    fake::reset();
    baton::open_params me = baton::open_params::from_env();
    CHECK_EQ(me.engine, "from-env");
    CHECK(me.role == baton::role::decode && me.tp == 2 && me.pp == 3 && me.tp_rank == 1 && me.pp_rank == 2);
    me.progress = baton::progress::caller;
    me.verdicts = baton::verdicts::leader;
    baton::context b = baton::open_f(77, me);
    const baton_open_params_t &c = fake::state.open;
    CHECK_EQ(fake::state.comm, 77);
    CHECK_EQ(c.size, sizeof c);
    CHECK_EQ(c.engine, "from-env"sv);
    CHECK(c.role == BATON_ROLE_DECODE && c.tp == 2 && c.pp == 3 && c.tp_rank == 1 && c.pp_rank == 2);
    CHECK(c.progress == BATON_PROGRESS_CALLER && c.verdicts == BATON_VERDICTS_LEADER && c.flags == 0);
    me.cache_later = true;
    CHECK_EQ(me.c().flags, static_cast<unsigned>(BATON_OPEN_CACHE_LATER));
    me.hears_engines = true;
    CHECK_EQ(me.c().flags, static_cast<unsigned>(BATON_OPEN_CACHE_LATER | BATON_OPEN_ENGINES));
    me.engine = std::string(BATON_ENGINE_NAME_MAX, 'x');
    std::error_code ec;
    baton::context other = baton::open(me, ec);
    CHECK_EQ(fake::state.comm, BATON_COMM_NULL_F);
    CHECK(std::memchr(fake::state.open.engine, '\0', BATON_ENGINE_NAME_MAX) == nullptr); // refused by the library
}

static void a_context_is_closed_once()
{
    {
        baton::context b = some_context();
        CHECK(b && fake::state.opened == 1);
        b.close();
        CHECK(!b && fake::state.closed == 1);
    }
    CHECK_EQ(fake::state.closed, 1);
    {
        baton::context b = some_context();
        const baton_t *c = b.c();
        baton::context moved = std::move(b);
        CHECK(moved.c() == c && !b);
        std::error_code ec;
        b.want({}, ec); // a context that was moved from is empty, not dangerous
        CHECK_EQ(ec, baton::errc::einval);
        b.close(ec);
        CHECK_EQ(ec, baton::errc::einval);
        CHECK_EQ(fake::state.closed, 0);
        b = std::move(moved);
        CHECK(b.c() == c && !moved && fake::state.closed == 0);
        b = baton::open(baton::open_params()); // closes the first
        CHECK(fake::state.closed == 1 && fake::state.context == c);
        baton::context &same = b;
        b = std::move(same);
        CHECK(b && fake::state.closed == 1);
    }
    CHECK(fake::state.opened == 2 && fake::state.closed == 2);
    {
        baton::context b = some_context();
        baton_t *c = b.release();
        CHECK(!b && fake::state.closed == 0);
        baton::context again(c);
    }
    CHECK_EQ(fake::state.closed, 1);
    static_assert(!std::is_copy_constructible_v<baton::context> && !std::is_copy_assignable_v<baton::context>,
                  "one owner");
    static_assert(std::is_nothrow_move_constructible_v<baton::context>, "it stands in containers");
    static_assert(std::is_nothrow_destructible_v<baton::context>, "its destructor never throws");
}

static void close_says_what_failed_and_is_over()
{
    baton::context b = some_context();
    fake::state.close = BATON_EPEER;
    std::error_code ec;
    b.close(ec);
    CHECK(ec == baton::errc::epeer && !b && fake::state.closed == 1);
    b = some_context();
    fake::state.close = BATON_EPEER;
    bool caught = false;
    try {
        b.close();
    } catch (const baton::error &e) {
        caught = e.reason() == baton::errc::epeer && std::string(e.what()).find("rank 1 is lost") == 0;
    }
    CHECK(caught && !b && fake::state.closed == 1);
}

static void the_destructor_says_what_failed()
{
    written failed;
    {
        baton::context b = some_context();
        fake::state.close = BATON_EPEER;
    }
    CHECK_EQ(failed.end(),
             "baton: the context was closed by its destructor: a peer is lost or does not answer: rank 1 is "
             "lost\n");
    written quiet;
    {
        baton::context b = some_context();
    }
    CHECK_EQ(quiet.end(), "");
    written unwinds;
    try {
        baton::context b = some_context();
        throw std::runtime_error("of the engine's own");
    } catch (const std::runtime_error &) {
    }
    CHECK_EQ(unwinds.end(),
             "baton: an exception closes the context: waiting for the other ranks, BATON_CLOSE_MS at most\n");
    CHECK_EQ(fake::state.closed, 1);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

static void caches_are_created_and_wrapped()
{
    baton::context b = some_context();
    baton::geometry g;
    g.model = "m";
    g.tensors.resize(2);
    g.tensors[1].name = "second";
    g.bytes = 64;
    baton::cache cache = b.cache_create(g, baton::memory::pinned);
    CHECK(cache && fake::state.memory == BATON_MEMORY_PINNED);
    CHECK_EQ(fake::state.tensors.size(), 2u);
    CHECK_EQ(fake::state.tensors[1].name, "second"sv);
    CHECK_EQ(fake::state.geometry.bytes, 64u);
    CHECK(cache.bytes().empty()); // before start
    b.start();
    CHECK_EQ(cache.bytes().size(), 64u);
    CHECK(static_cast<void *>(cache.bytes().data()) == fake::state.memory_of_cache);
    CHECK(baton::cache().bytes().empty());

    std::vector<std::byte> first(10), second(20);
    const std::vector<baton::region> regions = {{first}, {second, baton::memory::device, 3}};
    cache = b.cache_wrap(g, regions);
    CHECK(bool(cache));
    CHECK_EQ(fake::state.regions.size(), 2u);
    for (const baton_region_t &r : fake::state.regions)
        CHECK_EQ(r.size, sizeof r);
    const baton_region_t &host = fake::state.regions[0], &device = fake::state.regions[1];
    CHECK(host.base == first.data() && device.base == second.data());
    CHECK(host.bytes == 10 && device.bytes == 20);
    CHECK(host.kind == BATON_MEMORY_HOST && device.kind == BATON_MEMORY_DEVICE);
    CHECK(host.device == 0 && device.device == 3);
    CHECK(cache.bytes().empty()); // the caller has it

    std::error_code ec;
    CHECK(b.cache_ready() && b.cache_ready(ec) && !ec);
    fake::state.answer = BATON_EAGAIN; // which is no error here
    CHECK(!b.cache_ready() && !b.cache_ready(ec) && !ec);
}

static void drivers_are_objects()
{
    baton::context b = some_context();
    some_driver driver;
    b.driver_set(driver);
    const baton_driver_t &c = fake::state.driver;
    CHECK_EQ(c.size, sizeof c);
    CHECK_EQ(c.name, "some"sv);
    char device[2], host[2];
    const baton_piece_t pieces[] = {{&device[0], &host[0], 1}, {&device[1], &host[1], 1}};
    CHECK_EQ(c.copy(c.self, pieces, 2, 1, 0), BATON_EAGAIN);
    for (std::uint64_t tag : {1u, 2u, 3u, 4u})
        CHECK_EQ(c.copy(c.self, pieces, 2, tag == 4, tag), 0);
    CHECK(driver.pieces.size() == 2 && driver.pieces[1].host == &host[1] && driver.to_device);
    std::uint64_t tags[3];
    int errors[3];
    CHECK_EQ(c.poll(c.self, tags, errors, 3), 3);
    CHECK(tags[0] == 4 && tags[1] == 3 && tags[2] == 2);
    CHECK(errors[0] == 0 && errors[1] == BATON_ESYSTEM && errors[2] == 0); // each has its own
    CHECK_EQ(c.poll(c.self, tags, errors, 3), 1);
    CHECK(tags[0] == 1 && errors[0] == 0);
    CHECK_EQ(c.poll(c.self, tags, errors, 3), 0);
}

/* ---- the verbs --------------------------------------------------------------------------------------------------- */

static void an_offer_hands_over_everything()
{
    baton::context b = some_context();
    std::vector<std::uint32_t> ids = {7, 3, 12};
    const std::uint32_t window[] = {1};
    const std::string_view consumers[] = {"decode0"sv, "decode1-and-more"sv.substr(0, 7)};
    std::uint32_t token = 99;
    int mine = 0;
    std::string key = "a key and more";
    baton::offer_params p;
    p.key = std::string_view(key).substr(0, 5); // no NUL behind it
    p.tables = {{ids}, {window, 32}};
    p.num_tokens = 40;
    p.ttl = 7s;
    p.consumers = consumers;
    p.attach = baton::bytes_of(token);
    p.in_layers = true;
    p.user = &mine;
    p.base_key = "base";
    p.attempt = 5;
    CHECK(b.offer(p) == static_cast<baton::call_id>(41));
    const fake::call &c = fake::state.last;
    CHECK(fake::state.context == b.c());
    CHECK_EQ(c.offer.size, sizeof c.offer);
    CHECK_EQ(c.key, "a key");
    CHECK(c.blocks == (std::vector<std::vector<std::uint32_t>>{{7, 3, 12}, {1}}));
    CHECK(c.first_tokens == (std::vector<std::uint32_t>{0, 32}));
    CHECK_EQ(c.offer.num_tokens, 40u);
    CHECK_EQ(c.offer.ttl_ms, 7000u);
    CHECK_EQ(c.offer.num_consumers, 2u);
    CHECK(c.consumers == (std::vector<std::string>{"decode0", "decode1"}));
    CHECK(c.attach == std::string(reinterpret_cast<const char *>(&token), 4));
    CHECK_EQ(c.offer.flags, static_cast<unsigned>(BATON_OFFER_LAYERS));
    CHECK(c.offer.user == &mine);
    CHECK(c.has_base_key && c.base_key == "base");
    CHECK_EQ(c.offer.attempt, 5u);
    CHECK_EQ(c.offer.reserved, 0u);

    p = baton::offer_params();
    p.key = "k";
    p.num_consumers = 3;
    p.in_chunks = true;
    b.offer(p);
    CHECK(c.offer.num_consumers == 3 && !c.has_consumers && !c.has_base_key && c.offer.ttl_ms == 0);
    CHECK_EQ(c.offer.flags, static_cast<unsigned>(BATON_OFFER_CHUNKS));
    CHECK(c.blocks.empty() && c.offer.num_tables == 0);
}

static void a_want_hands_over_everything()
{
    baton::context b = some_context();
    std::vector<std::uint32_t> ids = {7, 3, 12};
    int mine = 0;
    baton::want_params p;
    p.key = "key";
    p.engine = "prefill0-and-more"sv.substr(0, 8);
    p.tables = ids;
    p.num_tokens = 40;
    p.held_tokens = 16;
    p.timeout = 1500ms;
    p.mode = baton::mode::push;
    p.zero_tail = p.await_engine = true;
    p.user = &mine;
    p.base_key = "base";
    p.attempt = 6;
    p.life = 71;
    CHECK(b.want(p) == static_cast<baton::call_id>(42));
    const fake::call &c = fake::state.last;
    CHECK_EQ(c.want.size, sizeof c.want);
    CHECK_EQ(c.key, "key");
    CHECK_EQ(c.engine, "prefill0");
    CHECK(c.blocks == (std::vector<std::vector<std::uint32_t>>{{7, 3, 12}}));
    CHECK(c.want.tables[0].blocks == ids.data()); // the ids are not copied
    CHECK_EQ(c.want.num_tokens, 40u);
    CHECK_EQ(c.want.held_tokens, 16u);
    CHECK_EQ(c.want.timeout_ms, 1500u);
    CHECK_EQ(c.want.mode, BATON_MODE_PUSH);
    CHECK_EQ(c.want.flags, static_cast<unsigned>(BATON_WANT_ZERO_TAIL | BATON_WANT_AWAIT_ENGINE));
    CHECK(c.want.user == &mine);
    CHECK(c.has_base_key && c.base_key == "base");
    CHECK_EQ(c.want.attempt, 6u);
    CHECK_EQ(c.want.life, 71u);
    p = baton::want_params();
    p.key = "k";
    b.want(p);
    CHECK(!c.has_base_key && c.engine.empty() && c.want.flags == 0 && c.want.timeout_ms == 0);
}

static void words_hand_over_everything()
{
    baton::context b = some_context();
    std::vector<std::uint32_t> ids = {4};
    const auto id = static_cast<baton::call_id>(41);
    const fake::call &c = fake::state.last;
    baton::append_params p;
    p.num_tokens = 16;
    p.tables = ids;
    b.append(id, p);
    CHECK(c.id == 41 && c.append.num_tokens == 16 && c.append.size == sizeof c.append);
    CHECK(c.blocks == (std::vector<std::vector<std::uint32_t>>{{4}}));
    b.ready(id, 2, 3, 16);
    CHECK(c.numbers[0] == 2 && c.numbers[1] == 3 && c.numbers[2] == 16);
    b.ready(id, 1, 1);
    CHECK(c.numbers[0] == 1 && c.numbers[2] == 0);
    b.cancel(static_cast<baton::call_id>(43));
    CHECK_EQ(c.id, 43u);
    std::error_code ec;
    b.cancel(static_cast<baton::call_id>(44), ec);
    CHECK_EQ(c.id, 44u);
    (void)b.peer_stats(45, ec);
    CHECK_EQ(c.numbers[0], 45u);
}

/* Texts that baton.h cannot take reach it as what it refuses: too long ones too long, those with a NUL inside empty. */
static void texts_are_never_cut()
{
    baton::context b = some_context();
    const fake::call &c = fake::state.last;
    baton::want_params p;
    const std::string longest(BATON_KEY_MAX - 1, 'k'), longer(1000, 'k');
    p.key = longest;
    b.want(p);
    CHECK_EQ(c.key, longest);
    p.key = p.base_key = longer;
    p.engine = longer;
    b.want(p);
    CHECK_EQ(c.key.size(), static_cast<std::size_t>(BATON_KEY_MAX));
    CHECK_EQ(c.base_key.size(), static_cast<std::size_t>(BATON_KEY_MAX));
    CHECK_EQ(c.engine.size(), static_cast<std::size_t>(BATON_ENGINE_NAME_MAX));
    p.key = p.base_key = p.engine = "a\0b"sv;
    b.want(p);
    CHECK(c.key.empty() && c.base_key.empty() && c.has_base_key && c.engine.empty());
    baton::offer_params o;
    const std::vector<std::string_view> names(BATON_CONSUMERS_MAX + 1, "a\0b"sv);
    o.consumers = names;
    const std::string bytes(BATON_ATTACH_MAX + 1, 'x');
    o.attach = baton::bytes_of(std::string_view(bytes));
    b.offer(o);
    CHECK(c.offer.num_consumers == BATON_CONSUMERS_MAX + 1 && c.consumers[BATON_CONSUMERS_MAX - 1].empty());
    CHECK_EQ(c.offer.num_attach, BATON_ATTACH_MAX + 1u);
}

/* Sizes of 2^32 and more are more than any limit, and no small number. */
static void numbers_are_never_cut()
{
    if (sizeof(std::size_t) < 8)
        return;
    baton::context b = some_context();
    fake::state.keeps = false;
    const std::size_t many = (std::size_t{1} << 32) + 1; // what is there of them is not looked at
    std::byte byte{};
    std::uint32_t id = 0;
    baton::event events[2];
    baton::offer_params o;
    o.attach = {&byte, many};
    o.tables = baton::span<const std::uint32_t>(&id, many);
    b.offer(o);
    CHECK_EQ(fake::state.last.offer.num_attach, UINT32_MAX);
    CHECK_EQ(fake::state.last.offer.tables[0].num_blocks, UINT32_MAX);
    baton::want_params w;
    w.tables = o.tables;
    b.want(w);
    CHECK_EQ(fake::state.last.want.tables[0].num_blocks, UINT32_MAX);
    fake::state.events = {fake::event(), fake::event()};
    CHECK_EQ(b.poll(baton::span<baton::event>(events, many)).size(), 2u);
    fake::state.events = {fake::event()};
    fake::state.events[0].num_attach = BATON_ATTACH_MAX + 1; // as a newer library might
    CHECK(b.poll(events[0]));
    CHECK_EQ(events[0].attach().size(), static_cast<std::size_t>(BATON_ATTACH_MAX));
}

static void times_are_never_the_default_by_chance()
{
    baton::context b = some_context();
    baton::want_params p;
    const struct {
        std::chrono::milliseconds given;
        std::uint32_t ms;
    } rows[] = {{0ms, 1}, {-5ms, 1}, {1ms, 1}, {2h, 7200000}, {24h * 365, UINT32_MAX}};
    for (const auto &row : rows) {
        p.timeout = row.given;
        b.want(p);
        CHECK_EQ(fake::state.last.want.timeout_ms, row.ms);
    }
}

static void hot_paths_do_not_allocate()
{
    baton::context b = some_context();
    fake::state.keeps = false;
    const std::string_view consumers[] = {"decode0", "decode1"};
    const std::vector<std::uint32_t> ids(1024, 1);
    const std::string key(BATON_KEY_MAX - 1, 'k');
    std::vector<baton::event> buffer(64);
    baton::want_params w;
    w.key = key;
    w.engine = "prefill0";
    w.tables = ids;
    baton::offer_params o;
    o.key = key;
    o.tables = ids;
    o.consumers = consumers;
    baton::append_params a;
    a.tables = ids;
    std::error_code ec;
    const long before = fake::allocations;
    baton::call_id id = b.want(w);
    id = b.want(w, ec);
    b.offer(o);
    b.offer(o, ec);
    b.append(id, a);
    b.ready(id, 0, 1);
    b.cancel(id);
    (void)b.poll(buffer);
    fake::state.answer = BATON_EAGAIN;
    b.want(w, ec);
    CHECK_EQ(fake::allocations, before);
    CHECK(ec == baton::errc::eagain);
}

/* ---- events and readings ----------------------------------------------------------------------------------------- */

static void events_come_into_a_buffer()
{
    baton::context b = some_context();
    baton::event buffer[4], one;
    for (baton_id_t id = 1; id <= 6; id++) {
        fake::state.events.push_back(fake::event());
        fake::state.events.back().id = id;
    }
    std::uint64_t sum = 0;
    for (const baton::event &e : b.poll(buffer))
        sum += static_cast<std::uint64_t>(e.id());
    CHECK_EQ(sum, 1u + 2u + 3u + 4u);
    CHECK(b.poll(one) && one.id() == static_cast<baton::call_id>(5));
    CHECK_EQ(b.poll(buffer).size(), 1u);
    CHECK(!b.poll(one) && b.poll(buffer).empty() && b.poll(baton::span<baton::event>()).empty());
}

static void events_are_values()
{
    baton::context b = some_context();
    int mine = 0;
    baton_event_t c = fake::event();
    c.type = BATON_EVENT_WANT;
    c.status = BATON_STATUS_DONE;
    c.id = 42;
    std::memset(c.key, 'k', BATON_KEY_MAX - 1);
    c.attempt = 2;
    c.user = &mine;
    c.mode = BATON_MODE_PULL;
    c.num_blocks = 3;
    c.bytes = 100;
    c.path_bytes[BATON_PATH_SHM] = 60;
    c.path_bytes[BATON_PATH_RMA] = 40;
    c.wait_ns = 5;
    c.total_ns = 6;
    c.verdict = BATON_VERDICT_FOLLOWS;
    c.num_attach = BATON_ATTACH_MAX;
    std::memset(c.attach, 7, sizeof c.attach);
    fake::state.events = {c};
    baton::event e;
    CHECK(b.poll(e));
    baton::event copy = e;
    CHECK(copy.type() == baton::event_type::want && copy.is_terminal());
    CHECK(copy.status() == baton::status::done && copy.is_done() && !copy.error() && copy.reason() == baton::errc::ok);
    CHECK(copy.id() == static_cast<baton::call_id>(42));
    CHECK_EQ(copy.key(), std::string(BATON_KEY_MAX - 1, 'k'));
    CHECK_EQ(copy.attempt(), 2u);
    CHECK(copy.user() == &mine && copy.user_as<int>() == &mine);
    CHECK(copy.mode() == baton::mode::pull && !copy.was_given_up() && !copy.peer());
    CHECK(copy.num_blocks() == 3 && copy.bytes() == 100);
    CHECK(copy.bytes(baton::path::shm) == 60 && copy.bytes(baton::path::rma) == 40);
    CHECK(copy.bytes(static_cast<baton::path>(99)) == 0 && copy.bytes(static_cast<baton::path>(-1)) == 0);
    CHECK(copy.wait() == 5ns && copy.total() == 6ns && copy.verdict() == baton::verdict_place::follows);
    CHECK(copy.detail().empty());
    CHECK_EQ(copy.attach().size(), static_cast<std::size_t>(BATON_ATTACH_MAX));
    CHECK(copy.attach()[255] == std::byte{7});
    CHECK_EQ(other_file::key_of(copy), copy.key());

    c = fake::event();
    c.type = BATON_EVENT_GIVEN_UP;
    c.of = BATON_EVENT_OFFER;
    c.status = BATON_STATUS_FAILED;
    c.error = BATON_EPEER;
    c.peer = UINT64_MAX;
    c.peer_life = 70;
    c.peer_rank = 3;
    std::strcpy(c.peer_engine, "prefill0");
    c.given_up = 1;
    std::strcpy(c.detail, "rank 0 is lost");
    fake::state.events = {c};
    CHECK(b.poll(e));
    CHECK(e.type() == baton::event_type::given_up && !e.is_terminal() && e.of() == baton::event_type::offer);
    CHECK(!e.is_done() && e.error() == baton::errc::epeer && e.reason() == baton::errc::epeer);
    CHECK(e.peer() == std::optional<std::uint64_t>(UINT64_MAX) && e.was_given_up());
    CHECK(e.peer_engine() == "prefill0" && e.peer_rank() == 3 && e.peer_life() == 70);
    CHECK_EQ(e.detail(), "rank 0 is lost"sv);
    CHECK(e.attach().empty());

    c = baton_event_t();
    c.type = BATON_EVENT_ENGINES;
    c.status = BATON_STATUS_DONE;
    c.version = 1234567890123;
    fake::state.events = {c};
    CHECK(b.poll(e));
    CHECK(e.type() == baton::event_type::engines && e.version() == 1234567890123 && !e.is_terminal());
}

static void readings_are_values()
{
    baton::context b = some_context();
    std::uint64_t version = 0;
    auto engines = b.engines(version);
    CHECK_EQ(engines.size(), 2u);
    CHECK_EQ(version, 43u);
    CHECK_EQ(b.engines().size(), 2u);
    const baton::engine &e = engines[1];
    CHECK_EQ(e.name(), "decode0");
    CHECK(e.role() == baton::role::decode && e.tp() == 2 && e.pp() == 3);
    CHECK(e.distance() == baton::distance::package && e.nearest() == 1 && e.num_ranks() == 6 && e.life() == 71);
    CHECK_EQ(e.c().size, sizeof(baton_engine_t));
    auto ranks = b.engine_ranks(e.name());
    CHECK_EQ(fake::state.last.engine, "decode0");
    CHECK_EQ(ranks.size(), 6u);
    CHECK(ranks[0].distance() == baton::distance::node && ranks[5].distance() == baton::distance::world);
    CHECK(ranks[3].pp_rank() == 1 && ranks[3].tp_rank() == 1 && ranks[3].number() == UINT64_MAX - 3);
    CHECK(ranks[3].host() == "d" && ranks[4].host().empty());
    CHECK(ranks[4].world_rank() == std::optional<std::uint32_t>(9) && !ranks[5].world_rank());
    CHECK_EQ(ranks[1].c().size, sizeof(baton_engine_rank_t));
    auto pending = b.pending();
    CHECK_EQ(pending.size(), 1u);
    CHECK_EQ(pending[0].engine(), "prefill0");
    CHECK(pending[0].ranks_needed() == 1 && pending[0].ranks_known() == 2 && pending[0].attempts() == 3);
    CHECK(pending[0].wants() == 4 && pending[0].waiting() == 5ns && pending[0].c().wants == 4);
    baton::stats s = b.stats();
    CHECK(s.wants == 11 && s.bytes_by(baton::path::rma) == 12 && s.peers_by(baton::path::shm) == 13);
    CHECK(s.ended(baton::errc::egone) == 14 && s.ended(baton::errc::epeer) == 0);
    CHECK(s.ended(static_cast<baton::errc>(-1000)) == 0 && s.peers_by(static_cast<baton::path>(99)) == 0);
    baton::peer_stats peer = b.peer_stats(17);
    CHECK_EQ(fake::state.last.numbers[0], 17u);
    CHECK(peer.engine() == "decode0" && peer.path() == baton::path::rma && peer.failures() == 21);
    CHECK(peer.failures(baton::errc::epeer) == 22 && peer.c().failures == 21);
    fake::state.answer = 5;
    CHECK(b.event_fd() == 5 && b.progress() == 5);
    fake::state.answer = 0;
    for (int bytes : {0, 1, 15, 16, 5000}) { // it grows by 10 after it was measured
        fake::state.text_bytes = bytes;
        CHECK_EQ(b.describe(), std::string(static_cast<std::size_t>(bytes) + 10, 'd'));
    }
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

static void handlers_of_the_log_live_on()
{
    fake::reset();
    std::string lines;
    auto counter = std::make_shared<int>(0);
    baton::log_set([&lines, counter](baton::log_level level, const baton::log_source &source, std::string_view line) {
        ++*counter;
        lines += std::to_string(static_cast<int>(level)) + " " + std::string(source.engine()) + ":" +
                 std::to_string(source.rank()) + " " + std::to_string(source.life()) + " " +
                 std::to_string(source.world_rank().value_or(99)) + " " + std::string(line) + "\n";
    });
    baton_log_fn first = fake::state.log;
    void *first_user = fake::state.log_user;
    baton::log_set([](baton::log_level, const baton::log_source &, std::string_view) {});
    baton_log_source_t source = {sizeof source, 77, 1, 3, "decode0"};
    first(first_user, BATON_LOG_WARNING, &source, "of a context that was opened before");
    CHECK_EQ(lines, "2 decode0:1 77 3 of a context that was opened before\n");
    source.world_rank = -1;
    baton::log_set({});
    CHECK(fake::state.log == nullptr);
    first(first_user, BATON_LOG_ERROR, &source, "again");
    CHECK_EQ(*counter, 2);
}

int main()
{
    RUN(each_function_fails_both_ways);
    RUN(what_is_returned_after_an_error_is_empty);
    RUN(files_share_codes_and_exceptions);
    RUN(open_says_who_this_rank_is);
    RUN(a_context_is_closed_once);
    RUN(close_says_what_failed_and_is_over);
    RUN(the_destructor_says_what_failed);
    RUN(caches_are_created_and_wrapped);
    RUN(drivers_are_objects);
    RUN(an_offer_hands_over_everything);
    RUN(a_want_hands_over_everything);
    RUN(words_hand_over_everything);
    RUN(texts_are_never_cut);
    RUN(numbers_are_never_cut);
    RUN(times_are_never_the_default_by_chance);
    RUN(hot_paths_do_not_allocate);
    RUN(events_come_into_a_buffer);
    RUN(events_are_values);
    RUN(readings_are_values);
    RUN(handlers_of_the_log_live_on);
    return check::end();
}
