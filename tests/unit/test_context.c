/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: whole contexts in one process, over a ground, a net and a world that are made up (with_node.h), and without
 * MPI. All else of the runtime is as it is in production: what one offers, the other gets.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/peer.h"
#include "with_geometry.h"
#include "with_node.h"
#include "with_regions.h"
#include "with_tune.h"

enum { BLOCKS = 8, BLOCK_TOKENS = 16, REQUESTS = 20 };
enum { PREFILL, DECODE, OTHER, ENGINES };

static const uint32_t offered[] = {1, 6, 2}, wanted[] = {5, 0, 3};
#define TABLE (sizeof offered / sizeof offered[0])

static struct node node;
static unsigned num_engines;

/* A member, in a thread of its own for the calls that wait for the other. */
static struct engine {
    baton_t *b;
    baton_cache_t *cache;
    uint64_t block_bytes;
    void *memory;
    uint32_t flags;
    baton_role_t role;
    int opened, started, closed;
    char sentence[256];
    pthread_t thread;
} engines[ENGINES];

static const char *const names[] = {"prefill", "decode", "other"};

static uint8_t *block(const struct engine *e, uint32_t number)
{
    uint8_t *base = e->memory != NULL ? e->memory : baton_cache_base(e->cache);
    return base + number * e->block_bytes;
}

static void note(struct engine *e)
{
    snprintf(e->sentence, sizeof e->sentence, "%s", baton_errmsg());
}

static int declare(struct engine *e)
{
    baton_geometry_t g = small_geometry(BLOCK_TOKENS, BLOCKS);
    baton_tensor_t tensor;
    int rc = baton_geometry_layout(&g, &tensor, BATON_LAYOUT_BLOCK_MAJOR);
    e->block_bytes = g.bytes / BLOCKS;
    if (rc != 0 || (e->flags & BATON_OPEN_CACHE_LATER) == 0)
        return rc != 0 ? rc : baton_cache_create(e->b, &g, BATON_MEMORY_HOST, &e->cache);
    e->memory = aligned_alloc(4096, g.bytes); /* a cache that comes late is the engine's own */
    const baton_region_t region = region_of(BATON_MEMORY_HOST, e->memory, g.bytes);
    return baton_cache_wrap(e->b, &g, &region, 1, &e->cache);
}

static void *bring_up(void *arg)
{
    struct engine *e = arg;
    const unsigned which = (unsigned)(e - engines);
    baton_open_params_t p = {.size = sizeof p, .role = e->role, .tp = 1, .pp = 1, .flags = e->flags};
    strcpy(p.engine, names[which]);
    e->opened = node_open(&node.member[which], &p, &e->b);
    if (e->opened == 0 && (e->flags & BATON_OPEN_CACHE_LATER) == 0)
        assert_int_equal(declare(e), 0);
    if (e->opened == 0)
        e->started = baton_start(e->b);
    note(e);
    return NULL;
}

static void *bring_down(void *arg)
{
    struct engine *e = arg;
    e->closed = baton_close(e->b);
    note(e);
    return NULL;
}

static void both(void *(*run)(void *arg))
{
    for (unsigned i = 0; i < num_engines; i++)
        assert_int_equal(pthread_create(&engines[i].thread, NULL, run, &engines[i]), 0);
    for (unsigned i = 0; i < num_engines; i++)
        pthread_join(engines[i].thread, NULL);
}

/* So many engines, of which so many share a node. */
static void prepare(unsigned num, uint32_t a_node, uint32_t flags)
{
    num_engines = num;
    node_init(&node, num, a_node);
    memset(engines, 0, sizeof engines);
    for (unsigned i = 0; i < num_engines; i++) {
        engines[i].role = i == PREFILL ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
        engines[i].flags = flags;
    }
}

static void start(void)
{
    both(bring_up);
    for (unsigned i = 0; i < num_engines; i++)
        if (engines[i].opened != 0 || engines[i].started != 0)
            fail_msg("%s: %s", names[i], engines[i].sentence);
}

static void up(unsigned num, uint32_t a_node, uint32_t flags)
{
    prepare(num, a_node, flags);
    start();
}

