/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * print_json: an exchange for programs. A reader may rely on the names while "schema" stays the same. It is written
 * consumer by consumer, so that 10,000 of them are never all in memory as JSON.
 */
#include <jansson.h>

#include "print.h"

#define FLAGS (JSON_COMPACT | JSON_PRESERVE_ORDER)

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static int put(FILE *out, json_t *value, struct why *why)
{
    if (value == NULL)
        return why_set(why, "no memory for JSON");
    json_dumpf(value, out, FLAGS);
    json_decref(value);
    return 0;
}

/* ---- the two sides ----------------------------------------------------------------------------------------------- */

static json_t *group_json(const baton_group_t *g)
{
    static const char *const kinds[] = {"full", "window", "state"};
    json_t *o = json_pack("{s:s, s:o, s:o}", "kind", kinds[g->kind], "block_tokens", number(g->block_tokens),
                          "num_blocks", number(g->num_blocks));
    if (g->kind == BATON_KIND_WINDOW)
        json_object_set_new(o, "window_tokens", number(g->window_tokens));
    return o;
}

static int put_engine(const struct engine *e, FILE *out, struct why *why)
{
    const struct engine_size *size = &e->source.size;
    struct cache cache;
    if (engine_cache(e, 0, &cache, why) != 0)
        return -1;
    const baton_geometry_t *g = cache.geometry;
    json_t *groups = json_array(), *heads = json_array();
    for (uint32_t i = 0; i < g->num_groups; i++) {
        baton_group_t group = g->groups[i];
        json_array_append_new(groups, group_json(&group));
    }
    for (uint32_t i = 0; i < g->num_splits; i++)
        json_array_append_new(heads, number(g->splits[i].heads_total));
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o}", "engines", number(size->engines), "tp",
                          number(size->tp), "pp", number(size->pp), "ranks", number(e->num_ranks), "model", g->model,
                          "dtype", g->dtype, "layers", number(g->layers_total), "heads", heads, "groups", groups);
    cache_fini(&cache);
    fprintf(out, ",\n\"%s\":", e->source.role);
    return put(out, o, why);
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

static json_t *part_json(const struct plan_box *b)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "split", number(b->split), "layer_first", number(b->layer_first),
                     "layer_count", number(b->layer_count), "head_first", number(b->head_first), "head_count",
                     number(b->head_count));
}

static json_t *pair_json(const struct exchange *x, const struct pair *p)
{
    json_t *parts = json_array();
    for (uint32_t i = 0; i < p->num_parts; i++)
        json_array_append_new(parts, part_json(&x->parts[p->first_part + i].box));
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", number(p->producer), "same_node",
                     (int)p->same_node, "bytes", number(p->moves.bytes), "runs", number(p->moves.runs), "usual_run",
                     number(p->moves.usual), "shortest_run", number(p->moves.shortest), "units", number(p->moves.units),
                     "parts", parts);
}

static json_t *consumer_json(const struct exchange *x, uint32_t rank)
{
    const uint32_t tp = x->decode->source.size.tp;
    json_t *from = json_array();
    uint64_t bytes = 0;
    for (uint32_t i = x->first_pair[rank]; i < x->first_pair[rank + 1]; i++) {
        json_array_append_new(from, pair_json(x, &x->pairs[i]));
        bytes += x->pairs[i].moves.bytes;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "rank", number(rank), "tp_rank", number(rank % tp), "pp_rank",
                     number(rank / tp), "bytes", number(bytes), "from", from);
}

static int put_consumers(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    const char *before = "\n";
    fprintf(out, ",\n\"decode_ranks\":[");
    for (uint32_t rank = 0; rank < x->decode->num_ranks; rank++) {
        if (q->rank != QUERY_ALL && rank != q->rank)
            continue;
        fputs(before, out);
        before = ",\n";
        if (put(out, consumer_json(x, rank), why) != 0)
            return -1;
    }
    fprintf(out, "]");
    return 0;
}

/* ---- summary ----------------------------------------------------------------------------------------------------- */

static json_t *spread(uint64_t least, double mean, uint64_t most)
{
    return json_pack("{s:o, s:f, s:o}", "least", number(least), "mean", mean, "most", number(most));
}

static json_t *summary_json(const struct exchange *x, const struct summary *s)
{
    const uint32_t producers = x->prefill->num_ranks, consumers = x->decode->num_ranks;
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "pairs", number(s->pairs), "bytes", number(s->bytes),
                          "runs", number(s->runs), "units", number(s->units), "same_node_pairs",
                          number(s->same_node_pairs), "same_node_bytes", number(s->same_node_bytes));
    json_object_set_new(o, "pair_bytes",
                        spread(s->pair_bytes_least, summary_ratio(s->bytes, s->pairs), s->pair_bytes_most));
    json_object_set_new(o, "fan_in", spread(s->fan_in_least, summary_ratio(s->pairs, consumers), s->fan_in_most));
    json_object_set_new(o, "fan_out", spread(s->fan_out_least, summary_ratio(s->pairs, producers), s->fan_out_most));
    json_object_set_new(o, "prefill_balance", json_real(summary_ratio(s->producer_bytes_most * producers, s->bytes)));
    json_object_set_new(o, "decode_balance", json_real(summary_ratio(s->consumer_bytes_most * consumers, s->bytes)));
    json_object_set_new(o, "prefill_ranks_not_used", number(s->producers_idle));
    return o;
}

int print_json(const struct query *q, const struct exchange *x, FILE *out, struct why *why)
{
    struct summary s;
    if (summary_of(x, &s, why) != 0)
        return -1;
    fprintf(out, "{\"schema\":1,\"tokens\":%u,\"held\":%u,\"mode\":\"%s\",\"ranks_per_node\":%u", x->request.tokens,
            x->request.held, q->mode == BATON_MODE_PUSH ? "push" : "pull", q->ranks_per_node);
    if (put_engine(x->prefill, out, why) != 0 || put_engine(x->decode, out, why) != 0 ||
        put_consumers(q, x, out, why) != 0)
        return -1;
    fprintf(out, ",\n\"summary\":");
    if (put(out, summary_json(x, &s), why) != 0)
        return -1;
    fprintf(out, "}\n");
    return 0;
}
