/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * near: how the memory of another process is reached. That process owns some, tells of it by a card, and may have done
 * something to it since. Where mapping does not work cross-memory attach is taken; where neither works the reason is
 * told.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "memory/maps.h"
#include "memory/near.h"
#include "memory/own.h"
#include "with_descriptors.h"
#include "with_owner.h"
#include "with_regions.h"

enum { REGIONS = 4, SAMPLE = 256, SEGMENT = 8192, NOBODY = 65534 };
enum how { PRIVATE, MEMFD, TWO_FILES, MIXED, HUGE_PAGES, ONLY_READ };

/* What the owner does once its card is written. */
enum then { NOTHING, CLOSES, REPLACES, TRUNCATES, SEALS, HIDES };

static uint64_t page;

/* In memory that both processes have. */
struct told {
    enum how how;
    enum then then;
    uid_t user; /* of the owner, unless 0 */
    uint32_t num;
    struct wire_region regions[REGIONS];
    bool has_no_huge_page;
};

struct world {
    struct told *told;
    uint8_t *segment; /* the owner has it in the same place */
    struct owner owner;
    struct wire_card card;
    struct process process;
    struct memory_near near;
};

/* ---- the owner --------------------------------------------------------------------------------------------------- */

static uint8_t byte_of(uint32_t region, uint64_t at)
{
    return (uint8_t)(at * 37 + at / 4096 + region * 91 + 1);
}

static int file_new(uint64_t bytes, unsigned flags)
{
    int descriptor = memfd_create("near", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
        return -1;
    return descriptor;
}

/* The same file, of which the owner keeps a descriptor that is for reading alone. */
static void keep_for_reading(int descriptor)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    owner_need(open(name, O_RDONLY | O_CLOEXEC) >= 0 && close(descriptor) == 0);
}

static char *map(uint64_t bytes, int descriptor)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                    descriptor, 0);
    owner_need(at != MAP_FAILED);
    return at;
}

