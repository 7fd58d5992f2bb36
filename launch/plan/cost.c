/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * print_cost: measures one decode rank's plan: it chooses sources among the ranks of the whole engine, as the library
 * does, and compiles the programs for each. The caches of its peers are made before the clock starts, since a rank
 * would read them from their cards.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "print.h"

#define TIMES 21 /* the median of these is printed */

struct peer {
    struct cache cache;
    struct plan_box *boxes;
    uint32_t num_boxes;
};

struct cost {
    const struct engine *prefill, *decode;
    uint32_t rank;
    struct cache own;
    struct plan_source *parts;
    uint32_t num_parts, num_peers;
    struct peer *peers;
    uint64_t sources_ns[TIMES], compile_ns[TIMES], total_ns[TIMES];
    size_t footprint, footprint_most;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, so that v[0] is the least. */
static uint64_t median(uint64_t *v)
{
    qsort(v, TIMES, sizeof *v, by_size);
    return v[TIMES / 2];
}

/* ---- before the clock starts ------------------------------------------------------------------------------------- */

static int gather(struct cost *c, struct why *why)
{
    int n = exchange_sources(c->prefill, c->decode, c->rank, &c->parts, why);
    if (n < 0 || engine_cache(c->decode, c->rank, &c->own, why) != 0)
        return -1;
    c->num_parts = (uint32_t)n;
    c->peers = calloc(c->num_parts + 1, sizeof *c->peers);
    if (c->peers == NULL)
        return why_set(why, "no memory for peers");
    for (uint32_t i = 0; i < c->num_parts; i++) {
        struct peer *p = &c->peers[c->num_peers];
        if (i > 0 && c->parts[i].member == c->parts[i - 1].member) {
            p[-1].boxes[p[-1].num_boxes++] = c->parts[i].box;
            continue;
        }
        c->num_peers++;
        p->boxes = malloc(c->num_parts * sizeof *p->boxes);
        if (p->boxes == NULL)
            return why_set(why, "no memory for peers");
        p->boxes[p->num_boxes++] = c->parts[i].box;
        if (engine_cache(c->prefill, c->parts[i].member, &p->cache, why) != 0)
            return -1;
    }
    return 0;
}

static void cost_fini(struct cost *c)
{
    for (uint32_t i = 0; i < c->num_peers; i++) {
        cache_fini(&c->peers[i].cache);
        free(c->peers[i].boxes);
    }
    free(c->peers);
    free(c->parts);
    cache_fini(&c->own);
}

/* ---- measured ---------------------------------------------------------------------------------------------------- */

static int measure(struct cost *c, unsigned time, struct why *why)
{
    struct plan_why reason = {"no memory"};
    const uint64_t begin = now_ns();
    int rc = plan_sources(&c->decode->members[c->rank], c->rank, c->prefill->source.size.engines - 1,
                          c->prefill->members, c->prefill->num_ranks, c->parts, c->num_parts, &reason);
    const uint64_t between = now_ns();
    c->footprint = c->footprint_most = 0;
    for (uint32_t i = 0; rc >= 0 && i < c->num_peers; i++) {
        struct plan *plan;
        const struct peer *p = &c->peers[i];
        rc = geometry_match(p->cache.geometry, c->own.geometry, &reason);
        if (rc == 0)
            rc = plan_compile(p->cache.geometry, c->own.geometry, p->boxes, p->num_boxes, &plan, &reason);
        if (rc != 0)
            break;
        size_t bytes = plan_footprint(plan);
        c->footprint += bytes;
        c->footprint_most = bytes > c->footprint_most ? bytes : c->footprint_most;
        plan_destroy(plan);
    }
    const uint64_t end = now_ns();
    c->sources_ns[time] = between - begin;
    c->compile_ns[time] = end - between;
    c->total_ns[time] = end - begin;
    return rc >= 0 ? 0 : why_set(why, "%s rank %u: %s", c->decode->source.role, c->rank, reason.text);
}

int print_cost(const struct query *q, const struct engine *prefill, const struct engine *decode, FILE *out,
               struct why *why)
{
    struct cost c = {.prefill = prefill, .decode = decode, .rank = q->rank != QUERY_ALL ? q->rank : 0};
    int rc = gather(&c, why);
    for (unsigned i = 0; rc == 0 && i < TIMES; i++)
        rc = measure(&c, i, why);
    if (rc == 0) {
        uint64_t world = (uint64_t)prefill->source.size.engines * prefill->num_ranks +
                         (uint64_t)decode->source.size.engines * decode->num_ranks;
        fprintf(out, "world                    %" PRIu64 " ranks\n", world);
        fprintf(out, "decode rank              %u, against an engine of %u ranks\n", c.rank, prefill->num_ranks);
        fprintf(out, "peers                    %u\n", c.num_peers);
        const double median_ms = (double)median(c.total_ns) / 1e6, least_ms = (double)c.total_ns[0] / 1e6;
        fprintf(out, "time of its plan         %.3f ms (median of %d; least %.3f)\n", median_ms, TIMES, least_ms);
        fprintf(out, "  who serves what        %.3f ms\n", (double)median(c.sources_ns) / 1e6);
        fprintf(out, "  copy programs          %.3f ms\n", (double)median(c.compile_ns) / 1e6);
        fprintf(out, "memory of its plan       %zu bytes; of a peer at most %zu\n", c.footprint, c.footprint_most);
    }
    cost_fini(&c);
    return rc;
}
