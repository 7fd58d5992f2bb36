/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_params: each argument of each public function, at the edge where it is still taken and just beyond it. All
 * ranks are one engine, and each offers to it and wants from it.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"
#include "harness.h"
#include "with_regions.h"

#define BLOCKS 64
#define BLOCK_TOKENS 16

/* A call is refused, and says why. */
#define REFUSED(call, error, words) (CHECK_EQ(call, error), CHECK_HAS(baton_errmsg(), words))

static struct {
    baton_t *b;
    baton_cache_t *cache;
    baton_open_params_t me;
    baton_geometry_t geometry;
    baton_tensor_t tensors[2];
} f;

static const uint32_t some[4] = {1, 2, 3, 4};
static const char *const engine = "e";

static void who(void)
{
    f.me = (baton_open_params_t){.size = sizeof f.me,
                                 .engine = "e",
                                 .role = BATON_ROLE_BOTH,
                                 .tp = (uint32_t)harness.size,
                                 .pp = 1,
                                 .tp_rank = (uint32_t)harness.rank};
}

/* Two layers; where `has_state` is set, the second one is a state with a table of its own. */
static void shape(bool has_state)
{
    f.geometry = (baton_geometry_t){
        .size = sizeof f.geometry,
        .model = "m",
        .dtype = "u8",
        .elem_bytes = 1,
        .planes = 1,
        .head_size = 32,
        .num_groups = has_state ? 2 : 1,
        .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS},
                   {.kind = BATON_KIND_STATE, .block_tokens = 1, .num_blocks = BLOCKS}},
        .num_splits = 1,
        .splits = {{.heads_total = (uint32_t)harness.size, .head_first = (uint32_t)harness.rank, .head_count = 1}},
        .layers_total = 2,
        .layer_count = 2};
    CHECK_EQ(baton_geometry_layout(&f.geometry, f.tensors, 0), 0);
    if (has_state)
        f.tensors[1].group = 1;
}