static void down(void)
{
    both(bring_down);
    for (unsigned i = 0; i < num_engines; i++)
        if (engines[i].closed != 0)
            fail_msg("%s: %s", names[i], engines[i].sentence);
    for (unsigned i = 0; i < num_engines; i++)
        free(engines[i].memory);
    node_fini(&node);
}

static baton_event_t next(const struct engine *e)
{
    const uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    struct pollfd p = {.fd = baton_event_fd(e->b), .events = POLLIN};
    baton_event_t event;
    while (baton_poll(e->b, &event, 1) != 1) {
        assert_true(clock_now_ns() < until);
        poll(&p, 1, 100);
    }
    return event;
}

/* The next event, which ends a call well. */
static baton_event_t done(const struct engine *e, baton_event_type_t type)
{
    const baton_event_t event = next(e);
    assert_int_equal(event.type, type);
    if (event.error != 0)
        fail_msg("%s: %s", baton_strerror(event.error), event.detail);
    return event;
}

static void offer_blocks(const struct engine *e, const char *key)
{
    const baton_offer_params_t offer = {.size = sizeof offer,
                                        .key = key,
                                        .num_tables = 1,
                                        .tables = {{.blocks = offered, .num_blocks = TABLE}},
                                        .num_tokens = TABLE * BLOCK_TOKENS};
    assert_int_equal(baton_offer(e->b, &offer, NULL), 0);
}

static void want_blocks(const struct engine *e, const char *key, baton_mode_t mode)
{
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = key,
                                      .engine = names[PREFILL],
                                      .mode = mode,
                                      .num_tables = 1,
                                      .tables = {{.blocks = wanted, .num_blocks = TABLE}},
                                      .num_tokens = TABLE * BLOCK_TOKENS};
    assert_int_equal(baton_want(e->b, &want, NULL), 0);
}

/* One hand-off: bytes of the offered blocks arrive in the wanted ones, by that path. */
static void hand_off(unsigned number, unsigned decode, baton_mode_t mode, baton_path_t path)
{
    const struct engine *from = &engines[PREFILL], *to = &engines[decode];
    char key[BATON_KEY_MAX];
    snprintf(key, sizeof key, "request-%u", number);
    for (unsigned i = 0; i < TABLE; i++) {
        memset(block(from, offered[i]), (int)(number * TABLE + i + 1), from->block_bytes);
        memset(block(to, wanted[i]), 0, to->block_bytes);
    }
    if (number % 2 == 0) /* they meet in either order */
        offer_blocks(from, key);
    want_blocks(to, key, mode);
    if (number % 2 == 1)
        offer_blocks(from, key);
    const baton_event_t event = done(to, BATON_EVENT_WANT);
    assert_int_equal(event.bytes, TABLE * to->block_bytes);
    assert_int_equal(event.path_bytes[path], event.bytes);
    done(from, BATON_EVENT_OFFER);
    for (unsigned i = 0; i < TABLE; i++)
        assert_memory_equal(block(from, offered[i]), block(to, wanted[i]), to->block_bytes);
}

static void hand_off_many(baton_path_t path)
{
    for (unsigned i = 0; i < REQUESTS; i++)
        hand_off(i, DECODE, i % 4 < 2 ? BATON_MODE_PULL : BATON_MODE_PUSH, path);
}

static uint32_t sent(void)
{
    return node.member[PREFILL].sent + node.member[DECODE].sent;
}

static uint32_t moves(void)
{
    return node.member[PREFILL].moves + node.member[DECODE].moves;
}

/* Neighbours meet by words, and their messages go by lanes: the net has nothing to do. */
static void test_neighbours(void **state)
{
    (void)state;
    up(2, 2, 0);
    hand_off_many(BATON_PATH_SHM);
    char text[4096];
    assert_in_range(baton_describe(engines[DECODE].b, text, sizeof text), 1, sizeof text - 1);
    assert_non_null(strstr(text, "world: member 1 of 2, made up\nmade up\n"));
    assert_non_null(strstr(text, "paths: 2 ranks by shm"));
    assert_non_null(strstr(text, "offers of the node by words; messages of the node by lanes"));
    down();
    assert_int_equal(sent(), 0);
    assert_int_equal(moves(), 0);
}

