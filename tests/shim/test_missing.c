/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_missing: whom rank 0 names where others do not come, to a step or to a meeting. Its own few functions of MPI
 * stand for a world of many ranks, of which rank 0 alone runs: it finds the messages that the test has put there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "mpi/meeting.h"
#include "mpi/steps.h"
#include "with_heard.h"

enum { RANKS_MOST = 16 };

static int ranks, messages_from[RANKS_MOST], num_messages, tag_asked, sent_to[RANKS_MOST];
static bool step_is_over, probes_fail;
static enum { SENT, OPEN, REFUSED } sends; /* of a meeting's words */

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    (void)comm;
    *rank = 0;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    (void)comm;
    *size = ranks;
    return MPI_SUCCESS;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *is_there, MPI_Status *status)
{
    (void)from, (void)comm;
    tag_asked = tag;
    if (probes_fail)
        return MPI_ERR_OTHER;
    *is_there = num_messages > 0;
    if (*is_there)
        status->MPI_SOURCE = messages_from[num_messages - 1];
    return MPI_SUCCESS;
}

/* A number, of the first step; or the word of a meeting, which is all 0. */
int MPI_Recv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    (void)comm, (void)status;
    assert_int_equal(tag, tag_asked);
    assert_int_equal(from, messages_from[--num_messages]);
    if (type == MPI_UINT32_T)
        *(uint32_t *)data = 1;
    else
        memset(data, 0, (size_t)n);
    return MPI_SUCCESS;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    (void)data, (void)n, (void)type, (void)tag, (void)comm;
    assert_in_range(to, 1, ranks - 1);
    sent_to[to]++;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status)
{
    (void)request, (void)status;
    *is_done = step_is_over;
    return MPI_SUCCESS;
}