/* Starts as f.me, with f.geometry. */
static void start(void)
{
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0) ||
        !CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0) ||
        !CHECK_EQ(baton_start(f.b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
}

static void up(bool has_state)
{
    who();
    shape(has_state);
    start();
}

static void down(void)
{
    CHECK_EQ(baton_close(f.b), 0);
}

/* ---- before start ------------------------------------------------------------------------------------------------ */

static void open_is_refused(const baton_open_params_t *bad, const char *words)
{
    baton_t *b = NULL;
    REFUSED(baton_open(MPI_COMM_WORLD, bad, &b), BATON_EINVAL, words);
    CHECK(b == NULL);
}

static void open_is_taken(const baton_open_params_t *good)
{
    baton_t *b = NULL;
    if (CHECK_EQ(baton_open(MPI_COMM_WORLD, good, &b), 0))
        CHECK_EQ(baton_close(b), 0);
}

static void open_looks_at_its_params(void)
{
    baton_t *b;
    who();
    REFUSED(baton_open(MPI_COMM_SELF, NULL, &b), BATON_EINVAL, "params and out");
    REFUSED(baton_open(MPI_COMM_SELF, &f.me, NULL), BATON_EINVAL, "params and out");
    baton_open_params_t p = f.me;
    p.size = 0;
    open_is_refused(&p, "baton_open_params_t");
    static const char *const names[] = {"", "a b", "a/b",
                                        "123456789012345678901234567890123456789012345678901234567890123!"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        p = f.me;
        memcpy(p.engine, names[i], strlen(names[i]) + (i < 3));
        open_is_refused(&p, "engine must have 1 to 63 letters");
    }
    p = f.me;
    strcpy(p.engine, "abcxyzABCXYZ0189._-789012345678"); /* the longest */
    open_is_taken(&p);
    for (int role = BATON_ROLE_PREFILL - 1; role <= BATON_ROLE_BOTH + 1; role++) {
        p = f.me;
        p.role = (baton_role_t)role;
        if (role < BATON_ROLE_PREFILL || role > BATON_ROLE_BOTH)
            open_is_refused(&p, "none of prefill, decode, both");
        else
            open_is_taken(&p);
    }
    static const struct {
        uint32_t tp, pp, tp_rank, pp_rank;
        const char *words; /* NULL: good */
    } seats[] = {{0, 1, 0, 0, "tp 0 x pp 1 must be 1 to 1024 ranks"},
                 {1, 0, 0, 0, "tp 1 x pp 0 must be 1 to 1024 ranks"},
                 {1025, 1, 0, 0, "must be 1 to 1024 ranks"},
                 {UINT32_MAX, UINT32_MAX, 0, 0, "must be 1 to 1024 ranks"},
                 {65536, 65536, 0, 0, "must be 1 to 1024 ranks"}, /* 2^32 */
                 {512, 2, 512, 0, "lies outside"},
                 {512, 2, 0, 2, "lies outside"},
                 {512, 2, 511, 1, NULL},
                 {1024, 1, 1023, 0, NULL}};
    for (size_t i = 0; i < sizeof seats / sizeof *seats; i++) {
        p = f.me;
        p.tp = seats[i].tp;
        p.pp = seats[i].pp;
        p.tp_rank = seats[i].tp_rank;
        p.pp_rank = seats[i].pp_rank;
        if (seats[i].words != NULL)
            open_is_refused(&p, seats[i].words);
        else
            open_is_taken(&p);
    }
    for (int verdicts = -1; verdicts <= BATON_VERDICTS_LEADER + 1; verdicts++) {
        p = f.me;
        p.verdicts = (baton_verdicts_t)verdicts;
        if (verdicts < 0 || verdicts > BATON_VERDICTS_LEADER)
            open_is_refused(&p, "none of none, all, leader");
        else
            open_is_taken(&p);
    }
    for (int progress = -1; progress <= BATON_PROGRESS_CALLER + 1; progress++) {
        p = f.me;
        p.progress = (baton_progress_mode_t)progress;
        if (progress < 0 || progress > BATON_PROGRESS_CALLER)
            open_is_refused(&p, "is no mode");
        else
            open_is_taken(&p);
    }
    p = f.me;
    p.flags = BATON_OPEN_ENGINES << 1;
    open_is_refused(&p, "flags 4 has bits that are unknown");
}

static void caches_look_at_theirs(void)
{
    baton_t *b;
    baton_cache_t *cache = NULL;
    char page[8];
    static uint8_t memory[1 << 20];
    const baton_region_t region = region_of(BATON_MEMORY_HOST, memory, sizeof memory);
    baton_region_t bad_region = region, two[2] = {region, region};
    baton_driver_t driver = {.size = sizeof driver};
    who();
    shape(false);
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &b), 0);
    REFUSED(baton_cache_create(NULL, &f.geometry, BATON_MEMORY_HOST, &cache), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_cache_create(b, NULL, BATON_MEMORY_HOST, &cache), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_cache_create(b, &f.geometry, BATON_MEMORY_HOST, NULL), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_cache_create(b, &f.geometry, BATON_MEMORY_PINNED, &cache), BATON_ENOSYS, "host memory only");
    REFUSED(baton_cache_wrap(NULL, &f.geometry, &region, 1, &cache), BATON_EINVAL, "NULL");
    REFUSED(baton_cache_wrap(b, NULL, &region, 1, &cache), BATON_EINVAL, "NULL");
    REFUSED(baton_cache_wrap(b, &f.geometry, NULL, 1, &cache), BATON_EINVAL, "NULL");
    REFUSED(baton_cache_wrap(b, &f.geometry, &region, 1, NULL), BATON_EINVAL, "NULL");
    REFUSED(baton_cache_wrap(b, &f.geometry, &region, 0, &cache), BATON_EINVAL, "num_regions");
    REFUSED(baton_cache_wrap(b, &f.geometry, &region, BATON_REGIONS_MAX + 1, &cache), BATON_EINVAL, "num_regions");
    bad_region.size = 0;
    REFUSED(baton_cache_wrap(b, &f.geometry, &bad_region, 1, &cache), BATON_EINVAL, "baton_region_t");
    bad_region.size = sizeof(size_t) - 1;
    REFUSED(baton_cache_wrap(b, &f.geometry, &bad_region, 1, &cache), BATON_EINVAL, "baton_region_t");
    bad_region = region_of((baton_memory_t)-1, memory, sizeof memory);
    REFUSED(baton_cache_wrap(b, &f.geometry, &bad_region, 1, &cache), BATON_EINVAL, "no kind");
    bad_region.kind = (baton_memory_t)(BATON_MEMORY_SHARED + 1);
    REFUSED(baton_cache_wrap(b, &f.geometry, &bad_region, 1, &cache), BATON_EINVAL, "no kind");
    for (baton_memory_t kind = BATON_MEMORY_HOST; kind <= BATON_MEMORY_SHARED; kind++) {
        bad_region = region_of(kind, memory, sizeof memory);
        bad_region.device = 3;
        REFUSED(baton_cache_wrap(b, &f.geometry, &bad_region, 1, &cache),
                kind == BATON_MEMORY_DEVICE ? BATON_ENOSYS : BATON_EINVAL,
                kind == BATON_MEMORY_DEVICE ? "needs a driver" : "region 0 names device 3");
    }
    two[1].size = sizeof two[1] + 8;
    REFUSED(baton_cache_wrap(b, &f.geometry, two, 2, &cache), BATON_EINVAL, "all have one");
    two[1] = region;
    two[1].base = memory + 64;
    REFUSED(baton_cache_wrap(b, &f.geometry, two, 2, &cache), BATON_EINVAL, "overlap");
    baton_geometry_t bad = f.geometry;
    bad.size = 0;
    REFUSED(baton_cache_create(b, &bad, BATON_MEMORY_HOST, &cache), BATON_EINVAL, "baton_geometry_t");
    bad = f.geometry;
    bad.model[0] = '\0';
    REFUSED(baton_cache_create(b, &bad, BATON_MEMORY_HOST, &cache), BATON_EINVAL, "model must not be empty");
    REFUSED(baton_driver_set(NULL, &driver), BATON_EINVAL, "the context must not be NULL");
    REFUSED(baton_driver_set(b, NULL), BATON_EINVAL, "driver must not be NULL");
    REFUSED(baton_driver_set(b, &driver), BATON_EINVAL, "a driver has a name, copy and poll");
    CHECK(baton_cache_base(NULL) == NULL);
    CHECK(cache == NULL);
    baton_id_t id = 77;
    REFUSED(baton_want(b, &(baton_want_params_t){.size = sizeof(baton_want_params_t)}, &id), BATON_ESTATE,
            "call baton_start first");
    CHECK_EQ(id, 77); /* outputs are set only on success */
    REFUSED(baton_cancel(b, 1), BATON_ESTATE, "call baton_start first");
    REFUSED(baton_describe(b, page, sizeof page), BATON_ESTATE, "describe after baton_start");
    CHECK_EQ(baton_cache_create(b, &f.geometry, BATON_MEMORY_HOST, &cache), 0);
    REFUSED(baton_cache_create(b, &f.geometry, BATON_MEMORY_HOST, &cache), BATON_ENOSYS, "one cache a context");
    REFUSED(baton_cache_wrap(b, &f.geometry, &region, 1, &cache), BATON_ENOSYS, "one cache");
    CHECK_EQ(baton_close(b), 0);
}

