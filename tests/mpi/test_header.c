/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_header: what the header promises to a caller beside the verbs: structs of older and of newer headers are
 * understood, the world's engines are listed, attached bytes arrive, and a Fortran handle is a communicator. Each rank
 * is an engine of its own, which wants what it offers, where a case says nothing else.
 */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"
#include "with_tune.h"

#define BLOCK_TOKENS 16
#define BLOCKS 8

/* A struct as a newer header has it. */
#define NEWER(type)                                                                                                    \
    struct {                                                                                                           \
        type old;                                                                                                      \
        uint64_t more;                                                                                                 \
    }

struct fixture {
    baton_t *b;
    baton_cache_t *cache;
    baton_open_params_t me;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
};

static const uint32_t from[2] = {0, 1}, to[2] = {2, 3};

static void failed(const char *what)
{
    fprintf(stderr, "# rank %d: %s: %s\n", harness.rank, what, baton_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1); /* nothing later makes sense */
}

static void describe(struct fixture *f)
{
    f->me = (baton_open_params_t){
        .size = sizeof f->me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1, .progress = BATON_PROGRESS_CALLER};
    snprintf(f->me.engine, sizeof f->me.engine, "e%d", harness.rank);
    f->geometry = (baton_geometry_t){.size = sizeof f->geometry,
                                     .model = "m",
                                     .dtype = "u8",
                                     .elem_bytes = 1,
                                     .planes = 1,
                                     .head_size = 64,
                                     .num_groups = 1,
                                     .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                                     .num_splits = 1,
                                     .splits = {{.heads_total = 1, .head_count = 1}},
                                     .layers_total = 1,
                                     .layer_count = 1};
    CHECK_EQ(baton_geometry_layout(&f->geometry, &f->tensor, 0), 0);
}

static void start(struct fixture *f)
{
    if (baton_cache_create(f->b, &f->geometry, BATON_MEMORY_HOST, &f->cache) != 0 || baton_start(f->b) != 0)
        failed("start");
}

static void up(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    describe(f);
    if (baton_open(MPI_COMM_WORLD, &f->me, &f->b) != 0)
        failed("open");
    start(f);
}

static void down(struct fixture *f)
{
    CHECK_EQ(baton_close(f->b), 0);
}

/* Lends this thread until so many events wait; at most 20 s. */
static void await(struct fixture *f, int events)
{
    for (time_t end = time(NULL) + 20; baton_progress(f->b) < events;)
        if (time(NULL) > end)
            failed("await");
}

static baton_event_t next_event(struct fixture *f)
{
    baton_event_t e;
    await(f, 1);
    CHECK_EQ(baton_poll(f->b, &e, 1), 1);
    return e;
}

static baton_offer_params_t an_offer(const char *key)
{
    return (baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                  .key = key,
                                  .num_tables = 1,
                                  .tables = {{.blocks = from, .num_blocks = 2}},
                                  .num_tokens = 2 * BLOCK_TOKENS};
}

static baton_want_params_t a_want(const struct fixture *f, const char *key)
{
    return (baton_want_params_t){.size = sizeof(baton_want_params_t),
                                 .key = key,
                                 .engine = f->me.engine,
                                 .num_tables = 1,
                                 .tables = {{.blocks = to, .num_blocks = 2}},
                                 .num_tokens = 2 * BLOCK_TOKENS};
}

/* ---- what Baton reads -------------------------------------------------------------------------------------------- */

/* What an older header lacks is never read, whatever lies there. */
static void older_callers_are_served(void)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    describe(&f);
    f.me.size = offsetof(baton_open_params_t, verdicts);
    f.me.verdicts = (baton_verdicts_t)77;
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0))
        failed("open");
    f.geometry.size = offsetof(baton_geometry_t, bytes);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "reach past its region"); /* of 0 bytes */
    f.geometry.size = sizeof f.geometry;
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    if (!CHECK_EQ(baton_start(f.b), 0))
        failed("start");

    baton_offer_params_t o = an_offer("older");
    baton_id_t id;
    o.size = offsetof(baton_offer_params_t, attempt);
    o.attempt = 77;
    o.flags = BATON_OFFER_CHUNKS;
    CHECK_EQ(baton_offer(f.b, &o, &id), 0);
    baton_append_params_t a = {
        .size = offsetof(baton_append_params_t, num_tables), .num_tokens = 2 * BLOCK_TOKENS, .num_tables = 77};
    CHECK_EQ(baton_append(f.b, id, &a), 0);
    baton_want_params_t w = a_want(&f, "older");
    w.size = offsetof(baton_want_params_t, attempt);
    w.attempt = 78;
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    for (int i = 0; i < 2; i++) {
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        CHECK_EQ(e.attempt, 0);
    }
    down(&f);
}

