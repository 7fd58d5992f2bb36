/* SPDX-License-Identifier: BSD-3-Clause */
/* pair: see with_pair.h. */
#include "with_pair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "with_reference.h"

#define PARTS_MAX 256
#define UNKNOWN UINT32_MAX /* a place */
#define RUNS_MAX 8

struct engine {
    uint32_t num;
    struct reference_cache cache[PAIR_RANKS_MAX];
    struct plan_member member[PAIR_RANKS_MAX];
};

static bool quiet;

void pair_be_quiet(void)
{
    quiet = true;
}

void pair_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!quiet) {
        printf("%s:%d: %s: ", file, line, condition);
        vprintf(format, args);
        printf("\n");
        fflush(stdout);
    }
    va_end(args);
    _exit(1);
}

uint32_t pair_random(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = (*state ^ *state >> 22) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(x >> 33) % n;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static void within(uint32_t *v, uint32_t least, uint32_t most)
{
    *v = *v < least ? least : *v > most ? most : *v;
}

static void side_mend(const struct pair *p, struct pair_side *s)
{
    within(&s->pp, 1, p->layers < 3 ? p->layers : 3);
    within(&s->tp, 1, PAIR_RANKS_MAX / 3);
    within(&s->cut[0], 1, p->layers - s->pp + 1);
    within(&s->cut[1], s->cut[0] + 1, p->layers - 1);
    s->cut[0] = s->pp > 1 ? s->cut[0] : 0;
    s->cut[1] = s->pp > 2 ? s->cut[1] : 0;
    for (uint32_t i = 0; i < PAIR_SPLITS_MAX; i++)
        s->whole[i] = i < p->num_splits && s->whole[i] > 0;
    for (uint32_t i = 0; i < PAIR_TENSORS_MAX; i++)
        s->second[i] = i < p->num_tensors && s->second[i] > 0;
    for (uint32_t i = 0; i < PAIR_SLOTS; i++) {
        bool used = false;
        for (uint32_t t = 0; t < p->num_tensors; t++)
            used |= 2 * p->tensor[t].kind + s->second[t] == i;
        within(&s->block_tokens[i], 1, i / 2 == BATON_KIND_STATE ? 1 : 64);
        within(&s->late[i], 0, i / 2 == BATON_KIND_STATE ? 0 : 64);
        s->block_tokens[i] = used ? s->block_tokens[i] : 0;
        s->late[i] = used ? s->late[i] : 0;
    }
    within(&s->spare, 0, 3);
    within(&s->usual, 0, 16);
    unsigned bits = s->usual > 0 ? s->usual - 1 : 0;
    if ((bits & BATON_LAYOUT_KV_BLOCK) && (bits & BATON_LAYOUT_KV_FUSED))
        s->usual = 0;
    for (uint32_t i = 0; i < DIRECTIONS; i++) {
        within(&s->nest[i], 0, DIRECTIONS - 1 - i);
        within(&s->pad[i], 0, 3);
    }
    for (uint32_t *flag = &s->reversed; flag <= &s->holes; flag++)
        within(flag, 0, 1);
}

void pair_mend(struct pair *p)
{
    within(&p->layers, 1, 8);
    within(&p->tokens, 1, 256);
    within(&p->held, 0, p->tokens);
    within(&p->planes, 1, 2);
    within(&p->head_size, 1, 8);
    within(&p->elem_log, 0, 3);
    within(&p->num_splits, 1, PAIR_SPLITS_MAX);
    for (uint32_t i = 0; i < PAIR_SPLITS_MAX; i++) {
        within(&p->heads[i], 1, 16);
        p->heads[i] = i < p->num_splits ? p->heads[i] : 0;
    }
    within(&p->num_tensors, p->layers, PAIR_TENSORS_MAX);
    within(&p->layers, 1, p->num_tensors);
    for (uint32_t i = 0; i < PAIR_TENSORS_MAX; i++) {
        struct pair_tensor *t = &p->tensor[i];
        if (i < p->layers)
            t->layer = i; /* so that each stage has a tensor */
        within(&t->layer, 0, p->layers - 1);
        within(&t->kind, 0, BATON_KIND_STATE);
        within(&t->split, 0, p->num_splits - 1);
        within(&t->planes, 0, 6);
        within(&t->head_size, 0, 8);
        within(&t->elem_log, 0, 4);
        if (i >= p->num_tensors)
            *t = (struct pair_tensor){0};
    }
    bool window = false;
    for (uint32_t i = 0; i < p->num_tensors; i++)
        window |= p->tensor[i].kind == BATON_KIND_WINDOW;
    within(&p->window, window, window ? 256 : 0);
    side_mend(p, &p->side[0]);
    side_mend(p, &p->side[1]);
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

static uint32_t slot_of(const struct pair *p, const struct pair_side *s, uint32_t tensor)
{
    return 2 * p->tensor[tensor].kind + s->second[tensor];
}

/* Writes the slots in use, in the order of the side's groups. Returns their number. */
static uint32_t slots_of(const struct pair *p, const struct pair_side *s, uint32_t slot[PAIR_SLOTS])
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < PAIR_SLOTS; k++) {
        uint32_t i = s->reversed ? PAIR_SLOTS - 1 - k : k;
        for (uint32_t t = 0; t < p->num_tensors; t++)
            if (slot_of(p, s, t) == i) {
                slot[n++] = i;
                break;
            }
    }
    return n;
}