int MPI_Testall(int n, MPI_Request *requests, int *are_done, MPI_Status *statuses)
{
    (void)n, (void)requests, (void)statuses;
    *are_done = sends == SENT;
    return sends == REFUSED ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPI_Error_string(int rc, char *text, int *length)
{
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", rc);
    return MPI_SUCCESS;
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

static struct settings settings;

static const struct logger logger = {.level = LOG_WARN, .sink = hear};

/* A world of `num` ranks. A message has come from all but those that are absent. */
static struct steps world(int num, const int *absent, int num_absent)
{
    struct steps s;
    memset(&s, 0, sizeof s);
    assert_int_equal(settings_read(&settings, NULL), 0);
    settings.start_ms = settings.wrap_ms = 1;
    ranks = num;
    num_messages = 0;
    heard.num_lines = 0;
    memset(sent_to, 0, sizeof sent_to);
    probes_fail = false;
    sends = SENT;
    for (int r = 1; r < num; r++) {
        bool is_absent = false;
        for (int i = 0; i < num_absent; i++)
            is_absent |= absent[i] == r;
        if (!is_absent)
            messages_from[num_messages++] = r;
    }
    steps_init(&s, &settings, &logger);
    assert_int_equal(steps_attach(&s, MPI_COMM_WORLD), 0);
    return s;
}

static const struct {
    int ranks, absent[RANKS_MOST], num_absent;
    const char *named;
} worlds[] = {
    {2, {1}, 1, "1"},
    {16, {15}, 1, "15"},
    {4, {1, 3}, 2, "1, 3"},
    {16, {1, 2, 3, 5, 8, 9, 10, 11}, 8, "1, 2, 3, 5, 8, 9, 10, 11"},
    {16, {1, 2, 3, 5, 8, 9, 10, 11, 12}, 9, "1, 2, 3, 5, 8, 9, 10, 11 and 1 more"},
    {14, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, 13, "1, 2, 3, 4, 5, 6, 7, 8 and 5 more"},
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void a_step_names_the_silent_ranks(void **state)
{
    (void)state;
    step_is_over = false;
    for (int i = 0; i < WORLDS; i++) {
        char sentence[256];
        struct steps s = world(worlds[i].ranks, worlds[i].absent, worlds[i].num_absent);
        MPI_Request request = MPI_REQUEST_NULL;
        snprintf(sentence, sizeof sentence, "step 'one': not completed within 1 ms (BATON_START_MS); silent ranks: %s",
                 worlds[i].named);
        assert_int_equal(steps_begin(&s, "one"), 0);
        assert_int_equal(steps_finish(&s, "one", MPI_SUCCESS, &request), BATON_ETIMEDOUT);
        assert_string_equal(baton_errmsg(), sentence);
        assert_int_equal(steps_begin(&s, "two"), BATON_ETIMEDOUT);
        steps_fini(&s);
    }
}

/* All came to the step, but it does not end: one of them has died since. */
static void a_step_without_silent_ranks_says_so(void **state)
{
    (void)state;
    MPI_Request request = MPI_REQUEST_NULL;
    struct steps s = world(3, NULL, 0);
    step_is_over = false;
    assert_int_equal(steps_begin(&s, "one"), 0);
    assert_int_equal(steps_finish(&s, "one", MPI_SUCCESS, &request), BATON_ETIMEDOUT);
    assert_string_equal(baton_errmsg(),
                        "step 'one': not completed within 1 ms (BATON_START_MS); silent ranks: none, but "
                        "some did not answer afterwards");
    steps_fini(&s);
}

static void a_step_to_which_all_come_ends(void **state)
{
    (void)state;
    MPI_Request request = MPI_REQUEST_NULL;
    struct steps s = world(RANKS_MOST, NULL, 0);
    step_is_over = true;
    assert_int_equal(steps_begin(&s, "one"), 0);
    assert_int_equal(steps_finish(&s, "one", MPI_SUCCESS, &request), 0);
    steps_fini(&s);
}

/* ---- meetings ---------------------------------------------------------------------------------------------------- */

static int meet(struct meeting *m, const struct steps *s)
{
    int rc;
    memset(m, 0, sizeof *m);
    assert_int_equal(meeting_init(m, s), 0);
    for (unsigned polls = 0; (rc = meeting_wait(m, s, "lunch", true)) == BATON_EAGAIN; polls++)
        steps_pause(polls);
    return rc;
}

/* All hear of the outcome once, also those that did not come. */
static void assert_all_are_told(void)
{
    for (int r = 1; r < ranks; r++)
        assert_int_equal(sent_to[r], 1);
}

static void a_meeting_names_the_missing_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        char missing[128], sentence[256];
        struct meeting m;
        struct steps s = world(worlds[i].ranks, worlds[i].absent, worlds[i].num_absent);
        snprintf(sentence, sizeof sentence, "lunch: not all ranks came within 1 ms (BATON_WRAP_MS); missing: %s",
                 worlds[i].named);
        assert_int_equal(meet(&m, &s), BATON_ETIMEDOUT);
        assert_string_equal(baton_errmsg(), sentence);
        meeting_missing(&m, &s, missing, sizeof missing);
        assert_string_equal(missing, strstr(sentence, "missing"));
        assert_all_are_told();
        meeting_fini(&m, &s);
        steps_fini(&s);
    }
}

/* The text ends where the room does, and nothing is written behind it or before it. */
static void a_text_has_its_room_and_no_more(void **state)
{
    (void)state;
    static const char whole[] = "missing: 1, 2, 3, 4, 5, 6, 7, 8 and 5 more";
    const int last = WORLDS - 1;
    struct meeting m;
    struct steps s = world(worlds[last].ranks, worlds[last].absent, worlds[last].num_absent);
    assert_int_equal(meet(&m, &s), BATON_ETIMEDOUT);
    for (size_t size = 1; size <= sizeof whole; size++) {
        char room[sizeof whole + 64];
        memset(room, '#', sizeof room);
        meeting_missing(&m, &s, room + 32, size);
        assert_int_equal(strlen(room + 32), size - 1);
        assert_memory_equal(room + 32, whole, size - 1);
        for (size_t i = 0; i < sizeof room; i++)
            assert_true((i >= 32 && i < 32 + size) || room[i] == '#');
    }
    meeting_fini(&m, &s);
    steps_fini(&s);
}

static void a_meeting_to_which_all_come_is_one(void **state)
{
    (void)state;
    char missing[128];
    struct meeting m;
    struct steps s = world(RANKS_MOST, NULL, 0);
    assert_int_equal(meet(&m, &s), 0);
    meeting_missing(&m, &s, missing, sizeof missing);
    assert_string_equal(missing, "");
    assert_all_are_told();
    meeting_fini(&m, &s);
    steps_fini(&s);
}

/* Rank 0 stays until MPI has what it says, for as long as a rank may be silent, and no longer than MPI goes on. */
static void rank_0_stays_until_all_are_told(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct meeting m = {0};
        struct steps s = world(4, NULL, 0);
        settings.peer_ms = 60000;
        sends = OPEN;
        assert_int_equal(meeting_init(&m, &s), 0);
        for (int k = 0; k < 3; k++)
            assert_int_equal(meeting_wait(&m, &s, "lunch", true), BATON_EAGAIN);
        if (i == 0) {
            settings.peer_ms = 1;
            usleep(2000);
        } else
            sends = i == 1 ? SENT : REFUSED;
        assert_int_equal(heard.num_lines, 0);
        assert_int_equal(meeting_wait(&m, &s, "lunch", true), 0);
        assert_int_equal(heard.num_lines, i == 2);
        assert_all_are_told();
        sends = SENT;
        meeting_fini(&m, &s);
        steps_fini(&s);
    }
    char line[128];
    snprintf(line, sizeof line, "a rank could not be told that the ranks have met: MPI error %d", MPI_ERR_OTHER);
    assert_string_equal(heard.line, line);
}

