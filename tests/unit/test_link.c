/* SPDX-License-Identifier: BSD-3-Clause */
/* The laboratory's link: what each impairment does to frames, within which bounds, and that the seed decides it all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/link.h"

#define MS UINT64_C(1000000)

static struct link *with(const char *text, uint64_t seed)
{
    struct link_settings s;
    char bad[64];
    struct link *l = link_create(seed);
    assert_non_null(l);
    assert_true(link_settings_parse(text, &s, bad, sizeof bad));
    link_set(l, &s);
    return l;
}

/* Sends a frame that carries its number. */
static void take(struct link *l, uint64_t now_ns, uint32_t number, uint32_t size)
{
    uint8_t frame[LINK_FRAME_MAX] = {0};
    memcpy(frame, &number, sizeof number);
    link_take(l, now_ns, frame, size);
}

/* Takes the next frame that is due. Returns its number, or UINT32_MAX if none is due. */
static uint32_t give(struct link *l, uint64_t now_ns)
{
    uint8_t frame[LINK_FRAME_MAX];
    uint32_t number;
    if (link_give(l, now_ns, frame) == 0)
        return UINT32_MAX;
    memcpy(&number, frame, sizeof number);
    return number;
}

static void adds_up(const struct link *l, uint64_t under_way)
{
    const struct link_counts *c = link_counts(l);
    assert_int_equal(c->taken + c->duplicated, c->given + c->lost + c->cut + c->full + under_way);
}

static void test_good_link(void **state)
{
    (void)state;
    struct link *l = with("", 1);
    assert_true(link_due_ns(l) == UINT64_MAX);
    for (uint32_t i = 0; i < 500; i++)
        take(l, 7 * MS, i, 60 + i);
    assert_true(link_due_ns(l) == 7 * MS);
    uint8_t frame[LINK_FRAME_MAX];
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t number;
        assert_int_equal(link_give(l, 7 * MS, frame), 60 + i);
        memcpy(&number, frame, sizeof number);
        assert_int_equal(number, i);
    }
    assert_int_equal(give(l, 8 * MS), UINT32_MAX);
    adds_up(l, 0);
    link_destroy(l);
}

static void test_delay(void **state)
{
    (void)state;
    struct link *l = with("delay_ms=50", 1);
    take(l, 10 * MS, 0, 100);
    take(l, 11 * MS, 1, 100);
    assert_int_equal(give(l, 60 * MS - 1), UINT32_MAX);
    assert_int_equal(give(l, 60 * MS), 0);
    assert_int_equal(give(l, 60 * MS), UINT32_MAX);
    assert_true(link_due_ns(l) == 61 * MS);
    assert_int_equal(give(l, 61 * MS), 1);
    link_destroy(l);
    l = with("delay_ms=10 jitter_ms=4", 1);
    bool early = false, late = false;
    for (uint32_t i = 0; i < 200; i++) {
        take(l, 0, i, 100);
        uint64_t due = link_due_ns(l);
        assert_in_range(due, 10 * MS, 14 * MS);
        early |= due < 11 * MS;
        late |= due > 13 * MS;
        assert_int_equal(give(l, due), i);
    }
    assert_true(early && late);
    link_destroy(l);
}

static void test_rate(void **state)
{
    (void)state;
    struct link *l = with("rate_mbit=8 delay_ms=1", 1); /* a byte a microsecond */
    for (uint32_t i = 0; i < 3; i++)
        take(l, 0, i, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(give(l, (i + 2) * MS - 1), UINT32_MAX);
        assert_int_equal(give(l, (i + 2) * MS), i);
    }
    take(l, 100 * MS, 3, 1000); /* unused rate is not saved up */
    take(l, 100 * MS, 4, 1000);
    assert_true(link_due_ns(l) == 102 * MS);
    assert_int_equal(give(l, 102 * MS), 3);
    assert_true(link_due_ns(l) == 103 * MS);
    link_destroy(l);
}

static uint32_t share_of(const char *text, uint64_t (*count)(const struct link_counts *c))
{
    enum { FRAMES = 100000 };
    struct link *l = with(text, 42);
    for (uint32_t i = 0; i < FRAMES; i++) {
        take(l, i, i, 100);
        while (give(l, i) != UINT32_MAX)
            ;
    }
    while (give(l, UINT64_MAX - 1) != UINT32_MAX)
        ;
    uint64_t n = count(link_counts(l));
    adds_up(l, 0);
    link_destroy(l);
    return (uint32_t)(n * 10000 / FRAMES);
}

static uint64_t lost(const struct link_counts *c)
{
    return c->lost;
}

static uint64_t duplicated(const struct link_counts *c)
{
    return c->duplicated;
}

static uint64_t reordered(const struct link_counts *c)
{
    return c->reordered;
}

