/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_wrap: memory that engines own, on any number of ranks. The first half of them, at least one, is the prefill
 * engine "p", the rest is the decode engine "d"; one rank alone is both. Each tensor has a region of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "front/context.h"
#include "harness.h"
#include "mpi/exposure.h"
#include "pretend/pretend.h"
#include "with_clock.h"
#include "with_regions.h"
#include "with_tune.h"

#ifndef F_SEAL_FUTURE_WRITE /* headers of before Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum {
    LAYERS = 6,
    HEADS = 12,
    HEAD_SIZE = 16,
    BLOCKS = 32,
    BLOCK_TOKENS = 8,
    TOKENS = 5 * BLOCK_TOKENS - 3,
    PAGE = 4096,
    WINDOWS_MAX = 128 /* where each region has one (mpi/exposure.h) */
};

/* How an engine may come by its memory. */
enum kind { PRIVATE, MEMFD, FILES, NAMED, NAMELESS, MIXED, TOUCHING, SEALED, KINDS };
static const char *const names[KINDS] = {"private, unaligned",     "one memfd, its descriptor closed",
                                         "a memfd a region",       "an unlinked file in /dev/shm",
                                         "shared, without a file", "private and memfd",
                                         "regions that touch",     "a memfd, sealed once mapped"};

struct memory {
    uint8_t *bases[BATON_REGIONS_MAX];
    uint64_t bytes[BATON_REGIONS_MAX];
    uint32_t num;
};

struct fixture {
    baton_t *b;
    baton_cache_t *cache;
    baton_open_params_t me;
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
    struct memory memory;
    bool producer, consumer;
};

static const uint32_t blocks_of[2][5] = {{3, 17, 4, 30, 0}, {9, 1, 31, 8, 20}}; /* of producer and consumer */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint8_t *map(uint64_t bytes, int flags, int descriptor, uint64_t at)
{
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, descriptor, (off_t)at);
    CHECK(base != MAP_FAILED);
    return base;
}

static int file_new(uint64_t bytes, bool named)
{
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/baton-test-wrap.%d", getpid());
    int descriptor = named ? open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                           : memfd_create("wrap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (named)
        unlink(name);
    CHECK(descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) == 0);
    return descriptor;
}