static void layouts_look_at_their_geometry(void)
{
    baton_geometry_t good, bad;
    baton_tensor_t tensors[2];
    shape(false);
    good = f.geometry;
    REFUSED(baton_geometry_layout(NULL, tensors, 0), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_geometry_layout(&good, NULL, 0), BATON_EINVAL, "must not be NULL");
    CHECK_EQ(baton_geometry_layout(&good, tensors, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_BLOCK_MAJOR),
             0);
    REFUSED(baton_geometry_layout(&good, tensors, 16), BATON_EINVAL, "layout 16 has bits");
    REFUSED(baton_geometry_layout(&good, tensors, BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED), BATON_EINVAL,
            "exclude each other");
    uint32_t *const sizes[] = {&bad.elem_bytes,
                               &bad.planes,
                               &bad.head_size,
                               &bad.layer_count,
                               &bad.groups[0].block_tokens,
                               &bad.groups[0].num_blocks,
                               &bad.splits[0].head_count};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bad = good;
        *sizes[i] = 0;
        REFUSED(baton_geometry_layout(&bad, tensors, 0), BATON_EINVAL, " is 0");
    }
    static const uint32_t groups[] = {0, BATON_GROUPS_MAX + 1}, splits[] = {0, BATON_SPLITS_MAX + 1};
    for (int i = 0; i < 2; i++) {
        bad = good;
        bad.num_groups = groups[i];
        REFUSED(baton_geometry_layout(&bad, tensors, 0), BATON_EINVAL, "num_groups must be 1 to");
        bad = good;
        bad.num_splits = splits[i];
        REFUSED(baton_geometry_layout(&bad, tensors, 0), BATON_EINVAL, "num_splits 1 to");
    }
    bad = good;
    bad.layer_count = BATON_TENSORS_MAX + 1;
    REFUSED(baton_geometry_layout(&bad, tensors, 0), BATON_EINVAL, "and at most 1024");
    bad = good;
    bad.groups[0].num_blocks = bad.groups[0].block_tokens = bad.head_size = UINT32_MAX;
    REFUSED(baton_geometry_layout(&bad, tensors, 0), BATON_EINVAL, "2^62");
}

/* ---- the verbs --------------------------------------------------------------------------------------------------- */