/* Without words and lanes, the net carries the messages of neighbours. */
static void test_neighbours_without_words(void **state)
{
    (void)state;
    tune("handoff", "0");
    up(2, 2, 0);
    tune("handoff", NULL);
    hand_off_many(BATON_PATH_SHM);
    down();
    assert_in_range(sent(), 2 * REQUESTS, UINT32_MAX);
    assert_int_equal(moves(), 0);
}

/* All goes over the net. */
static void test_members_of_two_nodes(void **state)
{
    (void)state;
    up(2, 1, 0);
    hand_off_many(BATON_PATH_RMA);
    down();
    assert_in_range(sent(), 2 * REQUESTS, UINT32_MAX);
    assert_in_range(moves(), REQUESTS, UINT32_MAX);
}

static uint64_t lent(const struct engine *e)
{
    const count_t *count = e->b->loop.turns.count;
    return count_of(&count[TURNS_CALL]) + count_of(&count[TURNS_POLL]) + count_of(&count[TURNS_WORKER]);
}

/* Turns are lent beside a member of another node too, and call nothing of the net (with_node.h). */
static void test_a_neighbour_and_a_member_of_another_node(void **state)
{
    (void)state;
    up(3, 2, 0);
    for (unsigned i = 0; i < REQUESTS; i++) {
        hand_off(2 * i, DECODE, i % 4 < 2 ? BATON_MODE_PULL : BATON_MODE_PUSH, BATON_PATH_SHM);
        hand_off(2 * i + 1, OTHER, i % 4 < 2 ? BATON_MODE_PULL : BATON_MODE_PUSH, BATON_PATH_RMA);
    }
    assert_true(lent(&engines[PREFILL]) > 0 && lent(&engines[DECODE]) > 0);
    assert_int_equal(lent(&engines[OTHER]), 0); /* all that it does needs the net */
    down();
}

static void come_late(uint32_t a_node, baton_path_t path)
{
    up(2, a_node, BATON_OPEN_CACHE_LATER);
    const baton_want_params_t want = {.size = sizeof want, .key = "early", .engine = names[PREFILL]};
    assert_int_equal(baton_want(engines[DECODE].b, &want, NULL), BATON_EAGAIN);
    for (unsigned i = 0; i < num_engines; i++) {
        assert_int_equal(baton_cache_ready(engines[i].b), BATON_EAGAIN);
        assert_int_equal(declare(&engines[i]), 0);
    }
    const uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    for (unsigned i = 0; i < num_engines; i++)
        while (baton_cache_ready(engines[i].b) == BATON_EAGAIN && clock_now_ns() < until)
            poll(NULL, 0, 1);
    hand_off_many(path);
    down();
}

static void test_caches_that_come_late(void **state)
{
    (void)state;
    come_late(2, BATON_PATH_CMA);
    come_late(1, BATON_PATH_RMA);
}

/* The version that the next event has, which tells of engines. */
static uint64_t heard(const struct engine *e)
{
    const baton_event_t event = next(e);
    assert_int_equal(event.type, BATON_EVENT_ENGINES);
    assert_int_equal(event.error, 0);
    assert_int_equal(event.id, 0);
    return event.version;
}

static int want_of(const struct engine *e, const char *engine)
{
    const baton_want_params_t w = {.size = sizeof w, .key = "k", .engine = engine, .num_tokens = 1};
    return baton_want(e->b, &w, NULL);
}