/* `num` regions of `bytes` each, somewhere in memory of that kind. The memory stays until the process ends. */
static void memory_make(struct memory *m, enum kind kind, uint32_t num, uint64_t bytes)
{
    uint64_t room = (bytes + 2 * PAGE) / PAGE * PAGE;
    int one = kind == MEMFD || kind == NAMED || kind == SEALED ? file_new(num * room, kind == NAMED) : -1;
    uint8_t *whole = one >= 0           ? map(num * room, MAP_SHARED, one, 0)
                     : kind == NAMELESS ? map(num * room, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                     : kind == TOUCHING ? map(num * room, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                        : NULL;
    m->num = num;
    for (uint32_t i = 0; i < num; i++) {
        m->bytes[i] = bytes;
        if (kind == TOUCHING) {
            m->bases[i] = whole + (num - 1 - i) * bytes;
        } else if (whole != NULL) {
            m->bases[i] = whole + i * room + 8 * i;
        } else if (kind == FILES || (kind == MIXED && i % 2 == 0)) {
            m->bases[i] = map(room, MAP_SHARED, file_new(room, false), 0); /* the descriptor stays */
        } else {
            m->bases[i] = (uint8_t *)malloc(bytes + 64) + 8 + i % 3;
            CHECK(m->bases[i] != NULL);
        }
    }
    if (kind == SEALED)
        CHECK(fcntl(one, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 || errno == EINVAL); /* before Linux 5.1 */
    if (one >= 0)
        close(one); /* what is mapped needs it no longer */
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

static atomic_int told;

static void count_line(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)level, (void)source;
    if (strstr(line, user) != NULL)
        atomic_fetch_add(&told, 1);
}

/* Of contexts that are opened from now on. */
static void count_lines_with(char *words)
{
    atomic_store(&told, 0);
    baton_log_set(count_line, words);
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

static void who(struct fixture *f)
{
    int half = harness.size > 1 ? harness.size / 2 : 1;
    bool first = harness.rank < half;
    memset(f, 0, sizeof *f);
    f->producer = first;
    f->consumer = !first || harness.size == 1;
    f->me = (baton_open_params_t){.size = sizeof f->me,
                                  .role = BATON_ROLE_BOTH,
                                  .tp = (uint32_t)(first ? half : harness.size - half),
                                  .pp = 1,
                                  .tp_rank = (uint32_t)(first ? harness.rank : harness.rank - half)};
    strcpy(f->me.engine, first ? "p" : "d");
    uint32_t heads = HEADS / f->me.tp;
    f->geometry =
        (baton_geometry_t){.size = sizeof f->geometry,
                           .model = "m",
                           .dtype = "i16",
                           .elem_bytes = 2,
                           .planes = 2,
                           .head_size = HEAD_SIZE,
                           .num_groups = 1,
                           .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                           .num_splits = 1,
                           .splits = {{.heads_total = HEADS, .head_first = heads * f->me.tp_rank, .head_count = heads}},
                           .layers_total = LAYERS,
                           .layer_count = LAYERS};
    CHECK_EQ(baton_geometry_layout(&f->geometry, f->tensors, first ? BATON_LAYOUT_HND : BATON_LAYOUT_NHD), 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        f->tensors[i].region = LAYERS - 1 - i; /* in another order than the tensors */
        f->tensors[i].offset = 0;
    }
}

static uint64_t tensor_bytes(const struct fixture *f)
{
    return f->geometry.bytes / LAYERS;
}

static int wrap_as(struct fixture *f, baton_memory_t memory)
{
    baton_region_t regions[BATON_REGIONS_MAX];
    for (uint32_t i = 0; i < f->memory.num; i++)
        regions[i] = region_of(memory, f->memory.bases[i], f->memory.bytes[i]);
    return baton_cache_wrap(f->b, &f->geometry, regions, f->memory.num, &f->cache);
}

static void open_as(struct fixture *f)
{
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &f->me, &f->b), 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void start(struct fixture *f)
{
    if (!CHECK_EQ(baton_start(f->b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void up(struct fixture *f, enum kind kind)
{
    who(f);
    open_as(f);
    memory_make(&f->memory, kind, LAYERS, tensor_bytes(f));
    if (!CHECK_EQ(wrap_as(f, BATON_MEMORY_HOST), 0))
        fprintf(stderr, "# %s\n", baton_errmsg());
    CHECK(baton_cache_base(f->cache) == NULL);
    start(f);
}

static baton_event_t next_event(struct fixture *f)
{
    baton_event_t e = {0};
    struct pollfd p = {.fd = baton_event_fd(f->b), .events = POLLIN};
    double until = now_ms() + 20000;
    int n;
    while ((n = baton_poll(f->b, &e, 1)) == 0 && now_ms() < until)
        poll(&p, 1, 100);
    CHECK_EQ(n, 1);
    return e;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint16_t *entry(struct fixture *f, bool from_d, uint32_t l, uint32_t p, uint32_t h, uint32_t t)
{
    const baton_strides_t *s = &f->tensors[l].stride;
    uint32_t block = blocks_of[from_d][t / BLOCK_TOKENS];
    int64_t at = block * s->block + p * s->plane + h * s->head + t % BLOCK_TOKENS * s->token;
    return (uint16_t *)(f->memory.bases[f->tensors[l].region] + at); /* channels lie side by side in both layouts */
}

static uint16_t value(uint32_t l, uint32_t p, uint32_t h, uint32_t t, uint32_t c, uint16_t salt)
{
    return (uint16_t)(salt + l * 7919 + p * 4099 + h * 1013 + t * 131 + c * 17 + 1);
}

/* Fills the blocks, or checks them. */
static void walk(struct fixture *f, bool from_d, bool fill, uint16_t salt)
{
    const baton_split_t *heads = &f->geometry.splits[0];
    int wrong = 0;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < heads->head_count; h++)
                for (uint32_t t = 0; t < TOKENS; t++) {
                    uint16_t *at = entry(f, from_d, l, p, h, t), should[HEAD_SIZE];
                    for (uint32_t c = 0; c < HEAD_SIZE; c++)
                        should[c] = value(l, p, heads->head_first + h, t, c, salt);
                    if (fill)
                        memcpy(at, should, sizeof should);
                    else
                        wrong += memcmp(at, should, sizeof should) != 0;
                }
    CHECK_EQ(wrong, 0);
}

static void spoil(struct fixture *f)
{
    for (uint32_t i = 0; i < f->memory.num; i++)
        memset(f->memory.bases[i], 0xa5, f->memory.bytes[i]);
}

/* How many bytes beside the blocks of a request were changed since spoil. */
static uint64_t changed_beside(struct fixture *f, bool from_d)
{
    uint64_t changed = 0, bytes = tensor_bytes(f);
    bool in_table[BLOCKS] = {false};
    for (int i = 0; i < 5; i++)
        in_table[blocks_of[from_d][i]] = true;
    for (uint32_t l = 0; l < LAYERS; l++) {
        const baton_strides_t *s = &f->tensors[l].stride;
        for (uint64_t at = 0; at < bytes; at++) {
            uint64_t block = at % (uint64_t)s->plane / (uint64_t)s->block; /* in planes of whole blocks */
            changed += !in_table[block] && f->memory.bases[f->tensors[l].region][at] != 0xa5;
        }
    }
    return changed;
}

static int offer_as(struct fixture *f, const char *key)
{
    const baton_offer_params_t offer = {
        .size = sizeof offer, .key = key, .num_tables = 1, .tables = {{blocks_of[0], 5, 0}}, .num_tokens = TOKENS};
    return baton_offer(f->b, &offer, NULL);
}

/* Of the engine `p`. */
static int want_with(struct fixture *f, const char *key, baton_mode_t mode, uint32_t flags)
{
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = key,
                                      .engine = "p",
                                      .num_tables = 1,
                                      .tables = {{blocks_of[1], 5, 0}},
                                      .num_tokens = TOKENS,
                                      .mode = mode,
                                      .flags = flags};
    return baton_want(f->b, &want, NULL);
}

static int want_as(struct fixture *f, const char *key, baton_mode_t mode)
{
    return want_with(f, key, mode, 0);
}

/* One request from `p` to `d`; its bytes are right, and nothing else was touched. */
static baton_event_t move_with(struct fixture *f, const char *key, baton_mode_t mode, uint16_t salt, uint32_t flags)
{
    baton_event_t got = {0};
    spoil(f);
    if (f->producer) {
        walk(f, false, true, salt);
        CHECK_EQ(offer_as(f, key), 0);
    }
    if (f->consumer)
        CHECK_EQ(want_with(f, key, mode, flags), 0);
    for (int i = 0; i < f->producer + f->consumer; i++) {
        baton_event_t e = next_event(f);
        if (!CHECK_EQ(e.error, 0))
            fprintf(stderr, "# rank %d: %s: %s\n", harness.rank, baton_errname(e.error), e.detail);
        if (e.type == BATON_EVENT_WANT)
            got = e;
    }
    if (f->consumer) {
        walk(f, true, false, salt);
        if (!f->producer)
            CHECK_EQ(changed_beside(f, true), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* nobody spoils what another still reads */
    return got;
}

static baton_event_t move(struct fixture *f, const char *key, baton_mode_t mode, uint16_t salt)
{
    return move_with(f, key, mode, salt, 0);
}

static bool is_window_each(void)
{
    return !is_one_node() && tuned("windows") != NULL && atoi(tuned("windows")) == 2;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static bool is_shared(enum kind kind)
{
    return kind == MEMFD || kind == FILES || kind == NAMED || kind == SEALED || (kind == NAMELESS && geteuid() == 0);
}

static void every_kind_moves_every_byte(void)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct fixture f;
        char page[4096];
        up(&f, kind);
        if (harness.rank == 0)
            printf("# %s\n", names[kind]);
        for (int mode = BATON_MODE_PULL; mode <= BATON_MODE_PUSH; mode++) {
            baton_event_t e =
                move(&f, mode == BATON_MODE_PULL ? "pull" : "push", (baton_mode_t)mode, (uint16_t)(kind * 77));
            bool can_map = is_shared(kind) && (mode == BATON_MODE_PULL || kind != SEALED);
            baton_path_t path = can_map ? BATON_PATH_SHM : BATON_PATH_CMA;
            if (!f.consumer || f.producer || !is_one_node())
                continue;
            CHECK(e.bytes > 0);
            if (kind == MIXED) /* of a push only that path is told by which most of it went */
                CHECK(e.path_bytes[BATON_PATH_SHM] * 2 == e.bytes || mode == BATON_MODE_PUSH);
            CHECK_EQ(e.path_bytes[path] + (kind == MIXED ? e.path_bytes[BATON_PATH_SHM] : 0), e.bytes);
        }
        CHECK(baton_describe(f.b, page, sizeof page) < (int)sizeof page);
        CHECK_HAS(page, "cache: wrapped");
        CHECK_HAS(page, kind == TOUCHING ? "1 region," : "6 regions,");
        if (is_one_node() && harness.size > 1)
            CHECK_HAS(page, is_shared(kind) ? " by shm" : " by cma");
        if (is_one_node() && harness.size > 1 && kind == PRIVATE)
            CHECK_HAS(page, harness.rank == 0 ? "of this node, rank 1 first: region 0 is private memory"
                                              : "of this node, rank 0 first: region 0 is private memory");
        CHECK_EQ(baton_close(f.b), 0);
    }
}

/* ---- regions of several kinds ------------------------------------------------------------------------------------ */

/* The pretended device of this rank: its pages, which nobody may touch, and as the engine has them mapped. */
struct device {
    uint8_t *pages, *kernel;
    struct pretend_driver *driver;
    baton_driver_t table;
};

static void device_init(struct device *d, uint64_t bytes)
{
    d->pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    d->kernel = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)d->pages != MAP_FAILED);
    CHECK_EQ(pretend_driver_create(d->pages, d->kernel, bytes, &d->driver), 0);
    d->table = pretend_driver_table(d->driver);
}

/*
 * Region i is private memory, shared memory or a device's: the first of these for region `first`, and so on. They lie
 * side by side, those of the host in the midst of the device's pages.
 */
static int wrap_several(struct fixture *f, struct device *d, uint32_t first)
{
    static const baton_memory_t kinds[] = {BATON_MEMORY_HOST, BATON_MEMORY_SHARED, BATON_MEMORY_DEVICE};
    const uint64_t bytes = tensor_bytes(f), room = (bytes + 2 * PAGE) / PAGE * PAGE;
    baton_region_t regions[LAYERS];
    device_init(d, LAYERS * room);
    f->memory.num = LAYERS;
    for (uint32_t i = 0; i < LAYERS; i++) {
        const baton_memory_t kind = kinds[(i + 3 - first) % 3];
        const bool is_shared = kind == BATON_MEMORY_SHARED, is_device = kind == BATON_MEMORY_DEVICE;
        uint8_t *at = d->pages + i * room;
        if (!is_device)
            CHECK(mmap(at, room, PROT_READ | PROT_WRITE,
                       MAP_FIXED | (is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS),
                       is_shared ? file_new(room, false) : -1, 0) == at);
        f->memory.bases[i] = is_device ? d->kernel + i * room : at;
        f->memory.bytes[i] = bytes;
        regions[i] = region_of(kind, at, bytes);
        regions[i].device = is_device;
    }
    CHECK_EQ(baton_driver_set(f->b, &d->table), 0);
    return baton_cache_wrap(f->b, &f->geometry, regions, LAYERS, &f->cache);
}

/* What lies behind the tokens in their last block is zero. */
static void check_tail(struct fixture *f)
{
    static const uint16_t zeros[HEAD_SIZE];
    int wrong = 0;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < f->geometry.splits[0].head_count; h++)
                for (uint32_t t = TOKENS; t < 5 * BLOCK_TOKENS; t++)
                    wrong += memcmp(entry(f, true, l, p, h, t), zeros, sizeof zeros) != 0;
    CHECK_EQ(wrong, 0);
}

/* Of a pull: a third of the layers each is private, shared and a device's, on both sides alike; or the kinds differ. */
static void check_paths(const baton_event_t *e, bool is_alike)
{
    CHECK(e->bytes > 0);
    CHECK_EQ(e->path_bytes[BATON_PATH_STAGED] * 3, e->bytes * (is_alike ? 1 : 2));
    if (is_one_node()) {
        CHECK_EQ(e->path_bytes[BATON_PATH_SHM] * 3, e->bytes);
        CHECK_EQ(e->path_bytes[BATON_PATH_CMA] * 3, is_alike ? e->bytes : 0);
    } else {
        CHECK_EQ(e->path_bytes[BATON_PATH_RMA] * 3, e->bytes * (is_alike ? 2 : 1));
    }
}

/* Each pair of regions finds its own way, and together they bring every byte; `shift`: by how much the sides differ. */
static void move_several(uint32_t shift, bool with_hashes)
{
    struct fixture f;
    struct device device;
    char page[8192];
    who(&f);
    if (with_hashes)
        setenv("BATON_CHECKSUM", "1", 1);
    open_as(&f);
    unsetenv("BATON_CHECKSUM");
    if (!CHECK_EQ(wrap_several(&f, &device, f.producer ? 0 : shift), 0))
        fprintf(stderr, "# %s\n", baton_errmsg());
    start(&f);
    for (uint16_t i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "several %d", i);
        const baton_event_t e =
            move_with(&f, key, i % 2 == 0 ? BATON_MODE_PULL : BATON_MODE_PUSH, i, i < 2 ? BATON_WANT_ZERO_TAIL : 0);
        if (f.consumer && i < 2)
            check_tail(&f);
        if (f.consumer && !f.producer && i % 2 == 0)
            check_paths(&e, shift == 0);
    }
    CHECK(baton_describe(f.b, page, sizeof page) < (int)sizeof page);
    CHECK_HAS(page, "device: 2 regions of 1; its driver is \"pretended device\"");
    CHECK_HAS(page, "by several ways: rank");
    if (!is_one_node() && !is_window_each())
        CHECK_HAS(page, "has a device's memory between its regions");
    CHECK_EQ(baton_close(f.b), 0);
    pretend_driver_destroy(device.driver);
}

static void regions_of_several_kinds(void)
{
    if (harness.size == 1)
        return SKIP("two engines show it");
    move_several(0, false);
    move_several(1, false);
    move_several(0, true);
}

static void many_regions(void)
{
    struct fixture f;
    bool has_window_each = is_window_each();
    uint32_t num = has_window_each ? WINDOWS_MAX : BATON_REGIONS_MAX;
    who(&f);
    open_as(&f);
    memory_make(&f.memory, harness.rank % 2 ? PRIVATE : MEMFD, num, tensor_bytes(&f)); /* most hold no tensor */
    for (uint32_t i = 0; i < LAYERS; i++)
        f.tensors[i].region = i * (num / LAYERS) + 3;
    if (!CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0))
        fprintf(stderr, "# %s\n", baton_errmsg());
    start(&f);
    move(&f, "many", BATON_MODE_PULL, 5);
    move(&f, "many push", BATON_MODE_PUSH, 6);
    if (!is_one_node()) {
        char page[8192];
        CHECK(baton_describe(f.b, page, sizeof page) < (int)sizeof page);
        CHECK_HAS(page, has_window_each ? "128, one a region: BATON_TUNE=windows forbids one window over all\n"
                                        : "one, from the first region to the last\n");
    }
    CHECK_EQ(baton_close(f.b), 0);
}

/* Their bytes are staged. */
static void more_regions_than_windows(void)
{
    struct fixture f;
    char page[8192];
    if (!is_window_each())
        return SKIP("no window for each region");
    who(&f);
    open_as(&f);
    memory_make(&f.memory, PRIVATE, WINDOWS_MAX + 1, tensor_bytes(&f));
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    start(&f);
    CHECK(baton_describe(f.b, page, sizeof page) < (int)sizeof page);
    CHECK_HAS(page, "a rank has 129 regions, more than 128");
    move(&f, "pull", BATON_MODE_PULL, 5);
    move(&f, "push", BATON_MODE_PUSH, 6);
    CHECK_EQ(baton_close(f.b), 0);
}

/* Turns that are lent copy nothing for staging: what it has to do is left to the reactor. */
static void staging_waits_while_turns_are_lent(void)
{
    struct fixture f;
    baton_event_t none;
    if (!is_window_each())
        return SKIP("no window for each region");
    who(&f);
    f.me.progress = BATON_PROGRESS_CALLER;
    open_as(&f);
    memory_make(&f.memory, PRIVATE, WINDOWS_MAX + 1, tensor_bytes(&f));
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    start(&f);
    paths_lend(f.b->paths, true);
    if (f.producer)
        CHECK_EQ(offer_as(&f, "k"), 0);
    else
        CHECK_EQ(want_as(&f, "k", BATON_MODE_AUTO), 0);
    for (double until = now_ms() + 300; now_ms() < until;)
        CHECK_EQ(baton_poll(f.b, &none, 1), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    paths_lend(f.b->paths, false);
    CHECK_EQ(next_event(&f).error, 0);
    CHECK_EQ(baton_close(f.b), 0);
}

/* A region that a window does not cover is not to be reached through it, whatever its rank says. */
static void regions_outside_of_windows(void)
{
    const struct path_region r[] = {{.at = 2000, .bytes = 1000}, {.at = 1000, .bytes = 2000},
                                    {.at = 999, .bytes = 10},    {.at = 2500, .bytes = 501},
                                    {.at = 4000, .bytes = 0},    {.at = 2900, .bytes = UINT64_MAX},
                                    {2000, 1000, true}};
    const struct path_regions theirs = {true, 7, r};
    struct exposure_span span = {1000, 3000, 0};
    struct exposure e = {.way = EXPOSURE_SPAN, .num = 1, .spans = &span};
    uint64_t at = 0;
    CHECK_EQ(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &e.windows[0]), MPI_SUCCESS);
    e.windows[1] = e.windows[0];
    CHECK(exposure_place(&e, 0, &theirs, 0, 5, &at) == e.windows[0]);
    CHECK_EQ(at, 1005);
    CHECK(exposure_place(&e, 0, &theirs, 1, 1999, &at) == e.windows[0]);
    CHECK_EQ(at, 1999);
    for (uint32_t i = 2; i < theirs.num; i++)
        CHECK(exposure_place(&e, 0, &theirs, i, 0, &at) == MPI_WIN_NULL);
    e.way = EXPOSURE_EACH;
    e.num = 2;
    CHECK(exposure_place(&e, 0, &theirs, 1, 7, &at) == e.windows[1]);
    CHECK_EQ(at, 7);
    CHECK(exposure_place(&e, 0, &theirs, 2, 7, &at) == MPI_WIN_NULL);
    e.way = EXPOSURE_NONE;
    CHECK(exposure_place(&e, 0, &theirs, 0, 7, &at) == MPI_WIN_NULL);
    CHECK_EQ(MPI_Win_free(&e.windows[0]), MPI_SUCCESS);
}

static void memory_that_cannot_be_written(void)
{
    struct fixture f;
    who(&f);
    open_as(&f);
    memory_make(&f.memory, harness.rank % 2 ? NAMED : MEMFD, LAYERS, tensor_bytes(&f));
    if (f.producer && !f.consumer) {
        spoil(&f);
        walk(&f, false, true, 9);
        for (uint32_t i = 0; i < LAYERS; i++) {
            uintptr_t base = (uintptr_t)f.memory.bases[i] & ~(uintptr_t)(PAGE - 1);
            CHECK_EQ(mprotect((void *)base, f.memory.bytes[i] + PAGE, PROT_READ), 0);
        }
    }
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    start(&f);
    const baton_table_t to = {blocks_of[1], 5, 0};
    baton_want_params_t want = {.size = sizeof want,
                                .key = "k",
                                .engine = f.consumer ? "p" : "d",
                                .num_tables = 1,
                                .tables = {to},
                                .num_tokens = TOKENS};
    if (f.producer && !f.consumer) {
        CHECK_EQ(baton_want(f.b, &want, NULL), BATON_EINVAL);
        CHECK_HAS(baton_errmsg(), "cannot be written");
        CHECK_EQ(offer_as(&f, "k"), 0);
        CHECK_EQ(next_event(&f).error, 0);
    } else if (!f.producer) {
        CHECK_EQ(baton_want(f.b, &want, NULL), 0);
        CHECK_EQ(next_event(&f).error, 0);
        walk(&f, true, false, 9);
    }
    CHECK_EQ(baton_close(f.b), 0);
}

/* Both sides may own their memory, or one alone. */
static void wrapped_beside_allocated(void)
{
    struct fixture f;
    who(&f);
    open_as(&f);
    if (harness.rank % 2 == 0) {
        memory_make(&f.memory, PRIVATE, LAYERS, tensor_bytes(&f));
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        start(&f);
    } else {
        for (uint32_t i = 0; i < LAYERS; i++) {
            f.tensors[i].region = 0;
            f.tensors[i].offset = i * tensor_bytes(&f);
        }
        CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
        start(&f);
        f.memory.num = LAYERS;
        for (uint32_t i = 0; i < LAYERS; i++) {
            f.memory.bases[i] = (uint8_t *)baton_cache_base(f.cache) + i * tensor_bytes(&f);
            f.memory.bytes[i] = tensor_bytes(&f);
            f.tensors[i].region = i; /* for the checks here; Baton has a copy */
        }
    }
    move(&f, "pull", BATON_MODE_PULL, 1);
    move(&f, "push", BATON_MODE_PUSH, 2);
    CHECK_EQ(baton_close(f.b), 0);
}

static void refuses(struct fixture *f, int error, baton_memory_t memory, const char *says)
{
    CHECK_EQ(wrap_as(f, memory), error);
    CHECK_HAS(baton_errmsg(), says);
}

static void bad_regions_are_refused(void)
{
    struct fixture f;
    who(&f);
    open_as(&f);
    memory_make(&f.memory, PRIVATE, LAYERS, tensor_bytes(&f));
    const struct memory good = f.memory;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_SHARED, "is not memory that other processes can map");
    refuses(&f, BATON_EINVAL, (baton_memory_t)17, "no kind of memory");
    refuses(&f, BATON_ENOSYS, BATON_MEMORY_DEVICE, "needs a driver");
    f.memory.bases[1] = NULL;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "region 1 has no memory");
    f.memory = good;
    f.memory.bytes[2]--;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "reach past its region");
    f.memory = good;
    f.memory.bytes[2] = UINT64_MAX;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "region 2 has no memory");
    f.memory = good;
    f.memory.bases[0] = f.memory.bases[1] + 8;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "overlap");
    f.memory = good;
    f.memory.bytes[3] = UINT64_C(1) << 40; /* reaches to what is not mapped, or over another region */
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), BATON_EINVAL);
    f.memory = good;
    f.memory.bases[5] = map(f.memory.bytes[5], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(mprotect(f.memory.bases[5], PAGE, PROT_NONE), 0);
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "region 5");
    f.memory = good;
    f.memory.num = 0;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "num_regions");
    f.memory.num = LAYERS - 1;
    refuses(&f, BATON_EINVAL, BATON_MEMORY_HOST, "region does not exist");
    f.memory = good;
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0); /* what was refused is not declared */
    refuses(&f, BATON_ENOSYS, BATON_MEMORY_HOST, "one cache");
    start(&f);
    refuses(&f, BATON_ESTATE, BATON_MEMORY_HOST, "before baton_start");
    CHECK_EQ(baton_cache_ready(f.b), 0);
    CHECK_EQ(baton_close(f.b), 0);
}

