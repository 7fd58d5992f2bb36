/* SPDX-License-Identifier: BSD-3-Clause */
/* own: see the header. */
#include "bench/own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/fail.h"

#define PAGE_BYTES UINT64_C(4096)

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
    baton_memory_t memory = o->kind == OWN_MAPPED ? BATON_MEMORY_SHARED : BATON_MEMORY_HOST;
    fail_on(baton_cache_wrap(b, geometry, memory, o->bases, o->bytes, o->num, out), "baton_cache_wrap");
}
