/* SPDX-License-Identifier: BSD-3-Clause */
/* sieve: see the header. The runs that it is given were checked against the bounds of both pools. */
#include "mpi/sieve.h"

#include <stdlib.h>
#include <string.h>

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

bool sieve_pool_init(struct sieve_pool *pool, uint64_t bytes)
{
    pool->max = (uint32_t)(bytes / sizeof(struct sieve));
    pool->all = calloc(pool->max + 1, sizeof(struct sieve *)); /* never of size 0 */
    return pool->all != NULL;
}

void sieve_pool_fini(struct sieve_pool *pool)
{
    for (uint32_t i = 0; i < pool->num; i++)
        free(pool->all[i]);
    free(pool->all);
    *pool = (struct sieve_pool){0};
}

struct sieve *sieve_take(struct sieve_pool *pool)
{
    struct sieve *s = pool->free;
    if (s != NULL) {
        pool->free = s->next;
        return s;
    }
    if (pool->num < pool->max && (s = malloc(sizeof *s)) != NULL)
        pool->all[pool->num++] = s;
    return s;
}

void sieve_give_back(struct sieve_pool *pool, struct sieve *s)
{
    s->next = pool->free;
    pool->free = s;
}

/*
 * A span never reaches over an unmapped page between two regions of an engine's memory, since it bridges less than a
 * page.
 */
_Static_assert(SIEVE_GET_BYTES <= 4096, "no page is smaller");

/* ---- one sieve --------------------------------------------------------------------------------------------------- */

void sieve_begin(struct sieve *s, bool write, uint32_t most_spans, uint64_t most_bytes)
{
    s->write = write;
    s->num_runs = s->num_spans = s->last = 0;
    s->span_bytes = s->run_bytes = 0;
    s->most_spans = most_spans;
    s->most_bytes = most_bytes < SIEVE_BYTES ? most_bytes : SIEVE_BYTES;
}

/*
 * Whether the run joins the span by the cost rule. A span grows upwards only. When writing it has no gaps, since
 * nothing between runs may be overwritten.
 */
static bool joins(const struct sieve *s, const struct sieve_piece *run, const struct sieve_span *span)
{
    uint64_t at = run->theirs, between = at > span->end ? at - span->end : 0;
    bool follows = s->write ? at == span->end : at >= span->begin;
    return follows && between + run->bytes / 2 < SIEVE_GET_BYTES;
}

/*
 * The span that the run joins; num_spans: none. Neighbours in a plan most often lie in one span, or in neighbouring
 * ones.
 */
static uint32_t find_span(const struct sieve *s, const struct sieve_piece *run)
{
    uint32_t at = s->last;
    for (uint32_t i = 0; i < s->num_spans; i++, at = at + 1 == s->num_spans ? 0 : at + 1)
        if (joins(s, run, &s->span[at]))
            return at;
    return s->num_spans;
}

bool sieve_add(struct sieve *s, const struct sieve_piece *run)
{
    uint32_t at = find_span(s, run);
    bool is_new = at == s->num_spans;
    uint64_t begin = run->theirs, end = begin + run->bytes, old = is_new ? begin : s->span[at].end;
    uint64_t grown = end > old ? end - old : 0;
    if (s->num_runs == SIEVE_RUNS || at == s->most_spans || grown > s->most_bytes - s->span_bytes)
        return false;
    if (is_new)
        s->span[s->num_spans++] = (struct sieve_span){.begin = begin, .end = begin};
    s->span[at].end += grown;
    s->span_bytes += grown;
    s->run_bytes += run->bytes;
    s->last = at;
    s->run[s->num_runs++] = (struct sieve_run){
        .mine = run->mine, .at = begin - s->span[at].begin, .bytes = (uint32_t)run->bytes, .span = at};
    return true;
}

bool sieve_is_cheaper(const struct sieve *s)
{
    return s->span_bytes + s->run_bytes / 2 + (uint64_t)s->num_spans * SIEVE_GET_BYTES <
           s->run_bytes + (uint64_t)s->num_runs * SIEVE_GET_BYTES;
}

void sieve_lay_out(struct sieve *s)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->num_spans; i++) {
        s->span[i].at = at;
        at += s->span[i].end - s->span[i].begin;
    }
    for (uint32_t i = 0; i < s->num_runs; i++)
        s->run[i].at += s->span[s->run[i].span].at;
}

void sieve_fill(struct sieve *s)
{
    for (uint32_t i = 0; i < s->num_runs; i++)
        memcpy(s->bytes + s->run[i].at, s->run[i].mine, s->run[i].bytes);
}

void sieve_empty(const struct sieve *s)
{
    for (uint32_t i = 0; i < s->num_runs; i++)
        memcpy(s->run[i].mine, s->bytes + s->run[i].at, s->run[i].bytes);
}
