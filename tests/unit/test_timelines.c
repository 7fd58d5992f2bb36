/* SPDX-License-Identifier: BSD-3-Clause */
/* timelines: files of ranks become one file of JSON, whatever is in them; clocks of machines are compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batonrun/clocks.h"
#include "batonrun/timelines.h"

static char folder[] = "/tmp/baton-timelines-XXXXXX";
static char file[64];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && snprintf(file, sizeof file, "%s/job", folder) > 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static const char *name_of(uint32_t rank)
{
    static char name[80];
    snprintf(name, sizeof name, "%s.%" PRIu32, file, rank);
    return name;
}

/* A rank's file of these lines; its clock began with that boot, `behind_s` later than the calendar. */
static void write_rank(uint32_t rank, const char *boot, int64_t behind_s, const char *lines)
{
    FILE *out = fopen(name_of(rank), "we");
    assert_non_null(out);
    fprintf(out, "[\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"baton_clock\",\"args\":{\"version\":1,\"rank\":%u,", rank + 1,
            rank);
    fprintf(out, "\"boot\":\"%s\",\"ns\":0,\"realtime_ns\":%" PRId64 "}},\n%s", boot, behind_s * 1000000000, lines);
    fclose(out);
}

/* "{...}," of a message; us: by the rank's own clock. */
static const char *message(uint32_t rank, double us, const char *id, bool is_sent, uint32_t peer)
{
    static char line[4][256];
    static unsigned i;
    char *text = line[i++ % 4];
    snprintf(text, 256,
             "{\"ts\":%.3f,\"pid\":%u,\"ph\":\"X\",\"name\":\"WANT\",\"dur\":0.1,\"bind_id\":\"%s\",\"flow_%s\":true,"
             "\"args\":{\"%s\":%u}},\n",
             us, rank + 1, id, is_sent ? "out" : "in", is_sent ? "to" : "from", peer);
    return text;
}

static json_t *load(void)
{
    json_error_t error;
    json_t *events = json_load_file(file, 0, &error);
    if (events == NULL)
        fail_msg("%s in line %d", error.text, error.line);
    assert_true(json_is_array(events));
    return events;
}

/* The time of that end of a message, in nanoseconds. */
static int64_t time_of(const json_t *events, const char *id, const char *flow)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        const char *text = json_string_value(json_object_get(event, "bind_id"));
        if (text != NULL && strcmp(text, id) == 0 && json_is_true(json_object_get(event, flow)))
            return (int64_t)(json_number_value(json_object_get(event, "ts")) * 1000 + 0.5);
    }
    fail_msg("no message %s has %s", id, flow);
    return 0;
}

static void test_one_machine(void **state)
{
    (void)state;
    char lines[512];
    snprintf(lines, sizeof lines, "%s%s]\n", message(0, 1000.123, "0x1", true, 1),
             "{\"ts\":2.000,\"pid\":1,\"ph\":\"i\",\"name\":\"records left out\",\"s\":\"p\",\"args\":{}}\n");
    write_rank(0, "a", 77, lines);
    snprintf(lines, sizeof lines, "%s{\"ts\":2.000,\"pid\":2,\"ph\":\"i\",\"name\":\"end\"}\n]\n",
             message(1, 1001.5, "0x1", false, 0));
    write_rank(1, "a", 78, lines);
    struct timelines_result r = timelines_end(file, 2);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.events, 6);
    assert_int_equal(r.missing + r.unfinished + r.bad_lines + r.unsure, 0);
    assert_int_equal(r.machines, 1);
    json_t *events = load();
    assert_int_equal(json_array_size(events), 7);
    assert_int_equal(time_of(events, "0x1", "flow_out"), 1000123);
    assert_int_equal(time_of(events, "0x1", "flow_in"), 1001500);
    json_decref(events);
    assert_int_equal(access(name_of(0), F_OK) + access(name_of(1), F_OK), -2);
}

/* Rank 1's clock began 100 s later, and its calendar is 2 ms ahead. Messages take 30 us there and 50 us back. */
static void write_two_machines(bool and_back)
{
    char lines[1024];
    snprintf(lines, sizeof lines, "%s%s%s]\n", message(0, 200e6, "0x1", true, 1),
             message(0, 200e6 + 10, "0x2", true, 1), and_back ? message(0, 200e6 + 1050, "0x3", false, 1) : "");
    write_rank(0, "a", 1000, lines);
    snprintf(lines, sizeof lines, "%s%s%s]\n", message(1, 100e6 + 90, "0x1", false, 0),
             message(1, 100e6 + 40, "0x2", false, 0), and_back ? message(1, 100e6 + 1000, "0x3", true, 0) : "");
    FILE *out = fopen(name_of(1), "we");
    assert_non_null(out);
    fprintf(out,
            "[\n{\"ph\":\"M\",\"pid\":2,\"name\":\"baton_clock\",\"args\":{\"boot\":\"b\",\"ns\":0,"
            "\"realtime_ns\":1100002000000}},\n%s",
            lines);
    fclose(out);
}

