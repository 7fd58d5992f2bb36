/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck_close: closes that end with BATON_EPEER, after the time that they may take and with the sentence that says why:
 * of a reactor that stands still, of a device whose driver ends no copy, and of a rank that never comes. Their contexts
 * stay, so MPI cannot be left by MPI_Finalize here. Closes that wait and succeed are tested by test_closing.
 */
#include <sys/mman.h>

#include "front/context.h"
#include "with_engine.h"
#include "with_tune.h"

/* Closes in vain. Returns how long that took, in ms. */
static uint64_t close_fails(const struct engine *e, const char *why)
{
    const uint64_t began = clock_now_ns();
    CHECK_EQ(baton_close(e->b), BATON_EPEER);
    const uint64_t took_ms = (clock_now_ns() - began) / CLOCK_NS_PER_MS;
    CHECK_HAS(baton_errmsg(), why);
    CHECK_HAS(baton_errmsg(), "baton_exit");
    return took_ms;
}

/* Close is back after BATON_PEER_MS, long before the turn ends. */
static void close_leaves_a_reactor_that_is_stuck(void)
{
    enum { PEER_MS = 500 };
    struct engine e;
    setenv("BATON_FAULT", "stall@send.WANT#1+8000", 1);
    setenv("BATON_PEER_MS", "500", 1);
    engine_up(&e, NULL);
    unsetenv("BATON_FAULT");
    unsetenv("BATON_PEER_MS");
    engine_want(&e, "nobody offers it", 20000);
    const uint64_t turn = engine_stalls(&e);
    CHECK(close_fails(&e, "did not come to rest") >= PEER_MS);
    CHECK_EQ(reactor_turn_ns(e.b), turn); /* nothing of the context was freed */
    CHECK(latch_wait(&e.b->loop.ended, clock_now_ns() + PATIENCE_NS));
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

enum { COPIES = 16 };

/* Copies from the device end at once, those to it never. */
static struct {
    uint64_t ended[COPIES]; /* tags that are still to be told */
    int num_ended, num_stuck;
} driver;

static int copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    (void)self;
    if (to_device) {
        driver.num_stuck++;
        return 0;
    }
    if (driver.num_ended == COPIES)
        return BATON_EAGAIN;
    for (uint32_t i = 0; i < num; i++)
        memcpy(pieces[i].host, pieces[i].device, pieces[i].bytes);
    driver.ended[driver.num_ended++] = tag;
    return 0;
}

static int ended_copies(void *self, uint64_t *tags, int *errors, int max)
{
    int n = 0;
    (void)self;
    while (n < max && driver.num_ended > 0) {
        tags[n] = driver.ended[--driver.num_ended];
        errors[n++] = 0;
    }
    return n;
}

/* What is left was given up before, and may never become quiet: closing waits 2 s for it, and not BATON_CLOSE_MS. */
static void close_leaves_a_copy_that_does_not_end(void)
{
    enum { LEAST_MS = 1900, MOST_MS = 8000 };
    const baton_driver_t stuck = {sizeof stuck, "stuck", NULL, copy, ended_copies};
    struct engine e;
    tune("quiet_ms", "100");
    setenv("BATON_CLOSE_MS", "20000", 1);
    engine_up(&e, &stuck);
    tune("quiet_ms", NULL);
    unsetenv("BATON_CLOSE_MS");
    engine_offer(&e, "k");
    engine_want(&e, "k", 200);
    CHECK_EQ(engine_event(&e, BATON_EVENT_GIVEN_UP).error, BATON_ETIMEDOUT);
    const uint64_t took_ms = close_fails(&e, "did not come to rest");
    CHECK(took_ms >= LEAST_MS && took_ms < MOST_MS);
    CHECK(driver.num_stuck > 0);
}

/* ---- a rank that never comes ------------------------------------------------------------------------------------- */

static bool is_mapped(const void *at)
{
    unsigned char page;
    const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)at / size * size), 1, &page) == 0;
}

/* A barrier in which the processor is free for others. */
static void await_all(void)
{
    MPI_Request all;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int done = 0; !done; usleep(1000))
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
}

/*
 * The last rank lives, and is not lost: it closes once the others have given it up. They wait for BATON_CLOSE_MS, which
 * is neither the second that closing may take at least nor BATON_START_MS. Neither the segment in MPI's window nor the
 * cache's own memory is freed, since a peer may still read there.
 */
static void close_without_the_last(bool before_caches)
{
    enum { CLOSE_MS = 2000 };
    const bool is_last = harness.rank == harness.size - 1;
    struct engine e;
    setenv("PRETEND_MEMORY", "shared", 1);
    setenv("BATON_CLOSE_MS", is_last ? "1" : "2000", 1);
    engine_open(&e, BATON_PROGRESS_AUTO, before_caches ? BATON_OPEN_CACHE_LATER : 0);
    if (!before_caches)
        engine_cache(&e, NULL);
    engine_need(baton_start(e.b));
    unsetenv("PRETEND_MEMORY");
    unsetenv("BATON_CLOSE_MS");
    const void *base = before_caches ? NULL : baton_cache_base(e.cache);
    const void *segment = e.b->on.ground->segment;
    CHECK(segment != NULL || before_caches);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last)
        await_all();
    const uint64_t took_ms = close_fails(&e, "(BATON_CLOSE_MS)");
    if (!is_last) {
        CHECK(took_ms >= CLOSE_MS - 100);
        CHECK(took_ms < 10 * CLOSE_MS);
        await_all();
    }
    CHECK(segment == NULL || is_mapped(segment));
    CHECK(base == NULL || is_mapped(base));
}

static void close_gives_up_a_rank_that_does_not_come(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    close_without_the_last(false);
}

static void close_gives_up_a_rank_before_all_caches_are_there(void)
{
    if (harness.size < 2)
        return SKIP("two ranks");
    close_without_the_last(true);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(close_leaves_a_reactor_that_is_stuck);
    RUN(close_leaves_a_copy_that_does_not_end);
    RUN(close_gives_up_a_rank_that_does_not_come);
    RUN(close_gives_up_a_rank_before_all_caches_are_there);
    harness_leave(baton_exit);
}
