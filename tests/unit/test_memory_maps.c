/* SPDX-License-Identifier: BSD-3-Clause */
/* maps: what the kernel says of this process's memory, and which file is found behind a range. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "memory/maps.h"
#include "with_descriptors.h"
#include "with_owner.h"

static uint64_t page;

static uint64_t at(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static char *map_at(char *where, uint64_t pages, int protection, int flags, int descriptor, uint64_t first)
{
    char *base = mmap(where, pages * page, protection, flags | (where != NULL ? MAP_FIXED : 0), descriptor,
                      (off_t)(first * page));
    assert_true(base != MAP_FAILED);
    return base;
}

static int memfd(uint64_t pages)
{
    int descriptor = memfd_create("test maps", MFD_CLOEXEC); /* a blank in its name */
    assert_true(descriptor >= 0);
    assert_int_equal(ftruncate(descriptor, (off_t)(pages * page)), 0);
    return descriptor;
}

/* The one range that holds all of it. */
static struct maps_range range_of(const void *base)
{
    struct maps_range *ranges = NULL;
    assert_int_equal(maps_read(at(base), at(base) + 1, &ranges), 1);
    struct maps_range r = ranges[0];
    assert_true(r.begin <= at(base) && r.end > at(base));
    free(ranges);
    return r;
}

