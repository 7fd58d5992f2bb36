/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_signals: engines whose threads handle signals all the time, as those of a profiler or of a runtime that collects
 * garbage do. Start, calls, polls and close see no difference: no peer is lost, no transfer fails or ends early, and
 * nothing is written after its end. Each rank is an engine that wants from the next one.
 *
 * Two timers signal the engine's thread, each 5,000 times a second; one handler is installed with SA_RESTART, the other
 * one without. A poll that does not wait is interrupted within microseconds or not at all, so no timer finds it
 * reliably: every second call of poll in that thread finds a signal that is pending.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "baton.h"
#include "harness.h"
#include "pretend/pretend.h"
#include "with_engine.h"
#include "with_tune.h"

#define POOL_BLOCKS 64
#define BLOCK_BYTES ((size_t)32 << 10)
#define PART (POOL_BLOCKS / 4) /* blocks of an offer, and of the two places where wants go by turns */
#define PART_BYTES (PART * BLOCK_BYTES)
#define ROUNDS 12
#define EVERY_NS 200000 /* of each timer */
#define LATE_MS 120     /* after the others, the last rank declares its cache: all look twice whether it lives */
#define VAIN_MS 60
#define UNUSED 0xa5 /* what an engine stores in blocks that came back */

int __real_poll(struct pollfd *fds, nfds_t num, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t num, int timeout);

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static const int numbers[] = {SIGUSR1, SIGUSR2}; /* with SA_RESTART, and without */

static volatile sig_atomic_t handled[2];
static timer_t timers[2];
static _Thread_local bool is_engine; /* the thread that is signalled */
static uint64_t polls, polls_cut;

static void handle(int number)
{
    handled[number == SIGUSR2]++;
}

static void signals_begin(void)
{
    for (int i = 0; i < 2; i++) {
        const struct sigaction action = {.sa_handler = handle, .sa_flags = i == 0 ? SA_RESTART : 0};
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = numbers[i]};
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        const struct itimerspec often = {{0, EVERY_NS}, {0, EVERY_NS}};
        handled[i] = 0;
        CHECK_EQ(sigaction(numbers[i], &action, NULL), 0);
        CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timers[i]), 0);
        CHECK_EQ(timer_settime(timers[i], 0, &often, NULL), 0);
    }
    polls = polls_cut = 0;
    is_engine = true;
}

static void signals_end(void)
{
    is_engine = false;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(timer_delete(timers[i]), 0);
        CHECK(handled[i] > 0);
    }
}

/* A signal that is pending as poll begins: where no descriptor is ready, it fails with EINTR. */
int __wrap_poll(struct pollfd *fds, nfds_t num, int timeout)
{
    if (!is_engine || polls++ % 2 != 0)
        return __real_poll(fds, num, timeout);
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, numbers[0]);
    sigaddset(&both, numbers[1]);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    pthread_kill(pthread_self(), numbers[polls / 2 % 2]);
    const struct timespec t = {timeout / 1000, timeout % 1000 * 1000000L};
    const int answers = ppoll(fds, num, timeout < 0 ? NULL : &t, &before);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    polls_cut += answers < 0 && error == EINTR;
    errno = error;
    return answers;
}

/* ---- an engine --------------------------------------------------------------------------------------------------- */

/* One life of a world of engines. */
struct life {
    baton_progress_mode_t progress;
    enum pretend_kind memory; /* PRETEND_PRIVATE: it comes late */
};

static struct {
    struct engine e;
    uint8_t *base, *mapped; /* mapped: by this test */
    size_t bytes;
} f;

static void take_geometry(baton_geometry_t *g, baton_tensor_t *tensor)
{
    *g = (baton_geometry_t){.size = sizeof *g,
                            .model = "m",
                            .dtype = "u8",
                            .elem_bytes = 1,
                            .planes = 1,
                            .head_size = BLOCK_BYTES / BLOCK_TOKENS,
                            .layers_total = 1,
                            .layer_count = 1,
                            .num_groups = 1,
                            .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = POOL_BLOCKS}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 1, .head_count = 1}}};
    engine_need(baton_geometry_layout(g, tensor, 0));
}

