/* SPDX-License-Identifier: BSD-3-Clause */
/* runs: see runs.h. */
#include "runs.h"

#define LENGTHS_MAX 32 /* distinct lengths of runs that are counted apart */
#define SIZES_MAX 16   /* sizes of units whose runs are remembered */
#define BATCH 256

struct lengths {
    uint32_t num;
    struct {
        uint64_t bytes, runs;
    } of[LENGTHS_MAX];
    uint64_t runs, shortest;
};

static void lengths_add(struct lengths *l, uint64_t bytes, uint64_t runs)
{
    uint32_t i = 0;
    l->runs += runs;
    if (l->shortest == 0 || bytes < l->shortest)
        l->shortest = bytes;
    while (i < l->num && l->of[i].bytes != bytes)
        i++;
    if (i == LENGTHS_MAX)
        return; /* there are so many lengths that none is usual */
    if (i == l->num) {
        l->of[l->num++].bytes = bytes;
        l->of[i].runs = 0;
    }
    l->of[i].runs += runs;
}

static uint64_t lengths_usual(const struct lengths *l)
{
    uint64_t usual = 0, most = 0;
    for (uint32_t i = 0; i < l->num; i++)
        if (l->of[i].runs > most || (l->of[i].runs == most && l->of[i].bytes > usual)) {
            most = l->of[i].runs;
            usual = l->of[i].bytes;
        }
    return usual;
}

static bool touch(const struct plan_run *a, const struct plan_run *b)
{
    return a->src + a->bytes == b->src && a->dst + a->bytes == b->dst && a->src_region == b->src_region &&
           a->dst_region == b->dst_region;
}

/* The runs of one unit. */
static void count_unit(const struct plan_transfer *t, struct plan_cursor at, uint64_t bytes, struct lengths *out)
{
    struct plan_run batch[BATCH], last = {0};
    *out = (struct lengths){0};
    while (bytes > 0) {
        uint32_t n = plan_next(t, &at, batch, BATCH, bytes);
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n; i++) {
            bytes -= batch[i].bytes;
            if (last.bytes > 0 && touch(&last, &batch[i])) {
                last.bytes += batch[i].bytes;
                continue;
            }
            if (last.bytes > 0)
                lengths_add(out, last.bytes, 1);
            last = batch[i];
        }
    }
    lengths_add(out, last.bytes, 1);
}

/* Units of one size have the same runs wherever they are. */
struct sizes {
    uint32_t num;
    struct {
        uint64_t bytes;
        struct lengths lengths;
    } of[SIZES_MAX];
};

static const struct lengths *unit_lengths(const struct plan_transfer *t, struct plan_cursor at, uint64_t bytes,
                                          struct sizes *s)
{
    for (uint32_t i = 0; i < s->num; i++)
        if (s->of[i].bytes == bytes)
            return &s->of[i].lengths;
    uint32_t i = s->num < SIZES_MAX ? s->num++ : SIZES_MAX - 1;
    s->of[i].bytes = bytes;
    count_unit(t, at, bytes, &s->of[i].lengths);
    return &s->of[i].lengths;
}

/* One piece, times the pieces that are like it. */
static void count_piece(const struct plan_transfer *t, uint32_t piece, uint32_t times, struct runs *out,
                        struct lengths *all)
{
    const struct plan_span *span = &t->span[plan_piece_at(t->plan, piece)->pair];
    struct plan_cursor c = {.piece = piece};
    struct sizes sizes = {0};
    if (span->first == span->end)
        return;
    while (c.piece == piece && !plan_at_end(t, &c)) {
        struct plan_cursor at = c;
        uint64_t bytes = plan_skip(t, &c, 1);
        const struct lengths *unit = unit_lengths(t, at, bytes, &sizes);
        for (uint32_t i = 0; i < unit->num; i++)
            lengths_add(all, unit->of[i].bytes, unit->of[i].runs * times);
        out->units += times;
    }
}

int runs_count(const struct plan *plan, uint32_t held, uint32_t tokens, struct runs *out, struct plan_why *why)
{
    uint32_t first[PLAN_PROGRAMS_MAX * PLAN_PAIRS_MAX], times[PLAN_PROGRAMS_MAX * PLAN_PAIRS_MAX] = {0};
    struct lengths all = {0};
    struct plan_transfer t;
    int rc = plan_transfer_init(&t, plan, held, tokens, NULL, NULL, why);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < plan_num_pieces(plan); i++) {
        const struct plan_piece *p = plan_piece_at(plan, i);
        uint32_t kind = p->program * PLAN_PAIRS_MAX + p->pair;
        if (times[kind]++ == 0)
            first[kind] = i;
    }
    *out = (struct runs){.bytes = t.bytes};
    for (uint32_t kind = 0; kind < PLAN_PROGRAMS_MAX * PLAN_PAIRS_MAX; kind++)
        if (times[kind] > 0)
            count_piece(&t, first[kind], times[kind], out, &all);
    out->runs = all.runs;
    out->shortest = all.shortest;
    out->usual = lengths_usual(&all);
    return 0;
}
