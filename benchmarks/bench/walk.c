/* SPDX-License-Identifier: BSD-3-Clause */
/* walk: a Fisher-Yates shuffle, walked round and round. */
#include "bench/walk.h"

#include <stddef.h>
#include <sys/mman.h>

#include "bench/fail.h"
#include "replay/random.h"

void walk_init(struct walk *w, uint32_t num_blocks, uint64_t *seed)
{
    uint64_t random = random_next(seed);
    /* A shared mapping, since this table of the benchmark must not count as private memory of the library. */
    w->order =
        mmap(NULL, (size_t)num_blocks * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->order == MAP_FAILED)
        fail("out of memory for the order of %u blocks", num_blocks);
    w->num_blocks = num_blocks;
    for (uint32_t i = 0; i < num_blocks; i++) {
        uint32_t j = (uint32_t)(random_next(&random) % ((uint64_t)i + 1));
        w->order[i] = w->order[j];
        w->order[j] = i;
    }
}

void walk_fini(struct walk *w)
{
    if (w->order)
        munmap(w->order, (size_t)w->num_blocks * sizeof(uint32_t));
    *w = (struct walk){0};
}

void walk_draw(const struct walk *w, uint64_t start, uint32_t count, uint32_t *out)
{
    uint32_t at = (uint32_t)(start % w->num_blocks);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = w->order[at];
        at = at + 1 == w->num_blocks ? 0 : at + 1;
    }
}
