/* SPDX-License-Identifier: BSD-3-Clause */
/* copies: see copies.h. */
#include "bench/copies.h"

#include <stdlib.h>

#include "base/clock.h"
#include "shm/copy.h"

#define PAGE_BYTES 4096

int copies_init(struct copies *c, const char *source, uint64_t bytes, char *target, uint32_t room)
{
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES)
        (void)*(const volatile char *)(source + at);
    *c = (struct copies){.source = source, .target = target, .runs = malloc(room * sizeof *c->runs)};
    return c->runs != NULL ? 0 : -1;
}

void copies_fini(struct copies *c)
{
    copies_reset(c);
    free(c->runs);
    *c = (struct copies){0};
}

void copies_reset(struct copies *c)
{
    samples_fini(&c->way[0]);
    samples_fini(&c->way[1]);
    c->turns = 0;
}

static void copy_part(void *arg, unsigned part, unsigned parts)
{
    const struct copies *c = arg;
    const char *const sources[] = {c->source};
    char *const targets[] = {c->target};
    const uint32_t from = (uint32_t)((uint64_t)c->count * part / parts),
                   to = (uint32_t)((uint64_t)c->count * (part + 1) / parts);
    if (to > from)
        copy_runs(c->turns % 2 == 0 ? COPY_MEMCPY : COPY_STREAM, c->runs + from, to - from, sources, targets);
}

int copies_measure(struct copies *c, struct crew *crew, uint32_t count)
{
    c->count = count;
    uint64_t begin = clock_now_ns(), ns = 0;
    if (crew != NULL && count > 1)
        ns = crew_run(crew, copy_part, c);
    else
        copy_part(c, 0, 1);
    return samples_add(&c->way[c->turns++ % 2], ns > 0 ? ns : clock_now_ns() - begin);
}

uint64_t copies_best_ns(struct copies *c, const char **way)
{
    uint64_t best = 0;
    *way = "none";
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t median = samples_quantile(&c->way[i], 0.5);
        if (median == 0 || (best > 0 && median >= best))
            continue;
        best = median;
        *way = i == 0 ? "memcpy" : "stream";
    }
    return best;
}
