/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * geometry: whether a cache's description is sound, whether two caches may exchange entries, whether a block table has
 * what a request needs, and the usual layouts. Any thread; pure functions. A description or a table that comes from
 * another rank may be hostile: every sum and product is checked for overflow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "plan/plan.h"

#define BYTES_MOST (UINT64_C(1) << 62)

static int why_set(int error, const char *field, uint64_t value, const char *rule, struct plan_why *why)
{
    snprintf(why->text, sizeof why->text, "%s is %" PRIu64 ": %s", field, value, rule);
    return error;
}

static int why_item(const char *item, uint32_t index, const char *rule, struct plan_why *why)
{
    snprintf(why->text, sizeof why->text, "%s %" PRIu32 ": %s", item, index, rule);
    return BATON_EINVAL;
}

struct plan_extent geometry_extent(const baton_geometry_t *g, const baton_tensor_t *t)
{
    return (struct plan_extent){.group = g->groups[t->group],
                                .split = g->splits[t->split],
                                .planes = t->planes > 0 ? t->planes : g->planes,
                                .head_size = t->head_size > 0 ? t->head_size : g->head_size,
                                .elem_bytes = t->elem_bytes > 0 ? t->elem_bytes : g->elem_bytes};
}

/* ---- one cache --------------------------------------------------------------------------------------------------- */

struct direction {
    uint64_t count;
    int64_t stride;
    const char *name; /* of a tensor's */
};

/* Smallest stride first. There are only five: insertion sort. */
static void sort_directions(struct direction *d, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && d[k].stride < d[k - 1].stride; k--) {
            struct direction swap = d[k];
            d[k] = d[k - 1];
            d[k - 1] = swap;
        }
}

/*
 * The bytes from a tensor's first element to behind its last; or 0 if a stride is negative, a sum overflows, or entries
 * could overlap. Each direction must step over all that lies within it.
 */
static uint64_t span_of(const struct plan_extent *x, const baton_strides_t *s, char *why, size_t size)
{
    struct direction d[] = {{x->group.num_blocks, s->block, "blocks"},
                            {x->planes, s->plane, "planes"},
                            {x->split.head_count, s->head, "heads"},
                            {x->group.block_tokens, s->token, "tokens"},
                            {x->head_size, s->channel, "channels"}};
    const unsigned n = sizeof d / sizeof d[0];
    uint64_t span = x->elem_bytes;
    sort_directions(d, n);
    for (unsigned i = 0; i < n; i++) {
        uint64_t reach;
        if (d[i].count == 1)
            continue;
        bool overlaps = d[i].stride < 0 || (uint64_t)d[i].stride < span;
        if (!overlaps && !__builtin_mul_overflow(d[i].count - 1, (uint64_t)d[i].stride, &reach) &&
            !__builtin_add_overflow(span, reach, &span) && span <= BYTES_MOST)
            continue;
        snprintf(why, size,
                 overlaps ? "the stride of its %s is %" PRId64 " bytes: entries overlap if it is less than %" PRIu64
                          : "the stride of its %s is %" PRId64 " bytes: too large for a span of %" PRIu64,
                 d[i].name, d[i].stride, span);
        return 0;
    }
    return span;
}

/* The elements of one block. False: their number does not fit 64 bits. */
static bool count_elements(const struct plan_extent *x, uint64_t *out)
{
    const uint32_t counts[] = {x->planes, x->split.head_count, x->group.block_tokens, x->head_size};
    uint64_t elements = 1;
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)counts[i], &elements))
            return false;
    *out = elements;
    return true;
}

static bool is_element_size(uint32_t elem_bytes)
{
    return elem_bytes == 1 || elem_bytes == 2 || elem_bytes == 4 || elem_bytes == 8;
}

static bool split_is_sound(const baton_split_t *s)
{
    return s->head_first <= s->heads_total && s->head_count <= s->heads_total - s->head_first;
}

