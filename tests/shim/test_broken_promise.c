/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_broken_promise: the start finds out where MPI breaks a promise of the quirks table. By that table the requests
 * of osc/ucx cover the gets before them and the remote side of puts; the shim makes them complete early.
 */
#include "base/textbuf.h"
#include "../mpi/with_fabric.h"
#include "shim.h"

#define LATE (30 * CLOCK_NS_PER_MS)
#define LONG_BYTES 100000 /* longer than any short operation of the self-test */

static unsigned lines;

static void count(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source, (void)line;
    lines++;
}

/* Starts a fabric: its description. All ranks together must have logged `sum` broken promises. */
static void starts(char *text, size_t size, unsigned sum)
{
    unsigned all = 0;
    lines = 0;
    logger.level = LOG_WARN;
    logger.sink = count;
    struct fabric *f = started();
    logger.sink = NULL;
    logger.level = (enum log_level)settings.log;
    struct textbuf out = {text, size, 0};
    describe(f, &out);
    for (uint64_t i = 0; i < POOL_BYTES; i++)
        if (!CHECK_EQ(pool_of(f)[i], 0))
            break;
    PMPI_Allreduce(&lines, &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(all, sum);
    shim_break_promise(false, false, 0, 0);
    closed(f);
    CHECK_EQ(shim_late(), 0);
}

static void kept(void)
{
    char text[4096];
    starts(text, sizeof text, 0);
    CHECK_HAS(text, "64 gets or 64 puts a request");
    CHECK_HAS(text, "put completion is remote");
}

static void puts_break(int least_bytes)
{
    char text[4096];
    shim_break_promise(false, true, least_bytes, LATE);
    starts(text, sizeof text, 1);
    CHECK_HAS(text, "64 gets");
    CHECK_HAS(text, "put completion is local");
    CHECK_HAS(text, "self-test");
}

static void puts_complete_early(void)
{
    puts_break(0);
}

static void long_puts_complete_early(void)
{
    puts_break(LONG_BYTES);
}

/* Where engines own their memory there are no pools: what is spare of the segments serves. */
static void tested_without_pools(void)
{
    enum { SPARE = 2 << 20 };
    char text[4096];
    struct textbuf out = {text, sizeof text, 0};
    struct fabric *f = opened();
    logger.sink = count;
    CHECK_EQ(start_with(f, META_BYTES + SPARE, 0, 0), 0);
    shim_break_promise(false, true, 0, LATE);
    CHECK_EQ(f->calls.selftest(f, GROUND_META_OFFSET + META_BYTES, SPARE), 0);
    logger.sink = NULL;
    shim_break_promise(false, false, 0, 0);
    describe(f, &out);
    CHECK_HAS(text, "put completion is local");
    for (uint64_t i = 0; i < SPARE; i++)
        if (!CHECK_EQ(f->ground.segment[GROUND_META_OFFSET + META_BYTES + i], 0))
            break;
    closed(f);
    CHECK_EQ(shim_late(), 0);
}

/* A promise that rma_put makes is tested too. */
static void a_forced_promise_is_tested(void)
{
    struct settings before = settings;
    settings.rma_put = 1;
    puts_break(0);
    settings = before;
}

static void gets_break(int least_bytes)
{
    char text[4096];
    shim_break_promise(true, false, least_bytes, LATE);
    starts(text, sizeof text, 1);
    CHECK_HAS(text, "1 gets or 1 puts a request");
    CHECK_HAS(text, "put completion is local");
    CHECK_HAS(text, "self-test");
}

static void gets_complete_early(void)
{
    gets_break(0);
}

static void long_gets_complete_early(void)
{
    gets_break(LONG_BYTES);
}

static void separate_memory_is_refused(void)
{
    struct fabric *f = opened();
    shim_separate_model(true);
    CHECK_EQ(start_with(f, META_BYTES, POOL_BYTES, 0), BATON_EWINDOW);
    CHECK_HAS(baton_errmsg(), "MPI_WIN_MODEL");
    shim_separate_model(false);
    CHECK_EQ(f->calls.close(f, 0), 0);
}

int main(int argc, char **argv)
{
    fabric_tests_begin(&argc, &argv);
    RUN(kept);
    RUN(puts_complete_early);
    RUN(long_puts_complete_early);
    RUN(a_forced_promise_is_tested);
    RUN(gets_complete_early);
    RUN(long_gets_complete_early);
    RUN(separate_memory_is_refused);
    RUN(tested_without_pools); /* last: a rank alone on its node gets its next pool from the heap, as it was left */
    return harness_end();
}
