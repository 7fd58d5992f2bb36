/* SPDX-License-Identifier: BSD-3-Clause */
/* test_values: what baton.hpp does without a context: errors, spans, geometries, tables. */
#include "baton.hpp"

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "check.hpp"

using namespace std::string_literals;
using namespace std::string_view_literals;

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void errors_have_their_numbers_and_texts()
{
    const struct {
        int number;
        const char *name, *message;
    } rows[] = {
#define ROW(name, number, message) {number, "BATON_" #name, message},
        BATON_ERRNO_MAP(ROW)
#undef ROW
    };
    for (const auto &row : rows) {
        std::error_code ec = static_cast<baton::errc>(row.number);
        CHECK_EQ(ec.value(), row.number);
        CHECK(ec.category() == baton::category());
        CHECK_EQ(ec.message(), row.message);
        CHECK_EQ(baton::name(static_cast<baton::errc>(row.number)), std::string(row.name));
    }
    CHECK_EQ(baton::category().name(), "baton"sv);
    CHECK(!std::error_code(baton::errc::ok));
    CHECK_EQ(std::error_code(baton::errc(-1000)).message(), "unknown error");
}

static void errors_compare_with_those_of_posix()
{
    CHECK(std::error_code(baton::errc::eagain) == baton::errc::eagain);
    CHECK(std::error_code(baton::errc::eagain) != baton::errc::egone);
    CHECK(std::error_code(baton::errc::einval) == std::errc::invalid_argument);
    CHECK(std::error_code(baton::errc::eagain) == std::errc::resource_unavailable_try_again);
    CHECK(std::error_code(baton::errc::enomem) == std::errc::not_enough_memory);
    CHECK(std::error_code(baton::errc::enosys) == std::errc::function_not_supported);
    CHECK(std::error_code(baton::errc::etimedout) == std::errc::timed_out);
    CHECK(std::error_code(baton::errc::ecanceled) == std::errc::operation_canceled);
    CHECK(std::error_code(baton::errc::ebusy) == std::errc::device_or_resource_busy);
    CHECK(std::error_code(baton::errc::egone) != std::errc::invalid_argument);
    CHECK(std::error_code(-1, std::generic_category()) != baton::errc::einval); // other categories' numbers are others
}

