/* SPDX-License-Identifier: BSD-3-Clause */
/* pretend: engines' memory for tests. Of the device: what baton.h promises of a driver, and nobody else gets in. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "pretend/pretend.h"

#define BYTES 8192
#define CALLS 32 /* that the driver has room for */
#define PIECES 1024

static struct pretend_driver *driver_of(uint8_t *device, uint8_t *kernel, uint64_t bytes, baton_driver_t *table)
{
    struct pretend_driver *d = NULL;
    assert_int_equal(pretend_driver_create(device, kernel, bytes, &d), 0);
    *table = pretend_driver_table(d);
    assert_int_equal(table->size, sizeof *table);
    assert_string_equal(table->name, "pretended device");
    return d;
}

/* Awaits the ends of calls 0 to num - 1, at most `max` a poll: each once. */
static void await(const baton_driver_t *t, int num, int max, int error[])
{
    bool seen[CALLS] = {false};
    const uint64_t until = clock_now_ns() + 20 * CLOCK_NS_PER_S;
    for (int left = num; left > 0;) {
        uint64_t tags[CALLS];
        int errors[CALLS], n = t->poll(t->self, tags, errors, max);
        assert_in_range(n, 0, max);
        for (int i = 0; i < n; i++, left--) {
            assert_in_range(tags[i], 0, num - 1);
            assert_false(seen[tags[i]]);
            seen[tags[i]] = true;
            error[tags[i]] = errors[i];
        }
        assert_true(clock_now_ns() < until);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    assert_int_equal(t->poll(t->self, &(uint64_t){0}, &(int){0}, 1), 0);
}

/* Two addresses of the same pages would hide an exchange of them: here kernel and device are apart. */
static void test_copies(void **state)
{
    (void)state;
    static uint8_t device[BYTES], kernel[BYTES], host[BYTES];
    baton_driver_t t;
    struct pretend_driver *d = driver_of(device, kernel, BYTES, &t);
    int error[CALLS] = {0};
    for (int i = 0; i < BYTES; i++) {
        kernel[i] = (uint8_t)(i % 251);
        host[i] = 255;
    }
    const baton_piece_t from[] = {{.device = device, .host = host + 100, .bytes = 7},
                                  {.device = device + BYTES - 3, .host = host + 200, .bytes = 3}};
    assert_int_equal(t.copy(t.self, from, 2, 0, 0), 0);
    await(&t, 1, CALLS, error);
    assert_int_equal(error[0], 0);
    for (int i = 0; i < BYTES; i++) {
        const int want = i >= 100 && i < 107 ? i - 100 : i >= 200 && i < 203 ? (BYTES - 203 + i) % 251 : 255;
        assert_int_equal(host[i], want);
    }
    const baton_piece_t to = {.device = device + 50, .host = host + 99, .bytes = 2};
    assert_int_equal(t.copy(t.self, &to, 1, 1, 0), 0);
    await(&t, 1, CALLS, error);
    assert_int_equal(error[0], 0);
    for (int i = 0; i < BYTES; i++) {
        assert_int_equal(kernel[i], i == 50 ? 255 : i == 51 ? 0 : i % 251);
        assert_int_equal(device[i], 0);
    }
    pretend_driver_destroy(d);
}

static void test_refuses(void **state)
{
    (void)state;
    static uint8_t room[3 * BYTES], host[BYTES];
    static baton_piece_t many[PIECES + 1];
    uint8_t *device = room + BYTES;
    baton_driver_t t;
    struct pretend_driver *d = driver_of(device, device, BYTES, &t);
    const baton_piece_t wrong[] = {{.device = device - 1, .host = host, .bytes = 1},
                                   {.device = device + BYTES, .host = host, .bytes = 1},
                                   {.device = device + BYTES + 1, .host = host, .bytes = 0},
                                   {.device = device + 1, .host = host, .bytes = BYTES}};
    int error[CALLS];
    memset(host, 1, sizeof host);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t.copy(t.self, &wrong[i], 1, 1, (uint64_t)i), 0);
    await(&t, 4, 1, error);
    for (int i = 0; i < 4; i++)
        assert_int_equal(error[i], BATON_EINVAL);
    for (int i = 0; i < 3 * BYTES; i++)
        assert_int_equal(room[i], 0);
    for (int i = 0; i <= PIECES; i++)
        many[i] = (baton_piece_t){.device = device + i, .host = host + i, .bytes = 1};
    assert_int_equal(t.copy(t.self, many, PIECES + 1, 1, 9), BATON_EINVAL);
    assert_int_equal(t.copy(t.self, many, PIECES, 1, 0), 0);
    await(&t, 1, CALLS, error); /* and not the one that was refused */
    assert_int_equal(error[0], 0);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(device[i], i < PIECES);
    pretend_driver_destroy(d);
}

