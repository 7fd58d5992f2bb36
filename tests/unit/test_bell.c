/* SPDX-License-Identifier: BSD-3-Clause */
/* bell: timeouts, and no lost wake-up between threads and between processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/clock.h"

#define NS_PER_S UINT64_C(1000000000)
#define LONG_NS (10 * NS_PER_S) /* a sleep that lasts this long was not woken */
#define ROUNDS 20000

/* Whether the sleep ended well before its (long) timeout. */
static bool sleep_is_cut_short(struct bell *b, uint32_t seen)
{
    const uint64_t begin = clock_now_ns();
    bell_sleep(b, seen, LONG_NS);
    return clock_now_ns() - begin < LONG_NS;
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void timeout_is_honoured(void **state)
{
    (void)state;
    static const uint64_t timeouts_ms[] = {0, 1, 30, 1100};
    struct bell b;
    bell_init(&b);
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof timeouts_ms[0]; i++) {
        const uint64_t timeout_ns = timeouts_ms[i] * CLOCK_NS_PER_MS, begin = clock_now_ns();
        bell_sleep(&b, bell_read(&b), timeout_ns);
        const uint64_t slept_ns = clock_now_ns() - begin;
        assert_in_range(slept_ns, timeout_ns, timeout_ns + 5 * NS_PER_S);
    }
    assert_int_equal(atomic_load(&b.asleep), 0);
}

static void ring_after_the_look_prevents_the_sleep(void **state)
{
    (void)state;
    struct bell b;
    bell_init(&b);
    const uint32_t seen = bell_read(&b);
    bell_ring(&b);
    assert_true(sleep_is_cut_short(&b, seen));
    assert_int_equal(atomic_load(&b.asleep), 0);
}

static void ring_before_the_look_does_not(void **state)
{
    (void)state;
    struct bell b;
    bell_init(&b);
    bell_ring(&b);
    const uint64_t begin = clock_now_ns();
    bell_sleep(&b, bell_read(&b), 30 * CLOCK_NS_PER_MS);
    assert_true(clock_now_ns() - begin >= 30 * CLOCK_NS_PER_MS);
}

static void count_wraps_round(void **state)
{
    (void)state;
    struct bell b;
    bell_init(&b);
    atomic_store(&b.rings, UINT32_MAX);
    const uint32_t seen = bell_read(&b);
    bell_ring(&b);
    assert_int_equal(bell_read(&b), 0);
    assert_true(sleep_is_cut_short(&b, seen));
}

/* ---- several sleepers -------------------------------------------------------------------------------------------- */

#define SLEEPERS 3

struct sleeper {
    struct bell *bell;
    uint32_t seen;
    bool woken;
    pthread_t thread;
};

static void *sleep_once(void *arg)
{
    struct sleeper *s = arg;
    s->woken = sleep_is_cut_short(s->bell, s->seen);
    return NULL;
}

static void one_ring_wakes_all(void **state)
{
    (void)state;
    struct bell b;
    struct sleeper sleepers[SLEEPERS];
    bell_init(&b);
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){.bell = &b, .seen = bell_read(&b)};
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleep_once, &sleepers[i]), 0);
    }
    while (atomic_load(&b.asleep) < SLEEPERS)
        usleep(1000);
    usleep(20000); /* by now most likely asleep in the kernel; a sleeper that is late does not sleep */
    bell_ring(&b);
    for (int i = 0; i < SLEEPERS; i++) {
        assert_int_equal(pthread_join(sleepers[i].thread, NULL), 0);
        assert_true(sleepers[i].woken);
    }
    assert_int_equal(atomic_load(&b.asleep), 0);
}

/* ---- attended ---------------------------------------------------------------------------------------------------- */

/* A thread asleep on the bell until it rings or for long. */
static void begin_to_sleep(struct bell *b, struct sleeper *s)
{
    *s = (struct sleeper){.bell = b, .seen = bell_read(b)};
    assert_int_equal(pthread_create(&s->thread, NULL, sleep_once, s), 0);
    while (atomic_load(&b->asleep) == 0)
        usleep(1000);
    usleep(5000);
}

