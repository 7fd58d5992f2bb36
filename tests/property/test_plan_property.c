/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner against a naive reference over random pairs of engines: every wanted element arrives exactly once, from a
 * rank that holds it, and no other byte of the consumer is touched.
 *
 * Plays PLAN_PAIRS pairs (default 10,000) from number PLAN_SEED (default 1) on. If a pair fails, its number is printed:
 * PLAN_SEED=NUMBER PLAN_PAIRS=1 plays it again. Below stands the pair made small, unless PLAN_SHRINK is 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "with_pair.h"

#define SHARE_LEAST 5 /* percent of the pairs that each kind must have, if there are at least SHARE_PAIRS pairs */
#define SHARE_PAIRS 1000

static const struct pair pasted[] = {
#include "pasted.h"
};

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t rnd(uint32_t n)
{
    return pair_random(&random_state, n);
}

static bool one_in(uint32_t n)
{
    return rnd(n) == 0;
}

static void draw_layout(struct pair_side *s)
{
    if (one_in(4)) { /* any order of directions */
        for (uint32_t i = 0; i < DIRECTIONS; i++)
            s->nest[i] = rnd(DIRECTIONS - i);
    } else { /* as engines do: HND or NHD; planes beside the channels or apart; all layers in a block or not */
        uint32_t kv = rnd(3);
        s->nest[1] = kv == 0 ? 2 : rnd(2);
        s->nest[2] = kv == 0 ? rnd(2) : 0;
        s->nest[3] = kv == 1;
        s->nest[4] = rnd(2);
    }
    s->usual = one_in(3) ? 1 + rnd(16) : 0;
    for (uint32_t i = 0, gaps = one_in(4); i < DIRECTIONS; i++)
        s->pad[i] = gaps && one_in(2) ? rnd(4) : 0;
}

static void draw_side(const struct pair *p, struct pair_side *s, uint32_t block_tokens, bool hybrid)
{
    const uint32_t tp_most[] = {8, 8, 4, 3};
    s->pp = one_in(2) ? 1 : 1 + rnd(3);
    s->pp = s->pp < p->layers ? s->pp : p->layers;
    s->tp = 1 + rnd(tp_most[s->pp]);
    s->cut[0] = 1 + rnd(p->layers);
    s->cut[1] = s->cut[0] + 1 + rnd(p->layers);
    for (uint32_t i = 0; i < PAIR_SPLITS_MAX; i++)
        s->whole[i] = one_in(i == 0 ? 12 : 4);
    for (uint32_t i = 0; i < PAIR_TENSORS_MAX; i++)
        s->second[i] = one_in(hybrid ? 3 : 12);
    for (uint32_t i = 0; i < PAIR_SLOTS; i++) {
        s->block_tokens[i] = one_in(2) ? 1 + rnd(6) : block_tokens;
        s->late[i] = one_in(2) ? rnd(8) : 0;
    }
    s->spare = rnd(4);
    s->reversed = one_in(8);
    s->regions = one_in(4);
    s->holes = rnd(2);
    s->scatter = one_in(3) ? 0 : 1 + rnd(1000);
    s->places = one_in(3) ? 0 : 1 + rnd(1000);
    draw_layout(s);
}

static void draw_tensor(const struct pair *p, struct pair_tensor *t, uint32_t i, bool hybrid)
{
    t->layer = i < p->layers ? i : rnd(p->layers);
    t->kind = hybrid ? rnd(3) : BATON_KIND_FULL;
    t->split = one_in(2) ? rnd(p->num_splits) : 0;
    bool own = t->kind == BATON_KIND_STATE ? rnd(2) : one_in(10);
    if (own) {
        t->planes = rnd(6);
        t->head_size = rnd(7);
        t->elem_log = rnd(4);
    }
}

