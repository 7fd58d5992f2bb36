/* SPDX-License-Identifier: BSD-3-Clause */
/* own: regions against what is known of the memory that they were made from, page by page. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "memory/own.h"
#include "with_bytes.h"
#include "with_regions.h"

enum { PAGES = 48, FILES = 3, FILE_PAGES = 64, ROUNDS = 400 };
enum { HOLE = -2, PRIVATE = -1 }; /* else the number of a file */

static uint64_t page;

/* Memory of which each page is known. */
struct field {
    char *base;
    int kind[PAGES];
    uint64_t file_page[PAGES];
    int file[FILES];
    bool is_writable;
};

static int memfd(uint64_t bytes)
{
    int descriptor = memfd_create("own", MFD_CLOEXEC);
    assert_true(descriptor >= 0);
    assert_int_equal(ftruncate(descriptor, (off_t)bytes), 0);
    return descriptor;
}

static void field_init(struct field *f)
{
    memset(f, 0, sizeof *f);
    for (int i = 0; i < FILES; i++)
        f->file[i] = memfd(FILE_PAGES * page);
    f->base = mmap(NULL, PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->base != MAP_FAILED);
}

static void field_fini(struct field *f)
{
    munmap(f->base, PAGES * page);
    for (int i = 0; i < FILES; i++)
        close(f->file[i]);
}

/* Maps pages [first, first + count) from one place. */
static void field_map(struct field *f, uint32_t first, uint32_t count, int kind, uint64_t from)
{
    char *at = f->base + first * page;
    int protection = kind == HOLE ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = MAP_FIXED | (kind < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    assert_true(mmap(at, count * page, protection, flags, kind < 0 ? -1 : f->file[kind],
                     kind < 0 ? 0 : (off_t)(from * page)) == at);
    for (uint32_t i = 0; i < count; i++) {
        f->kind[first + i] = kind;
        f->file_page[first + i] = from + i;
    }
}

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(bytes_random(random) % n);
}

/* Runs of pages, each from some place; some go on in the file of the one before. Holes are rare. */
static void field_shuffle(struct field *f, uint64_t *random)
{
    uint64_t next = 0;
    int kind = PRIVATE;
    for (uint32_t at = 0; at < PAGES;) {
        uint32_t count = 1 + below(random, 6);
        count = count < PAGES - at ? count : PAGES - at;
        if (kind < 0 || next + count > FILE_PAGES || below(random, 2) == 0) {
            kind = below(random, 60) == 0 ? HOLE : (int)below(random, FILES + 1) - 1;
            next = below(random, FILE_PAGES - 6);
        }
        field_map(f, at, count, kind, next);
        next += count;
        at += count;
    }
}

/* ---- what must come out ------------------------------------------------------------------------------------------ */

/* Where bytes [at, at + bytes) of the field lie: HOLE, PRIVATE (not in one file without a break), or the file. */
static int kind_of(const struct field *f, uint64_t at, uint64_t bytes, uint64_t *offset)
{
    uint64_t first = at / page, last = (at + bytes - 1) / page;
    int kind = f->kind[first];
    *offset = f->file_page[first] * page + at % page;
    for (uint64_t i = first; i <= last; i++) {
        if (f->kind[i] == HOLE)
            return HOLE;
        if (f->kind[i] != kind || f->file_page[i] != f->file_page[first] + (i - first))
            kind = PRIVATE;
    }
    return kind;
}

struct wished {
    uint64_t at, bytes; /* in the field */
};

/* Regions that do not overlap, many of which touch, in any order. Their number. */
static uint32_t wish_make(struct wished *w, uint64_t *random)
{
    uint32_t n = 0;
    for (uint64_t at = below(random, 100), end; at < PAGES * page; at = end) {
        end = at + 1 + below(random, (uint32_t)(below(random, 4) ? page : 4 * page));
        if (below(random, 3) == 0)
            end = end / page * page > at ? end / page * page : end;
        end = end < PAGES * page ? end : PAGES * page;
        if (below(random, 10) < 8)
            w[n++] = (struct wished){at, end - at};
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = below(random, i);
        struct wished x = w[i - 1];
        w[i - 1] = w[k];
        w[k] = x;
    }
    return n;
}

static bool same_file(const struct wire_region *a, const struct wire_region *b)
{
    return a->descriptor == b->descriptor && (a->descriptor == WIRE_NO_FILE || a->offset + a->bytes == b->offset);
}