/* Private memory, once the others have declared theirs. */
static void come_late(const baton_geometry_t *g)
{
    const uint64_t at = clock_now_ns() + (harness.rank == harness.size - 1 ? LATE_MS * CLOCK_NS_PER_MS : 0);
    bool is_declared = false;
    int rc;
    f.mapped = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const baton_region_t region = region_of(BATON_MEMORY_HOST, f.mapped, g->bytes);
    f.bytes = g->bytes;
    do {
        if (!is_declared && clock_now_ns() >= at) {
            engine_need(baton_cache_wrap(f.e.b, g, &region, 1, &f.e.cache));
            is_declared = true;
        }
        rc = baton_cache_ready(f.e.b);
        sched_yield();
    } while (rc == BATON_EAGAIN);
    engine_need(rc);
    f.base = f.mapped;
}

static void up(const struct life *l)
{
    const bool is_late = l->memory == PRETEND_PRIVATE;
    static const char *const names[] = {[PRETEND_SHARED] = "shared", [PRETEND_DEVICE] = "device"};
    baton_geometry_t g;
    baton_tensor_t tensor;
    take_geometry(&g, &tensor);
    memset(&f, 0, sizeof f);
    unsetenv("PRETEND_MEMORY");
    if (!is_late && l->memory != PRETEND_NONE)
        setenv("PRETEND_MEMORY", names[l->memory], 1);
    tune("beat_ms", "1"); /* peers are looked at a thousand times a second */
    setenv("BATON_PEER_MS", "5000", 1);
    engine_open(&f.e, l->progress, is_late ? BATON_OPEN_CACHE_LATER : 0);
    if (!is_late)
        engine_need(baton_cache_create(f.e.b, &g, BATON_MEMORY_HOST, &f.e.cache));
    engine_need(baton_start(f.e.b));
    if (is_late)
        come_late(&g);
    else
        f.base = baton_cache_base(f.e.cache);
}

static void down(void)
{
    CHECK_EQ(baton_close(f.e.b), 0);
    if (f.mapped != NULL)
        munmap(f.mapped, f.bytes);
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

static uint8_t byte_of(int rank, int round)
{
    return (uint8_t)(1 + (rank * 13 + round) % 100);
}

static size_t count(const uint8_t *at, uint8_t byte)
{
    size_t n = 0;
    for (size_t i = 0; i < PART_BYTES; i++)
        n += at[i] == byte;
    return n;
}

static void fill_table(uint32_t ids[PART], int part)
{
    for (uint32_t i = 0; i < PART; i++)
        ids[i] = (uint32_t)part * PART + i;
}

static void offer(int round, const char *key)
{
    uint32_t ids[PART];
    const int part = round % 2;
    fill_table(ids, part);
    memset(f.base + (size_t)part * PART_BYTES, byte_of(harness.rank, round), PART_BYTES);
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = key,
                                    .num_tokens = PART * BLOCK_TOKENS,
                                    .num_tables = 1,
                                    .tables = {{.blocks = ids, .num_blocks = PART}}};
    CHECK_EQ(baton_offer(f.e.b, &o, NULL), 0);
}

static void want(int round, const char *key, const char *engine, uint32_t timeout_ms)
{
    uint32_t ids[PART];
    fill_table(ids, 2 + round % 2);
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = engine,
                                   .num_tokens = PART * BLOCK_TOKENS,
                                   .num_tables = 1,
                                   .tables = {{.blocks = ids, .num_blocks = PART}},
                                   .timeout_ms = timeout_ms,
                                   .mode = round / 2 % 2 == 0 ? BATON_MODE_PULL : BATON_MODE_PUSH};
    CHECK_EQ(baton_want(f.e.b, &w, NULL), 0);
}

