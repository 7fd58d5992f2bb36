/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: cross-memory attach against memcpy, on random plans between this process and another one. A page that cannot
 * be read, a process that has ended, and one that has become another program are errors. This program's
 * process_vm_readv takes the place of the C library's, so that slices which are longer than one call moves need no
 * memory, and so does its process_vm_writev: what the other process does comes at the worst moment.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/process.h"
#include "shm/copy.h"
#include "with_bytes.h"
#include "with_owner.h"

enum { BLOCKS = 24, HEADS = 3, LAYERS = 3, ROUNDS = 40 };

/* One side's cache: a region for each layer, in private memory. */
struct side {
    baton_geometry_t g;
    baton_tensor_t tensors[LAYERS];
    char *regions[LAYERS];
    uint64_t region_bytes;
    struct path_region lengths[LAYERS];
    struct path_regions all;
    uint32_t ids[BLOCKS];
};

struct pair {
    struct side src, dst;
    uint32_t tokens;
    struct plan *plan;
    struct plan_transfer transfer;
};

static uint64_t page;
static uint8_t *sample; /* which this process and those that it forks have in the same place */

static struct process process_by(pid_t id)
{
    struct process p = process_of(id);
    p.sample = (struct process_sample){sample, (uint64_t)(uintptr_t)sample};
    return p;
}

static void side_init(struct side *s, uint32_t head_size, uint32_t block_tokens, unsigned layout, uint64_t *random)
{
    memset(s, 0, sizeof *s);
    s->g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = head_size,
                              .num_groups = 1,
                              .groups = {{.block_tokens = block_tokens, .num_blocks = BLOCKS}},
                              .num_splits = 1,
                              .splits = {{.heads_total = HEADS, .head_count = HEADS}},
                              .layers_total = LAYERS,
                              .layer_count = LAYERS};
    assert_int_equal(baton_geometry_layout(&s->g, s->tensors, layout), 0);
    s->region_bytes = s->g.bytes / LAYERS;
    for (uint32_t i = 0; i < LAYERS; i++) {
        s->tensors[i].region = (i + 1) % LAYERS;
        s->tensors[i].offset = 0;
        s->regions[i] = mmap(NULL, s->region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(s->regions[i] != MAP_FAILED);
        s->lengths[i].bytes = s->region_bytes;
    }
    s->all = (struct path_regions){.num = LAYERS, .region = s->lengths};
    for (uint32_t i = 0; i < BLOCKS; i++)
        s->ids[i] = i;
    for (uint32_t i = BLOCKS; i > 1; i--) {
        uint32_t k = (uint32_t)(bytes_random(random) % i), x = s->ids[i - 1];
        s->ids[i - 1] = s->ids[k];
        s->ids[k] = x;
    }
}

static void side_fini(struct side *s)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        munmap(s->regions[i], s->region_bytes);
}