/* The regions found hold exactly what was wished, lie where they say, and could not be joined further. */
static void assert_found(const struct field *f, const struct wished *w, uint32_t n, const struct memory_own *m)
{
    uint64_t bytes = 0, offset;
    uint32_t met = 0;
    for (uint32_t i = 0; i < m->num; i++) {
        const struct wire_region *r = &m->regions[i];
        uint64_t at = r->address - (uint64_t)(uintptr_t)f->base, reached = at;
        int kind = PRIVATE;
        while (reached < at + r->bytes) { /* each of the regions joined, in turn */
            uint32_t k = 0;
            while (k < n && w[k].at != reached)
                k++;
            assert_true(k < n);
            kind = kind_of(f, w[k].at, w[k].bytes, &offset);
            assert_int_equal(kind == PRIVATE, r->descriptor == WIRE_NO_FILE);
            if (kind != PRIVATE) {
                char byte = (char)(k * 31 + 7);
                assert_true(offset == r->offset + (reached - at));
                f->base[w[k].at] = byte;
                char found = 0;
                assert_int_equal(pread((int)r->descriptor, &found, 1, (off_t)offset), 1);
                assert_int_equal(found, byte);
            }
            reached += w[k].bytes;
            met++;
        }
        assert_true(reached == at + r->bytes);
        assert_ptr_equal(m->bases[i], (char *)(uintptr_t)r->address);
        assert_true(m->all.region[i].at == r->address && m->all.region[i].bytes == r->bytes);
        bytes += r->bytes;
        if (i > 0) {
            const struct wire_region *before = &m->regions[i - 1];
            assert_true(before->address + before->bytes <= r->address);
            assert_false(before->address + before->bytes == r->address && same_file(before, r));
        }
    }
    assert_int_equal(met, n);
    assert_true(memory_own_bytes(m) == bytes);
    assert_true(m->all.is_wrapped && m->all.num == m->num);
}

static void one_round(uint64_t seed)
{
    struct field f;
    struct wished w[BATON_REGIONS_MAX];
    void *bases[BATON_REGIONS_MAX];
    uint64_t bytes[BATON_REGIONS_MAX], random = seed, offset;
    baton_tensor_t tensors[BATON_REGIONS_MAX];
    struct memory_own *m = NULL;
    bool has_hole = false;
    field_init(&f);
    field_shuffle(&f, &random);
    uint32_t n = wish_make(w, &random);
    memset(tensors, 0, sizeof tensors);
    for (uint32_t i = 0; i < n; i++) {
        bases[i] = f.base + w[i].at;
        bytes[i] = w[i].bytes;
        has_hole |= kind_of(&f, w[i].at, w[i].bytes, &offset) == HOLE;
        tensors[i].region = below(&random, n);
        tensors[i].offset = below(&random, (uint32_t)w[tensors[i].region].bytes);
    }
    baton_tensor_t before[BATON_REGIONS_MAX];
    memcpy(before, tensors, sizeof before);
    static baton_region_t regions[BATON_REGIONS_MAX];
    const struct memory_wish wish = {regions_of(regions, BATON_MEMORY_HOST, bases, bytes, n), n};
    int rc = memory_own_create(&wish, tensors, n, &m);
    assert_int_equal(rc, has_hole ? BATON_EINVAL : 0);
    if (rc == 0) {
        assert_true(m->is_writable);
        assert_found(&f, w, n, m);
        for (uint32_t i = 0; i < n; i++) {
            const struct wire_region *r = &m->regions[tensors[i].region];
            assert_true(r->address + tensors[i].offset ==
                        (uint64_t)(uintptr_t)bases[before[i].region] + before[i].offset);
            assert_true(tensors[i].offset < r->bytes);
        }
        uint32_t shared = 0;
        for (uint32_t i = 0; i < m->num; i++)
            shared += m->regions[i].descriptor != WIRE_NO_FILE;
        assert_int_equal(memory_own_shared(m), shared);
        assert_true(m->num_files <= FILES);
        memory_own_destroy(m);
    }
    field_fini(&f);
}

/* Where the descriptors that a rank tells its peers are all closed again. */
static int lowest_descriptor(void)
{
    int lowest = dup(0);
    close(lowest);
    return lowest;
}

static void test_random_regions(void **state)
{
    (void)state;
    int lowest = lowest_descriptor();
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        one_round(seed * 7919);
    assert_int_equal(lowest_descriptor(), lowest);
}

/* ---- single kinds ------------------------------------------------------------------------------------------------ */