/* Finds where the wanted tokens of a slot begin and end, token by token. */
static void wanted_of(const struct pair *p, uint32_t slot, uint32_t *first, uint32_t *end)
{
    const baton_group_t group = {.kind = (baton_kind_t)(slot / 2), .window_tokens = p->window};
    *first = *end = 0;
    for (uint32_t t = p->tokens; t-- > 0;)
        if (reference_wanted(&group, t, p->held, p->tokens)) {
            *first = t;
            *end = *end > 0 ? *end : t + 1;
        }
}

static void groups_make(struct reference_cache *c, const struct pair *p, const struct pair_side *s, uint64_t *random)
{
    uint32_t slot[PAIR_SLOTS], n = slots_of(p, s, slot), num_ids = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first, end, bt = s->block_tokens[slot[i]], state = slot[i] / 2 == BATON_KIND_STATE;
        wanted_of(p, slot[i], &first, &end);
        uint32_t late = s->late[slot[i]] < first / bt ? s->late[slot[i]] : first / bt;
        uint32_t need = end > late * bt ? (end - late * bt + bt - 1) / bt : 0;
        c->tables[i] = (baton_table_t){.num_blocks = need + (state ? 0 : s->spare % 2),
                                       .first_token = late * bt}; /* .blocks follows */
        c->geometry.groups[i] = (baton_group_t){.kind = (baton_kind_t)(slot[i] / 2),
                                                .block_tokens = bt,
                                                .num_blocks = c->tables[i].num_blocks + s->spare + 1,
                                                .window_tokens = slot[i] / 2 == BATON_KIND_WINDOW ? p->window : 0};
        num_ids += c->geometry.groups[i].num_blocks;
    }
    uint32_t *ids = c->ids = malloc(num_ids * sizeof *ids);
    for (uint32_t i = 0; i < n; ids += c->geometry.groups[i++].num_blocks) {
        uint32_t first, end, num = c->geometry.groups[i].num_blocks, bt = c->geometry.groups[i].block_tokens;
        for (uint32_t b = 0; b < num; b++)
            ids[b] = b;
        for (uint32_t b = s->scatter ? num : 0; b > 1; b--) {
            uint32_t k = pair_random(random, b), swap = ids[k];
            ids[k] = ids[b - 1];
            ids[b - 1] = swap;
        }
        c->tables[i].blocks = ids;
        wanted_of(p, slot[i], &first, &end);
        for (uint32_t b = 0; s->holes && b < c->tables[i].num_blocks; b++)
            if (c->tables[i].first_token + (b + 1) * bt <= first || c->tables[i].first_token + b * bt >= end)
                ids[b] = UINT32_MAX;
    }
    c->geometry.num_groups = n;
}