static void test_clocks_by_messages(void **state)
{
    (void)state;
    write_two_machines(true);
    struct timelines_result r = timelines_end(file, 2);
    assert_int_equal(r.error + r.bad_lines + r.unsure, 0);
    assert_int_equal(r.machines, 2);
    assert_int_equal(r.within_ns, 40000);
    json_t *events = load();
    assert_int_equal(time_of(events, "0x2", "flow_in") - time_of(events, "0x2", "flow_out"), 40000);
    assert_int_equal(time_of(events, "0x3", "flow_in") - time_of(events, "0x3", "flow_out"), 40000);
    assert_int_equal(time_of(events, "0x3", "flow_in"), 200001050000);
    json_decref(events);
}

/* With messages of one direction alone, the calendars are all there is, and that is said. */
static void test_clocks_by_calendar(void **state)
{
    (void)state;
    write_two_machines(false);
    struct timelines_result r = timelines_end(file, 2);
    assert_int_equal(r.machines, 2);
    assert_int_equal(r.unsure, 1);
    json_t *events = load();
    assert_int_equal(time_of(events, "0x2", "flow_in") - time_of(events, "0x2", "flow_out"), 2030000);
    json_decref(events);
}

/* b is compared with a directly, c by way of b, and better so than with a; nobody heard of d. */
static void test_places_by_way_of_others(void **state)
{
    (void)state;
    struct clocks c;
    struct clock_place p[4];
    assert_true(clocks_init(&c, 4));
    clocks_message(&c, 0, 1, 1000 + 10);
    clocks_message(&c, 1, 0, -1000 + 20);
    clocks_message(&c, 1, 0, -1000 + 10);
    clocks_message(&c, 1, 2, -300 + 4);
    clocks_message(&c, 2, 1, 300 + 4);
    clocks_message(&c, 0, 2, 700 + 5000);
    clocks_message(&c, 2, 0, -700 + 1000);
    clocks_message(&c, 2, 3, 9);
    clocks_place(&c, p);
    assert_true(p[0].is_known && p[1].is_known && p[2].is_known && !p[3].is_known);
    assert_int_equal(p[1].ahead_ns, 1000);
    assert_int_equal(p[1].within_ns, 10);
    assert_int_equal(p[2].ahead_ns, 700);
    assert_int_equal(p[2].within_ns, 14);
    clocks_fini(&c);
}

/* What is no event of rank 0 in a line of its own is left out, and all else stays. */
static void test_garbage(void **state)
{
    (void)state;
    static const char good[] = "{\"ts\":5.000,\"pid\":1,\"ph\":\"n\",\"name\":\"good\"},\n";
    static const char *const bad[] = {
        "{\"ts\":5.000,\"pid\":2,\"ph\":\"n\"},\n", /* another rank's */
        "{\"ts\":5.000,\"pid\":1,\"ph\":\"n\",\"name\":},\n",
        "{\"ts\":5.000,\"pid\":1,\"ph\":\"n\"}},\n",
        "{\"ts\":5.000,\"pid\":1,\"ph\":\"nn\"},\n",
        "{\"ts\":5e3,\"pid\":1,\"ph\":\"n\"},\n",
        "{\"ts\":-5.000,\"pid\":1,\"ph\":\"n\"},\n",
        "{\"ts\":\"5\",\"pid\":1,\"ph\":\"n\"},\n",
        "{\"ts\":99999999999999999999.0,\"pid\":1,\"ph\":\"n\"},\n",
        "{\"pid\":1,\"ph\":\"n\"},\n",
        "[1,2],\n",
        "7,\n",
        "\xff\xfe\x01,\n",
        "\n",
        "{\"ts\":5.000,\"pid\":1,\"ph\":\"n\",\"name\":\"\xff\"},\n",
        "{\"ph\":\"M\",\"pid\":1,\"name\":\"baton_clock\",\"args\":3\n",
    };
    enum { BAD = sizeof bad / sizeof bad[0] };
    static char long_line[10000];
    write_rank(0, "a", 0, good);
    FILE *out = fopen(name_of(0), "ae");
    for (unsigned i = 0; i < BAD; i++)
        fprintf(out, "%s%s", bad[i], good);
    memset(long_line, '[', sizeof long_line - 1);
    fprintf(out, "%s\n%s", long_line, good);
    fwrite("a\0b,\n", 1, 5, out);
    fprintf(out, "%s{\"ts\":5.000,\"pid\":1,\"ph\":\"n\",\"na", good); /* killed as it wrote */
    fclose(out);
    struct timelines_result r = timelines_end(file, 2);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.bad_lines, BAD + 2);
    assert_int_equal(r.events, BAD + 4);
    assert_int_equal(r.unfinished, 1);
    assert_int_equal(r.missing, 1);
    assert_int_equal(r.first_missing, 1);
    json_decref(load());
    assert_int_equal(unlink(name_of(0)), 0); /* it was kept */
}

