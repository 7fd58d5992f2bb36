/* SPDX-License-Identifier: BSD-3-Clause */
/* memory: see memory.h. */
#include "engine/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *make_private(uint64_t bytes)
{
    return malloc(bytes);
}

static void drop_private(void *base, uint64_t bytes)
{
    (void)bytes;
    free(base);
}

static void *make_mapped(uint64_t bytes)
{
    void *base = MAP_FAILED;
    const int fd = memfd_create("baton-serve", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return base != MAP_FAILED ? base : NULL;
}

static void drop_mapped(void *base, uint64_t bytes)
{
    munmap(base, bytes);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
    baton_memory_t word;           /* what Baton is told */
    void *(*make)(uint64_t bytes); /* NULL where it cannot. Not set: Baton makes the memory */
    void (*drop)(void *base, uint64_t bytes);
} kinds[] = {
    [MEMORY_SLAB] = {.word = BATON_MEMORY_HOST},
    [MEMORY_PRIVATE] = {BATON_MEMORY_HOST, make_private, drop_private},
    [MEMORY_MAPPED] = {BATON_MEMORY_SHARED, make_mapped, drop_mapped},
};

const struct option_choice memory_choices[] = {
    {"slab", MEMORY_SLAB}, {"private", MEMORY_PRIVATE}, {"mapped", MEMORY_MAPPED}, {NULL, 0}};

bool memory_is_own(const struct memory *m)
{
    return kinds[m->kind].make != NULL;
}

baton_memory_t memory_word(const struct memory *m)
{
    return kinds[m->kind].word;
}

/* Tensors of such a layout have equal sizes. They lie one behind another, unless each block has all layers. */
static bool are_apart(const baton_geometry_t *g, const baton_tensor_t *tensors)
{
    return g->num_tensors == 1 || tensors[1].offset == g->bytes / g->num_tensors;
}

int memory_make(struct memory *m, const baton_geometry_t *geometry, baton_tensor_t *tensors)
{
    const bool apart = are_apart(geometry, tensors);
    const uint32_t count = apart ? geometry->num_tensors : 1;
    for (m->count = 0; m->count < count; m->count++) {
        m->regions[m->count] = (baton_region_t){.size = sizeof m->regions[0],
                                                .base = kinds[m->kind].make(geometry->bytes / count),
                                                .bytes = geometry->bytes / count,
                                                .kind = memory_word(m)};
        if (m->regions[m->count].base == NULL) {
            memory_drop(m);
            return -1;
        }
    }
    for (uint32_t t = 0; apart && t < geometry->num_tensors; t++) {
        tensors[t].region = t;
        tensors[t].offset = 0;
    }
    return 0;
}

void memory_drop(struct memory *m)
{
    while (m->count > 0) {
        m->count--;
        kinds[m->kind].drop(m->regions[m->count].base, m->regions[m->count].bytes);
    }
}
