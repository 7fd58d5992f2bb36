/* SPDX-License-Identifier: BSD-3-Clause */
/* sized: structs of callers whose header knows fewer or more fields than this build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "baton.h"

/* No struct that grows ends in padding: a field that came there would not change the size that older builds look at. */
#define ENDS_WITH(type, last)                                                                                          \
    _Static_assert(offsetof(type, last) + sizeof((type *)0)->last == sizeof(type),                                     \
                   #type " ends in padding, or with another member")
ENDS_WITH(baton_log_source_t, engine);
ENDS_WITH(baton_open_params_t, flags);
ENDS_WITH(baton_engine_t, life);
ENDS_WITH(baton_engine_rank_t, host);
ENDS_WITH(baton_geometry_t, bytes);
ENDS_WITH(baton_region_t, device);
ENDS_WITH(baton_driver_t, poll);
ENDS_WITH(baton_offer_params_t, reserved);
ENDS_WITH(baton_append_params_t, tables);
ENDS_WITH(baton_want_params_t, life);
ENDS_WITH(baton_event_t, detail);
ENDS_WITH(baton_stats_t, num_peers);

struct own {
    size_t size;
    uint64_t first, second;
};
#define SMALLER offsetof(struct own, second)

struct newer {
    struct own own;
    uint64_t third;
};

static const struct newer full = {{0, 1, 2}, 3};

static void the_same_struct_is_taken(void **state)
{
    (void)state;
    struct own given = {.size = sizeof given, .first = 1, .second = 2}, own;
    assert_int_equal(sized_take(&given, "own_t", &own, sizeof own), 0);
    assert_memory_equal(&own, &given, sizeof own);
}

static void what_a_smaller_one_lacks_is_zero(void **state)
{
    (void)state;
    struct own given = {.size = SMALLER, .first = 1, .second = UINT64_MAX}, own;
    assert_int_equal(sized_take(&given, "own_t", &own, sizeof own), 0);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.first, 1);
    assert_int_equal(own.second, 0);
}

static void a_larger_one_is_taken_if_the_rest_is_zero(void **state)
{
    (void)state;
    struct newer given = {.own = {.size = sizeof given, .first = 1, .second = 2}};
    struct own own;
    assert_int_equal(sized_take(&given, "own_t", &own, sizeof own), 0);
    assert_true(own.size == sizeof own && own.first == 1 && own.second == 2);
    for (unsigned byte = 0; byte < sizeof given.third; byte++) {
        given.third = UINT64_C(1) << (8 * byte);
        assert_int_equal(sized_take(&given, "own_t", &own, sizeof own), BATON_EINVAL);
        assert_non_null(strstr(baton_errmsg(), "own_t"));
        assert_non_null(strstr(baton_errmsg(), "knows 24 bytes"));
        assert_int_equal(own.first, 0);
    }
}

static void a_size_that_was_not_set_is_refused(void **state)
{
    (void)state;
    static const size_t none[] = {0, 1, sizeof(size_t) - 1, SIZED_MAX + 1, SIZE_MAX};
    struct own own;
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct own given = {.size = none[i]};
        assert_int_equal(sized_take(&given, "own_t", &own, sizeof own), BATON_EINVAL);
        assert_non_null(strstr(baton_errmsg(), "BATON_INIT(own_t)"));
        assert_int_equal(sized_check(none[i], "own_t"), BATON_EINVAL);
        assert_non_null(strstr(baton_errmsg(), "own_t"));
    }
    assert_int_equal(sized_take(NULL, "own_t", &own, sizeof own), BATON_EINVAL);
    assert_int_equal(sized_check(sizeof(size_t), "own_t"), 0);
    assert_int_equal(sized_check(SIZED_MAX, "own_t"), 0);
}

static void only_what_the_caller_knows_is_given_back(void **state)
{
    (void)state;
    struct newer given = full;
    given.own.size = SMALLER;
    const struct own changed = {.size = sizeof changed, .first = 10, .second = 20};
    sized_give_back(&changed, sizeof changed, &given);
    assert_true(given.own.size == SMALLER && given.own.first == 10 && given.own.second == 2 && given.third == 3);
    given.own.size = sizeof given;
    sized_give_back(&changed, sizeof changed, &given);
    assert_true(given.own.size == sizeof given && given.own.second == 20 && given.third == 3);
}

