/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many regions of another process: each of its files is mapped once, and what is attached to is tried in calls of 512
 * regions, so that the reason names the one that cannot be read, in whichever call it lies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "memory/near.h"
#include "memory/own.h"
#include "with_owner.h"
#include "with_regions.h"

enum { FILES = 300, SAMPLE = 256, SEGMENT = 8192, NONE = BATON_REGIONS_MAX };

static uint64_t page;

/* In memory that both processes have. */
struct told {
    uint32_t num, gone; /* regions to make; the number of one that is then unmapped, or NONE */
    bool is_shared;     /* each lies in a file of its own; the files come in another order than the addresses */
    struct wire_region regions[BATON_REGIONS_MAX];
};

static uint32_t mark_of(uint32_t region)
{
    return region * 2654435761u + 1;
}

/* A page for each region, with a page between any two. */
static void life(struct owner *self, void *arg)
{
    struct told *t = arg;
    static void *bases[BATON_REGIONS_MAX];
    static uint64_t bytes[BATON_REGIONS_MAX];
    struct memory_own *m = NULL;
    baton_tensor_t none;
    char *room = mmap(NULL, 2 * t->num * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    owner_need(room != MAP_FAILED);
    for (uint32_t k = 0; k < t->num; k++) {
        uint32_t i = (k * 7 + 3) % t->num; /* 7 divides none of the numbers: each region comes once */
        int file = t->is_shared ? memfd_create("many", MFD_CLOEXEC) : -1;
        owner_need(!t->is_shared || (file >= 0 && ftruncate(file, (off_t)page) == 0));
        bases[i] = mmap(room + 2 * i * page, page, PROT_READ | PROT_WRITE,
                        (t->is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_FIXED, file, 0);
        owner_need(bases[i] != MAP_FAILED);
        bytes[i] = page;
        *(uint32_t *)bases[i] = mark_of(i);
    }
    static baton_region_t regions[BATON_REGIONS_MAX];
    const struct memory_wish wish = {regions_of(regions, BATON_MEMORY_HOST, bases, bytes, t->num), t->num};
    owner_need(memory_own_create(&wish, &none, 0, &m) == 0 && m->num == t->num);
    memcpy(t->regions, m->regions, t->num * sizeof *t->regions);
    if (t->gone != NONE)
        owner_need(munmap(bases[t->gone], page) == 0);
    owner_rest(self);
}

/* The caller ends *owner and calls memory_near_fini. */
static void find(struct told *t, struct owner *owner, struct memory_near *near)
{
    uint8_t *segment = owner_common(SEGMENT);
    for (uint32_t i = 0; i < SEGMENT; i++)
        segment[i] = (uint8_t)(i * 13 + i / 256);
    owner_start(owner, life, t);
    struct process process = process_of(owner->id);
    process.sample = (struct process_sample){segment + SAMPLE, (uint64_t)(uintptr_t)segment + SAMPLE};
    const struct wire_card card = {
        .has_geometry = 1, .segment = (uint64_t)(uintptr_t)segment, .num_regions = t->num, .regions = t->regions};
    const struct memory_segment where = {segment, SEGMENT, &process};
    assert_int_equal(memory_near_find(near, &card, &where), 0);
    process_forget(&process);
    munmap(segment, SEGMENT);
}

static void test_a_file_for_each_region(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    struct told *t = owner_common(sizeof *t);
    struct owner owner;
    struct memory_near near;
    *t = (struct told){.num = FILES, .gone = NONE, .is_shared = true};
    find(t, &owner, &near);
    assert_string_equal(near.why, "");
    assert_int_equal(near.num_mappings, FILES);
    for (uint32_t i = 0; i < FILES; i++) {
        assert_int_equal(near.read.reach[i], MEMORY_MAPPED);
        assert_int_equal(near.write.reach[i], MEMORY_MAPPED);
        assert_int_equal(*(const uint32_t *)near.read.bases[i], mark_of(i));
    }
    memory_near_fini(&near);
    owner_end(&owner);
    munmap(t, sizeof *t);
}

static void attach(uint32_t num, uint32_t gone)
{
    struct told *t = owner_common(sizeof *t);
    struct owner owner;
    struct memory_near near;
    char why[96];
    *t = (struct told){.num = num, .gone = gone};
    find(t, &owner, &near);
    for (uint32_t i = 0; i < num; i++) {
        assert_int_equal(near.read.reach[i], i == gone ? MEMORY_OUT_OF_REACH : MEMORY_ATTACHED);
        assert_int_equal(near.write.reach[i], near.read.reach[i]);
        assert_int_equal((uintptr_t)near.read.bases[i], i == gone ? 0 : t->regions[i].address);
    }
    if (gone != NONE) {
        snprintf(why, sizeof why, "region %u cannot be read by cross-memory attach: Bad address", (unsigned)gone);
        assert_string_equal(near.why, why);
    }
    memory_near_fini(&near);
    owner_end(&owner);
    munmap(t, sizeof *t);
}

static void test_every_region_is_tried(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    attach(BATON_REGIONS_MAX, NONE);
    static const uint32_t gone[] = {0, 1, 511, 512, 700, BATON_REGIONS_MAX - 1};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        attach(BATON_REGIONS_MAX, gone[i]);
    attach(513, 512);
}

static int setup(void **state)
{
    (void)state;
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_for_each_region),
        cmocka_unit_test(test_every_region_is_tried),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