/* Heads that were counted wrongly are on no rank: the first rank of the engine says so. */
static void an_engine_that_lacks_heads(void)
{
    struct fixture f;
    who(&f);
    const bool is_last = f.me.tp_rank == f.me.tp - 1;
    char words[128];
    snprintf(words, sizeof words, "engine %s has a part of the model only", f.me.engine);
    count_lines_with(words);
    open_as(&f);
    baton_log_set(NULL, NULL);
    if (is_last)
        f.geometry.splits[0].head_count--;
    CHECK_EQ(baton_geometry_layout(&f.geometry, f.tensors, f.producer ? BATON_LAYOUT_HND : BATON_LAYOUT_NHD), 0);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    start(&f);
    CHECK_EQ(atomic_load(&told), f.me.tp_rank == 0);
    CHECK_EQ(baton_close(f.b), 0);
}

/* A rank whose cache was refused closes; the others are in baton_start by then, or come there later. */
static void one_that_closes_before_start(void)
{
    struct fixture f;
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    for (int closes = 0; closes < harness.size; closes += harness.size - 1) {
        for (int late = 0; late < 2; late++) {
            const double begin = now_ms();
            who(&f);
            open_as(&f);
            if ((harness.rank == closes) == late)
                sleep_ms(100);
            if (harness.rank != closes) {
                CHECK_EQ(baton_start(f.b), BATON_ECLOSED);
                CHECK_HAS(baton_errmsg(), "closes before baton_start");
                CHECK_EQ(baton_offer(f.b, &(baton_offer_params_t){.size = sizeof(baton_offer_params_t)}, NULL),
                         BATON_ESTATE);
            }
            CHECK_EQ(baton_close(f.b), 0);
            CHECK(now_ms() - begin < 20000);
        }
    }
    who(&f);
    open_as(&f);
    CHECK_EQ(baton_close(f.b), 0); /* all of them */
}