static int check_splits(const baton_geometry_t *g, struct plan_why *why)
{
    if (g->num_splits == 0 || g->num_splits > BATON_SPLITS_MAX)
        return why_set(BATON_EINVAL, "num_splits", g->num_splits, "must be 1 to 4", why);
    if (g->splits[0].head_count == 0)
        return why_set(BATON_EINVAL, "head_count", 0, "must not be 0 in split 0", why);
    for (uint32_t i = 0; i < g->num_splits; i++) {
        const baton_split_t *s = &g->splits[i];
        if (!split_is_sound(s) || (i > 0 && s->heads_total > UINT16_MAX))
            return why_item("split", i, "heads must lie within heads_total", why);
    }
    return 0;
}

static int check_groups(const baton_geometry_t *g, struct plan_why *why)
{
    if (g->num_groups == 0 || g->num_groups > BATON_GROUPS_MAX)
        return why_set(BATON_EINVAL, "num_groups", g->num_groups, "must be 1 to 8", why);
    for (uint32_t i = 0; i < g->num_groups; i++) {
        const baton_group_t *x = &g->groups[i];
        if (x->kind < BATON_KIND_FULL || x->kind > BATON_KIND_STATE)
            return why_item("group", i, "its kind is unknown", why);
        if (x->block_tokens == 0 || x->num_blocks == 0)
            return why_item("group", i, "block_tokens and num_blocks must not be 0", why);
        if (x->kind == BATON_KIND_STATE && x->block_tokens != 1)
            return why_item("group", i, "a state's block_tokens must be 1", why);
        if ((x->kind == BATON_KIND_WINDOW) != (x->window_tokens > 0))
            return why_item("group", i, "window_tokens is for windows: set it there, and only there", why);
        if (x->blocks_per_id > 1 && (x->kind == BATON_KIND_STATE || x->blocks_per_id > x->num_blocks ||
                                     x->blocks_per_id > UINT32_MAX / x->block_tokens))
            return why_item("group", i, "blocks_per_id is for a state at most 1, else at most num_blocks", why);
    }
    return 0;
}

static int check_sizes(const baton_geometry_t *g, struct plan_why *why)
{
    if (memchr(g->model, '\0', sizeof g->model) == NULL || memchr(g->dtype, '\0', sizeof g->dtype) == NULL) {
        snprintf(why->text, sizeof why->text, "model or dtype has no terminating 0");
        return BATON_EINVAL;
    }
    if (!is_element_size(g->elem_bytes))
        return why_set(BATON_EINVAL, "elem_bytes", g->elem_bytes, "must be 1, 2, 4 or 8", why);
    if (g->planes != 1 && g->planes != 2)
        return why_set(BATON_EINVAL, "planes", g->planes, "must be 1 or 2", why);
    if (g->head_size == 0)
        return why_set(BATON_EINVAL, "head_size", 0, "must not be 0", why);
    if (g->layer_count == 0 || g->layer_first > g->layers_total || g->layer_count > g->layers_total - g->layer_first)
        return why_set(BATON_EINVAL, "layer_count", g->layer_count, "layers must lie within layers_total", why);
    if (g->num_tensors == 0 || g->num_tensors > BATON_TENSORS_MAX || g->tensors == NULL)
        return why_set(BATON_EINVAL, "num_tensors", g->num_tensors, "must be 1 to 1024", why);
    int rc = check_splits(g, why);
    return rc != 0 ? rc : check_groups(g, why);
}

static int check_tensor(const baton_geometry_t *g, uint32_t i, const uint64_t *region_bytes, uint32_t num_regions,
                        uint64_t *elements, struct plan_why *why)
{
    const baton_tensor_t *t = &g->tensors[i];
    uint64_t own;
    if (t->name[0] == '\0' || memchr(t->name, '\0', sizeof t->name) == NULL)
        return why_item("tensor", i, "its name is empty or has no terminating 0", why);
    if (t->layer < g->layer_first || t->layer - g->layer_first >= g->layer_count)
        return why_item("tensor", i, "its layer is not one that this rank holds", why);
    if (t->region >= num_regions)
        return why_item("tensor", i, "its region does not exist", why);
    if (t->group >= g->num_groups || t->split >= g->num_splits)
        return why_item("tensor", i, "its group or split does not exist", why);
    struct plan_extent x = geometry_extent(g, t);
    if (!is_element_size(x.elem_bytes) || x.split.head_count == 0)
        return why_item("tensor", i, "its elem_bytes are not 1, 2, 4 or 8, or it has no heads here", why);
    /* Copy programs count in 32 bits, and a merged loop may count the elements of one block of all tensors. */
    if (!count_elements(&x, &own) || own > UINT32_MAX || (*elements += own) > UINT32_MAX)
        return why_set(BATON_EINVAL, "block_tokens", x.group.block_tokens,
                       "one block of all tensors must have less than 2^32 elements", why);
    char detail[128] = "";
    uint64_t span = span_of(&x, &t->stride, detail, sizeof detail), room = region_bytes[t->region];
    if (span > 0 && (t->offset > room || span > room - t->offset))
        snprintf(detail, sizeof detail, "its %" PRIu64 " bytes from %" PRIu64 " on reach past its region of %" PRIu64,
                 span, t->offset, room);
    return detail[0] != '\0' ? why_item("tensor", i, detail, why) : 0;
}

