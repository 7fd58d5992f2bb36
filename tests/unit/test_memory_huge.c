/* SPDX-License-Identifier: BSD-3-Clause */
/* huge: shared memory that MPI mapped anywhere is mapped once more where huge pages fit, and gets them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "memory/huge.h"

#define PAGES 4 /* huge ones */

/* A system that is asked for huge pages, in place of the one here, which may have none. */
static struct {
    bool is_there;
    const uint8_t *base;
    int refuses, interrupts; /* an advice; how often a call is interrupted first */
    uint64_t populated;      /* bytes up to which the huge pages have a small one each, in turn */
    uint64_t collapsed;
} other;

int madvise(void *at, size_t bytes, int advice)
{
    if (!other.is_there)
        return (int)syscall(SYS_madvise, at, bytes, advice);
    if (other.interrupts > 0) {
        other.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (advice == other.refuses) {
        errno = EINVAL;
        return -1;
    }
    if (advice == MADV_POPULATE_READ && at == other.base + other.populated)
        other.populated += HUGE_BYTES;
    if (advice == MADV_COLLAPSE && at == other.base)
        other.collapsed = bytes;
    return 0;
}

/* A file of PAGES huge pages and a bit, from its byte `first` on, where huge pages do not fit. */
static uint8_t *map_anywhere(int file, uint64_t first, uint8_t **room, uint64_t *bytes)
{
    *bytes = PAGES * HUGE_BYTES + 8192 - first;
    *room = mmap(NULL, *bytes + 2 * HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*room != MAP_FAILED);
    uint8_t *at = *room + (HUGE_BYTES - (uintptr_t)*room % HUGE_BYTES) + first % HUGE_BYTES + 4096;
    assert_true(mmap(at, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)first) == at);
    return at;
}

static int memory_file(void)
{
    int file = memfd_create("test huge", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, PAGES * HUGE_BYTES + 8192), 0);
    return file;
}

/* KiB that this process maps by huge pages, of the mapping that begins at `at`. */
static long huge_kib(const uint8_t *at)
{
    char line[256], begin[32];
    long kib = -1;
    bool here = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    assert_non_null(smaps);
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)at);
    while (fgets(line, sizeof line, smaps) != NULL) {
        if (strchr(line, '-') != NULL && strspn(line, "0123456789abcdef") == strcspn(line, "-"))
            here = strncmp(line, begin, strlen(begin)) == 0;
        if (here && sscanf(line, "ShmemPmdMapped: %ld", &kib) == 1)
            break;
    }
    fclose(smaps);
    return kib;
}

/* KiB of addresses that this process has in use, room that was only reserved included. It takes no memory to ask. */
static long mapped_kib(void)
{
    char text[64] = "";
    int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    assert_true(statm >= 0);
    assert_true(read(statm, text, sizeof text - 1) > 0);
    close(statm);
    return strtol(text, NULL, 10) * (sysconf(_SC_PAGESIZE) >> 10);
}

static void test_offset(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {0, 4096, HUGE_BYTES - 4096, HUGE_BYTES, HUGE_BYTES + 4096};
    int file = memory_file();
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        uint8_t *room;
        uint64_t bytes;
        uint8_t *at = map_anywhere(file, firsts[i], &room, &bytes);
        assert_int_equal((firsts[i] + huge_offset(at)) % HUGE_BYTES, 0);
        assert_true(huge_offset(at) < HUGE_BYTES);
        assert_int_equal((firsts[i] + 4096 + huge_offset(at + 4096)) % HUGE_BYTES, 0);
        munmap(room, bytes + 2 * HUGE_BYTES);
    }
    close(file);
    uint8_t *mine = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mine != MAP_FAILED);
    assert_int_equal(huge_offset(mine), HUGE_BYTES); /* not shared */
    munmap(mine, 8192);
    assert_int_equal(huge_offset(mine), HUGE_BYTES); /* nothing is there */
}

