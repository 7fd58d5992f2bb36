/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_closing: closes that must wait for a reactor that stands still for a while, and for a rank that comes late; and
 * what the page of metrics says of such a reactor, and what is left of a context. Closes that give up are tested by
 * stuck_close.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "with_engine.h"
#include "with_page.h"
#include "with_tune.h"

/* BATON_PEER_MS is longer than the turn, and BATON_CLOSE_MS too. */
static void close_waits_for_a_long_turn(void)
{
    enum { STALL_MS = 2000 };
    struct engine e;
    setenv("BATON_FAULT", "stall@send.WANT#1+2000", 1);
    setenv("BATON_CLOSE_MS", "3000", 1);
    engine_up(&e, NULL);
    unsetenv("BATON_FAULT");
    unsetenv("BATON_CLOSE_MS");
    engine_want(&e, "nobody offers it", 20000);
    const uint64_t began = engine_stalls(&e);
    CHECK_EQ(baton_close(e.b), 0);
    CHECK(clock_now_ns() >= began + STALL_MS * CLOCK_NS_PER_MS);
}

/*
 * The others' reactors make turns and have nothing to do, for longer than BATON_PEER_MS: they do not count as stuck.
 * LATE_MS is longer, too, than the 2 s that a close waits for calls that were given up: there are none.
 */
static void close_waits_longer_than_a_peer_may_be_silent(void)
{
    enum { LATE_MS = 3000 };
    const int last = harness.size - 1;
    struct engine e;
    if (harness.size < 2 || !is_one_node()) /* between nodes a rank that is late for other reasons would be lost */
        return SKIP("two ranks on one node");
    setenv("BATON_PEER_MS", "1000", 1);
    setenv("BATON_CLOSE_MS", "15000", 1); /* where the others gave up, the last rank waits for so long */
    engine_up(&e, NULL);
    unsetenv("BATON_PEER_MS");
    unsetenv("BATON_CLOSE_MS");
    MPI_Barrier(MPI_COMM_WORLD);
    if (harness.rank == last)
        usleep(LATE_MS * 1000);
    uint64_t called = clock_now_ns();
    CHECK_EQ(baton_close(e.b), 0);
    const uint64_t ended = clock_now_ns();
    MPI_Bcast(&called, 1, MPI_UINT64_T, last, MPI_COMM_WORLD);
    CHECK(ended >= called);
}

/* ---- the page of metrics ----------------------------------------------------------------------------------------- */

static uint64_t real_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * CLOCK_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Once the reactor goes on, the page says so, and is not renewed any more when nothing happens. */
static void comes_to_rest(void)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    const struct metrics_view *page = page_read();
    uint64_t renewed;
    while ((page->stalled_ns != 0 || page->body.stalls == 0) && clock_now_ns() < until) {
        usleep(1000);
        page_read();
    }
    CHECK_EQ(page->stalled_ns, 0);
    CHECK_EQ(page->body.stalls, 1);
    do {
        renewed = page->body.renewed_ns;
        usleep(300000);
    } while (page_read()->body.renewed_ns != renewed && clock_now_ns() < until);
    CHECK_EQ(page->body.renewed_ns, renewed);
}

static void the_page_tells_of_a_stall_while_it_lasts(void)
{
    enum { STALL_MS = 500 };
    struct engine e;
    page_begin();
    tune("stall_ms", "500");
    setenv("BATON_FAULT", "stall@send.WANT#1+5000", 1);
    engine_up(&e, NULL);
    page_end();
    tune("stall_ms", NULL);
    unsetenv("BATON_FAULT");
    CHECK_EQ(page_read()->stalled_ns, 0);
    engine_want(&e, "nobody offers it", 20000);
    const baton_event_t given_up = engine_event(&e, BATON_EVENT_GIVEN_UP);
    CHECK_EQ(given_up.error, BATON_ESTALL);
    CHECK(given_up.total_ns >= STALL_MS * CLOCK_NS_PER_MS);
    const uint64_t stalled_ns = page_read()->stalled_ns;
    CHECK(stalled_ns != 0 && stalled_ns < real_now_ns());
    CHECK_EQ(engine_event(&e, BATON_EVENT_WANT).error, BATON_ESTALL);
    comes_to_rest();
    CHECK_EQ(baton_close(e.b), 0);
    page_remove();
}

/* Nobody has named the job: its name is the number of the first rank, which all ranks know. */
static void a_page_that_nobody_named_goes_with_its_context(void)
{
    struct engine e;
    char path[128], name[METRICS_NAME_BYTES];
    engine_up(&e, NULL);
    snprintf(name, sizeof name, "%016" PRIx64, e.b->directory->rows[0].number);
    page_path_of(name, path, sizeof path);
    CHECK_EQ(access(path, R_OK), 0);
    CHECK_EQ(baton_close(e.b), 0);
    CHECK_EQ(access(path, F_OK), -1);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Of Baton: the linker leads its calls here (--wrap). */
static atomic_int made, joined;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg)
{
    const int rc = __real_pthread_create(thread, how, run, arg);
    atomic_fetch_add(&made, rc == 0);
    return rc;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    const int rc = __real_pthread_join(thread, result);
    atomic_fetch_add(&joined, rc == 0);
    return rc;
}

static void every_thread_is_joined(void)
{
    struct engine e;
    atomic_store(&made, 0);
    atomic_store(&joined, 0);
    engine_up(&e, NULL);
    CHECK(atomic_load(&made) > atomic_load(&joined)); /* the reactor */
    CHECK_EQ(baton_close(e.b), 0);
    CHECK_EQ(atomic_load(&joined), atomic_load(&made));
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(close_waits_for_a_long_turn);
    RUN(close_waits_longer_than_a_peer_may_be_silent);
    RUN(the_page_tells_of_a_stall_while_it_lasts);
    RUN(a_page_that_nobody_named_goes_with_its_context);
    RUN(every_thread_is_joined);
    return harness_end();
}