static void draw(uint64_t number, struct pair *p)
{
    random_state = number * 0x9e3779b97f4a7c15u + 1;
    bool hybrid = rnd(2);
    *p = (struct pair){.layers = 1 + rnd(5),
                       .tokens = 1 + rnd(28),
                       .planes = 1 + (rnd(4) > 0),
                       .head_size = 1 + rnd(4),
                       .elem_log = rnd(3),
                       .num_splits = one_in(2) ? 1 : 2 + rnd(2),
                       .walk = 1 + rnd(1u << 20)};
    p->held = one_in(3) ? rnd(p->tokens + 1) : 0;
    p->window = 1 + rnd(p->tokens + 1);
    for (uint32_t i = 0; i < p->num_splits; i++)
        p->heads[i] = i > 0 && rnd(2) ? 1 : 1 + rnd(8);
    p->num_tensors = p->layers + (one_in(3) ? rnd(3) : 0);
    if (p->num_tensors > PAIR_TENSORS_MAX)
        p->num_tensors = PAIR_TENSORS_MAX;
    for (uint32_t i = 0; i < p->num_tensors; i++)
        draw_tensor(p, &p->tensor[i], i, hybrid);
    uint32_t block_tokens = 1 + rnd(6);
    draw_side(p, &p->side[0], block_tokens, hybrid);
    draw_side(p, &p->side[1], block_tokens, hybrid);
    if (one_in(3)) { /* equal layouts, so that much merges */
        memcpy(p->side[1].nest, p->side[0].nest, sizeof p->side[0].nest);
        p->side[1].usual = p->side[0].usual;
        p->side[1].reversed = p->side[0].reversed;
    }
}

static void make_pasted(uint64_t number, struct pair *p)
{
    *p = pasted[number];
}

/* ---- how the pairs are spread ------------------------------------------------------------------------------------ */

static bool not_dividing(const struct pair *p)
{
    return p->side[0].tp % p->side[1].tp != 0 && p->side[1].tp % p->side[0].tp != 0;
}

static bool replicated(const struct pair *p)
{
    for (uint32_t i = 0; i < p->num_tensors; i++)
        for (uint32_t s = 0; s < 2; s++)
            if (p->side[s].tp > p->heads[p->tensor[i].split])
                return true;
    return false;
}

static bool cut_differently(const struct pair *p)
{
    return p->side[0].pp != p->side[1].pp || memcmp(p->side[0].cut, p->side[1].cut, sizeof p->side[0].cut) != 0;
}

static uint32_t tokens_of(const struct pair *p, uint32_t side, uint32_t tensor)
{
    return p->side[side].block_tokens[2 * p->tensor[tensor].kind + p->side[side].second[tensor]];
}

static bool blocks_differ(const struct pair *p)
{
    for (uint32_t i = 0; i < p->num_tensors; i++)
        if (tokens_of(p, 0, i) != tokens_of(p, 1, i))
            return true;
    return false;
}

static bool blocks_not_dividing(const struct pair *p)
{
    for (uint32_t i = 0; i < p->num_tensors; i++)
        if (tokens_of(p, 0, i) % tokens_of(p, 1, i) != 0 && tokens_of(p, 1, i) % tokens_of(p, 0, i) != 0)
            return true;
    return false;
}

static bool partial_tail(const struct pair *p)
{
    for (uint32_t i = 0; i < p->num_tensors; i++)
        if (p->tensor[i].kind != BATON_KIND_STATE && p->tokens % tokens_of(p, 1, i) != 0)
            return true;
    return false;
}

static bool hybrid(const struct pair *p)
{
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 1; i < p->num_tensors; i++)
            if (p->tensor[i].kind != p->tensor[0].kind || p->side[s].second[i] != p->side[s].second[0])
                return true;
    return false;
}

static bool grouped_differently(const struct pair *p)
{
    return memcmp(p->side[0].second, p->side[1].second, sizeof p->side[0].second) != 0;
}

static bool of_kind(const struct pair *p, uint32_t kind)
{
    for (uint32_t i = 0; i < p->num_tensors; i++)
        if (p->tensor[i].kind == kind)
            return true;
    return false;
}

static bool window(const struct pair *p)
{
    return of_kind(p, BATON_KIND_WINDOW) && p->window < p->tokens - p->held;
}

static bool state(const struct pair *p)
{
    return of_kind(p, BATON_KIND_STATE);
}

static bool several_splits(const struct pair *p)
{
    for (uint32_t i = 1; i < p->num_tensors; i++)
        if (p->tensor[i].split != p->tensor[0].split)
            return true;
    return false;
}

static bool held(const struct pair *p)
{
    return p->held > 0;
}

