/* SPDX-License-Identifier: BSD-3-Clause */
/* print_graph: an exchange in Graphviz's language: what each rank holds, and what goes between each pair. */
#include <inttypes.h>

#include "dot.h"
#include "print.h"

static void put_rank(FILE *out, const struct engine *e, uint32_t rank)
{
    const struct plan_member *m = &e->members[rank];
    fprintf(out, "%s%u [label=\"", e->source.role, rank);
    print_rank(out, e, rank);
    fprintf(out, "\\nnode %u", m->node);
    for (uint32_t i = 0; i < m->num_boxes; i++) {
        fputs("\\n", out);
        print_box(out, &m->box[i], m->num_boxes);
    }
    fputs("\"];\n", out);
}

static void begin_engine(FILE *out, const struct engine *e)
{
    fprintf(out, "subgraph cluster_%s {\nlabel=\"%s: tp %u, pp %u\";\n", e->source.role, e->source.role,
            e->source.size.tp, e->source.size.pp);
}

static void put_pair(FILE *out, const struct exchange *x, const struct pair *p)
{
    fprintf(out, "prefill%u -> decode%u [label=\"", p->producer, p->consumer);
    for (uint32_t i = 0; i < p->num_parts; i++) {
        print_box(out, &x->parts[p->first_part + i].box, x->decode->members[p->consumer].num_boxes);
        fputs("\\n", out);
    }
    fprintf(out, "%" PRIu64 " bytes in %" PRIu64 " run%s\"%s];\n", p->moves.bytes, p->moves.runs,
            p->moves.runs == 1 ? "" : "s", p->same_node ? "" : ", style=dashed");
}

/* One decode rank and those that it takes from, or all ranks. */
static void put_ranks(FILE *out, const struct exchange *x, uint32_t rank)
{
    const bool all = rank == QUERY_ALL;
    const uint32_t first = all ? 0 : rank, end = all ? x->decode->num_ranks : rank + 1;
    const uint32_t first_pair = x->first_pair[first], end_pair = x->first_pair[end];
    begin_engine(out, x->prefill);
    for (uint32_t i = 0; i < (all ? x->prefill->num_ranks : end_pair - first_pair); i++)
        put_rank(out, x->prefill, all ? i : x->pairs[first_pair + i].producer);
    fputs("}\n", out);
    begin_engine(out, x->decode);
    for (uint32_t i = first; i < end; i++)
        put_rank(out, x->decode, i);
    fputs("}\n", out);
    for (uint32_t i = first_pair; i < end_pair; i++)
        put_pair(out, x, &x->pairs[i]);
}

int print_graph(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    struct cache cache;
    if (engine_cache(x->decode, 0, &cache, why) != 0)
        return -1;
    dot_head(out, "plan");
    fputs("label=\"", out);
    dot_escaped(out, cache.geometry->model);
    fprintf(out, ": a request of %u tokens, %u of them held; solid: on one node, dashed: between nodes\";\n",
            x->request.tokens, x->request.held);
    cache_fini(&cache);
    put_ranks(out, x, q->rank);
    fputs("}\n", out);
    return 0;
}
