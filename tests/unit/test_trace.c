/* SPDX-License-Identifier: BSD-3-Clause */
/* trace: good lines, every kind of bad field, and random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/random.h"
#include "replay/trace.h"

#define GOOD "{\"timestamp\": 7, \"input_length\": 513, \"output_length\": 0, \"hash_ids\": [3, 0]}"

static int parse(const char *line, uint64_t before, struct trace_request *out, struct why *why)
{
    why->text[0] = '\0';
    return trace_parse(line, strlen(line), before, out, why);
}

static int read_text(const char *text, size_t length, uint32_t most, struct trace *out, struct why *why)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, length, "r");
    assert_non_null(file);
    int rc = trace_read(file, "t.jsonl", most, out, why);
    fclose(file);
    return rc;
}

static void good_line(void **state)
{
    (void)state;
    struct why why;
    struct trace_request r = {0};
    assert_int_equal(parse(GOOD, 7, &r, &why), 0);
    assert_int_equal(r.arrival_ms, 7);
    assert_int_equal(r.tokens, 513);
    assert_int_equal(r.output_tokens, 0);
}

static void further_fields_pass(void **state)
{
    (void)state;
    struct why why;
    struct trace_request r;
    assert_int_equal(
        parse("{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0],\"turn\":\"x\"}", 0, &r, &why),
        0);
}

/* Each line has one mistake, and the error names the field. */
static void bad_fields_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "\"timestamp\" is missing"},
        {"{\"timestamp\":9,\"output_length\":1,\"hash_ids\":[0]}", "\"input_length\" is missing"},
        {"{\"timestamp\":9,\"input_length\":1,\"hash_ids\":[0]}", "\"output_length\" is missing"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1}", "\"hash_ids\" is missing"},
        {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "\"timestamp\" must be"},
        {"{\"timestamp\":4,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}",
         "\"timestamp\" must be an integer from 5"},
        {"{\"timestamp\":9.5,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "and is 9.5"},
        {"{\"timestamp\":null,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "and is null"},
        {"{\"timestamp\":9,\"input_length\":0,\"output_length\":1,\"hash_ids\":[]}", "\"input_length\" must be"},
        {"{\"timestamp\":9,\"input_length\":16777217,\"output_length\":1,\"hash_ids\":[0]}",
         "16777216, and is 16777217"},
        {"{\"timestamp\":9,\"input_length\":\"12\",\"output_length\":1,\"hash_ids\":[0]}", "and is \"12\""},
        {"{\"timestamp\":9,\"input_length\":true,\"output_length\":1,\"hash_ids\":[0]}", "\"input_length\" must be"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":-1,\"hash_ids\":[0]}", "\"output_length\" must be"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":[],\"hash_ids\":[0]}", "\"output_length\" must be"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":0}", "\"hash_ids\" must be an array"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}", "must have 1 ids for 1 tokens"},
        {"{\"timestamp\":9,\"input_length\":512,\"output_length\":1,\"hash_ids\":[0,1]}", "must have 1 ids for 512"},
        {"{\"timestamp\":9,\"input_length\":513,\"output_length\":1,\"hash_ids\":[0]}", "must have 2 ids for 513"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[-2]}", "and is -2"},
        {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[\"a\"]}", "and is \"a\""},
        {"{\"timestamp\":9,\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "duplicate"},
        {"{\"timestamp\":99999999999999999999,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0]}", "not JSON"},
        {"[1]", "not a JSON object"},
        {"7", "not JSON"},
        {"", "not JSON"},
        {GOOD " x", "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct why why;
        struct trace_request r = {.tokens = 77};
        assert_int_equal(parse(cases[i][0], 5, &r, &why), -1);
        if (strstr(why.text, cases[i][1]) == NULL)
            fail_msg("line %s: \"%s\" does not say \"%s\"", cases[i][0], why.text, cases[i][1]);
        assert_int_equal(r.tokens, 77);
    }
}

static void long_values_are_cut_in_errors(void **state)
{
    (void)state;
    char line[4096];
    struct why why;
    struct trace_request r;
    snprintf(line, sizeof line, "{\"timestamp\":\"%0*d\",\"input_length\":1}", 3000, 0);
    assert_int_equal(parse(line, 0, &r, &why), -1);
    assert_true(strlen(why.text) < 200);
    assert_non_null(strstr(why.text, "\"timestamp\" must be"));
    assert_non_null(strstr(why.text, "..."));
}

/* A line that is cut anywhere is an error. No byte behind its end is read (the address sanitizer checks that). */
static void cut_lines_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(GOOD); n++) {
        struct why why;
        struct trace_request r;
        char *cut = malloc(n + 1);
        assert_non_null(cut);
        memcpy(cut, GOOD, n);
        assert_int_equal(trace_parse(cut, n, 0, &r, &why), -1);
        free(cut);
    }
}

static void files(void **state)
{
    (void)state;
    struct why why;
    struct trace t;
    const char two[] = GOOD "\n" GOOD "\n", unended[] = GOOD "\n" GOOD;
    assert_int_equal(read_text(two, strlen(two), 100, &t, &why), 0);
    assert_int_equal(t.count, 2);
    trace_fini(&t);
    assert_int_equal(read_text(unended, strlen(unended), 100, &t, &why), 0);
    assert_int_equal(t.count, 2);
    trace_fini(&t);
    assert_int_equal(read_text(two, strlen(two), 1, &t, &why), 0);
    assert_int_equal(t.count, 1);
    trace_fini(&t);
}

static void file_errors_name_the_line(void **state)
{
    (void)state;
    struct why why;
    struct trace t;
    const char bad[] = GOOD "\n{\"timestamp\":8}\n", back[] = GOOD "\n{\"timestamp\":6}\n", blank[] = GOOD "\n\n" GOOD;
    assert_int_equal(read_text(bad, strlen(bad), 100, &t, &why), -1);
    assert_non_null(strstr(why.text, "t.jsonl:2: field \"input_length\" is missing"));
    assert_int_equal(t.count, 0);
    assert_null(t.requests);
    assert_int_equal(read_text(back, strlen(back), 100, &t, &why), -1);
    assert_non_null(strstr(why.text, "t.jsonl:2: field \"timestamp\" must be an integer from 7 to"));
    assert_int_equal(read_text(blank, strlen(blank), 100, &t, &why), -1);
    assert_non_null(strstr(why.text, "t.jsonl:2: "));
    assert_int_equal(read_text("\n", 1, 100, &t, &why), -1);
    /* lines after the requests that are asked for are not read */
    assert_int_equal(read_text(bad, strlen(bad), 1, &t, &why), 0);
    trace_fini(&t);
}

static void missing_and_empty_files(void **state)
{
    (void)state;
    struct why why;
    struct trace t;
    assert_int_equal(trace_open("/nonexistent/trace", 1, &t, &why), -1);
    assert_non_null(strstr(why.text, "/nonexistent/trace: cannot open"));
    assert_int_equal(trace_open("/dev/null", 1, &t, &why), -1);
    assert_non_null(strstr(why.text, "no request"));
    assert_int_equal(trace_open("/", 1, &t, &why), -1);
    assert_non_null(strstr(why.text, "/:1: cannot read"));
}

static void line_length_has_a_limit(void **state)
{
    (void)state;
    struct why why;
    struct trace t;
    const size_t length = strlen(GOOD);
    char *text = malloc(TRACE_LINE_MAX + 1);
    assert_non_null(text);
    memset(text, ' ', TRACE_LINE_MAX + 1);
    memcpy(text, GOOD, length);
    assert_int_equal(read_text(text, TRACE_LINE_MAX, 9, &t, &why), 0);
    trace_fini(&t);
    assert_int_equal(read_text(text, TRACE_LINE_MAX + 1, 9, &t, &why), -1);
    assert_non_null(strstr(why.text, "t.jsonl:1: the line is longer than"));
    free(text);
}

static void longest_prompt_fits_a_line(void **state)
{
    (void)state;
    struct why why;
    struct trace_request r;
    const uint32_t ids = TRACE_TOKENS_MAX / TRACE_HASH_TOKENS;
    char *line = malloc(TRACE_LINE_MAX);
    assert_non_null(line);
    int n = sprintf(line, "{\"timestamp\":0,\"input_length\":%d,\"output_length\":1,\"hash_ids\":[", TRACE_TOKENS_MAX);
    for (uint32_t i = 0; i < ids; i++)
        n += sprintf(line + n, "%s%u", i ? ", " : "", 1000000 + i);
    n += sprintf(line + n, "]}");
    assert_true((size_t)n < TRACE_LINE_MAX);
    assert_int_equal(trace_parse(line, (size_t)n, 0, &r, &why), 0);
    assert_int_equal(r.tokens, TRACE_TOKENS_MAX);
    free(line);
}

/* Bytes at random, and good lines with a few bytes changed: never a crash, and what is accepted is within bounds. */
static void random_bytes(void **state)
{
    (void)state;
    uint64_t random = 42;
    for (int round = 0; round < 20000; round++) {
        char line[160];
        struct why why;
        struct trace_request r;
        size_t n = strlen(GOOD);
        memcpy(line, GOOD, n);
        if (round % 2) {
            for (uint32_t k = 1 + random_below(&random, 4); k > 0; k--)
                line[random_below(&random, (uint32_t)n)] = (char)random_next(&random);
        } else {
            n = random_below(&random, sizeof line);
            for (size_t k = 0; k < n; k++)
                line[k] = (char)random_next(&random);
        }
        if (trace_parse(line, n, 0, &r, &why) == 0)
            assert_in_range(r.tokens, 1, TRACE_TOKENS_MAX);
        else
            assert_true(strlen(why.text) > 0);
    }
}

static void made_requests(void **state)
{
    (void)state;
    struct why why;
    struct trace a, b, other;
    uint32_t partial = 0, differing = 0;
    assert_int_equal(trace_make(TRACE_DEFAULT_REQUESTS, 1, &a, &why), 0);
    assert_int_equal(trace_make(TRACE_DEFAULT_REQUESTS, 1, &b, &why), 0);
    assert_int_equal(trace_make(TRACE_DEFAULT_REQUESTS, 2, &other, &why), 0);
    assert_int_equal(a.count, TRACE_DEFAULT_REQUESTS);
    assert_memory_equal(a.requests, b.requests, a.count * sizeof *a.requests);
    for (uint32_t i = 0; i < a.count; i++) {
        assert_in_range(a.requests[i].tokens, 100, 6000);
        assert_true(i == 0 || a.requests[i].arrival_ms >= a.requests[i - 1].arrival_ms);
        partial += a.requests[i].tokens % 16 != 0;
        differing += a.requests[i].tokens != other.requests[i].tokens;
    }
    assert_true(partial > a.count / 2);
    assert_true(differing > a.count / 2);
    trace_fini(&a);
    trace_fini(&b);
    trace_fini(&other);
}

static void each_request_twice(void **state)
{
    (void)state;
    struct why why;
    struct trace once, twice;
    assert_int_equal(trace_make(5, 1, &once, &why), 0);
    assert_int_equal(trace_make(5, 1, &twice, &why), 0);
    assert_int_equal(trace_double(&twice, &why), 0);
    assert_int_equal(twice.count, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_memory_equal(&twice.requests[i], &once.requests[i / 2], sizeof *once.requests);
    trace_fini(&once);
    trace_fini(&twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_line),
        cmocka_unit_test(further_fields_pass),
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(long_values_are_cut_in_errors),
        cmocka_unit_test(cut_lines_are_refused),
        cmocka_unit_test(files),
        cmocka_unit_test(file_errors_name_the_line),
        cmocka_unit_test(missing_and_empty_files),
        cmocka_unit_test(line_length_has_a_limit),
        cmocka_unit_test(longest_prompt_fits_a_line),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(made_requests),
        cmocka_unit_test(each_request_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