static void pair_init(struct pair *p, uint64_t seed)
{
    static const unsigned layouts[] = {BATON_LAYOUT_HND, BATON_LAYOUT_NHD, BATON_LAYOUT_HND | BATON_LAYOUT_KV_FUSED,
                                       BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK};
    static const uint32_t sizes[] = {1, 8, 64, 256}, block_tokens[] = {4, 8, 16};
    uint64_t random = seed;
    uint32_t head_size = sizes[bytes_random(&random) % 4];
    struct plan_why why;
    const struct plan_box all = {0, LAYERS, 0, HEADS, 0};
    side_init(&p->src, head_size, block_tokens[bytes_random(&random) % 3], layouts[bytes_random(&random) % 4], &random);
    side_init(&p->dst, head_size, block_tokens[bytes_random(&random) % 3], layouts[bytes_random(&random) % 4], &random);
    uint32_t least = p->src.g.groups[0].block_tokens < p->dst.g.groups[0].block_tokens
                         ? p->src.g.groups[0].block_tokens
                         : p->dst.g.groups[0].block_tokens;
    p->tokens = 1 + (uint32_t)(bytes_random(&random) % (least * BLOCKS));
    assert_int_equal(plan_compile(&p->src.g, &p->dst.g, &all, 1, &p->plan, &why), 0);
    const struct plan_tables from = {.num = 1, .table = {{p->src.ids, BLOCKS, 0}}},
                             to = {.num = 1, .table = {{p->dst.ids, BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&p->transfer, p->plan, 0, p->tokens, &from, &to, &why), 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        bytes_fill(&random, (uint8_t *)p->src.regions[i], p->src.region_bytes);
        memset(p->dst.regions[i], 0xa5, p->dst.region_bytes);
    }
}

static void pair_fini(struct pair *p)
{
    plan_destroy(p->plan);
    side_fini(&p->src);
    side_fini(&p->dst);
}

/* All of a transfer in slices of `budget` bytes. */
static int attach_all(const struct pair *p, const struct process *other, bool write, uint64_t budget)
{
    const struct copy_side src = {p->src.regions, &p->src.all}, dst = {p->dst.regions, &p->dst.all};
    struct plan_cursor at = {0}, behind = at;
    uint64_t bytes;
    int rc = 0;
    while (rc == 0 && (bytes = plan_skip(&p->transfer, &behind, budget)) > 0) {
        rc = attach_slice(other, write, &p->transfer, at, bytes, write ? &src : &dst, write ? &dst : &src);
        at = behind;
    }
    return rc;
}

static uint32_t count_runs(const struct pair *p)
{
    struct plan_cursor at = {0};
    struct plan_run run;
    uint32_t n = 0;
    while (plan_next(&p->transfer, &at, &run, 1, UINT64_MAX) > 0)
        n++;
    return n;
}

/* The destination as copy_slice makes it of my source. */
static void copy_here(const struct pair *p, char **right)
{
    struct plan_cursor at = {0};
    const struct copy_side src = {p->src.regions, &p->src.all}, dst = {right, &p->dst.all};
    for (uint32_t i = 0; i < LAYERS; i++) {
        right[i] = malloc(p->dst.region_bytes);
        memset(right[i], 0xa5, p->dst.region_bytes);
    }
    assert_int_equal(copy_slice(&p->transfer, at, p->transfer.bytes, &src, &dst), 0);
}

/* The owner's source is that of this process with every bit turned. */
static void turn_bits(struct owner *self, void *arg)
{
    struct pair *p = arg;
    (void)self;
    for (uint32_t i = 0; i < LAYERS; i++)
        for (uint64_t k = 0; k < p->src.region_bytes; k++)
            p->src.regions[i][k] = (char)~p->src.regions[i][k];
}

static void test_reads_and_writes(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    uint32_t most_runs = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct pair p;
        struct owner owner;
        char *right[LAYERS];
        uint64_t budget = seed % 3 == 0 ? 3000 : UINT64_MAX;
        pair_init(&p, seed * 104729);
        uint32_t runs = count_runs(&p);
        most_runs = runs > most_runs ? runs : most_runs;
        owner_start(&owner, turn_bits, &p);
        struct process other = process_by(owner.id);
        assert_int_equal(process_alive(&other), PROCESS_ALIVE);
        copy_here(&p, right);
        /* my source to the owner's destination, and nothing beside it */
        assert_int_equal(attach_all(&p, &other, true, budget), 0);
        uint8_t *there = malloc(p.dst.region_bytes);
        for (uint32_t i = 0; i < LAYERS; i++) {
            const struct iovec mine = {there, p.dst.region_bytes}, theirs = {p.dst.regions[i], p.dst.region_bytes};
            assert_int_equal(process_vm_readv(owner.id, &mine, 1, &theirs, 1, 0), p.dst.region_bytes);
            assert_memory_equal(there, right[i], p.dst.region_bytes);
            free(right[i]);
        }
        free(there);
        turn_bits(NULL, &p);
        copy_here(&p, right);
        turn_bits(NULL, &p);
        /* the owner's source to my destination */
        assert_int_equal(attach_all(&p, &other, false, budget), 0);
        for (uint32_t i = 0; i < LAYERS; i++) {
            assert_memory_equal(p.dst.regions[i], right[i], p.dst.region_bytes);
            free(right[i]);
        }
        process_forget(&other);
        owner_end(&owner);
        pair_fini(&p);
    }
    assert_true(most_runs > 2048); /* more than one call of the kernel takes */
}

