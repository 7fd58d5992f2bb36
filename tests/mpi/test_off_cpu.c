/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_off_cpu: a thread loses its CPU in Baton for HELD_MS, as the scheduler, a debugger or a cgroup may bring
 * about: one of the engine's that makes a turn, or the reactor in one. Calls are answered in time all the same, and
 * other threads wait for nothing. The bounds leave a busy machine room: where nobody gives up, an answer comes with the
 * end of the hold.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "with_engine.h"

#define MS CLOCK_NS_PER_MS
#define HELD_MS 1000
#define TIMEOUT_MS 100
#define SLACK_MS 300 /* of 20 that are promised */

static struct {
    struct engine e;
    sem_t held;
    atomic_bool is_over;
    uint64_t until_ns;
} f;

static void wait_for(sem_t *s)
{
    while (sem_wait(s) != 0)
        continue;
}

static void up(void)
{
    memset(&f, 0, sizeof f);
    sem_init(&f.held, 0, 0);
    engine_up(&f.e, NULL);
    engine_offer(&f.e, "first");
    engine_want(&f.e, "first", 20000); /* the handshake is over */
    CHECK_EQ(engine_event(&f.e, BATON_EVENT_WANT).status, BATON_STATUS_DONE);
    CHECK_EQ(engine_event(&f.e, BATON_EVENT_OFFER).status, BATON_STATUS_DONE);
}

static void down(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(f.e.b), 0);
    sem_destroy(&f.held);
}

/* A want without an offer is answered soon after its deadline, and ends once turns are made again. */
static void want_is_answered(const char *why)
{
    const uint64_t asked = clock_now_ns();
    engine_want(&f.e, "nobody offers it", TIMEOUT_MS);
    baton_event_t e = engine_next(&f.e);
    const uint64_t took = clock_now_ns() - asked;
    CHECK(took >= TIMEOUT_MS * MS);
    if (!CHECK(took < (TIMEOUT_MS + SLACK_MS) * MS))
        fprintf(stderr, "# rank %d: answered after %llu ms\n", harness.rank, (unsigned long long)(took / MS));
    CHECK_EQ(e.type, BATON_EVENT_GIVEN_UP);
    CHECK_EQ(e.status, BATON_STATUS_EXPIRED);
    CHECK_EQ(e.error, BATON_ETIMEDOUT);
    CHECK_HAS(e.detail, why);
    e = engine_event(&f.e, BATON_EVENT_WANT);
    CHECK_EQ(e.given_up, 1);
    CHECK_EQ(e.error, BATON_ETIMEDOUT);
}

/* ---- a thread of the engine -------------------------------------------------------------------------------------- */

static void *hold(void *arg)
{
    struct owned *lock = &f.e.b->loop.turns.lock;
    (void)arg;
    while (!owned_take(lock, clock_now_ns() + MS))
        continue;
    f.until_ns = clock_now_ns() + HELD_MS * MS;
    sem_post(&f.held);
    clock_sleep_until(f.until_ns);
    owned_give(lock);
    return NULL;
}

static pthread_t begin_hold(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
    wait_for(&f.held);
    return thread;
}

static void what_is_due_is_given_up(void)
{
    up();
    for (int i = 0; i < 3; i++) { /* also while another call is due much later, and after many that ended */
        pthread_t thread = begin_hold();
        want_is_answered("which makes Baton's turn, has been without a CPU for");
        pthread_join(thread, NULL);
        engine_offer(&f.e, "in between");
        engine_want(&f.e, "in between", 20000);
        CHECK_EQ(engine_event(&f.e, BATON_EVENT_WANT).status, BATON_STATUS_DONE);
        CHECK_EQ(engine_event(&f.e, BATON_EVENT_OFFER).status, BATON_STATUS_DONE);
    }
    down();
}