static void test_random_bytes(void **state)
{
    (void)state;
    srand(1);
    for (unsigned round = 0; round < 200; round++) {
        char lines[512];
        snprintf(lines, sizeof lines, "%s%s]\n", message(0, 1000.123, "0x1", true, 1), message(0, 7, "0x2", false, 1));
        for (unsigned i = 0; i < 4; i++)
            lines[(size_t)rand() % strlen(lines)] = (char)(1 + rand() % 255);
        write_rank(0, "a", 0, lines);
        write_rank(1, round % 2 ? "b" : "", 5, message(1, 1, "0x1", false, 0));
        assert_int_equal(timelines_end(file, 2).error, 0);
        json_decref(load());
        unlink(name_of(0));
    }
}

static void test_files_that_cannot_be_written(void **state)
{
    (void)state;
    char other[96], pattern[TIMELINES_PATH_BYTES];
    snprintf(other, sizeof other, "%s/none/job", folder);
    struct why why;
    assert_int_equal(timelines_begin(other, 2, &why), -1);
    assert_non_null(strstr(why.text, "No such file"));
    assert_int_equal(timelines_end(other, 2).error, ENOENT);
    assert_int_equal(timelines_pattern("a%r", pattern), EINVAL);
    assert_int_equal(timelines_pattern("/x/job", pattern), 0);
    assert_string_equal(pattern, "/x/job.%r");
    assert_int_equal(timelines_pattern("job", pattern), 0);
    assert_true(pattern[0] == '/');
    write_rank(0, "a", 0, "]\n");
    assert_int_equal(timelines_begin(file, 1, &why), 0); /* what an earlier job left is gone */
    assert_int_equal(access(name_of(0), F_OK), -1);
}

/* In a folder where others may make files: their links and pipes are neither followed nor waited for. */
static void test_names_that_others_took(void **state)
{
    (void)state;
    char victim[96], text[8] = "";
    struct why why;
    struct stat made;
    snprintf(victim, sizeof victim, "%s/victim", folder);
    FILE *out = fopen(victim, "we");
    assert_true(out != NULL && fputs("mine", out) >= 0 && fclose(out) == 0);
    unlink(file);
    assert_int_equal(symlink(victim, file), 0);
    assert_int_equal(timelines_begin(file, 1, &why), -1);
    assert_non_null(strstr(why.text, "link"));
    assert_int_equal(timelines_end(file, 1).error, EEXIST);
    assert_int_equal(unlink(file) + link(victim, file), 0);
    assert_int_equal(timelines_begin(file, 1, &why), 0);
    assert_int_equal(symlink(victim, name_of(0)), 0);
    assert_int_equal(timelines_begin(file, 1, &why), -1);
    alarm(20); /* a pipe that is opened waits for a writer */
    assert_int_equal(mkfifo(name_of(1), 0600), 0);
    struct timelines_result r = timelines_end(file, 2);
    alarm(0);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.missing, 2);
    assert_int_equal(stat(file, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    FILE *in = fopen(victim, "re");
    assert_true(in != NULL && fgets(text, sizeof text, in) != NULL && fclose(in) == 0);
    assert_string_equal(text, "mine");
    assert_int_equal(unlink(name_of(0)) + unlink(name_of(1)) + unlink(victim), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_machine),
        cmocka_unit_test(test_clocks_by_messages),
        cmocka_unit_test(test_clocks_by_calendar),
        cmocka_unit_test(test_places_by_way_of_others),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_files_that_cannot_be_written),
        cmocka_unit_test(test_names_that_others_took),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
