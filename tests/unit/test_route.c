/* SPDX-License-Identifier: BSD-3-Clause */
/* route and distances: requests go to near decode engines, and none of these gets far more than another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "replay/distances.h"
#include "replay/route.h"

#define REQUESTS 24

static struct roster_engine prefill[] = {{.name = "prefill0"}, {.name = "prefill1"}};
static struct roster_engine decode[] = {{.name = "decode0"}, {.name = "decode1"}, {.name = "decode2"}};
static const struct roster roster = {.num = {2, 3}, .engines = {prefill, decode}};

/* ---- distances --------------------------------------------------------------------------------------------------- */

static int parse(const char *text, struct distances *out, struct why *why)
{
    json_t *table = json_loads(text, 0, NULL);
    assert_non_null(table);
    const int rc = distances_parse(table, &roster, out, why);
    json_decref(table);
    return rc;
}

static void a_table_is_read(void **state)
{
    (void)state;
    struct why why;
    struct distances d;
    assert_int_equal(
        parse("{\"prefill1\": {\"hosts\": [\"n1\"], \"decode\": [{\"engine\": \"decode2\", \"distance\": 1.2},"
              " {\"engine\": \"decode0\", \"distance\": 10}]},"
              " \"prefill0\": {\"decode\": [{\"engine\": \"decode1\", \"distance\": 0}]},"
              " \"decode0\": {\"prefill\": []}}",
              &d, &why),
        0);
    const double expected[] = {HUGE_VAL, 0, HUGE_VAL, 10, HUGE_VAL, 1.2};
    for (int i = 0; i < 6; i++)
        assert_true(d.of[i] == expected[i]);
    distances_fini(&d);
    assert_null(d.of);
}

static void a_bad_table_is_refused(void **state)
{
    (void)state;
#define WITH(one) "{\"prefill0\": {\"decode\": [{\"engine\": \"decode0\", \"distance\": 1}]}, \"prefill1\": " one "}"
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"{}", "\"prefill0\" must have a list"},
        {"[]", "\"prefill0\" must have a list"},
        {WITH("{\"decode\": []}"), "\"prefill1\" must have a list"},
        {WITH("{\"decode\": {\"engine\": 1}}"), "\"prefill1\" must have a list"},
        {WITH("{\"decode\": [7]}"), "without a name"},
        {WITH("{\"decode\": [{\"engine\": 1, \"distance\": 1}]}"), "without a name"},
        {WITH("{\"decode\": [{\"engine\": \"decode3\", \"distance\": 1}]}"), "\"decode3\", and there is no such"},
        {WITH("{\"decode\": [{\"engine\": \"prefill0\", \"distance\": 1}]}"), "no such decode engine"},
        {WITH("{\"decode\": [{\"engine\": \"decode1\"}]}"), "must be a number"},
        {WITH("{\"decode\": [{\"engine\": \"decode1\", \"distance\": \"1\"}]}"), "must be a number"},
        {WITH("{\"decode\": [{\"engine\": \"decode1\", \"distance\": -1}]}"), "must be a number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct distances d;
        struct why why = {0};
        assert_int_equal(parse(bad[i].text, &d, &why), -1);
        assert_non_null(strstr(why.text, bad[i].why));
        assert_null(d.of);
    }
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct distances d;
    struct why why = {0};
    assert_int_equal(distances_open("/no-such-file", &roster, &d, &why), -1);
    assert_non_null(strstr(why.text, "--pairs /no-such-file: "));
}

/* ---- route ------------------------------------------------------------------------------------------------------- */

static void all_in_turn(void **state)
{
    (void)state;
    struct why why;
    struct route r;
    assert_int_equal(route_init(&r, roster.num, REQUESTS, NULL, 8, &why), 0);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(r.engine_of[SIDE_PREFILL][i], i % 2);
        assert_int_equal(r.engine_of[SIDE_DECODE][i], i % 3);
    }
    assert_int_equal(r.nearest, 0);
    route_fini(&r);
}

/* The route by these distances, checked: nobody is `lead` requests more than another ahead, and each request is at the
   nearest engine that this leaves. */
static void make(struct route *r, double *of, uint32_t lead, uint32_t given[3])
{
    struct why why;
    const struct distances d = {.prefills = 2, .decodes = 3, .of = of};
    assert_int_equal(route_init(r, roster.num, REQUESTS, &d, lead, &why), 0);
    memset(given, 0, 3 * sizeof *given);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const uint32_t p = r->engine_of[SIDE_PREFILL][i], to = r->engine_of[SIDE_DECODE][i];
        assert_int_equal(p, i % 2);
        for (uint32_t other = 0; other < 3; other++) {
            uint32_t least = given[0] < given[1] ? given[0] : given[1];
            least = least < given[2] ? least : given[2];
            assert_true(given[other] >= least + lead || of[3 * p + to] <= of[3 * p + other]);
        }
        given[to]++;
        for (uint32_t other = 0; other < 3; other++)
            assert_true(given[to] <= given[other] + lead);
    }
}

static void the_nearest_takes_the_request(void **state)
{
    (void)state;
    double crossed[] = {10, 2, 20, 2, 10, 20};
    struct route r;
    uint32_t given[3];
    make(&r, crossed, REQUESTS, given);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_int_equal(r.engine_of[SIDE_DECODE][i], i % 2 == 0 ? 1 : 0);
    assert_int_equal(r.nearest, REQUESTS);
    route_fini(&r);
}

static void a_near_engine_is_not_overloaded(void **state)
{
    (void)state;
    double all_near_one[] = {1, 2, 10, 1, 10, 2};
    struct route r;
    uint32_t given[3];
    make(&r, all_near_one, 4, given);
    assert_true(given[0] > given[1] && given[0] > given[2]);
    assert_int_equal(given[0] + given[1] + given[2], REQUESTS);
    assert_int_equal(r.nearest, given[0]);
    route_fini(&r);
    make(&r, all_near_one, 1, given); /* nobody may lead: all get the same */
    for (int d = 0; d < 3; d++)
        assert_int_equal(given[d], REQUESTS / 3);
    route_fini(&r);
}

static void equally_near_engines_share(void **state)
{
    (void)state;
    double equal[] = {2, 2, 2, 2, 2, 2}, unknown[] = {HUGE_VAL, 1, HUGE_VAL, HUGE_VAL, 1, HUGE_VAL};
    struct route r;
    uint32_t given[3];
    make(&r, equal, 8, given);
    for (int d = 0; d < 3; d++)
        assert_int_equal(given[d], REQUESTS / 3);
    assert_int_equal(r.nearest, REQUESTS);
    route_fini(&r);
    make(&r, unknown, 8, given);    /* an engine that the table leaves out is the last that is taken */
    assert_int_equal(given[1], 13); /* 8 at once, then one for each round of the other two */
    assert_int_equal(given[0] + given[2], 11);
    route_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_read),
        cmocka_unit_test(a_bad_table_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(all_in_turn),
        cmocka_unit_test(the_nearest_takes_the_request),
        cmocka_unit_test(a_near_engine_is_not_overloaded),
        cmocka_unit_test(equally_near_engines_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