/* ---- slices that are longer than a call moves -------------------------------------------------------------------- */

#define CALL_MOST 0x7ffff000u /* what Linux moves in one call: MAX_RW_COUNT */
#define SRC (UINT64_C(1) << 44)
#define DST (UINT64_C(2) << 44)

/* Nothing is moved while this is pretended: bytes are counted, which must follow each other. */
static struct {
    bool is_pretended;
    uint32_t calls;
    uint64_t moved;
    int refusal;            /* what it says of the next read; 0: it is made */
    struct owner *dying;    /* ends just before it is asked */
    struct owner *changing; /* goes on just before it is asked to read, or to be written */
    bool before_writes;
} kernel;

static void change(bool writes)
{
    struct owner *changing = kernel.changing;
    if (changing == NULL || writes != kernel.before_writes)
        return;
    kernel.changing = NULL;
    owner_go(changing);
}

static uint64_t length(const struct iovec *piece, unsigned long num)
{
    uint64_t bytes = 0;
    for (unsigned long i = 0; i < num; i++)
        bytes += piece[i].iov_len;
    return bytes;
}

ssize_t process_vm_readv(pid_t id, const struct iovec *mine, unsigned long num_mine, const struct iovec *theirs,
                         unsigned long num_theirs, unsigned long flags)
{
    if (kernel.dying != NULL)
        owner_end(kernel.dying);
    kernel.dying = NULL;
    change(false);
    errno = kernel.refusal;
    kernel.refusal = 0;
    if (errno != 0)
        return -1;
    if (!kernel.is_pretended || num_mine < 2 || num_theirs < 2)
        return syscall(SYS_process_vm_readv, id, mine, num_mine, theirs, num_theirs, flags);
    uint64_t bytes = length(mine, num_mine);
    assert_true(bytes == length(theirs, num_theirs));
    assert_int_equal(mine[0].iov_len, PROCESS_SAMPLE_BYTES);
    assert_ptr_equal(theirs[0].iov_base, sample);
    memcpy(mine[0].iov_base, sample, PROCESS_SAMPLE_BYTES);
    assert_true((uint64_t)(uintptr_t)mine[1].iov_base == DST + kernel.moved);
    assert_true((uint64_t)(uintptr_t)theirs[1].iov_base == SRC + kernel.moved);
    bytes = bytes < CALL_MOST ? bytes : CALL_MOST;
    kernel.calls++;
    kernel.moved += bytes - PROCESS_SAMPLE_BYTES;
    return (ssize_t)bytes;
}

ssize_t process_vm_writev(pid_t id, const struct iovec *mine, unsigned long num_mine, const struct iovec *theirs,
                          unsigned long num_theirs, unsigned long flags)
{
    change(true);
    return syscall(SYS_process_vm_writev, id, mine, num_mine, theirs, num_theirs, flags);
}

static void test_a_slice_of_many_calls(void **state)
{
    (void)state;
    baton_tensor_t tensor;
    struct plan_why why;
    struct plan *plan;
    struct plan_transfer transfer;
    const struct plan_cursor start = {0};
    const struct plan_box all = {0, 1, 0, 1, 0};
    baton_geometry_t g = {.size = sizeof g,
                          .elem_bytes = 2,
                          .planes = 1,
                          .head_size = 1024,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 1 << 20, .num_blocks = 3}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    uint32_t ids[] = {0, 1, 2};
    char *bases[] = {(char *)(uintptr_t)SRC, (char *)(uintptr_t)DST};
    const struct path_region length = {.bytes = UINT64_C(6) << 30};
    const struct path_regions region = {.num = 1, .region = &length};
    const struct copy_side src = {&bases[0], &region}, dst = {&bases[1], &region};
    struct process self = process_by(getpid());
    if (!owner_can_attach())
        skip();
    process_alive(&self);
    assert_int_equal(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&g, &g, &all, 1, &plan, &why), 0);
    const struct plan_tables tables = {.num = 1, .table = {{ids, 3, 0}}};
    assert_int_equal(plan_transfer_init(&transfer, plan, 0, 3 << 20, &tables, &tables, &why), 0);
    assert_true(transfer.bytes == UINT64_C(6) << 30);
    kernel.is_pretended = true;
    int rc = attach_slice(&self, false, &transfer, start, transfer.bytes, &dst, &src);
    kernel.is_pretended = false;
    assert_int_equal(rc, 0);
    assert_true(kernel.moved == transfer.bytes);
    assert_true(kernel.calls > 3);
    plan_destroy(plan);
    process_forget(&self);
}

