/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_leaving: how the ranks of a fabric meet before they start, and leave. Runs on any number of ranks. The last
 * cases lose their worlds: what they have opened stays open in MPI.
 */
#include <sched.h>
#include <unistd.h>

#include "base/process.h"
#include "with_child.h"
#include "with_clock.h"
#include "with_fabric.h"

#define POLLS 200 /* of what is not there yet */

/* ---- meetings ---------------------------------------------------------------------------------------------------- */

/* The outcome; BATON_EAGAIN if there is none in time. */
static int outcome_of_meeting(struct fabric *f, bool is_here)
{
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    int rc;
    while ((rc = f->calls.meet(f, is_here)) == BATON_EAGAIN && clock_now_ns() < deadline)
        sched_yield();
    return rc;
}

/* As soon as all are here, however long rank 0 may wait for what it tells them to arrive. */
static void meets_once_all_are_here(void)
{
    struct settings before = settings;
    settings.peer_ms = 10 * PATIENCE_NS / CLOCK_NS_PER_MS;
    struct fabric *f = started();
    settings = before;
    const bool is_late = me() == f->ground.num_peers - 1;
    CHECK_EQ(f->calls.meet_init(f), 0);
    for (int i = 0; i < POLLS; i++)
        CHECK_EQ(f->calls.meet(f, !is_late), BATON_EAGAIN);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(outcome_of_meeting(f, true), 0);
    closed(f);
}