static int by_name(const void *a, const void *b)
{
    const baton_tensor_t *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

static void sort(const baton_geometry_t *g, const baton_tensor_t **sorted, int (*compare)(const void *, const void *))
{
    for (uint32_t i = 0; i < g->num_tensors; i++)
        sorted[i] = &g->tensors[i];
    qsort(sorted, g->num_tensors, sizeof *sorted, compare);
}

/* No two tensors have the same name. */
static int check_names(const baton_geometry_t *g, const baton_tensor_t **sorted, struct plan_why *why)
{
    sort(g, sorted, by_name);
    for (uint32_t i = 1; i < g->num_tensors; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return why_item("tensor", (uint32_t)(sorted[i] - g->tensors), "another tensor has the same name", why);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const baton_tensor_t *const *x = a, *const *y = b;
    if ((*x)->group != (*y)->group)
        return (*x)->group < (*y)->group ? -1 : 1;
    if ((*x)->region != (*y)->region)
        return (*x)->region < (*y)->region ? -1 : 1;
    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    return (*x > *y) - (*x < *y);
}

/*
 * No two tensors of a group begin at the same byte, as they do where an engine forgot to set their regions. Those of
 * different groups may: some engines give the same memory to several groups, a block to one of them at a time.
 */
static int check_places(const baton_geometry_t *g, const baton_tensor_t **sorted, struct plan_why *why)
{
    sort(g, sorted, by_place);
    for (uint32_t i = 1; i < g->num_tensors; i++) {
        const baton_tensor_t *a = sorted[i - 1], *b = sorted[i];
        if (a->group == b->group && a->region == b->region && a->offset == b->offset)
            return why_item("tensor", (uint32_t)(b - g->tensors), "another tensor of its group begins at the same byte",
                            why);
    }
    return 0;
}

/* Not on the stack: of a peer's card it may be any thread of the engine's that comes here. */
static int check_apart(const baton_geometry_t *g, struct plan_why *why)
{
    const baton_tensor_t **sorted = calloc((size_t)g->num_tensors + 1, sizeof *sorted);
    if (sorted == NULL) {
        snprintf(why->text, sizeof why->text, "no memory to compare %u tensors", g->num_tensors);
        return BATON_ENOMEM;
    }
    int rc = check_names(g, sorted, why);
    if (rc == 0)
        rc = check_places(g, sorted, why);
    free(sorted);
    return rc;
}

int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why)
{
    uint64_t elements = 0;
    int rc = check_sizes(g, why);
    for (uint32_t i = 0; rc == 0 && i < g->num_tensors; i++)
        rc = check_tensor(g, i, region_bytes, num_regions, &elements, why);
    return rc != 0 ? rc : check_apart(g, why);
}

/* ---- two caches -------------------------------------------------------------------------------------------------- */

static int differ(const char *field, uint32_t a, uint32_t b, struct plan_why *why)
{
    snprintf(why->text, sizeof why->text, "%s differs: %u and %u", field, a, b);
    return BATON_EGEOMETRY;
}

int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why)
{
    const struct {
        const char *field;
        uint32_t a, b;
    } numbers[] = {
        {"elem_bytes", a->elem_bytes, b->elem_bytes},
        {"planes", a->planes, b->planes},
        {"head_size", a->head_size, b->head_size},
        {"heads_total", a->splits[0].heads_total, b->splits[0].heads_total},
        {"layers_total", a->layers_total, b->layers_total},
        {"num_splits", a->num_splits, b->num_splits},
    };
    if (strcmp(a->model, b->model) != 0) {
        snprintf(why->text, sizeof why->text, "model differs: \"%.40s\" and \"%.40s\"", a->model, b->model);
        return BATON_EGEOMETRY;
    }
    if (strcmp(a->dtype, b->dtype) != 0) {
        snprintf(why->text, sizeof why->text, "dtype differs: \"%s\" and \"%s\"", a->dtype, b->dtype);
        return BATON_EGEOMETRY;
    }
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].a != numbers[i].b)
            return differ(numbers[i].field, numbers[i].a, numbers[i].b, why);
    for (uint32_t i = 1; i < a->num_splits; i++) {
        char field[32];
        snprintf(field, sizeof field, "heads_total of split %u", i);
        if (a->splits[i].heads_total != b->splits[i].heads_total)
            return differ(field, a->splits[i].heads_total, b->splits[i].heads_total, why);
    }
    return 0;
}