/* ---- what fails -------------------------------------------------------------------------------------------------- */

/* Each region in turn is said to have no bytes, and then not to be there. */
static void test_a_plan_that_leaves_the_regions(void **state)
{
    (void)state;
    struct pair p;
    struct owner owner;
    if (!owner_can_attach())
        skip();
    pair_init(&p, 104729);
    owner_start(&owner, turn_bits, &p);
    struct process other = process_by(owner.id);
    process_alive(&other);
    for (int write = 0; write < 2; write++)
        for (uint32_t i = 0; i < 2 * LAYERS; i++) {
            struct side *short_one = i < LAYERS ? &p.src : &p.dst;
            short_one->lengths[i % LAYERS].bytes = 0;
            assert_int_equal(attach_all(&p, &other, write != 0, UINT64_MAX), BATON_EMESSAGE);
            short_one->lengths[i % LAYERS].bytes = short_one->region_bytes;
        }
    p.src.all.num = LAYERS - 1;
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_EMESSAGE);
    p.src.all.num = LAYERS;
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), 0);
    process_forget(&other);
    owner_end(&owner);
    pair_fini(&p);
}

static void hide_a_page(struct owner *self, void *arg)
{
    struct pair *p = arg;
    (void)self;
    owner_need(mprotect(p->src.regions[1] + page, page, PROT_NONE) == 0);
}

static void make_large(struct pair *p)
{
    uint64_t seed = 5;
    do
        pair_init(p, seed);
    while ((p->src.region_bytes < 4 * page || p->tokens < 4 * BLOCKS) && (pair_fini(p), seed++ < 1000));
    assert_true(p->src.region_bytes >= 4 * page);
}

static void test_a_page_that_cannot_be_read(void **state)
{
    (void)state;
    struct pair p;
    struct owner owner;
    if (!owner_can_attach())
        skip();
    make_large(&p);
    for (uint32_t i = 0; i < BLOCKS; i++)
        p.src.ids[i] = i; /* the hidden page lies in the blocks that move */
    owner_start(&owner, hide_a_page, &p);
    struct process other = process_by(owner.id);
    process_alive(&other);
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_ESYSTEM);
    process_forget(&other);
    owner_end(&owner);
    pair_fini(&p);
}

/* Also one that has ended and is not yet waited for, whose id nobody can have. */
static void test_a_process_that_ended(void **state)
{
    (void)state;
    struct pair p;
    struct owner owner, first;
    if (!owner_can_attach())
        skip();
    make_large(&p);
    owner_start(&owner, turn_bits, &p);
    owner_start(&first, turn_bits, &p);
    struct process other = process_by(owner.id), one = process_by(first.id);
    process_alive(&other);
    process_alive(&one);
    kernel.dying = &first;
    assert_int_equal(attach_all(&p, &one, false, UINT64_MAX), BATON_EPEER);
    assert_null(kernel.dying);
    process_forget(&one);
    kill(owner.id, SIGKILL);
    while (process_is(&other) == PROCESS_ALIVE)
        usleep(100);
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_EPEER);
    assert_int_equal(attach_all(&p, &other, true, UINT64_MAX), BATON_EPEER);
    owner_end(&owner);
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_EPEER);
    const struct process unknown = process_by(owner.id); /* where no descriptor tells of its end */
    assert_int_equal(attach_all(&p, &unknown, false, UINT64_MAX), BATON_EPEER);
    process_forget(&other);
    pair_fini(&p);
}

