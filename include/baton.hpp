/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton.hpp: baton.h for C++17 and later, in one header and without a library of its own.
 *
 * What each call promises, on which threads and with which events, stands in baton.h. This header says what C++ adds:
 *
 *   auto b = baton::open(baton::open_params::from_env());            // collective
 *   baton::cache cache = b.cache_create(geometry);
 *   b.start();                                                       // collective
 *   b.want({.key = "r1", .engine = "prefill0", .tables = {blocks}, .num_tokens = 40});
 *   std::array<baton::event, 64> buffer;
 *   for (const baton::event &e : b.poll(buffer))
 *       std::printf("%s\n", e.error().message().c_str());
 *   b.close();                                                       // collective
 *
 * (Designated initialisers are of C++20. In C++17 the members are assigned one by one.)
 *
 * NAMES. baton_want is baton::context::want, baton_want_params_t is baton::want_params, BATON_MODE_PULL is
 * baton::mode::pull, BATON_EGONE is baton::errc::egone. Each enumeration of baton.h is an `enum class` here, and may
 * hold values that only a newer version knows.
 *
 * ERRORS. A function that can fail has two forms:
 *
 *   f(...)                        throws baton::error, a std::system_error. Its code() is the reason, and its what()
 *                                 begins with the sentence of baton_errmsg
 *   f(..., std::error_code &ec)   throws no baton::error: ec is the reason, or false if there was none; baton_errmsg()
 *                                 has the sentence. What is returned after an error is empty, 0 or null
 *
 * The second form is for calls whose failure is no exception: above all the verbs, which say errc::eagain when a limit
 * is reached. It throws nothing, except std::bad_alloc where it returns a container or takes a geometry; all others are
 * noexcept. What cannot be returned is an event, as in C.
 *
 * With -fno-exceptions, the first form prints the sentence on standard error and calls std::abort. All files of a
 * program that include this header must then be compiled so.
 *
 * WHAT OWNS WHAT.
 *
 *   context                     owns the baton_t. It can be moved, and not copied. See its destructor
 *   geometry, tensor            own their strings and vectors
 *   offer_params, want_params,
 *   append_params, table        own nothing: they hold views of keys and arrays of the caller's, which must live until
 *   and tables                  the call returns. A view of a temporary vector or array does not compile. One of a
 *                               temporary std::string does, and holds until the end of the statement
 *   event, stats, pending,      values, to be copied freely. Texts and spans that an event's members return are views
 *   peer_stats                  of that event
 *   cache, engine               values that refer to memory of the context's: valid until it is closed
 *
 * COST. offer, want, append, ready, cancel and poll allocate nothing beyond what baton.h's functions do. Keys and names
 * of engines are copied to the stack, since C ends them by a NUL and a std::string_view does not.
 *
 * FILES. The header can be included by any number of files, some with BATON_NO_MPI and some without: only open() of an
 * MPI_Comm is left out by BATON_NO_MPI.
 */
#ifndef BATON_HPP
#define BATON_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "baton.hpp needs C++17"
#endif

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* structs and functions of one name, as C has them */
#endif
#include "baton.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <forward_list>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

/* One category and one type of exception in a process, also where its libraries hide their symbols. */
#if defined(__GNUC__)
#define BATON_SHOWN __attribute__((visibility("default")))
#else
#define BATON_SHOWN
#endif

namespace baton
{

/** The version of the library that runs, as "major.minor.patch". */
inline std::string_view version() noexcept
{
    return ::baton_version();
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/** The numbers of baton.h, by their names there. */
enum class errc : int {
    ok = BATON_OK,
    einval = BATON_EINVAL,
    eagain = BATON_EAGAIN,
    enomem = BATON_ENOMEM,
    enosys = BATON_ENOSYS,
    estate = BATON_ESTATE,
    esetting = BATON_ESETTING,
    eengine = BATON_EENGINE,
    egeometry = BATON_EGEOMETRY,
    eblock = BATON_EBLOCK,
    etokens = BATON_ETOKENS,
    ekey = BATON_EKEY,
    eexist = BATON_EEXIST,
    egone = BATON_EGONE,
    estale = BATON_ESTALE,
    etimedout = BATON_ETIMEDOUT,
    ecanceled = BATON_ECANCELED,
    epeer = BATON_EPEER,
    ethread = BATON_ETHREAD,
    ewindow = BATON_EWINDOW,
    eshm = BATON_ESHM,
    empi = BATON_EMPI,
    emessage = BATON_EMESSAGE,
    eseat = BATON_ESEAT,
    esource = BATON_ESOURCE,
    eclosed = BATON_ECLOSED,
    esystem = BATON_ESYSTEM,
    ebusy = BATON_EBUSY,
    estall = BATON_ESTALL,
    echecksum = BATON_ECHECKSUM
};

/** The name in baton.h: "BATON_EGONE" say. */
inline const char *name(errc e) noexcept
{
    return ::baton_errname(static_cast<int>(e));
}

namespace detail
{
class BATON_SHOWN error_category final : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "baton";
    }
    std::string message(int number) const override
    {
        return ::baton_strerror(number);
    }
    /* The reasons that POSIX knows too, so that `ec == std::errc::timed_out` says what it seems to say. */
    std::error_condition default_error_condition(int number) const noexcept override
    {
        switch (number) {
        case BATON_EINVAL:
            return std::errc::invalid_argument;
        case BATON_EAGAIN:
            return std::errc::resource_unavailable_try_again;
        case BATON_ENOMEM:
            return std::errc::not_enough_memory;
        case BATON_ENOSYS:
            return std::errc::function_not_supported;
        case BATON_ETIMEDOUT:
            return std::errc::timed_out;
        case BATON_ECANCELED:
            return std::errc::operation_canceled;
        case BATON_EBUSY:
            return std::errc::device_or_resource_busy;
        default:
            return {number, *this};
        }
    }
};

/* It is never destroyed, so that codes have their texts until the end of the process. */
union lasting_category {
    error_category category;
    lasting_category() noexcept : category()
    {
    }
    ~lasting_category()
    {
    }
};
} // namespace detail

/** The category of all error codes here. Its message() is baton_strerror's. */
BATON_SHOWN inline const std::error_category &category() noexcept
{
    static const detail::lasting_category one;
    return one.category;
}

inline std::error_code make_error_code(errc e) noexcept
{
    return {static_cast<int>(e), category()};
}

/** The sentence of this thread's last call that failed. Valid until its next one that fails. */
inline const char *errmsg() noexcept
{
    return ::baton_errmsg();
}

/** What the throwing forms throw. what() is the sentence of baton_errmsg, then the fixed message of the number. */
class BATON_SHOWN error : public std::system_error
{
  public:
    error(errc reason, const char *sentence) : std::system_error(make_error_code(reason), sentence)
    {
    }
    errc reason() const noexcept
    {
        return static_cast<errc>(code().value());
    }
};

namespace detail
{
[[noreturn]] inline void fail(int number)
{
#ifdef __cpp_exceptions
    throw error(static_cast<errc>(number), errmsg());
#else
    std::fprintf(stderr, "baton: %s: %s\n", errmsg(), ::baton_strerror(number));
    std::abort();
#endif
}

/* What a function of baton.h returned, if that is no error. */
inline int check(int result)
{
    if (result < 0)
        fail(result);
    return result;
}

/* The same for the form that sets a code: 0 after an error. */
inline int check(int result, std::error_code &ec) noexcept
{
    if (result >= 0) {
        ec.clear();
        return result;
    }
    ec = make_error_code(static_cast<errc>(result));
    return 0;
}
} // namespace detail

/* ---- spans ------------------------------------------------------------------------------------------------------ */

template <class T> class span;

