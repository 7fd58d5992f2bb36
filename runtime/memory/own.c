/* SPDX-License-Identifier: BSD-3-Clause */
/* own: see own.h. */
#include "memory/own.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "memory/maps.h"

/* A region as the engine declared it, and where it lies. */
struct given {
    uint32_t number;
    struct wire_region region;
};

struct finding {
    const struct memory_wish *wish;
    struct given *given; /* by address */
    struct memory_own *own;
    struct maps_range *ranges;
    int num_ranges;
    struct maps_files files;
};

static int by_address(const void *a, const void *b)
{
    const struct given *x = a, *y = b;
    return x->region.address < y->region.address ? -1 : x->region.address > y->region.address;
}

static uint64_t end_of(const struct wire_region *r)
{
    return r->address + r->bytes;
}

/* ---- what was declared ------------------------------------------------------------------------------------------- */

static int take_regions(struct finding *f)
{
    const struct memory_wish *w = f->wish;
    for (uint32_t i = 0; i < w->num_regions; i++) {
        const baton_region_t *r = &w->regions[i];
        uint64_t address = (uint64_t)(uintptr_t)r->base;
        if (r->base == NULL || r->bytes == 0 || r->bytes > UINT64_MAX - address)
            return error_set(BATON_EINVAL, "region %" PRIu32 " has no memory: %" PRIu64 " bytes from %p", i, r->bytes,
                             r->base);
        f->given[i] = (struct given){.number = i,
                                     .region = {.address = address,
                                                .bytes = r->bytes,
                                                .descriptor = WIRE_NO_FILE,
                                                .memory = r->kind,
                                                .ordinal = r->device}};
    }
    qsort(f->given, w->num_regions, sizeof *f->given, by_address);
    for (uint32_t i = 1; i < w->num_regions; i++)
        if (end_of(&f->given[i - 1].region) > f->given[i].region.address)
            return error_set(BATON_EINVAL, "regions %" PRIu32 " and %" PRIu32 " overlap", f->given[i - 1].number,
                             f->given[i].number);
    return 0;
}

/* ---- where they lie ---------------------------------------------------------------------------------------------- */

/* The file of a range. NULL: it cannot be opened. */
static const struct memory_file *file_of(struct finding *f, const struct maps_range *range)
{
    struct memory_own *m = f->own;
    for (uint32_t i = m->num_files; i > 0; i--) /* neighbours lie in one file most often */
        if (m->files[i - 1].device == range->device && m->files[i - 1].inode == range->inode)
            return &m->files[i - 1];
    int descriptor = maps_open(&f->files, range);
    if (descriptor < 0)
        return NULL;
    m->files[m->num_files] = (struct memory_file){range->device, range->inode, descriptor};
    return &m->files[m->num_files++];
}

/*
 * Finds the ranges that a region lies in, from f->ranges[*at] on. One file is told if the region lies in it alone,
 * without a break.
 */
static int find_region(struct finding *f, struct given *g, int *at)
{
    struct wire_region *r = &g->region;
    const struct memory_file *file = NULL;
    const struct maps_range *first = NULL;
    bool is_whole = true;
    uint64_t reached = r->address;
    while (*at < f->num_ranges && f->ranges[*at].end <= r->address)
        ++*at;
    for (int i = *at; i < f->num_ranges && f->ranges[i].begin <= reached && reached < end_of(r); i++) {
        const struct maps_range *x = &f->ranges[i];
        if (!x->is_readable)
            break;
        f->own->is_writable &= x->is_writable;
        first = first == NULL ? x : first;
        is_whole &= x->is_shared && x->inode != 0 && x->device == first->device && x->inode == first->inode &&
                    x->offset - first->offset == x->begin - first->begin;
        reached = x->end;
    }
    if (first == NULL || reached < end_of(r))
        return error_set(BATON_EINVAL, "region %" PRIu32 " of %" PRIu64 " bytes from %p is not mapped, or not readable",
                         g->number, r->bytes, (void *)(uintptr_t)r->address);
    if (is_whole)
        file = file_of(f, first);
    if (file == NULL)
        return r->memory != BATON_MEMORY_SHARED
                   ? 0
                   : error_set(BATON_EINVAL,
                               "region %" PRIu32 " is not memory that other processes can map: use memfd_create or a "
                               "file in /dev/shm, mapped MAP_SHARED, and keep its descriptor open until the cache is "
                               "declared; or declare BATON_MEMORY_HOST",
                               g->number);
    r->descriptor = (uint32_t)file->descriptor;
    r->device = file->device;
    r->inode = file->inode;
    r->offset = first->offset + (r->address - first->begin);
    return 0;
}