/* ---- caches that come late --------------------------------------------------------------------------------------- */

static void up_late(struct fixture *f, baton_progress_mode_t progress, bool later)
{
    who(f);
    f->me.progress = progress;
    f->me.flags = later ? BATON_OPEN_CACHE_LATER : 0;
    open_as(f);
    memory_make(&f->memory, PRIVATE, LAYERS, tensor_bytes(f));
}

static int await_ready(struct fixture *f, long most_ms)
{
    int rc;
    double until = now_ms() + (double)most_ms;
    while ((rc = baton_cache_ready(f->b)) == BATON_EAGAIN && now_ms() < until)
        sleep_ms(1);
    return rc;
}

static void caches_may_come_late(void)
{
    for (int progress = BATON_PROGRESS_THREAD; progress <= BATON_PROGRESS_CALLER; progress++) {
        struct fixture f;
        bool later = harness.rank % 2 == 0; /* the others have declared theirs before */
        baton_event_t none;
        up_late(&f, (baton_progress_mode_t)progress, later);
        CHECK_EQ(baton_cache_ready(f.b), BATON_ESTATE);
        if (!later)
            CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        start(&f);
        CHECK_EQ(baton_cache_ready(f.b), BATON_EAGAIN);
        CHECK_EQ(want_as(&f, "k", BATON_MODE_AUTO), BATON_EAGAIN);
        CHECK_HAS(baton_errmsg(), "baton_cache_ready");
        CHECK_EQ(baton_poll(f.b, &none, 1), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        sleep_ms(20 * harness.rank);
        if (later)
            CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        CHECK_EQ(await_ready(&f, 20000), 0);
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), BATON_ESTATE);
        if (progress == BATON_PROGRESS_THREAD) {
            move(&f, "late", BATON_MODE_PULL, 3);
            move(&f, "late push", BATON_MODE_PUSH, 4);
        }
        CHECK_EQ(baton_close(f.b), 0);
    }
}