/* Who has the id of a process that has ended may not be one that this user reads. */
static void test_a_process_that_refuses(void **state)
{
    (void)state;
    struct pair p;
    struct owner owner;
    if (!owner_can_attach())
        skip();
    make_large(&p);
    owner_start(&owner, turn_bits, &p);
    struct process other = process_by(owner.id);
    assert_int_equal(process_alive(&other), PROCESS_ALIVE);
    kernel.refusal = EPERM;
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_ESYSTEM);
    assert_int_equal(errno, EPERM); /* for the log */
    kernel.refusal = EPERM;
    kernel.dying = &owner;
    assert_int_equal(attach_all(&p, &other, false, UINT64_MAX), BATON_EPEER);
    process_forget(&other);
    pair_fini(&p);
}

/* ---- another program --------------------------------------------------------------------------------------------- */

#define NEW_BYTE 0xbb

static bool has_sample; /* the other program has memory in the place of the sample too */

/* What it becomes: it has other bytes in the places of the first program's regions. */
static int be_another(char *const *arguments)
{
    struct owner self = {.there = atoi(arguments[0]), .here = atoi(arguments[1])};
    for (char *const *a = &arguments[2]; a[0] != NULL; a += 2) {
        size_t bytes = strtoull(a[1], NULL, 16);
        void *at = (void *)(uintptr_t)strtoull(a[0], NULL, 16);
        void *got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        owner_need(got == at);
        memset(got, NEW_BYTE, bytes);
    }
    owner_rest(&self);
    return 0;
}

/* Rests, and then becomes another program, under the same id and descriptor. */
static void become_another(struct owner *self, void *arg)
{
    const struct pair *p = arg;
    char text[4 * LAYERS + 4][32];
    char *arguments[4 * LAYERS + 7] = {"test_memory_attach", "another"};
    int n = 0;
    snprintf(text[n++], sizeof text[0], "%d", self->there);
    snprintf(text[n++], sizeof text[0], "%d", self->here);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        const struct side *s = i < LAYERS ? &p->src : &p->dst;
        snprintf(text[n++], sizeof text[0], "%" PRIxPTR, (uintptr_t)s->regions[i % LAYERS]);
        snprintf(text[n++], sizeof text[0], "%" PRIx64, s->region_bytes);
    }
    if (has_sample) {
        snprintf(text[n++], sizeof text[0], "%" PRIxPTR, (uintptr_t)sample);
        snprintf(text[n++], sizeof text[0], "%" PRIx64, page);
    }
    for (int i = 0; i < n; i++)
        arguments[2 + i] = text[i];
    owner_rest(self);
    execv("/proc/self/exe", arguments);
    _exit(1);
}

static void assert_new_is_whole(const struct pair *p, pid_t id)
{
    uint8_t *there = malloc(p->dst.region_bytes);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const struct iovec mine = {there, p->dst.region_bytes}, theirs = {p->dst.regions[i], p->dst.region_bytes};
        assert_int_equal(syscall(SYS_process_vm_readv, id, &mine, 1, &theirs, 1, 0), p->dst.region_bytes);
        for (uint64_t k = 0; k < p->dst.region_bytes; k++)
            assert_int_equal(there[k], NEW_BYTE);
    }
    free(there);
}

enum moment { LONG_BEFORE, BEFORE_READS, BEFORE_WRITES };

static void become_at(enum moment moment, bool write)
{
    struct pair p;
    struct owner owner;
    make_large(&p);
    owner_start(&owner, become_another, &p);
    struct process other = process_by(owner.id);
    assert_int_equal(process_alive(&other), PROCESS_ALIVE);
    assert_int_equal(attach_all(&p, &other, write, UINT64_MAX), 0); /* it is itself */
    if (moment == LONG_BEFORE)
        owner_go(&owner);
    kernel.changing = moment == LONG_BEFORE ? NULL : &owner;
    kernel.before_writes = moment == BEFORE_WRITES;
    assert_int_equal(attach_all(&p, &other, write, UINT64_MAX), BATON_EPEER);
    assert_null(kernel.changing);
    assert_int_equal(process_is(&other), PROCESS_ALIVE);
    assert_new_is_whole(&p, owner.id);
    process_forget(&other);
    owner_end(&owner);
    pair_fini(&p);
}