/* Nobody but the reactor waits for it, whatever calls other threads make. */
static void other_threads_go_on(void)
{
    enum { CALLS = 200 };
    up();
    pthread_t thread = begin_hold();
    const uint64_t began = clock_now_ns();
    uint32_t given_up = 0;
    for (int i = 0; i < CALLS; i++) {
        baton_stats_t stats = BATON_INIT(baton_stats_t);
        baton_event_t e;
        char key[16];
        snprintf(key, sizeof key, "none %d", i);
        engine_want(&f.e, key, HELD_MS + 500);
        CHECK_EQ(baton_stats(f.e.b, &stats), 0);
        CHECK_EQ(stats.wants, 1); /* these are not the core's yet */
        CHECK_EQ(stats.wants_done, 1);
        CHECK_EQ(stats.offers_done, 1);
        given_up += baton_poll(f.e.b, &e, 1) != 0;
    }
    CHECK(clock_now_ns() < began + (HELD_MS - SLACK_MS) * MS);
    CHECK_EQ(given_up, 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(engine_event(&f.e, BATON_EVENT_WANT).error, BATON_ETIMEDOUT);
    down();
}

/* Readers of statistics hold up nobody, at whatever point they lose their core: they take no lock. */
static void *read_statistics(void *arg)
{
    const struct sched_param none = {0};
    (void)arg;
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    while (!f.is_over) {
        baton_stats_t stats = BATON_INIT(baton_stats_t);
        baton_stats(f.e.b, &stats);
        baton_poll(f.e.b, NULL, 0);
    }
    return NULL;
}

static void *compute(void *arg)
{
    volatile uint64_t sink = 0;
    (void)arg;
    while (!f.is_over)
        sink++;
    return NULL;
}

/* The bound is as wide as a machine needs whose cores all compute; with a lock, it was missed by seconds. */
static void a_thread_of_low_priority_holds_up_nobody(void)
{
    enum { WANTS = 300, COMPUTING = 2 };
    pthread_t threads[1 + COMPUTING];
    baton_stats_t before = BATON_INIT(baton_stats_t), after = before;
    if (harness.size > 1)
        return SKIP("one rank, which has all cores");
    up();
    CHECK_EQ(baton_stats(f.e.b, &before), 0);
    for (int i = 0; i <= COMPUTING; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i == 0 ? read_statistics : compute, NULL), 0);
    uint64_t worst = 0;
    for (int i = 0; i < WANTS; i++) {
        const uint64_t asked = clock_now_ns();
        engine_offer(&f.e, "again");
        engine_want(&f.e, "again", 20000);
        CHECK_EQ(engine_event(&f.e, BATON_EVENT_WANT).status, BATON_STATUS_DONE);
        CHECK_EQ(engine_event(&f.e, BATON_EVENT_OFFER).status, BATON_STATUS_DONE);
        const uint64_t took = clock_now_ns() - asked;
        worst = took > worst ? took : worst;
    }
    f.is_over = true;
    for (int i = 0; i <= COMPUTING; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(baton_stats(f.e.b, &after), 0);
    CHECK_EQ(after.wants_done - before.wants_done, WANTS);
    if (!CHECK(worst < 400 * MS))
        fprintf(stderr, "# the slowest of %d took %llu ms\n", WANTS, (unsigned long long)(worst / MS));
    down();
}

/* ---- the reactor ------------------------------------------------------------------------------------------------- */

/* It sleeps inside a turn, and uses no processor time. */
static void a_reactor_without_a_core(void)
{
    setenv("BATON_FAULT", "stall@send.WANT#2+1000", 1);
    up();
    unsetenv("BATON_FAULT");
    engine_want(&f.e, "nobody offers this either", 20000); /* its turn lasts */
    engine_stalls(&f.e);
    want_is_answered("the reactor has stood still for");
    down();
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(what_is_due_is_given_up);
    RUN(other_threads_go_on);
    RUN(a_thread_of_low_priority_holds_up_nobody);
    RUN(a_reactor_without_a_core);
    return harness_end();
}