/* FNV-1a: simple, and fast enough for a few fields of each cache. */
static uint32_t mix(uint32_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 16777619u;
    return hash;
}

static uint32_t mix_number(uint32_t hash, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    return mix(hash, bytes, sizeof bytes);
}

uint32_t geometry_model(const baton_geometry_t *g)
{
    const uint32_t numbers[] = {g->elem_bytes,   g->planes,    g->head_size, g->splits[0].heads_total,
                                g->layers_total, g->num_splits};
    uint32_t hash = mix(2166136261u, g->model, strlen(g->model) + 1);
    hash = mix(hash, g->dtype, strlen(g->dtype) + 1);
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash = mix_number(hash, numbers[i]);
    for (uint32_t i = 1; i < g->num_splits; i++)
        hash = mix_number(hash, g->splits[i].heads_total);
    return hash != 0 ? hash : 1;
}

/* ---- a request's tokens ------------------------------------------------------------------------------------------ */

void plan_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens, uint32_t *first, uint32_t *end)
{
    *first = held < tokens ? held : tokens;
    *end = tokens;
    if (group->kind == BATON_KIND_STATE) {
        *end = *first < tokens;
        *first = 0;
    } else if (group->kind == BATON_KIND_WINDOW && tokens - *first > group->window_tokens) {
        *first = tokens - group->window_tokens;
    }
}

static int table_is_short(const baton_group_t *g, const baton_table_t *t, uint32_t tokens, struct plan_why *why)
{
    snprintf(why->text, sizeof why->text, "%u tokens do not fit into %u blocks of %u tokens", tokens, t->num_blocks,
             g->block_tokens);
    return BATON_ETOKENS;
}

static int block_is_bad(const baton_group_t *g, const baton_table_t *t, uint32_t i, struct plan_why *why)
{
    snprintf(why->text, sizeof why->text, "blocks[%u] is %u, but the group has %u blocks", i, t->blocks[i],
             g->num_blocks);
    return BATON_EBLOCK;
}

int plan_table_reaches(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                       struct plan_why *why)
{
    uint64_t reach = (uint64_t)table->num_blocks * group->block_tokens + table->first_token;
    if (table->first_token % group->block_tokens != 0)
        return why_set(BATON_EINVAL, "first_token", table->first_token, "a table must begin with a whole block", why);
    if (first >= end)
        return 0;
    if (first < table->first_token)
        return why_set(BATON_ETOKENS, "first_token", table->first_token, "the table must begin earlier", why);
    if (end > reach)
        return table_is_short(group, table, end - table->first_token, why);
    return 0;
}

/* The blocks of the tokens [first, end), which the table reaches: [*from, *after). */
static void blocks_of(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                      uint32_t *from, uint32_t *after)
{
    *from = *after = 0;
    if (first >= end)
        return;
    *from = (first - table->first_token) / group->block_tokens;
    *after = (end - 1 - table->first_token) / group->block_tokens + 1;
}

int plan_table_check(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                     struct plan_why *why)
{
    uint32_t i, after;
    int rc = plan_table_reaches(group, table, first, end, why);
    if (rc != 0)
        return rc;
    for (blocks_of(group, table, first, end, &i, &after); i < after; i++)
        if (table->blocks[i] >= group->num_blocks)
            return block_is_bad(group, table, i, why);
    return 0;
}