/* `call` takes a struct of that size that has a field more, or none. */
#define CHECK_SIZES(params, type, call)                                                                                \
    do {                                                                                                               \
        (params).more = 1;                                                                                             \
        (params).old.size = sizeof(params);                                                                            \
        CHECK_EQ(call, BATON_EINVAL);                                                                                  \
        CHECK_HAS(baton_errmsg(), "is set, and baton " BATON_VERSION_STRING " knows");                                 \
        (params).old.size = 0;                                                                                         \
        CHECK_EQ(call, BATON_EINVAL);                                                                                  \
        CHECK_HAS(baton_errmsg(), "BATON_INIT(" #type ")");                                                            \
        (params).old.size = sizeof(params);                                                                            \
        (params).more = 0;                                                                                             \
        if (!CHECK_EQ(call, 0))                                                                                        \
            failed(#call);                                                                                             \
    } while (0)

/* What a newer header has is taken if it asks for nothing. */
static void newer_callers_are_served(void)
{
    struct fixture f;
    NEWER(baton_open_params_t) me;
    NEWER(baton_geometry_t) geometry;
    NEWER(baton_offer_params_t) o = {.old = an_offer("newer")};
    NEWER(baton_append_params_t) a = {.old = {.num_tokens = 2 * BLOCK_TOKENS}};
    NEWER(baton_want_params_t) w;
    baton_id_t id = 0;
    memset(&f, 0, sizeof f);
    describe(&f);
    me.old = f.me;
    geometry.old = f.geometry;
    w.old = a_want(&f, "newer");
    CHECK_SIZES(me, baton_open_params_t, baton_open(MPI_COMM_WORLD, &me.old, &f.b));
    CHECK_SIZES(geometry, baton_geometry_t, baton_cache_create(f.b, &geometry.old, BATON_MEMORY_HOST, &f.cache));
    CHECK_EQ(baton_start(f.b), 0);
    o.old.flags = BATON_OFFER_CHUNKS;
    CHECK_SIZES(o, baton_offer_params_t, baton_offer(f.b, &o.old, &id));
    CHECK_SIZES(a, baton_append_params_t, baton_append(f.b, id, &a.old));
    CHECK_SIZES(w, baton_want_params_t, baton_want(f.b, &w.old, NULL));
    CHECK_EQ(next_event(&f).status, BATON_STATUS_DONE);
    CHECK_EQ(next_event(&f).status, BATON_STATUS_DONE);
    down(&f);
}

static void a_role_is_read_for_any_caller(void)
{
    NEWER(baton_open_params_t) me;
    memset(&me, 0, sizeof me);
    setenv("BATON_ENGINE", "role", 1);
    setenv("BATON_ROLE", "both", 1);
    setenv("BATON_TP", "3", 1);
    setenv("BATON_TP_RANK", "2", 1);
    CHECK_SIZES(me, baton_open_params_t, baton_role_from_env(&me.old));
    CHECK_EQ(me.old.size, sizeof me);
    CHECK_EQ(me.old.tp, 3);
    me.old.tp = 0;
    me.old.pp = 77;
    me.old.size = offsetof(baton_open_params_t, pp);
    CHECK_EQ(baton_role_from_env(&me.old), 0);
    CHECK_EQ(me.old.tp, 3);
    CHECK_EQ(me.old.pp, 77);
    unsetenv("BATON_ENGINE");
    unsetenv("BATON_ROLE");
    unsetenv("BATON_TP");
    unsetenv("BATON_TP_RANK");
}

/* The tensor lies in the second region, which is found by the caller's size; `size` of them are at `regions`. */
static void wraps(const void *regions, size_t size, unsigned char *more)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    describe(&f);
    f.tensor.region = 1;
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0))
        failed("open");
    if (more != NULL) { /* what this build does not know of the second one */
        *more = 1;
        CHECK_EQ(baton_cache_wrap(f.b, &f.geometry, regions, 2, &f.cache), BATON_EINVAL);
        CHECK_HAS(baton_errmsg(), "of the baton_region_t is set, and baton " BATON_VERSION_STRING " knows");
        *more = 0;
    }
    if (!CHECK_EQ(baton_cache_wrap(f.b, &f.geometry, regions, 2, &f.cache), 0) || baton_start(f.b) != 0)
        failed("wrap");
    baton_region_t second = {0};
    memcpy(&second, (const char *)regions + size, size < sizeof second ? size : sizeof second);
    memset(second.base, 5, BLOCK_TOKENS * 64);
    const baton_offer_params_t o = an_offer("regions");
    const baton_want_params_t w = a_want(&f, "regions");
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    CHECK_EQ(next_event(&f).status, BATON_STATUS_DONE);
    CHECK_EQ(next_event(&f).status, BATON_STATUS_DONE);
    CHECK_EQ(((unsigned char *)second.base)[2 * BLOCK_TOKENS * 64], 5);
    down(&f);
}