/* The unaligned regions of a kind, not in the order of their addresses. */
static void make(struct told *t, void *bases[REGIONS], uint64_t bytes[REGIONS])
{
    uint64_t room = 8 * page;
    char *one = NULL, *other = NULL;
    if (t->how == HUGE_PAGES) {
        int file = file_new(UINT64_C(2) << 20, MFD_HUGETLB);
        one = file < 0 ? MAP_FAILED : mmap(NULL, UINT64_C(2) << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        t->has_no_huge_page = one == MAP_FAILED;
        owner_need(!t->has_no_huge_page);
    } else if (t->how != PRIVATE) {
        int file = file_new(REGIONS * room, 0);
        one = map(REGIONS * room, file);
        if (t->how == ONLY_READ)
            keep_for_reading(file);
        other = t->how == TWO_FILES ? map(REGIONS * room, file_new(REGIONS * room, 0)) : NULL;
    }
    other = other == NULL && (t->how == PRIVATE || t->how == MIXED) ? map(REGIONS * room, -1) : other;
    for (uint32_t i = 0; i < REGIONS; i++) {
        bool first =
            t->how == MEMFD || t->how == HUGE_PAGES || t->how == ONLY_READ || (t->how != PRIVATE && i % 2 == 0);
        bases[i] = (first ? one : other) + (REGIONS - 1 - i) * room + 3 * page + 8 * i + 8;
        bytes[i] = 2 * page + 100 * i;
        for (uint64_t k = 0; k < bytes[i]; k++)
            ((uint8_t *)bases[i])[k] = byte_of(i, k);
    }
}

static void life(struct owner *self, void *arg)
{
    struct told *t = arg;
    void *bases[REGIONS];
    uint64_t bytes[REGIONS];
    struct memory_own *m = NULL;
    baton_tensor_t none;
    if (t->user != 0)
        owner_need(setgid(t->user) == 0 && setuid(t->user) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    make(t, bases, bytes);
    baton_region_t regions[REGIONS];
    const struct memory_wish wish = {regions_of(regions, BATON_MEMORY_HOST, bases, bytes, REGIONS), REGIONS};
    owner_need(memory_own_create(&wish, &none, 0, &m) == 0 && m->num == REGIONS);
    t->num = m->num;
    memcpy(t->regions, m->regions, sizeof t->regions);
    int file = m->num_files > 0 ? m->files[0].descriptor : -1;
    if (t->then == CLOSES || t->then == REPLACES)
        memory_own_settle(m);
    if (t->then == REPLACES)
        owner_need(dup2(file_new(REGIONS * 8 * page, 0), file) == file);
    if (t->then == TRUNCATES)
        owner_need(ftruncate(file, (off_t)(4 * page)) == 0);
    if (t->then == SEALS) {
        owner_need(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    }
    if (t->then == HIDES)
        owner_need(prctl(PR_SET_DUMPABLE, 0) == 0);
    owner_rest(self);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

static void world_init(struct world *w, enum how how, enum then then)
{
    memset(w, 0, sizeof *w);
    w->told = owner_common(sizeof *w->told);
    w->told->how = how;
    w->told->then = then;
    w->segment = owner_common(SEGMENT);
    for (uint32_t i = 0; i < SEGMENT; i++)
        w->segment[i] = (uint8_t)(i * 13 + i / 256);
}

/* A process whose segment is known here at `known`. */
static struct process process_by(const struct world *w, int id, const uint8_t *known)
{
    struct process p = process_of(id);
    p.sample = (struct process_sample){known + SAMPLE, (uint64_t)(uintptr_t)w->segment + SAMPLE};
    return p;
}

static void world_start(struct world *w)
{
    owner_start(&w->owner, life, w->told);
    w->card = (struct wire_card){.has_geometry = 1,
                                 .segment = (uint64_t)(uintptr_t)w->segment,
                                 .num_regions = w->told->num,
                                 .regions = w->told->regions};
    w->process = process_by(w, w->owner.id, w->segment);
}

static void world_fini(struct world *w)
{
    memory_near_fini(&w->near);
    process_forget(&w->process);
    if (w->owner.id != 0)
        owner_end(&w->owner);
    munmap(w->segment, SEGMENT);
    munmap(w->told, sizeof *w->told);
}

static int find(struct world *w)
{
    const struct memory_segment segment = {w->segment, SEGMENT, &w->process};
    w->process.sample.at = w->card.segment + SAMPLE;
    return memory_near_find(&w->near, &w->card, &segment);
}

/* Which region, as the owner made it, is number i by address. */
static uint32_t made_of(const struct world *w, uint32_t i)
{
    for (uint32_t k = 0; k < REGIONS; k++)
        if (w->told->regions[i].bytes == 2 * page + 100 * k)
            return k;
    fail_msg("region %u has %llu bytes", i, (unsigned long long)w->told->regions[i].bytes);
    return 0;
}

static void peek(const struct world *w, uint64_t address, uint8_t *out, uint64_t bytes)
{
    const struct iovec mine = {out, bytes}, theirs = {(void *)(uintptr_t)address, bytes};
    assert_int_equal(process_vm_readv(w->owner.id, &mine, 1, &theirs, 1, 0), bytes);
}

/* By which way all regions of a cache are reached. */
static enum memory_reach reach_of(const struct memory_near *n, const struct memory_way *way)
{
    for (uint32_t i = 1; i < n->regions.num; i++)
        assert_int_equal(way->reach[i], way->reach[0]);
    return n->regions.num > 0 ? way->reach[0] : MEMORY_OUT_OF_REACH;
}

/* What is reached is the owner's memory: its bytes are there and, where that is permitted, mine arrive. */
static void assert_bytes(struct world *w)
{
    uint8_t bytes[8192 * 16];
    for (uint32_t i = 0; i < w->card.num_regions; i++) {
        const struct wire_region *r = &w->told->regions[i];
        if (w->near.read.reach[i] == MEMORY_OUT_OF_REACH)
            continue;
        assert_true(r->bytes <= sizeof bytes);
        assert_true(w->near.regions.num == w->card.num_regions && w->near.regions.region[i].bytes == r->bytes);
        if (w->near.read.reach[i] == MEMORY_MAPPED)
            memcpy(bytes, w->near.read.bases[i], r->bytes);
        else
            peek(w, (uint64_t)(uintptr_t)w->near.read.bases[i], bytes, r->bytes);
        for (uint64_t k = 0; k < r->bytes; k++)
            assert_int_equal(bytes[k], byte_of(made_of(w, i), k));
        if (w->near.read.reach[i] == MEMORY_MAPPED && w->near.write.reach[i] == MEMORY_MAPPED) {
            uint8_t there[2];
            w->near.read.bases[i][0] = (char)(i + 201);
            w->near.read.bases[i][r->bytes - 1] = (char)(i + 101);
            peek(w, r->address, &there[0], 1);
            peek(w, r->address + r->bytes - 1, &there[1], 1);
            assert_int_equal(there[0], i + 201);
            assert_int_equal(there[1], i + 101);
        }
    }
}

static void assert_why(const struct world *w, const char *says)
{
    if (strstr(w->near.why, says) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", w->near.why, says);
}

static int num_ranges(void)
{
    struct maps_range *ranges = NULL;
    int all = maps_read(0, UINT64_MAX, &ranges), n = 0;
    for (int i = 0; i < all; i++)
        n += ranges[i].is_shared; /* sanitizers map private memory at any time */
    free(ranges);
    return n;
}

static void expect(enum how how, enum then then, enum memory_reach reach, uint32_t mappings, const char *why)
{
    struct world w;
    const int open_before = descriptors_open();
    world_init(&w, how, then);
    world_start(&w);
    int before = num_ranges();
    assert_int_equal(find(&w), 0);
    assert_int_equal(reach_of(&w.near, &w.near.read), reach);
    assert_int_equal(reach_of(&w.near, &w.near.write), reach);
    assert_int_equal(w.near.num_mappings, mappings);
    if (why != NULL)
        assert_why(&w, why);
    else
        assert_string_equal(w.near.why, "");
    if (reach != MEMORY_OUT_OF_REACH)
        assert_bytes(&w);
    memory_near_fini(&w.near);
    assert_int_equal(num_ranges(), before); /* all is unmapped */
    world_fini(&w);
    assert_int_equal(descriptors_open(), open_before); /* and closed */
}

static void test_what_is_mapped(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    expect(MEMFD, NOTHING, MEMORY_MAPPED, 1, NULL);
    expect(TWO_FILES, NOTHING, MEMORY_MAPPED, 2, NULL);
    expect(ONLY_READ, NOTHING, MEMORY_MAPPED, 1, NULL); /* opened anew */
}

static void test_any_number_of_regions(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    for (uint32_t num = 1; num <= REGIONS; num++) {
        struct world w;
        world_init(&w, MEMFD, NOTHING);
        world_start(&w);
        w.card.num_regions = num;
        assert_int_equal(find(&w), 0);
        assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_MAPPED);
        assert_int_equal(w.near.num_mappings, 1);
        assert_bytes(&w);
        world_fini(&w);
    }
}

static void test_what_is_attached(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    expect(PRIVATE, NOTHING, MEMORY_ATTACHED, 0, "region 0 is private memory");
}

/* Each region goes its own way. */
static void test_private_and_shared(void **state)
{
    (void)state;
    struct world w;
    if (!owner_can_attach())
        skip();
    world_init(&w, MIXED, NOTHING);
    world_start(&w);
    assert_int_equal(find(&w), 0);
    for (uint32_t i = 0; i < REGIONS; i++) {
        const bool is_private = w.told->regions[i].descriptor == WIRE_NO_FILE;
        assert_int_equal(is_private, made_of(&w, i) % 2);
        assert_int_equal(w.near.read.reach[i], is_private ? MEMORY_ATTACHED : MEMORY_MAPPED);
        assert_int_equal(w.near.write.reach[i], is_private ? MEMORY_ATTACHED : MEMORY_MAPPED);
    }
    assert_int_equal(w.near.num_mappings, 1);
    assert_why(&w, "is private memory");
    assert_bytes(&w);
    world_fini(&w);
}

static void test_a_file_that_changed(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    expect(MEMFD, CLOSES, MEMORY_ATTACHED, 0, "cannot be mapped");
    expect(TWO_FILES, REPLACES, MEMORY_ATTACHED, 0, "cannot be mapped");
    expect(MEMFD, TRUNCATES, MEMORY_OUT_OF_REACH, 0, "cannot be read by cross-memory attach: Bad address");
}

/* Huge pages, where the system has some: they are mapped, and unmapped again, as a whole. */
static void test_huge_pages(void **state)
{
    (void)state;
    int file = owner_can_attach() ? file_new(UINT64_C(2) << 20, MFD_HUGETLB) : -1;
    void *at = file < 0 ? MAP_FAILED : mmap(NULL, UINT64_C(2) << 20, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (at == MAP_FAILED)
        skip();
    munmap(at, UINT64_C(2) << 20);
    expect(HUGE_PAGES, NOTHING, MEMORY_MAPPED, 1, NULL);
}

/* A file that is sealed once its owner has it mapped: it is mapped to be read, and written as its owner may. */
static void seal(struct world *w)
{
    world_init(w, MEMFD, SEALS);
    world_start(w);
}

static void test_a_sealed_file(void **state)
{
    (void)state;
    struct world w;
    uint8_t mine = 201, there = 0;
    if (!owner_can_attach())
        skip();
    seal(&w);
    assert_int_equal(find(&w), 0);
    assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_MAPPED);
    assert_int_equal(reach_of(&w.near, &w.near.write), MEMORY_ATTACHED);
    assert_why(&w, "region 0 can be mapped for reading alone");
    assert_bytes(&w);
    for (uint32_t i = 0; i < REGIONS; i++) {
        const struct iovec from = {&mine, 1}, to = {w.near.write.bases[i] + 5, 1};
        assert_int_equal(process_vm_writev(w.owner.id, &from, 1, &to, 1, 0), 1);
        peek(&w, w.told->regions[i].address + 5, &there, 1);
        assert_int_equal(there, 201);
    }
    world_fini(&w);
}

static void test_a_sealed_file_that_cannot_be_attached(void **state)
{
    (void)state;
    struct world w;
    if (!owner_can_attach())
        skip();
    seal(&w);
    w.card.segment += 64;
    assert_int_equal(find(&w), 0);
    assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_MAPPED);
    assert_int_equal(reach_of(&w.near, &w.near.write), MEMORY_OUT_OF_REACH);
    assert_false(memory_near_is_writable(&w.near));
    assert_why(&w, "other bytes are there");
    assert_bytes(&w);
    world_fini(&w);
}

/* ---- cards that lie ---------------------------------------------------------------------------------------------- */

#define ALL ((1u << REGIONS) - 1)

/* Those `of` the regions (bits) are reached so, and the others so. */
static void lie(enum how how, void (*spoil)(struct wire_card *card), unsigned of, enum memory_reach reach,
                enum memory_reach others, const char *why)
{
    struct world w;
    const int open_before = descriptors_open();
    world_init(&w, how, NOTHING);
    world_start(&w);
    spoil(&w.card);
    assert_int_equal(find(&w), 0);
    for (uint32_t i = 0; i < REGIONS; i++) {
        const enum memory_reach is = (of & 1u << i) != 0 ? reach : others;
        assert_int_equal(w.near.read.reach[i], is);
        assert_int_equal(w.near.write.reach[i], is);
        assert_int_equal(w.near.read.bases[i] == NULL, is == MEMORY_OUT_OF_REACH);
    }
    assert_true(memory_near_is_writable(&w.near));
    assert_int_equal(w.near.num_mappings, reach == MEMORY_MAPPED || others == MEMORY_MAPPED);
    assert_why(&w, why);
    if (of != ALL)
        assert_bytes(&w);
    world_fini(&w);
    assert_int_equal(descriptors_open(), open_before);
}

static void another_inode(struct wire_card *card)
{
    card->regions[1].inode += 1000003;
}

static void past_the_end(struct wire_card *card)
{
    card->regions[2].offset = UINT64_MAX - 100;
}

static void too_long(struct wire_card *card)
{
    card->regions[REGIONS - 1].bytes = UINT64_C(1) << 40;
    card->regions[REGIONS - 1].descriptor = card->regions[0].descriptor;
}

static void no_descriptor(struct wire_card *card)
{
    card->regions[0].descriptor = 1000000;
}

static void another_address(struct wire_card *card)
{
    card->regions[1].address = page;
}

static void another_segment(struct wire_card *card)
{
    card->segment += 64;
}

static void no_segment(struct wire_card *card)
{
    card->segment = page;
}

static void a_device_instead(struct wire_card *card)
{
    card->regions[1].memory = BATON_MEMORY_DEVICE;
}

static void test_cards_that_lie(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    const enum memory_reach out = MEMORY_OUT_OF_REACH;
    lie(MEMFD, another_inode, 1u << 1, MEMORY_ATTACHED, MEMORY_MAPPED, "region 1 cannot be mapped: Stale file handle");
    lie(MEMFD, past_the_end, ALL, MEMORY_ATTACHED, out, "cannot be mapped");
    lie(MEMFD, no_descriptor, ALL, MEMORY_ATTACHED, out, "region 0 cannot be mapped: No such file or directory");
    lie(MEMFD, too_long, 1u << 3, out, MEMORY_ATTACHED, "region 3 cannot be read");
    lie(PRIVATE, another_address, 1u << 1, out, MEMORY_ATTACHED,
        "region 1 cannot be read by cross-memory attach: Bad address");
    lie(PRIVATE, another_segment, ALL, out, out, "other bytes are there");
    lie(PRIVATE, no_segment, ALL, out, out, "cross-memory attach to process");
    lie(MEMFD, a_device_instead, 1u << 1, out, MEMORY_MAPPED, "region 1 is a device's memory");
}

static void a_device_in_its_files(struct wire_card *card)
{
    for (uint32_t i = 0; i < REGIONS; i++)
        card->regions[i].memory = BATON_MEMORY_DEVICE;
}

/* A device's memory is neither mapped nor attached, whatever else the card says of it. */
static void test_a_device(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    lie(MEMFD, a_device_in_its_files, ALL, MEMORY_OUT_OF_REACH, MEMORY_OUT_OF_REACH, "region 0 is a device's memory");
    lie(PRIVATE, a_device_instead, 1u << 1, MEMORY_OUT_OF_REACH, MEMORY_ATTACHED, "region 0 is private memory");
}

/* The id of another process: its bytes at that place are others, or there are none. */
static void test_another_process(void **state)
{
    (void)state;
    struct world w, other;
    if (!owner_can_attach())
        skip();
    world_init(&w, PRIVATE, NOTHING);
    world_start(&w);
    world_init(&other, PRIVATE, NOTHING);
    world_start(&other);
    w.segment[SAMPLE + 17] ^= 1; /* both have this segment: as if the other one had another */
    uint8_t *mine = malloc(SEGMENT);
    memcpy(mine, w.segment, SEGMENT);
    w.segment[SAMPLE + 17] ^= 1;
    w.process = process_by(&w, other.owner.id, mine);
    const struct memory_segment segment = {mine, SEGMENT, &w.process};
    assert_int_equal(memory_near_find(&w.near, &w.card, &segment), 0);
    assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_OUT_OF_REACH);
    assert_why(&w, "other bytes are there");
    free(mine);
    world_fini(&other);
    world_fini(&w);
}

/* ---- a process that ends under way ------------------------------------------------------------------------------- */

static struct world *dying; /* whose owner ends as soon as its memory was read */

ssize_t process_vm_readv(pid_t id, const struct iovec *mine, unsigned long num_mine, const struct iovec *theirs,
                         unsigned long num_theirs, unsigned long flags)
{
    ssize_t got = syscall(SYS_process_vm_readv, id, mine, num_mine, theirs, num_theirs, flags);
    if (dying != NULL && num_theirs > 1) { /* the ends of its regions, which are read last */
        owner_end(&dying->owner);
        dying->owner.id = 0;
        dying = NULL;
    }
    return got;
}

/* Another one may have had its id when it was read. */
static void test_a_process_that_ends_under_way(void **state)
{
    (void)state;
    struct world w;
    if (!owner_can_attach())
        skip();
    world_init(&w, PRIVATE, NOTHING);
    world_start(&w);
    dying = &w;
    assert_int_equal(find(&w), 0);
    assert_null(dying);
    assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_OUT_OF_REACH);
    assert_int_equal(reach_of(&w.near, &w.near.write), MEMORY_OUT_OF_REACH);
    assert_why(&w, "ended while");
    world_fini(&w);
}

/* ---- what the kernel refuses ------------------------------------------------------------------------------------- */

struct asked {
    struct world *w;
    const char *says;
};

/* In another process. Status 0: reached by mapping; 1: out of reach, for that reason. */
static int ask(void *arg)
{
    struct asked *a = arg;
    if (find(a->w) != 0)
        return 90;
    if (reach_of(&a->w->near, &a->w->near.read) == MEMORY_MAPPED)
        return 0;
    if (reach_of(&a->w->near, &a->w->near.read) != MEMORY_OUT_OF_REACH)
        return 91;
    if (strstr(a->w->near.why, a->says) != NULL)
        return 1;
    fprintf(stderr, "# \"%s\" says nothing of \"%s\"\n", a->w->near.why, a->says);
    return 92;
}

static int ask_as(uid_t owner, enum then then, uid_t user)
{
    struct world w;
    struct asked a = {&w, "Operation not permitted"};
    world_init(&w, MEMFD, then);
    w.told->user = owner;
    world_start(&w);
    int status = owner_elsewhere(ask, &a, user);
    world_fini(&w);
    return status;
}

static void test_other_users(void **state)
{
    (void)state;
    if (geteuid() != 0 || !owner_can_attach())
        skip();                                           /* only the super-user may become others */
    assert_int_equal(ask_as(NOBODY, NOTHING, NOBODY), 0); /* one user, without privilege */
    assert_int_equal(ask_as(0, NOTHING, NOBODY), 1);
    assert_int_equal(ask_as(NOBODY, NOTHING, NOBODY - 1), 1);
    assert_int_equal(ask_as(NOBODY, HIDES, NOBODY), 1); /* not dumpable */
}

static int ask_without_descriptors(void *arg)
{
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_NOFILE, &none) == 0 ? ask(arg) : 93;
}

