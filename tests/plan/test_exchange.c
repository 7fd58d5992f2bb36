/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-plan's figures against brute force. Its JSON is read back: each head of each layer of every decode rank must
 * come from exactly one rank that holds it. Bytes are counted tensor by tensor, and runs by walking the whole transfer
 * over block tables without neighbouring blocks. Its graph has each
 * rank and each pair once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/cut.h"
#include "print.h"
#include "with_dot.h"

/* ---- two engines ------------------------------------------------------------------------------------------------- */

struct setting {
    const char *prefill, *decode; /* sizes */
    const char *text[ROLES];      /* descriptions; NULL: llama3-8b, 6 layers */
    uint32_t block_tokens[ROLES];
    unsigned layout[ROLES];
    uint32_t tokens, held;
};

struct world {
    struct query query;
    struct description description[ROLES];
    struct engine engine[ROLES];
    struct exchange exchange;
};

static void need(int rc, const struct why *why)
{
    if (rc != 0)
        fail_msg("%s", why->text);
}

static void world_init(struct world *w, const struct setting *s)
{
    static const char *const roles[] = {"prefill", "decode"};
    struct why why = {""};
    *w = (struct world){.query = {.ranks_per_node = 4, .rank = QUERY_ALL, .request = {s->tokens, s->held}}};
    for (unsigned i = 0; i < ROLES; i++) {
        w->query.cut[i] = cut_default();
        w->query.cut[i].layers = 6;
        w->query.cut[i].block_tokens = s->block_tokens[i];
        w->query.cut[i].layout = s->layout[i];
        need(engine_size_read(roles[i], i ? s->decode : s->prefill, &w->query.size[i], &why), &why);
        if (s->text[i] != NULL)
            need(description_parse(&w->description[i], s->text[i], strlen(s->text[i]), &why), &why);
        struct engine_source source = {.role = roles[i],
                                       .size = w->query.size[i],
                                       .cut = &w->query.cut[i],
                                       .description = s->text[i] != NULL ? &w->description[i] : NULL,
                                       .tokens = s->tokens,
                                       .first_rank = i ? w->engine[0].num_ranks : 0,
                                       .ranks_per_node = 4};
        need(engine_init(&w->engine[i], &source, &why), &why);
    }
    need(exchange_init(&w->exchange, &w->engine[0], &w->engine[1], &w->query.request, &why), &why);
}

static void world_fini(struct world *w)
{
    exchange_fini(&w->exchange);
    for (unsigned i = 0; i < ROLES; i++) {
        engine_fini(&w->engine[i]);
        description_fini(&w->description[i]);
    }
}

/* ---- brute force ------------------------------------------------------------------------------------------------- */

/* How many tokens a request needs of a group, as baton.h says, without the planner. */
static uint64_t tokens_needed(const struct plan_extent *x, const struct request *r)
{
    uint64_t needed = r->tokens - r->held;
    if (x->group.kind == BATON_KIND_STATE)
        return needed > 0;
    if (x->group.kind == BATON_KIND_WINDOW && needed > x->group.window_tokens)
        return x->group.window_tokens;
    return needed;
}

static uint64_t tensor_bytes(const baton_geometry_t *g, const baton_tensor_t *t, uint32_t heads,
                             const struct request *r)
{
    struct plan_extent x = geometry_extent(g, t);
    return tokens_needed(&x, r) * x.planes * heads * x.head_size * x.elem_bytes;
}

static uint64_t get(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    if (!json_is_integer(value))
        fail_msg("%s is no number", name);
    return (uint64_t)json_integer_value(value);
}

static bool part_has(const json_t *part, uint32_t split, uint32_t layer, uint32_t head)
{
    return get(part, "split") == split && layer >= get(part, "layer_first") &&
           layer < get(part, "layer_first") + get(part, "layer_count") && head >= get(part, "head_first") &&
           head < get(part, "head_first") + get(part, "head_count");
}

static bool holds(const baton_geometry_t *g, uint32_t split, uint32_t layer, uint32_t head)
{
    baton_split_t s = g->splits[split];
    return layer >= g->layer_first && layer < g->layer_first + g->layer_count && head >= s.head_first &&
           head < s.head_first + s.head_count;
}