namespace detail
{
/* Whether R is an array-like whose elements are T or T without const. */
template <class R, class T, class = void> struct is_array_of : std::false_type {
};
template <class R, class T>
struct is_array_of<R, T, std::void_t<decltype(std::declval<R &>().data()), decltype(std::declval<R &>().size())>>
    : std::is_convertible<std::remove_pointer_t<decltype(std::declval<R &>().data())> (*)[], T (*)[]> {
};
template <class E, std::size_t N, class T> struct is_array_of<E[N], T, void> : std::is_convertible<E (*)[], T (*)[]> {
};

/* Whether R refers to elements that live elsewhere, as std::span and std::string_view do. A std::vector is not trivial,
 * and a std::array is an aggregate. */
template <class R>
constexpr bool is_view = std::is_trivially_copyable_v<R> && !std::is_aggregate_v<R> && sizeof(R) <= 2 * sizeof(void *);

/* What a span may be made of without dangling: what has a name, and what is a view itself. */
template <class R, class T>
constexpr bool spans = is_array_of<std::remove_reference_t<R>, T>::value &&
                       (std::is_lvalue_reference_v<R> || is_view<std::remove_cv_t<std::remove_reference_t<R>>>);
} // namespace detail

/**
 * A view of elements that stand one after another: the part of C++20's std::span that is needed here. It is made of an
 * array, a pointer and a number, or anything with data() and size(); a std::span can be made of it.
 */