/* Engines that come and go while the context is open: a poller hears the newest version, and calls know it. */
static void test_engines_that_come_and_go(void **state)
{
    (void)state;
    up(2, 2, BATON_OPEN_ENGINES);
    const struct engine *e = &engines[DECODE];
    struct baton *b = e->b;
    baton_engine_t there[ENGINES];
    baton_event_t event;
    uint64_t version = 0;
    assert_int_equal(baton_engines(b, &version, there, ENGINES), 2);
    assert_string_equal(there[0].name, "decode");
    assert_string_equal(there[1].name, "prefill");
    assert_int_equal(heard(&engines[PREFILL]), version);
    assert_int_equal(heard(e), version);
    assert_int_equal(baton_poll(b, &event, 1), 0);
    hand_off(0, DECODE, BATON_MODE_PULL, BATON_PATH_SHM);
    assert_true(owned_take(&b->loop.turns.lock, clock_now_ns() + 60 * CLOCK_NS_PER_S)); /* whoever makes turns */
    assert_int_equal(fleet_withdraw(b->fleet, "prefill", there[1].life), 0);
    context_tell_engines(b);
    assert_int_equal(want_of(e, "prefill"), BATON_EENGINE);
    assert_int_equal(baton_engine_ranks(b, "prefill", NULL, 0), BATON_EENGINE);
    assert_int_equal(baton_engines(b, &version, NULL, 0), 1);
    assert_int_equal(fleet_publish(b->fleet, b->directory, DECODE, b->directory->engine_of[PREFILL]), 0);
    context_tell_engines(b);
    owned_give(&b->loop.turns.lock);
    assert_int_equal(heard(e), version + 1);
    assert_int_equal(baton_poll(b, &event, 1), 0);
    hand_off(1, DECODE, BATON_MODE_PULL, BATON_PATH_SHM);
    down();
}

static baton_log_source_t said_by;
static char said[256];

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level;
    said_by = *source;
    snprintf(said, sizeof said, "%s", line);
}

/* A line of the log, and an event, name engines with their lives and their ranks' indexes. */
static void test_a_failure_names_who_says_it_and_of_whom(void **state)
{
    (void)state;
    baton_engine_t there[ENGINES];
    baton_engine_rank_t peer;
    baton_log_set(hear, NULL);
    up(2, 2, 0);
    baton_log_set(NULL, NULL);
    baton_t *b = engines[DECODE].b;
    assert_int_equal(baton_engines(b, NULL, there, ENGINES), 2);
    assert_int_equal(baton_engine_ranks(b, "prefill", &peer, 1), 1);
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = "late",
                                   .engine = "prefill",
                                   .num_tables = 1,
                                   .tables = {{.blocks = wanted, .num_blocks = TABLE}},
                                   .num_tokens = TABLE * BLOCK_TOKENS,
                                   .timeout_ms = 20};
    assert_int_equal(baton_want(b, &w, NULL), 0);
    const baton_event_t event = next(&engines[DECODE]);
    assert_int_equal(event.error, BATON_ETIMEDOUT);
    assert_true(event.peer == peer.number && event.peer_life == there[1].life && event.peer_rank == 0);
    assert_string_equal(event.peer_engine, "prefill");
    assert_string_equal(said_by.engine, "decode");
    assert_true(said_by.life == there[0].life && said_by.rank == 0 && said_by.world_rank == DECODE);
    assert_non_null(strstr(said, "key=\"late\" peer=prefill:0 "));
    down();
}

static baton_event_t end_of_a_want(uint32_t flags, const char *engine, const char *key)
{
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = engine,
                                   .num_tables = 1,
                                   .tables = {{.blocks = wanted, .num_blocks = TABLE}},
                                   .num_tokens = TABLE * BLOCK_TOKENS,
                                   .flags = flags,
                                   .timeout_ms = 20};
    assert_int_equal(baton_want(engines[DECODE].b, &w, NULL), 0);
    return next(&engines[DECODE]);
}

/* Standard error is a pipe that is full: calls end at their deadlines all the same, and close returns. */
static void test_a_log_that_nobody_reads(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c"};
    char bytes[1000] = {0};
    int ends[2], error[3], closed[2];
    const int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], bytes, sizeof bytes) > 0 || write(ends[1], bytes, 1) > 0)
        continue;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    up(2, 2, 0);
    const uint64_t since = clock_now_ns();
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        error[i] = end_of_a_want(0, "prefill", keys[i]).error;
    both(bring_down);
    dup2(saved, STDERR_FILENO);
    closed[0] = engines[PREFILL].closed, closed[1] = engines[DECODE].closed;
    for (int i = 0; i < 3; i++)
        assert_int_equal(error[i], BATON_ETIMEDOUT);
    assert_int_equal(closed[0], 0);
    assert_int_equal(closed[1], 0);
    assert_true(clock_now_ns() < since + 30 * CLOCK_NS_PER_S);
    node_fini(&node);
    close(saved);
    close(ends[0]);
    close(ends[1]);
}