/* Nobody polls: there is room for so many calls. All are done before the driver has ended. */
static void test_full(void **state)
{
    (void)state;
    static uint8_t device[CALLS + 1], host[CALLS + 1];
    baton_driver_t t;
    struct pretend_driver *d = driver_of(device, device, sizeof device, &t);
    memset(host, 1, sizeof host);
    for (int i = 0; i <= CALLS; i++) {
        const baton_piece_t piece = {.device = device + i, .host = host + i, .bytes = 1};
        assert_int_equal(t.copy(t.self, &piece, 1, 1, (uint64_t)i), i < CALLS ? 0 : BATON_EAGAIN);
    }
    pretend_driver_destroy(d);
    for (int i = 0; i <= CALLS; i++)
        assert_int_equal(device[i], i < CALLS);
    pretend_driver_destroy(NULL);
}

/* Copies come later, and not in the order of the calls. */
static void test_order(void **state)
{
    (void)state;
    static uint8_t device[CALLS], host[CALLS];
    bool differs = false;
    for (int round = 0; round < 20 && !differs; round++) {
        baton_driver_t t;
        uint64_t last = 0;
        struct pretend_driver *d = driver_of(device, device, sizeof device, &t);
        for (uint64_t i = 0; i < CALLS; i++) {
            const baton_piece_t piece = {.device = device + i, .host = host + i, .bytes = 1};
            assert_int_equal(t.copy(t.self, &piece, 1, 1, i), 0);
        }
        for (int left = CALLS; left > 0;) {
            uint64_t tag;
            int error;
            if (t.poll(t.self, &tag, &error, 1) == 0)
                continue;
            left--;
            differs = differs || tag < last;
            last = tag;
        }
        pretend_driver_destroy(d);
    }
    assert_true(differs);
}

/* How a process ends that reads and writes a byte there: the signal, or 0. */
static int touch(uint8_t *at)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)at = (uint8_t)(*(volatile uint8_t *)at + 1);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static baton_geometry_t g = {.bytes = BYTES}, huge = {.bytes = UINT64_C(1) << 60};

static void test_kinds(void **state)
{
    (void)state;
    static const enum pretend_kind kinds[] = {PRETEND_PRIVATE, PRETEND_SHARED, PRETEND_DEVICE};
    for (int i = 0; i < 3; i++) {
        struct pretend p;
        assert_int_equal(pretend_create(&p, kinds[i], &g, 0), 0);
        uint8_t *base = p.base;
        assert_int_equal((uintptr_t)base % (2 << 20), 0);
        for (int k = 0; k < BYTES; k++)
            assert_int_equal(base[k], 0);
        assert_int_equal(touch(base + BYTES - 1), 0);
        assert_int_equal(base[BYTES - 1], kinds[i] != PRETEND_PRIVATE); /* a child sees the same pages, or copies */
        assert_int_equal(p.driver != NULL, kinds[i] == PRETEND_DEVICE);
        if (kinds[i] == PRETEND_DEVICE) {
            baton_driver_t t = p.table;
            uint8_t host[2] = {3, 4};
            int error[CALLS];
            const baton_piece_t piece = {.device = (uint8_t *)p.wrapped + 5, .host = host, .bytes = 2};
            assert_ptr_not_equal(p.wrapped, p.base);
            assert_int_equal(touch(p.wrapped), SIGSEGV);
            assert_int_equal(t.copy(t.self, &piece, 1, 1, 0), 0);
            await(&t, 1, 1, error);
            assert_int_equal(base[4], 0);
            assert_int_equal(base[5], 3);
            assert_int_equal(base[6], 4);
            assert_int_equal(base[7], 0);
        } else {
            assert_ptr_equal(p.wrapped, p.base);
        }
        pretend_fini(&p);
        assert_null(p.base);
        assert_int_equal(touch(base), SIGSEGV); /* it is unmapped */
        pretend_fini(&p);
    }
    struct pretend p = {.base = &p};
    assert_int_equal(pretend_create(&p, PRETEND_PRIVATE, &huge, 0), BATON_ENOMEM);
    assert_null(p.base);
    assert_int_equal(pretend_create(&p, PRETEND_DEVICE, &huge, 0), BATON_ENOMEM);
    assert_null(p.driver);
    pretend_fini(&p);
}

