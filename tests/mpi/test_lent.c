/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_lent: turns that calls, polls and copy workers make within a node while the reactor sleeps. Ranks are pairs:
 * each even one is a prefill engine of its own, and the next one a decode engine that wants from it alone.
 */
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/process.h"
#include "baton.h"
#include "front/context.h"
#include "harness.h"
#include "shm/lanes.h"
#include "with_clock.h"
#include "with_tune.h"

#define BLOCKS 1024
#define BLOCK_TOKENS 16
#define BLOCK_BYTES 4096 /* BLOCK_TOKENS tokens of 64 channels of 4 bytes, in one layer, plane and head */

static struct {
    baton_t *b;
    baton_cache_t *cache;
    char mine[BATON_ENGINE_NAME_MAX], theirs[BATON_ENGINE_NAME_MAX];
    bool producer, consumer;
    pid_t peer; /* the process of the other one of my pair */
} f;

static void up_as(baton_progress_mode_t progress)
{
    baton_tensor_t tensor;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "f32",
                          .elem_bytes = 4,
                          .planes = 1,
                          .head_size = 64,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_open_params_t me = {.size = sizeof me, .tp = 1, .pp = 1, .progress = progress};
    int peer = harness.rank ^ 1, pid = getpid(), other = 0;
    memset(&f, 0, sizeof f);
    f.producer = harness.rank % 2 == 0 && peer < harness.size;
    f.consumer = harness.rank % 2 == 1;
    if (peer < harness.size)
        MPI_Sendrecv(&pid, 1, MPI_INT, peer, 0, &other, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    f.peer = other;
    snprintf(f.mine, sizeof f.mine, "e%d", harness.rank);
    snprintf(f.theirs, sizeof f.theirs, "e%d", peer);
    me.role = f.consumer ? BATON_ROLE_DECODE : BATON_ROLE_PREFILL;
    strcpy(me.engine, f.mine);
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &me, &f.b), 0) ||
        !CHECK_EQ(baton_cache_create(f.b, &g, BATON_MEMORY_HOST, &f.cache), 0) || !CHECK_EQ(baton_start(f.b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
}

static void up(void)
{
    up_as(BATON_PROGRESS_AUTO);
}

static void down(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(f.b), 0);
}

static uint8_t *block(uint32_t i)
{
    return (uint8_t *)baton_cache_base(f.cache) + (size_t)i * BLOCK_BYTES;
}

static uint8_t byte_of(uint32_t i, uint32_t k)
{
    return (uint8_t)(i * 37 + k * 11 + k / 256 + 1);
}

/* Offers block i, with bytes of its own. */
static void offer(uint32_t i)
{
    char key[16];
    snprintf(key, sizeof key, "k%u", i);
    for (uint32_t k = 0; k < BLOCK_BYTES; k++)
        block(i)[k] = byte_of(i, k);
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = &i, .num_blocks = 1}},
                              .num_tokens = BLOCK_TOKENS,
                              .ttl_ms = 60000};
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
}

static void want(uint32_t i)
{
    char key[16];
    uint32_t to = BLOCKS - 1 - i;
    snprintf(key, sizeof key, "k%u", i);
    memset(block(to), 0, BLOCK_BYTES);
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = f.theirs,
                             .num_tables = 1,
                             .tables = {{.blocks = &to, .num_blocks = 1}},
                             .num_tokens = BLOCK_TOKENS,
                             .timeout_ms = 30000};
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
}

/* Takes n events, all of which must be good. When the last one was there, in ms; 0: not within `ms`. */
static double take(int n, double ms)
{
    for (double until = now_ms() + ms; n > 0;) {
        baton_event_t e;
        if (baton_poll(f.b, &e, 1) == 1) {
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            n--;
        } else if (now_ms() > until) {
            return 0;
        } else {
            usleep(200);
        }
    }
    return now_ms();
}

static uint32_t wrong(uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < BLOCK_BYTES; k++)
        n += block(BLOCKS - 1 - i)[k] != byte_of(i, k);
    return n;
}

