/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: how a sample of pages is taken and counted, with answers of the system that are made up, and this system's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "topo/pages.h"

static char *base;
static uint64_t page, bytes;
static unsigned long asked;

/* Each page once, from the first on, all within the memory, and no part of it left out. */
static void check_sample(unsigned long count, void **pages)
{
    asked = count;
    assert_true(count > 0 && count <= PAGES_SAMPLE);
    assert_ptr_equal(pages[0], base);
    uint64_t most = (bytes + page - 1) / page / count + 1;
    for (unsigned long i = 0; i < count; i++) {
        char *next = i + 1 < count ? pages[i + 1] : base + (bytes + page - 1) / page * page;
        assert_int_equal(((char *)pages[i] - base) % (int64_t)page, 0);
        assert_true((char *)pages[i] < next && next <= (char *)pages[i] + most * page);
    }
}

/* A quarter on node 0, a quarter on 1, a quarter on 3, a quarter without memory. */
static int mixed(unsigned long count, void **pages, int *status)
{
    static const int nodes[] = {0, 1, 3, -ENOENT};
    check_sample(count, pages);
    for (unsigned long i = 0; i < count; i++)
        status[i] = nodes[i % 4];
    return 0;
}

static int refuse(unsigned long count, void **pages, int *status)
{
    (void)status;
    check_sample(count, pages);
    return EPERM;
}

static struct pages_count count(uint64_t size, uint32_t node, pages_ask_fn ask)
{
    bytes = size;
    asked = 0;
    return pages_count(base, size, node, ask);
}

static int prepare(void **state)
{
    (void)state;
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    base = (char *)(uintptr_t)(page * 1000); /* nobody reads there */
    return 0;
}

static void test_counts(void **state)
{
    (void)state;
    struct pages_count c = count(1024 * page, 3, mixed);
    assert_int_equal(c.error, 0);
    assert_int_equal(c.asked, PAGES_SAMPLE);
    assert_int_equal(c.there, PAGES_SAMPLE / 4);
    assert_int_equal(c.other, PAGES_SAMPLE / 2);
    c = count(1024 * page, 7, mixed);
    assert_int_equal(c.there, 0);
    assert_int_equal(c.other, 3 * PAGES_SAMPLE / 4);
}

static void test_samples(void **state)
{
    (void)state;
    static const struct {
        uint64_t pages, extra, sample;
    } cases[] = {{1, 0, 1},     {0, 1, 1},     {8, 0, 8},     {7, 5, 8},
                 {255, 0, 255}, {256, 1, 256}, {300, 0, 256}, {99999999, 3, 256}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pages_count c = count(cases[i].pages * page + cases[i].extra, 0, mixed);
        assert_int_equal(c.asked, cases[i].sample);
        assert_int_equal(asked, cases[i].sample);
    }
    struct pages_count none = count(0, 0, mixed);
    assert_int_equal(none.asked, 0);
    assert_int_equal(asked, 0);
}

static void test_refusal(void **state)
{
    (void)state;
    struct pages_count c = count(10 * page, 0, refuse);
    assert_int_equal(c.error, EPERM);
    assert_int_equal(c.asked + c.there + c.other, 0);
}

/* Memory that was touched is on some node; memory that was not is on none. */
static void test_this_system(void **state)
{
    (void)state;
    const uint64_t size = 64 * page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    madvise(memory, size, MADV_NOHUGEPAGE);
    struct pages_count c = pages_count(memory, size, 0, pages_ask);
    if (c.error != 0) {
        munmap(memory, size);
        print_message("move_pages is not permitted here: %s\n", strerror(c.error));
        skip();
    }
    assert_int_equal(c.asked, 64);
    assert_int_equal(c.there + c.other, 0);
    memset(memory, 1, size / 2);
    c = pages_count(memory, size, 0, pages_ask);
    assert_int_equal(c.there + c.other, 32);
    assert_int_equal(munmap(memory, size), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_this_system),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