/* Waits in one of the ways of engines. */
static baton_event_t next(int round)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    baton_event_t event = {0};
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    while (baton_poll(f.e.b, &event, 1) != 1 && CHECK(clock_now_ns() < until)) {
        struct pollfd p = {.fd = baton_event_fd(f.e.b), .events = POLLIN};
        if (round % 3 == 1)
            poll(&p, 1, 100);
        else if (round % 3 == 2)
            baton_stats(f.e.b, &stats);
    }
    return event;
}

/* While a want waits for an offer that does not come, the peer is asked all the time whether it lives. */
static void wait_in_vain(void)
{
    char engine[BATON_ENGINE_NAME_MAX];
    snprintf(engine, sizeof engine, "e%d", (harness.rank + 1) % harness.size);
    want(0, "never", engine, VAIN_MS);
    CHECK_EQ(next(0).status, BATON_STATUS_EXPIRED);
}

static void go_round(int round)
{
    char key[16], engine[BATON_ENGINE_NAME_MAX];
    const int peer = (harness.rank + 1) % harness.size;
    uint8_t *into = f.base + (size_t)(2 + round % 2) * PART_BYTES;
    snprintf(key, sizeof key, "k%d", round);
    snprintf(engine, sizeof engine, "e%d", peer);
    if (round >= 2) /* since its last transfer ended */
        CHECK_EQ(count(into, UNUSED), PART_BYTES);
    offer(round, key);
    want(round, key, engine, 20000);
    for (int i = 0; i < 2; i++) {
        const baton_event_t event = next(round);
        CHECK_EQ(event.status, BATON_STATUS_DONE);
        CHECK_EQ(event.error, 0);
        if (event.type != BATON_EVENT_WANT)
            continue;
        CHECK_EQ(count(into, byte_of(peer, round)), PART_BYTES);
        memset(into, UNUSED, PART_BYTES);
    }
}

static void run_life(const struct life *l)
{
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    signals_begin();
    up(l);
    for (int round = 0; round < ROUNDS && harness.failures == 0; round++)
        go_round(round);
    wait_in_vain();
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_stats(f.e.b, &stats), 0);
    CHECK_EQ(stats.peers_lost, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    down();
    signals_end();
    if (l->progress == BATON_PROGRESS_CALLER && harness.size > 1 && is_one_node())
        CHECK(polls_cut > 0); /* else it showed nothing */
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void the_callers_thread_moves_bytes(void)
{
    run_life(&(struct life){BATON_PROGRESS_CALLER, PRETEND_NONE});
}

static void the_callers_thread_starts_with_late_caches(void)
{
    run_life(&(struct life){BATON_PROGRESS_CALLER, PRETEND_PRIVATE});
}

static void the_callers_thread_maps_files(void)
{
    run_life(&(struct life){BATON_PROGRESS_CALLER, PRETEND_SHARED});
}

static void the_callers_thread_stages(void)
{
    run_life(&(struct life){BATON_PROGRESS_CALLER, PRETEND_DEVICE});
}

static void a_reactor_moves_bytes(void)
{
    run_life(&(struct life){BATON_PROGRESS_THREAD, PRETEND_NONE});
}

static void a_reactor_starts_with_late_caches(void)
{
    run_life(&(struct life){BATON_PROGRESS_THREAD, PRETEND_PRIVATE});
}

static void a_reactor_maps_files(void)
{
    run_life(&(struct life){BATON_PROGRESS_THREAD, PRETEND_SHARED});
}

static void a_reactor_stages(void)
{
    run_life(&(struct life){BATON_PROGRESS_THREAD, PRETEND_DEVICE});
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(the_callers_thread_moves_bytes);
    RUN(the_callers_thread_starts_with_late_caches);
    RUN(the_callers_thread_maps_files);
    RUN(the_callers_thread_stages);
    RUN(a_reactor_moves_bytes);
    RUN(a_reactor_starts_with_late_caches);
    RUN(a_reactor_maps_files);
    RUN(a_reactor_stages);
    return harness_end();
}