/* The first contact takes messages. */
static void meet(void)
{
    if (f.producer)
        offer(0);
    if (f.consumer)
        want(0);
    if (f.producer || f.consumer)
        CHECK(take(1, 20000) > 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The event is there when baton_want returns: often, since the reactor may be making a turn of its own. */
static void a_short_transfer_is_made_by_its_caller(void)
{
    enum { TRIES = 60 };
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up();
    meet();
    uint32_t at_once = 0;
    for (uint32_t i = 1; f.producer && i <= TRIES; i++)
        offer(i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t i = 1; f.consumer && i <= TRIES; i++) {
        baton_event_t e;
        usleep(1000); /* the reactor falls asleep */
        want(i);
        if (baton_poll(f.b, &e, 1) == 1) {
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            at_once++;
        } else {
            CHECK(take(1, 20000) > 0);
        }
        CHECK_EQ(wrong(i), 0);
    }
    CHECK(!f.consumer || at_once >= TRIES / 6);
    if (f.producer)
        CHECK(take(TRIES, 20000) > 0);
    down();
}

/* With a tunable, or a variable of the environment. */
static void up_with(const char *setting, const char *value)
{
    const bool is_variable = isupper((unsigned char)setting[0]);
    if (is_variable)
        setenv(setting, value, 1);
    else
        tune(setting, value);
    up();
    if (is_variable)
        unsetenv(setting);
    else
        tune(setting, NULL);
}

static baton_stats_t stats(void)
{
    baton_stats_t s = BATON_INIT(baton_stats_t);
    CHECK_EQ(baton_stats(f.b, &s), 0);
    return s;
}

/* The worker that copied the last bytes reports the transfer, unless the reactor is awake still. */
static void a_long_transfer_is_reported_by_its_worker(void)
{
    enum { TRIES = 60 };
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up_with("inline_bytes", "0"); /* any is long */
    meet();
    const uint64_t before = stats().turns_workers;
    for (uint32_t i = 1; f.producer && i <= TRIES; i++)
        offer(i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t i = 1; f.consumer && i <= TRIES; i++) {
        usleep(1000); /* the reactor falls asleep */
        want(i);
        CHECK(take(1, 20000) > 0);
        CHECK_EQ(wrong(i), 0);
    }
    CHECK(!f.consumer || harness.size > 2 || stats().turns_workers > before);
    if (f.producer)
        CHECK(take(TRIES, 20000) > 0);
    down();
}

#ifndef __has_feature
#define __has_feature(name) 0 /* clang's */
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define IS_SANITIZED true /* nothing is quick */
#else
#define IS_SANITIZED false
#endif
#define COPYINGS 20

/* Block i of many_copies has this byte throughout, if a transfer brings it. */
static uint8_t fill_of(uint32_t i)
{
    return (uint8_t)(1 + i % 251);
}

static uint32_t filled_wrongly(uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < BLOCK_BYTES; k++)
        n += block(i)[k] != fill_of(i);
    return n;
}

/* How many of COPYINGS transfers of 240 copies each take less than 1.9 ms. */
static int many_copies(void)
{
    enum { COPIES = 240, BLOCKS_A_COPY = 4 };
    uint32_t blocks[COPIES * BLOCKS_A_COPY];
    int quick = 0;
    for (uint32_t i = 0; i < COPIES * BLOCKS_A_COPY; i++) {
        blocks[i] = i;
        memset(block(i), f.producer ? fill_of(i) : 0, BLOCK_BYTES);
    }
    const baton_table_t table = {blocks, COPIES * BLOCKS_A_COPY, 0};
    for (int i = 0; i < COPYINGS; i++) {
        const char key[] = {'m', (char)('0' + i), '\0'};
        const baton_offer_params_t o = {.size = sizeof o,
                                        .key = key,
                                        .num_tables = 1,
                                        .tables = {table},
                                        .num_tokens = table.num_blocks * BLOCK_TOKENS,
                                        .ttl_ms = 60000};
        const baton_want_params_t w = {.size = sizeof w,
                                       .key = key,
                                       .engine = f.theirs,
                                       .num_tables = 1,
                                       .tables = {table},
                                       .num_tokens = o.num_tokens,
                                       .timeout_ms = 30000};
        CHECK(!f.producer || baton_offer(f.b, &o, NULL) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(30000); /* all threads fall asleep */
        const double began = now_ms();
        CHECK(!f.consumer || baton_want(f.b, &w, NULL) == 0);
        if (f.producer || f.consumer)
            CHECK(take(1, 20000) > 0);
        quick += f.consumer && now_ms() - began < 1.9;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (uint32_t i = 0; f.consumer && i < COPIES * BLOCKS_A_COPY; i++)
        CHECK_EQ(filled_wrongly(i), 0);
    return quick;
}

/*
 * The ends of more copies than one turn takes, by a worker that is told of the last two alone: it goes on until none is
 * left, since the reactor sleeps for 2 ms. Then most transfers take 1 ms, else nearly all more than 2. On processors
 * that others need all may take longer: such a round is made once more.
 */
static void a_worker_leaves_no_ends_behind(void)
{
    enum { ROUNDS = 20 };
    if (!is_one_node() || harness.size != 2)
        return SKIP("two ranks alone on one node");
    tune("inline_bytes", "0");
    up_with("chunk_bytes", "16384");
    tune("inline_bytes", NULL);
    meet();
    int is_shown = 0;
    for (int round = 0; round < ROUNDS && !is_shown; round++) {
        is_shown = many_copies() >= COPYINGS / 4 || IS_SANITIZED;
        MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    CHECK(is_shown);
    down();
}

/* Transfers whose want is there before their offer, taken by polls without a pause. Returns turns that polls made. */
static uint64_t polled_transfers(uint32_t first, uint32_t count)
{
    const uint64_t before = stats().turns_polls;
    for (uint32_t i = first; i < first + count; i++) {
        if (f.consumer)
            want(i);
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(500);
        if (f.producer)
            offer(i);
        for (double until = now_ms() + 20000; f.consumer && now_ms() < until;) {
            baton_event_t e;
            if (baton_poll(f.b, &e, 1) != 1)
                continue;
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            break;
        }
        CHECK(!f.consumer || wrong(i) == 0);
    }
    const uint64_t turns = stats().turns_polls - before;
    if (f.producer)
        CHECK(take(count, 20000) > 0);
    return turns;
}

/*
 * What a message brings is at hand at the next poll: often, since a thread that polls again and again attends to the
 * bell. Where threads wait for cores, reactors may be first: such a round is made once more.
 */
static void a_poll_makes_turns(void)
{
    enum { TRIES = 60, ROUNDS = 10 };
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up();
    meet();
    int is_shown = 0;
    for (uint32_t round = 0; round < ROUNDS && !is_shown; round++) {
        const uint64_t turns = polled_transfers(1 + round * TRIES, TRIES);
        is_shown = !f.consumer || harness.size > 2 || turns > (IS_SANITIZED ? 0 : TRIES / 6);
        MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    CHECK(is_shown);
    down();
}

/* The want is done within the call, and its event makes the descriptor readable: there a cancelled thread may end. */
static void *want_cancelled(void *number)
{
    pthread_cancel(pthread_self());
    want(*(uint32_t *)number);
    return NULL;
}

/* A thread of the engine is cancelled inside a call that makes turns: these go on, and closing is what it was. */
static void a_thread_that_is_cancelled(void)
{
    enum { TRIES = 20 };
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up();
    CHECK(baton_event_fd(f.b) >= 0); /* only then is it written to */
    meet();
    for (uint32_t i = 1; f.producer && i <= TRIES; i++)
        offer(i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t i = 1; f.consumer && i <= TRIES; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, want_cancelled, &i), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK(take(1, 5000) > 0);
    }
    if (f.producer)
        CHECK(take(TRIES, 20000) > 0);
    down();
}

static bool describes(const char *words)
{
    static char page[65536];
    CHECK(baton_describe(f.b, page, sizeof page) > 0);
    return strstr(page, words) != NULL;
}

/* Transfers whose offer is there before their want, between reactors that sleep. Returns turns that rings made. */
static uint64_t rung_transfers(uint32_t first, uint32_t count)
{
    const uint64_t before = stats().turns_doorbell;
    for (uint32_t i = first; i < first + count; i++) {
        if (f.producer)
            offer(i);
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(2000); /* reactors fall asleep */
        if (f.consumer)
            want(i);
        if (f.producer || f.consumer)
            CHECK(take(1, 20000) > 0);
        CHECK(!f.consumer || wrong(i) == 0);
    }
    return stats().turns_doorbell - before;
}

/*
 * Messages of another node are taken by the thread that hears their rings: often, since the reactor may be awake. Where
 * threads wait for cores, reactors may be first: such a round is made once more.
 */
static void a_ring_makes_turns(void)
{
    enum { TRIES = 60, ROUNDS = 10 };
    if (is_one_node() || harness.size < 2)
        return SKIP("two ranks on two nodes");
    up();
    meet();
    const bool rings = describes("wake this one by UDP");
    int is_shown = 0;
    for (uint32_t round = 0; round < ROUNDS && !is_shown; round++) {
        const uint64_t turns = rung_transfers(1 + round * TRIES, TRIES);
        CHECK(rings || turns == 0);
        is_shown = !rings || harness.size > 2 || turns >= TRIES / 6;
        MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    CHECK(is_shown);
    down();
}

/* How often my pair rang across nodes. Whoever makes turns counts, so this takes their lock. */
static uint32_t rings_so_far(void)
{
    struct owned *turns = &f.b->loop.turns.lock;
    while (!owned_take(turns, clock_now_ns() + 1000 * CLOCK_NS_PER_MS))
        continue;
    uint32_t n = f.b->on.net->rings(f.b->on.net->self);
    owned_give(turns);
    return n;
}

/* A driver of a device may keep state by thread: the thread that hears rings leaves all turns to the reactor then. */
static void a_ring_calls_no_driver(void)
{
    if (is_one_node() || harness.size < 2)
        return SKIP("two ranks on two nodes");
    up_with("PRETEND_MEMORY", "device");
    meet();
    CHECK(describes("; its driver is"));
    const uint32_t before = rings_so_far();
    CHECK_EQ(rung_transfers(1, 20), 0);
    if (describes("wake this one by UDP") && harness.size == 2) /* of more, a pair may be of one node */
        CHECK(rings_so_far() > before);
    down();
}

/*
 * A thread that has polled for long, and then waits for the descriptor, misses nothing. What comes within 5 us of its
 * last poll rings nobody, and is found by a reactor that sleeps for less. Here the bell looks attended for 4 ms longer.
 */
static void a_thread_that_stops_polling_is_woken(void)
{
    enum { TRIES = 10 };
    uint32_t late = 0;
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up_with("sleep_us", "1000000");
    meet();
    struct bell *bell = ground_bell(f.b->on.ground);
    for (uint32_t i = 1; i <= TRIES; i++) {
        baton_event_t e;
        if (f.consumer)
            want(i);
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(200000 + (f.producer ? 2000 : 0)); /* reactors sleep for a second: the polls cut that short */
        if (f.producer)
            offer(i);
        struct pollfd fd = {.fd = baton_event_fd(f.b), .events = POLLIN};
        const double began = now_ms();
        bool took = !f.consumer;
        while (!took && now_ms() - began < 0.6)
            took = baton_poll(f.b, &e, 1) == 1;
        while (!took && now_ms() - began < 4.6)
            bell_attend(bell, clock_now_ns());
        while (!took) {
            CHECK(poll(&fd, 1, 500) == 1);
            took = baton_poll(f.b, &e, 1) == 1;
        }
        late += f.consumer && now_ms() - began > 20;
        CHECK(!f.consumer || wrong(i) == 0);
    }
    CHECK(late <= TRIES / 5); /* a reactor that sleeps on finds half of them later */
    if (f.producer)
        CHECK(take(TRIES, 20000) > 0);
    down();
}

static _Thread_local uint32_t yields; /* of this thread: calls of sched_yield come here */
static _Atomic uint32_t all_yields;   /* of all threads */

int sched_yield(void)
{
    yields++;
    all_yields++;
    return (int)syscall(SYS_sched_yield);
}

/* Of polls: how many there were, how many yielded, and how many of these came right after another that did. */
struct polls {
    uint32_t num, yielded, in_a_row;
};

/*
 * Polls for so many milliseconds, with a pause after each. Until so many have yielded in a row, milliseconds of its own
 * processor time count: on processors that others need it waits for long.
 */
static struct polls poll_for(double ms, useconds_t pause_us, uint32_t enough)
{
    struct polls p = {.num = 0};
    bool did = false;
    const double until = now_ms() + ms, cpu_until = thread_cpu_ms() + ms;
    while (now_ms() < until || (p.in_a_row < enough && thread_cpu_ms() < cpu_until)) {
        baton_event_t e;
        const uint32_t before = yields;
        CHECK_EQ(baton_poll(f.b, &e, 1), 0);
        const bool does = yields != before;
        p.num++;
        p.yielded += does;
        p.in_a_row += does && did;
        did = does;
        if (pause_us > 0)
            usleep(pause_us);
    }
    return p;
}

/* Where other threads make the turns, each poll of a thread that does nothing else lets them have its CPU. */
static void a_thread_that_polls_gives_way(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    up();
    meet();
    const bool lends = is_one_node();
    CHECK_EQ(poll_for(20, 200, 0).yielded, 0);
    const struct polls p = poll_for(50, 0, lends ? 0 : 20);
    CHECK(lends ? p.yielded <= 500 : p.in_a_row >= 20); /* the reactor's own turns are rare */
    down();
}

/* So does a reactor that is told to spin for long. */
static void a_reactor_that_spins_gives_way(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    up_with("spin_us", "1000000");
    meet();
    const uint32_t before = all_yields;
    usleep(50000);
    CHECK(all_yields - before >= 20);
    down();
}

static void *poll_without_a_pause(void *over)
{
    while (!atomic_load((atomic_bool *)over))
        poll_for(1, 0, 0);
    return NULL;
}

/* A thread that polls now and then has other things to do, though another one does nothing else. */
static void a_thread_that_computes_gives_way_to_none(void)
{
    pthread_t thread;
    atomic_bool over = false;
    if (harness.size < 2)
        return SKIP("two ranks");
    up();
    meet();
    CHECK_EQ(pthread_create(&thread, NULL, poll_without_a_pause, &over), 0);
    CHECK_EQ(poll_for(300, 500, 0).yielded, 0);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    down();
}

/* A call that leaves a timer behind wakes the reactor, which would sleep for longer. */
static void a_deadline_is_kept_by_a_reactor_that_sleeps(void)
{
    enum { SHORT_MS = 100, SOON_MS = 500 };
    if (harness.size < 2)
        return SKIP("two ranks");
    up_with("sleep_us", "1000000");
    meet();
    usleep(100000); /* it sleeps for a second now */
    if (f.consumer) {
        const uint32_t to = 0;
        baton_event_t e;
        baton_want_params_t w = {.size = sizeof w,
                                 .key = "nobody offers this",
                                 .engine = f.theirs,
                                 .num_tables = 1,
                                 .tables = {{.blocks = &to, .num_blocks = 1}},
                                 .num_tokens = BLOCK_TOKENS,
                                 .timeout_ms = SHORT_MS};
        CHECK_EQ(baton_want(f.b, &w, NULL), 0);
        usleep(SOON_MS * 1000);
        CHECK_EQ(baton_poll(f.b, &e, 1), 1);
        CHECK_EQ(e.status, BATON_STATUS_EXPIRED);
    }
    down();
}

/* Callers make short transfers for a while only: what they queue beyond that is the reactor's, and is done too. */
static void many_calls_without_a_poll(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    up();
    meet();
    for (uint32_t i = 1; f.producer && i < BLOCKS / 2; i++)
        offer(i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t i = 1; f.consumer && i < BLOCKS / 2; i++)
        want(i);
    if (f.producer || f.consumer)
        CHECK(take(BLOCKS / 2 - 1, 20000) > 0);
    for (uint32_t i = 1; f.consumer && i < BLOCKS / 2; i++)
        CHECK_EQ(wrong(i), 0);
    down();
}

/* A consumer that polls no more keeps no offer open: it rings its producer, which sleeps for a second. */
static void the_offer_ends_though_its_reader_polls_no_more(void)
{
    enum { ASLEEP_MS = 1500, SOON_MS = 500 };
    if (harness.size < 2)
        return SKIP("two ranks");
    up_with("sleep_us", harness.rank % 2 == 0 ? "1000000" : "20000");
    meet();
    if (f.producer)
        offer(1);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(100000);
    double began = now_ms();
    if (f.consumer) {
        want(1);
        CHECK(take(1, 20000) > 0);
        usleep(ASLEEP_MS * 1000);
    }
    if (f.producer) {
        double ended = take(1, ASLEEP_MS);
        CHECK(ended > 0 && ended - began < SOON_MS);
    }
    down();
}

/* How often the producer's bell has rung. */
static uint32_t their_rings(void)
{
    return bell_read((struct bell *)(void *)f.b->on.ground->peers[harness.rank ^ 1].mapped);
}

/* The event of a want, by a thread that polls without a pause or sleeps on the descriptor, and does no more. */
static void take_event(bool sleeps)
{
    struct pollfd fd = {.fd = sleeps ? baton_event_fd(f.b) : -1, .events = POLLIN};
    baton_event_t e;
    const double until = now_ms() + 20000;
    int n;
    while ((n = baton_poll(f.b, &e, 1)) == 0 && now_ms() < until)
        if (sleeps)
            poll(&fd, 1, 1000);
    CHECK(n == 1 && e.status == BATON_STATUS_DONE);
}

/* Offers block i once it is wanted. Its consumer waits too, unless it polls meanwhile: then it attends to the bell. */
static void offer_late(uint32_t i, bool waits)
{
    if (f.consumer)
        want(i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.producer || waits)
        usleep(1000);
    if (f.producer)
        offer(i);
}

/* Of so many late offers, after how many events the next poll, and nothing before it, rings the producer. */
static uint32_t rung_behind(uint32_t first, uint32_t count, bool sleeps)
{
    uint32_t behind = 0;
    baton_event_t none;
    for (uint32_t i = first; i < first + count; i++) {
        offer_late(i, sleeps);
        if (f.consumer) {
            take_event(sleeps);
            const uint32_t at_event = their_rings();
            for (double until = now_ms() + 0.05; !sleeps && now_ms() < until;)
                continue;
            const uint32_t before = their_rings();
            CHECK_EQ(baton_poll(f.b, &none, 1), 0);
            behind += before == at_event && their_rings() == before + 1;
        }
        CHECK(!f.consumer || wrong(i) == 0);
    }
    if (f.producer)
        CHECK(take(count, 20000) > 0);
    MPI_Barrier(MPI_COMM_WORLD);
    return behind;
}

/*
 * To wake the producer for the end of its offer takes as long as the transfer, and the engine's thread may need that
 * core: it is rung behind the event, by the next poll. Often: where threads wait for cores, the reactor is first.
 */
static void the_producer_is_rung_behind_the_event(void)
{
    enum { TRIES = 30, ROUNDS = 15 };
    if (!is_one_node() || harness.size != 2)
        return SKIP("two ranks alone on one node");
    for (int sleeps = 0; sleeps < 2; sleeps++) {
        up();
        meet();
        int is_shown = 0;
        for (uint32_t round = 0; round < ROUNDS && !is_shown; round++) {
            const uint32_t behind = rung_behind(1 + round * TRIES, TRIES, sleeps);
            is_shown = !f.consumer || behind > (IS_SANITIZED ? 0 : TRIES / 6);
            MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        }
        if (!CHECK(is_shown))
            fprintf(stderr, "# the engine %s\n", sleeps ? "sleeps" : "polls");
        down();
    }
}

/* Of so many late offers, whose reader sleeps and polls no more: after how many events the ring comes within 1 ms. */
static uint32_t rung_soon(uint32_t first, uint32_t count)
{
    uint32_t soon = 0;
    for (uint32_t i = first; i < first + count; i++) {
        offer_late(i, true);
        if (f.consumer) {
            take_event(true);
            const uint32_t at_event = their_rings();
            const double until = now_ms() + 1;
            while (their_rings() == at_event && now_ms() < until)
                continue;
            soon += their_rings() != at_event;
        }
        if (f.producer)
            CHECK(take(1, 20000) > 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return soon;
}

/* Nor is the ring put off for long: the reactor, which could sleep for 2 ms, wakes for it. */
static void the_producer_is_rung_soon(void)
{
    enum { TRIES = 30, ROUNDS = 15 };
    if (!is_one_node() || harness.size != 2)
        return SKIP("two ranks alone on one node");
    up();
    meet();
    int is_shown = 0;
    for (uint32_t round = 0; round < ROUNDS && !is_shown; round++) {
        const uint32_t soon = rung_soon(1 + round * TRIES, TRIES);
        is_shown = !f.consumer || soon > (IS_SANITIZED ? 0 : TRIES / 3);
        MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    CHECK(is_shown);
    down();
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How long after a want's event its offer's comes, of whose rank a thread polls: the median of so many, in us. */
static double offers_end_after_us(uint32_t first, uint32_t count)
{
    double after[64];
    for (uint32_t i = first; i < first + count; i++) {
        double mine = 0, theirs = 0;
        baton_event_t e = {0};
        if (f.producer)
            offer(i);
        MPI_Barrier(MPI_COMM_WORLD);
        if (f.consumer) {
            usleep(2000); /* the producer polls, and has done nothing else for long */
            want(i);
        }
        const double until = now_ms() + 20000;
        while (baton_poll(f.b, &e, 1) == 0 && now_ms() < until)
            continue;
        mine = now_ms();
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, harness.rank ^ 1, 1, &theirs, 1, MPI_DOUBLE, harness.rank ^ 1, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        after[i - first] = (f.producer ? mine - theirs : theirs - mine) * 1000;
    }
    qsort(after, count, sizeof after[0], compare);
    return after[count / 2];
}

/* The ring for what a reader's words tell is put off. A thread that polls finds it out all the same. */
static void a_producer_that_polls_hears_soon(void)
{
    enum { TRIES = 30, ROUNDS = 15, MOST_US = 100 };
    if (!is_one_node() || harness.size != 2)
        return SKIP("two ranks alone on one node");
    up();
    meet();
    int is_shown = 0;
    double after = 0;
    for (uint32_t round = 0; round < ROUNDS && !is_shown; round++) {
        after = offers_end_after_us(1 + round * TRIES, TRIES);
        is_shown = after < (IS_SANITIZED ? 10 : 1) * MOST_US;
        MPI_Allreduce(MPI_IN_PLACE, &is_shown, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    if (!CHECK(is_shown))
        fprintf(stderr, "# rank %d: %.0f us after\n", harness.rank, after);
    down();
}

/* Whole offers are served as if their producer ran. */
static void a_stopped_producer_serves(void)
{
    enum { OFFERS = 20 };
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    up();
    meet();
    for (uint32_t i = 1; f.producer && i <= OFFERS; i++)
        offer(i);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(100000); /* all are at rest: a process that stops inside MPI may hold up others there */
    if (f.consumer) {
        CHECK_EQ(kill(f.peer, SIGSTOP), 0);
        for (uint32_t i = 1; i <= OFFERS; i++) {
            want(i);
            CHECK(take(1, 2000) > 0);
            CHECK_EQ(wrong(i), 0);
        }
        CHECK_EQ(kill(f.peer, SIGCONT), 0);
    }
    if (f.producer)
        CHECK(take(OFFERS, 20000) > 0);
    down();
}

/* An offer of BLOCKS blocks, whose reading takes some time. */
static void offer_all(const char *key, uint32_t ttl_ms)
{
    static uint32_t blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = i;
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                              .num_tokens = BLOCKS * BLOCK_TOKENS,
                              .ttl_ms = ttl_ms};
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
}

static void want_all(const char *key)
{
    static uint32_t blocks[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = i;
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = f.theirs,
                             .num_tables = 1,
                             .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                             .num_tokens = BLOCKS * BLOCK_TOKENS,
                             .timeout_ms = 30000};
    CHECK_EQ(baton_want(f.b, &w, NULL), 0);
}

/*
 * Their time is over while their producer is stopped, when a rank has begun to read more of them than a step hears of:
 * none ends before its reader.
 */
static void offers_go_on_under_all_that_read_them(void)
{
    enum { OFFERS = 130, TTL_MS = 600 };
    char key[16];
    if (!is_one_node() || harness.size < 2)
        return SKIP("two ranks on one node");
    tune("handoff", "2");                   /* words, though faults are injected */
    up_with("BATON_FAULT", "stall@move+3"); /* reading takes longer than that time */
    tune("handoff", NULL);
    meet();
    for (uint32_t i = 0; f.producer && i < OFFERS; i++) {
        snprintf(key, sizeof key, "all%u", i);
        offer_all(key, TTL_MS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double since = now_ms(); /* no offer began later */
    usleep(100000);                /* all are at rest: a process that stops inside MPI may hold up others there */
    if (f.consumer) {
        CHECK_EQ(kill(f.peer, SIGSTOP), 0);
        for (uint32_t i = 0; i < OFFERS; i++) {
            snprintf(key, sizeof key, "all%u", i);
            want_all(key);
        }
        while (now_ms() < since + TTL_MS + 50)
            usleep(1000);
        CHECK_EQ(kill(f.peer, SIGCONT), 0);
    }
    if (f.producer || f.consumer)
        CHECK(take(OFFERS, 40000) > 0);
    down();
}

/* Wants wait at the producer, by messages, and each offer finds one. */
static void wants_that_wait_for_their_offers(void)
{
    enum { OFFERS = 100 };
    for (uint32_t i = 1; f.consumer && i <= OFFERS; i++)
        want(i);
    usleep(20000);
    for (uint32_t i = 1; f.producer && i <= OFFERS; i++) {
        offer(i);
        if (i % 2 == 0)
            usleep(300); /* by turns as fast as it goes, and with reactors asleep */
    }
    if (f.producer || f.consumer)
        CHECK(take(OFFERS, 20000) > 0);
    for (uint32_t i = 1; f.consumer && i <= OFFERS; i++)
        CHECK_EQ(wrong(i), 0);
}

static void an_offer_that_comes_late(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    up();
    CHECK(describes("messages of the node by lanes"));
    meet();
    wants_that_wait_for_their_offers();
    down();
}

/* A turn takes no more messages than a lane holds. Those that it may have left keep the reactor awake. */
static void messages_that_a_turn_leaves_are_not_slept_over(void)
{
    struct port_event events[2 * LANES_MESSAGES];
    if (!is_one_node())
        return SKIP("one node");
    up_as(BATON_PROGRESS_CALLER); /* no other thread takes them */
    const struct port *port = f.b->port;
    const struct path *path = &port->path;
    CHECK(!path->busy(path->self));
    for (unsigned i = 0; i < LANES_MESSAGES; i++)
        CHECK_EQ(port->send(port->self, (uint32_t)harness.rank, "?", 1), 0);
    CHECK_EQ(path->progress(path->self, events, 2 * LANES_MESSAGES), LANES_MESSAGES);
    CHECK(path->busy(path->self));
    CHECK(path->progress(path->self, events, 2 * LANES_MESSAGES) < (int)LANES_MESSAGES); /* a peer may say something */
    CHECK(!path->busy(path->self));
    down();
}

/* A message without bytes is none: no rank of Baton's sends one. */
static void a_bad_message_of_a_lane_is_counted(void)
{
    if (!is_one_node())
        return SKIP("one node");
    up_as(BATON_PROGRESS_CALLER);
    const struct port *port = f.b->port;
    const uint64_t before = stats().messages_bad;
    CHECK_EQ(port->send(port->self, (uint32_t)harness.rank, "", 0), 0);
    offer(1); /* with what it does, statistics are taken anew */
    for (double until = now_ms() + 20000; stats().messages_bad == before && now_ms() < until;)
        CHECK(baton_progress(f.b) >= 0);
    CHECK_EQ(stats().messages_bad, before + 1);
    down();
}

/* Where one of two ranks has no lanes, their messages go by MPI, in both directions. */
static void ranks_with_and_without_lanes_meet(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    const bool has_none = harness.rank % 3 == 0;
    up_with("handoff", has_none ? "0" : "1");
    CHECK_EQ(describes("messages of the node by lanes"), !has_none);
    meet();
    wants_that_wait_for_their_offers();
    down();
}

/* Of each other rank of the node, so that the id of one that dies later means no other process. */
static void processes_are_known_from_the_start(void)
{
    struct process own = process_of(getpid());
    const bool has_them = process_alive(&own) == PROCESS_ALIVE;
    process_forget(&own);
    if (!is_one_node() || !has_them)
        return SKIP("one node, and pidfds");
    up();
    int known = 0;
    for (int fd = 0; fd < 4096; fd++) {
        char path[64], what[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        known += readlink(path, what, sizeof what - 1) > 0 && strstr(what, "pidfd") != NULL;
    }
    CHECK(known >= harness.size - 1);
    down();
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(processes_are_known_from_the_start);
    RUN(a_short_transfer_is_made_by_its_caller);
    RUN(a_long_transfer_is_reported_by_its_worker);
    RUN(a_worker_leaves_no_ends_behind);
    RUN(a_poll_makes_turns);
    RUN(a_thread_that_is_cancelled);
    RUN(a_ring_makes_turns);
    RUN(a_ring_calls_no_driver);
    RUN(a_thread_that_stops_polling_is_woken);
    RUN(a_thread_that_polls_gives_way);
    RUN(a_reactor_that_spins_gives_way);
    RUN(a_thread_that_computes_gives_way_to_none);
    RUN(a_deadline_is_kept_by_a_reactor_that_sleeps);
    RUN(many_calls_without_a_poll);
    RUN(the_offer_ends_though_its_reader_polls_no_more);
    RUN(the_producer_is_rung_behind_the_event);
    RUN(the_producer_is_rung_soon);
    RUN(a_producer_that_polls_hears_soon);
    RUN(a_stopped_producer_serves);
    RUN(offers_go_on_under_all_that_read_them);
    RUN(an_offer_that_comes_late);
    RUN(messages_that_a_turn_leaves_are_not_slept_over);
    RUN(a_bad_message_of_a_lane_is_counted);
    RUN(ranks_with_and_without_lanes_meet);
    return harness_end();
}