/* Whether somebody who sleeps is woken by a ring beside a thread that attends, or attended once. */
static bool is_woken(bool attends)
{
    struct bell b, rehearsal;
    struct sleeper s;
    bell_init(&b);
    bell_init(&rehearsal);
    begin_to_sleep(&b, &s);
    bell_attend(&rehearsal, clock_now_ns()); /* so that the look and the ring below are in the caches: 5 us are short */
    bell_ring_unattended(&rehearsal);
    bell_attend(&b, clock_now_ns());
    if (!attends)
        usleep(1000);
    bell_ring_unattended(&b);
    assert_int_equal(bell_read(&b), 1); /* who looks finds it in any case */
    usleep(attends ? 200000 : 5000);    /* on busy processors too, one that was woken has run by then */
    const bool woken = atomic_load(&b.asleep) == 0;
    bell_ring(&b);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    assert_true(s.woken);
    return woken;
}

static void who_attends_needs_no_wake_up(void **state)
{
    (void)state;
    int tries = 0;
    while (is_woken(true)) /* this thread may be interrupted between its look and its ring */
        assert_in_range(++tries, 0, 100);
    for (tries = 0; !is_woken(false); tries++) /* or the other one is late to run */
        assert_in_range(tries, 0, 100);
}

/* ---- ping-pong --------------------------------------------------------------------------------------------------- */

/* Two sides throw a ball: each waits for the other's count to reach the round, then raises its own and rings. */
struct court {
    struct bell bell[2];
    _Atomic uint32_t thrown[2];
};

/* False: a sleep timed out though the ball had come, or the ball never came. */
static bool await(struct court *c, int side, uint32_t round)
{
    for (;;) {
        const uint32_t seen = bell_read(&c->bell[side]);
        /* relaxed: the bell alone must order the count */
        if (atomic_load_explicit(&c->thrown[!side], memory_order_relaxed) >= round)
            return true;
        if (!sleep_is_cut_short(&c->bell[side], seen))
            return false;
    }
}

static void throw_ball(struct court *c, int side, uint32_t round)
{
    atomic_store_explicit(&c->thrown[side], round, memory_order_relaxed);
    bell_ring(&c->bell[!side]);
}

static bool play(struct court *c, int side)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (side == 0)
            throw_ball(c, 0, round);
        if (!await(c, side, round))
            return false;
        if (side == 1)
            throw_ball(c, 1, round);
    }
    return true;
}

static void *play_second(void *arg)
{
    return play(arg, 1) ? arg : NULL;
}

static void court_init(struct court *c)
{
    for (int side = 0; side < 2; side++) {
        bell_init(&c->bell[side]);
        atomic_init(&c->thrown[side], 0);
    }
}

static void no_wake_up_is_lost_between_threads(void **state)
{
    (void)state;
    struct court c;
    pthread_t second;
    void *result;
    court_init(&c);
    assert_int_equal(pthread_create(&second, NULL, play_second, &c), 0);
    const bool mine = play(&c, 0);
    assert_int_equal(pthread_join(second, &result), 0);
    assert_true(mine);
    assert_ptr_equal(result, &c);
}

static void no_wake_up_is_lost_between_processes(void **state)
{
    (void)state;
    struct court *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c != MAP_FAILED);
    court_init(c);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(play(c, 1) ? 0 : 1);
    }
    const bool mine = play(c, 0);
    if (!mine)
        kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(mine);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(atomic_load(&c->bell[0].asleep), 0);
    assert_int_equal(atomic_load(&c->bell[1].asleep), 0);
    munmap(c, sizeof *c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeout_is_honoured),
        cmocka_unit_test(ring_after_the_look_prevents_the_sleep),
        cmocka_unit_test(ring_before_the_look_does_not),
        cmocka_unit_test(count_wraps_round),
        cmocka_unit_test(one_ring_wakes_all),
        cmocka_unit_test(who_attends_needs_no_wake_up),
        cmocka_unit_test(no_wake_up_is_lost_between_threads),
        cmocka_unit_test(no_wake_up_is_lost_between_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
