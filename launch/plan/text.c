/* SPDX-License-Identifier: BSD-3-Clause */
/* print_text: an exchange for people. */
#include <inttypes.h>

#include "model/cut.h"
#include "print.h"

static void print_range(FILE *out, const char *what, uint32_t first, uint32_t count)
{
    if (count == 1)
        fprintf(out, "%s %u", what, first);
    else
        fprintf(out, "%ss %u-%u", what, first, first + count - 1);
}

void print_box(FILE *out, const struct plan_box *b, uint32_t num_splits)
{
    print_range(out, "layer", b->layer_first, b->layer_count);
    if (num_splits > 1)
        fprintf(out, ", split %u", b->split);
    print_range(out, ", head", b->head_first, b->head_count);
}

void print_rank(FILE *out, const struct engine *e, uint32_t rank)
{
    fprintf(out, "%s %u (tp %u, pp %u)", e->source.role, rank, rank % e->source.size.tp, rank / e->source.size.tp);
}

/* ---- the two sides ----------------------------------------------------------------------------------------------- */

static void print_groups(FILE *out, const baton_geometry_t *g)
{
    static const char *const kinds[] = {"full", "window", "state"};
    for (uint32_t i = 0; i < g->num_groups; i++) {
        baton_group_t group = g->groups[i];
        if (g->num_groups > 1)
            fprintf(out, ", group %u %s", i, kinds[group.kind]);
        if (group.kind == BATON_KIND_WINDOW)
            fprintf(out, " of %u tokens", group.window_tokens);
        if (group.kind != BATON_KIND_STATE)
            fprintf(out, ", %u tokens a block", group.block_tokens);
    }
    for (uint32_t i = 0; i < g->num_splits; i++) {
        uint32_t heads = g->splits[i].heads_total;
        if (g->num_splits > 1)
            fprintf(out, ", split %u", i);
        fprintf(out, ", %u head%s", heads, heads == 1 ? "" : "s");
    }
}

static int print_engine(const struct query *q, enum role role, const struct engine *e, FILE *out, struct why *why)
{
    const struct engine_size *size = &e->source.size;
    char layout[32];
    struct cache cache;
    if (engine_cache(e, 0, &cache, why) != 0)
        return -1;
    const baton_geometry_t *g = cache.geometry;
    fprintf(out, "%s: %u engine%s, tp %u, pp %u each: %u rank%s; ", e->source.role, size->engines,
            size->engines == 1 ? "" : "s", size->tp, size->pp, e->num_ranks, e->num_ranks == 1 ? "" : "s");
    fprintf(out, "%s, %u layer%s, %s", g->model, g->layers_total, g->layers_total == 1 ? "" : "s", g->dtype);
    print_groups(out, g);
    fprintf(out, ", %s\n", q->file[role] != NULL ? q->file[role] : cut_layout_name(q->cut[role].layout, layout));
    cache_fini(&cache);
    return 0;
}

static int print_head(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    if (print_engine(q, ROLE_PREFILL, x->prefill, out, why) != 0 ||
        print_engine(q, ROLE_DECODE, x->decode, out, why) != 0)
        return -1;
    fprintf(out, "request: %u tokens, %u of them held\n", x->request.tokens, x->request.held);
    fprintf(out, "nodes: %u ranks each, prefill engines first\n", q->ranks_per_node);
    if (q->mode == BATON_MODE_PUSH)
        fprintf(out, "mode: push: the prefill rank of each line below writes; every decode rank is written once\n\n");
    else
        fprintf(out, "mode: pull: the decode rank reads; of what several prefill ranks hold, it reads one\n\n");
    return 0;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static void print_pair(const struct exchange *x, const struct pair *p, FILE *out)
{
    const struct runs *m = &p->moves;
    uint32_t num_splits = x->decode->members[p->consumer].num_boxes;
    fprintf(out, "    ");
    print_rank(out, x->prefill, p->producer);
    for (uint32_t i = 0; i < p->num_parts; i++) {
        fprintf(out, "%s", i ? "; " : ": ");
        print_box(out, &x->parts[p->first_part + i].box, num_splits);
    }
    fprintf(out, ": %" PRIu64 " bytes, %" PRIu64 " run%s", m->bytes, m->runs, m->runs == 1 ? "" : "s");
    if (m->runs > 0 && m->shortest == m->usual && m->bytes == m->runs * m->usual)
        fprintf(out, " of %" PRIu64, m->usual);
    else if (m->runs > 0)
        fprintf(out, ", most of %" PRIu64 ", shortest %" PRIu64, m->usual, m->shortest);
    fprintf(out, ", %" PRIu64 " unit%s%s\n", m->units, m->units == 1 ? "" : "s", p->same_node ? ", same node" : "");
}

static void print_consumer(const struct exchange *x, uint32_t rank, FILE *out)
{
    const uint32_t first = x->first_pair[rank], end = x->first_pair[rank + 1];
    uint64_t bytes = 0;
    for (uint32_t i = first; i < end; i++)
        bytes += x->pairs[i].moves.bytes;
    print_rank(out, x->decode, rank);
    fprintf(out, " takes %" PRIu64 " bytes from %u rank%s\n", bytes, end - first, end - first == 1 ? "" : "s");
    for (uint32_t i = first; i < end; i++)
        print_pair(x, &x->pairs[i], out);
}

/* ---- summary ----------------------------------------------------------------------------------------------------- */

static void print_summary(const struct exchange *x, const struct summary *s, FILE *out)
{
    const uint32_t producers = x->prefill->num_ranks, consumers = x->decode->num_ranks;
    fprintf(out, "\npairs                    %" PRIu64 ", %" PRIu64 " of them on one node\n", s->pairs,
            s->same_node_pairs);
    fprintf(out, "bytes                    %" PRIu64 ", %" PRIu64 " of them on one node\n", s->bytes,
            s->same_node_bytes);
    fprintf(out, "bytes a pair             least %" PRIu64 ", mean %.1f, most %" PRIu64 "\n", s->pair_bytes_least,
            summary_ratio(s->bytes, s->pairs), s->pair_bytes_most);
    fprintf(out, "runs                     %" PRIu64 ", mean %.1f bytes\n", s->runs, summary_ratio(s->bytes, s->runs));
    fprintf(out, "units                    %" PRIu64 " (a tensor's tokens that lie in one block on both sides)\n",
            s->units);
    fprintf(out, "prefill ranks to one     least %" PRIu64 ", mean %.2f, most %" PRIu64 "\n", s->fan_in_least,
            summary_ratio(s->pairs, consumers), s->fan_in_most);
    fprintf(out, "decode ranks from one    least %" PRIu64 ", mean %.2f, most %" PRIu64 "\n", s->fan_out_least,
            summary_ratio(s->pairs, producers), s->fan_out_most);
    fprintf(out, "prefill ranks' balance   %.2f (most / mean bytes)\n",
            summary_ratio(s->producer_bytes_most * producers, s->bytes));
    fprintf(out, "decode ranks' balance    %.2f\n", summary_ratio(s->consumer_bytes_most * consumers, s->bytes));
    fprintf(out, "prefill ranks not used   %u%s\n", s->producers_idle,
            s->producers_idle > 0 ? " (others hold the same; they are only told when their blocks are free)" : "");
}

int print_text(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    struct summary s;
    if (summary_of(x, &s, why) != 0 || print_head(q, x, out, why) != 0)
        return -1;
    for (uint32_t i = 0; i < x->decode->num_ranks; i++)
        if (q->rank == QUERY_ALL || i == q->rank)
            print_consumer(x, i, out);
    print_summary(x, &s, out);
    return 0;
}