#define WORDS_ON_STACK 1024 /* 4 KiB: of the engine's thread, which may have little */
#define SLOTS_A_BLOCK 4     /* with 2 it takes half as long again: branches are guessed wrongly where blocks collide */

/*
 * Marks blocks [i, end) in a map of a bit for each block of the group. Returns as first_again. The ids are the
 * caller's, and were checked before: one that was changed since may not lead out of the map.
 */
static uint32_t first_marked(const uint32_t *blocks, uint32_t i, uint32_t end, uint32_t *map, size_t words)
{
    for (; i < end; i++) {
        const uint32_t block = blocks[i], bit = 1u << block % 32;
        if (block / 32 >= words || (map[block / 32] & bit) != 0)
            return i;
        map[block / 32] |= bit;
    }
    return end;
}

/*
 * Puts blocks [i, end) into an empty hash table of 2^bits slots. Returns the index of the first that is in it already,
 * or end.
 */
static uint32_t first_again(const uint32_t *blocks, uint32_t i, uint32_t end, uint32_t *slots, unsigned bits)
{
    for (; i < end; i++) {
        uint32_t at = blocks[i] * 2654435769u >> (32 - bits);
        for (; slots[at] != 0; at = (at + 1) & ((1u << bits) - 1))
            if (slots[at] == blocks[i] + 1)
                return i;
        slots[at] = blocks[i] + 1; /* not 0, since a block id is below num_blocks */
    }
    return end;
}

int plan_table_once(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                    struct plan_why *why)
{
    uint32_t on_stack[WORDS_ON_STACK], from, after, i;
    const uint32_t *blocks = table->blocks;
    blocks_of(group, table, first, end, &from, &after);
    for (i = from + 1; i < after && blocks[i] > blocks[i - 1]; i++)
        ;
    if (i >= after)
        return 0; /* each id is larger than the one before, as a fresh pool gives them */
    unsigned bits = 6;
    while (bits < 31 && (1u << bits) < SLOTS_A_BLOCK * (uint64_t)(after - from))
        bits++;
    const size_t map_words = ((uint64_t)group->num_blocks + 31) / 32, slots = (size_t)1 << bits;
    const bool maps = map_words <= 4 * slots; /* then it is faster: a quarter of the time where it is as large */
    const size_t words = maps ? map_words : slots;
    uint32_t *seen = words <= WORDS_ON_STACK ? on_stack : malloc(words * sizeof *seen);
    if (seen == NULL) {
        snprintf(why->text, sizeof why->text, "no memory to compare %u blocks", after - from);
        return BATON_ENOMEM;
    }
    memset(seen, 0, words * sizeof *seen);
    uint32_t again =
        maps ? first_marked(blocks, from, after, seen, words) : first_again(blocks, from, after, seen, bits);
    if (seen != on_stack)
        free(seen);
    if (again == after)
        return 0;
    for (i = from; i < again && blocks[i] != blocks[again];)
        i++;
    snprintf(why->text, sizeof why->text, "block %u stands twice, in blocks[%u] and blocks[%u]: name each once",
             blocks[again], i, again);
    return BATON_EINVAL;
}

uint64_t geometry_block_bytes(const baton_geometry_t *g, uint32_t group)
{
    uint64_t bytes = 0, elements;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const struct plan_extent x = geometry_extent(g, &g->tensors[i]);
        if (g->tensors[i].group == group && count_elements(&x, &elements))
            bytes += elements * x.elem_bytes;
    }
    return bytes;
}

bool geometry_has_state(const baton_geometry_t *g)
{
    for (uint32_t i = 0; i < g->num_groups; i++)
        if (g->groups[i].kind == BATON_KIND_STATE)
            return true;
    return false;
}

/* ---- the usual layouts ------------------------------------------------------------------------------------------- */

/* Sets the stride of a direction to the *bytes of all that lies within it, then multiplies these by its count. */
static void nest(uint32_t count, uint64_t *bytes, int64_t *stride, int *overflow)
{
    *stride = (int64_t)*bytes;
    *overflow |= __builtin_mul_overflow(*bytes, (uint64_t)count, bytes) || *bytes > BYTES_MOST;
}