static bool late(const struct pair *p)
{
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < PAIR_SLOTS; i++)
            if (p->side[s].late[i] > 0 && (p->held > 0 || (i / 2 == BATON_KIND_WINDOW && window(p))))
                return true;
    return false;
}

static bool layouts_differ(const struct pair *p)
{
    return memcmp(p->side[0].nest, p->side[1].nest, sizeof p->side[0].nest) != 0;
}

static bool padded(const struct pair *p)
{
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < DIRECTIONS; i++)
            if (p->side[s].pad[i] > 0)
                return true;
    return false;
}

/* Prints the share of each kind. False: one is too small, though there are SHARE_PAIRS pairs. */
static bool shares(uint64_t first, uint64_t count)
{
    const struct {
        const char *name;
        bool (*of)(const struct pair *p);
    } kind[] = {
        {"TP not dividing", not_dividing},
        {"replicated heads", replicated},
        {"PP cut differently", cut_differently},
        {"block sizes differ", blocks_differ},
        {"block sizes not dividing", blocks_not_dividing},
        {"partial tail", partial_tail},
        {"hybrid", hybrid},
        {"grouped differently", grouped_differently},
        {"window", window},
        {"state", state},
        {"several splits", several_splits},
        {"held prefix", held},
        {"late tables", late},
        {"layouts differ", layouts_differ},
        {"padded", padded},
    };
    uint64_t num[sizeof kind / sizeof kind[0]] = {0};
    bool enough = true;
    for (uint64_t i = 0; i < count; i++) {
        struct pair p;
        draw(first + i, &p);
        pair_mend(&p);
        for (unsigned k = 0; k < sizeof kind / sizeof kind[0]; k++)
            num[k] += kind[k].of(&p);
    }
    printf("%llu pairs from number %llu:", (unsigned long long)count, (unsigned long long)first);
    for (unsigned k = 0; k < sizeof kind / sizeof kind[0]; k++) {
        printf("%s %s %.1f %%", k > 0 ? "," : "", kind[k].name, 100.0 * (double)num[k] / (double)count);
        enough &= num[k] * 100 >= count * SHARE_LEAST;
    }
    printf("\n");
    if (!enough && count >= SHARE_PAIRS)
        printf("a kind has less than %d %% of the pairs\n", SHARE_LEAST);
    return enough || count < SHARE_PAIRS;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* Of every pair of small ranges, the intersection is what both contain. */
static void intersections(void)
{
    for (uint32_t i = 0; i < 4096; i++) {
        struct plan_box a = {i & 7, i >> 3 & 7, 0, 1, 0}, b = {i >> 6 & 7, i >> 9 & 7, 0, 1, 0}, both;
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

/* Among equally near replicas, none serves more than its share, rounded up; farther ones serve nothing. */
static void balance(void)
{
    for (uint32_t i = 0; i < 2000; i++) {
        struct plan_member member[16], me;
        uint32_t n = 1 + rnd(8), away = rnd(8), m = 1 + rnd(24), load[16] = {0};
        for (uint32_t k = 0; k < n + away; k++)
            member[k] = (struct plan_member){
                .box = {{0, 3, 0, 2, 0}, {0, 3, 0, 1, 1}}, .num_boxes = 2, .node = k < n ? 1 : 2, .package = 3};
        me = member[0];
        for (uint32_t index = 0; index < m; index++) {
            struct plan_source part[4];
            struct plan_why why;
            CHECK(plan_sources(&me, index, 0, member, n + away, part, 4, &why) == 2, "%s", why.text);
            CHECK(part[0].member == part[1].member && part[0].member < n,
                  "the parts do not come from one of the nearest replicas");
            load[part[0].member]++;
        }
        for (uint32_t k = 0; k < n; k++)
            CHECK(load[k] <= (m + n - 1) / n, "%u of %u consumers at one of %u replicas", load[k], m, n);
    }
}

int main(void)
{
    uint64_t count = pairs_setting("PLAN_PAIRS", 10000), first = pairs_setting("PLAN_SEED", 1);
    intersections();
    balance();
    bool good = shares(first, count) && pairs_play(make_pasted, 0, sizeof pasted / sizeof pasted[0]) &&
                pairs_play(draw, first, count);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