static void test_chances(void **state)
{
    (void)state;
    assert_in_range(share_of("loss=2", lost), 180, 220);
    assert_int_equal(share_of("loss=100", lost), 10000);
    assert_int_equal(share_of("duplicate=5", lost), 0);
    assert_in_range(share_of("duplicate=5", duplicated), 470, 530);
    assert_in_range(share_of("reorder=0.5 queue=4096", reordered), 40, 60);
    assert_int_equal(share_of("delay_ms=0", reordered), 0);
}

static void test_reordered_frames_are_overtaken(void **state)
{
    (void)state;
    struct link *l = with("reorder=20 queue=4096", 3);
    uint32_t behind = 0, most = 0, n;
    for (uint32_t i = 0; i < 1000; i++)
        take(l, i * MS / 10, i, 100);
    for (uint32_t i = 0; i < 1000; i++) {
        n = give(l, 1000 * MS);
        behind += n < most;
        most = n > most ? n : most;
    }
    assert_in_range(behind, 150, 250);
    /* all but those near the end, which no frame follows */
    assert_in_range(behind, link_counts(l)->reordered - 20, link_counts(l)->reordered);
    link_destroy(l);
}

static void test_queue_is_bounded(void **state)
{
    (void)state;
    struct link *l = with("delay_ms=1 queue=10", 1);
    for (uint32_t i = 0; i < 25; i++)
        take(l, 0, i, 100);
    assert_int_equal(link_counts(l)->full, 15);
    adds_up(l, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(give(l, MS), i);
    assert_int_equal(give(l, MS), UINT32_MAX);
    take(l, MS, 25, LINK_FRAME_MAX + 1);
    assert_int_equal(link_counts(l)->lost, 1);
    adds_up(l, 0);
    link_destroy(l);
    l = with("delay_ms=1 queue=4096", 1);
    for (uint32_t i = 0; i < 2 * LINK_QUEUE_MAX; i++)
        take(l, 0, i, 100);
    assert_int_equal(link_counts(l)->full, LINK_QUEUE_MAX);
    link_destroy(l);
}

static void test_cut(void **state)
{
    (void)state;
    struct link_settings s;
    char bad[64];
    struct link *l = with("delay_ms=10", 1);
    take(l, 0, 0, 100);
    assert_true(link_settings_parse("delay_ms=10 cut", &s, bad, sizeof bad));
    link_set(l, &s);
    assert_true(link_due_ns(l) == UINT64_MAX);
    take(l, MS, 1, 100);
    assert_int_equal(give(l, 100 * MS), UINT32_MAX);
    assert_int_equal(link_counts(l)->cut, 2);
    assert_true(link_settings_parse("", &s, bad, sizeof bad));
    link_set(l, &s);
    take(l, 200 * MS, 2, 100);
    assert_int_equal(give(l, 200 * MS), 2);
    adds_up(l, 0);
    link_destroy(l);
}

static void test_seed(void **state)
{
    (void)state;
    static const char all[] = "loss=10 duplicate=10 reorder=10 jitter_ms=3 queue=4096";
    struct link *a = with(all, 5), *b = with(all, 5), *c = with(all, 6);
    uint32_t differ = 0;
    for (uint32_t i = 0; i < 300; i++) {
        take(a, i, i, 100);
        take(b, i, i, 100);
        take(c, i, i, 100);
    }
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t n = give(a, 1000 * MS);
        assert_int_equal(n, give(b, 1000 * MS));
        differ += n != give(c, 1000 * MS);
    }
    assert_true(differ > 50);
    link_destroy(a);
    link_destroy(b);
    link_destroy(c);
}

static void test_settings(void **state)
{
    (void)state;
    struct link_settings s;
    char bad[64];
    assert_true(link_settings_parse(" delay_ms=1.5  loss=0.01\ncut ", &s, bad, sizeof bad));
    assert_int_equal(s.delay_ns, 1500000);
    assert_int_equal(s.loss, 1);
    assert_int_equal(s.queue, LINK_QUEUE);
    assert_true(s.cut);
    static const char *const wrong[] = {"cutt",     "delay",        "delay_ms=",    "delay_ms=x", "delay_ms=1x",
                                        "loss=101", "loss=-1",      "queue=0",      "queue=4097", "rate_mbit=0",
                                        "=1",       "delay_ms=nan", "jitter_ms=1e9"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "loss=1 %s", wrong[i]);
        s.queue = 77;
        if (link_settings_parse(text, &s, bad, sizeof bad) || strcmp(bad, wrong[i]) != 0 || s.queue != 77)
            fail_msg("%s", wrong[i]);
    }
    char endless[300];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_false(link_settings_parse(endless, &s, bad, sizeof bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_link),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_chances),
        cmocka_unit_test(test_reordered_frames_are_overtaken),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
