/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comes_to_rest: when closing waits, for how long, and what it then does (front/closing.c, front/departure.c). Core,
 * net and world are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "unit/with_front.h"
#include "with_fakes.h"
#include "with_heard.h"
#include "with_set_clock.h"

#define BEGAN_NS (100 * CLOCK_NS_PER_S)
#define CLOSE_MS 30000
#define PEER_MS 5000
#define BEAT_MS 500
#define GRACE_MS 2000
#define QUIET_MS 1000

/* What they say, and what they were asked. */
static struct {
    int leave;
    unsigned shut, left, told, asked, asked_late;
    char why[SNAPSHOT_WHY];
} they;

void core_shut(struct core *core, uint64_t now)
{
    (void)core;
    assert_int_equal(now, BEGAN_NS);
    they.shut++;
}

void core_leave(struct core *core, uint64_t now)
{
    (void)core;
    assert_int_equal(now, BEGAN_NS);
    they.left++;
}

void core_tell_left(struct core *core, uint64_t now)
{
    (void)core;
    assert_true(now > BEGAN_NS);
    they.told++;
}

void core_rank_name(const struct core *core, uint32_t rank, char *text, size_t size)
{
    (void)core;
    snprintf(text, size, "rank %u", rank);
}

static int leave(void *self, bool late)
{
    (void)self;
    they.asked++;
    they.asked_late += late;
    return they.leave == 0 || they.leave == BATON_EAGAIN ? they.leave : error_set(they.leave, "nobody hears");
}

void snapshot_put_why(struct snapshot *s, const char *why)
{
    (void)s;
    snprintf(they.why, sizeof they.why, "%s", why);
}

void snapshot_why(struct snapshot *s, char out[SNAPSHOT_WHY])
{
    (void)s;
    snprintf(out, SNAPSHOT_WHY, "%s", they.why);
}

static struct fakes fakes;
static struct baton b;

/* A context that begins to close: quiet, and where it has a world, every rank has left. */
static void begin_on(bool has_world, enum context_state state)
{
    memset(&they, 0, sizeof they);
    memset(&heard, 0, sizeof heard);
    memset(&b, 0, sizeof b);
    fakes_init(&fakes);
    front_init();
    fakes.world.leave = leave;
    b.on = (struct footing){.net = &fakes.net, .world = &fakes.world};
    b.settings.close_ms = CLOSE_MS;
    b.settings.peer_ms = PEER_MS;
    b.settings.beat_ms = BEAT_MS;
    b.settings.quiet_ms = QUIET_MS;
    b.log = (struct logger){.level = LOG_WARN, .sink = hear};
    b.state = state;
    if (!has_world)
        b.on.world = NULL;
    closing_prepare(&b);
    assert_int_equal(fakes.asked.on_finalize, has_world);
    assert_false(closing_has_begun(&b.closing));
    closing_begin(&b, BEGAN_NS);
    assert_true(closing_has_begun(&b.closing));
    assert_int_equal(they.shut, 1);
    assert_int_equal(they.left, has_world && state == CONTEXT_STARTED);
}

static void begin(enum context_state state)
{
    begin_on(true, state);
    assert_false(b.closing.departure.is_lost);
    assert_int_equal(b.closing.departure.until_ns, BEGAN_NS + CLOSE_MS * CLOCK_NS_PER_MS);
}

/* Looks come often. */
static int step(uint64_t ms)
{
    const uint64_t now = BEGAN_NS + ms * CLOCK_NS_PER_MS;
    b.closing.looked_ns = now - CLOCK_NS_PER_MS;
    return closing_step(&b, now);
}

/* Until `ms` it goes on, and what it comes to 1 ms later. */
static int comes_to(uint64_t ms)
{
    assert_int_equal(step(ms), BATON_EAGAIN);
    return step(ms + 1);
}

static void test_all_leave(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    they.leave = BATON_EAGAIN;
    assert_int_equal(step(1), BATON_EAGAIN);
    they.leave = 0;
    assert_int_equal(step(2), 0);
    assert_int_equal(they.asked, 2);
    assert_int_equal(they.asked_late, 0);
    assert_false(b.closing.departure.is_lost);
    assert_int_equal(heard.num_lines, 0);
}

/* What is under way ends first. Where it does not, closing stops waiting in time, and asks no rank whether it left. */
static void test_what_is_under_way(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    assert_int_equal(comes_to(CLOSE_MS), BATON_EPEER);
    begin(CONTEXT_STARTED);
    fakes.says.net_busy = true;
    assert_int_equal(comes_to(CLOSE_MS), BATON_EPEER);
    assert_int_equal(they.asked, 0);
    fakes.says.net_busy = false;
    assert_int_equal(step(CLOSE_MS), 0);
}