/* Entries lie at the size that the first one says: of an older header's, a kind and a device are not read. */
static void regions_lie_at_the_callers_stride(void)
{
    enum { OLDER = offsetof(baton_region_t, kind) };
    static unsigned char memory[2][BLOCKS * BLOCK_TOKENS * 64];
    NEWER(baton_region_t) newer[2];
    _Alignas(baton_region_t) unsigned char older[2 * OLDER];
    memset(newer, 0, sizeof newer);
    for (int i = 0; i < 2; i++) {
        newer[i].old = (baton_region_t){.size = sizeof newer[0], .base = memory[i], .bytes = sizeof memory[i]};
        memcpy(older + i * OLDER, &newer[i].old, OLDER);
        memcpy(older + i * OLDER, &(size_t){OLDER}, sizeof(size_t));
    }
    wraps(newer, sizeof newer[0], (unsigned char *)&newer[1].more);
    wraps(older, OLDER, NULL);
}

/* ---- what Baton fills -------------------------------------------------------------------------------------------- */

static const size_t not_sizes[] = {0, 4, 1u << 20};
#define NUM_NOT_SIZES (int)(sizeof not_sizes / sizeof not_sizes[0])

/* An offer and a want end; both events wait. */
static void make_two_events(struct fixture *f, const char *key)
{
    baton_offer_params_t o = an_offer(key);
    baton_want_params_t w = a_want(f, key);
    CHECK_EQ(baton_offer(f->b, &o, NULL), 0);
    CHECK_EQ(baton_want(f->b, &w, NULL), 0);
    await(f, 2);
}

static void events_come_at_the_callers_stride(void)
{
    struct fixture f;
    NEWER(baton_event_t) newer[3];
    enum { OLDER = offsetof(baton_event_t, bytes) };
    unsigned char older[3 * OLDER];
    up(&f);
    make_two_events(&f, "stride");
    for (int i = 0; i < NUM_NOT_SIZES; i++)
        CHECK_EQ(baton_poll_sized(f.b, newer, 3, not_sizes[i]), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "baton_event_t");
    memset(newer, 0xff, sizeof newer);
    CHECK_EQ(baton_poll_sized(f.b, newer, 3, sizeof newer[0]), 2);
    CHECK(newer[0].old.type != newer[1].old.type);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(newer[i].old.size, sizeof(baton_event_t));
        CHECK_EQ(newer[i].old.status, BATON_STATUS_DONE);
        CHECK_EQ(strcmp(newer[i].old.key, "stride"), 0);
        CHECK_EQ(strcmp(newer[i].old.detail, ""), 0);
        CHECK_EQ(newer[i].more, 0);
    }
    CHECK_EQ(newer[2].more, UINT64_MAX);

    make_two_events(&f, "older");
    memset(older, 0xff, sizeof older);
    CHECK_EQ(baton_poll_sized(f.b, older, 3, OLDER), 2);
    for (int i = 0; i < 2; i++) {
        baton_event_t e = {0};
        memcpy(&e, older + i * OLDER, OLDER);
        CHECK_EQ(e.size, OLDER);
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        CHECK_EQ(strcmp(e.key, "older"), 0);
        CHECK_EQ(e.peer, 0);
        CHECK_EQ(e.peer_engine[0], 0);
    }
    CHECK_EQ(older[2 * OLDER], 0xff);
    down(&f);
}

