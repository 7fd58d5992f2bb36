/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner against a naive reference over random pairs of engines: every wanted element arrives exactly once, from a
 * rank that holds it, and no byte outside the request is touched.
 *
 * PLAN_PAIRS pairs (default 10,000) from seed PLAN_SEED (default 1); a failing seed is printed and, given with
 * PLAN_PAIRS=1, plays again.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "with_reference.h"

#define RANKS_MAX 8
#define TENSORS_MAX 6
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("seed %llu: %s:%d: %s: ", (unsigned long long)seed, __FILE__, __LINE__, #condition);                \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint64_t seed, state;

static uint32_t rnd(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = (state ^ state >> 22) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(x >> 33) % n;
}

struct engine {
    uint32_t tp, pp, num;
    unsigned layout;
    bool padded;
    struct reference_cache cache[RANKS_MAX];
    baton_tensor_t tensors[RANKS_MAX][TENSORS_MAX];
    struct plan_member members[RANKS_MAX];
};

/* The model of one pair, and how the cases are spread. */
static struct {
    uint32_t heads, layers, block_tokens, head_size, elem_bytes, planes, tokens;
} model;
static uint64_t pairs, uneven, replicated, staged, partial, mixed_layouts, padded, fewer, more, equal;

/* ---- random engines ---------------------------------------------------------------------------------------------- */

static void heads_of(uint32_t tp, uint32_t rank, uint32_t *first, uint32_t *count)
{
    if (tp > model.heads) { /* replicas */
        *first = rank * model.heads / tp;
        *count = 1;
        return;
    }
    *first = rank * model.heads / tp; /* sizes that do not divide give ranks of unequal shares */
    *count = (rank + 1) * model.heads / tp - *first;
}

/* Spreads the strides of a layout by random gaps, keeping its order. */
static void pad(baton_geometry_t *g, baton_tensor_t *t)
{
    int64_t factor = 1 + rnd(2), gap = (int64_t)(rnd(3) * g->elem_bytes);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        baton_strides_t *s = &t[i].stride;
        t[i].offset = t[i].offset * 2 * (uint64_t)factor + (uint64_t)gap;
        s->block *= 2 * factor;
        s->plane *= 2 * factor;
        s->head *= 2 * factor;
        s->token *= 2 * factor;
        s->channel *= i % 2 ? 1 : factor; /* gaps within entries too, and tensors of different shapes */
    }
    g->bytes = g->bytes * 2 * (uint64_t)factor + (uint64_t)gap;
}

static void rank_make(struct engine *e, uint32_t i, const uint32_t *stage)
{
    struct reference_cache *c = &e->cache[i];
    baton_geometry_t *g = &c->geometry;
    uint32_t pp_rank = i / e->tp, blocks = (model.tokens - 1) / model.block_tokens + 1, num = blocks + rnd(4);
    *c = (struct reference_cache){0};
    *g = (baton_geometry_t){.elem_bytes = model.elem_bytes,
                            .planes = model.planes,
                            .block_tokens = model.block_tokens,
                            .head_size = model.head_size,
                            .num_blocks = num,
                            .heads_total = model.heads,
                            .layers_total = model.layers,
                            .layer_first = stage[pp_rank],
                            .layer_count = stage[pp_rank + 1] - stage[pp_rank]};
    strcpy(g->model, "m");
    strcpy(g->dtype, "x");
    heads_of(e->tp, i % e->tp, &g->head_first, &g->head_count);
    CHECK(baton_geometry_layout(g, e->tensors[i], e->layout) == 0, "%s", baton_errmsg());
    if (e->padded)
        pad(g, e->tensors[i]);
    struct plan_why why = {{0}};
    CHECK(geometry_check(g, &g->bytes, 1, &why) == 0, "%s", why.text);
    c->memory = malloc(g->bytes);
    c->writes = calloc(1, g->bytes);
    c->blocks = malloc(num * sizeof *c->blocks);
    for (uint32_t b = 0; b < num; b++)
        c->blocks[b] = b;
    if (rnd(3) > 0) /* else in order, so that neighbours merge */
        for (uint32_t b = num; b > 1; b--) {
            uint32_t k = rnd(b), swap = c->blocks[k];
            c->blocks[k] = c->blocks[b - 1];
            c->blocks[b - 1] = swap;
        }
    e->members[i] = (struct plan_member){
        .box = {g->layer_first, g->layer_count, g->head_first, g->head_count}, .node = rnd(2), .package = rnd(2)};
}

