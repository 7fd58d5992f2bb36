/* SPDX-License-Identifier: BSD-3-Clause */
/* engine: see engine.h. Each rank has one row, as in the library's directory. Caches are made when they are asked for,
   so that 10,000 ranks need little memory. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

int engine_size_read(const char *option, const char *text, struct engine_size *out, struct why *why)
{
    uint32_t n[3];
    unsigned count = 0;
    const char *at = text;
    bool more = true;
    for (; more && count < 3 && number_take(&at, ENGINE_RANKS_MAX, &n[count]) && n[count] > 0; count++) {
        more = *at == 'x';
        at += more;
    }
    uint64_t engines = count == 3 ? n[0] : 1, tp = count == 3 ? n[1] : n[0], pp = count == 3 ? n[2] : n[1];
    if (count < 2 || more || *at != '\0' || engines * tp > ENGINE_RANKS_MAX || engines * tp * pp > ENGINE_RANKS_MAX)
        return why_set(why, "--%s must be TPxPP or ExTPxPP, at most %d ranks in all, and is \"%.64s\"", option,
                       ENGINE_RANKS_MAX, text);
    *out = (struct engine_size){(uint32_t)engines, (uint32_t)tp, (uint32_t)pp};
    return 0;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

int engine_cache(const struct engine *e, uint32_t rank, struct cache *out, struct why *why)
{
    const struct engine_source *s = &e->source;
    struct model_seat seat = {s->size.tp, s->size.pp, rank % s->size.tp, rank / s->size.tp};
    if (s->description != NULL)
        return description_cache(s->description, &seat, s->tokens, out, why);
    return preset_cache(s->cut, &seat, s->tokens, out, why);
}

/* Ranks of one stage with the same number of heads have equal tensors, so only one of them is checked: the check
   compares each name with each. */
#define CHECKED_MAX 16

struct checked {
    uint32_t stage, num;
    uint32_t heads[CHECKED_MAX][BATON_SPLITS_MAX];
};

static bool checked_already(struct checked *c, uint32_t stage, const struct plan_member *m)
{
    uint32_t heads[BATON_SPLITS_MAX] = {0};
    for (uint32_t i = 0; i < m->num_boxes; i++)
        heads[i] = m->box[i].head_count;
    if (c->stage != stage)
        *c = (struct checked){.stage = stage};
    for (uint32_t i = 0; i < c->num; i++)
        if (memcmp(c->heads[i], heads, sizeof heads) == 0)
            return true;
    if (c->num < CHECKED_MAX)
        memcpy(c->heads[c->num++], heads, sizeof heads);
    return false;
}

static int member_init(struct engine *e, uint32_t rank, struct checked *checked, struct why *why)
{
    struct plan_member *m = &e->members[rank];
    const uint32_t stage = rank / e->source.size.tp;
    struct plan_why reason;
    struct why inner;
    struct cache c;
    if (engine_cache(e, rank, &c, &inner) != 0)
        return why_set(why, "%s rank %u: %.340s", e->source.role, rank, inner.text);
    const baton_geometry_t *g = c.geometry;
    m->num_boxes = plan_boxes(g, m->box);
    m->node = (e->source.first_rank + rank) / e->source.ranks_per_node;
    e->stages[stage] = (struct engine_stage){g->layer_first, g->layer_first + g->layer_count};
    int rc = 0;
    if (!checked_already(checked, stage, m) && geometry_check(g, &g->bytes, 1, &reason) != 0)
        rc = why_set(why, "%s rank %u: %s", e->source.role, rank, reason.text);
    cache_fini(&c);
    return rc;
}

int engine_init(struct engine *e, const struct engine_source *source, struct why *why)
{
    struct checked checked = {0};
    int rc = 0;
    *e = (struct engine){.source = *source, .num_ranks = engine_size_ranks(&source->size)};
    e->members = calloc(e->num_ranks, sizeof *e->members);
    e->stages = calloc(source->size.pp, sizeof *e->stages);
    if (e->members == NULL || e->stages == NULL)
        return why_set(why, "no memory for %u ranks", e->num_ranks);
    for (uint32_t rank = 0; rc == 0 && rank < e->num_ranks; rank++)
        rc = member_init(e, rank, &checked, why);
    return rc;
}

void engine_fini(struct engine *e)
{
    free(e->members);
    free(e->stages);
    *e = (struct engine){0};
}

void engine_ranks_of(const struct engine *e, const struct plan_box *box, uint32_t *first, uint32_t *end)
{
    uint32_t stage = 0, last;
    while (stage < e->source.size.pp && e->stages[stage].end <= box->layer_first)
        stage++;
    for (last = stage; last < e->source.size.pp && e->stages[last].first < box->layer_first + box->layer_count; last++)
        ;
    *first = stage * e->source.size.tp;
    *end = last * e->source.size.tp;
}