static void assert_file(int found, int right)
{
    struct stat a, b;
    assert_true(found >= 0);
    assert_int_equal(fstat(found, &a), 0);
    assert_int_equal(fstat(right, &b), 0);
    assert_true(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    assert_int_equal(fcntl(found, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(found);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static void test_ranges(void **state)
{
    (void)state;
    int file = memfd(9);
    struct stat s;
    struct maps_range *r = NULL;
    char *base = map_at(NULL, 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map_at(base + 2 * page, 3, PROT_READ | PROT_WRITE, MAP_SHARED, file, 1);
    map_at(base + 5 * page, 1, PROT_READ, MAP_SHARED, file, 8);
    map_at(base + 6 * page, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 4);
    assert_int_equal(munmap(base + 9 * page, page), 0);
    assert_int_equal(fstat(file, &s), 0);
    /* from within the second range to within the last */
    int n = maps_read(at(base) + 3 * page, at(base) + 11 * page, &r);
    assert_int_equal(n, 5);
    assert_true(r[0].begin == at(base) + 2 * page && r[0].end == at(base) + 5 * page);
    assert_true(r[0].is_readable && r[0].is_writable && r[0].is_shared);
    assert_true(r[0].offset == page && r[0].inode == s.st_ino && r[0].device == s.st_dev);
    assert_true(r[1].is_readable && !r[1].is_writable && r[1].is_shared && r[1].offset == 8 * page);
    assert_true(r[2].is_readable && r[2].is_writable && !r[2].is_shared && r[2].offset == 4 * page);
    assert_true(!r[3].is_readable && !r[3].is_shared && r[3].inode == 0 && r[3].end == at(base) + 9 * page);
    assert_true(r[4].begin == at(base) + 10 * page);
    free(r);
    assert_int_equal(maps_read(at(base) + 9 * page, at(base) + 10 * page, &r), 0); /* where nothing is */
    free(r);
    munmap(base, 12 * page);
    close(file);
}

static void test_many_ranges(void **state)
{
    (void)state;
    enum { RANGES = 1000 };
    struct maps_range *r = NULL;
    int file = memfd(2 * RANGES);
    char *base = map_at(NULL, 2 * RANGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < RANGES; i++)
        map_at(base + 2 * i * page, 1, PROT_READ, MAP_SHARED, file, 2 * i);
    assert_int_equal(maps_read(at(base), at(base) + (2 * RANGES - 1) * page, &r), 2 * RANGES - 1);
    for (uint64_t i = 0; i < 2 * RANGES - 1; i++) {
        assert_true(r[i].begin == at(base) + i * page && r[i].end >= r[i].begin + page);
        assert_true(r[i].is_shared == (i % 2 == 0) && (!r[i].is_shared || r[i].offset == i * page));
    }
    free(r);
    munmap(base, 2 * RANGES * page);
    close(file);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_a_file_by_its_descriptor(void **state)
{
    (void)state;
    const int open_before = descriptors_open();
    int file = memfd(1), other = memfd(1);
    char *base = map_at(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct maps_range r = range_of(base);
    struct maps_files files = {0};
    assert_file(maps_open(&files, &r), file);
    assert_file(maps_open(&files, &r), file);

    /* What was read of the descriptors may have changed since: another file has the number. */
    struct stat s;
    assert_int_equal(dup3(other, file, O_CLOEXEC), file);
    int found = maps_open(&files, &r);
    assert_true(geteuid() == 0 || found == -1); /* the super-user has another way to it */
    if (found >= 0) {
        assert_int_equal(fstat(found, &s), 0);
        assert_true(s.st_ino == r.inode);
        close(found);
    }
    maps_files_fini(&files);
    munmap(base, page);
    close(other);
    close(file);
    assert_int_equal(descriptors_open(), open_before);
}

/* Of several descriptors of one file one that can be mapped for writing too, whichever came first. */
static void test_the_best_descriptor(void **state)
{
    (void)state;
    static const int modes[][3] = {
        {O_RDONLY, O_RDWR, O_WRONLY}, {O_RDWR, O_WRONLY, O_RDONLY}, {O_WRONLY, O_RDONLY, O_RDWR}};
    for (int i = 0; i < 3; i++) {
        char name[64];
        int first = memfd(1), more[3];
        snprintf(name, sizeof name, "/proc/self/fd/%d", first);
        char *base = map_at(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, first, 0);
        for (int k = 0; k < 3; k++)
            assert_true((more[k] = open(name, modes[i][k] | O_CLOEXEC)) >= 0);
        close(first);
        struct maps_range r = range_of(base);
        struct maps_files files = {0};
        int found = maps_open(&files, &r);
        assert_true(found >= 0);
        assert_int_equal(fcntl(found, F_GETFL) & O_ACCMODE, O_RDWR);
        assert_file(found, more[0]);
        for (int k = 0; k < 3; k++) { /* without that one, one that can be read */
            if (modes[i][k] == O_RDWR)
                close(more[k]);
        }
        maps_files_fini(&files);
        found = maps_open(&files, &r);
        assert_true(found >= 0);
        assert_int_equal(fcntl(found, F_GETFL) & O_ACCMODE, O_RDONLY);
        close(found);
        maps_files_fini(&files);
        for (int k = 0; k < 3; k++)
            if (modes[i][k] != O_RDWR)
                close(more[k]);
        munmap(base, page);
    }
}

/* Without a descriptor, by a name with blanks. A file that has taken the name is not the one. */
static void test_a_file_by_its_name(void **state)
{
    (void)state;
    char name[64];
    const int open_before = descriptors_open();
    snprintf(name, sizeof name, "/dev/shm/baton test maps.%d", (int)getpid());
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        skip();
    assert_int_equal(ftruncate(file, (off_t)page), 0);
    char *base = map_at(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct maps_range r = range_of(base);
    close(file);
    struct maps_files files = {0};
    int found = maps_open(&files, &r);
    struct stat s;
    assert_true(found >= 0);
    assert_int_equal(fstat(found, &s), 0);
    assert_true(s.st_ino == r.inode && s.st_dev == r.device);
    close(found);

    assert_int_equal(unlink(name), 0);
    int imposter = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(imposter >= 0);
    r = range_of(base);
    maps_files_fini(&files);
    found = maps_open(&files, &r); /* the super-user has another way to it */
    assert_true(geteuid() == 0 || found == -1);
    if (found >= 0) {
        assert_int_equal(fstat(found, &s), 0);
        assert_true(s.st_ino == r.inode);
        close(found);
    }
    maps_files_fini(&files);
    close(imposter);
    unlink(name);
    munmap(base, page);
    assert_int_equal(descriptors_open(), open_before);
}

/* Another user than the super-user has no other way to a file whose descriptor is closed. Status 0: it is found. */
static int find_by_name(void *arg)
{
    char name[64];
    struct maps_files files = {0};
    struct maps_range *r = NULL;
    struct stat s;
    (void)arg;
    snprintf(name, sizeof name, "/dev/shm/baton test maps.%d", (int)getpid());
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)page) != 0)
        return 77;
    void *base = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED || maps_read(at(base), at(base) + 1, &r) != 1)
        return 78;
    int found = maps_open(&files, r);
    unlink(name);
    if (found < 0)
        return 1;
    return fstat(found, &s) == 0 && s.st_ino == r->inode && s.st_dev == r->device ? 0 : 2;
}

static void test_a_file_by_its_name_alone(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    int status = owner_elsewhere(find_by_name, NULL, geteuid() == 0 ? NOBODY : 0);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

static void test_no_file(void **state)
{
    (void)state;
    char *base = map_at(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct maps_range r = range_of(base);
    assert_true(r.inode == 0);
    munmap(base, page);
    /* A device is never opened, though a descriptor leads there. */
    struct stat s;
    int device = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(device >= 0);
    assert_int_equal(fstat(device, &s), 0);
    r = (struct maps_range){.begin = page, .end = 2 * page, .device = s.st_dev, .inode = s.st_ino};
    struct maps_files files = {0};
    assert_int_equal(maps_open(&files, &r), -1);
    maps_files_fini(&files);
    close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_a_file_by_its_descriptor),
        cmocka_unit_test(test_the_best_descriptor),
        cmocka_unit_test(test_a_file_by_its_name),
        cmocka_unit_test(test_a_file_by_its_name_alone),
        cmocka_unit_test(test_no_file),
    };
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
