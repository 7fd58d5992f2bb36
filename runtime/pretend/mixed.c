/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed: one cache in regions of several kinds, side by side. What tensors lie apart is cut where the next one begins.
 * All of it is mapped from one file, as the device's is. Where a region is private, its whole pages are mapped anew as
 * private memory: then the region does not lie in the file alone, and other processes cannot map it.
 */
#include "pretend/pretend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

/* From a tensor's first byte to behind its last. */
struct extent {
    uint64_t begin, end;
};

static uint64_t step(uint32_t count, int64_t stride)
{
    return count > 0 ? (count - 1) * (uint64_t)stride : 0;
}

static struct extent extent_of(const baton_geometry_t *g, const baton_tensor_t *t)
{
    const baton_group_t *group = &g->groups[t->group];
    const uint32_t planes = t->planes > 0 ? t->planes : g->planes,
                   head_size = t->head_size > 0 ? t->head_size : g->head_size,
                   elem_bytes = t->elem_bytes > 0 ? t->elem_bytes : g->elem_bytes;
    const uint64_t bytes = step(group->num_blocks, t->stride.block) + step(planes, t->stride.plane) +
                           step(g->splits[t->split].head_count, t->stride.head) +
                           step(group->block_tokens, t->stride.token) + step(head_size, t->stride.channel) + elem_bytes;
    return (struct extent){t->offset, t->offset + bytes};
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Joins extents that overlap, and grows them until they cover all. Returns their number. */
static uint32_t join(struct extent *e, uint32_t num, uint64_t bytes)
{
    uint32_t n = 0;
    qsort(e, num, sizeof *e, by_begin);
    for (uint32_t i = 0; i < num; i++) {
        if (n > 0 && e[i].begin < e[n - 1].end)
            e[n - 1].end = e[i].end > e[n - 1].end ? e[i].end : e[n - 1].end;
        else
            e[n++] = e[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        e[i].begin = i > 0 ? e[i].begin : 0;
        e[i].end = i + 1 < n ? e[i + 1].begin : bytes;
    }
    return n;
}

static int make_private(void *base, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)base + page - 1) & ~(page - 1), end = ((uintptr_t)base + bytes) & ~(page - 1);
    if (begin >= end || mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        return 0;
    return error_set(BATON_ENOMEM, "no private memory for a region (PRETEND_MEMORY): %s", strerror(errno));
}

static int add(struct pretend *p, const struct extent *e, enum pretend_kind kind)
{
    void *const base = (uint8_t *)p->base + e->begin, *const device = (uint8_t *)p->wrapped + e->begin;
    p->regions[p->num_regions++] =
        (baton_region_t){.size = sizeof *p->regions,
                         .base = kind == PRETEND_DEVICE ? device : base,
                         .bytes = e->end - e->begin,
                         .kind = kind == PRETEND_DEVICE ? BATON_MEMORY_DEVICE : BATON_MEMORY_HOST};
    return kind == PRETEND_PRIVATE ? make_private(base, e->end - e->begin) : 0;
}

static void place(baton_tensor_t *t, const struct extent *e, uint32_t num)
{
    uint32_t i = 0;
    while (i + 1 < num && e[i].end <= t->offset)
        i++;
    t->region = i;
    t->offset -= e[i].begin;
}

int pretend_mix(struct pretend *p, baton_geometry_t *g, unsigned first)
{
    baton_tensor_t *tensors = (baton_tensor_t *)g->tensors;
    struct extent *e = calloc(g->num_tensors, sizeof *e);
    p->regions = calloc(g->num_tensors, sizeof *p->regions);
    int rc = e != NULL && p->regions != NULL ? 0 : error_set(BATON_ENOMEM, "no memory for regions (PRETEND_MEMORY)");
    for (uint32_t i = 0; i < g->num_tensors && rc == 0; i++)
        e[i] = extent_of(g, &tensors[i]);
    const uint32_t num = rc == 0 ? join(e, g->num_tensors, g->bytes) : 0;
    for (uint32_t i = 0; i < num && rc == 0; i++)
        rc = add(p, &e[i], PRETEND_PRIVATE + (first + i) % 3);
    for (uint32_t i = 0; i < g->num_tensors && rc == 0; i++)
        place(&tensors[i], e, num);
    free(e);
    return rc;
}
