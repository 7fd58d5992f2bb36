/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs: see pairs.h. */
#include "place/pairs.h"

#include <stdlib.h>

const char *pairs_side_name(enum job_side side)
{
    return side == JOB_PREFILL ? "prefill" : "decode";
}

static uint32_t first_rank(const struct pairs *p, enum job_side side, uint32_t engine)
{
    const struct engine_size *prefill = &p->sizes[JOB_PREFILL], *own = &p->sizes[side];
    return (side == JOB_DECODE ? prefill->engines * prefill->tp * prefill->pp : 0) + engine * own->tp * own->pp;
}

static double distance(const struct pairs *p, uint32_t prefill, uint32_t decode)
{
    uint32_t from = first_rank(p, JOB_PREFILL, prefill), to = first_rank(p, JOB_DECODE, decode);
    double cost = 0, bytes = 0;
    for (uint32_t i = 0; i < p->exchange->num_pairs; i++) {
        const struct pair *pair = &p->exchange->pairs[i];
        bytes += (double)pair->moves.bytes;
        cost += (double)pair->moves.bytes * cluster_distance(&p->world->cluster, p->seat_of[from + pair->producer],
                                                             p->seat_of[to + pair->consumer]);
    }
    return bytes > 0 ? cost / bytes : 0;
}

static int by_distance(const void *x, const void *y)
{
    const struct pairs_near *a = x, *b = y;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return a->engine < b->engine ? -1 : 1;
}

void pairs_find(const struct pairs *p, enum job_side side, uint32_t engine, struct pairs_near *near)
{
    uint32_t num = p->sizes[!side].engines;
    for (uint32_t k = 0; k < num; k++)
        near[k] = (struct pairs_near){k, side == JOB_PREFILL ? distance(p, engine, k) : distance(p, k, engine)};
    qsort(near, num, sizeof *near, by_distance);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Each host once; an engine's ranks on one host need not follow each other. Names of hosts need no escapes. */
static void write_hosts(const struct pairs *p, enum job_side side, uint32_t engine, FILE *out)
{
    uint32_t first = first_rank(p, side, engine), num = p->sizes[side].tp * p->sizes[side].pp;
    for (uint32_t i = 0; i < num; i++) {
        uint32_t node = cluster_node(&p->world->cluster, p->seat_of[first + i]), k = 0;
        while (k < i && cluster_node(&p->world->cluster, p->seat_of[first + k]) != node)
            k++;
        if (k == i)
            fprintf(out, "%s\"%s\"", i > 0 ? ", " : "", p->world->nodes[node].host);
    }
}

static void write_engine(const struct pairs *p, enum job_side side, uint32_t engine, struct pairs_near *near, FILE *out)
{
    fprintf(out, "\"%s%u\": {\"hosts\": [", pairs_side_name(side), engine);
    write_hosts(p, side, engine, out);
    fprintf(out, "], \"%s\": [", pairs_side_name(!side));
    pairs_find(p, side, engine, near);
    for (uint32_t k = 0; k < p->sizes[!side].engines && k < PAIRS_WRITTEN_MAX; k++)
        fprintf(out, "%s{\"engine\": \"%s%u\", \"distance\": %g}", k > 0 ? ", " : "", pairs_side_name(!side),
                near[k].engine, near[k].distance);
    fputs("]}", out);
}

int pairs_write(const struct pairs *p, FILE *out)
{
    const struct engine_size *prefill = &p->sizes[JOB_PREFILL], *decode = &p->sizes[JOB_DECODE];
    uint32_t most = prefill->engines > decode->engines ? prefill->engines : decode->engines;
    struct pairs_near *near = malloc(((size_t)most + 1) * sizeof *near);
    if (near == NULL)
        return -1;
    fputc('{', out);
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < p->sizes[side].engines; i++) {
            fputs(side + i > 0 ? ",\n " : "", out);
            write_engine(p, (enum job_side)side, i, near, out);
        }
    fputs("}\n", out);
    free(near);
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}
