/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck_driver: rank 0 offers blocks of a device whose driver ends no copy, and rank 1 wants them. So each buffer for
 * staging is taken once, and the other requests wait for one. The contexts close meanwhile: every rank hears EPEER, and
 * the driver may go on with its copies after that. So MPI cannot be left by MPI_Finalize here.
 */
#include "with_engine.h"
#include "with_tune.h"

#define STAGE_BYTES "1048576"

enum { COPIES = 16, PIECES = 1024, REQUESTS = 8, BUFFERS = 3 }; /* of 256 KiB each, and a word, in STAGE_BYTES */

static struct {
    baton_piece_t pieces[COPIES][PIECES];
    uint32_t num[COPIES];
    int copies;
} driver;

static int copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    (void)self, (void)tag;
    if (driver.copies == COPIES)
        return BATON_EAGAIN;
    CHECK(!to_device && num <= PIECES);
    memcpy(driver.pieces[driver.copies], pieces, num * sizeof *pieces);
    driver.num[driver.copies++] = num;
    return 0;
}

static int none_ended(void *self, uint64_t *tags, int *errors, int max)
{
    (void)self, (void)tags, (void)errors, (void)max;
    return 0;
}

static void closing_with_a_stuck_driver(void)
{
    const baton_driver_t stuck = {sizeof stuck, "stuck", NULL, copy, none_ended};
    const bool offers = harness.rank == 0;
    struct engine e;
    engine_open(&e, BATON_PROGRESS_AUTO, 0);
    engine_cache(&e, offers ? &stuck : NULL);
    engine_need(baton_start(e.b));
    char page[4096];
    CHECK(baton_describe(e.b, page, sizeof page) < (int)sizeof page);
    if (getenv("BATON_FAKE_NODES") == NULL)
        CHECK_HAS(page, offers ? ": the cache of this one is a device's memory"
                               : "rank 0 first: region 0 is a device's memory");
    for (int i = 0; i < REQUESTS; i++) {
        const char key[] = {(char)('a' + i), '\0'};
        if (offers)
            engine_offer(&e, key);
        else
            engine_want_from(&e, "e0", key, 1000);
    }
    for (int i = 0; i < REQUESTS; i++)
        CHECK_EQ(engine_next(&e).error, BATON_ETIMEDOUT);
    CHECK_EQ(baton_close(e.b), BATON_EPEER);
    CHECK_HAS(baton_errmsg(), "stuck");
    CHECK_HAS(baton_errmsg(), "baton_exit");
    CHECK_EQ(driver.copies, offers ? BUFFERS : 0);
    for (int i = 0; i < driver.copies; i++)
        for (uint32_t k = 0; k < driver.num[i]; k++)
            memcpy(driver.pieces[i][k].host, driver.pieces[i][k].device, driver.pieces[i][k].bytes);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    tune("stage_bytes", STAGE_BYTES);
    RUN(closing_with_a_stuck_driver);
    harness_leave(baton_exit);
}
