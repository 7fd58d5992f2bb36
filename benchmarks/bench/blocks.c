/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks: a word of a pattern is a mix of its entry's number and its place in it. So words of different entries differ,
   and so do words of different places. */
#include "bench/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/settings.h"
#include "bench/fail.h"

#define POISON 0xa5
#define WORD sizeof(uint64_t)
#define PAGE_BYTES UINT64_C(4096)
#define LAYERS_MOST 4096u /* and heads: so that no two entries have one number */

void blocks_describe(struct blocks *c, const struct blocks_form *f)
{
    *c = (struct blocks){.tensors = room(f->layer_count, sizeof *c->tensors)};
    c->geometry = (baton_geometry_t){
        .size = sizeof(baton_geometry_t),
        .model = "baton-bench",
        .dtype = "bf16",
        .elem_bytes = BLOCKS_ELEM_BYTES,
        .planes = f->planes,
        .head_size = f->head_size,
        .num_groups = 1,
        .groups = {{.block_tokens = BLOCKS_TOKENS, .num_blocks = f->num_blocks}},
        .num_splits = 1,
        .splits = {{.heads_total = f->heads, .head_first = f->head_first, .head_count = f->head_count}},
        .layers_total = f->layers,
        .layer_first = f->layer_first,
        .layer_count = f->layer_count};
    fail_on(baton_geometry_layout(&c->geometry, c->tensors, f->layout), "baton_geometry_layout");
}

void blocks_describe_plain(struct blocks *c, uint32_t num_layers, uint64_t block_bytes, uint32_t num_blocks)
{
    blocks_describe(c, &(struct blocks_form){.num_blocks = num_blocks,
                                             .planes = 1,
                                             .head_size = (uint32_t)(block_bytes / BLOCKS_TOKENS / BLOCKS_ELEM_BYTES),
                                             .heads = 1,
                                             .head_count = 1,
                                             .layers = num_layers,
                                             .layer_count = num_layers,
                                             .layout = BATON_LAYOUT_HND});
    for (uint32_t i = 0; i < num_layers; i++)
        if (c->tensors[i].offset != (uint64_t)i * num_blocks * block_bytes ||
            c->tensors[i].stride.block != (int64_t)block_bytes)
            fail("a block of one head and plane is not contiguous in the usual layout");
}

void blocks_fini(struct blocks *c)
{
    free(c->tensors);
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/** An entry of a block. */
struct entry {
    uint32_t tensor, plane, head, token;
    char *at;
    uint64_t number; /* of its pattern, in block `as` */
};

/* Goes on to the next entry; the first one follows a struct of zeros. False: there is none. */
static bool next_entry(const struct blocks *c, uint32_t block, uint64_t as, struct entry *e)
{
    const baton_geometry_t *g = &c->geometry;
    const uint32_t heads = g->splits[0].head_count;
    if (e->at != NULL && ++e->token == BLOCKS_TOKENS) {
        e->token = 0;
        if (++e->head == heads) {
            e->head = 0;
            if (++e->plane == g->planes) {
                e->plane = 0;
                e->tensor++;
            }
        }
    }
    if (e->tensor == g->num_tensors)
        return false;
    const baton_tensor_t *t = &g->tensors[e->tensor];
    const bool second = e->tensor > 0 && t[-1].layer == t->layer; /* K and V may have a tensor each */
    char *base = c->bases != NULL ? c->bases[t->region] : c->base;
    e->at = base + t->offset + (int64_t)block * t->stride.block + e->plane * t->stride.plane +
            e->head * t->stride.head + e->token * t->stride.token;
    e->number = (as * LAYERS_MOST + t->layer) * 4 + 2 * second + e->plane;
    e->number = (e->number * LAYERS_MOST + g->splits[0].head_first + e->head) * BLOCKS_TOKENS + e->token;
    return true;
}

static uint64_t entry_bytes(const struct blocks *c)
{
    return (uint64_t)c->geometry.head_size * BLOCKS_ELEM_BYTES;
}

static uint64_t word_of(const struct entry *e, uint64_t place)
{
    return (e->number + 1) * UINT64_C(0x9e3779b97f4a7c15) + place * UINT64_C(0xd1b54a32d192ed03);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void blocks_fill(const struct blocks *c, uint64_t first)
{
    const uint64_t bytes = entry_bytes(c);
    for (uint32_t id = 0; id < c->geometry.groups[0].num_blocks; id++)
        for (struct entry e = {0}; next_entry(c, id, first + id, &e);)
            for (uint64_t at = 0; at < bytes; at += WORD) {
                const uint64_t word = word_of(&e, at / WORD);
                memcpy(e.at + at, &word, least(WORD, bytes - at));
            }
}

void blocks_poison(const struct blocks *c, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (struct entry e = {0}; next_entry(c, ids[i], 0, &e);)
            memset(e.at, POISON, entry_bytes(c));
}

/* The first wrong word of an entry, or `bytes`. */
static uint64_t wrong_at(const struct entry *e, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += WORD) {
        const uint64_t word = word_of(e, at / WORD);
        if (memcmp(e->at + at, &word, least(WORD, bytes - at)) != 0)
            return at;
    }
    return bytes;
}

bool blocks_check(const struct blocks *c, uint64_t first, const uint32_t *from, const uint32_t *to, uint32_t count,
                  bool glance, const char *request)
{
    const uint64_t bytes = glance ? least(WORD, entry_bytes(c)) : entry_bytes(c);
    for (uint32_t i = 0; i < count; i++)
        for (struct entry e = {0}; next_entry(c, to[i], first + from[i], &e);) {
            const uint64_t at = wrong_at(&e, bytes);
            if (at < bytes) {
                fprintf(stderr,
                        "baton-bench: wrong data: request %s, block %" PRIu32 " of %" PRIu32 " (from %" PRIu32
                        " into %" PRIu32 "), tensor %" PRIu32 ", plane %" PRIu32 ", head %" PRIu32 ", token %" PRIu32
                        ", from byte %" PRIu64 " on\n",
                        request, i, count, from[i], to[i], e.tensor, e.plane, e.head, e.token, at);
                return false;
            }
            if (glance)
                break;
        }
    return true;
}

/* ---- size -------------------------------------------------------------------------------------------------------- */

uint64_t blocks_l3_bytes(void)
{
    char text[32] = "";
    uint64_t bytes = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file) {
        if (fgets(text, sizeof text, file))
            text[strcspn(text, "\n")] = '\0';
        fclose(file);
    }
    if (settings_number(text, &bytes) == 0)
        return bytes;
    long told = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return told > 0 ? (uint64_t)told : 0;
}