static void splits_make(struct reference_cache *c, const struct pair *p, const struct pair_side *s, uint32_t tp_rank)
{
    for (uint32_t i = 0; i < p->num_splits; i++) {
        uint32_t heads = p->heads[i], first = tp_rank * heads / s->tp, end = (tp_rank + 1) * heads / s->tp;
        if (s->whole[i]) {
            first = 0;
            end = heads;
        } else if (s->tp > heads) { /* replicas */
            end = first + 1;
        }
        c->geometry.splits[i] = (baton_split_t){heads, first, end - first};
    }
    c->geometry.num_splits = p->num_splits;
}

static bool alike(const baton_tensor_t *a, const baton_tensor_t *b)
{
    return a->group == b->group && a->split == b->split && a->planes == b->planes && a->head_size == b->head_size &&
           a->elem_bytes == b->elem_bytes;
}

static void tensors_name(struct reference_cache *c, const struct pair *p, const struct pair_side *s)
{
    uint32_t slot[PAIR_SLOTS], slots = slots_of(p, s, slot), n = 0;
    const baton_geometry_t *g = &c->geometry;
    for (uint32_t k = 0; k < p->num_tensors; k++) {
        uint32_t i = s->reversed ? p->num_tensors - 1 - k : k, group = 0;
        const struct pair_tensor *t = &p->tensor[i];
        if (t->layer < g->layer_first || t->layer >= g->layer_first + g->layer_count)
            continue;
        for (uint32_t x = 0; x < slots; x++)
            group = slot[x] == slot_of(p, s, i) ? x : group;
        c->tensors[n] = (baton_tensor_t){.layer = t->layer,
                                         .group = group,
                                         .split = t->split,
                                         .planes = t->planes,
                                         .head_size = t->head_size,
                                         .elem_bytes = t->elem_log > 0 ? 1u << (t->elem_log - 1) : 0};
        snprintf(c->tensors[n++].name, BATON_NAME_MAX, "tensor %u", i);
    }
    c->geometry.tensors = c->tensors;
    c->geometry.num_tensors = n;
}

/* Lays out all tensors that are like number `i`, from offset `at` on. Returns the offset behind them. */
static uint64_t tensors_nest(struct reference_cache *c, const struct pair_side *s, uint32_t i, uint32_t region,
                             uint64_t at)
{
    const baton_geometry_t *g = &c->geometry;
    baton_tensor_t like = c->tensors[i];
    const baton_group_t *group = &c->geometry.groups[like.group];
    uint32_t same = 0, place = 0, elem = like.elem_bytes > 0 ? like.elem_bytes : g->elem_bytes;
    for (uint32_t k = 0; k < g->num_tensors; k++)
        same += alike(&c->tensors[k], &like);
    const uint32_t count[DIRECTIONS] = {[BY_CHANNEL] = like.head_size > 0 ? like.head_size : g->head_size,
                                        [BY_TOKEN] = group->block_tokens,
                                        [BY_HEAD] = c->geometry.splits[like.split].head_count,
                                        [BY_PLANE] = like.planes > 0 ? like.planes : g->planes,
                                        [BY_BLOCK] = group->num_blocks,
                                        [BY_TENSOR] = same};
    uint32_t left[DIRECTIONS] = {BY_CHANNEL, BY_TOKEN, BY_HEAD, BY_PLANE, BY_BLOCK, BY_TENSOR};
    uint64_t stride[DIRECTIONS], bytes = elem;
    for (uint32_t k = 0; k < DIRECTIONS; k++) {
        uint32_t next = left[s->nest[k]];
        memmove(&left[s->nest[k]], &left[s->nest[k] + 1], (DIRECTIONS - 1 - s->nest[k]) * sizeof left[0]);
        stride[next] = bytes;
        bytes = bytes * count[next] + (uint64_t)s->pad[next] * elem;
    }
    for (uint32_t k = 0; k < g->num_tensors; k++)
        if (alike(&c->tensors[k], &like)) {
            c->tensors[k].region = region;
            c->tensors[k].offset = at + place++ * stride[BY_TENSOR];
            c->tensors[k].stride =
                (baton_strides_t){(int64_t)stride[BY_BLOCK], (int64_t)stride[BY_PLANE], (int64_t)stride[BY_HEAD],
                                  (int64_t)stride[BY_TOKEN], (int64_t)stride[BY_CHANNEL]};
        }
    return at + bytes;
}

