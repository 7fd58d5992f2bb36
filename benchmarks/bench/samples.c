/* SPDX-License-Identifier: BSD-3-Clause */
/* samples: a growing array and qsort. Nothing here runs while a clock runs. */
#include "bench/samples.h"

#include <math.h>
#include <stdlib.h>

int samples_add(struct samples *s, uint64_t ns)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        uint64_t *grown = realloc(s->ns, room * sizeof *grown);
        if (!grown)
            return -1;
        s->ns = grown;
        s->room = room;
    }
    s->ns[s->count++] = ns;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t samples_quantile(struct samples *s, double q)
{
    if (s->count == 0)
        return 0;
    qsort(s->ns, s->count, sizeof *s->ns, by_size);
    size_t rank = (size_t)ceil(q * (double)s->count);
    return s->ns[rank == 0 ? 0 : rank - 1];
}

void samples_fini(struct samples *s)
{
    free(s->ns);
    *s = (struct samples){0};
}