template <class T> class span
{
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <class R, class = std::enable_if_t<detail::spans<R, T> &&
                                                !std::is_same_v<std::remove_cv_t<std::remove_reference_t<R>>, span>>>
    constexpr span(R &&range) noexcept : data_(std::data(range)), size_(std::size(range))
    {
    }

    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T &operator[](std::size_t i) const
    {
        return data_[i];
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    /** The first `count` elements, of which there must be as many. */
    constexpr span first(std::size_t count) const
    {
        return {data_, count};
    }
    /** All from the one at `offset` on, or `count` of them. */
    constexpr span subspan(std::size_t offset) const
    {
        return {data_ + offset, size_ - offset};
    }
    constexpr span subspan(std::size_t offset, std::size_t count) const
    {
        return {data_ + offset, count};
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** The bytes of a plain value that has a name, for offer_params::attach. */
template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>>>
span<const std::byte> bytes_of(const T &value) noexcept
{
    return {reinterpret_cast<const std::byte *>(&value), sizeof value};
}
template <class T> void bytes_of(const T &&) = delete;

/** The characters of a text as bytes. */
inline span<const std::byte> bytes_of(std::string_view text) noexcept
{
    return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

namespace detail
{
/* A number of things as baton.h counts them. What it cannot count is more than any limit, which the call then says. */
inline std::uint32_t count(std::size_t n) noexcept
{
    return n < UINT32_MAX ? static_cast<std::uint32_t>(n) : UINT32_MAX;
}

/* A time to live or a deadline. Time that has run out already is the shortest there is, since 0 means the default. */
inline std::uint32_t count_ms(const std::optional<std::chrono::milliseconds> &time) noexcept
{
    if (!time)
        return 0;
    const std::int64_t n = time->count();
    if (n < 1)
        return 1;
    return n < std::int64_t{UINT32_MAX} ? static_cast<std::uint32_t>(n) : UINT32_MAX;
}

/* A text of at most N bytes that ends by a NUL. A longer one becomes a text of N + 1 bytes, and one with a NUL inside
 * becomes empty: the functions of baton.h refuse both. */
template <std::size_t N> class text
{
  public:
    text() noexcept
    {
    }
    text(std::string_view from) noexcept
    {
        *this = from;
    }
    text &operator=(std::string_view from) noexcept
    {
        std::size_t n = from.size() <= N ? from.size() : N + 1;
        if (n > 0 && std::memchr(from.data(), '\0', n) != nullptr)
            n = 0;
        if (n > 0)
            std::memcpy(bytes_, from.data(), n);
        bytes_[n] = '\0';
        return *this;
    }
    const char *c() const noexcept
    {
        return bytes_;
    }

  private:
    char bytes_[N + 2];
};

using key_text = text<BATON_KEY_MAX - 1>;
using engine_text = text<BATON_ENGINE_NAME_MAX - 1>;

/* Fills an array of a struct of baton.h. What does not fit, or has a NUL inside, leaves it without a NUL at its end,
 * which is refused there. */
template <std::size_t N> void put(char (&to)[N], std::string_view from) noexcept
{
    bool fits = from.size() < N && from.find('\0') == from.npos;
    std::memset(to, fits ? '\0' : '?', N);
    if (fits && !from.empty())
        std::memcpy(to, from.data(), from.size());
}

template <std::size_t N> std::string_view view(const char (&from)[N]) noexcept
{
    return {from, ::strnlen(from, N)};
}
} // namespace detail

/* ---- the log ---------------------------------------------------------------------------------------------------- */

enum class log_level : int {
    error = BATON_LOG_ERROR,
    warning = BATON_LOG_WARNING,
    info = BATON_LOG_INFO,
    debug = BATON_LOG_DEBUG
};

/** Who says a line: baton_log_source_t. Valid while its handler runs, as the views that it gives. */
class log_source
{
  public:
    explicit log_source(const baton_log_source_t &c) noexcept : c_(c)
    {
    }
    std::string_view engine() const noexcept
    {
        return detail::view(c_.engine);
    }
    /** The index in the engine: pp_rank * tp + tp_rank. */
    std::uint32_t rank() const noexcept
    {
        return c_.rank;
    }
    /** Of this start of the engine; 0 before it is known. */
    std::uint64_t life() const noexcept
    {
        return c_.life;
    }
    /** In the communicator, if it is known and there is one. */
    std::optional<std::uint32_t> world_rank() const noexcept
    {
        return c_.world_rank >= 0 ? std::optional(static_cast<std::uint32_t>(c_.world_rank)) : std::nullopt;
    }

  private:
    const baton_log_source_t &c_;
};

/** Takes one line: see baton_log_fn, which says what it may do. If it throws, std::terminate is called. */
using log_handler = std::function<void(log_level level, const log_source &source, std::string_view line)>;

/**
 * Hands the log of contexts that are opened after this to `handler`; an empty one: to standard error again. As with
 * baton_log_set, contexts keep the handler that was set when they were opened. A handler is kept until the process
 * ends: contexts that other code opened may use it too, and one that was closed with errc::epeer goes on using it.
 */
inline void log_set(log_handler handler)
{
    if (!handler)
        return ::baton_log_set(nullptr, nullptr);
    static auto &kept = *new std::forward_list<log_handler>; // never destroyed, so that threads may log until the end
    kept.push_front(std::move(handler));
    auto take = [](void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line) noexcept {
        (*static_cast<const log_handler *>(user))(static_cast<log_level>(level), log_source(*source), line);
    };
    ::baton_log_set(take, &kept.front());
}

/* ---- who this rank is ------------------------------------------------------------------------------------------- */

enum class role : int { prefill = BATON_ROLE_PREFILL, decode = BATON_ROLE_DECODE, both = BATON_ROLE_BOTH };

enum class progress : int {
    automatic = BATON_PROGRESS_AUTO,
    thread = BATON_PROGRESS_THREAD,
    caller = BATON_PROGRESS_CALLER
};

enum class verdicts : int { none = BATON_VERDICTS_NONE, all = BATON_VERDICTS_ALL, leader = BATON_VERDICTS_LEADER };

/** baton_open_params_t. */
struct open_params {
    std::string engine{};
    baton::role role = baton::role::both;
    std::uint32_t tp = 1, pp = 1;
    std::uint32_t tp_rank = 0, pp_rank = 0;
    baton::progress progress = baton::progress::automatic;
    baton::verdicts verdicts = baton::verdicts::none;
    /** BATON_OPEN_CACHE_LATER: this rank calls context::cache_wrap after start(). */
    bool cache_later = false;
    /** BATON_OPEN_ENGINES: this rank hears of event_type::engines. */
    bool hears_engines = false;

    /** What the launcher says: baton_role_from_env. progress and verdicts are the defaults. */
    static open_params from_env()
    {
        baton_open_params_t c = BATON_INIT(baton_open_params_t);
        detail::check(::baton_role_from_env(&c));
        return of(c);
    }
    static open_params from_env(std::error_code &ec)
    {
        baton_open_params_t c = BATON_INIT(baton_open_params_t);
        detail::check(::baton_role_from_env(&c), ec);
        return ec ? open_params{} : of(c);
    }

    /** The same for functions of baton.h. */
    baton_open_params_t c() const noexcept
    {
        baton_open_params_t c = BATON_INIT(baton_open_params_t);
        detail::put(c.engine, engine);
        c.role = static_cast<baton_role_t>(role);
        c.tp = tp;
        c.pp = pp;
        c.tp_rank = tp_rank;
        c.pp_rank = pp_rank;
        c.progress = static_cast<baton_progress_mode_t>(progress);
        c.verdicts = static_cast<baton_verdicts_t>(verdicts);
        c.flags = (cache_later ? static_cast<std::uint32_t>(BATON_OPEN_CACHE_LATER) : 0u) |
                  (hears_engines ? static_cast<std::uint32_t>(BATON_OPEN_ENGINES) : 0u);
        return c;
    }

  private:
    static open_params of(const baton_open_params_t &c)
    {
        open_params p;
        p.engine = detail::view(c.engine);
        p.role = static_cast<baton::role>(c.role);
        p.tp = c.tp;
        p.pp = c.pp;
        p.tp_rank = c.tp_rank;
        p.pp_rank = c.pp_rank;
        return p;
    }
};

/* ---- the cache: what its memory looks like ---------------------------------------------------------------------- */

enum class kind : int { full = BATON_KIND_FULL, window = BATON_KIND_WINDOW, state = BATON_KIND_STATE };

enum class memory : int {
    host = BATON_MEMORY_HOST,
    pinned = BATON_MEMORY_PINNED,
    device = BATON_MEMORY_DEVICE,
    shared = BATON_MEMORY_SHARED
};

/** baton_region_t: memory of the caller's, of which `bytes` is a view. */
struct region {
    span<std::byte> bytes{};
    memory kind = memory::host;
    std::uint32_t device = 0;
};

/** Or-ed: one of each group. See baton_layout_t. */
enum class layout : unsigned {
    hnd = BATON_LAYOUT_HND,
    nhd = BATON_LAYOUT_NHD,
    kv_separate = BATON_LAYOUT_KV_SEPARATE,
    kv_block = BATON_LAYOUT_KV_BLOCK,
    kv_fused = BATON_LAYOUT_KV_FUSED,
    layer_major = BATON_LAYOUT_LAYER_MAJOR,
    block_major = BATON_LAYOUT_BLOCK_MAJOR
};

constexpr layout operator|(layout a, layout b) noexcept
{
    return static_cast<layout>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/** baton_strides_t: bytes between neighbours in each direction. */
struct strides {
    std::int64_t block = 0, plane = 0, head = 0, token = 0, channel = 0;
};

/** baton_tensor_t. */
struct tensor {
    std::string name{};
    std::uint32_t layer = 0;
    std::uint32_t region = 0;
    std::uint64_t offset = 0;
    strides stride{};
    std::uint32_t group = 0, split = 0;
    std::uint32_t planes = 0, head_size = 0, elem_bytes = 0;
};

/** baton_group_t. */
struct group {
    baton::kind kind = baton::kind::full;
    std::uint32_t block_tokens = 0;
    std::uint32_t num_blocks = 0;
    std::uint32_t window_tokens = 0;
    std::uint32_t blocks_per_id = 0;
};

/** baton_split_t. */
struct split {
    std::uint32_t heads_total = 0, head_first = 0, head_count = 0;
};

namespace detail
{
/* A geometry as baton.h has it, with the tensors that it points to. */
struct c_geometry {
    baton_geometry_t g = BATON_INIT(baton_geometry_t);
    std::vector<baton_tensor_t> tensors;

    const baton_geometry_t *get() noexcept
    {
        g.tensors = tensors.data();
        g.num_tensors = count(tensors.size());
        return &g;
    }
};

inline baton_tensor_t to_c(const tensor &t) noexcept
{
    baton_tensor_t c = baton_tensor_t();
    put(c.name, t.name);
    c.layer = t.layer;
    c.region = t.region;
    c.offset = t.offset;
    c.stride = {t.stride.block, t.stride.plane, t.stride.head, t.stride.token, t.stride.channel};
    c.group = t.group;
    c.split = t.split;
    c.planes = t.planes;
    c.head_size = t.head_size;
    c.elem_bytes = t.elem_bytes;
    return c;
}

inline tensor from_c(const baton_tensor_t &c)
{
    tensor t;
    t.name = view(c.name);
    t.layer = c.layer;
    t.region = c.region;
    t.offset = c.offset;
    t.stride = {c.stride.block, c.stride.plane, c.stride.head, c.stride.token, c.stride.channel};
    t.group = c.group;
    t.split = c.split;
    t.planes = c.planes;
    t.head_size = c.head_size;
    t.elem_bytes = c.elem_bytes;
    return t;
}
} // namespace detail

/**
 * baton_geometry_t, which owns all that it consists of: fill the members, then the tensors by lay_out() or one by one.
 *
 *   baton::geometry g;
 *   g.model = "llama3-8b";
 *   g.dtype = "bf16";
 *   g.elem_bytes = 2;
 *   g.head_size = 128;
 *   g.layers_total = g.layer_count = 32;
 *   g.groups = {{baton::kind::full, 16, 4096}};  // tokens a block, blocks
 *   g.splits = {{8, 0, 8}};                      // heads of the model, this rank's first one, this rank's number
 *   g.lay_out(baton::layout::nhd | baton::layout::kv_block);
 */
struct geometry {
    std::string model{}, dtype{};
    std::uint32_t elem_bytes = 0;
    std::uint32_t planes = 2;
    std::uint32_t head_size = 0;
    std::uint32_t layers_total = 0, layer_first = 0, layer_count = 0;
    std::vector<group> groups{};
    std::vector<split> splits{};
    std::vector<tensor> tensors{};
    std::uint64_t bytes = 0;

    /** Fills tensors and bytes for a usual layout: baton_geometry_layout. Both stay as they are after an error. */
    void lay_out(layout how = {})
    {
        detail::check(lay_out_c(how));
    }
    void lay_out(layout how, std::error_code &ec)
    {
        detail::check(lay_out_c(how), ec);
    }

    /** The same for functions of baton.h: get() of it is valid as long as it lives and is not moved. */
    detail::c_geometry c() const
    {
        detail::c_geometry c;
        detail::put(c.g.model, model);
        detail::put(c.g.dtype, dtype);
        c.g.elem_bytes = elem_bytes;
        c.g.planes = planes;
        c.g.head_size = head_size;
        c.g.layers_total = layers_total;
        c.g.layer_first = layer_first;
        c.g.layer_count = layer_count;
        c.g.num_groups = detail::count(groups.size()); // more than there may be are refused by their number
        for (std::size_t i = 0; i < groups.size() && i < BATON_GROUPS_MAX; i++) {
            const group &from = groups[i];
            baton_group_t &to = c.g.groups[i];
            to.kind = static_cast<baton_kind_t>(from.kind);
            to.block_tokens = from.block_tokens;
            to.num_blocks = from.num_blocks;
            to.window_tokens = from.window_tokens;
            to.blocks_per_id = from.blocks_per_id;
        }
        c.g.num_splits = detail::count(splits.size());
        for (std::size_t i = 0; i < splits.size() && i < BATON_SPLITS_MAX; i++)
            c.g.splits[i] = {splits[i].heads_total, splits[i].head_first, splits[i].head_count};
        c.tensors.reserve(tensors.size());
        for (const tensor &t : tensors)
            c.tensors.push_back(detail::to_c(t));
        c.g.bytes = bytes;
        return c;
    }

  private:
    int lay_out_c(layout how)
    {
        detail::c_geometry c = this->c();
        c.tensors.assign(layer_count < 1 || layer_count > BATON_TENSORS_MAX ? 1 : layer_count, baton_tensor_t());
        int rc = ::baton_geometry_layout(&c.g, c.tensors.data(), static_cast<unsigned>(how));
        if (rc != 0)
            return rc;
        std::vector<tensor> own;
        own.reserve(c.tensors.size());
        for (const baton_tensor_t &t : c.tensors)
            own.push_back(detail::from_c(t));
        tensors = std::move(own);
        bytes = c.g.bytes;
        return 0;
    }
};

/** A cache of a context's, to be copied freely. Valid until the context is closed. */
class cache
{
  public:
    cache() noexcept = default;
    cache(baton_cache_t *c, std::uint64_t bytes) noexcept : c_(c), bytes_(bytes)
    {
    }
    /** The memory that Baton allocated. Empty before start(), and of a wrapped cache: the caller has that memory. */
    span<std::byte> bytes() const noexcept
    {
        void *base = ::baton_cache_base(c_);
        return {static_cast<std::byte *>(base), base != nullptr ? static_cast<std::size_t>(bytes_) : 0};
    }
    baton_cache_t *c() const noexcept
    {
        return c_;
    }
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }

  private:
    baton_cache_t *c_ = nullptr;
    std::uint64_t bytes_ = 0;
};

/** baton_piece_t: `bytes` that a driver copies between `device` and `host`. */
using piece = baton_piece_t;

/**
 * baton_driver_t: copies between a device's memory and the buffers that Baton stages it in. An engine derives from it.
 * The functions are called by the thread that moves blocks, return at once, and call nothing of Baton.
 */
class driver
{
  public:
    virtual ~driver() = default;
    /** What Baton calls it in its log. Valid until the context is closed. */
    virtual const char *name() const noexcept = 0;
    /**
     * Begins to copy the pieces, at most 1,024, to the device or from it. They are the caller's again at return. Copies
     * may run in any order, also those of several calls. Returns errc::ok, errc::eagain (no room: call again later) or
     * another error; nothing was begun then.
     */
    virtual errc copy(span<const piece> pieces, bool to_device, std::uint64_t tag) noexcept = 0;
    /**
     * Hands out the tag of one call whose copies have all ended, each once; and sets `error`, which is errc::ok before,
     * if they failed. False: there is none. A host buffer is as the copies left it for every thread of this process.
     */
    virtual bool poll(std::uint64_t &tag, errc &error) noexcept = 0;
};

/* ---- the two verbs ---------------------------------------------------------------------------------------------- */

/** Names one accepted call. Never `none`, and never used twice by a context. */
enum class call_id : baton_id_t { none = 0 };

/** The block table of one group: a view of ids of the caller's. */
struct table {
    span<const std::uint32_t> blocks{};
    std::uint32_t first_token = 0;
};

/**
 * One table a group: `.tables = {blocks}` for a cache with one group, `.tables = {{full}, {window, 4096}}` for one with
 * two. It holds up to BATON_GROUPS_MAX tables within itself. With more, the call is refused.
 */
class tables
{
  public:
    tables() noexcept = default;
    tables(std::initializer_list<table> each) noexcept : tables(span<const table>(each.begin(), each.size()))
    {
    }
    tables(span<const table> each) noexcept : num_(detail::count(each.size()))
    {
        for (std::size_t i = 0; i < each.size() && i < BATON_GROUPS_MAX; i++)
            c_[i] = {each[i].blocks.data(), detail::count(each[i].blocks.size()), each[i].first_token};
    }
    template <class R, class = std::enable_if_t<std::is_convertible_v<R &&, span<const std::uint32_t>>>>
    tables(R &&blocks) noexcept : tables{table{span<const std::uint32_t>(std::forward<R>(blocks)), 0}}
    {
    }

    std::uint32_t size() const noexcept
    {
        return num_;
    }
    /** For a struct of baton.h: fills its array, returns its number. */
    std::uint32_t fill(baton_table_t (&to)[BATON_GROUPS_MAX]) const noexcept
    {
        std::memcpy(to, c_, sizeof c_);
        return num_;
    }

  private:
    baton_table_t c_[BATON_GROUPS_MAX] = {};
    std::uint32_t num_ = 0;
};

/** baton_offer_params_t: a view of the caller's key, ids, names and bytes. */
struct offer_params {
    std::string_view key{};
    baton::tables tables{};
    std::uint32_t num_tokens = 0;
    /** Not set: BATON_TTL_MS. Less than 1 ms counts as 1 ms, more than 2^32 - 1 ms as that. */
    std::optional<std::chrono::milliseconds> ttl{};
    /** Seats for any engines. Of no account if consumers are named. */
    std::uint32_t num_consumers = 1;
    /** The engines that have the seats. Empty: any engines. */
    span<const std::string_view> consumers{};
    span<const std::byte> attach{};
    /** BATON_OFFER_LAYERS and BATON_OFFER_CHUNKS. */
    bool in_layers = false, in_chunks = false;
    void *user = nullptr;
    /** Empty: the key itself. */
    std::string_view base_key{};
    std::uint32_t attempt = 0;
};

/** baton_append_params_t: a view of the caller's ids. */
struct append_params {
    std::uint32_t num_tokens = 0;
    baton::tables tables{};
};

enum class mode : int { automatic = BATON_MODE_AUTO, pull = BATON_MODE_PULL, push = BATON_MODE_PUSH };

/** baton_want_params_t: a view of the caller's key, name and ids. */
struct want_params {
    std::string_view key{};
    std::string_view engine{};
    baton::tables tables{};
    std::uint32_t num_tokens = 0;
    std::uint32_t held_tokens = 0;
    /** Not set: BATON_WANT_MS. Less than 1 ms counts as 1 ms, more than 2^32 - 1 ms as that. */
    std::optional<std::chrono::milliseconds> timeout{};
    baton::mode mode = baton::mode::automatic;
    /** BATON_WANT_ZERO_TAIL. */
    bool zero_tail = false;
    /** BATON_WANT_AWAIT_ENGINE. */
    bool await_engine = false;
    void *user = nullptr;
    /** Empty: the key itself. */
    std::string_view base_key{};
    std::uint32_t attempt = 0;
    /** Of the producer's engine (engine::life); 0: any. */
    std::uint64_t life = 0;
};

/* ---- events ----------------------------------------------------------------------------------------------------- */

enum class event_type : int {
    offer = BATON_EVENT_OFFER,
    want = BATON_EVENT_WANT,
    given_up = BATON_EVENT_GIVEN_UP,
    verdict = BATON_EVENT_VERDICT,
    engines = BATON_EVENT_ENGINES
};

enum class status : int {
    done = BATON_STATUS_DONE,
    failed = BATON_STATUS_FAILED,
    expired = BATON_STATUS_EXPIRED,
    cancelled = BATON_STATUS_CANCELLED
};

enum class verdict_place : int {
    none = BATON_VERDICT_NONE,
    follows = BATON_VERDICT_FOLLOWS,
    came = BATON_VERDICT_CAME
};

enum class path : int {
    none = BATON_PATH_NONE,
    shm = BATON_PATH_SHM,
    rma = BATON_PATH_RMA,
    cma = BATON_PATH_CMA,
    staged = BATON_PATH_STAGED
};

/** "offer", "want", "given up", "verdict", "engines"; "unknown" for any other. */
inline const char *name(event_type type) noexcept
{
    return ::baton_event_name(static_cast<baton_event_type_t>(type));
}

/** "done", "failed", "expired", "cancelled"; "unknown" for any other. */
inline const char *name(status s) noexcept
{
    return ::baton_status_name(static_cast<baton_status_t>(s));
}

namespace detail
{
/* The count of one path or reason. Of one that this header has no room for, there are none. */
template <std::size_t N> std::uint64_t at(const std::uint64_t (&counts)[N], int i) noexcept
{
    return i >= 0 && static_cast<std::size_t>(i) < N ? counts[i] : 0;
}
} // namespace detail

/**
 * One event, a value of 1 KiB or less. It means something once poll() has filled it: an array of events for that need
 * not be initialised. See THE PROMISE in baton.h for what an engine does at each.
 */
class event
{
  public:
    event() noexcept = default;

    event_type type() const noexcept
    {
        return static_cast<event_type>(c_.type);
    }
    /** Whether the call has ended, so that its blocks are the caller's again. */
    bool is_terminal() const noexcept
    {
        return c_.type == BATON_EVENT_OFFER || c_.type == BATON_EVENT_WANT;
    }
    baton::status status() const noexcept
    {
        return static_cast<baton::status>(c_.status);
    }
    bool is_done() const noexcept
    {
        return c_.status == BATON_STATUS_DONE;
    }
    /** Why it is not done. */
    errc reason() const noexcept
    {
        return static_cast<errc>(c_.error);
    }
    /** The same as a code, which is false when it is done. */
    std::error_code error() const noexcept
    {
        return make_error_code(reason());
    }
    call_id id() const noexcept
    {
        return static_cast<call_id>(c_.id);
    }
    std::string_view key() const noexcept
    {
        return detail::view(c_.key);
    }
    std::uint32_t attempt() const noexcept
    {
        return c_.attempt;
    }
    void *user() const noexcept
    {
        return c_.user;
    }
    /** The same for who gave the call a pointer to a T, or null. */
    template <class T> T *user_as() const noexcept
    {
        return static_cast<T *>(c_.user);
    }
    /** Of a want: mode::pull or mode::push. */
    baton::mode mode() const noexcept
    {
        return static_cast<baton::mode>(c_.mode);
    }
    /** Of a terminal event: whether an event_type::given_up of this call came before. */
    bool was_given_up() const noexcept
    {
        return c_.given_up != 0;
    }
    /** The number of the member that it failed with or at (engine_rank::number), if there is one. */
    std::optional<std::uint64_t> peer() const noexcept
    {
        return c_.peer != 0 ? std::optional(c_.peer) : std::nullopt;
    }
    /** That member's engine, its life, and the member's index there: pp_rank * tp + tp_rank. */
    std::string_view peer_engine() const noexcept
    {
        return baton::detail::view(c_.peer_engine);
    }
    std::uint64_t peer_life() const noexcept
    {
        return c_.peer_life;
    }
    std::uint32_t peer_rank() const noexcept
    {
        return c_.peer_rank;
    }
    std::uint32_t num_blocks() const noexcept
    {
        return c_.num_blocks;
    }
    /** Of a want: bytes moved, all of them or by one path. */
    std::uint64_t bytes() const noexcept
    {
        return c_.bytes;
    }
    std::uint64_t bytes(path p) const noexcept
    {
        return detail::at(c_.path_bytes, static_cast<int>(p));
    }
    /** Of event_type::engines: as of context::engines. */
    std::uint64_t version() const noexcept
    {
        return c_.version;
    }
    /** From the call to the match. */
    std::chrono::nanoseconds wait() const noexcept
    {
        return std::chrono::nanoseconds(c_.wait_ns);
    }
    /** From the call to this event. */
    std::chrono::nanoseconds total() const noexcept
    {
        return std::chrono::nanoseconds(c_.total_ns);
    }
    /** Of all but a verdict: whether the call's verdict is still to come. */
    verdict_place verdict() const noexcept
    {
        return static_cast<verdict_place>(c_.verdict);
    }
    /** What a given_up or a verdict is about: event_type::offer or event_type::want. */
    event_type of() const noexcept
    {
        return static_cast<event_type>(c_.of);
    }
    /** What differs or who was silent, in words; empty when done. */
    std::string_view detail() const noexcept
    {
        return baton::detail::view(c_.detail);
    }
    /** What the offer carried. */
    span<const std::byte> attach() const noexcept
    {
        std::size_t n = c_.num_attach <= sizeof c_.attach ? c_.num_attach : sizeof c_.attach;
        return {reinterpret_cast<const std::byte *>(c_.attach), n};
    }
    const baton_event_t &c() const noexcept
    {
        return c_;
    }

  private:
    baton_event_t c_;
};
static_assert(std::is_trivially_copyable_v<event> && std::is_standard_layout_v<event> &&
                  sizeof(event) == sizeof(baton_event_t),
              "an array of events is one of baton_event_t");

/* ---- what is going on ------------------------------------------------------------------------------------------- */

enum class distance : int {
    self = BATON_DISTANCE_SELF,
    numa = BATON_DISTANCE_NUMA,
    package = BATON_DISTANCE_PACKAGE,
    node = BATON_DISTANCE_NODE,
    world = BATON_DISTANCE_WORLD
};

/** One engine: baton_engine_t. */
class engine
{
  public:
    explicit engine(const baton_engine_t &c) noexcept : c_(c)
    {
    }
    std::string name() const
    {
        return std::string(detail::view(c_.name));
    }
    baton::role role() const noexcept
    {
        return static_cast<baton::role>(c_.role);
    }
    std::uint32_t tp() const noexcept
    {
        return c_.tp;
    }
    std::uint32_t pp() const noexcept
    {
        return c_.pp;
    }
    /** tp() * pp() */
    std::uint32_t num_ranks() const noexcept
    {
        return c_.num_ranks;
    }
    /** From this rank to the nearest of the engine's, whose index there is nearest(). */
    baton::distance distance() const noexcept
    {
        return static_cast<baton::distance>(c_.distance);
    }
    /** Of this start of it: want_params::life. */
    std::uint64_t life() const noexcept
    {
        return c_.life;
    }
    std::uint32_t nearest() const noexcept
    {
        return c_.nearest;
    }
    const baton_engine_t &c() const noexcept
    {
        return c_;
    }

  private:
    baton_engine_t c_;
};

/** One rank of an engine: baton_engine_rank_t. */
class engine_rank
{
  public:
    explicit engine_rank(const baton_engine_rank_t &c) noexcept : c_(c)
    {
    }
    /** Of this very member. */
    std::uint64_t number() const noexcept
    {
        return c_.number;
    }
    std::uint32_t pp_rank() const noexcept
    {
        return c_.pp_rank;
    }
    std::uint32_t tp_rank() const noexcept
    {
        return c_.tp_rank;
    }
    /** From this rank. */
    baton::distance distance() const noexcept
    {
        return static_cast<baton::distance>(c_.distance);
    }
    /** In the communicator that was given to the context, if it came by that. */
    std::optional<std::uint32_t> world_rank() const noexcept
    {
        return c_.world_rank >= 0 ? std::optional(static_cast<std::uint32_t>(c_.world_rank)) : std::nullopt;
    }
    /** The name of its host; "": not known. */
    std::string host() const
    {
        return std::string(detail::view(c_.host));
    }
    const baton_engine_rank_t &c() const noexcept
    {
        return c_;
    }

  private:
    baton_engine_rank_t c_;
};

/** One engine whose handshake is not complete: baton_pending_t. */
class pending
{
  public:
    explicit pending(const baton_pending_t &c) noexcept : c_(c)
    {
    }
    std::string engine() const
    {
        return std::string(detail::view(c_.engine));
    }
    std::uint32_t ranks_needed() const noexcept
    {
        return c_.ranks_needed;
    }
    std::uint32_t ranks_known() const noexcept
    {
        return c_.ranks_known;
    }
    std::uint32_t attempts() const noexcept
    {
        return c_.attempts;
    }
    std::uint32_t wants() const noexcept
    {
        return c_.wants;
    }
    std::chrono::nanoseconds waiting() const noexcept
    {
        return std::chrono::nanoseconds(c_.waiting_ns);
    }
    const baton_pending_t &c() const noexcept
    {
        return c_;
    }

  private:
    baton_pending_t c_;
};

/**
 * The counts of this rank: all members of baton_stats_t, and what its arrays count by name. What baton_stats fills
 * beside the counts, context::pending and context::peer_stats return.
 */
struct stats : baton_stats_t {
    /** Received by wants that were done. */
    std::uint64_t bytes_by(path p) const noexcept
    {
        return detail::at(bytes, static_cast<int>(p));
    }
    /** Ranks of the world that use that path. */
    std::uint32_t peers_by(path p) const noexcept
    {
        int i = static_cast<int>(p);
        return i >= 0 && i < BATON_PATHS ? peers[i] : 0;
    }
    /** Calls that ended for that reason. */
    std::uint64_t ended(errc reason) const noexcept
    {
        return detail::at(reasons, -static_cast<int>(reason));
    }
};

/** What this rank knows of one other: baton_peer_stats_t. */
class peer_stats
{
  public:
    explicit peer_stats(const baton_peer_stats_t &c) noexcept : c_(c)
    {
    }
    baton::path path() const noexcept
    {
        return static_cast<baton::path>(c_.path);
    }
    std::string engine() const
    {
        return std::string(detail::view(c_.engine));
    }
    /** Calls that ended with it as the event's peer: all of them, or those that ended for one reason. */
    std::uint64_t failures() const noexcept
    {
        return c_.failures;
    }
    std::uint64_t failures(errc reason) const noexcept
    {
        return detail::at(c_.reasons, -static_cast<int>(reason));
    }
    const baton_peer_stats_t &c() const noexcept
    {
        return c_;
    }

  private:
    baton_peer_stats_t c_;
};

/* ---- the context ------------------------------------------------------------------------------------------------ */

/**
 * One rank's part of one Baton world. open() makes it. One that was moved from, closed or released is empty: its
 * functions fail with errc::einval. Threads: as baton.h says of each function. No thread may move or close a context
 * while another one uses it.
 */
class context
{
  public:
    context() noexcept = default;
    /** Takes over what a function of baton.h opened. */
    explicit context(baton_t *b) noexcept : b_(b)
    {
    }
    context(context &&other) noexcept : b_(other.release())
    {
    }
    /** Closes what it held before, as the destructor does. */
    context &operator=(context &&other) noexcept
    {
        context old(std::exchange(b_, other.release()));
        return *this;
    }

    /**
     * Closes the context if close() was not called. Like close(), it waits for the other ranks, no longer than
     * baton_close says. It never throws: an error is one line on standard error. While an exception unwinds the stack,
     * another line says before the wait that there is one. Errors of collective calls are the same on all ranks, so all
     * ranks unwind and close together. A program that may outlive other ranks calls close() itself, since it must not
     * go on as usual after errc::epeer: see there. In a forked child it returns at once and writes nothing.
     */
    ~context()
    {
        if (b_ == nullptr)
            return;
        if (std::uncaught_exceptions() > 0 && ::baton_event_fd(b_) >= 0) // a forked child is refused
            std::fputs("baton: an exception closes the context: waiting for the other ranks, BATON_CLOSE_MS at most\n",
                       stderr);
        int rc = ::baton_close(b_);
        if (rc != 0)
            std::fprintf(stderr, "baton: the context was closed by its destructor: %s: %s\n", ::baton_strerror(rc),
                         ::baton_errmsg());
    }

    explicit operator bool() const noexcept
    {
        return b_ != nullptr;
    }
    /** For functions of baton.h. */
    baton_t *c() const noexcept
    {
        return b_;
    }
    /** Gives the context up to the caller, who closes it by baton_close. */
    [[nodiscard]] baton_t *release() noexcept
    {
        return std::exchange(b_, nullptr);
    }

    /** baton_cache_create. */
    cache cache_create(const geometry &g, memory m = memory::host)
    {
        cache out;
        detail::check(cache_create_c(g, m, out));
        return out;
    }
    cache cache_create(const geometry &g, memory m, std::error_code &ec)
    {
        cache out;
        detail::check(cache_create_c(g, m, out), ec);
        return out;
    }

    /**
     * baton_cache_wrap: the caller owns the memory of the regions, and keeps it until the context is closed.
     * (What is declared before the context is destroyed after it.) After errc::epeer the memory must stay until the
     * process ends: leave by exit(), which runs no destructors. This is called before start(), or after it if
     * open_params::cache_later was set: then cache_ready() says when the verbs may be called.
     *
     *   std::vector<baton::region> regions = {{keys}, {values, baton::memory::shared}}; // containers of std::byte
     *   b.cache_wrap(geometry, regions);
     *
     * Of other elements: {reinterpret_cast<std::byte *>(keys.data()), keys.size() * sizeof keys[0]}.
     */
    cache cache_wrap(const geometry &g, span<const region> regions)
    {
        cache out;
        detail::check(cache_wrap_c(g, regions, out));
        return out;
    }
    cache cache_wrap(const geometry &g, span<const region> regions, std::error_code &ec)
    {
        cache out;
        detail::check(cache_wrap_c(g, regions, out), ec);
        return out;
    }

    /**
     * baton_driver_set: what copies to and from memory::device, before the cache_wrap that needs it. As for wrapped
     * memory, it must outlive the context.
     */
    void driver_set(driver &d)
    {
        detail::check(driver_set_c(d));
    }
    void driver_set(driver &d, std::error_code &ec) noexcept
    {
        detail::check(driver_set_c(d), ec);
    }

    /**
     * baton_cache_ready: whether the caches of all ranks are declared. False: not yet, ask again; BATON_EAGAIN is no
     * error here. Any other error is final.
     */
    bool cache_ready()
    {
        int rc = ::baton_cache_ready(b_);
        detail::check(rc == BATON_EAGAIN ? 0 : rc);
        return rc == 0;
    }
    bool cache_ready(std::error_code &ec) noexcept
    {
        int rc = ::baton_cache_ready(b_);
        detail::check(rc == BATON_EAGAIN ? 0 : rc, ec);
        return rc == 0;
    }

    /** baton_start. Collective. After an error the context can only be closed. */
    void start()
    {
        detail::check(::baton_start(b_));
    }
    void start(std::error_code &ec) noexcept
    {
        detail::check(::baton_start(b_), ec);
    }

    /**
     * baton_close. Collective. The context is empty after it, whatever the result. With errc::epeer a rank is lost:
     * MPI_Finalize would hang, and others may still reach memory that was wrapped. Leave the process by exit().
     */
    void close()
    {
        detail::check(::baton_close(release()));
    }
    void close(std::error_code &ec) noexcept
    {
        detail::check(::baton_close(release()), ec);
    }

    /** baton_offer. */
    call_id offer(const offer_params &params)
    {
        call_id out = call_id::none;
        detail::check(offer_c(params, out));
        return out;
    }
    call_id offer(const offer_params &params, std::error_code &ec) noexcept
    {
        call_id out = call_id::none;
        detail::check(offer_c(params, out), ec);
        return out;
    }

    /** baton_append. */
    void append(call_id offer, const append_params &params)
    {
        detail::check(append_c(offer, params));
    }
    void append(call_id offer, const append_params &params, std::error_code &ec) noexcept
    {
        detail::check(append_c(offer, params), ec);
    }

    /** baton_ready. num_tokens names the chunk of an offer in chunks; 0 where there are none. */
    void ready(call_id offer, std::uint32_t layer_first, std::uint32_t layer_count, std::uint32_t num_tokens = 0)
    {
        detail::check(ready_c(offer, layer_first, layer_count, num_tokens));
    }
    void ready(call_id offer, std::uint32_t layer_first, std::uint32_t layer_count, std::uint32_t num_tokens,
               std::error_code &ec) noexcept
    {
        detail::check(ready_c(offer, layer_first, layer_count, num_tokens), ec);
    }

    /** baton_want. */
    call_id want(const want_params &params)
    {
        call_id id = call_id::none;
        detail::check(want_c(params, id));
        return id;
    }
    call_id want(const want_params &params, std::error_code &ec) noexcept
    {
        call_id id = call_id::none;
        detail::check(want_c(params, id), ec);
        return id;
    }

    /** baton_cancel. */
    void cancel(call_id id)
    {
        detail::check(::baton_cancel(b_, static_cast<baton_id_t>(id)));
    }
    void cancel(call_id id, std::error_code &ec) noexcept
    {
        detail::check(::baton_cancel(b_, static_cast<baton_id_t>(id)), ec);
    }

    /**
     * baton_poll into a buffer of the caller's: returns the part of it that was filled.
     *
     *   for (const baton::event &e : b.poll(buffer))
     */
    [[nodiscard]] span<event> poll(span<event> buffer)
    {
        return buffer.first(static_cast<std::size_t>(detail::check(poll_c(buffer))));
    }
    [[nodiscard]] span<event> poll(span<event> buffer, std::error_code &ec) noexcept
    {
        return buffer.first(static_cast<std::size_t>(detail::check(poll_c(buffer), ec)));
    }
    /** The same for one event: false if none waits. */
    [[nodiscard]] bool poll(event &one)
    {
        return !poll(span<event>(&one, 1)).empty();
    }
    [[nodiscard]] bool poll(event &one, std::error_code &ec) noexcept
    {
        return !poll(span<event>(&one, 1), ec).empty();
    }

    /** baton_event_fd. */
    int event_fd() const
    {
        return detail::check(::baton_event_fd(b_));
    }
    /** -1 after an error. */
    int event_fd(std::error_code &ec) const noexcept
    {
        int fd = detail::check(::baton_event_fd(b_), ec);
        return ec ? -1 : fd;
    }

    /** baton_progress: one turn with progress::caller. Returns the number of events that wait. */
    int progress()
    {
        return detail::check(::baton_progress(b_));
    }
    int progress(std::error_code &ec) noexcept
    {
        return detail::check(::baton_progress(b_), ec);
    }

    /** baton_engines: all engines that are there, by name. `version` grows with each change of them. */
    std::vector<engine> engines(std::uint64_t &version) const
    {
        std::vector<engine> out;
        detail::check(engines_c(version, out));
        return out;
    }
    std::vector<engine> engines(std::uint64_t &version, std::error_code &ec) const
    {
        std::vector<engine> out;
        detail::check(engines_c(version, out), ec);
        return out;
    }
    std::vector<engine> engines() const
    {
        std::uint64_t version = 0;
        return engines(version);
    }
    std::vector<engine> engines(std::error_code &ec) const
    {
        std::uint64_t version = 0;
        return engines(version, ec);
    }

    /** baton_engine_ranks: the ranks of an engine, in the order of pp_rank * tp + tp_rank. */
    std::vector<engine_rank> engine_ranks(const std::string &engine) const
    {
        std::vector<engine_rank> out;
        detail::check(engine_ranks_c(engine, out));
        return out;
    }
    std::vector<engine_rank> engine_ranks(const std::string &engine, std::error_code &ec) const
    {
        std::vector<engine_rank> out;
        detail::check(engine_ranks_c(engine, out), ec);
        return out;
    }

    /** baton_stats: the engines whose handshakes are not complete. */
    std::vector<baton::pending> pending() const
    {
        std::vector<baton::pending> out;
        detail::check(pending_c(out));
        return out;
    }
    std::vector<baton::pending> pending(std::error_code &ec) const
    {
        std::vector<baton::pending> out;
        detail::check(pending_c(out), ec);
        return out;
    }

    /** baton_stats: the counts of this rank. */
    baton::stats stats() const
    {
        baton::stats out{};
        detail::check(stats_c(out));
        return out;
    }
    baton::stats stats(std::error_code &ec) const noexcept
    {
        baton::stats out{};
        detail::check(stats_c(out), ec);
        return out;
    }

    /** baton_stats: what this rank knows of one rank of the world. */
    baton::peer_stats peer_stats(std::uint32_t rank) const
    {
        baton_peer_stats_t c{};
        detail::check(peer_stats_c(rank, c));
        return baton::peer_stats(c);
    }
    baton::peer_stats peer_stats(std::uint32_t rank, std::error_code &ec) const noexcept
    {
        baton_peer_stats_t c{};
        detail::check(peer_stats_c(rank, c), ec);
        return baton::peer_stats(c);
    }

    /** baton_describe. */
    std::string describe() const
    {
        std::string out;
        detail::check(describe_c(out));
        return out;
    }
    std::string describe(std::error_code &ec) const
    {
        std::string out;
        detail::check(describe_c(out), ec);
        return out;
    }

  private:
    static const char *or_null(const detail::key_text &copy, std::string_view given) noexcept
    {
        return given.empty() ? nullptr : copy.c();
    }

    static constexpr std::uint32_t flag(bool is_set, std::uint32_t bit) noexcept
    {
        return is_set ? bit : 0;
    }

    template <class T, class C> static void take(std::vector<T> &out, const std::vector<C> &c, int n)
    {
        out.reserve(static_cast<std::size_t>(n));
        for (int i = 0; i < n; i++)
            out.emplace_back(c[static_cast<std::size_t>(i)]);
    }

    int cache_create_c(const geometry &g, memory m, cache &out)
    {
        detail::c_geometry c = g.c();
        baton_cache_t *made = nullptr;
        int rc = ::baton_cache_create(b_, c.get(), static_cast<baton_memory_t>(m), &made);
        if (rc == 0)
            out = cache(made, g.bytes);
        return rc;
    }

    int cache_wrap_c(const geometry &g, span<const region> regions, cache &out)
    {
        detail::c_geometry c = g.c();
        std::vector<baton_region_t> each;
        for (const region &r : regions) {
            baton_region_t one = BATON_INIT(baton_region_t);
            one.base = r.bytes.data();
            one.bytes = r.bytes.size();
            one.kind = static_cast<baton_memory_t>(r.kind);
            one.device = r.device;
            each.push_back(one);
        }
        baton_cache_t *made = nullptr;
        int rc = ::baton_cache_wrap(b_, c.get(), each.data(), detail::count(each.size()), &made);
        if (rc == 0)
            out = cache(made, 0);
        return rc;
    }

    int driver_set_c(driver &d) noexcept
    {
        baton_driver_t c = BATON_INIT(baton_driver_t);
        c.name = d.name();
        c.self = &d;
        c.copy = [](void *self, const baton_piece_t *pieces, std::uint32_t num, int to_device,
                    std::uint64_t tag) noexcept {
            return static_cast<int>(static_cast<driver *>(self)->copy({pieces, num}, to_device != 0, tag));
        };
        c.poll = [](void *self, std::uint64_t *tags, int *errors, int max) noexcept {
            int n = 0;
            errc error = errc::ok;
            while (n < max && static_cast<driver *>(self)->poll(tags[n], error)) {
                errors[n++] = static_cast<int>(error);
                error = errc::ok;
            }
            return n;
        };
        return ::baton_driver_set(b_, &c);
    }

    int offer_c(const offer_params &p, call_id &out) noexcept
    {
        baton_offer_params_t c = BATON_INIT(baton_offer_params_t);
        detail::key_text key(p.key), base_key(p.base_key);
        detail::engine_text names[BATON_CONSUMERS_MAX];
        const char *consumers[BATON_CONSUMERS_MAX];
        for (std::size_t i = 0; i < p.consumers.size() && i < BATON_CONSUMERS_MAX; i++)
            consumers[i] = (names[i] = p.consumers[i]).c();
        c.key = key.c();
        c.num_tables = p.tables.fill(c.tables);
        c.num_tokens = p.num_tokens;
        c.ttl_ms = detail::count_ms(p.ttl);
        c.num_consumers = p.consumers.empty() ? p.num_consumers : detail::count(p.consumers.size());
        c.consumers = p.consumers.empty() ? nullptr : consumers;
        c.attach = p.attach.data();
        c.num_attach = detail::count(p.attach.size());
        c.flags = flag(p.in_layers, BATON_OFFER_LAYERS) | flag(p.in_chunks, BATON_OFFER_CHUNKS);
        c.user = p.user;
        c.base_key = or_null(base_key, p.base_key);
        c.attempt = p.attempt;
        baton_id_t id;
        int rc = ::baton_offer(b_, &c, &id);
        if (rc == 0)
            out = static_cast<call_id>(id);
        return rc;
    }

    int append_c(call_id offer, const append_params &p) noexcept
    {
        baton_append_params_t c = BATON_INIT(baton_append_params_t);
        c.num_tokens = p.num_tokens;
        c.num_tables = p.tables.fill(c.tables);
        return ::baton_append(b_, static_cast<baton_id_t>(offer), &c);
    }

    int ready_c(call_id offer, std::uint32_t layer_first, std::uint32_t layer_count, std::uint32_t num_tokens) noexcept
    {
        return ::baton_ready(b_, static_cast<baton_id_t>(offer), layer_first, layer_count, num_tokens);
    }

    int want_c(const want_params &p, call_id &out) noexcept
    {
        baton_want_params_t c = BATON_INIT(baton_want_params_t);
        detail::key_text key(p.key), base_key(p.base_key);
        detail::engine_text engine(p.engine);
        c.key = key.c();
        c.engine = engine.c();
        c.num_tables = p.tables.fill(c.tables);
        c.num_tokens = p.num_tokens;
        c.held_tokens = p.held_tokens;
        c.timeout_ms = detail::count_ms(p.timeout);
        c.mode = static_cast<baton_mode_t>(p.mode);
        c.flags = flag(p.zero_tail, BATON_WANT_ZERO_TAIL) | flag(p.await_engine, BATON_WANT_AWAIT_ENGINE);
        c.user = p.user;
        c.base_key = or_null(base_key, p.base_key);
        c.attempt = p.attempt;
        c.life = p.life;
        baton_id_t id;
        int rc = ::baton_want(b_, &c, &id);
        if (rc == 0)
            out = static_cast<call_id>(id);
        return rc;
    }

    int poll_c(span<event> buffer) noexcept
    {
        int max = buffer.size() < INT_MAX ? static_cast<int>(buffer.size()) : INT_MAX;
        return ::baton_poll(b_, reinterpret_cast<baton_event_t *>(buffer.data()), max);
    }

    // Again where more have come between the two calls.
    int engines_c(std::uint64_t &version, std::vector<engine> &out) const
    {
        std::vector<baton_engine_t> c;
        int n = ::baton_engines(b_, &version, nullptr, 0);
        while (n > static_cast<int>(c.size())) {
            c.resize(static_cast<std::size_t>(n));
            n = ::baton_engines(b_, &version, c.data(), n);
        }
        if (n > 0)
            take(out, c, n);
        return n;
    }

    int engine_ranks_c(const std::string &name, std::vector<engine_rank> &out) const
    {
        std::vector<baton_engine_rank_t> c;
        int n = ::baton_engine_ranks(b_, name.c_str(), nullptr, 0);
        while (n > static_cast<int>(c.size())) {
            c.resize(static_cast<std::size_t>(n));
            n = ::baton_engine_ranks(b_, name.c_str(), c.data(), n);
        }
        if (n > 0)
            take(out, c, n);
        return n;
    }

    int pending_c(std::vector<baton::pending> &out) const
    {
        std::vector<baton_pending_t> c(64); // Baton knows of no more
        baton_stats_t asked = BATON_INIT(baton_stats_t);
        asked.pending = c.data();
        asked.max_pending = static_cast<std::uint32_t>(c.size());
        int rc = ::baton_stats(b_, &asked);
        if (rc == 0)
            take(out, c, static_cast<int>(asked.num_pending));
        return rc;
    }

    int stats_c(baton_stats_t &out) const noexcept
    {
        out.size = sizeof(baton_stats_t);
        return ::baton_stats(b_, &out);
    }

    int peer_stats_c(std::uint32_t rank, baton_peer_stats_t &out) const noexcept
    {
        baton_stats_t asked = BATON_INIT(baton_stats_t);
        asked.peer_stats = &out;
        asked.first_peer = rank;
        asked.num_peers = 1;
        return ::baton_stats(b_, &asked);
    }

    int describe_c(std::string &out) const
    {
        for (;;) { // again where the text has grown in between
            int n = ::baton_describe(b_, out.empty() ? nullptr : &out[0], out.size());
            if (n < 0 || static_cast<std::size_t>(n) < out.size()) {
                out.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
                return n;
            }
            out.resize(static_cast<std::size_t>(n) + 1); // with room for the NUL
        }
    }

    baton_t *b_ = nullptr;
};

namespace detail
{
template <class Comm>
int open(int (*how)(Comm, const baton_open_params_t *, baton_t **), Comm comm, const open_params &me,
         context &out) noexcept
{
    baton_t *b = nullptr;
    baton_open_params_t c = me.c();
    int rc = how(comm, &c, &b);
    if (rc == 0)
        out = context(b);
    return rc;
}
} // namespace detail

/**
 * Opens a context for all ranks of MPI_COMM_WORLD. If MPI is not initialised yet, this initialises it, and close()
 * finalises it. Collective: see baton_open.
 */
[[nodiscard]] inline context open(const open_params &me)
{
    context out;
    detail::check(detail::open(::baton_open_f, BATON_COMM_NULL_F, me, out));
    return out;
}
[[nodiscard]] inline context open(const open_params &me, std::error_code &ec) noexcept
{
    context out;
    detail::check(detail::open(::baton_open_f, BATON_COMM_NULL_F, me, out), ec);
    return out;
}

#ifndef BATON_NO_MPI
/** The same for the ranks of a communicator: baton_open. */
[[nodiscard]] inline context open(MPI_Comm comm, const open_params &me)
{
    context out;
    detail::check(detail::open(::baton_open, comm, me, out));
    return out;
}
[[nodiscard]] inline context open(MPI_Comm comm, const open_params &me, std::error_code &ec) noexcept
{
    context out;
    detail::check(detail::open(::baton_open, comm, me, out), ec);
    return out;
}
#endif

/** The same for a communicator's Fortran handle, without <mpi.h>: baton_open_f. */
[[nodiscard]] inline context open_f(int comm, const open_params &me)
{
    context out;
    detail::check(detail::open(::baton_open_f, comm, me, out));
    return out;
}
[[nodiscard]] inline context open_f(int comm, const open_params &me, std::error_code &ec) noexcept
{
    context out;
    detail::check(detail::open(::baton_open_f, comm, me, out), ec);
    return out;
}

/** baton_exit: leaves the process at once, without MPI_Finalize and without destructors. */
[[noreturn]] inline void exit(int process_status) noexcept
{
    ::baton_exit(process_status);
}

} // namespace baton

template <> struct std::is_error_code_enum<baton::errc> : std::true_type {
};

#if __cplusplus >= 202002L
template <class T> inline constexpr bool std::ranges::enable_borrowed_range<baton::span<T>> = true;
template <class T> inline constexpr bool std::ranges::enable_view<baton::span<T>> = true;
#endif

#undef BATON_SHOWN
#endif /* BATON_HPP */