static void tensors_place(struct reference_cache *c, const struct pair_side *s)
{
    uint64_t at = s->pad[BY_TENSOR];
    for (uint32_t i = 0; i < c->geometry.num_tensors; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i; k++)
            first &= !alike(&c->tensors[k], &c->tensors[i]);
        if (!first)
            continue;
        if (s->regions || i == 0) {
            c->region_at[c->num_regions++] = c->bytes;
            at = s->pad[BY_TENSOR];
        }
        at = tensors_nest(c, s, i, c->num_regions - 1, at);
        c->region_bytes[c->num_regions - 1] = at;
        c->bytes = c->region_at[c->num_regions - 1] + at;
    }
}

/* Lays out by baton_geometry_layout, which knows only full attention with one tensor a layer. False: not possible. */
static bool tensors_usual(struct reference_cache *c, const struct pair_side *s)
{
    baton_geometry_t *g = &c->geometry;
    baton_tensor_t own[REFERENCE_TENSORS_MAX];
    if (s->usual == 0 || s->reversed || g->num_tensors != g->layer_count ||
        c->geometry.groups[0].kind != BATON_KIND_FULL)
        return false;
    for (uint32_t i = 0; i < g->num_tensors; i++)
        if (c->tensors[i].planes + c->tensors[i].head_size + c->tensors[i].elem_bytes + c->tensors[i].group +
                c->tensors[i].split >
            0)
            return false;
    memcpy(own, c->tensors, sizeof own);
    g->size = sizeof *g;
    CHECK(baton_geometry_layout(g, c->tensors, s->usual - 1) == 0, "%s", baton_errmsg());
    for (uint32_t i = 0; i < g->num_tensors; i++)
        memcpy(c->tensors[i].name, own[i].name, BATON_NAME_MAX);
    c->num_regions = 1;
    c->region_bytes[0] = c->bytes = g->bytes;
    return true;
}

static void rank_make(struct engine *e, uint32_t i, const struct pair *p, const struct pair_side *s, uint64_t *random)
{
    struct reference_cache *c = &e->cache[i];
    const uint32_t begin[] = {0, s->cut[0], s->cut[1]}, stage = i / s->tp;
    struct plan_why why = {{0}};
    *c = (struct reference_cache){.geometry = {.model = "m",
                                               .dtype = "x",
                                               .elem_bytes = 1u << p->elem_log,
                                               .planes = p->planes,
                                               .head_size = p->head_size,
                                               .layers_total = p->layers,
                                               .layer_first = begin[stage]}};
    c->geometry.layer_count = (stage + 1 < s->pp ? begin[stage + 1] : p->layers) - begin[stage];
    groups_make(c, p, s, random);
    splits_make(c, p, s, i % s->tp);
    tensors_name(c, p, s);
    if (!tensors_usual(c, s))
        tensors_place(c, s);
    c->geometry.bytes = c->region_bytes[0];
    CHECK(geometry_check(&c->geometry, c->region_bytes, c->num_regions, &why) == 0, "%s", why.text);
    c->memory = malloc(c->bytes);
    memset(c->memory, 0xa5, c->bytes);
    c->writes = calloc(1, c->bytes);
    e->member[i] = (struct plan_member){0};
    e->member[i].num_boxes = plan_boxes(&c->geometry, e->member[i].box);
    if (s->places) {
        e->member[i].node = pair_random(random, 2);
        e->member[i].package = pair_random(random, 5) > 0 ? pair_random(random, 2) : UNKNOWN;
        e->member[i].numa = pair_random(random, 5) > 0 ? pair_random(random, 2) : UNKNOWN;
    }
}

