/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * print_cost: measures one decode rank's plan: it chooses sources among the ranks of the whole engine, as the library
 * does, and compiles the programs for each. The caches of its peers are made before the clock starts, since a rank
 * would read them from their cards.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "print.h"

#define TIMES 21 /* the median of these is printed */

struct cost {
    const struct exchange *exchange;
    uint32_t rank;
    const struct pair *pairs; /* the rank's */
    uint32_t num_pairs, num_parts;
    struct cache own, *caches;  /* of the pairs' producers */
    struct plan_box *boxes;     /* of all pairs, one pair after the other */
    struct plan_source *chosen; /* room for as many */
    uint64_t sources_ns[TIMES], compile_ns[TIMES], total_ns[TIMES];
    size_t footprint, footprint_most;
};

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* In milliseconds. Sorts, so that v[0] is the least. */
static double median(uint64_t *v)
{
    qsort(v, TIMES, sizeof *v, by_size);
    const uint64_t middle = v[TIMES / 2];
    return (double)middle / 1e6;
}

/* Before the clock starts. Call cost_fini in any case. */
static int cost_init(struct cost *c, const struct exchange *x, uint32_t rank, struct why *why)
{
    const uint32_t first = x->first_pair[rank];
    *c = (struct cost){
        .exchange = x, .rank = rank, .pairs = &x->pairs[first], .num_pairs = x->first_pair[rank + 1] - first};
    for (uint32_t i = 0; i < c->num_pairs; i++)
        c->num_parts += c->pairs[i].num_parts;
    c->caches = calloc((size_t)c->num_pairs + 1, sizeof *c->caches);
    c->boxes = calloc((size_t)c->num_parts + 1, sizeof *c->boxes);
    c->chosen = calloc((size_t)c->num_parts + 1, sizeof *c->chosen);
    if (c->caches == NULL || c->boxes == NULL || c->chosen == NULL)
        return why_set(why, "no memory for peers");
    for (uint32_t i = 0; i < c->num_parts; i++)
        c->boxes[i] = x->parts[c->pairs[0].first_part + i].box;
    int rc = engine_cache(x->decode, rank, &c->own, why);
    for (uint32_t i = 0; rc == 0 && i < c->num_pairs; i++)
        rc = engine_cache(x->prefill, c->pairs[i].producer, &c->caches[i], why);
    return rc;
}

static void cost_fini(struct cost *c)
{
    for (uint32_t i = 0; c->caches != NULL && i < c->num_pairs; i++)
        cache_fini(&c->caches[i]);
    cache_fini(&c->own);
    free(c->caches);
    free(c->boxes);
    free(c->chosen);
}

static int measure(struct cost *c, unsigned time, struct why *why)
{
    const struct engine *prefill = c->exchange->prefill, *decode = c->exchange->decode;
    struct plan_why reason = {"no memory"};
    const struct plan_box *boxes = c->boxes;
    const uint64_t begin = clock_now_ns();
    int rc = plan_sources(&decode->members[c->rank], c->rank, prefill->source.size.engines - 1, prefill->members,
                          prefill->num_ranks, c->chosen, c->num_parts, &reason);
    const uint64_t between = clock_now_ns();
    c->footprint = c->footprint_most = 0;
    for (uint32_t i = 0; rc >= 0 && i < c->num_pairs; boxes += c->pairs[i++].num_parts) {
        const baton_geometry_t *from = c->caches[i].geometry, *to = c->own.geometry;
        struct plan *plan;
        rc = geometry_match(from, to, &reason);
        if (rc == 0)
            rc = plan_compile(from, to, boxes, c->pairs[i].num_parts, &plan, &reason);
        if (rc != 0)
            break;
        size_t bytes = plan_footprint(plan);
        c->footprint += bytes;
        c->footprint_most = bytes > c->footprint_most ? bytes : c->footprint_most;
        plan_destroy(plan);
    }
    const uint64_t end = clock_now_ns();
    c->sources_ns[time] = between - begin;
    c->compile_ns[time] = end - between;
    c->total_ns[time] = end - begin;
    return rc >= 0 ? 0 : why_set(why, "%s rank %u: %s", decode->source.role, c->rank, reason.text);
}

int print_cost(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    const struct engine *prefill = x->prefill, *decode = x->decode;
    struct cost c;
    int rc = cost_init(&c, x, q->rank != QUERY_ALL ? q->rank : 0, why);
    for (unsigned i = 0; rc == 0 && i < TIMES; i++)
        rc = measure(&c, i, why);
    if (rc == 0) {
        uint64_t world = (uint64_t)prefill->source.size.engines * prefill->num_ranks +
                         (uint64_t)decode->source.size.engines * decode->num_ranks;
        fprintf(out, "world                    %" PRIu64 " ranks\n", world);
        fprintf(out, "decode rank              %u, against an engine of %u ranks\n", c.rank, prefill->num_ranks);
        fprintf(out, "peers                    %u\n", c.num_pairs);
        const double total_ms = median(c.total_ns);
        fprintf(out, "time of its plan         %.3f ms (median of %d; least %.3f)\n", total_ms, TIMES,
                (double)c.total_ns[0] / 1e6);
        fprintf(out, "  who serves what        %.3f ms\n", median(c.sources_ns));
        fprintf(out, "  copy programs          %.3f ms\n", median(c.compile_ns));
        fprintf(out, "memory of its plan       %zu bytes; of a peer at most %zu\n", c.footprint, c.footprint_most);
    }
    cost_fini(&c);
    return rc;
}