/* Others do not leave: they are asked once more, for the last time. */
static void test_others_do_not_come(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    they.leave = BATON_EAGAIN;
    assert_int_equal(step(CLOSE_MS), BATON_EAGAIN);
    assert_int_equal(they.asked_late, 0);
    they.leave = BATON_ETIMEDOUT;
    assert_int_equal(step(CLOSE_MS + 1), 0);
    assert_int_equal(they.asked_late, 1);
    assert_true(b.closing.departure.is_lost);
    assert_string_equal(they.why, "nobody hears");
    assert_int_equal(heard.num_lines, 1);
}

/* Where start had failed there is nobody to wait for. What is under way ends all the same. */
static void test_a_start_that_failed(void **state)
{
    (void)state;
    begin(CONTEXT_FAILED);
    front.says.core_loss = 1;
    fakes.says.net_busy = true;
    assert_int_equal(step(1), BATON_EAGAIN);
    fakes.says.net_busy = false;
    assert_int_equal(step(2), 0);
    assert_int_equal(they.asked, 0);
    assert_int_equal(heard.num_lines, 0);
    assert_false(b.closing.departure.is_lost);
}

/* The control channel is lost: nobody can be told. */
static void test_nobody_can_be_told(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    fakes.says.failed = true;
    assert_int_equal(step(1), 0);
    assert_int_equal(they.asked, 0);
    assert_true(b.closing.departure.is_lost);
    fakes.says.failed = false; /* once is enough */
    assert_int_equal(step(2), 0);
    assert_true(b.closing.departure.is_lost);
}

/* A rank is lost: this one stays for another beat, then goes without the others. */
static void test_a_loss(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    they.leave = BATON_EAGAIN;
    assert_int_equal(step(100), BATON_EAGAIN);
    front.says.core_loss = 0;
    assert_int_equal(step(200), BATON_EAGAIN);
    assert_string_equal(they.why, "rank 0 is lost");
    assert_string_equal(heard.line, "closing without the other ranks: rank 0 is lost");
    assert_int_equal(step(300), BATON_EAGAIN);
    assert_int_equal(heard.num_lines, 1);
    front.says.core_loss = 7; /* another one: it is named, and nothing begins anew */
    assert_int_equal(step(400), BATON_EAGAIN);
    assert_string_equal(they.why, "rank 7 is lost");
    assert_int_equal(heard.num_lines, 2);
    assert_int_equal(comes_to(200 + BEAT_MS - 1), 0);
    assert_true(b.closing.departure.is_lost);
    assert_int_equal(they.asked, 1); /* before the loss */
}

/* Transfers with a lost rank may never be quiet: it waits for them 2 s more, not for as long as closing may take. */
static void test_a_loss_and_what_is_under_way(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    front.says.core_loss = 3;
    assert_int_equal(step(1000), BATON_EAGAIN);
    assert_int_equal(b.closing.departure.until_ns, BEGAN_NS + (1000 + GRACE_MS) * CLOCK_NS_PER_MS);
    front.says.core_loss = 4;
    assert_int_equal(step(2000), BATON_EAGAIN);
    assert_int_equal(comes_to(1000 + GRACE_MS), BATON_EPEER);
    begin(CONTEXT_STARTED); /* shortly before its time is over that does not grow */
    front.says.core_is_quiet = false;
    front.says.core_loss = 3;
    assert_int_equal(step(CLOSE_MS - 10), BATON_EAGAIN);
    assert_int_equal(comes_to(CLOSE_MS), BATON_EPEER);
    begin(CONTEXT_STARTED); /* a beat is not waited for then either */
    front.says.core_loss = 3;
    assert_int_equal(step(CLOSE_MS + 1), 0);
    assert_true(b.closing.departure.is_lost);
}

/* Only calls that were given up are left: 2 s for these too, from when they were alone. */
static void test_calls_that_were_given_up(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    assert_int_equal(step(1000), BATON_EAGAIN);
    front.says.core_is_given_up = true;
    assert_int_equal(step(5000), BATON_EAGAIN);
    assert_int_equal(step(6000), BATON_EAGAIN);
    assert_int_equal(comes_to(5000 + GRACE_MS), BATON_EPEER);
    begin(CONTEXT_STARTED); /* a quiet core has none */
    front.says.core_is_given_up = true;
    they.leave = BATON_EAGAIN;
    assert_int_equal(step(1000), BATON_EAGAIN);
    assert_int_equal(step(1000 + GRACE_MS + 1), BATON_EAGAIN);
}