static void a_struct_is_filled_as_far_as_both_know_it(void **state)
{
    (void)state;
    const struct own own = {.size = 0, .first = 10, .second = 20};
    struct newer out = full;
    sized_fill(&own, sizeof own, &out, SMALLER);
    assert_true(out.own.size == SMALLER && out.own.first == 10 && out.own.second == 2 && out.third == 3);
    sized_fill(&own, sizeof own, &out, sizeof out);
    assert_true(out.own.size == sizeof own && out.own.second == 20 && out.third == 0);
}

/* ---- by the function that needs no context ----------------------------------------------------------------------- */

static const baton_geometry_t shape = {.size = sizeof shape,
                                       .elem_bytes = 2,
                                       .planes = 2,
                                       .head_size = 64,
                                       .num_groups = 1,
                                       .groups = {{.block_tokens = 16, .num_blocks = 8}},
                                       .num_splits = 1,
                                       .splits = {{.heads_total = 1, .head_count = 1}},
                                       .layers_total = 1,
                                       .layer_count = 1};

static void layouts_are_made_for_older_and_newer_callers(void **state)
{
    (void)state;
    struct {
        baton_geometry_t g;
        uint64_t more;
    } newer = {.g = shape, .more = 0};
    baton_tensor_t tensor;
    newer.g.size = offsetof(baton_geometry_t, bytes);
    assert_int_equal(baton_geometry_layout(&newer.g, &tensor, 0), 0);
    assert_int_equal(newer.g.size, offsetof(baton_geometry_t, bytes));
    assert_int_equal(newer.g.bytes, 0); /* this field lies behind those that the caller knows */
    assert_ptr_equal(newer.g.tensors, &tensor);
    newer.g.size = sizeof newer;
    newer.g.bytes = 0;
    assert_int_equal(baton_geometry_layout(&newer.g, &tensor, 0), 0);
    assert_int_equal(newer.g.size, sizeof newer);
    assert_int_equal(newer.g.bytes, 2 * 2 * 16 * 64 * 8);
    newer.more = 1;
    assert_int_equal(baton_geometry_layout(&newer.g, &tensor, 0), BATON_EINVAL);
    newer.g.size = 0;
    assert_int_equal(baton_geometry_layout(&newer.g, &tensor, 0), BATON_EINVAL);
    assert_non_null(strstr(baton_errmsg(), "BATON_INIT(baton_geometry_t)"));
}

static void the_macro_sets_the_size_alone(void **state)
{
    (void)state;
    const baton_want_params_t w = BATON_INIT(baton_want_params_t), zeros = {.size = sizeof zeros};
    assert_memory_equal(&w, &zeros, sizeof w);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void events_and_statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(baton_event_name(BATON_EVENT_OFFER), "offer");
    assert_string_equal(baton_event_name(BATON_EVENT_WANT), "want");
    assert_string_equal(baton_event_name(BATON_EVENT_GIVEN_UP), "given up");
    assert_string_equal(baton_event_name(BATON_EVENT_VERDICT), "verdict");
    assert_string_equal(baton_event_name(BATON_EVENT_ENGINES), "engines");
    assert_string_equal(baton_event_name((baton_event_type_t)0), "unknown");
    assert_string_equal(baton_event_name((baton_event_type_t)6), "unknown");
    assert_string_equal(baton_status_name(BATON_STATUS_DONE), "done");
    assert_string_equal(baton_status_name(BATON_STATUS_FAILED), "failed");
    assert_string_equal(baton_status_name(BATON_STATUS_EXPIRED), "expired");
    assert_string_equal(baton_status_name(BATON_STATUS_CANCELLED), "cancelled");
    assert_string_equal(baton_status_name((baton_status_t)0), "unknown");
    assert_string_equal(baton_status_name((baton_status_t)5), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_struct_is_taken),
        cmocka_unit_test(what_a_smaller_one_lacks_is_zero),
        cmocka_unit_test(a_larger_one_is_taken_if_the_rest_is_zero),
        cmocka_unit_test(a_size_that_was_not_set_is_refused),
        cmocka_unit_test(only_what_the_caller_knows_is_given_back),
        cmocka_unit_test(a_struct_is_filled_as_far_as_both_know_it),
        cmocka_unit_test(layouts_are_made_for_older_and_newer_callers),
        cmocka_unit_test(the_macro_sets_the_size_alone),
        cmocka_unit_test(events_and_statuses_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