/* A rank whose own cache is there computes into it while others are late: nothing of start touches it any more. */
static void memory_in_use_while_others_are_late(void)
{
    struct fixture f;
    const bool later = harness.rank % 2 == 0;
    uint64_t spoilt = 0;
    if (is_one_node())
        return SKIP("no reads between nodes, which start tries");
    up_late(&f, BATON_PROGRESS_THREAD, later);
    for (uint32_t i = 0; i < LAYERS && !later; i++) {
        f.tensors[i].region = 0;
        f.tensors[i].offset = i * tensor_bytes(&f);
    }
    if (!later)
        CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    start(&f);
    uint8_t *mine = later ? NULL : baton_cache_base(f.cache);
    const uint64_t bytes = f.geometry.bytes;
    CHECK(later || (mine != NULL && bytes > 0));
    if (mine != NULL)
        memset(mine, 0xa5, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (later)
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    CHECK_EQ(await_ready(&f, 20000), 0);
    for (uint64_t i = 0; mine != NULL && i < bytes; i++)
        spoilt += mine[i] != 0xa5;
    CHECK_EQ(spoilt, 0);
    CHECK_EQ(baton_close(f.b), 0);
}

static int level_most = MPI_THREAD_MULTIPLE; /* that MPI seems to give */

int MPI_Query_thread(int *level)
{
    const int rc = PMPI_Query_thread(level);
    if (*level > level_most)
        *level = level_most;
    return rc;
}

static void *asks_all_the_time(void *arg)
{
    struct fixture *f = arg;
    for (double until = now_ms() + (level_most == MPI_THREAD_MULTIPLE ? 20000 : 300); now_ms() < until;)
        if (baton_cache_ready(f->b) != BATON_EAGAIN)
            return f;
    return NULL;
}

/*
 * Another thread may ask, and goes on with the start where MPI bears any thread. The one that lends itself makes turns
 * afterwards all the same.
 */
static void another_thread_asks(void)
{
    struct fixture f;
    pthread_t other;
    void *done = NULL;
    up_late(&f, BATON_PROGRESS_CALLER, harness.rank == 0);
    if (harness.rank != 0)
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    start(&f);
    if (harness.rank == 0)
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    CHECK_EQ(pthread_create(&other, NULL, asks_all_the_time, &f), 0);
    CHECK_EQ(pthread_join(other, &done), 0);
    CHECK_EQ(done != NULL, f.b->on.world->bears_threads);
    CHECK_EQ(await_ready(&f, 20000), 0);
    move(&f, "asked", BATON_MODE_PULL, 3);
    CHECK_EQ(baton_close(f.b), 0);
}

static void another_thread_asks_and_may_not_call_mpi(void)
{
    level_most = MPI_THREAD_SERIALIZED;
    another_thread_asks();
    level_most = MPI_THREAD_MULTIPLE;
}

static void *lends_itself(void *arg)
{
    struct fixture *f = arg;
    if (CHECK_EQ(baton_cache_ready(f->b), BATON_EAGAIN))
        CHECK_HAS(baton_errmsg(), "the thread that lends itself has not gone on yet");
    CHECK_EQ(baton_progress(f->b), BATON_EAGAIN);
    CHECK_EQ(await_ready(f, 20000), 0);
    move(f, "lent", BATON_MODE_PULL, 3);
    return NULL;
}

/* Unless it lends itself: then it goes on, and makes turns afterwards. */
static void another_thread_lends_itself_meanwhile(void)
{
    struct fixture f;
    pthread_t other;
    level_most = MPI_THREAD_SERIALIZED;
    up_late(&f, BATON_PROGRESS_CALLER, true);
    start(&f);
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    CHECK_EQ(pthread_create(&other, NULL, lends_itself, &f), 0);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK(baton_progress(f.b) >= 0); /* and back */
    CHECK_EQ(baton_close(f.b), 0);
    level_most = MPI_THREAD_MULTIPLE;
}

/* All ranks hear of it, also the one that is missing: the last one, and then rank 0. */
static void a_cache_that_does_not_come(void)
{
    char who_is[32];
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    setenv("BATON_WRAP_MS", "300", 1);
    for (int missing = harness.size - 1; missing >= 0; missing -= harness.size - 1) {
        struct fixture f;
        up_late(&f, BATON_PROGRESS_THREAD, true);
        start(&f);
        if (harness.rank != missing)
            CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        CHECK_EQ(await_ready(&f, 20000), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "BATON_WRAP_MS");
        snprintf(who_is, sizeof who_is, "missing: %d", missing);
        CHECK_HAS(baton_errmsg(), who_is);
        CHECK_EQ(baton_cancel(f.b, 1), BATON_ESTATE);
        CHECK_HAS(baton_errmsg(), who_is);
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), BATON_ESTATE);
        CHECK_HAS(baton_errmsg(), who_is);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQ(baton_close(f.b), 0); /* it is no loss of a rank */
    }
    unsetenv("BATON_WRAP_MS");
}