/* A rank that closes waits for the word of rank 0, which is silent, as long as it is told to. */
static void closes_a_meeting_without_rank_0(void)
{
    enum { CLOSE_MS = 300 };
    struct fabric *f = started();
    CHECK_EQ(f->calls.meet_init(f), 0);
    if (harness.size == 1)
        SKIP("a rank meets itself");
    if (me() != 0) {
        uint64_t until = clock_now_ns() + CLOSE_MS * CLOCK_NS_PER_MS;
        error_set(BATON_ECLOSED, "this one closes");
        CHECK_EQ(f->calls.meet_close(f, until), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "rank 0 did not answer");
        CHECK(clock_now_ns() >= until);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    closed(f);
}

static bool knows_who_lives(void)
{
    struct process self = process_of(getpid());
    bool is_known = process_alive(&self) == PROCESS_ALIVE;
    process_forget(&self);
    return is_known;
}

/* Rank `mortal` names a child process as its own, and does not come. All others do, and the child ends. */
static void meet_without(struct fabric *f, uint32_t mortal)
{
    const uint64_t own = owner_of(f)[0];
    const bool is_mortal = me() == mortal;
    int id = is_mortal ? child_start() : 0;
    MPI_Bcast(&id, 1, MPI_INT, (int)mortal, MPI_COMM_WORLD);
    if (is_mortal)
        owner_of(f)[0] = (uint64_t)id;
    f->net.sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(f->calls.meet_init(f), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    owner_of(f)[0] = own;
    for (int i = 0; i < POLLS && !is_mortal; i++)
        CHECK_EQ(f->calls.meet(f, true), BATON_EAGAIN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_mortal)
        CHECK(child_end(id));
    MPI_Barrier(MPI_COMM_WORLD);
    sleep_ms(60); /* until the next look is due */
    /* Rank 0 tells all. Of rank 0 itself those of its node find out. */
    if (mortal != 0 || (!is_mortal && f->world.node_of[me()] == f->world.node_of[0])) {
        char words[64];
        snprintf(words, sizeof words, "rank %" PRIu32 " has ended (process %d,", mortal, id);
        CHECK_EQ(outcome_of_meeting(f, !is_mortal), BATON_EPEER);
        CHECK_HAS(baton_errmsg(), words);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void a_process_that_ends_before_it_comes(void)
{
    for (uint32_t mortal = 0; mortal < 2; mortal++) {
        struct fabric *f = started();
        const bool is_near = harness.size > 1 && f->world.node_of[0] == f->world.node_of[1];
        if (is_near && knows_who_lives())
            meet_without(f, mortal);
        else
            SKIP(is_near ? "no pidfds" : "rank 0 is alone on its node");
        closed(f);
    }
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

static void nobody_leaves_yet(struct fabric *f)
{
    for (int i = 0; i < POLLS; i++)
        CHECK_EQ(f->calls.leave(f, false), BATON_EAGAIN);
}

static void leave_waits_for_all(void)
{
    struct fabric *f = opened();
    int rc;
    if (harness.rank != harness.size - 1)
        nobody_leaves_yet(f);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    while ((rc = f->calls.leave(f, false)) == BATON_EAGAIN && clock_now_ns() < deadline)
        sched_yield();
    CHECK_EQ(rc, 0);
    CHECK_EQ(f->calls.close(f, 0), 0);
}

/* ---- a rank that does not come, where what was opened stays open in MPI ------------------------------------------ */

static void leave_names_who_does_not_come(void)
{
    const int last = harness.size - 1;
    if (harness.size == 1) {
        SKIP("one rank");
        return;
    }
    logger.level = LOG_NONE;
    struct fabric *f = opened();
    if (harness.rank != last) {
        char name[32];
        CHECK_EQ(f->calls.leave(f, false), BATON_EAGAIN);
        if (harness.rank != 0) /* what rank 0 was told by then comes before this does */
            MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        for (int r = 1; r < last && harness.rank == 0; r++)
            MPI_Recv(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        nobody_leaves_yet(f);
        CHECK_EQ(f->calls.leave(f, true), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "BATON_CLOSE_MS");
        snprintf(name, sizeof name, "silent ranks: %d", last);
        if (harness.rank == 0)
            CHECK_HAS(baton_errmsg(), name);
        CHECK(f->calls.is_lost(f));
    }
    CHECK_EQ(f->calls.leave_open(f, "a peer is lost"), BATON_EPEER);
}

/* A step waits for what is left of a deadline, but for a second at least. */
static void waits_less_in_a_hurry(void)
{
    struct settings before = settings;
    if (harness.size == 1) {
        SKIP("one rank");
        return;
    }
    settings.start_ms = 60000;
    logger.level = LOG_NONE;
    struct fabric *f = opened();
    settings = before;
    f->calls.hurry(f, 500);
    if (harness.rank != harness.size - 1) {
        uint64_t began = clock_now_ns();
        CHECK_EQ(f->calls.agree(f, "roll call", 0), BATON_ETIMEDOUT);
        uint64_t took = clock_now_ns() - began;
        CHECK(took >= 900 * CLOCK_NS_PER_MS);
        CHECK(took < PATIENCE_NS);
    }
    CHECK_EQ(f->calls.leave_open(f, "a peer is lost"), BATON_EPEER);
}

static void names_the_silent_rank(void)
{
    struct settings before = settings;
    if (harness.size == 1) {
        SKIP("one rank");
        return;
    }
    settings.start_ms = 1000;
    logger.level = LOG_NONE;
    struct fabric *f = opened();
    settings = before;
    if (harness.rank != harness.size - 1) {
        char name[32];
        CHECK_EQ(f->calls.agree(f, "roll call", 0), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "roll call");
        snprintf(name, sizeof name, "silent ranks: %d", harness.size - 1);
        if (harness.rank == 0)
            CHECK_HAS(baton_errmsg(), name);
        CHECK_EQ(f->calls.agree(f, "after", 0), BATON_ETIMEDOUT);
    }
    CHECK_EQ(f->calls.leave_open(f, "a peer is lost"), BATON_EPEER);
}

int main(int argc, char **argv)
{
    fabric_tests_begin(&argc, &argv);
    RUN(meets_once_all_are_here);
    RUN(closes_a_meeting_without_rank_0);
    RUN(a_process_that_ends_before_it_comes);
    RUN(leave_waits_for_all);
    RUN(leave_names_who_does_not_come);
    RUN(waits_less_in_a_hurry);
    RUN(names_the_silent_rank);
    return harness_end();
}