static void test_processes_that_are_not_known(void **state)
{
    (void)state;
    struct world w;
    struct asked a = {&w, "not known here"};
    if (!owner_can_attach())
        skip();
    world_init(&w, MEMFD, NOTHING);
    world_start(&w);
    assert_int_equal(owner_elsewhere(ask_without_descriptors, &a, 0), 1); /* no pidfd can be had */
    w.process = process_of(0);
    assert_int_equal(ask(&a), 1);
    memory_near_fini(&w.near);
    w.process = process_by(&w, w.owner.id, w.segment);
    owner_end(&w.owner);
    w.owner.id = 0;
    assert_int_equal(find(&w), 0);
    assert_int_equal(reach_of(&w.near, &w.near.read), MEMORY_OUT_OF_REACH);
    assert_why(&w, "process");
    world_fini(&w);
}

/* ---- memory that Baton allocates --------------------------------------------------------------------------------- */

static void test_what_lies_in_the_segment(void **state)
{
    (void)state;
    struct process nobody = process_of(0);
    uint8_t bytes[SEGMENT];
    struct memory_near n;
    struct wire_card card = {.has_geometry = 1, .pool_offset = 4096, .pool_bytes = 4096};
    const struct memory_segment segment = {bytes, sizeof bytes, &nobody};
    assert_int_equal(memory_near_find(&n, &card, &segment), 0);
    assert_int_equal(reach_of(&n, &n.read), MEMORY_MAPPED);
    assert_true(reach_of(&n, &n.write) == MEMORY_MAPPED && n.why[0] == '\0');
    assert_ptr_equal(n.read.bases[0], bytes + 4096);
    assert_true(n.regions.num == 1 && n.regions.region[0].bytes == 4096);
    memory_near_fini(&n);
    card.pool_bytes = 4097;
    assert_int_equal(memory_near_find(&n, &card, &segment), BATON_EMESSAGE);
    memory_near_fini(&n);
    card.pool_offset = UINT64_MAX;
    assert_int_equal(memory_near_find(&n, &card, &segment), BATON_EMESSAGE);
    memory_near_fini(&n);
    card = (struct wire_card){.pool_offset = UINT64_MAX}; /* no cache: nothing is read of it */
    assert_int_equal(memory_near_find(&n, &card, &segment), 0);
    assert_int_equal(reach_of(&n, &n.read), MEMORY_OUT_OF_REACH);
    memory_near_fini(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_mapped),
        cmocka_unit_test(test_any_number_of_regions),
        cmocka_unit_test(test_what_is_attached),
        cmocka_unit_test(test_private_and_shared),
        cmocka_unit_test(test_a_device),
        cmocka_unit_test(test_a_file_that_changed),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_a_sealed_file),
        cmocka_unit_test(test_a_sealed_file_that_cannot_be_attached),
        cmocka_unit_test(test_cards_that_lie),
        cmocka_unit_test(test_another_process),
        cmocka_unit_test(test_a_process_that_ends_under_way),
        cmocka_unit_test(test_other_users),
        cmocka_unit_test(test_processes_that_are_not_known),
        cmocka_unit_test(test_what_lies_in_the_segment),
    };
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