static void engine_make(struct engine *e)
{
    uint32_t stage[3] = {0, model.layers, model.layers};
    e->pp = model.layers > 1 && rnd(3) == 0 ? 2 : 1;
    if (e->pp == 2)
        stage[1] = 1 + rnd(model.layers - 1);
    e->tp = 1 + rnd(RANKS_MAX / e->pp);
    e->num = e->tp * e->pp;
    unsigned kv[] = {BATON_LAYOUT_KV_SEPARATE, BATON_LAYOUT_KV_BLOCK, BATON_LAYOUT_KV_FUSED};
    e->layout = kv[rnd(3)] | (rnd(2) ? BATON_LAYOUT_NHD : 0) | (rnd(2) ? BATON_LAYOUT_BLOCK_MAJOR : 0);
    e->padded = rnd(4) == 0;
    for (uint32_t i = 0; i < e->num; i++)
        rank_make(e, i, stage);
}

static void engine_free(struct engine *e)
{
    for (uint32_t i = 0; i < e->num; i++) {
        free(e->cache[i].memory);
        free(e->cache[i].writes);
        free(e->cache[i].blocks);
    }
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void run_copy(const struct plan_run *r, const struct reference_cache *from, struct reference_cache *to,
                     uint64_t budget)
{
    CHECK(r->bytes > 0 && r->bytes <= budget, "%llu bytes", (unsigned long long)r->bytes);
    CHECK(r->src + r->bytes <= from->geometry.bytes && r->dst + r->bytes <= to->geometry.bytes, "outside");
    memcpy(to->memory + r->dst, from->memory + r->src, r->bytes);
    for (uint64_t k = 0; k < r->bytes; k++)
        to->writes[r->dst + k]++;
}

/* Walks it all in slices of plan_skip, each by plan_next with odd budgets, as the two paths do. */
static void transfer(const struct plan *plan, const struct reference_cache *from, struct reference_cache *to)
{
    struct plan_transfer t;
    struct plan_cursor behind = {0}, at = {0};
    struct plan_run runs[8];
    uint64_t moved = 0, slice;
    plan_transfer_init(&t, plan, model.tokens, from->blocks, to->blocks);
    while ((slice = plan_skip(&t, &behind, 1 + rnd(rnd(2) ? 64 : 5000))) > 0) {
        uint64_t left = slice;
        while (left > 0) {
            uint64_t budget = rnd(3) ? left : 1 + rnd((uint32_t)(left < 300 ? left : 300)), sum = 0;
            uint32_t n = plan_next(&t, &at, runs, 1 + rnd(8), budget);
            CHECK(n > 0, "stuck with %llu bytes left", (unsigned long long)left);
            for (uint32_t i = 0; i < n; i++) {
                run_copy(&runs[i], from, to, budget);
                sum += runs[i].bytes;
            }
            CHECK(sum <= budget, "over budget");
            left -= sum;
        }
        moved += slice;
        CHECK(memcmp(&at, &behind, sizeof at) == 0, "slices and runs disagree");
        if (rnd(2)) { /* the next slice begins anywhere in a unit */
            uint32_t n = plan_next(&t, &at, runs, 1, 1 + rnd(40));
            if (n > 0) {
                run_copy(&runs[0], from, to, 40);
                moved += runs[0].bytes;
            }
            behind = at;
        }
    }
    CHECK(plan_at_end(&t, &behind) && moved == t.bytes, "%llu of %llu bytes", (unsigned long long)moved,
          (unsigned long long)t.bytes);
}

static uint32_t far(const struct plan_member *a, const struct plan_member *b)
{
    return a->node != b->node ? 3 : a->package != b->package ? 2 : a->numa != b->numa;
}

/* Each part from a rank that holds it, and none nearer that holds all of it too; ties spread by index. */
static void check_choice(const struct engine *p, const struct plan_member *me, uint32_t index,
                         const struct plan_source *s)
{
    uint32_t ties = 0, place = 0;
    for (uint32_t i = 0; i < p->num; i++) {
        struct plan_box common;
        if (!box_intersect(&p->members[i].box, &s->box, &common) || memcmp(&common, &s->box, sizeof common) != 0)
            continue;
        CHECK(far(me, &p->members[i]) >= far(me, &p->members[s->member]), "a nearer rank holds it");
        if (far(me, &p->members[i]) == far(me, &p->members[s->member])) {
            place = i == s->member ? ties : place;
            ties++;
        }
    }
    CHECK(ties > 0, "its source does not hold it");
    CHECK(place == index % ties, "not its turn");
}

static void consume(struct engine *p, struct engine *d, uint32_t index)
{
    struct plan_source parts[64];
    struct plan_why why = {{0}};
    struct reference_cache *to = &d->cache[index];
    int n = plan_sources(&d->members[index], index, p->members, p->num, parts, 64, &why);
    CHECK(n > 0, "%s", why.text);
    for (int i = 0; i < n;) {
        struct plan_box boxes[64];
        struct plan *plan;
        uint32_t k = 0, member = parts[i].member;
        for (; i < n && parts[i].member == member; i++) {
            check_choice(p, &d->members[index], index, &parts[i]);
            boxes[k++] = parts[i].box;
        }
        CHECK(geometry_match(&p->cache[member].geometry, &to->geometry, &why) == 0, "%s", why.text);
        CHECK(plan_compile(&p->cache[member].geometry, &to->geometry, boxes, k, &plan, &why) == 0, "%s", why.text);
        CHECK(plan_footprint(plan) <= 65536, "%zu bytes", plan_footprint(plan));
        transfer(plan, &p->cache[member], to);
        plan_destroy(plan);
    }
    uint64_t wrong = reference_wrong(to, model.tokens);
    CHECK(wrong == 0, "%llu bytes wrong", (unsigned long long)wrong);
}

static void pair(void)
{
    static struct engine p, d;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    model.heads = 1 + rnd(8);
    model.layers = 1 + rnd(TENSORS_MAX < 4 ? TENSORS_MAX : 4);
    model.block_tokens = 1 + rnd(6);
    model.head_size = 1 + rnd(6);
    model.elem_bytes = 1u << rnd(3);
    model.planes = 1 + (rnd(4) > 0);
    model.tokens = 1 + rnd(24);
    engine_make(&p);
    engine_make(&d);
    for (uint32_t i = 0; i < p.num; i++)
        reference_fill(&p.cache[i], model.tokens);
    for (uint32_t i = 0; i < d.num; i++)
        consume(&p, &d, i);
    pairs++;
    uneven += p.tp % d.tp != 0 && d.tp % p.tp != 0;
    fewer += p.tp < d.tp && d.tp % p.tp == 0;
    more += p.tp > d.tp && p.tp % d.tp == 0;
    equal += p.tp == d.tp;
    replicated += p.tp > model.heads || d.tp > model.heads;
    staged += p.pp != d.pp || p.pp == 2;
    partial += model.tokens % model.block_tokens != 0;
    mixed_layouts += p.layout != d.layout;
    padded += p.padded || d.padded;
    engine_free(&p);
    engine_free(&d);
}

/* Every pair of small ranges: their common part is what both contain. */
static void intersections(void)
{
    for (uint32_t i = 0; i < 4096; i++) {
        struct plan_box a = {i & 7, i >> 3 & 7, 0, 1}, b = {i >> 6 & 7, i >> 9 & 7, 0, 1}, both;
        bool any = box_intersect(&a, &b, &both);
        uint32_t count = 0, first = 0;
        for (uint32_t l = 14; l-- > 0;)
            if (l >= a.layer_first && l < a.layer_first + a.layer_count && l >= b.layer_first &&
                l < b.layer_first + b.layer_count) {
                count++;
                first = l;
            }
        CHECK(any == (count > 0), "ranges %u", i);
        CHECK(!any || (both.layer_first == first && both.layer_count == count), "ranges %u", i);
    }
}

static uint64_t from_environment(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : preset;
}

int main(void)
{
    uint64_t count = from_environment("PLAN_PAIRS", 10000), first = from_environment("PLAN_SEED", 1);
    intersections();
    for (seed = first; seed < first + count; seed++)
        pair();
    printf("%llu pairs from seed %llu: equal TP %llu %%, P<D dividing %llu %%, P>D dividing %llu %%, not dividing %llu "
           "%%, "
           "replicated %llu %%, stages %llu %%, partial tail %llu %%, layouts differ %llu %%, padded %llu %%\n",
           (unsigned long long)pairs, (unsigned long long)first, (unsigned long long)(100 * equal / pairs),
           (unsigned long long)(100 * fewer / pairs), (unsigned long long)(100 * more / pairs),
           (unsigned long long)(100 * uneven / pairs), (unsigned long long)(100 * replicated / pairs),
           (unsigned long long)(100 * staged / pairs), (unsigned long long)(100 * partial / pairs),
           (unsigned long long)(100 * mixed_layouts / pairs), (unsigned long long)(100 * padded / pairs));
    return 0;
}