static void exceptions_carry_the_sentence()
{
    baton::geometry g;
    bool caught = false;
    try {
        g.lay_out();
    } catch (const std::system_error &e) { // as a program would that does not know of Baton
        caught = true;
        CHECK(e.code() == baton::errc::einval);
        CHECK_EQ(std::string(e.what()), std::string(baton::errmsg()) + ": invalid argument");
        CHECK(std::string(baton::errmsg()).size() > 10);
        const auto *own = dynamic_cast<const baton::error *>(&e);
        CHECK(own != nullptr && own->reason() == baton::errc::einval);
    }
    CHECK(caught);
    std::error_code ec = baton::errc::egone;
    g.lay_out({}, ec);
    CHECK_EQ(ec, baton::errc::einval);
    static_assert(std::is_nothrow_copy_constructible_v<baton::error>, "an exception is copied");
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

struct base {
    int i;
};
struct derived : base {
    int k;
};

static void spans_view_what_lives()
{
    using ints = baton::span<const int>;
    int array[] = {1, 2, 3};
    std::vector<int> vector = {4, 5};
    const std::vector<int> constant = {6};
    std::array<int, 2> fixed = {{7, 8}};
    CHECK_EQ(ints(array).size(), 3u);
    CHECK_EQ(ints(vector).data(), vector.data());
    CHECK_EQ(ints(constant)[0], 6);
    CHECK_EQ(ints(fixed).subspan(1)[0], 8);
    CHECK_EQ(ints(array).subspan(1, 1).size(), 1u);
    CHECK_EQ(ints(array).first(2).end()[-1], 2);
    CHECK(ints().empty() && ints().begin() == ints().end());
    baton::span<int> writable = vector;
    writable[1] = 9;
    CHECK_EQ(vector[1], 9);
    int sum = 0;
    for (int i : ints(writable))
        sum += i;
    CHECK_EQ(sum, 13);
    CHECK_EQ(baton::span<const char>("text"sv).size(), 4u);

    static_assert(std::is_convertible_v<std::vector<int> &, ints>, "what has a name");
    static_assert(std::is_convertible_v<baton::span<int>, ints>, "const is added");
    static_assert(std::is_convertible_v<std::string_view, baton::span<const char>>, "a view may be temporary");
    static_assert(!std::is_convertible_v<std::vector<int>, ints>, "a temporary vector would be gone");
    static_assert(!std::is_convertible_v<std::array<int, 2>, ints>, "so would a temporary array");
    static_assert(!std::is_convertible_v<const std::vector<int>, ints>, "so would a constant one");
    static_assert(!std::is_constructible_v<ints, int(&&)[2]>, "so would an array of C's");
    static_assert(!std::is_constructible_v<ints, const int(&&)[2]>, "so would a constant one of those");
    static_assert(!std::is_convertible_v<std::vector<int>, baton::tables>, "tables hold a view");
    static_assert(!std::is_convertible_v<const std::vector<int> &, baton::span<int>>, "const stays");
    static_assert(!std::is_convertible_v<std::vector<short> &, ints>, "other elements");
    static_assert(!std::is_convertible_v<std::vector<derived> &, baton::span<base>>, "other strides");
    static_assert(std::is_trivially_copyable_v<ints>, "a span is handed by value");
#if __cplusplus >= 202002L
    static_assert(std::is_convertible_v<baton::span<int>, std::span<int>>, "to C++20");
    static_assert(std::is_convertible_v<std::span<int>, ints>, "and from it");
    static_assert(std::ranges::contiguous_range<ints> && std::ranges::borrowed_range<ints>, "for its algorithms");
#endif
}

static void bytes_are_of_values_and_texts()
{
    std::uint32_t token = 0x01020304;
    CHECK_EQ(baton::bytes_of(token).size(), sizeof token);
    CHECK(std::memcmp(baton::bytes_of(token).data(), &token, sizeof token) == 0);
    CHECK_EQ(baton::bytes_of("abc"sv).size(), 3u);
}

/* ---- geometries -------------------------------------------------------------------------------------------------- */

static baton::geometry some_geometry()
{
    baton::geometry g;
    g.model = "m";
    g.dtype = "bf16";
    g.elem_bytes = 2;
    g.head_size = 64;
    g.layers_total = 5;
    g.layer_first = 1;
    g.layer_count = 3;
    g.groups = {{baton::kind::full, 16, 100}};
    g.splits = {{8, 2, 4}};
    return g;
}

static void layouts_are_those_of_c()
{
    for (baton::layout how : {baton::layout::hnd, baton::layout::nhd | baton::layout::kv_fused,
                              baton::layout::block_major | baton::layout::kv_block}) {
        baton::geometry g = some_geometry();
        g.lay_out(how);
        baton_geometry_t c = BATON_INIT(baton_geometry_t);
        baton_tensor_t tensors[3];
        c.elem_bytes = c.planes = 2;
        c.head_size = 64;
        c.layers_total = 5;
        c.layer_first = 1;
        c.layer_count = 3;
        c.num_groups = c.num_splits = 1;
        c.groups[0].block_tokens = 16;
        c.groups[0].num_blocks = 100;
        c.splits[0].heads_total = 8;
        c.splits[0].head_first = 2;
        c.splits[0].head_count = 4;
        std::strcpy(c.model, "m");
        std::strcpy(c.dtype, "bf16");
        CHECK_EQ(baton_geometry_layout(&c, tensors, static_cast<unsigned>(how)), 0);
        CHECK_EQ(g.bytes, c.bytes);
        CHECK_EQ(g.tensors.size(), 3u);
        CHECK_EQ(g.tensors[2].name, "layer.3");
        auto own = g.c();
        for (std::size_t i = 0; i < 3; i++)
            CHECK(std::memcmp(&own.get()->tensors[i], &tensors[i], sizeof tensors[i]) == 0);
        own.g.tensors = c.tensors; // all else is the same
        CHECK(std::memcmp(&own.g, &c, sizeof c) == 0);
    }
}

static void every_member_reaches_c()
{
    baton::geometry g = some_geometry();
    g.planes = 1;
    g.bytes = 77;
    g.groups = {{baton::kind::full, 1, 2, 3, 4}, {baton::kind::window, 5, 6, 7, 8}};
    g.splits = {{1, 2, 3}, {4, 5, 6}};
    baton::tensor t;
    t.name = "t";
    t.layer = 1;
    t.region = 2;
    t.offset = 3;
    t.stride = {4, 5, 6, 7, 8};
    t.group = 9;
    t.split = 10;
    t.planes = 11;
    t.head_size = 12;
    t.elem_bytes = 13;
    g.tensors = {t};
    auto own = g.c();
    const baton_geometry_t &c = *own.get();
    CHECK_EQ(c.size, sizeof c);
    CHECK_EQ(c.model, "m"sv);
    CHECK_EQ(c.dtype, "bf16"sv);
    CHECK_EQ(c.elem_bytes, 2u);
    CHECK_EQ(c.planes, 1u);
    CHECK_EQ(c.head_size, 64u);
    CHECK_EQ(c.layers_total, 5u);
    CHECK_EQ(c.layer_first, 1u);
    CHECK_EQ(c.layer_count, 3u);
    CHECK_EQ(c.bytes, 77u);
    CHECK_EQ(c.num_groups, 2u);
    CHECK_EQ(c.groups[0].block_tokens, 1u);
    CHECK_EQ(c.groups[1].kind, BATON_KIND_WINDOW);
    CHECK_EQ(c.groups[1].block_tokens, 5u);
    CHECK_EQ(c.groups[1].num_blocks, 6u);
    CHECK_EQ(c.groups[1].window_tokens, 7u);
    CHECK_EQ(c.groups[1].blocks_per_id, 8u);
    CHECK_EQ(c.num_splits, 2u);
    CHECK_EQ(c.splits[1].heads_total, 4u);
    CHECK_EQ(c.splits[1].head_first, 5u);
    CHECK_EQ(c.splits[1].head_count, 6u);
    CHECK_EQ(c.num_tensors, 1u);
    const baton_tensor_t &to = c.tensors[0];
    CHECK_EQ(to.name, "t"sv);
    CHECK(to.layer == 1 && to.region == 2 && to.offset == 3);
    CHECK(to.stride.block == 4 && to.stride.plane == 5 && to.stride.head == 6);
    CHECK(to.stride.token == 7 && to.stride.channel == 8);
    CHECK(to.group == 9 && to.split == 10 && to.planes == 11 && to.head_size == 12 && to.elem_bytes == 13);
}

/* A text that C would read past, or cut, must be refused by it: an array without a NUL. */
static void texts_that_do_not_fit_are_refused()
{
    for (const std::string &name : {std::string(BATON_NAME_MAX, 'x'), "a\0b"s}) {
        baton::geometry g = some_geometry();
        g.model = name;
        auto own = g.c();
        CHECK(std::memchr(own.get()->model, '\0', sizeof own.g.model) == nullptr);
        g = some_geometry();
        g.tensors.resize(1);
        g.tensors[0].name = name;
        own = g.c();
        CHECK(std::memchr(own.get()->tensors[0].name, '\0', BATON_NAME_MAX) == nullptr);
    }
    baton::geometry g = some_geometry();
    g.model = std::string(BATON_NAME_MAX - 1, 'x');
    CHECK_EQ(std::strlen(g.c().get()->model), static_cast<std::size_t>(BATON_NAME_MAX - 1));
}

static void too_many_of_anything_are_refused()
{
    std::error_code ec;
    baton::geometry g = some_geometry();
    g.lay_out();
    g.groups.resize(BATON_GROUPS_MAX + 1, g.groups[0]);
    CHECK_EQ(g.c().get()->num_groups, BATON_GROUPS_MAX + 1u);
    g.lay_out({}, ec);
    CHECK_EQ(ec, baton::errc::einval);
    CHECK_EQ(g.tensors.size(), 3u); // as before
    g = some_geometry();
    g.layer_count = BATON_TENSORS_MAX + 1;
    g.lay_out({}, ec);
    CHECK_EQ(ec, baton::errc::einval);
    g.layer_count = 0;
    g.lay_out({}, ec);
    CHECK_EQ(ec, baton::errc::einval);
    g.layer_count = 2;
    g.lay_out({}, ec);
    CHECK(!ec);
    g.splits.resize(BATON_SPLITS_MAX + 1, g.splits[0]);
    CHECK_EQ(g.c().get()->num_splits, BATON_SPLITS_MAX + 1u);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void tables_are_made_of_ids()
{
    const std::uint32_t few[] = {7, 3};
    std::vector<std::uint32_t> more = {1, 2, 3};
    baton_table_t c[BATON_GROUPS_MAX];
    baton::tables one = {more};
    CHECK_EQ(one.fill(c), 1u);
    CHECK(c[0].blocks == more.data() && c[0].num_blocks == 3 && c[0].first_token == 0);
    one = few;
    CHECK_EQ(one.fill(c), 1u);
    CHECK(c[0].blocks == few && c[0].num_blocks == 2);
    baton::tables two = {{few}, {more, 32}};
    CHECK_EQ(two.fill(c), 2u);
    CHECK(c[0].blocks == few && c[0].first_token == 0);
    CHECK(c[1].blocks == more.data() && c[1].num_blocks == 3 && c[1].first_token == 32);
    std::vector<baton::table> rows(BATON_GROUPS_MAX + 1, baton::table{more, 16});
    CHECK_EQ(baton::tables(rows).fill(c), BATON_GROUPS_MAX + 1u); // the number says that there are too many
    CHECK_EQ(c[BATON_GROUPS_MAX - 1].first_token, 16u);
    CHECK_EQ(baton::tables().fill(c), 0u);
}

static void ids_are_keys_of_maps()
{
    std::unordered_map<baton::call_id, int> open;
    open[static_cast<baton::call_id>(7)] = 1;
    CHECK_EQ(open.count(static_cast<baton::call_id>(7)), 1u);
    CHECK_EQ(open.count(baton::call_id::none), 0u);
    static_assert(!std::is_convertible_v<std::uint64_t, baton::call_id>, "a number is no id");
}

static void enumerations_have_names()
{
    CHECK_EQ(baton::name(baton::event_type::given_up), "given up"sv);
    CHECK_EQ(baton::name(baton::event_type::verdict), "verdict"sv);
    CHECK_EQ(baton::name(baton::event_type::engines), "engines"sv);
    CHECK_EQ(baton::name(baton::status::cancelled), "cancelled"sv);
    CHECK_EQ(baton::version(), BATON_VERSION_STRING);
}

int main()
{
    RUN(errors_have_their_numbers_and_texts);
    RUN(errors_compare_with_those_of_posix);
    RUN(exceptions_carry_the_sentence);
    RUN(spans_view_what_lives);
    RUN(bytes_are_of_values_and_texts);
    RUN(layouts_are_those_of_c);
    RUN(every_member_reaches_c);
    RUN(texts_that_do_not_fit_are_refused);
    RUN(too_many_of_anything_are_refused);
    RUN(tables_are_made_of_ids);
    RUN(ids_are_keys_of_maps);
    RUN(enumerations_have_names);
    return check::end();
}