/* Whether the usual layout can be made of it. */
static int check_layout(const baton_geometry_t *g, unsigned layout)
{
    const unsigned both = BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED;
    const unsigned known = BATON_LAYOUT_NHD | both | BATON_LAYOUT_BLOCK_MAJOR;
    if ((layout & ~known) != 0 || (layout & both) == both)
        return error_set(BATON_EINVAL, "layout %u has bits that are unknown or exclude each other", layout);
    if (g->num_groups == 0 || g->num_groups > BATON_GROUPS_MAX || g->num_splits == 0 ||
        g->num_splits > BATON_SPLITS_MAX)
        return error_set(BATON_EINVAL, "num_groups must be 1 to %d, num_splits 1 to %d: they are %u and %u",
                         BATON_GROUPS_MAX, BATON_SPLITS_MAX, g->num_groups, g->num_splits);
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"elem_bytes", g->elem_bytes},
                 {"planes", g->planes},
                 {"head_size", g->head_size},
                 {"groups[0].block_tokens", g->groups[0].block_tokens},
                 {"groups[0].num_blocks", g->groups[0].num_blocks},
                 {"splits[0].head_count", g->splits[0].head_count},
                 {"layer_count", g->layer_count}};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value == 0)
            return error_set(BATON_EINVAL, "%s is 0", sizes[i].name);
    if (g->layer_count > BATON_TENSORS_MAX)
        return error_set(BATON_EINVAL, "layer_count is %u, and at most %d", g->layer_count, BATON_TENSORS_MAX);
    return 0;
}

int baton_geometry_layout(baton_geometry_t *geometry, baton_tensor_t *tensors, unsigned layout)
{
    baton_geometry_t own, *g = &own;
    if (geometry == NULL || tensors == NULL)
        return error_set(BATON_EINVAL, "geometry and tensors must not be NULL");
    int rc = sized_take(geometry, "baton_geometry_t", g, sizeof *g);
    if (rc != 0)
        return rc;
    rc = check_layout(g, layout);
    if (rc != 0)
        return rc;
    unsigned kv = layout & (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED);
    if ((layout & BATON_LAYOUT_BLOCK_MAJOR) && kv == BATON_LAYOUT_KV_SEPARATE)
        kv = BATON_LAYOUT_KV_BLOCK;

    baton_strides_t s = {0};
    uint64_t bytes = g->elem_bytes;
    int64_t layer = 0;
    int overflow = 0;
    nest(g->head_size, &bytes, &s.channel, &overflow);
    if (kv == BATON_LAYOUT_KV_FUSED)
        nest(g->planes, &bytes, &s.plane, &overflow);
    if (layout & BATON_LAYOUT_NHD) {
        nest(g->splits[0].head_count, &bytes, &s.head, &overflow);
        nest(g->groups[0].block_tokens, &bytes, &s.token, &overflow);
    } else {
        nest(g->groups[0].block_tokens, &bytes, &s.token, &overflow);
        nest(g->splits[0].head_count, &bytes, &s.head, &overflow);
    }
    if (kv == BATON_LAYOUT_KV_BLOCK)
        nest(g->planes, &bytes, &s.plane, &overflow);
    if (layout & BATON_LAYOUT_BLOCK_MAJOR)
        nest(g->layer_count, &bytes, &layer, &overflow);
    nest(g->groups[0].num_blocks, &bytes, &s.block, &overflow);
    if (kv == BATON_LAYOUT_KV_SEPARATE)
        nest(g->planes, &bytes, &s.plane, &overflow);
    if (!(layout & BATON_LAYOUT_BLOCK_MAJOR))
        nest(g->layer_count, &bytes, &layer, &overflow);
    if (overflow)
        return error_set(BATON_EINVAL, "the cache would have more than 2^62 bytes");

    for (uint32_t i = 0; i < g->layer_count; i++) {
        tensors[i] = (baton_tensor_t){.layer = g->layer_first + i, .offset = (uint64_t)layer * i, .stride = s};
        snprintf(tensors[i].name, sizeof tensors[i].name, "layer.%u", g->layer_first + i);
    }
    g->tensors = tensors;
    g->num_tensors = g->layer_count;
    g->bytes = bytes;
    sized_give_back(g, sizeof *g, geometry);
    return 0;
}
