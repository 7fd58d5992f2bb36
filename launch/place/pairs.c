/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs: see pairs.h. */
#include "place/pairs.h"

const char *pairs_side_name(enum job_side side)
{
    return side == JOB_PREFILL ? "prefill" : "decode";
}

static uint32_t first_rank(const struct pairs *p, enum job_side side, uint32_t engine)
{
    return flows_first_rank(p->source->sizes, side, engine);
}

static uint32_t ranks_of(const struct pairs *p, enum job_side side)
{
    return engine_size_ranks(&p->source->sizes[side]);
}

static bool share_a_node(const struct pairs *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < ranks_of(p, JOB_PREFILL); i++)
        for (uint32_t k = 0; k < ranks_of(p, JOB_DECODE); k++)
            if (p->places[from + i].node == p->places[to + k].node)
                return true;
    return false;
}

/* 0; -1: no memory. */
static int find_distance(const struct pairs *p, uint32_t prefill, uint32_t decode, double *out)
{
    uint32_t from = first_rank(p, JOB_PREFILL, prefill), to = first_rank(p, JOB_DECODE, decode);
    const struct serve *serve = p->source->serve;
    const struct exchange *x = serve->exchange;
    bool near = serve->has_replicas && share_a_node(p, from, to);
    double cost = 0, bytes = 0;
    struct why why;
    if (near && flows_between(p->source, p->places, prefill, decode, &why) != 0)
        return -1;
    for (uint32_t i = 0; i < (near ? serve->num_flows : x->num_pairs); i++) {
        struct serve_flow f =
            near ? serve->flows[i]
                 : (struct serve_flow){x->pairs[i].producer, x->pairs[i].consumer, x->pairs[i].moves.bytes};
        bytes += (double)f.bytes;
        cost += (double)f.bytes *
                cluster_distance(&p->world->cluster, p->seat_of[from + f.producer], p->seat_of[to + f.consumer]);
    }
    *out = bytes > 0 ? cost / bytes : 0;
    return 0;
}

int pairs_find(const struct pairs *p, enum job_side side, uint32_t engine, struct pairs_near *near, uint32_t most)
{
    uint32_t num = 0;
    for (uint32_t k = 0; k < p->source->sizes[!side].engines; k++) {
        struct pairs_near here = {.engine = k};
        if (find_distance(p, side == JOB_PREFILL ? engine : k, side == JOB_PREFILL ? k : engine, &here.distance) != 0)
            return -1;
        if (num == most && here.distance >= near[num - 1].distance)
            continue;
        uint32_t at = num < most ? num++ : num - 1;
        for (; at > 0 && near[at - 1].distance > here.distance; at--)
            near[at] = near[at - 1];
        near[at] = here;
    }
    return (int)num;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Each host once; an engine's ranks on one host need not follow each other. No name needs escapes: allocation.h. */
static void write_hosts(const struct pairs *p, enum job_side side, uint32_t engine, FILE *out)
{
    uint32_t first = first_rank(p, side, engine), num = ranks_of(p, side);
    const struct cluster *c = &p->world->cluster;
    for (uint32_t r = first; r < first + num; r++)
        if (cluster_is_new_node(c, p->seat_of, first, r))
            fprintf(out, "%s\"%s\"", r > first ? ", " : "", p->world->nodes[cluster_node(c, p->seat_of[r])].host);
}

static int write_engine(const struct pairs *p, enum job_side side, uint32_t engine, FILE *out)
{
    struct pairs_near near[PAIRS_WRITTEN_MAX];
    int num = pairs_find(p, side, engine, near, PAIRS_WRITTEN_MAX);
    fprintf(out, "\"%s%u\": {\"hosts\": [", pairs_side_name(side), engine);
    write_hosts(p, side, engine, out);
    fprintf(out, "], \"%s\": [", pairs_side_name(!side));
    for (int k = 0; k < num; k++)
        fprintf(out, "%s{\"engine\": \"%s%u\", \"distance\": %g}", k > 0 ? ", " : "", pairs_side_name(!side),
                near[k].engine, near[k].distance);
    fputs("]}", out);
    return num < 0 ? -1 : 0;
}

int pairs_write(const struct pairs *p, FILE *out)
{
    fputc('{', out);
    for (uint32_t side = 0; side < JOB_SIDES; side++)
        for (uint32_t i = 0; i < p->source->sizes[side].engines; i++) {
            fputs(side + i > 0 ? ",\n " : "", out);
            if (write_engine(p, (enum job_side)side, i, out) != 0)
                return -1;
        }
    fputs("}\n", out);
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}