static void statistics_are_filled_as_far_as_both_know_them(void)
{
    struct fixture f;
    NEWER(baton_stats_t) s = {.old.size = sizeof s};
    baton_peer_stats_t peer;
    up(&f);
    make_two_events(&f, "counted");
    next_event(&f), next_event(&f);
    s.old.peer_stats = &peer;
    s.old.num_peers = 1;
    CHECK_EQ(baton_stats(f.b, &s.old), 0);
    CHECK_EQ(s.old.size, sizeof s);
    CHECK_EQ(s.old.wants_done, 1);
    CHECK_EQ(strcmp(peer.engine, "e0"), 0);
    s.more = 1;
    s.old.wants_done = 7;
    CHECK_EQ(baton_stats(f.b, &s.old), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "baton_stats_t is set");
    CHECK_EQ(s.old.wants_done, 7);
    for (int i = 0; i < NUM_NOT_SIZES; i++) {
        s.old.size = not_sizes[i];
        CHECK_EQ(baton_stats(f.b, &s.old), BATON_EINVAL);
    }

    memset(&s, 0xff, sizeof s);
    s.old.size = offsetof(baton_stats_t, wants);
    CHECK_EQ(baton_stats(f.b, &s.old), 0);
    CHECK_EQ(s.old.size, offsetof(baton_stats_t, wants));
    CHECK_EQ(s.old.offers_done, 1);
    CHECK_EQ(s.old.wants, UINT64_MAX);
    down(&f);
}

/* Wants queue behind handshakes whose first cards are spoilt. */
static void pending_engines_are_listed(void)
{
    struct fixture f;
    baton_pending_t pending[2];
    baton_stats_t s = {.size = sizeof s, .pending = pending, .max_pending = 2};
    char engine[BATON_ENGINE_NAME_MAX];
    if (harness.size < 3)
        return SKIP("fewer than two other engines");
    setenv("BATON_FAULT", "corrupt@card#1,corrupt@card#2", 1);
    tune("handshake_ms", "300");
    up(&f);
    unsetenv("BATON_FAULT");
    tune("handshake_ms", NULL);
    for (int i = 1; i <= 2; i++) {
        baton_want_params_t w = a_want(&f, "pending");
        snprintf(engine, sizeof engine, "e%d", (harness.rank + i) % harness.size);
        w.engine = engine;
        w.timeout_ms = 1000;
        CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    }
    for (time_t end = time(NULL) + 10; s.num_pending < 2 && time(NULL) < end;) {
        baton_progress(f.b);
        CHECK_EQ(baton_stats(f.b, &s), 0);
    }
    CHECK_EQ(s.num_pending, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pending[i].wants, 1);
        CHECK_EQ(pending[i].engine[0], 'e');
    }
    CHECK(strcmp(pending[0].engine, pending[1].engine) != 0);
    s.max_pending = 1;
    pending[1].engine[0] = '!';
    CHECK_EQ(baton_stats(f.b, &s), 0);
    CHECK_EQ(s.num_pending, 1);
    CHECK_EQ(pending[1].engine[0], '!');
    s.max_pending = 0;
    CHECK_EQ(baton_stats(f.b, &s), 0);
    CHECK_EQ(s.num_pending, 0);
    next_event(&f), next_event(&f);
    down(&f);
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