/* They become quiet within that time: the other ranks are waited for as always. */
static void test_calls_that_were_given_up_and_end(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    front.says.core_is_given_up = true;
    they.leave = BATON_EAGAIN;
    assert_int_equal(step(1000), BATON_EAGAIN);
    front.says.core_is_quiet = true;
    assert_int_equal(step(1001), BATON_EAGAIN);
    fakes.says.net_busy = true; /* the message that says so, say */
    assert_int_equal(step(1000 + GRACE_MS + 1), BATON_EAGAIN);
    fakes.says.net_busy = false;
    assert_int_equal(step(CLOSE_MS), BATON_EAGAIN);
    assert_int_equal(they.asked_late, 0);
    they.leave = 0;
    assert_int_equal(step(CLOSE_MS), 0);
    assert_false(b.closing.departure.is_lost);
}

/* Rank 0 cannot be told: whether it is lost is known within BATON_PEER_MS, and this rank stays quiet until then. */
static void test_rank_0_cannot_be_told(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    they.leave = BATON_EMPI;
    assert_int_equal(step(1000), BATON_EAGAIN);
    assert_string_equal(they.why, "nobody hears");
    assert_int_equal(heard.num_lines, 1);
    assert_int_equal(step(2000), BATON_EAGAIN);
    assert_int_equal(they.asked, 1); /* after an error it is not asked again */
    assert_false(b.closing.departure.is_lost);
    assert_int_equal(comes_to(1000 + PEER_MS + GRACE_MS), 0);
    assert_true(b.closing.departure.is_lost);
    assert_int_equal(they.asked, 1);
    begin(CONTEXT_STARTED);
    they.leave = BATON_EMPI;
    assert_int_equal(step(1000), BATON_EAGAIN);
    front.says.core_loss = 0; /* it is */
    assert_int_equal(step(2000), BATON_EAGAIN);
    assert_int_equal(comes_to(2000 + BEAT_MS - 1), 0);
    assert_true(b.closing.departure.is_lost);
}

/* The process is stopped for longer than it may wait, alone or with the others: it waits as long as it would have. */
static void test_a_pause(void **state)
{
    (void)state;
    for (int has_world = 0; has_world < 2; has_world++) {
        const uint64_t most = has_world ? CLOSE_MS : b.settings.quiet_ms, paused = 10 * CLOSE_MS;
        begin_on(has_world != 0, CONTEXT_STARTED);
        front.says.core_is_quiet = false;
        assert_int_equal(step(1), BATON_EAGAIN);
        assert_int_equal(closing_step(&b, BEGAN_NS + (1 + paused) * CLOCK_NS_PER_MS), BATON_EAGAIN);
        assert_int_equal(step(paused + most), BATON_EAGAIN);
        assert_int_equal(step(paused + most + 1), BATON_EPEER);
        front.says.core_is_quiet = true;
    }
}

/* ---- after the last turn ----------------------------------------------------------------------------------------- */

/* What is left of the time bounds the steps that follow, and all agree on what they come to. */
static void test_a_departure_ends(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    now_ns = BEGAN_NS + 10 * CLOCK_NS_PER_MS;
    assert_int_equal(closing_check(&b, 0), 0);
    assert_int_equal(fakes.left_ms, CLOSE_MS - 10);
    assert_true(fakes.asked.silence == 1 && front.asked.start_forgo == 1 && front.asked.late_close == 1);
    assert_int_equal(closing_end(&b, BATON_EPEER), BATON_EPEER);
    assert_true(fakes.asked.close == 1 && fakes.asked.leave_open == 0);
    now_ns = BEGAN_NS + (CLOSE_MS + 1) * CLOCK_NS_PER_MS;
    assert_int_equal(closing_check(&b, 0), 0);
    assert_int_equal(fakes.left_ms, 0);
    assert_int_equal(closing_end(&b, 0), 0);
    assert_int_equal(fakes.asked.net_close, 0); /* the world's close did it */
}

/* Nothing is freed: the sentence is the one that is known, or says that this rank is not at rest. */
static void test_a_departure_without_rest(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    assert_int_equal(closing_check(&b, BATON_EPEER), BATON_EPEER);
    assert_string_equal(baton_errmsg(), "transfers did not come to rest");
    snapshot_put_why(NULL, "rank 3 is lost");
    assert_int_equal(closing_check(&b, BATON_EPEER), BATON_EPEER);
    assert_string_equal(baton_errmsg(), "rank 3 is lost");
    fakes.says.silence = false;
    assert_int_equal(closing_check(&b, 0), BATON_EPEER);
    assert_string_equal(baton_errmsg(), "the doorbell's thread does not end");
    assert_true(fakes.asked.leave_open == 3 && fakes.asked.hurry == 0 && front.asked.start_forgo == 0);
}