/*
 * Tensors that lie apart have regions of their own, whatever their order, and together these cover all. One that
 * overlaps another shares its region.
 */
static void test_mixed(void **state)
{
    (void)state;
    enum { TENSORS = 5, BLOCK_BYTES = 3000, TENSOR_BYTES = 4 * BLOCK_BYTES };
    static const uint64_t offsets[TENSORS] = {3 * TENSOR_BYTES + 7, 0, TENSOR_BYTES, 2 * TENSOR_BYTES, BLOCK_BYTES / 2};
    static const uint32_t regions[TENSORS] = {3, 0, 1, 2, 0};
    baton_tensor_t tensors[TENSORS];
    baton_geometry_t mixed = {.elem_bytes = 1,
                              .planes = 1,
                              .head_size = BLOCK_BYTES / 2,
                              .groups = {{.block_tokens = 1, .num_blocks = 4}},
                              .splits = {{.heads_total = 1, .head_count = 1}},
                              .num_tensors = TENSORS,
                              .tensors = tensors,
                              .bytes = 5 * TENSOR_BYTES};
    for (unsigned first = 0; first < 3; first++) {
        struct pretend p;
        for (int i = 0; i < TENSORS; i++)
            tensors[i] = (baton_tensor_t){.offset = offsets[i], .stride = {.block = BLOCK_BYTES, .channel = 1}};
        assert_int_equal(pretend_create(&p, PRETEND_MIXED, &mixed, first), 0);
        assert_int_equal(p.num_regions, 4);
        uint8_t *base = p.base, *at = base;
        for (uint32_t i = 0; i < 4; at += p.regions[i++].bytes) {
            const baton_region_t *r = &p.regions[i];
            const bool is_device = (first + i) % 3 == 2;
            assert_int_equal(r->kind, is_device ? BATON_MEMORY_DEVICE : BATON_MEMORY_HOST);
            assert_ptr_equal(r->base, is_device ? (uint8_t *)p.wrapped + (at - base) : at);
            uint8_t *middle = at + r->bytes / 2; /* in a page of this region alone */
            assert_int_equal(touch(middle), 0);
            assert_int_equal(*middle,
                             (first + i) % 3 != 0); /* a child sees the same pages, or copies of private ones */
            if (is_device)
                assert_int_equal(touch(r->base), SIGSEGV);
        }
        assert_ptr_equal(at, base + mixed.bytes);
        for (int i = 0; i < TENSORS; i++) {
            assert_int_equal(tensors[i].region, regions[i]);
            assert_int_equal((uint8_t *)p.regions[regions[i]].base + tensors[i].offset,
                             (uint8_t *)(p.regions[regions[i]].kind == BATON_MEMORY_DEVICE ? p.wrapped : p.base) +
                                 offsets[i]);
        }
        pretend_fini(&p);
        assert_null(p.regions);
    }
}

static void test_wishes(void **state)
{
    (void)state;
    baton_tensor_t tensor = {.stride = {.block = 1, .channel = 1}};
    g = (baton_geometry_t){.elem_bytes = 1, .bytes = BYTES, .num_tensors = 1, .tensors = &tensor};
    static const struct {
        const char *wish;
        int result;
        bool is_device;
    } cases[] = {{"private", 0, false}, {"shared", 0, false},        {"device", 0, true},
                 {"mixed", 0, true},    {"", BATON_ESETTING, false}, {"devices", BATON_ESETTING, false}};
    struct pretend *p = NULL;
    unsetenv("PRETEND_MEMORY");
    assert_int_equal(pretend_room.create(&g, 0, &p), 0);
    assert_null(p);
    pretend_room.destroy(p);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        p = NULL;
        setenv("PRETEND_MEMORY", cases[i].wish, 1);
        assert_int_equal(pretend_room.create(&g, 0, &p), cases[i].result);
        assert_int_equal(p != NULL, cases[i].result == 0);
        assert_int_equal(p != NULL && p->table.copy != NULL, cases[i].is_device);
        pretend_room.destroy(p);
    }
    setenv("PRETEND_MEMORY", "private", 1);
    p = NULL;
    assert_int_equal(pretend_room.create(&huge, 0, &p), BATON_ENOMEM);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies), cmocka_unit_test(test_refuses), cmocka_unit_test(test_full),
        cmocka_unit_test(test_order),  cmocka_unit_test(test_kinds),   cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_wishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