/* Each rank waits from another moment on. They go on together, or give up together. */
static void ranks_that_come_one_after_the_other(void)
{
    enum { WRAP_MS = 300 };
    setenv("BATON_WRAP_MS", "300", 1);
    for (int reversed = 0; reversed < 2; reversed++) {
        struct fixture f;
        int most, least, place = reversed ? harness.size - 1 - harness.rank : harness.rank;
        up_late(&f, BATON_PROGRESS_THREAD, true);
        start(&f);
        MPI_Barrier(MPI_COMM_WORLD);
        sleep_ms(place == 0 ? 0 : place < harness.size - 1 ? WRAP_MS / 2 : WRAP_MS + WRAP_MS / 4);
        int rc = wrap_as(&f, BATON_MEMORY_HOST);
        CHECK(rc == 0 || rc == BATON_ESTATE); /* ESTATE: the ranks have given up */
        rc = await_ready(&f, 20000);
        CHECK(rc == 0 || rc == BATON_ETIMEDOUT); /* 0: on a busy machine */
        CHECK_EQ(baton_close(f.b), 0);
        MPI_Allreduce(&rc, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&rc, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        CHECK_EQ(most, least);
    }
    unsetenv("BATON_WRAP_MS");
}

/* Rank 0 decides for all, and does not ask. The others give up by themselves, later. */
static void rank_0_that_is_silent(void)
{
    struct fixture f;
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    setenv("BATON_WRAP_MS", "200", 1);
    setenv("BATON_START_MS", "3000", 1);
    up_late(&f, BATON_PROGRESS_CALLER, true);
    start(&f);
    CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    if (harness.rank != 0) {
        double begun = now_ms();
        CHECK_EQ(await_ready(&f, 20000), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "rank 0 did not answer within 3200 ms");
        CHECK(now_ms() - begun >= 3000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(f.b), 0);
    unsetenv("BATON_WRAP_MS");
    unsetenv("BATON_START_MS");
}

static void one_that_closes_instead(void)
{
    struct fixture f;
    bool closes = harness.rank == harness.size - 1;
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    up_late(&f, BATON_PROGRESS_THREAD, true);
    start(&f);
    const int wrapped = wrap_as(&f, BATON_MEMORY_HOST);
    CHECK(wrapped == 0 || (wrapped == BATON_ESTATE && !closes)); /* ESTATE: the other one has closed already */
    if (!closes) { /* either all had come before it closed, or nobody goes on */
        int rc = await_ready(&f, 100);
        CHECK(rc == BATON_EAGAIN || rc == BATON_ECLOSED || (rc == 0 && wrapped == 0));
    }
    CHECK_EQ(baton_close(f.b), 0);
}

/* Rank 0 says so when it is asked, and after 5 s, once, in its log. */
static void rank_0_says_who_is_missing(void)
{
    struct fixture f;
    if (harness.size != 2)
        return SKIP("two ranks show it");
    count_lines_with("missing: 1");
    up_late(&f, BATON_PROGRESS_THREAD, true);
    baton_log_set(NULL, NULL);
    start(&f);
    if (harness.rank == 0) {
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        CHECK_EQ(await_ready(&f, 1000), BATON_EAGAIN);
        CHECK_HAS(baton_errmsg(), "missing: 1");
        CHECK_EQ(atomic_load(&told), 0);
        CHECK_EQ(await_ready(&f, 5500), BATON_EAGAIN);
        CHECK_EQ(atomic_load(&told), 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (harness.rank == 1)
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
    CHECK_EQ(await_ready(&f, 20000), 0);
    CHECK_EQ(baton_close(f.b), 0);
}

/* One rank, the last or rank 0, never declares its cache and closes: the others hear at once who it is. */
static void one_that_leaves_the_others_waiting(void)
{
    char who_is[64];
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    for (int leaver = harness.size - 1; leaver >= 0; leaver -= harness.size - 1) {
        struct fixture f;
        double begun = now_ms();
        up_late(&f, BATON_PROGRESS_THREAD, true);
        start(&f);
        if (harness.rank != leaver)
            CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        if (harness.rank != leaver) {
            CHECK_EQ(await_ready(&f, 20000), BATON_ECLOSED);
            snprintf(who_is, sizeof who_is, "rank %d (engine %s, host ", leaver, leaver == 0 ? "p" : "d");
            CHECK_HAS(baton_errmsg(), who_is);
        }
        CHECK_EQ(baton_close(f.b), 0);
        CHECK(now_ms() - begun < 15000);
    }
}

/* One rank, the last or rank 0, closes long before the others: it waits for them, as BATON_CLOSE_MS lets it. */
static void one_that_closes_long_before_the_others(void)
{
    enum { LATER_MS = 2500 };
    if (harness.size == 1)
        return SKIP("one rank waits for nobody");
    for (int leaver = harness.size - 1; leaver >= 0; leaver -= harness.size - 1) {
        struct fixture f;
        up_late(&f, BATON_PROGRESS_THREAD, true);
        start(&f);
        MPI_Barrier(MPI_COMM_WORLD);
        if (harness.rank != leaver) {
            CHECK_EQ(await_ready(&f, 20000), BATON_ECLOSED);
            sleep_ms(LATER_MS);
        }
        double begun = now_ms();
        CHECK_EQ(baton_close(f.b), 0);
        if (harness.rank == leaver)
            CHECK(now_ms() - begun >= LATER_MS - 200);
    }
}

/* Any thread may ask, and several at once: one of them goes on. */
static void *ask(void *arg)
{
    struct fixture *f = arg;
    return (void *)(intptr_t)await_ready(f, 20000);
}

static void several_threads_ask(void)
{
    enum { THREADS = 3, ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f;
        pthread_t threads[THREADS];
        up_late(&f, BATON_PROGRESS_CALLER, true);
        start(&f);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, ask, &f), 0);
        CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
        if (!f.b->on.world->bears_threads)
            CHECK_EQ(await_ready(&f, 20000), 0);
        for (int i = 0; i < THREADS; i++) {
            void *result;
            pthread_join(threads[i], &result);
            CHECK_EQ((intptr_t)result, 0);
        }
        CHECK(baton_progress(f.b) >= 0); /* this thread makes turns from now on */
        move(&f, "asked", BATON_MODE_PULL, 8);
        CHECK_EQ(baton_close(f.b), 0);
    }
}

/* The last cache comes about when the others stop waiting. Then all ranks go on or none does, and nobody hangs. */
static void one_that_comes_at_the_last_moment(void)
{
    enum { WRAP_MS = 100 };
    setenv("BATON_WRAP_MS", "100", 1);
    for (int early_ms = -4; early_ms <= 4; early_ms += 2) {
        struct fixture f;
        int most, least;
        up_late(&f, BATON_PROGRESS_THREAD, true);
        start(&f);
        MPI_Barrier(MPI_COMM_WORLD);
        if (harness.rank == harness.size - 1)
            sleep_ms(WRAP_MS - early_ms);
        int rc = wrap_as(&f, BATON_MEMORY_HOST);
        CHECK(rc == 0 || rc == BATON_ESTATE); /* ESTATE: the ranks have given up */
        rc = await_ready(&f, 20000);
        CHECK(rc == 0 || rc == BATON_ETIMEDOUT);
        CHECK_EQ(baton_close(f.b), 0);
        MPI_Allreduce(&rc, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&rc, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        CHECK_EQ(most, least);
    }
    unsetenv("BATON_WRAP_MS");
}

/* Each step of both halves fails on one rank in turn: every rank ends with the same error, which names that rank. */
static void a_step_that_fails_on_one_rank_fails_on_all(void)
{
    char failing[32];
    bool good = false;
    int steps = 0;
    struct fixture f;
    struct memory memory;
    if (harness.size > 4)
        return SKIP("fewer ranks take the same steps");
    who(&f);
    memory_make(&memory, harness.rank % 2 ? PRIVATE : MEMFD, LAYERS, tensor_bytes(&f));
    snprintf(failing, sizeof failing, "rank %d", harness.size - 1);
    tune("fail_rank", failing + strlen("rank "));
    while (!good && steps < 60) {
        char text[16], sentence[256];
        int most, least;
        snprintf(text, sizeof text, "%d", ++steps);
        tune("fail_step", text);
        who(&f);
        f.memory = memory;
        f.me.flags = BATON_OPEN_CACHE_LATER;
        f.me.progress = steps % 2 ? BATON_PROGRESS_THREAD : BATON_PROGRESS_CALLER;
        int rc = baton_open(MPI_COMM_WORLD, &f.me, &f.b);
        bool is_open = rc == 0;
        rc = is_open ? baton_start(f.b) : rc;
        if (rc == 0) {
            CHECK_EQ(wrap_as(&f, BATON_MEMORY_HOST), 0);
            rc = await_ready(&f, 20000);
        }
        snprintf(sentence, sizeof sentence, "%s", baton_errmsg());
        if (rc != 0 && is_open) { /* the verbs say why */
            CHECK_EQ(baton_cancel(f.b, 1), BATON_ESTATE);
            CHECK_HAS(baton_errmsg(), sentence);
            CHECK_EQ(baton_start(f.b), BATON_ESTATE);
            CHECK_HAS(baton_errmsg(), sentence);
        }
        if (is_open)
            CHECK_EQ(baton_close(f.b), 0);
        if (rc != 0)
            CHECK_HAS(sentence, failing);
        MPI_Allreduce(&rc, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&rc, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        CHECK_EQ(most, least);
        good = rc == 0;
    }
    CHECK(good && steps > 10); /* past the last step nothing fails */
    tune("fail_step", NULL);
    tune("fail_rank", NULL);
}

static void start_and_close_without_caches(void)
{
    struct fixture f;
    up_late(&f, BATON_PROGRESS_THREAD, true);
    start(&f);
    CHECK_EQ(baton_close(f.b), 0);
    up_late(&f, BATON_PROGRESS_CALLER, harness.rank == 0);
    start(&f);
    CHECK_EQ(baton_close(f.b), 0);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(every_kind_moves_every_byte);
    RUN(regions_of_several_kinds);
    RUN(many_regions);
    RUN(more_regions_than_windows);
    RUN(staging_waits_while_turns_are_lent);
    RUN(regions_outside_of_windows);
    RUN(memory_that_cannot_be_written);
    RUN(wrapped_beside_allocated);
    RUN(bad_regions_are_refused);
    RUN(an_engine_that_lacks_heads);
    RUN(one_that_closes_before_start);
    RUN(caches_may_come_late);
    RUN(memory_in_use_while_others_are_late);
    RUN(another_thread_asks);
    RUN(another_thread_asks_and_may_not_call_mpi);
    RUN(another_thread_lends_itself_meanwhile);
    RUN(a_cache_that_does_not_come);
    RUN(ranks_that_come_one_after_the_other);
    RUN(rank_0_that_is_silent);
    RUN(one_that_closes_instead);
    RUN(rank_0_says_who_is_missing);
    RUN(one_that_leaves_the_others_waiting);
    RUN(one_that_closes_long_before_the_others);
    RUN(several_threads_ask);
    RUN(one_that_comes_at_the_last_moment);
    RUN(a_step_that_fails_on_one_rank_fails_on_all);
    RUN(start_and_close_without_caches);
    return harness_end();
}