/* A rank or the channel is lost: all but MPI's is freed, and no collective follows. */
static void test_a_departure_without_the_others(void **state)
{
    (void)state;
    begin(CONTEXT_STARTED);
    fakes.says.failed = true;
    assert_int_equal(step(1), 0);
    assert_int_equal(closing_check(&b, 0), 0);
    assert_int_equal(closing_end(&b, 0), BATON_EPEER);
    assert_string_equal(baton_errmsg(), "the control channel failed");
    begin(CONTEXT_STARTED);
    front.says.late_close = error_set(BATON_EPEER, "rank 2 has ended");
    assert_int_equal(closing_check(&b, 0), 0);
    assert_int_equal(closing_end(&b, 0), BATON_EPEER);
    assert_string_equal(baton_errmsg(), "rank 2 has ended");
    assert_true(fakes.asked.leave_open == 1 && fakes.asked.close == 0);
}

/* ---- without a world --------------------------------------------------------------------------------------------- */

/* It tells its peers once it is at rest, and goes as soon as that is sent. */
static void test_alone(void **state)
{
    (void)state;
    begin_on(false, CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    assert_int_equal(step(10), BATON_EAGAIN);
    assert_int_equal(they.told, 0);
    front.says.core_is_quiet = true;
    assert_int_equal(step(20), BATON_EAGAIN);
    assert_int_equal(they.told, 1);
    fakes.says.net_busy = true;
    assert_int_equal(step(30), BATON_EAGAIN);
    fakes.says.net_busy = false;
    assert_int_equal(step(31), 0);
    assert_int_equal(they.told, 1);
    assert_int_equal(closing_check(&b, 0), 0);
    assert_int_equal(closing_end(&b, 0), 0);
    assert_int_equal(fakes.asked.net_close, 1);
    assert_true(they.asked == 0 && front.asked.core_loss == 0 && front.asked.late_close == 0 &&
                fakes.asked.silence == 0 && fakes.asked.hurry == 0);
    assert_int_equal(heard.num_lines, 0);
}

/* What it tells does not go out: its blocks are quiet all the same. */
static void test_alone_and_nobody_can_be_told(void **state)
{
    (void)state;
    begin_on(false, CONTEXT_STARTED);
    assert_int_equal(step(20), BATON_EAGAIN);
    fakes.says.net_busy = true;
    assert_int_equal(comes_to(QUIET_MS), 0);
}

/* It does not come to rest: quiet_ms, and nothing is freed. Peers are told. */
static void test_alone_without_rest(void **state)
{
    (void)state;
    begin_on(false, CONTEXT_STARTED);
    front.says.core_is_quiet = false;
    assert_int_equal(comes_to(QUIET_MS), BATON_EPEER);
    assert_int_equal(they.told, 1);
    assert_int_equal(closing_check(&b, BATON_EPEER), BATON_EPEER);
    assert_non_null(strstr(baton_errmsg(), "transfers did not come to rest: nothing was freed"));
    assert_int_equal(fakes.asked.net_close, 0);
    begin_on(false, CONTEXT_STARTED); /* what is under way in the net may touch blocks too */
    fakes.says.net_busy = true;
    assert_int_equal(comes_to(QUIET_MS), BATON_EPEER);
    begin_on(false, CONTEXT_STARTED); /* a driver still uses memory of the segment */
    assert_int_equal(closing_end(&b, BATON_EPEER), BATON_EPEER);
    assert_int_equal(fakes.asked.net_close, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_leave),
        cmocka_unit_test(test_what_is_under_way),
        cmocka_unit_test(test_others_do_not_come),
        cmocka_unit_test(test_a_start_that_failed),
        cmocka_unit_test(test_nobody_can_be_told),
        cmocka_unit_test(test_a_loss),
        cmocka_unit_test(test_a_loss_and_what_is_under_way),
        cmocka_unit_test(test_calls_that_were_given_up),
        cmocka_unit_test(test_calls_that_were_given_up_and_end),
        cmocka_unit_test(test_rank_0_cannot_be_told),
        cmocka_unit_test(test_a_pause),
        cmocka_unit_test(test_a_departure_ends),
        cmocka_unit_test(test_a_departure_without_rest),
        cmocka_unit_test(test_a_departure_without_the_others),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_alone_and_nobody_can_be_told),
        cmocka_unit_test(test_alone_without_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