/* Descending block ids, so that no blocks are neighbours. A state has the middle one of its three blocks. */
static struct plan_tables tables_of(const baton_geometry_t *g, uint32_t tokens)
{
    struct plan_tables t = {.num = g->num_groups};
    for (uint32_t i = 0; i < t.num; i++) {
        baton_group_t group = g->groups[i];
        bool state = group.kind == BATON_KIND_STATE;
        uint32_t n = state ? 1 : (tokens + group.block_tokens - 1) / group.block_tokens;
        uint32_t *blocks = calloc(n, sizeof *blocks);
        for (uint32_t k = 0; k < n; k++)
            blocks[k] = state ? 1 : n - 1 - k;
        t.table[i] = (baton_table_t){.blocks = blocks, .num_blocks = n};
    }
    return t;
}

static void tables_free(struct plan_tables *t)
{
    for (uint32_t i = 0; i < t->num; i++)
        free((void *)t->table[i].blocks);
}

#define LENGTHS 65536 /* longer runs count as this long */

static void check_runs(const json_t *pair, const baton_geometry_t *from, const baton_geometry_t *to,
                       const struct request *r)
{
    const json_t *parts = json_object_get(pair, "parts");
    struct plan_box boxes[64];
    uint32_t num = (uint32_t)json_array_size(parts);
    assert_true(num <= 64);
    for (uint32_t i = 0; i < num; i++) {
        const json_t *p = json_array_get(parts, i);
        boxes[i] = (struct plan_box){(uint32_t)get(p, "layer_first"), (uint32_t)get(p, "layer_count"),
                                     (uint32_t)get(p, "head_first"), (uint32_t)get(p, "head_count"),
                                     (uint32_t)get(p, "split")};
    }
    struct plan *plan;
    struct plan_why why = {""};
    struct plan_transfer t;
    struct plan_tables src = tables_of(from, r->tokens), dst = tables_of(to, r->tokens);
    assert_int_equal(plan_compile(from, to, boxes, num, &plan, &why), 0);
    assert_int_equal(plan_transfer_init(&t, plan, r->held, r->tokens, &src, &dst, &why), 0);
    static uint32_t lengths[LENGTHS + 1];
    memset(lengths, 0, sizeof lengths);
    struct plan_cursor c = {0};
    struct plan_run run[1];
    uint64_t runs = 0, bytes = 0, shortest = 0, usual = 0;
    while (plan_next(&t, &c, run, 1, UINT64_MAX) > 0) { /* one at a time: touching runs are merged */
        runs++;
        bytes += run[0].bytes;
        assert_true(run[0].bytes <= LENGTHS);
        lengths[run[0].bytes]++;
        shortest = shortest == 0 || run[0].bytes < shortest ? run[0].bytes : shortest;
    }
    for (uint32_t i = 1; i <= LENGTHS; i++)
        if (lengths[i] > 0 && lengths[i] >= lengths[usual])
            usual = i;
    assert_int_equal(get(pair, "runs"), runs);
    assert_int_equal(get(pair, "bytes"), bytes);
    assert_int_equal(get(pair, "shortest_run"), shortest);
    assert_int_equal(get(pair, "usual_run"), usual);
    plan_destroy(plan);
    tables_free(&src);
    tables_free(&dst);
}

/* Each cell of the consumer must come from one rank that holds it. */
static void check_cells(const json_t *from, const struct cache *producers, const baton_geometry_t *to)
{
    size_t i, k;
    json_t *pair, *part;
    for (uint32_t split = 0; split < to->num_splits; split++) {
        baton_split_t s = to->splits[split];
        for (uint32_t layer = to->layer_first; layer < to->layer_first + to->layer_count; layer++)
            for (uint32_t head = s.head_first; head < s.head_first + s.head_count; head++) {
                unsigned times = 0;
                json_array_foreach(from, i, pair) json_array_foreach(json_object_get(pair, "parts"), k, part)
                {
                    if (!part_has(part, split, layer, head))
                        continue;
                    times++;
                    assert_true(holds(producers[get(pair, "rank")].geometry, split, layer, head));
                }
                assert_int_equal(times, 1);
            }
    }
}

static uint64_t pair_bytes(const json_t *pair, const baton_geometry_t *to, const struct request *r)
{
    uint64_t bytes = 0;
    size_t k;
    json_t *part;
    json_array_foreach(json_object_get(pair, "parts"), k, part) for (uint32_t i = 0; i < to->num_tensors; i++)
    {
        const baton_tensor_t *t = &to->tensors[i];
        if (t->split == get(part, "split") && t->layer >= get(part, "layer_first") &&
            t->layer < get(part, "layer_first") + get(part, "layer_count"))
            bytes += tensor_bytes(to, t, (uint32_t)get(part, "head_count"), r);
    }
    return bytes;
}