static void engine_make(struct engine *e, const struct pair *p, const struct pair_side *s, uint64_t *random)
{
    e->num = s->tp * s->pp;
    for (uint32_t i = 0; i < e->num; i++)
        rank_make(e, i, p, s, random);
}

static void engine_free(struct engine *e)
{
    for (uint32_t i = 0; i < e->num; i++) {
        free(e->cache[i].memory);
        free(e->cache[i].writes);
        free(e->cache[i].ids);
    }
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void run_copy(const struct plan_run *r, const struct reference_cache *from, struct reference_cache *to)
{
    CHECK(r->src_region < from->num_regions && r->dst_region < to->num_regions, "regions %u and %u", r->src_region,
          r->dst_region);
    CHECK(r->src + r->bytes <= from->region_bytes[r->src_region] && r->src + r->bytes > r->src &&
              r->dst + r->bytes <= to->region_bytes[r->dst_region] && r->dst + r->bytes > r->dst,
          "outside");
    uint64_t src = from->region_at[r->src_region] + r->src, dst = to->region_at[r->dst_region] + r->dst;
    for (uint64_t k = 0; k < r->bytes; k++) {
        to->memory[dst + k] = from->memory[src + k];
        to->writes[dst + k]++;
    }
}

/* A hash of one side's addresses that does not depend on where runs were cut. */
struct track {
    uint64_t hash, begin, end;
};

static void track_add(struct track *t, uint32_t region, uint64_t at, uint64_t bytes)
{
    at |= (uint64_t)region << 48;
    if (at != t->end) {
        t->hash = (t->hash ^ t->begin) * 0x9e3779b97f4a7c15u;
        t->hash = (t->hash ^ t->end) * 0x9e3779b97f4a7c15u;
        t->hash ^= t->hash >> 29;
        t->begin = at;
    }
    t->end = at + bytes;
}

static uint64_t track_end(struct track *t)
{
    track_add(t, 0, UINT64_MAX, 0);
    return t->hash;
}

struct move {
    const struct pair *pair;
    const struct plan *plan;
    const struct reference_cache *from;
    struct reference_cache *to;
    struct plan_transfer t, src_only, dst_only;
    uint64_t random;
};

/* Walks `bytes` bytes from a cursor on, with odd budgets. `copy`: copies them too. Returns the bytes passed. */
static uint64_t walk(struct move *m, const struct plan_transfer *t, struct plan_cursor *at, uint64_t bytes, bool copy,
                     struct track *src, struct track *dst)
{
    struct plan_run run[RUNS_MAX];
    uint64_t passed = 0;
    while (passed < bytes) {
        uint64_t left = bytes - passed, budget = left, sum = 0;
        uint32_t max = RUNS_MAX;
        if (m->pair->walk > 0) {
            max = 1 + pair_random(&m->random, RUNS_MAX);
            if (pair_random(&m->random, 3) == 0)
                budget = 1 + pair_random(&m->random, left < 300 ? (uint32_t)left : 300);
        }
        uint32_t n = plan_next(t, at, run, max, budget);
        CHECK(n > 0 && n <= max, "%u runs with %llu bytes left", n, (unsigned long long)left);
        for (uint32_t i = 0; i < n; i++) {
            if (copy)
                run_copy(&run[i], m->from, m->to);
            track_add(src, run[i].src_region, run[i].src, run[i].bytes);
            track_add(dst, run[i].dst_region, run[i].dst, run[i].bytes);
            sum += run[i].bytes;
        }
        CHECK(sum > 0 && sum <= budget, "%llu bytes for a budget of %llu", (unsigned long long)sum,
              (unsigned long long)budget);
        passed += sum;
    }
    return passed;
}

/* No unit has more bytes: those of the largest block's tokens in the piece with the most bytes a token. */
static uint64_t unit_most(const struct move *m)
{
    uint64_t bytes = 0, tokens = 0;
    for (uint32_t i = 0; i < plan_num_pieces(m->plan); i++)
        bytes = bytes > plan_token_bytes(m->plan, i) ? bytes : plan_token_bytes(m->plan, i);
    for (uint32_t i = 0; i < m->to->geometry.num_tensors; i++) {
        uint32_t block_tokens = reference_group(m->to, &m->to->tensors[i]).block_tokens;
        tokens = tokens > block_tokens ? tokens : block_tokens;
    }
    return bytes * tokens;
}

/* Moves in slices of plan_skip, each by plan_next, as copy workers do. */
static uint64_t by_slices(struct move *m)
{
    struct plan_cursor behind = {0}, at = {0};
    struct track unused = {0};
    uint64_t moved = 0, slice, most = UINT64_MAX;
    for (;;) {
        if (m->pair->walk > 0)
            most = 1 + pair_random(&m->random, pair_random(&m->random, 2) ? 64 : 5000);
        if ((slice = plan_skip(&m->t, &behind, most)) == 0)
            break;
        CHECK(slice <= most || slice <= unit_most(m), "a slice of %llu bytes", (unsigned long long)slice);
        moved += walk(m, &m->t, &at, slice, true, &unused, &unused);
        CHECK(memcmp(&at, &behind, sizeof at) == 0, "slices and runs disagree");
        uint32_t times = m->pair->walk > 0 ? pair_random(&m->random, 3) : 0;
        for (; times > 0; times--) { /* so that the next slice begins anywhere in a unit */
            uint64_t few = 1 + pair_random(&m->random, 40);
            few = few < m->t.bytes - moved ? few : m->t.bytes - moved;
            moved += walk(m, &m->t, &at, few, true, &unused, &unused);
            plan_pass(&m->t, &behind, few);
            CHECK(memcmp(&at, &behind, sizeof at) == 0, "bytes passed and runs disagree");
        }
    }
    CHECK(plan_at_end(&m->t, &behind), "not at the end");
    return moved;
}

/* The number of parts, counted token by token over the tensors that the plan takes. */
static uint32_t parts_count(const struct move *m, const struct plan_box *boxes, uint32_t num_boxes)
{
    uint32_t n = 0;
    bool seen[BATON_GROUPS_MAX][BATON_GROUPS_MAX] = {{false}};
    for (uint32_t i = 0; i < m->to->geometry.num_tensors; i++)
        for (uint32_t k = 0; k < m->from->geometry.num_tensors; k++) {
            const baton_tensor_t *a = &m->from->tensors[k], *b = &m->to->tensors[i];
            bool taken = false;
            for (uint32_t x = 0; x < num_boxes; x++)
                taken |= boxes[x].split == b->split && b->layer >= boxes[x].layer_first &&
                         b->layer < boxes[x].layer_first + boxes[x].layer_count;
            if (!taken || strcmp(a->name, b->name) != 0 || seen[a->group][b->group])
                continue;
            seen[a->group][b->group] = true;
            const baton_group_t ga = reference_group(m->from, a), gb = reference_group(m->to, b);
            uint32_t larger = ga.block_tokens > gb.block_tokens ? ga.block_tokens : gb.block_tokens, last = UINT32_MAX;
            for (uint32_t t = 0; t < m->pair->tokens; t++)
                if (reference_wanted(&gb, t, m->pair->held, m->pair->tokens) && t / larger != last) {
                    last = t / larger;
                    n++;
                }
        }
    return n;
}

/* Moves part by part and piece by piece, as hashes are made. A walk of one side alone must see the same addresses. */
static uint64_t by_parts(struct move *m, bool copy)
{
    uint64_t moved = 0;
    struct track src = {0}, dst = {0}, unused = {0}, src_alone = {0}, dst_alone = {0};
    for (uint32_t part = 0; part < plan_num_parts(&m->t); part++)
        for (uint32_t piece = 0; piece < plan_num_pieces(m->plan); piece++) {
            struct plan_cursor at, from_at, to_at;
            uint64_t bytes = plan_part(&m->t, part, piece, &at);
            CHECK(plan_part(&m->src_only, part, piece, &from_at) == bytes, "the producer's part has other bytes");
            CHECK(plan_part(&m->dst_only, part, piece, &to_at) == bytes, "the consumer's part has other bytes");
            walk(m, &m->t, &at, bytes, copy, &src, &dst);
            walk(m, &m->src_only, &from_at, bytes, false, &src_alone, &unused);
            walk(m, &m->dst_only, &to_at, bytes, false, &unused, &dst_alone);
            moved += bytes;
        }
    CHECK(track_end(&src) == track_end(&src_alone), "the producer alone sees other bytes");
    CHECK(track_end(&dst) == track_end(&dst_alone), "the consumer alone sees other bytes");
    return moved;
}

static struct plan_tables tables_of(const struct reference_cache *c)
{
    struct plan_tables t = {.num = c->geometry.num_groups};
    memcpy(t.table, c->tables, sizeof t.table);
    return t;
}

/* A producer's tables when the tokens before `end` are there: only the blocks that these need. */
static struct plan_tables tables_so_far(const struct reference_cache *c, uint32_t end, uint32_t tokens)
{
    struct plan_tables t = tables_of(c);
    for (uint32_t i = 0; i < t.num; i++) {
        const baton_group_t g = c->geometry.groups[i];
        uint32_t first = t.table[i].first_token,
                 n = end > first ? (end - first + g.block_tokens - 1) / g.block_tokens : 0;
        if (g.kind == BATON_KIND_STATE)
            n = end == tokens;
        if (t.table[i].num_blocks > n)
            t.table[i].num_blocks = n;
    }
    return t;
}

/* Moves chunk by chunk, as prefill goes on. */
static uint64_t by_chunks(struct move *m)
{
    const struct plan_tables dst = tables_of(m->to);
    const uint32_t tokens = m->pair->tokens;
    struct track unused = {0};
    struct plan_why why = {{0}};
    uint64_t moved = 0;
    for (uint32_t at = m->pair->held, end; at < tokens; at = end) {
        struct plan_transfer t;
        struct plan_cursor c = {0};
        end = at + 1 + (uint32_t)pair_random(&m->random, tokens - at);
        const struct plan_tables src = tables_so_far(m->from, end, tokens);
        CHECK(plan_transfer_chunk(&t, m->plan, at, end, tokens, &src, &dst, &why) == 0, "%s", why.text);
        moved += walk(m, &t, &c, t.bytes, true, &unused, &unused);
        CHECK(plan_at_end(&t, &c), "not at the end of a chunk");
    }
    return moved;
}

static void transfer(struct move *m, const struct plan_box *boxes, uint32_t num_boxes)
{
    struct plan_tables src = tables_of(m->from), dst = tables_of(m->to);
    const uint32_t held = m->pair->held, tokens = m->pair->tokens;
    struct plan_why why = {{0}};
    CHECK(plan_transfer_init(&m->t, m->plan, held, tokens, &src, &dst, &why) == 0, "%s", why.text);
    CHECK(plan_transfer_init(&m->src_only, m->plan, held, tokens, &src, NULL, &why) == 0, "%s", why.text);
    CHECK(plan_transfer_init(&m->dst_only, m->plan, held, tokens, NULL, &dst, &why) == 0, "%s", why.text);
    CHECK(m->src_only.bytes == m->t.bytes && m->dst_only.bytes == m->t.bytes, "the sides see other sizes");
    uint32_t parts = parts_count(m, boxes, num_boxes);
    CHECK(plan_num_parts(&m->t) == parts, "%u parts instead of %u", plan_num_parts(&m->t), parts);
    uint64_t moved = m->pair->walk % 4 == 3 ? by_chunks(m) : m->pair->walk % 2 ? by_slices(m) : by_parts(m, true);
    CHECK(moved == m->t.bytes, "%llu of %llu bytes", (unsigned long long)moved, (unsigned long long)m->t.bytes);
}

/* ---- who serves -------------------------------------------------------------------------------------------------- */

static uint32_t far(const struct plan_member *a, const struct plan_member *b)
{
    bool one_numa = a->numa == b->numa && a->numa < UNKNOWN,
         one_package = a->package == b->package && a->package < UNKNOWN;
    return a->node != b->node ? 3 : one_numa ? 0 : one_package ? 1 : 2;
}

/* Each source must be a rank that holds the box, no nearer rank may hold it too, and ties are spread by index. */
static void check_choice(const struct engine *e, const struct plan_member *me, uint32_t index,
                         const struct plan_source *s)
{
    uint32_t ties = 0, place = 0;
    for (uint32_t i = 0; i < e->num; i++) {
        const struct plan_box *b = &e->member[i].box[s->box.split];
        if (b->layer_first > s->box.layer_first ||
            b->layer_first + b->layer_count < s->box.layer_first + s->box.layer_count ||
            b->head_first > s->box.head_first || b->head_first + b->head_count < s->box.head_first + s->box.head_count)
            continue;
        CHECK(far(me, &e->member[i]) >= far(me, &e->member[s->member]), "a nearer rank holds it");
        if (far(me, &e->member[i]) == far(me, &e->member[s->member])) {
            place = i == s->member ? ties : place;
            ties++;
        }
    }
    CHECK(ties > 0, "its source does not hold it");
    uint32_t turn = 0; /* the sum of the index's digits, to the base of the number of ties */
    for (uint32_t rest = index; rest > 0; rest /= ties > 1 ? ties : rest + 1)
        turn += rest % (ties > 1 ? ties : rest + 1);
    CHECK(place == turn % ties, "not its turn");
}

static void consume(const struct pair *p, const struct engine *from, struct engine *to, uint32_t index)
{
    struct plan_source part[PARTS_MAX];
    struct plan_why why = {{0}};
    struct reference_cache *mine = &to->cache[index];
    int n = plan_sources(&to->member[index], index, 0, from->member, from->num, part, PARTS_MAX, &why);
    CHECK(n > 0, "%d: %s", n, why.text);
    for (int i = 0; i < n;) {
        struct plan_box boxes[PARTS_MAX];
        struct plan *plan;
        uint32_t k = 0, member = part[i].member;
        const struct reference_cache *theirs = &from->cache[member];
        CHECK(i == 0 || part[i - 1].member < member, "parts are not in order of member");
        CHECK(plan_members_share(&to->member[index], &from->member[member]), "a source that shares nothing");
        for (; i < n && part[i].member == member; i++) {
            check_choice(from, &to->member[index], index, &part[i]);
            boxes[k++] = part[i].box;
        }
        CHECK(geometry_match(&theirs->geometry, &mine->geometry, &why) == 0, "%s", why.text);
        CHECK(plan_compile(&theirs->geometry, &mine->geometry, boxes, k, &plan, &why) == 0, "%s", why.text);
        CHECK(plan_footprint(plan) <= 65536, "%zu bytes", plan_footprint(plan));
        struct move m = {.pair = p, .plan = plan, .from = theirs, .to = mine, .random = p->walk + index};
        transfer(&m, boxes, k);
        plan_destroy(plan);
    }
    uint64_t wrong = reference_wrong(mine, p->held, p->tokens);
    CHECK(wrong == 0, "%llu bytes wrong at consumer %u", (unsigned long long)wrong, index);
}

void pair_check(const struct pair *p)
{
    static struct engine from, to;
    uint64_t random =
        p->side[0].scatter * 65537u + p->side[1].scatter * 257u + p->side[0].places * 17u + p->side[1].places;
    engine_make(&from, p, &p->side[0], &random);
    engine_make(&to, p, &p->side[1], &random);
    for (uint32_t i = 0; i < from.num; i++)
        reference_fill(&from.cache[i], p->held, p->tokens);
    for (uint32_t i = 0; i < to.num; i++)
        consume(p, &from, &to, i);
    engine_free(&from);
    engine_free(&to);
}
