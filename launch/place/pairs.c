/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs: see pairs.h. */
#include "place/pairs.h"

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

uint32_t pairs_find(const struct pairs *p, enum job_side side, uint32_t engine, struct pairs_near *near, uint32_t most)
{
    uint32_t num = 0;
    for (uint32_t k = 0; k < p->sizes[!side].engines; k++) {
        struct pairs_near here = {k, side == JOB_PREFILL ? distance(p, engine, k) : distance(p, k, engine)};
        if (num == most && here.distance >= near[num - 1].distance)
            continue;
        uint32_t at = num < most ? num++ : num - 1;
        for (; at > 0 && near[at - 1].distance > here.distance; at--)
            near[at] = near[at - 1];
        near[at] = here;
    }
    return num;
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

static void write_engine(const struct pairs *p, enum job_side side, uint32_t engine, FILE *out)
{
    struct pairs_near near[PAIRS_WRITTEN_MAX];
    uint32_t num = pairs_find(p, side, engine, near, PAIRS_WRITTEN_MAX);
    fprintf(out, "\"%s%u\": {\"hosts\": [", pairs_side_name(side), engine);
    write_hosts(p, side, engine, out);
    fprintf(out, "], \"%s\": [", pairs_side_name(!side));
    for (uint32_t k = 0; k < num; k++)
        fprintf(out, "%s{\"engine\": \"%s%u\", \"distance\": %g}", k > 0 ? ", " : "", pairs_side_name(!side),
                near[k].engine, near[k].distance);
    fputs("]}", out);
}

int pairs_write(const struct pairs *p, FILE *out)
{
    fputc('{', out);
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < p->sizes[side].engines; i++) {
            fputs(side + i > 0 ? ",\n " : "", out);
            write_engine(p, (enum job_side)side, i, out);
        }
    fputs("}\n", out);
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}
