/* SPDX-License-Identifier: BSD-3-Clause */
/* fake: see fake.hpp. */
#include "fake.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" int error_set(int error, const char *format, ...); /* base/error.h */

fake::made fake::state;
long fake::allocations;

void *operator new(std::size_t size)
{
    fake::allocations++;
    void *p = std::malloc(size);
    if (p == nullptr)
        std::abort();
    return p;
}

void operator delete(void *p) noexcept
{
    std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
    std::free(p);
}

void fake::reset()
{
    state = made();
}

baton_event_t fake::event()
{
    baton_event_t e;
    std::memset(&e, 0, sizeof e);
    e.size = sizeof e;
    return e;
}

namespace
{
int answer(const baton_t *b)
{
    fake::state.context = b;
    if (b == nullptr)
        return error_set(BATON_EINVAL, "the context must not be NULL");
    return fake::state.answer < 0 ? error_set(fake::state.answer, "a sentence about %d", fake::state.answer)
                                  : fake::state.answer;
}

void keep_tables(const baton_table_t *tables, uint32_t num)
{
    fake::call &c = fake::state.last;
    for (uint32_t i = 0; i < num && i < BATON_GROUPS_MAX; i++) {
        c.blocks.emplace_back(tables[i].blocks, tables[i].blocks + tables[i].num_blocks);
        c.first_tokens.push_back(tables[i].first_token);
    }
}

void keep_names(const char *key, const char *base_key)
{
    fake::call &c = fake::state.last;
    c.key = key;
    c.has_base_key = base_key != nullptr;
    c.base_key = base_key != nullptr ? base_key : "";
}

void keep_geometry(const baton_geometry_t *g, baton_memory_t memory)
{
    fake::state.geometry = *g;
    fake::state.tensors.assign(g->tensors, g->tensors + g->num_tensors);
    fake::state.memory = memory;
}

/* Copies whole structs into an array of the caller's. */
template <class T> int fill(void *out, int max, size_t size, int n, void (*make)(T &, int))
{
    if (size != sizeof(T))
        std::abort();
    for (int i = 0; i < n && i < max; i++) {
        T one;
        std::memset(&one, 0, sizeof one);
        one.size = sizeof one;
        make(one, i);
        std::memcpy(static_cast<char *>(out) + static_cast<size_t>(i) * size, &one, size);
    }
    return n;
}
} // namespace

extern "C" {
int baton_role_from_env(baton_open_params_t *params)
{
    if (fake::state.answer < 0)
        return error_set(fake::state.answer, "BATON_ROLE is not set");
    std::strcpy(params->engine, "from-env");
    params->role = BATON_ROLE_DECODE;
    params->tp = 2;
    params->pp = 3;
    params->tp_rank = 1;
    params->pp_rank = 2;
    return 0;
}

int baton_open_f(int comm, const baton_open_params_t *params, baton_t **out)
{
    if (fake::state.answer < 0)
        return error_set(fake::state.answer, "no world");
    fake::state.comm = comm;
    fake::state.open = *params;
    fake::state.opened++;
    *out = reinterpret_cast<baton_t *>(&fake::state.memory_of_cache[fake::state.opened]);
    return 0;
}

int baton_start(baton_t *b)
{
    fake::state.started++;
    return answer(b);
}

int baton_close(baton_t *b)
{
    fake::state.context = b;
    if (b == nullptr)
        return error_set(BATON_EINVAL, "b must not be NULL");
    fake::state.closed++;
    return fake::state.close < 0 ? error_set(fake::state.close, "rank 1 is lost") : 0;
}

void baton_exit(int status)
{
    std::_Exit(status);
}

void baton_log_set(baton_log_fn callback, void *user)
{
    fake::state.log = callback;
    fake::state.log_user = user;
}

int baton_cache_create(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory, baton_cache_t **out)
{
    int rc = answer(b);
    if (rc < 0)
        return rc;
    keep_geometry(geometry, memory);
    *out = reinterpret_cast<baton_cache_t *>(fake::state.memory_of_cache);
    return 0;
}

int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, const baton_region_t *regions, uint32_t num_regions,
                     baton_cache_t **out)
{
    int rc = answer(b);
    if (rc < 0)
        return rc;
    keep_geometry(geometry, fake::state.memory);
    fake::state.regions.assign(regions, regions + num_regions);
    *out = reinterpret_cast<baton_cache_t *>(fake::state.memory_of_cache);
    return 0;
}

int baton_driver_set(baton_t *b, const baton_driver_t *driver)
{
    int rc = answer(b);
    if (rc == 0)
        fake::state.driver = *driver;
    return rc;
}

int baton_cache_ready(baton_t *b)
{
    return answer(b);
}

void *baton_cache_base(const baton_cache_t *cache)
{
    return cache != nullptr && fake::state.started > 0 ? fake::state.memory_of_cache : nullptr;
}

int baton_offer(baton_t *b, const baton_offer_params_t *params, baton_id_t *id)
{
    fake::call &c = fake::state.last;
    if (fake::state.keeps) {
        c = fake::call();
        keep_names(params->key, params->base_key);
        keep_tables(params->tables, params->num_tables);
        c.has_consumers = params->consumers != nullptr;
        for (uint32_t i = 0; c.has_consumers && i < params->num_consumers && i < BATON_CONSUMERS_MAX; i++)
            c.consumers.push_back(params->consumers[i]);
        c.attach.assign(static_cast<const char *>(params->attach), std::min(params->num_attach, 300u));
    }
    c.offer = *params;
    int rc = answer(b);
    if (rc < 0)
        return rc;
    *id = 41;
    return 0;
}