static void what_is_not_there_is_refused(void)
{
    baton_id_t id;
    baton_offer_params_t o = {.size = sizeof o};
    baton_want_params_t w = {.size = sizeof w};
    baton_append_params_t a = {.size = sizeof a};
    baton_event_t event;
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    baton_peer_stats_t peer;
    baton_engine_t engines[2];
    baton_engine_rank_t ranks[2];
    char page[16384];
    const uint32_t beyond = (uint32_t)harness.size;
    REFUSED(baton_start(NULL), BATON_EINVAL, "NULL");
    REFUSED(baton_close(NULL), BATON_EINVAL, "NULL");
    REFUSED(baton_offer(NULL, &o, &id), BATON_EINVAL, "NULL");
    REFUSED(baton_want(NULL, &w, &id), BATON_EINVAL, "NULL");
    REFUSED(baton_append(NULL, 1, &a), BATON_EINVAL, "NULL");
    REFUSED(baton_ready(NULL, 1, 0, 1, 1), BATON_EINVAL, "NULL");
    REFUSED(baton_cancel(NULL, 1), BATON_EINVAL, "NULL");
    REFUSED(baton_poll(NULL, &event, 1), BATON_EINVAL, "NULL");
    REFUSED(baton_event_fd(NULL), BATON_EINVAL, "NULL");
    REFUSED(baton_progress(NULL), BATON_EINVAL, "NULL");
    REFUSED(baton_stats(NULL, &stats), BATON_EINVAL, "NULL");
    REFUSED(baton_describe(NULL, page, sizeof page), BATON_EINVAL, "NULL");
    REFUSED(baton_engines(NULL, NULL, engines, 1), BATON_EINVAL, "NULL");
    REFUSED(baton_engine_ranks(NULL, engine, ranks, 1), BATON_EINVAL, "NULL");
    REFUSED(baton_cache_ready(NULL), BATON_EINVAL, "NULL");
    up(false);
    REFUSED(baton_poll(f.b, NULL, 1), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_poll(f.b, &event, -1), BATON_EINVAL, "not negative");
    REFUSED(baton_poll_sized(f.b, &event, 1, 0), BATON_EINVAL, "baton_event_t");
    CHECK_EQ(baton_poll(f.b, NULL, 0), 0);
    REFUSED(baton_stats(f.b, NULL), BATON_EINVAL, "must not be NULL");
    stats.max_pending = 1;
    REFUSED(baton_stats(f.b, &stats), BATON_EINVAL, "must not be NULL");
    stats.max_pending = 0;
    stats.num_peers = 1;
    REFUSED(baton_stats(f.b, &stats), BATON_EINVAL, "must not be NULL");
    stats.peer_stats = &peer;
    stats.first_peer = beyond;
    REFUSED(baton_stats(f.b, &stats), BATON_EINVAL, "of a world of");
    stats.first_peer = beyond - 1;
    CHECK_EQ(baton_stats(f.b, &stats), 0);
    CHECK_EQ(strcmp(peer.engine, engine), 0);
    stats.num_peers = UINT32_MAX;
    REFUSED(baton_stats(f.b, &stats), BATON_EINVAL, "of a world of");
    REFUSED(baton_engines(f.b, NULL, NULL, 1), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_engines(f.b, NULL, engines, -1), BATON_EINVAL, "not negative");
    REFUSED(baton_engines_sized(f.b, NULL, engines, 1, 0), BATON_EINVAL, "baton_engine_t");
    CHECK_EQ(baton_engines(f.b, NULL, NULL, 0), 1);
    memset(engines, 0x5a, sizeof engines);
    CHECK_EQ(baton_engines(f.b, NULL, engines, 2), 1);
    CHECK_EQ(strcmp(engines[0].name, engine), 0);
    CHECK_EQ(engines[0].tp, harness.size);
    CHECK_EQ(engines[1].name[0], 0x5a); /* what is not there is left alone */
    REFUSED(baton_engine_ranks(f.b, engine, NULL, 1), BATON_EINVAL, "must not be NULL");
    REFUSED(baton_engine_ranks(f.b, engine, ranks, -1), BATON_EINVAL, "not negative");
    REFUSED(baton_engine_ranks(f.b, NULL, ranks, 1), BATON_EINVAL, "engine must not be NULL");
    REFUSED(baton_engine_ranks(f.b, "nobody", ranks, 1), BATON_EENGINE, "no engine is called nobody");
    REFUSED(baton_engine_ranks_sized(f.b, engine, ranks, 1, 0), BATON_EINVAL, "baton_engine_rank_t");
    CHECK_EQ(baton_engine_ranks(f.b, engine, NULL, 0), harness.size);
    memset(ranks, 0x5a, sizeof ranks);
    CHECK_EQ(baton_engine_ranks(f.b, engine, ranks, 1), harness.size);
    CHECK_EQ(ranks[0].world_rank, 0);
    CHECK_EQ(ranks[1].host[0], 0x5a);
    REFUSED(baton_describe(f.b, NULL, 1), BATON_EINVAL, "must not be NULL");
    const int length = baton_describe(f.b, NULL, 0);
    CHECK(length > 0);
    memset(page, 'x', sizeof page);
    CHECK_EQ(baton_describe(f.b, page, 6), length);
    CHECK_EQ(strcmp(page, "world"), 0);
    CHECK_EQ(page[6], 'x');
    CHECK_EQ(baton_describe(f.b, page, sizeof page), length);
    CHECK_EQ(strlen(page), length);
    REFUSED(baton_start(f.b), BATON_ESTATE, "started already");
    REFUSED(baton_progress(f.b), BATON_ESTATE, "by itself");
    CHECK_EQ(baton_cache_ready(f.b), 0);
    down();
}

static baton_offer_params_t an_offer(const char *key)
{
    return (baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                  .key = key,
                                  .num_tables = 1,
                                  .tables = {{.blocks = some, .num_blocks = 2}},
                                  .num_tokens = 2 * BLOCK_TOKENS,
                                  .ttl_ms = 60000};
}

static void offer_is_refused(baton_offer_params_t bad, int error, const char *words)
{
    baton_id_t id = 77;
    REFUSED(baton_offer(f.b, &bad, &id), error, words);
    CHECK_EQ(id, 77); /* outputs are written on success alone */
}

/* The next event must be the end of that call by a cancel. */
static void is_cancelled(baton_id_t id)
{
    baton_event_t e;
    for (double until = MPI_Wtime() + 20; MPI_Wtime() < until;)
        if (baton_poll(f.b, &e, 1) == 1) {
            CHECK_EQ(e.id, id);
            CHECK_EQ(e.status, BATON_STATUS_CANCELLED);
            return;
        }
    CHECK(!"the call has no end");
}

/* Its event must be its end by a cancel: nothing else has ended it. */
static void is_open(baton_id_t id)
{
    CHECK_EQ(baton_cancel(f.b, id), 0);
    is_cancelled(id);
}