/* Two engines, one of each half of the world; the ranks of the first stand in it in reverse. */
static void up_in_halves(struct fixture *f)
{
    uint32_t half = (uint32_t)harness.size / 2, rank = (uint32_t)harness.rank;
    memset(f, 0, sizeof *f);
    describe(f);
    f->me.tp = half;
    f->me.role = rank < half ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
    f->me.tp_rank = rank < half ? half - 1 - rank : rank - half;
    f->geometry.num_splits = 1;
    f->geometry.splits[0].heads_total = half;
    f->geometry.splits[0].head_first = f->me.tp_rank;
    strcpy(f->me.engine, rank < half ? "first" : "second");
    if (baton_open(MPI_COMM_WORLD, &f->me, &f->b) != 0)
        failed("open");
    start(f);
}

static bool is_far(int rank)
{
    const char *nodes = getenv("BATON_FAKE_NODES"); /* they have as many ranks each */
    int ranks = nodes != NULL ? harness.size / atoi(nodes) : harness.size;
    return rank / ranks != harness.rank / ranks;
}

typedef char host_name[64];

/* What each rank calls its host. */
static host_name *hosts_of_ranks(void)
{
    host_name mine = "", *all = calloc((size_t)harness.size, sizeof *all);
    CHECK_EQ(gethostname(mine, sizeof mine - 1), 0);
    CHECK_EQ(MPI_Allgather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, MPI_COMM_WORLD), MPI_SUCCESS);
    return all;
}

enum { HALF_MAX = 8 };

static void check_ranks(const struct fixture *f, const baton_engine_t *e, bool first, const host_name *hosts)
{
    NEWER(baton_engine_rank_t) ranks[HALF_MAX + 1];
    int half = harness.size / 2, nearest = (int)e->nearest;
    CHECK(half <= HALF_MAX && nearest < half);
    memset(ranks, 0xff, sizeof ranks);
    CHECK_EQ(baton_engine_ranks_sized(f->b, e->name, ranks, HALF_MAX + 1, sizeof ranks[0]), half);
    for (int i = 0; i < half; i++) {
        const baton_engine_rank_t *r = &ranks[i].old;
        int rank = first ? half - 1 - i : half + i;
        CHECK_EQ(r->size, sizeof *r);
        CHECK_EQ(ranks[i].more, 0);
        CHECK_EQ(r->world_rank, rank);
        CHECK_EQ(r->tp_rank, i);
        CHECK_EQ(r->pp_rank, 0);
        CHECK_EQ(r->distance == BATON_DISTANCE_SELF, rank == harness.rank);
        CHECK_EQ(r->distance == BATON_DISTANCE_WORLD, is_far(rank));
        CHECK(i < nearest ? r->distance > e->distance : r->distance >= e->distance);
        CHECK(r->number != 0 && (i == 0 || r->number != ranks[i - 1].old.number));
        CHECK_EQ(strcmp(r->host, hosts[rank]), 0);
    }
    CHECK_EQ(ranks[nearest].old.distance, e->distance);
    CHECK_EQ(ranks[half].more, UINT64_MAX);
}

static void check_engine(const struct fixture *f, const baton_engine_t *e, bool first, const host_name *hosts)
{
    uint32_t half = (uint32_t)harness.size / 2;
    bool mine = first == ((uint32_t)harness.rank < half);
    CHECK_EQ(strcmp(e->name, first ? "first" : "second"), 0);
    CHECK_EQ(e->role, first ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE);
    CHECK_EQ(e->tp, half);
    CHECK_EQ(e->pp, 1);
    CHECK_EQ(e->num_ranks, half);
    CHECK_EQ(e->distance == BATON_DISTANCE_SELF, mine);
    CHECK(e->life != 0);
    check_ranks(f, e, first, hosts);
}