/* Before the call, and between the look at its life, or at the sample, and the bytes. */
static void test_a_process_that_became_another_program(void **state)
{
    (void)state;
    if (!owner_can_attach())
        skip();
    for (int i = 0; i < 2; i++) {
        has_sample = i != 0;
        for (int write = 0; write < 2; write++) {
            become_at(LONG_BEFORE, write != 0);
            become_at(BEFORE_READS, write != 0);
        }
    }
    has_sample = false;
    become_at(BEFORE_WRITES, true);
}

/* The other process's memory as if it were mapped here. */
static struct copy_end copy_mapped(const struct pair *p, const struct process *other, bool write)
{
    const struct copy_job job = {.transfer = &p->transfer,
                                 .bytes = p->transfer.bytes,
                                 .src = {p->src.regions, &p->src.all},
                                 .dst = {p->dst.regions, &p->dst.all},
                                 .proof = other,
                                 .write = write};
    memset(p->dst.regions[0], 0xa5, p->dst.region_bytes);
    return copy_now(&job);
}

/* A file that is mapped here may be another program's now: the one that the process has become, or its successor. */
static void test_mapped_memory_is_proved(void **state)
{
    (void)state;
    struct pair p;
    struct owner owner;
    struct process unknown = process_of(0);
    if (!owner_can_attach())
        skip();
    make_large(&p);
    owner_start(&owner, become_another, &p);
    struct process other = process_by(owner.id), unwatched = process_by(owner.id);
    assert_int_equal(process_alive(&unwatched), PROCESS_ALIVE);
    process_watch(&other);
    process_watch(&unknown);
    assert_int_equal(process_program(&other), PROCESS_ALIVE);
    for (int write = 0; write < 2; write++) {
        assert_int_equal(copy_mapped(&p, &other, write != 0).error, 0);
        assert_int_equal(copy_mapped(&p, &unknown, write != 0).error, 0);
    }
    owner_go(&owner);
    assert_int_equal(process_is(&other), PROCESS_ALIVE);
    assert_int_equal(process_program(&other), PROCESS_DEAD);
    assert_int_equal(copy_mapped(&p, &unwatched, false).error, 0); /* the system was not asked */
    for (int write = 0; write < 2; write++)
        assert_int_equal(copy_mapped(&p, &other, write != 0).error, BATON_EPEER);
    for (uint64_t i = 0; i < p.dst.region_bytes; i++)
        assert_int_equal((uint8_t)p.dst.regions[0][i], 0xa5); /* nothing is written */
    kill(owner.id, SIGKILL);
    while (process_is(&other) == PROCESS_ALIVE)
        usleep(100);
    for (int write = 0; write < 2; write++) {
        assert_int_equal(copy_mapped(&p, &other, write != 0).error, BATON_EPEER);
        assert_int_equal(copy_mapped(&p, &unwatched, write != 0).error, BATON_EPEER);
    }
    process_forget(&unwatched);
    process_forget(&other);
    owner_end(&owner);
    pair_fini(&p);
}

/* One whose sample is not known is left alone. */
static void test_a_process_without_a_sample(void **state)
{
    (void)state;
    struct pair p;
    if (!owner_can_attach())
        skip();
    make_large(&p);
    struct process self = process_of(getpid());
    assert_int_equal(process_alive(&self), PROCESS_ALIVE);
    assert_int_equal(attach_all(&p, &self, false, UINT64_MAX), BATON_EPEER);
    assert_int_equal(attach_all(&p, &self, true, UINT64_MAX), BATON_EPEER);
    process_forget(&self);
    pair_fini(&p);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_another(&argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_and_writes),
        cmocka_unit_test(test_a_slice_of_many_calls),
        cmocka_unit_test(test_a_plan_that_leaves_the_regions),
        cmocka_unit_test(test_a_page_that_cannot_be_read),
        cmocka_unit_test(test_a_process_that_ended),
        cmocka_unit_test(test_a_process_that_refuses),
        cmocka_unit_test(test_a_process_that_became_another_program),
        cmocka_unit_test(test_mapped_memory_is_proved),
        cmocka_unit_test(test_a_process_without_a_sample),
    };
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    sample = owner_common(page);
    uint64_t random = 1;
    bytes_fill(&random, sample, PROCESS_SAMPLE_BYTES);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