static void check_rank(const struct world *w, const json_t *rank, const struct cache *producers)
{
    const json_t *from = json_object_get(rank, "from");
    const struct request *r = &w->query.request;
    struct cache to;
    struct why why = {""};
    uint64_t all = 0, sum = 0;
    size_t i;
    json_t *pair;
    need(engine_cache(&w->engine[ROLE_DECODE], (uint32_t)get(rank, "rank"), &to, &why), &why);
    check_cells(from, producers, to.geometry);
    json_array_foreach(from, i, pair)
    {
        assert_int_equal(get(pair, "bytes"), pair_bytes(pair, to.geometry, r));
        check_runs(pair, producers[get(pair, "rank")].geometry, to.geometry, r);
        sum += get(pair, "bytes");
    }
    for (uint32_t k = 0; k < to.geometry->num_tensors; k++) {
        struct plan_extent x = geometry_extent(to.geometry, &to.geometry->tensors[k]);
        all += tensor_bytes(to.geometry, &to.geometry->tensors[k], x.split.head_count, r);
    }
    assert_int_equal(get(rank, "bytes"), all);
    assert_int_equal(sum, all);
    cache_fini(&to);
}

static void check_summary(const json_t *top)
{
    const json_t *s = json_object_get(top, "summary");
    uint64_t pairs = 0, bytes = 0, runs = 0, node_bytes = 0;
    size_t i, k;
    json_t *rank, *pair;
    json_array_foreach(json_object_get(top, "decode_ranks"), i, rank)
        json_array_foreach(json_object_get(rank, "from"), k, pair)
    {
        pairs++;
        bytes += get(pair, "bytes");
        runs += get(pair, "runs");
        node_bytes += json_is_true(json_object_get(pair, "same_node")) ? get(pair, "bytes") : 0;
    }
    assert_int_equal(get(s, "pairs"), pairs);
    assert_int_equal(get(s, "bytes"), bytes);
    assert_int_equal(get(s, "runs"), runs);
    assert_int_equal(get(s, "same_node_bytes"), node_bytes);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

/* "layers 0-3, split 1, head 2" */
static const char *box_line(const struct plan_box *b, uint32_t num_splits, char text[192])
{
    char split[32] = "", layers[64], heads[64];
    if (num_splits > 1)
        snprintf(split, sizeof split, ", split %u", b->split);
    if (b->layer_count > 1)
        snprintf(layers, sizeof layers, "layers %u-%u", b->layer_first, b->layer_first + b->layer_count - 1);
    else
        snprintf(layers, sizeof layers, "layer %u", b->layer_first);
    if (b->head_count > 1)
        snprintf(heads, sizeof heads, "heads %u-%u", b->head_first, b->head_first + b->head_count - 1);
    else
        snprintf(heads, sizeof heads, "head %u", b->head_first);
    snprintf(text, 192, "%s%s, %s", layers, split, heads);
    return text;
}

/* It is there, within the cluster of its engine, with what it holds. */
static void check_node(const struct dot_read *g, const struct engine *e, uint32_t rank)
{
    const struct plan_member *m = &e->members[rank];
    char name[32], line[192];
    snprintf(name, sizeof name, "%s%u", e->source.role, rank);
    const struct dot_thing *n = dot_find(g->nodes, g->num_nodes, name);
    snprintf(name, sizeof name, "cluster_%s", e->source.role);
    assert_string_equal(g->clusters[n->within].name, name);
    snprintf(line, sizeof line, "%s %u (tp %u, pp %u)", e->source.role, rank, rank % e->source.size.tp,
             rank / e->source.size.tp);
    assert_true(dot_has(n->label, line));
    snprintf(line, sizeof line, "node %u", m->node);
    assert_true(dot_has(n->label, line));
    for (uint32_t i = 0; i < m->num_boxes; i++)
        assert_true(dot_has(n->label, box_line(&m->box[i], m->num_boxes, line)));
}

/* It has one edge, with the parts that it moves. */
static void check_edge(const struct dot_read *g, const struct exchange *x, const struct pair *p)
{
    const struct dot_thing *found = NULL;
    char from[32], to[32], line[192];
    snprintf(from, sizeof from, "prefill%u", p->producer);
    snprintf(to, sizeof to, "decode%u", p->consumer);
    for (uint32_t i = 0; i < g->num_edges; i++)
        if (strcmp(g->edges[i].name, from) == 0 && strcmp(g->edges[i].to, to) == 0) {
            assert_null(found);
            found = &g->edges[i];
        }
    assert_non_null(found);
    assert_int_equal(strcmp(found->style, "dashed") == 0, !p->same_node);
    for (uint32_t i = 0; i < p->num_parts; i++)
        assert_true(dot_has(
            found->label, box_line(&x->parts[p->first_part + i].box, x->decode->members[p->consumer].num_boxes, line)));
    snprintf(line, sizeof line, "%llu bytes in %llu run%s", (unsigned long long)p->moves.bytes,
             (unsigned long long)p->moves.runs, p->moves.runs == 1 ? "" : "s");
    assert_true(dot_has(found->label, line));
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

typedef int (*printer)(const struct query *q, const struct exchange *x, FILE *out, struct why *why);

static char *printed(const struct world *w, printer print)
{
    char *text = NULL;
    size_t length;
    struct why why = {""};
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    need(print(&w->query, &w->exchange, out, &why), &why);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_graph(const struct world *w)
{
    const struct exchange *x = &w->exchange;
    char *text = printed(w, print_graph);
    struct dot_read g;
    dot_read(&g, text);
    assert_int_equal(g.num_nodes, x->prefill->num_ranks + x->decode->num_ranks);
    assert_int_equal(g.num_edges, x->num_pairs);
    for (uint32_t i = 0; i < x->prefill->num_ranks; i++)
        check_node(&g, x->prefill, i);
    for (uint32_t i = 0; i < x->decode->num_ranks; i++)
        check_node(&g, x->decode, i);
    for (uint32_t i = 0; i < x->num_pairs; i++)
        check_edge(&g, x, &x->pairs[i]);
    dot_read_fini(&g);
    free(text);
}

/* One decode rank alone, and those that it takes from. */
static void check_graph_of_last(struct world *w)
{
    const struct exchange *x = &w->exchange;
    struct dot_read g;
    w->query.rank = x->decode->num_ranks - 1;
    char *text = printed(w, print_graph);
    const uint32_t first = x->first_pair[w->query.rank];
    dot_read(&g, text);
    assert_int_equal(g.num_nodes, 1 + x->num_pairs - first);
    assert_int_equal(g.num_edges, x->num_pairs - first);
    check_node(&g, x->decode, w->query.rank);
    for (uint32_t i = first; i < x->num_pairs; i++) {
        check_node(&g, x->prefill, x->pairs[i].producer);
        check_edge(&g, x, &x->pairs[i]);
    }
    dot_read_fini(&g);
    free(text);
}

static void check(const struct setting *s)
{
    struct world w;
    struct why why = {""};
    json_error_t error;
    world_init(&w, s);
    char *text = printed(&w, print_json);
    json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (top == NULL)
        fail_msg("%s", error.text);
    const json_t *ranks = json_object_get(top, "decode_ranks");
    assert_int_equal(json_array_size(ranks), w.engine[ROLE_DECODE].num_ranks);
    struct cache *producers = calloc(w.engine[ROLE_PREFILL].num_ranks, sizeof *producers);
    for (uint32_t i = 0; i < w.engine[ROLE_PREFILL].num_ranks; i++)
        need(engine_cache(&w.engine[ROLE_PREFILL], i, &producers[i], &why), &why);
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank) check_rank(&w, rank, producers);
    check_summary(top);
    check_graph(&w);
    check_graph_of_last(&w);
    for (uint32_t k = 0; k < w.engine[ROLE_PREFILL].num_ranks; k++)
        cache_fini(&producers[k]);
    free(producers);
    json_decref(top);
    free(text);
    world_fini(&w);
}

#define HEAD "{\"model\": \"m\", \"dtype\": \"bf16\", \"elem_bytes\": 2, \"planes\": 2, \"head_size\": 8, "

static void presets(void **state)
{
    (void)state;
    static const unsigned layouts[] = {0, BATON_LAYOUT_NHD, BATON_LAYOUT_KV_FUSED,
                                       BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK, BATON_LAYOUT_BLOCK_MAJOR};
    static const char *const sizes[] = {"1x1", "2x1", "4x2", "8x1", "1x3", "2x6"};
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < 6; k++)
            check(&(struct setting){.prefill = sizes[i],
                                    .decode = sizes[k],
                                    .block_tokens = {16, (i + k) % 3 == 0   ? 16
                                                         : (i + k) % 3 == 1 ? 48
                                                                            : 24},
                                    .layout = {layouts[i % 5], layouts[(i + k) % 5]},
                                    .tokens = 200,
                                    .held = i == k ? 37 : 0});
}

/* Sizes that do not divide each other, replicas on either side, stages that are cut differently. */
static void cuts(void **state)
{
    (void)state;
    static const char text[] = HEAD "\"layers\": 7, \"heads\": 6, \"block_tokens\": 16}";
    static const char uneven[] = HEAD "\"layers\": 7, \"heads\": 6, \"block_tokens\": 24, \"stage_layers\": [1, 4, 2],"
                                      "\"order\": [\"layer\", \"block\", \"token\", \"head\", \"plane\", \"channel\"]}";
    static const char *const sizes[] = {"4x1", "5x2", "9x1", "16x3"};
    for (unsigned i = 0; i < 4; i++) {
        check(&(struct setting){.prefill = sizes[i], .decode = "4x3", .text = {text, uneven}, .tokens = 100});
        check(&(struct setting){.prefill = "3x3", .decode = sizes[i], .text = {uneven, text}, .tokens = 90, .held = 5});
    }
}

/* Full attention cut by TP, a window, a latent that all ranks hold, and states of two kinds. */
static void hybrids(void **state)
{
    (void)state;
#define HYBRID(tokens, order)                                                                                          \
    HEAD "\"layers\": 8, \"splits\": [{\"heads\": 4}, {\"heads\": 6}, {\"heads\": 1, \"cut\": \"whole\"}],"            \
         "\"groups\": [{\"kind\": \"full\", \"block_tokens\": " tokens "},"                                            \
         "{\"kind\": \"window\", \"block_tokens\": " tokens ", \"window_tokens\": 40},"                                \
         "{\"kind\": \"state\", \"num_blocks\": 3}], \"tensors\": ["                                                   \
         "{\"name\": \"kv.{layer}\", \"layers\": {\"first\": 0, \"step\": 2}" order "},"                               \
         "{\"name\": \"win.{layer}\", \"layers\": {\"first\": 1, \"step\": 4}, \"group\": 1},"                         \
         "{\"name\": \"latent.{layer}\", \"split\": 2, \"planes\": 1, \"head_size\": 72},"                             \
         "{\"name\": \"conv.{layer}\", \"layers\": [3, 7], \"group\": 2, \"split\": 1, \"planes\": 3},"                \
         "{\"name\": \"ssm.{layer}\", \"layers\": [3, 7], \"group\": 2, \"split\": 1, \"planes\": 1, "                 \
         "\"head_size\": 64, \"elem_bytes\": 4}]}"
    static const char a[] = HYBRID("16", "");
    static const char b[] =
        HYBRID("48", ", \"order\": [\"layer\", \"block\", \"token\", \"plane\", \"head\", \"channel\"]");
    static const char *const sizes[] = {"1x1", "2x1", "4x2", "6x1", "3x4"};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 5; k++)
            check(&(struct setting){.prefill = sizes[i],
                                    .decode = sizes[k],
                                    .text = {i % 2 ? a : b, k % 2 ? b : a},
                                    .tokens = 130,
                                    .held = k == 2   ? 130
                                            : k == 3 ? 64
                                                     : 0});
}

/* A model's name comes from outside. */
static void names(void **state)
{
    (void)state;
    static const char text[] = "{\"model\": \"<b>\\\"m\\\\n&lt;\\u00e9\", \"dtype\": \"bf16\", \"elem_bytes\": 2, "
                               "\"planes\": 2, \"head_size\": 8, \"layers\": 1, \"heads\": 1, \"block_tokens\": 16}";
    struct world w;
    struct dot_read g;
    world_init(&w, &(struct setting){.prefill = "1x1", .decode = "1x1", .text = {text, text}, .tokens = 1});
    char *drawn = printed(&w, print_graph);
    dot_read(&g, drawn);
    assert_ptr_equal(strstr(g.label, "<b>\"m\\n&lt;__: a request of 1 tokens"), g.label);
    dot_read_fini(&g);
    free(drawn);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets),
        cmocka_unit_test(cuts),
        cmocka_unit_test(hybrids),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