static void engines_are_listed(void)
{
    struct fixture f;
    NEWER(baton_engine_t) newer[3];
    baton_engine_t one;
    uint64_t version = 0, again = 0;
    if (harness.size % 2 != 0)
        return SKIP("no two halves");
    host_name *hosts = hosts_of_ranks();
    up_in_halves(&f);
    memset(newer, 0xff, sizeof newer);
    CHECK_EQ(baton_engines_sized(f.b, &version, newer, 3, sizeof newer[0]), 2);
    CHECK(version != 0);
    for (int i = 0; i < 2; i++) {
        check_engine(&f, &newer[i].old, i == 0, hosts);
        CHECK_EQ(newer[i].old.size, sizeof one);
        CHECK_EQ(newer[i].more, 0);
    }
    CHECK_EQ(newer[2].more, UINT64_MAX);
    CHECK_EQ(baton_engines(f.b, &again, NULL, 0), 2);
    CHECK_EQ(again, version);
    CHECK_EQ(baton_engines(f.b, NULL, &one, 1), 2);
    check_engine(&f, &one, true, hosts);
    CHECK_EQ(one.life, newer[0].old.life);
    CHECK(one.life != newer[1].old.life);
    CHECK_EQ(baton_engines(f.b, &again, NULL, 1), BATON_EINVAL);
    CHECK_EQ(baton_engines(f.b, &again, &one, -1), BATON_EINVAL);
    for (int i = 0; i < NUM_NOT_SIZES; i++) {
        baton_engine_rank_t rank;
        CHECK_EQ(baton_engines_sized(f.b, NULL, &one, 1, not_sizes[i]), BATON_EINVAL);
        CHECK_EQ(baton_engine_ranks_sized(f.b, "first", &rank, 1, not_sizes[i]), BATON_EINVAL);
    }
    down(&f);
    free(hosts);
}

/* The next event, in either mode: its descriptor becomes readable. */
static baton_event_t told(struct fixture *f)
{
    struct pollfd p = {.fd = baton_event_fd(f->b), .events = POLLIN};
    baton_event_t e;
    while (baton_poll(f->b, &e, 1) != 1)
        if (poll(&p, 1, 20000) != 1)
            failed("told");
    return e;
}

/* Who asked for it hears of the engines once after start, and then of calls. */
static void told_in(baton_progress_mode_t mode)
{
    struct fixture f;
    uint64_t version = 0;
    const bool hears = harness.rank % 2 == 0;
    memset(&f, 0, sizeof f);
    describe(&f);
    f.me.progress = mode;
    f.me.flags = hears ? BATON_OPEN_ENGINES : 0;
    if (baton_open(MPI_COMM_WORLD, &f.me, &f.b) != 0)
        failed("open");
    start(&f);
    CHECK_EQ(baton_engines(f.b, &version, NULL, 0), harness.size);
    if (hears) {
        baton_event_t e = told(&f);
        CHECK_EQ(e.type, BATON_EVENT_ENGINES);
        CHECK_EQ(e.version, version);
        CHECK_EQ(e.error, 0);
    }
    baton_offer_params_t o = an_offer("told");
    baton_want_params_t w = a_want(&f, "told");
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    for (int i = 0; i < 2; i++) {
        baton_event_t e = told(&f);
        CHECK(e.type == BATON_EVENT_WANT || e.type == BATON_EVENT_OFFER);
        CHECK_EQ(e.version, 0);
    }
    down(&f);
}

static void engines_are_told(void)
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    told_in(BATON_PROGRESS_CALLER);
    if (level == MPI_THREAD_MULTIPLE)
        told_in(BATON_PROGRESS_THREAD);
}

static void the_world_is_known_after_start(void)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    describe(&f);
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0);
    CHECK_EQ(baton_engines(f.b, NULL, NULL, 0), BATON_ESTATE);
    CHECK_EQ(baton_engine_ranks(f.b, f.me.engine, NULL, 0), BATON_ESTATE);
    start(&f);
    down(&f);
}

/* ---- attached bytes ---------------------------------------------------------------------------------------------- */

/* What rank r attaches: the most that there may be. */
static void attached_by(int r, unsigned char *out)
{
    for (int i = 0; i < BATON_ATTACH_MAX; i++)
        out[i] = (unsigned char)(r * 37 + i);
}