static int own(baton_memory_t kind, void *const *bases, const uint64_t *bytes, uint32_t n, struct memory_own **m)
{
    static baton_region_t regions[BATON_REGIONS_MAX];
    baton_tensor_t none;
    return memory_own_create(&(struct memory_wish){regions_of(regions, kind, bases, bytes, n), n}, &none, 0, m);
}

static void *map(uint64_t pages, int protection, int flags, int descriptor)
{
    void *at = mmap(NULL, pages * page, protection, flags, descriptor, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static void test_as_many_as_may_be(void **state)
{
    (void)state;
    static void *bases[BATON_REGIONS_MAX];
    static uint64_t bytes[BATON_REGIONS_MAX];
    for (int shared = 0; shared < 2; shared++)
        for (int apart = 0; apart < 2; apart++) {
            struct memory_own *m = NULL;
            uint64_t room = 64 + 64 * (uint64_t)apart, all = BATON_REGIONS_MAX * room / page + 1;
            int file = shared ? memfd(all * page) : -1;
            char *base = map(all, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file);
            for (uint32_t i = 0; i < BATON_REGIONS_MAX; i++) {
                bases[i] = base + (uint64_t)(i * 619 % BATON_REGIONS_MAX) * room; /* 619 is prime to 1,024 */
                bytes[i] = 64;
            }
            assert_int_equal(own(BATON_MEMORY_HOST, bases, bytes, BATON_REGIONS_MAX, &m), 0);
            assert_int_equal(m->num, apart ? BATON_REGIONS_MAX : 1);
            assert_int_equal(memory_own_shared(m), shared ? m->num : 0);
            assert_int_equal(m->num_files, shared);
            memory_own_destroy(m);
            munmap(base, all * page);
            if (file >= 0)
                close(file);
        }
}

/* A range that can be read only makes all of it read-only; a private mapping of a file is nothing to share. */
static void test_kinds(void **state)
{
    (void)state;
    struct memory_own *m = NULL;
    int file = memfd(4 * page);
    void *bases[2] = {map(1, PROT_READ | PROT_WRITE, MAP_SHARED, file), map(1, PROT_READ, MAP_SHARED, file)};
    const uint64_t bytes[2] = {page, page - 1};
    assert_int_equal(own(BATON_MEMORY_SHARED, bases, bytes, 1, &m), 0);
    assert_true(m->is_writable);
    memory_own_destroy(m);
    assert_int_equal(own(BATON_MEMORY_SHARED, bases, bytes, 2, &m), 0);
    assert_false(m->is_writable);
    assert_int_equal(memory_own_shared(m), 2);
    memory_own_settle(m);
    assert_int_equal(m->num_files, 0);
    memory_own_destroy(m);
    munmap(bases[1], page);
    bases[1] = map(1, PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
    assert_int_equal(own(BATON_MEMORY_SHARED, bases, bytes, 2, &m), BATON_EINVAL);
    assert_non_null(strstr(baton_errmsg(), "region 1"));
    assert_int_equal(own(BATON_MEMORY_HOST, bases, bytes, 2, &m), 0);
    assert_int_equal(memory_own_shared(m), 1);
    memory_own_destroy(m);
    munmap(bases[0], page);
    munmap(bases[1], page);
    close(file);
}

/* The kernel may know nothing of a device's memory, and is not asked. */
static void test_a_device(void **state)
{
    (void)state;
    struct memory_own *m = NULL;
    void *const bases[2] = {(void *)(uintptr_t)0x7fff00000000, (void *)(uintptr_t)0x7fff00010000};
    const uint64_t bytes[2] = {0x10000, 0x1000};
    assert_int_equal(own(BATON_MEMORY_DEVICE, bases, bytes, 2, &m), 0);
    assert_int_equal(m->num, 1);
    assert_int_equal(memory_own_shared(m), 0);
    memory_own_destroy(m);
}

/*
 * Regions of several kinds, between which a device's addresses lie. The kernel is asked about the host's alone, and
 * what touches is joined where it is of one kind of one device.
 */
static void test_kinds_side_by_side(void **state)
{
    (void)state;
    struct memory_own *m = NULL;
    baton_tensor_t tensors[6] = {{.region = 0}, {.region = 1}, {.region = 2},
                                 {.region = 3}, {.region = 4}, {.region = 5}};
    char *room = map(6, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(mprotect(room, page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(mprotect(room + 4 * page, 2 * page, PROT_READ | PROT_WRITE), 0);
    baton_region_t r[6];
    for (uint32_t i = 0; i < 6; i++)
        r[i] = region_of(i > 0 && i < 4 ? BATON_MEMORY_DEVICE : BATON_MEMORY_HOST, room + i * page, page);
    r[3].device = 1;
    assert_int_equal(memory_own_create(&(struct memory_wish){r, 6}, tensors, 6, &m), 0);
    assert_int_equal(m->num, 4);
    assert_int_equal(memory_own_devices(m), 2);
    assert_true(m->is_writable);
    static const struct {
        uint64_t at, pages;
        uint32_t memory, ordinal;
    } joined[] = {{0, 1, BATON_MEMORY_HOST, 0},
                  {1, 2, BATON_MEMORY_DEVICE, 0},
                  {3, 1, BATON_MEMORY_DEVICE, 1},
                  {4, 2, BATON_MEMORY_HOST, 0}};
    for (uint32_t i = 0; i < 4; i++) {
        const struct wire_region *x = &m->regions[i];
        assert_true(x->address == (uint64_t)(uintptr_t)room + joined[i].at * page &&
                    x->bytes == joined[i].pages * page);
        assert_true(x->memory == joined[i].memory && x->ordinal == joined[i].ordinal);
        assert_int_equal(m->all.region[i].is_device, x->memory == BATON_MEMORY_DEVICE);
    }
    for (uint32_t i = 0; i < 6; i++) /* a tensor is where it was */
        assert_true(m->regions[tensors[i].region].address + tensors[i].offset == (uint64_t)(uintptr_t)room + i * page);
    memory_own_destroy(m);
    r[4].kind = BATON_MEMORY_SHARED; /* which it is not: of one region alone */
    assert_int_equal(memory_own_create(&(struct memory_wish){r, 6}, tensors, 6, &m), BATON_EINVAL);
    assert_non_null(strstr(baton_errmsg(), "region 4 is not memory that other processes can map"));
    munmap(room, 6 * page);
}

static void assert_refused(void *const *bases, const uint64_t *bytes, uint32_t n, const char *says)
{
    struct memory_own *m = NULL;
    assert_int_equal(own(BATON_MEMORY_HOST, bases, bytes, n, &m), BATON_EINVAL);
    assert_null(m);
    if (strstr(baton_errmsg(), says) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", baton_errmsg(), says);
}

static void test_refusals(void **state)
{
    (void)state;
    char *base = map(4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(mprotect(base + 2 * page, page, PROT_NONE), 0);
    void *const three[3] = {base + page / 2, base + page, base + 3 * page};
    assert_refused(three, (const uint64_t[]){page / 2 + 1, 8, 8}, 3, "regions 0 and 1 overlap");
    assert_refused(three, (const uint64_t[]){8, page + 1, 8}, 3, "region 1 ");
    assert_refused(three, (const uint64_t[]){8, 3 * page - 1, 8}, 3, "regions 1 and 2 overlap");
    assert_refused(three, (const uint64_t[]){8, 8, 0}, 3, "region 2 has no memory");
    assert_refused(three, (const uint64_t[]){8, 8, UINT64_MAX}, 3, "region 2 has no memory");
    assert_refused((void *const[]){base, NULL}, (const uint64_t[]){8, 8}, 2, "region 1 has no memory");
    assert_refused((void *const[]){base, base}, (const uint64_t[]){8, 8}, 2, "overlap");
    assert_refused((void *const[]){base + 2 * page}, (const uint64_t[]){8}, 1, "not readable");
    assert_int_equal(munmap(base + 2 * page, page), 0);
    assert_refused((void *const[]){base + page}, (const uint64_t[]){2 * page + 8}, 1, "not mapped"); /* with a hole */
    munmap(base, 4 * page);
    assert_refused((void *const[]){base + 8}, (const uint64_t[]){8}, 1, "not mapped");
}

/* Huge pages, where the system has some. */
static void test_huge_pages(void **state)
{
    (void)state;
    uint64_t huge = UINT64_C(2) << 20;
    int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
    char *base = file >= 0 && ftruncate(file, (off_t)huge) == 0
                     ? mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    if (base == MAP_FAILED) {
        if (file >= 0)
            close(file);
        skip();
    }
    struct memory_own *m = NULL;
    void *const bases[1] = {base + 3 * page + 8};
    const uint64_t bytes[1] = {5 * page};
    assert_int_equal(own(BATON_MEMORY_SHARED, bases, bytes, 1, &m), 0);
    assert_true(m->regions[0].offset == 3 * page + 8);
    memory_own_destroy(m);
    munmap(base, huge);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_regions),
        cmocka_unit_test(test_as_many_as_may_be),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_a_device),
        cmocka_unit_test(test_kinds_side_by_side),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_huge_pages),
    };
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