/* Of a device's memory the kernel need not know. */
static int find_regions(struct finding *f)
{
    const uint32_t num = f->wish->num_regions;
    uint64_t begin = UINT64_MAX, end = 0;
    int at = 0, rc = 0;
    for (uint32_t i = 0; i < num; i++) {
        const struct wire_region *r = &f->given[i].region;
        if (wire_region_is_device(r))
            continue;
        begin = r->address < begin ? r->address : begin;
        end = end_of(r);
    }
    f->num_ranges = begin < end ? maps_read(begin, end, &f->ranges) : 0;
    if (f->num_ranges < 0)
        return f->num_ranges;
    for (uint32_t i = 0; i < num && rc == 0; i++)
        if (!wire_region_is_device(&f->given[i].region))
            rc = find_region(f, &f->given[i], &at);
    return rc;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool touch(const struct wire_region *a, const struct wire_region *b)
{
    bool is_one_file =
        a->descriptor == b->descriptor && (a->descriptor == WIRE_NO_FILE || a->offset + a->bytes == b->offset);
    bool is_one_kind = a->memory == b->memory && a->ordinal == b->ordinal;
    return end_of(a) == b->address && is_one_file && is_one_kind;
}

/* Joins neighbours. Tensors then count from the joined region's base. */
static int join(struct finding *f, baton_tensor_t *tensors, uint32_t num_tensors)
{
    struct memory_own *m = f->own;
    struct path_region *places = (struct path_region *)m->all.region;
    uint32_t n = f->wish->num_regions;
    uint32_t *joined = calloc(n, sizeof *joined); /* by number: which joined region */
    if (joined == NULL)
        return error_set(BATON_ENOMEM, "no memory for %" PRIu32 " regions", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct wire_region *r = &f->given[i].region;
        if (m->num > 0 && touch(&m->regions[m->num - 1], r))
            m->regions[m->num - 1].bytes += r->bytes;
        else
            m->regions[m->num++] = *r;
        joined[f->given[i].number] = m->num - 1;
    }
    for (uint32_t i = 0; i < m->num; i++) {
        m->bases[i] = wire_region_is_device(&m->regions[i]) ? NULL : (char *)(uintptr_t)m->regions[i].address;
        places[i] =
            (struct path_region){m->regions[i].address, m->regions[i].bytes, wire_region_is_device(&m->regions[i])};
    }
    m->all.num = m->num;
    for (uint32_t i = 0; i < num_tensors; i++) {
        const void *base = f->wish->regions[tensors[i].region].base;
        tensors[i].region = joined[tensors[i].region];
        tensors[i].offset += (uint64_t)(uintptr_t)base - m->regions[tensors[i].region].address;
    }
    free(joined);
    return 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static struct memory_own *own_new(uint32_t num)
{
    struct memory_own *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->is_writable = true;
    m->regions = calloc(num, sizeof *m->regions);
    m->bases = calloc(num, sizeof *m->bases);
    m->files = calloc(num, sizeof *m->files);
    m->all = (struct path_regions){.is_wrapped = true, .region = calloc(num, sizeof *m->all.region)};
    if (m->all.region != NULL && m->regions != NULL && m->bases != NULL && m->files != NULL)
        return m;
    memory_own_destroy(m);
    return NULL;
}

int memory_own_create(const struct memory_wish *wish, baton_tensor_t *tensors, uint32_t num_tensors,
                      struct memory_own **out)
{
    struct finding f = {
        .wish = wish, .given = calloc(wish->num_regions, sizeof *f.given), .own = own_new(wish->num_regions)};
    int rc = f.given != NULL && f.own != NULL ? take_regions(&f) : error_set(BATON_ENOMEM, "no memory for the regions");
    if (rc == 0)
        rc = find_regions(&f);
    if (rc == 0)
        rc = join(&f, tensors, num_tensors);
    free(f.given);
    free(f.ranges);
    maps_files_fini(&f.files);
    if (rc != 0)
        memory_own_destroy(f.own);
    else
        *out = f.own;
    return rc;
}

void memory_own_settle(struct memory_own *m)
{
    for (uint32_t i = 0; i < m->num_files; i++)
        close(m->files[i].descriptor);
    m->num_files = 0;
}

void memory_own_destroy(struct memory_own *m)
{
    if (m == NULL)
        return;
    memory_own_settle(m);
    free(m->files);
    free((void *)m->all.region);
    free(m->bases);
    free(m->regions);
    free(m);
}

uint64_t memory_own_bytes(const struct memory_own *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->num; i++)
        bytes += m->regions[i].bytes;
    return bytes;
}

uint32_t memory_own_shared(const struct memory_own *m)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < m->num; i++)
        num += m->regions[i].descriptor != WIRE_NO_FILE;
    return num;
}

uint32_t memory_own_devices(const struct memory_own *m)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < m->num; i++)
        num += wire_region_is_device(&m->regions[i]);
    return num;
}