/* Each rank wants of the next one, with a key of the greatest length. */
static void attached_bytes_arrive(void)
{
    struct fixture f;
    unsigned char mine[BATON_ATTACH_MAX], theirs[BATON_ATTACH_MAX];
    char engine[BATON_ENGINE_NAME_MAX], key[BATON_KEY_MAX];
    int next = (harness.rank + 1) % harness.size;
    up(&f);
    attached_by(harness.rank, mine);
    attached_by(next, theirs);
    snprintf(engine, sizeof engine, "e%d", next);
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    for (int mode = BATON_MODE_PULL; mode <= BATON_MODE_PUSH; mode++) {
        baton_offer_params_t o = an_offer(key);
        baton_want_params_t w = a_want(&f, key);
        o.attach = mine;
        o.num_attach = BATON_ATTACH_MAX;
        w.engine = engine;
        w.mode = (baton_mode_t)mode;
        o.attempt = w.attempt = (uint32_t)mode;
        CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
        CHECK_EQ(baton_want(f.b, &w, NULL), 0);
        for (int i = 0; i < 2; i++) {
            baton_event_t e = next_event(&f);
            bool is_want = e.type == BATON_EVENT_WANT;
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            CHECK_EQ(strcmp(e.key, key), 0);
            CHECK_EQ(e.num_attach, is_want ? BATON_ATTACH_MAX : 0);
            CHECK_EQ(is_want && memcmp(e.attach, theirs, sizeof theirs) != 0, 0);
        }
    }
    down(&f);
}

static void attached_bytes_are_checked(void)
{
    struct fixture f;
    unsigned char bytes[BATON_ATTACH_MAX + 1] = {0};
    up(&f);
    baton_offer_params_t o = an_offer("attached");
    o.num_attach = 1;
    CHECK_EQ(baton_offer(f.b, &o, NULL), BATON_EINVAL);
    o.attach = bytes;
    o.num_attach = BATON_ATTACH_MAX + 1;
    CHECK_EQ(baton_offer(f.b, &o, NULL), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "num_attach at most 256");
    o.num_attach = 1;
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
    baton_want_params_t w = a_want(&f, "attached"); /* nothing of it moves: it has none */
    w.held_tokens = w.num_tokens;
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    for (int i = 0; i < 2; i++) {
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        CHECK_EQ(e.num_attach, 0);
    }
    down(&f);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static void move_two_blocks(struct fixture *f)
{
    make_two_events(f, "moves");
    CHECK_EQ(next_event(f).status, BATON_STATUS_DONE);
    CHECK_EQ(next_event(f).status, BATON_STATUS_DONE);
}

static void a_fortran_handle_is_a_communicator(void)
{
    struct fixture f;
    MPI_Comm backwards;
    memset(&f, 0, sizeof f);
    describe(&f);
    CHECK_EQ(baton_open_f(BATON_COMM_NULL_F, &f.me, &f.b), 0); /* the whole world */
    start(&f);
    CHECK_EQ(baton_engines(f.b, NULL, NULL, 0), harness.size);
    move_two_blocks(&f);
    down(&f);

    MPI_Comm_split(MPI_COMM_WORLD, 0, harness.size - harness.rank, &backwards);
    CHECK_EQ(baton_open_f((int)MPI_Comm_c2f(backwards), &f.me, &f.b), 0);
    start(&f);
    baton_engine_rank_t mine;
    CHECK_EQ(baton_engine_ranks(f.b, f.me.engine, &mine, 1), 1);
    CHECK_EQ(mine.distance, BATON_DISTANCE_SELF);
    CHECK_EQ(mine.world_rank, harness.size - 1 - harness.rank);
    move_two_blocks(&f);
    down(&f);
    MPI_Comm_free(&backwards);
#ifdef OPEN_MPI /* others do not tell by a handle whether there is such a communicator */
    CHECK_EQ(baton_open_f(-123456, &f.me, &f.b), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "no communicator has the Fortran handle -123456");
#endif
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(older_callers_are_served);
    RUN(newer_callers_are_served);
    RUN(a_role_is_read_for_any_caller);
    RUN(regions_lie_at_the_callers_stride);
    RUN(events_come_at_the_callers_stride);
    RUN(statistics_are_filled_as_far_as_both_know_them);
    RUN(pending_engines_are_listed);
    RUN(engines_are_listed);
    RUN(engines_are_told);
    RUN(the_world_is_known_after_start);
    RUN(attached_bytes_arrive);
    RUN(attached_bytes_are_checked);
    RUN(a_fortran_handle_is_a_communicator);
    return harness_end();
}