static void offer_is_taken(baton_offer_params_t good)
{
    baton_id_t id = 0;
    if (CHECK_EQ(baton_offer(f.b, &good, &id), 0))
        is_open(id);
    else
        fprintf(stderr, "# %s\n", baton_errmsg());
}

static void offers_look_at_their_params(void)
{
    char key[BATON_KEY_MAX + 1];
    unsigned char attach[BATON_ATTACH_MAX] = {0};
    const char *consumers[BATON_CONSUMERS_MAX + 1];
    baton_offer_params_t o = an_offer("k");
    up(false);
    memset(key, 'k', sizeof key);
    key[BATON_KEY_MAX] = '\0';
    REFUSED(baton_offer(f.b, NULL, NULL), BATON_EINVAL, "baton_offer_params_t");
    o.size = 0;
    offer_is_refused(o, BATON_EINVAL, "baton_offer_params_t");
    static const char *const none[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        o = an_offer(none[i]);
        offer_is_refused(o, BATON_EKEY, "1 to 255 bytes");
    }
    o = an_offer(key);
    offer_is_refused(o, BATON_EKEY, "1 to 255 bytes");
    o = an_offer("k");
    o.base_key = "";
    offer_is_refused(o, BATON_EKEY, "1 to 255 bytes");
    o.base_key = key;
    offer_is_refused(o, BATON_EKEY, "1 to 255 bytes");
    key[BATON_KEY_MAX - 1] = '\0';
    offer_is_taken(an_offer(key));
    o = an_offer("k");
    o.num_attach = 1;
    offer_is_refused(o, BATON_EINVAL, "attach must not be NULL");
    o.attach = attach;
    o.num_attach = BATON_ATTACH_MAX + 1;
    offer_is_refused(o, BATON_EINVAL, "num_attach at most");
    o.num_attach = BATON_ATTACH_MAX;
    offer_is_taken(o);
    for (int i = 0; i <= BATON_CONSUMERS_MAX; i++)
        consumers[i] = engine;
    o = an_offer("k");
    o.consumers = consumers;
    offer_is_refused(o, BATON_EINVAL, "their number is 0");
    o.num_consumers = BATON_CONSUMERS_MAX + 1;
    offer_is_refused(o, BATON_EINVAL, "num_consumers is");
    o.num_consumers = 2;
    offer_is_refused(o, BATON_EINVAL, "engine e is named twice");
    consumers[1] = NULL;
    offer_is_refused(o, BATON_EINVAL, "consumers[1] is NULL");
    consumers[1] = "nobody";
    offer_is_refused(o, BATON_EENGINE, "nobody");
    o.num_consumers = 1;
    offer_is_taken(o);
    o.consumers = NULL;
    o.num_consumers = BATON_CONSUMERS_MAX; /* any engines, so many */
    offer_is_taken(o);
    o = an_offer("k");
    o.flags = 2 * (BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS);
    offer_is_refused(o, BATON_EINVAL, "flags has bits that are not known");
    o.flags = BATON_OFFER_LAYERS;
    offer_is_taken(o);
    o.reserved = 9;
    offer_is_refused(o, BATON_EINVAL, "reserved is 9");
    o = an_offer("k");
    o.num_tokens = 0;
    offer_is_refused(o, BATON_ETOKENS, "at least one token");
    o.num_tokens = 2 * BLOCK_TOKENS + 1;
    offer_is_refused(o, BATON_ETOKENS, "group 0");
    o.num_tokens = 1;
    offer_is_taken(o);
    down();
}

static baton_want_params_t a_want(const char *key)
{
    return (baton_want_params_t){.size = sizeof(baton_want_params_t),
                                 .key = key,
                                 .engine = engine,
                                 .num_tables = 1,
                                 .tables = {{.blocks = some, .num_blocks = 2}},
                                 .num_tokens = 2 * BLOCK_TOKENS,
                                 .timeout_ms = 60000};
}

static void want_is_refused(baton_want_params_t bad, int error, const char *words)
{
    baton_id_t id = 77;
    REFUSED(baton_want(f.b, &bad, &id), error, words);
    CHECK_EQ(id, 77);
}

static void want_is_taken(baton_want_params_t good)
{
    baton_id_t id = 0;
    if (CHECK_EQ(baton_want(f.b, &good, &id), 0))
        is_open(id);
    else
        fprintf(stderr, "# %s\n", baton_errmsg());
}

/* All tokens are held, or none: no table, blocks that there are not, and too many are refused all the same. */
static void tables_are_looked_at_where_nothing_moves(void)
{
    enum { TOO_MANY = (1 << 24) + 1 };
    const uint32_t outside[2] = {1, BLOCKS};
    uint32_t *many = calloc(TOO_MANY, sizeof *many);
    CHECK(many != NULL);
    for (int all = 0; all < 2; all++) {
        baton_want_params_t w = a_want("k");
        w.held_tokens = all ? w.num_tokens : 0;
        w.tables[0].blocks = NULL;
        want_is_refused(w, BATON_EINVAL, "blocks must not be NULL");
        w.tables[0].blocks = outside;
        want_is_refused(w, BATON_EBLOCK, "blocks[1] is 64");
        w.tables[0] = (baton_table_t){.blocks = many, .num_blocks = TOO_MANY};
        want_is_refused(w, BATON_EINVAL, all ? "the tables have more than" : "block 0 stands twice");
    }
    baton_offer_params_t o = an_offer("k"); /* which may name a block twice */
    o.tables[0] = (baton_table_t){.blocks = many, .num_blocks = TOO_MANY};
    offer_is_refused(o, BATON_EINVAL, "the tables have more than");
    o.tables[0].num_blocks--;
    offer_is_refused(o, BATON_EINVAL, "tables of 16777216 entries do not fit the arena");
    o.tables[0].first_token = BLOCK_TOKENS; /* takes three entries more */
    offer_is_refused(o, BATON_EINVAL, "the tables need 16777219 entries, and may have 16777216");
    free(many);
}