int baton_append(baton_t *b, baton_id_t offer, const baton_append_params_t *params)
{
    fake::call &c = fake::state.last;
    if (fake::state.keeps) {
        c = fake::call();
        keep_tables(params->tables, params->num_tables);
    }
    c.append = *params;
    c.id = offer;
    return answer(b);
}

int baton_ready(baton_t *b, baton_id_t offer, uint32_t layer_first, uint32_t layer_count, uint32_t num_tokens)
{
    fake::call &c = fake::state.last;
    c.id = offer;
    c.numbers[0] = layer_first;
    c.numbers[1] = layer_count;
    c.numbers[2] = num_tokens;
    return answer(b);
}

int baton_want(baton_t *b, const baton_want_params_t *params, baton_id_t *id)
{
    fake::call &c = fake::state.last;
    if (fake::state.keeps) {
        c = fake::call();
        keep_names(params->key, params->base_key);
        keep_tables(params->tables, params->num_tables);
        c.engine = params->engine;
    }
    c.want = *params;
    int rc = answer(b);
    if (rc < 0)
        return rc;
    *id = 42;
    return 0;
}

int baton_cancel(baton_t *b, baton_id_t id)
{
    fake::state.last.id = id;
    return answer(b);
}

int baton_poll_sized(baton_t *b, void *events, int max, size_t size)
{
    int rc = answer(b);
    if (rc < 0)
        return rc;
    auto &waiting = fake::state.events;
    int n = std::min(max, static_cast<int>(waiting.size()));
    if (size != sizeof(baton_event_t))
        std::abort();
    for (int i = 0; i < n; i++)
        static_cast<baton_event_t *>(events)[i] = waiting[static_cast<size_t>(i)];
    waiting.erase(waiting.begin(), waiting.begin() + n);
    return n;
}

int baton_event_fd(const baton_t *b)
{
    return answer(b);
}

int baton_progress(baton_t *b)
{
    return answer(b);
}

/* The second engine comes only after it was asked how many there are. */
int baton_engines_sized(const baton_t *b, uint64_t *version, void *out, int max, size_t size)
{
    int rc = answer(b);
    if (rc < 0)
        return rc;
    *version = 41 + static_cast<uint64_t>(max);
    if (max == 0)
        return 1;
    return fill<baton_engine_t>(out, max, size, 2, [](baton_engine_t &e, int i) {
        std::strcpy(e.name, i == 0 ? "prefill0" : "decode0");
        e.role = i == 0 ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
        e.tp = 2;
        e.pp = 3;
        e.num_ranks = 6;
        e.life = 70 + static_cast<std::uint64_t>(i);
        e.distance = BATON_DISTANCE_PACKAGE;
        e.nearest = 1;
    });
}

int baton_engine_ranks_sized(const baton_t *b, const char *engine, void *out, int max, size_t size)
{
    static const char *const hosts[] = {"a", "b", "c", "d", "", "f"};
    int rc = answer(b);
    if (rc < 0)
        return rc;
    fake::state.last.engine = engine;
    return fill<baton_engine_rank_t>(out, max, size, 6, [](baton_engine_rank_t &r, int i) {
        const auto at = static_cast<uint32_t>(i);
        r.number = UINT64_MAX - at;
        r.pp_rank = at / 2;
        r.tp_rank = at % 2;
        r.distance = i == 0 ? BATON_DISTANCE_NODE : i == 1 ? BATON_DISTANCE_PACKAGE : BATON_DISTANCE_WORLD;
        r.world_rank = i < 5 ? 5 + i : -1;
        std::strcpy(r.host, hosts[i]);
    });
}

int baton_stats(baton_t *b, baton_stats_t *s)
{
    fake::state.last.numbers[0] = s->first_peer;
    int rc = s->size == sizeof *s ? answer(b) : BATON_EINVAL;
    if (rc < 0)
        return rc;
    s->wants = 11;
    s->bytes[BATON_PATH_RMA] = 12;
    s->peers[BATON_PATH_SHM] = 13;
    s->reasons[-BATON_EGONE] = 14;
    s->num_pending = s->max_pending > 0 ? 1 : 0;
    if (s->num_pending > 0) {
        std::strcpy(s->pending->engine, "prefill0");
        s->pending->ranks_needed = 1;
        s->pending->ranks_known = 2;
        s->pending->attempts = 3;
        s->pending->wants = 4;
        s->pending->waiting_ns = 5;
    }
    if (s->num_peers > 0) {
        std::strcpy(s->peer_stats->engine, "decode0");
        s->peer_stats->path = BATON_PATH_RMA;
        s->peer_stats->failures = 21;
        s->peer_stats->reasons[-BATON_EPEER] = 22;
    }
    return 0;
}

int baton_describe(const baton_t *b, char *text, size_t size)
{
    int rc = answer(b);
    if (rc < 0)
        return rc;
    std::string all(static_cast<size_t>(fake::state.text_bytes), 'd');
    fake::state.text_bytes += 10 * (size == 0);
    if (size > 0)
        std::snprintf(text, size, "%s", all.c_str());
    return static_cast<int>(all.size());
}
}