uint64_t blocks_pool_bytes(const struct options *o, uint64_t least)
{
    const uint64_t caches = 4 * blocks_l3_bytes();
    return o->pool ? o->pool : least > caches ? least : caches;
}

uint32_t blocks_pool_blocks(const struct options *o, uint64_t least, uint64_t block_bytes)
{
    const uint64_t given = blocks_pool_bytes(o, least) / block_bytes, batches = 2 * option_list_most(&o->batch);
    const uint64_t blocks = given > batches ? given : batches;
    if (blocks > UINT32_MAX)
        fail("a pool of %" PRIu64 " blocks is too large", blocks);
    return (uint32_t)blocks;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

const char *own_name(enum own_kind kind)
{
    static const char *const names[OWN_KINDS] = {"slab", "private", "mapped"};
    return names[kind];
}

/* A page that nobody may touch lies behind each region: no two regions touch each other. */
static void *reserve(uint64_t bytes)
{
    return mmap(NULL, bytes + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *map_region(struct own *o, uint32_t i)
{
    void *at = reserve(o->bytes[i]);
    if (at == MAP_FAILED)
        return at;
    if (o->kind == OWN_PRIVATE)
        return mmap(at, o->bytes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    o->files[i] = memfd_create("baton-bench", MFD_CLOEXEC);
    if (o->files[i] < 0 || ftruncate(o->files[i], (off_t)o->bytes[i]) != 0)
        return MAP_FAILED;
    return mmap(at, o->bytes[i], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, o->files[i], 0);
}

void own_create(struct own *o, enum own_kind kind, uint32_t num, uint64_t bytes)
{
    *o = (struct own){.kind = kind};
    if (kind == OWN_SLAB)
        return;
    o->bases = room(num, sizeof *o->bases);
    o->bytes = room(num, sizeof *o->bytes);
    o->files = room(num, sizeof *o->files);
    for (; o->num < num; o->num++) {
        o->bytes[o->num] = bytes;
        o->files[o->num] = -1;
        o->bases[o->num] = map_region(o, o->num);
        if (o->bases[o->num] == MAP_FAILED)
            fail("cannot map region %" PRIu32 " of %" PRIu64 " bytes: %s", o->num, bytes, strerror(errno));
        memset(o->bases[o->num], 0, bytes);
    }
}

void own_destroy(struct own *o)
{
    for (uint32_t i = 0; i < o->num; i++) {
        munmap(o->bases[i], o->bytes[i] + PAGE_BYTES);
        if (o->files[i] >= 0)
            close(o->files[i]);
    }
    free(o->bases);
    free(o->bytes);
    free(o->files);
    *o = (struct own){0};
}

void own_wrap(const struct own *o, baton_t *b, const baton_geometry_t *geometry, baton_cache_t **out)
{
    baton_region_t *regions = room(o->num, sizeof *regions);
    for (uint32_t i = 0; i < o->num; i++)
        regions[i] = (baton_region_t){.size = sizeof regions[i],
                                      .base = o->bases[i],
                                      .bytes = o->bytes[i],
                                      .kind = o->kind == OWN_MAPPED ? BATON_MEMORY_SHARED : BATON_MEMORY_HOST};
    fail_on(baton_cache_wrap(b, geometry, regions, o->num, out), "baton_cache_wrap");
    free(regions);
}
