/* SPDX-License-Identifier: BSD-3-Clause */
/* flows: see flows.h. */
#include "place/flows.h"

#include <stdlib.h>

#include "launch/plan/grow.h"

static const char no_memory[] = "no memory for the flows between ranks";

struct list {
    struct job_pair *pairs;
    uint32_t num, room;
};

static int add(struct list *l, uint32_t a, uint32_t b, double bytes)
{
    struct job_pair *pairs = grow(l->pairs, l->num, &l->room, sizeof *pairs);
    if (pairs == NULL)
        return -1;
    l->pairs = pairs;
    if (bytes > 0)
        l->pairs[l->num++] = (struct job_pair){a, b, bytes};
    return 0;
}

/*
 * What the i-th of n and the k-th of m equal shares of all requests have in common; 0: nothing. It counts in units of
 * 1 / (n m), so that shares which only touch have nothing in common.
 */
static double share_of(uint32_t i, uint32_t n, uint32_t k, uint32_t m)
{
    uint64_t first = (uint64_t)i * m, end = first + m, from = (uint64_t)k * n, to = from + n;
    first = first > from ? first : from;
    end = end < to ? end : to;
    return end > first ? (double)(end - first) / ((double)n * m) : 0;
}

uint32_t flows_first_rank(const struct engine_size *sizes, enum job_side side, uint32_t engine)
{
    return (side == JOB_DECODE ? sizes[JOB_PREFILL].engines * engine_size_ranks(&sizes[JOB_PREFILL]) : 0) +
           engine * engine_size_ranks(&sizes[side]);
}

/* ---- between engines --------------------------------------------------------------------------------------------- */

int flows_between(const struct flows_source *s, const struct serve_place *places, uint32_t prefill, uint32_t decode,
                  struct why *why)
{
    const struct serve_place *from = NULL, *to = NULL;
    if (places != NULL) {
        from = &places[flows_first_rank(s->sizes, JOB_PREFILL, prefill)];
        to = &places[flows_first_rank(s->sizes, JOB_DECODE, decode)];
    }
    return serve_find(s->serve, from, to, plan_turn("decode0") + decode, why);
}

static int add_engine_pair(struct list *l, const struct flows_source *s, const struct serve_place *places,
                           uint32_t prefill, uint32_t decode, double share, struct why *why)
{
    uint32_t producer = flows_first_rank(s->sizes, JOB_PREFILL, prefill);
    uint32_t consumer = flows_first_rank(s->sizes, JOB_DECODE, decode);
    if (flows_between(s, places, prefill, decode, why) != 0)
        return -1;
    for (uint32_t i = 0; i < s->serve->num_flows; i++) {
        const struct serve_flow *f = &s->serve->flows[i];
        if (add(l, producer + f->producer, consumer + f->consumer, share * (double)f->bytes) != 0)
            return why_set(why, "%s", no_memory);
    }
    return 0;
}

static int add_transfers(struct list *l, const struct flows_source *s, const struct serve_place *places,
                         struct why *why)
{
    const struct engine_size *from = &s->sizes[JOB_PREFILL], *to = &s->sizes[JOB_DECODE];
    for (uint32_t k = 0; k < to->engines; k++) {
        uint32_t first = (uint32_t)((uint64_t)k * from->engines / to->engines);
        for (uint32_t i = first; i < from->engines; i++) {
            double share = share_of(i, from->engines, k, to->engines);
            if (share == 0)
                break;
            if (add_engine_pair(l, s, places, i, k, share, why) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- within engines ---------------------------------------------------------------------------------------------- */

/* Both directions of a ring go between the same two ranks where there are only two. */
static int add_engine(struct list *l, const struct engine_size *size, uint32_t first, const struct flows_load *load,
                      double tokens)
{
    uint32_t t = size->tp;
    double values = tokens * load->token_bytes * load->inside;
    double ring = 4.0 * (t - 1) / t * values * load->layers / size->pp;
    for (uint32_t stage = 0; stage < size->pp; stage++)
        for (uint32_t i = 0; i < t; i++) {
            uint32_t rank = first + stage * t + i;
            if ((t > 1 && add(l, rank, first + stage * t + (i + 1) % t, ring) != 0) ||
                (stage + 1 < size->pp && add(l, rank, rank + t, values) != 0))
                return -1;
        }
    return 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static uint32_t make_teams(const struct engine_size *sizes, struct job_team *teams)
{
    uint32_t n = 0, rank = 0;
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < sizes[side].engines * sizes[side].pp; i++, rank += sizes[side].tp)
            teams[n++] = (struct job_team){rank, sizes[side].tp, (enum job_side)side, i / sizes[side].pp};
    return n;
}

int flows_job(const struct flows_source *s, const struct serve_place *places, struct job *out, struct why *why)
{
    const struct engine_size *p = &s->sizes[JOB_PREFILL], *d = &s->sizes[JOB_DECODE];
    struct job_team *teams = calloc((size_t)p->engines * p->pp + (size_t)d->engines * d->pp + 1, sizeof *teams);
    struct list l = {0};
    *out = (struct job){0};
    why_set(why, "%s", no_memory);
    int rc = teams != NULL && (s->serve == NULL || add_transfers(&l, s, places, why) == 0) ? 0 : -1;
    for (uint32_t side = 0; rc == 0 && side < JOB_SIDES; side++)
        for (uint32_t i = 0; rc == 0 && i < s->sizes[side].engines; i++)
            rc = add_engine(&l, &s->sizes[side], flows_first_rank(s->sizes, (enum job_side)side, i), &s->load,
                            (double)s->load.tokens[side] / s->sizes[side].engines);
    if (rc == 0)
        rc = job_init(out, teams, make_teams(s->sizes, teams), l.pairs, l.num);
    free(teams);
    free(l.pairs);
    return rc;
}