/* Who comes once it is decided is taken out of MPI, and nobody is told. What MPI refuses then is said. */
static void a_meeting_that_is_over_is_left_as_it_should_be(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct meeting m;
        struct steps s = world(4, (const int[]){2}, 1);
        assert_int_equal(meet(&m, &s), BATON_ETIMEDOUT);
        assert_string_equal(heard.line, "lunch: not all ranks came within 1 ms (BATON_WRAP_MS); missing: 2");
        heard.num_lines = 0;
        messages_from[num_messages++] = 2;
        probes_fail = i == 1;
        meeting_fini(&m, &s);
        assert_int_equal(num_messages, i);
        assert_int_equal(heard.num_lines, i);
        assert_all_are_told(); /* and not once more */
        steps_fini(&s);
    }
    assert_non_null(strstr(heard.line, "meeting the ranks failed: error"));
}

/* Both look for messages on one communicator. */
static void a_meeting_takes_no_message_of_a_step(void **state)
{
    (void)state;
    struct meeting m;
    MPI_Request request = MPI_REQUEST_NULL;
    struct steps s = world(2, NULL, 0);
    step_is_over = true;
    assert_int_equal(steps_begin(&s, "one"), 0);
    assert_int_equal(steps_finish(&s, "one", MPI_SUCCESS, &request), 0);
    const int tag_of_steps = tag_asked;
    messages_from[num_messages++] = 1;
    assert_int_equal(meet(&m, &s), 0);
    assert_int_not_equal(tag_asked, tag_of_steps);
    meeting_fini(&m, &s);
    steps_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_names_the_silent_ranks),
        cmocka_unit_test(a_step_without_silent_ranks_says_so),
        cmocka_unit_test(a_step_to_which_all_come_ends),
        cmocka_unit_test(a_meeting_names_the_missing_ranks),
        cmocka_unit_test(a_text_has_its_room_and_no_more),
        cmocka_unit_test(a_meeting_to_which_all_come_is_one),
        cmocka_unit_test(rank_0_stays_until_all_are_told),
        cmocka_unit_test(a_meeting_that_is_over_is_left_as_it_should_be),
        cmocka_unit_test(a_meeting_takes_no_message_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