static void wants_look_at_their_params(void)
{
    char key[BATON_KEY_MAX + 1];
    up(false);
    REFUSED(baton_want(f.b, NULL, NULL), BATON_EINVAL, "baton_want_params_t");
    baton_want_params_t w = a_want("k");
    w.size = 0;
    want_is_refused(w, BATON_EINVAL, "baton_want_params_t");
    want_is_refused(a_want(NULL), BATON_EKEY, "1 to 255 bytes");
    want_is_refused(a_want(""), BATON_EKEY, "1 to 255 bytes");
    memset(key, 'k', sizeof key);
    key[BATON_KEY_MAX] = '\0';
    want_is_refused(a_want(key), BATON_EKEY, "1 to 255 bytes");
    key[BATON_KEY_MAX - 1] = '\0';
    want_is_taken(a_want(key));
    w = a_want("k");
    w.base_key = "";
    want_is_refused(w, BATON_EKEY, "1 to 255 bytes");
    w = a_want("k");
    w.engine = NULL;
    want_is_refused(w, BATON_EINVAL, "engine must not be NULL");
    w.engine = "nobody";
    want_is_refused(w, BATON_EENGINE, "nobody");
    w.life = 7;
    want_is_refused(w, BATON_EGONE, "nobody");
    baton_engine_t producer;
    CHECK(baton_engines(f.b, NULL, &producer, 1) >= 1);
    w = a_want("k");
    w.engine = producer.name;
    w.life = producer.life;
    want_is_taken(w);
    w.life ^= 1;
    want_is_refused(w, BATON_EGONE, "is wanted");
    for (int mode = -1; mode <= BATON_MODE_PUSH + 1; mode++) {
        w = a_want("k");
        w.mode = (baton_mode_t)mode;
        if (mode < 0 || mode > BATON_MODE_PUSH)
            want_is_refused(w, BATON_EINVAL, mode < 0 ? "mode -1 is not known" : "mode 3 is not known");
        else
            want_is_taken(w);
    }
    w = a_want("k");
    w.flags = 2 * BATON_WANT_AWAIT_ENGINE;
    want_is_refused(w, BATON_EINVAL, "flags has bits that are not known: 0x4");
    w.flags = BATON_WANT_ZERO_TAIL | BATON_WANT_AWAIT_ENGINE;
    want_is_taken(w);
    w.reserved = 9;
    want_is_refused(w, BATON_EINVAL, "reserved is 9");
    w = a_want("k");
    w.held_tokens = w.num_tokens + 1;
    want_is_refused(w, BATON_ETOKENS, "33 tokens are held, and 32 are wanted");
    w.held_tokens = w.num_tokens - 1;
    want_is_taken(w);
    w = a_want("k");
    w.num_tokens = 0;
    want_is_refused(w, BATON_ETOKENS, "blocks are given, and num_tokens is 0");
    w.num_tokens = 2 * BLOCK_TOKENS + 1;
    want_is_refused(w, BATON_ETOKENS, "group 0");
    tables_are_looked_at_where_nothing_moves();
    REFUSED(baton_cancel(f.b, 0), BATON_EINVAL, "no call was given that id");
    REFUSED(baton_cancel(f.b, UINT64_MAX), BATON_EINVAL, "no call was given that id");
    down();
}

