/* SPDX-License-Identifier: BSD-3-Clause */
/* job: see with_job.h. */
#include "with_job.h"

#include <stdlib.h>

#define LEVELS 6
#define BYTES 1e6 /* of all requests */

static const double costs[LEVELS] = {1, 1.2, 1.6, 2, 10, 20};

void shape_build(const struct shape *s, const uint32_t *capacity, struct cluster *c)
{
    uint32_t num = s->nodes * s->packages * s->numas * s->caches * s->seats;
    struct cluster_seat *seats = calloc(num, sizeof *seats);
    if (seats == NULL)
        abort();
    for (uint32_t i = 0; i < num; i++) {
        uint32_t at = i, *group = seats[i].group;
        at /= s->seats;
        group[CLUSTER_CACHE] = at % s->caches;
        at /= s->caches;
        group[CLUSTER_NUMA] = at % s->numas;
        at /= s->numas;
        group[CLUSTER_PACKAGE] = at % s->packages;
        group[CLUSTER_NODE] = at / s->packages;
        group[CLUSTER_NETWORK] = group[CLUSTER_NODE] / s->per_switch;
    }
    if (cluster_init(c, seats, num, LEVELS, capacity, costs) != 0)
        abort();
    free(seats);
}

struct pairs {
    struct job_pair *pair;
    uint32_t num, room;
};

static void add(struct pairs *p, uint32_t a, uint32_t b, double bytes)
{
    if (p->num == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->pair = realloc(p->pair, p->room * sizeof *p->pair);
        if (p->pair == NULL)
            abort();
    }
    p->pair[p->num++] = (struct job_pair){a, b, bytes};
}

/* What the i-th of n and the k-th of m equal shares of one have in common. */
static double common(uint32_t i, uint32_t n, uint32_t k, uint32_t m)
{
    double first = (double)i / n > (double)k / m ? (double)i / n : (double)k / m;
    double end = (i + 1.0) / n < (k + 1.0) / m ? (i + 1.0) / n : (k + 1.0) / m;
    return end - first > 1e-9 ? end - first : 0;
}

/* Place of a rank: its engine, stage and TP rank. */
struct place {
    uint32_t engine, stage, tp;
};

static struct place place_of(const struct engines *e, uint32_t rank)
{
    return (struct place){rank / (e->tp * e->pp), rank / e->tp % e->pp, rank % e->tp};
}

static void add_transfers(struct pairs *p, const struct engines *prefill, const struct engines *decode)
{
    uint32_t first = prefill->num * prefill->tp * prefill->pp, end = decode->num * decode->tp * decode->pp;
    for (uint32_t k = 0; k < end; k++) {
        struct place to = place_of(decode, k);
        uint32_t each = prefill->tp * prefill->pp, from = to.engine * prefill->num / decode->num;
        for (uint32_t i = from * each; i < first; i++) {
            struct place at = place_of(prefill, i);
            double share = common(at.engine, prefill->num, to.engine, decode->num);
            double bytes = BYTES * share * common(at.stage, prefill->pp, to.stage, decode->pp) *
                           common(at.tp, prefill->tp, to.tp, decode->tp);
            if (share == 0)
                break;
            if (bytes > 0)
                add(p, i, first + k, bytes);
        }
    }
}

void engines_build(const struct engines *prefill, const struct engines *decode, double inside, struct job *j)
{
    const struct engines *sides[JOB_SIDES] = {prefill, decode};
    struct job_team *teams = calloc(prefill->num * prefill->pp + decode->num * decode->pp, sizeof *teams);
    struct pairs pairs = {0};
    uint32_t rank = 0, num = 0;
    if (teams == NULL)
        abort();
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < sides[side]->num * sides[side]->pp; i++) {
            uint32_t tp = sides[side]->tp;
            teams[num++] = (struct job_team){rank, tp, (enum job_side)side, i / sides[side]->pp};
            for (uint32_t k = 0; tp > 1 && k < tp; k++)
                add(&pairs, rank + k, rank + (k + 1) % tp, inside * BYTES / sides[side]->num);
            rank += tp;
        }
    add_transfers(&pairs, prefill, decode);
    if (job_init(j, teams, num, pairs.pair, pairs.num) != 0)
        abort();
    free(pairs.pair);
    free(teams);
}