static void test_mapped_twice(void **state)
{
    (void)state;
    uint8_t *room;
    uint64_t bytes;
    int file = memory_file();
    uint8_t *at = map_anywhere(file, 4096, &room, &bytes);
    close(file);
    uint8_t *first = at + huge_offset(at);
    const uint64_t left = bytes - huge_offset(at);
    memset(first, 7, left);
    const long before = mapped_kib();
    uint8_t *again = huge_map(first, left);
    assert_non_null(again);
    assert_true(TEST_EMULATED || mapped_kib() == before + (long)(left >> 10)); /* nothing around it stays reserved */
    assert_int_equal((uintptr_t)again % HUGE_BYTES, 0);
    assert_int_equal(memcmp(first, again, left), 0);
    again[left - 1] = 9;
    first[HUGE_BYTES] = 8;
    assert_int_equal(first[left - 1], 9);
    assert_int_equal(again[HUGE_BYTES], 8);
    huge_unmap(again, left);
    assert_true(TEST_EMULATED || mapped_kib() == before);
    assert_int_equal(first[left - 1], 9); /* the first mapping is as it was */
    munmap(room, bytes + 2 * HUGE_BYTES);
}

static void test_refused(void **state)
{
    (void)state;
    uint8_t *mine = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mine != MAP_FAILED);
    memset(mine, 5, HUGE_BYTES);
    const long before = mapped_kib();
    errno = 0;
    assert_null(huge_map(mine, HUGE_BYTES)); /* private memory would have to be moved */
    assert_int_not_equal(errno, 0);
    assert_int_equal(mine[HUGE_BYTES - 1], 5);
    assert_null(huge_map(mine, UINT64_C(1) << 60)); /* so much room is nowhere */
    assert_int_equal(mine[HUGE_BYTES - 1], 5);
    assert_true(TEST_EMULATED || mapped_kib() == before);
    munmap(mine, HUGE_BYTES);
}

/* What another process sees that maps the same once more. */
static int look_from_child(uint8_t *first, uint64_t left, bool is_huge)
{
    pid_t child = fork();
    if (child == 0) {
        uint8_t *again = huge_map(first, left);
        if (again == NULL)
            _exit(2);
        for (uint64_t i = 0; i < left; i += 4096)
            if (again[i] != (uint8_t)(i / 4096))
                _exit(3);
        _exit(is_huge && huge_kib(again) != (long)(left / HUGE_BYTES * (HUGE_BYTES >> 10)) ? 4 : 0);
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_filled(void **state)
{
    (void)state;
    uint8_t *room;
    uint64_t bytes;
    int file = memory_file();
    uint8_t *at = map_anywhere(file, 0, &room, &bytes);
    close(file);
    for (uint64_t i = 0; i < bytes; i += 4096)
        at[i] = (uint8_t)(i / 4096);
    uint8_t *again = huge_map(at, bytes);
    assert_non_null(again);
    bool is_huge = huge_fill(again, bytes);
    for (uint64_t i = 0; i < bytes; i += 4096)
        assert_int_equal(again[i], (uint8_t)(i / 4096));
    is_huge &= !TEST_EMULATED; /* an emulator's smaps do not tell */
    if (is_huge)
        assert_int_equal(huge_kib(again), PAGES * (HUGE_BYTES >> 10));
    else
        print_message("no huge pages here: %s\n", strerror(errno));
    assert_int_equal(look_from_child(at, bytes, is_huge), 0);
    assert_true(huge_fill(again, 8192)); /* less than one */
    huge_unmap(again, bytes);
    munmap(room, bytes + 2 * HUGE_BYTES);
}

static void test_what_the_system_is_asked(void **state)
{
    (void)state;
    static uint8_t base[1];
    const struct {
        uint64_t bytes;
        int refuses;
        bool is_huge;
        uint64_t populated, collapsed;
    } cases[] = {
        {3 * HUGE_BYTES, 0, true, 3 * HUGE_BYTES, 3 * HUGE_BYTES},
        {3 * HUGE_BYTES - 1, 0, true, 2 * HUGE_BYTES, 2 * HUGE_BYTES},
        {HUGE_BYTES, 0, true, HUGE_BYTES, HUGE_BYTES},
        {HUGE_BYTES - 1, 0, true, 0, 0}, /* nothing to ask for */
        {3 * HUGE_BYTES, MADV_POPULATE_READ, false, 0, 0},
        {3 * HUGE_BYTES, MADV_COLLAPSE, false, 3 * HUGE_BYTES, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&other, 0, sizeof other);
        other.is_there = true;
        other.base = base;
        other.refuses = cases[i].refuses;
        other.interrupts = 2;
        assert_int_equal(huge_fill(base, cases[i].bytes), cases[i].is_huge);
        other.is_there = false;
        assert_int_equal(other.populated, cases[i].populated);
        assert_int_equal(other.collapsed, cases[i].collapsed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offset),
        cmocka_unit_test(test_mapped_twice),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_what_the_system_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