/* What offers, wants and chunks say of their tables. */
static void tables_are_looked_at(void)
{
    const uint32_t twice[2] = {2, 2}, outside[2] = {1, BLOCKS}, last[2] = {1, BLOCKS - 1};
    baton_id_t id = 0;
    up(true);
    baton_want_params_t w = a_want("k");
    want_is_refused(w, BATON_EINVAL, "num_tables is 1: give a table for each of the cache's 2 groups");
    w.num_tables = 3;
    want_is_refused(w, BATON_EINVAL, "num_tables is 3");
    w.num_tables = 2;
    w.tables[1] = (baton_table_t){.blocks = some, .num_blocks = 1};
    want_is_taken(w);
    w.tables[1].first_token = 1;
    want_is_refused(w, BATON_EINVAL, "a state's begins at 0");
    w.tables[1].first_token = 0;
    w.tables[0].blocks = NULL;
    want_is_refused(w, BATON_EINVAL, "blocks must not be NULL");
    w.tables[0].blocks = outside;
    want_is_refused(w, BATON_EBLOCK, "blocks[1] is 64, but the group has 64 blocks");
    w.tables[0].blocks = last;
    want_is_taken(w);
    w.tables[0].blocks = twice;
    want_is_refused(w, BATON_EINVAL, "block 2 stands twice");
    w.tables[0].blocks = some;
    w.tables[0].first_token = UINT32_MAX - 2 * BLOCK_TOKENS + 1;
    want_is_refused(w, BATON_EINVAL, "a table ends before token 2^32");
    w.tables[0].first_token = BLOCK_TOKENS;
    want_is_refused(w, BATON_ETOKENS, "group 0");
    w.held_tokens = BLOCK_TOKENS;
    want_is_taken(w);
    baton_offer_params_t o = an_offer("k");
    o.num_tables = 2;
    o.tables[0].blocks = twice; /* an offer may name a block twice: it is read */
    o.tables[1] = (baton_table_t){.blocks = some, .num_blocks = 1};
    offer_is_taken(o);
    o.tables[0].blocks = outside;
    offer_is_refused(o, BATON_EBLOCK, "blocks[1] is 64");
    o.tables[0].blocks = some;
    o.flags = BATON_OFFER_CHUNKS | BATON_OFFER_LAYERS;
    if (CHECK_EQ(baton_offer(f.b, &o, &id), 0)) {
        baton_append_params_t a = {.size = sizeof a, .num_tables = 2, .num_tokens = 1};
        REFUSED(baton_append(f.b, id, NULL), BATON_EINVAL, "baton_append_params_t");
        REFUSED(baton_append(f.b, 0, &a), BATON_EINVAL, "no call was given that id");
        REFUSED(baton_append(f.b, id + 1000, &a), BATON_EINVAL, "no call was given that id");
        a.num_tokens = 0;
        REFUSED(baton_append(f.b, id, &a), BATON_ETOKENS, "a chunk has at least one token");
        a.num_tokens = 1;
        a.num_tables = 1;
        REFUSED(baton_append(f.b, id, &a), BATON_EINVAL, "num_tables is 1");
        a.num_tables = 2;
        a.tables[0] = (baton_table_t){.blocks = some, .num_blocks = 1, .first_token = BLOCK_TOKENS};
        REFUSED(baton_append(f.b, id, &a), BATON_EINVAL, "first_token must be 0");
        a.tables[0] = (baton_table_t){.blocks = outside, .num_blocks = 2};
        REFUSED(baton_append(f.b, id, &a), BATON_EBLOCK, "blocks[1] is 64");
        REFUSED(baton_ready(f.b, 0, 0, 1, 1), BATON_EINVAL, "no call was given that id");
        REFUSED(baton_ready(f.b, id, 0, 0, 1), BATON_EINVAL, "layers must lie within the model's");
        REFUSED(baton_ready(f.b, id, 2, 1, 1), BATON_EINVAL, "layers must lie within the model's");
        REFUSED(baton_ready(f.b, id, 1, 2, 1), BATON_EINVAL, "layers must lie within the model's");
        REFUSED(baton_ready(f.b, id, 0, UINT32_MAX, 1), BATON_EINVAL, "layers must lie within the model's");
        CHECK_EQ(baton_ready(f.b, id, 1, 1, 1), 0);
        is_open(id);
    }
    down();
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

#define ARENA "65536" /* the smallest */
#define ARENA_ENTRIES ((65536 - 32) / 4)
#define NO_FIT "do not fit the arena: raise BATON_TABLE_BYTES"

static uint32_t numbers[ARENA_ENTRIES + 1];

/* Offers whose tables have one entry too many, and as many as the arena holds. */
static void offers_fit_the_arena(void)
{
    baton_offer_params_t o = an_offer("k");
    o.num_tokens = ARENA_ENTRIES + 1;
    o.tables[0] = (baton_table_t){.blocks = numbers, .num_blocks = ARENA_ENTRIES + 1};
    offer_is_refused(o, BATON_EINVAL, NO_FIT);
    o.num_tokens = o.tables[0].num_blocks = ARENA_ENTRIES;
    offer_is_taken(o);
    o.tables[0].first_token = 1; /* takes three entries more */
    o.tables[0].num_blocks = ARENA_ENTRIES - 2;
    o.num_tokens = ARENA_ENTRIES - 1;
    offer_is_refused(o, BATON_EINVAL, NO_FIT);
    o.tables[0].num_blocks--;
    o.num_tokens--;
    offer_is_taken(o);
}

/* An offer in chunks has room for all its tokens from the beginning. */
static void chunks_fit_the_arena(void)
{
    baton_offer_params_t o = an_offer("k");
    baton_append_params_t a = {.size = sizeof a, .num_tables = 1, .num_tokens = ARENA_ENTRIES};
    baton_id_t id = 0;
    o.flags = BATON_OFFER_CHUNKS;
    o.num_tables = 0;
    o.num_tokens = ARENA_ENTRIES + 1;
    offer_is_refused(o, BATON_EINVAL, NO_FIT);
    o.num_tokens = ARENA_ENTRIES;
    if (!CHECK_EQ(baton_offer(f.b, &o, &id), 0))
        return;
    a.tables[0] = (baton_table_t){.blocks = numbers, .num_blocks = ARENA_ENTRIES + 1};
    REFUSED(baton_append(f.b, id, &a), BATON_EINVAL, NO_FIT);
    a.tables[0].num_blocks = ARENA_ENTRIES;
    CHECK_EQ(baton_append(f.b, id, &a), 0);
    is_open(id);
}

/* Of wants, only pushed ones have tables there. */
static void wants_fit_the_arena(void)
{
    baton_want_params_t w = a_want("k");
    w.num_tokens = ARENA_ENTRIES + 1;
    w.tables[0] = (baton_table_t){.blocks = numbers, .num_blocks = ARENA_ENTRIES + 1};
    want_is_taken(w);
    w.mode = BATON_MODE_PUSH;
    want_is_refused(w, BATON_EINVAL, NO_FIT);
    w.num_tokens = w.tables[0].num_blocks = ARENA_ENTRIES;
    want_is_taken(w);
}

/* What can never fit is refused at once, and what just fits is taken. */
static void tables_fit_the_arena(void)
{
    for (uint32_t i = 0; i <= ARENA_ENTRIES; i++)
        numbers[i] = i;
    who();
    shape(false);
    f.geometry.groups[0] = (baton_group_t){.block_tokens = 1, .num_blocks = ARENA_ENTRIES + 1};
    CHECK_EQ(baton_geometry_layout(&f.geometry, f.tensors, 0), 0);
    setenv("BATON_TABLE_BYTES", ARENA, 1);
    start();
    unsetenv("BATON_TABLE_BYTES");
    offers_fit_the_arena();
    chunks_fit_the_arena();
    wants_fit_the_arena();
    down();
}

/* Opens with room for two calls, both of which may have leases. The caller's thread makes the turns. */
static void up_with_two_places(void)
{
    who();
    f.me.progress = BATON_PROGRESS_CALLER;
    shape(false);
    setenv("BATON_REQUESTS", "2", 1);
    setenv("BATON_LEASES", "2", 1);
    start();
    unsetenv("BATON_REQUESTS");
    unsetenv("BATON_LEASES");
}

/* Both places are free. */
static void two_offers_are_taken(void)
{
    static const char *const keys[] = {"one", "two"};
    baton_id_t ids[2] = {0};
    for (int i = 0; i < 2; i++) {
        baton_offer_params_t o = an_offer(keys[i]);
        CHECK_EQ(baton_offer(f.b, &o, &ids[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        if (ids[i] != 0)
            is_open(ids[i]);
}

/* The consumers of an offer are looked at last: it has its place by then. */
static void an_offer_that_is_refused_late_keeps_no_place(void)
{
    const char *const nobody = "nobody";
    baton_offer_params_t o = an_offer("k");
    up_with_two_places();
    o.consumers = &nobody;
    o.num_consumers = 1;
    for (int i = 0; i < 10; i++)
        offer_is_refused(o, BATON_EENGINE, "no engine is called nobody");
    two_offers_are_taken();
    down();
}

/* Cancellations fill the queue, which holds four and which nobody empties. A later call finds a place, and no room. */
static void a_call_that_meets_a_full_queue_keeps_no_place(void)
{
    static const char words[] = "the submission queue is full: poll events, or raise BATON_REQUESTS";
    baton_offer_params_t o = an_offer("k");
    baton_want_params_t w = a_want("w");
    baton_id_t id = 0;
    int rc = 0;
    up_with_two_places();
    CHECK_EQ(baton_offer(f.b, &o, &id), 0);
    for (int i = 0; rc == 0 && i < 1000; i++)
        rc = baton_cancel(f.b, id);
    REFUSED(rc, BATON_EAGAIN, words);
    for (int i = 0; i < 10; i++) {
        w.mode = i % 2 ? BATON_MODE_PUSH : BATON_MODE_PULL;
        want_is_refused(w, BATON_EAGAIN, words);
        offer_is_refused(an_offer("o"), BATON_EAGAIN, words);
    }
    is_cancelled(id);
    want_is_taken(w);
    two_offers_are_taken();
    down();
}

/* A rank without a cache makes no calls. */
static void without_a_cache_nothing_is_offered(void)
{
    static char page[16384];
    baton_t *b;
    who();
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &b), 0);
    if (CHECK_EQ(baton_start(b), 0)) {
        baton_want_params_t w = a_want("k");
        baton_offer_params_t o = an_offer("k");
        REFUSED(baton_want(b, &w, NULL), BATON_ESTATE, "this rank declared no cache");
        REFUSED(baton_offer(b, &o, NULL), BATON_ESTATE, "this rank declared no cache");
        CHECK(baton_describe(b, page, sizeof page) > 0);
        CHECK_HAS(page, "\nmemory: no cache\n");
    }
    CHECK_EQ(baton_close(b), 0);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(open_looks_at_its_params);
    RUN(caches_look_at_theirs);
    RUN(layouts_look_at_their_geometry);
    RUN(what_is_not_there_is_refused);
    RUN(offers_look_at_their_params);
    RUN(wants_look_at_their_params);
    RUN(tables_are_looked_at);
    RUN(tables_fit_the_arena);
    RUN(an_offer_that_is_refused_late_keeps_no_place);
    RUN(a_call_that_meets_a_full_queue_keeps_no_place);
    RUN(without_a_cache_nothing_is_offered);
    return harness_end();
}