/* An engine that is not there: EENGINE at once, or the deadline. One that is there is not waited for. */
static void test_a_want_that_awaits_its_engine(void **state)
{
    (void)state;
    baton_want_params_t w = {.size = sizeof w, .key = "k", .engine = "nobody", .flags = BATON_WANT_AWAIT_ENGINE};
    char longer[BATON_ENGINE_NAME_MAX + 1];
    up(2, 2, 0);
    baton_event_t event = end_of_a_want(BATON_WANT_AWAIT_ENGINE, "nobody", "k");
    assert_int_equal(event.status, BATON_STATUS_EXPIRED);
    assert_int_equal(event.error, BATON_ETIMEDOUT);
    event = end_of_a_want(BATON_WANT_AWAIT_ENGINE, "prefill", "k");
    assert_string_equal(event.detail,
                        "its deadline passed before it was granted: no offer came, or the producer is silent");
    w.life = 7;
    assert_int_equal(baton_want(engines[DECODE].b, &w, NULL), BATON_EGONE);
    w.life = 0;
    memset(longer, 'n', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    w.engine = longer;
    assert_int_equal(baton_want(engines[DECODE].b, &w, NULL), BATON_EENGINE);
    w.engine = "";
    assert_int_equal(baton_want(engines[DECODE].b, &w, NULL), BATON_EENGINE);
    w.flags = 0;
    w.engine = "nobody";
    assert_int_equal(baton_want(engines[DECODE].b, &w, NULL), BATON_EENGINE);
    down();
}

/* What is wrong with one, all are told of. */
static void test_members_agree(void **state)
{
    (void)state;
    num_engines = 2;
    node_init(&node, 2, 2);
    memset(engines, 0, sizeof engines);
    engines[PREFILL].role = BATON_ROLE_PREFILL;
    engines[DECODE].role = 77;
    both(bring_up);
    for (unsigned i = 0; i < num_engines; i++) {
        assert_int_equal(engines[i].opened, BATON_EINVAL);
        assert_string_equal(engines[i].sentence, "member 1: role 77 is none of prefill, decode, both");
        assert_null(engines[i].b);
    }
    node_fini(&node);
}

/* ---- without a world --------------------------------------------------------------------------------------------- */

#define LONG_MS 20000 /* quiet_ms where closing must not need it */

/* Of a context without a world, whose ground and net are closed with it, unless something still uses them. */
static uint64_t close_alone(unsigned which, int result)
{
    const uint64_t began = clock_now_ns();
    const int rc = baton_close(engines[which].b);
    const uint64_t ms = (clock_now_ns() - began) / CLOCK_NS_PER_MS;
    print_message("%s closes alone: %s after %d ms\n", names[which], baton_strerror(rc), (int)ms);
    assert_int_equal(rc, result);
    assert_int_equal(node.member[which].fakes.asked.net_close, rc == 0);
    return ms;
}

static uint64_t messages_received(const struct engine *e)
{
    baton_stats_t stats = {.size = sizeof stats};
    assert_int_equal(baton_stats(e->b, &stats), 0);
    return stats.messages_received;
}

/* Whether that engine's rank knows that the other has left. */
static bool knows_of_leave(const struct engine *e, uint32_t peer)
{
    struct turns *t = &e->b->loop.turns;
    assert_true(owned_take(&t->lock, clock_now_ns() + 60 * CLOCK_NS_PER_S)); /* whoever makes turns */
    const bool knows = peer_has_left(e->b->core, peer);
    owned_give(&t->lock);
    return knows;
}

/* Offers are retracted, calls end at both sides, and the peer hears who has left. */
static void close_with_open_calls(uint32_t a_node, baton_path_t path)
{
    const uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    char text[4096];
    tune("quiet_ms", "20000");
    up(2, a_node, 0);
    tune("quiet_ms", NULL);
    node_alone(&node);
    hand_off(0, DECODE, BATON_MODE_PULL, path);
    assert_in_range(baton_describe(engines[DECODE].b, text, sizeof text), 1, sizeof text - 1);
    assert_null(strstr(text, "world:"));
    const uint64_t received = messages_received(&engines[PREFILL]);
    offer_blocks(&engines[PREFILL], "nobody wants it");
    want_blocks(&engines[DECODE], "nobody offers it", BATON_MODE_PULL);
    while (messages_received(&engines[PREFILL]) == received && clock_now_ns() < until)
        poll(NULL, 0, 1);
    assert_true(close_alone(PREFILL, 0) < LONG_MS);
    const baton_event_t event = next(&engines[DECODE]);
    assert_true(event.type == BATON_EVENT_WANT && event.error == BATON_ECLOSED);
    while (!knows_of_leave(&engines[DECODE], PREFILL) && clock_now_ns() < until)
        poll(NULL, 0, 1);
    assert_true(knows_of_leave(&engines[DECODE], PREFILL));
    want_blocks(&engines[DECODE], "nobody is there", BATON_MODE_PULL);
    assert_true(close_alone(DECODE, 0) < LONG_MS);
    node_fini(&node);
}

static void test_closing_alone_with_open_calls(void **state)
{
    (void)state;
    close_with_open_calls(2, BATON_PATH_SHM);
    close_with_open_calls(1, BATON_PATH_RMA);
}

/* A producer that makes turns in calls alone: it makes them until it is about to write, and none after that. */
static void push_of_one_that_falls_silent(uint32_t a_node, int process)
{
    const uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    prepare(2, a_node, 0);
    node.member[PREFILL].mode = BATON_PROGRESS_CALLER;
    if (process != 0)
        node.member[PREFILL].process = process;
    start();
    node_alone(&node);
    offer_blocks(&engines[PREFILL], "key");
    want_blocks(&engines[DECODE], "key", BATON_MODE_PUSH);
    while (node.member[PREFILL].sent == 0 && clock_now_ns() < until)
        baton_progress(engines[PREFILL].b);
    assert_int_equal(node.member[PREFILL].sent, 1); /* GRANT */
}

/* It may still write: closing gives up after quiet_ms, and frees nothing. */
static void test_closing_alone_with_a_silent_peer(void **state)
{
    enum { QUIET_MS = 300 };
    static baton_t *kept;
    (void)state;
    tune("quiet_ms", "300");
    push_of_one_that_falls_silent(1, 0);
    tune("quiet_ms", NULL);
    kept = engines[DECODE].b;
    assert_in_range(close_alone(DECODE, BATON_EPEER), QUIET_MS, LONG_MS);
    assert_non_null(strstr(baton_errmsg(), "transfers did not come to rest"));
    assert_string_equal(kept->who.engine, "decode"); /* it is still there */
    assert_true(close_alone(PREFILL, 0) < LONG_MS);
    node_fini(&node);
}

/* It has died, and writes no more. */
static void test_closing_alone_with_a_dead_peer(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        pause();
        _exit(1);
    }
    tune("handoff", "0"); /* by messages: the want is granted in a turn of its producer */
    tune("quiet_ms", "20000");
    push_of_one_that_falls_silent(2, child);
    tune("handoff", NULL);
    tune("quiet_ms", NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(close_alone(DECODE, 0) < LONG_MS);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(close_alone(PREFILL, 0) < LONG_MS);
    node_fini(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_neighbours_without_words),
        cmocka_unit_test(test_members_of_two_nodes),
        cmocka_unit_test(test_caches_that_come_late),
        cmocka_unit_test(test_a_neighbour_and_a_member_of_another_node),
        cmocka_unit_test(test_engines_that_come_and_go),
        cmocka_unit_test(test_a_failure_names_who_says_it_and_of_whom),
        cmocka_unit_test(test_a_log_that_nobody_reads),
        cmocka_unit_test(test_a_want_that_awaits_its_engine),
        cmocka_unit_test(test_members_agree),
        cmocka_unit_test(test_closing_alone_with_open_calls),
        cmocka_unit_test(test_closing_alone_with_a_silent_peer),
        cmocka_unit_test(test_closing_alone_with_a_dead_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
