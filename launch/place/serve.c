/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: see serve.h. All holders of a box have it in the same form, so what a consumer reads of it is as many bytes
 * wherever they come from, and is counted once.
 */
#include "place/serve.h"

#include <stdlib.h>
#include <string.h>

#include "launch/plan/grow.h"

struct serve_known {
    struct serve_known *next;
    struct plan_box box;
    uint64_t bytes;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static uint64_t area(const struct plan_box *box)
{
    return (uint64_t)box->layer_count * box->head_count;
}

/* Whether prefill ranks together hold more of what a decode rank reads than there is. */
static bool is_replicated(const struct exchange *x, const struct plan_member *me)
{
    uint64_t there = 0, held = 0;
    uint32_t first, end;
    engine_ranks_of(x->prefill, &me->box[0], &first, &end);
    for (uint32_t i = 0; i < me->num_boxes; i++) {
        there += area(&me->box[i]);
        for (uint32_t r = first; r < end; r++) {
            const struct plan_member *m = &x->prefill->members[r];
            struct plan_box common;
            if (i < m->num_boxes && box_intersect(&me->box[i], &m->box[i], &common))
                held += area(&common);
        }
    }
    return held > there;
}

int serve_init(struct serve *s, const struct exchange *x)
{
    *s = (struct serve){.exchange = x,
                        .members = calloc((size_t)x->prefill->num_ranks + 1, sizeof *s->members),
                        .known = calloc((size_t)x->decode->num_ranks + 1, sizeof(struct serve_known *))};
    for (uint32_t r = 0; r < x->decode->num_ranks && !s->has_replicas; r++)
        s->has_replicas = is_replicated(x, &x->decode->members[r]);
    return s->members != NULL && s->known != NULL ? 0 : -1;
}

void serve_fini(struct serve *s)
{
    for (uint32_t r = 0; s->known != NULL && r < s->exchange->decode->num_ranks; r++)
        while (s->known[r] != NULL) {
            struct serve_known *k = s->known[r];
            s->known[r] = k->next;
            free(k);
        }
    free(s->members);
    free(s->known);
    free(s->flows);
    *s = (struct serve){0};
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static int add(struct serve *s, uint32_t producer, uint32_t consumer, uint64_t bytes, struct why *why)
{
    struct serve_flow *flows = grow(s->flows, s->num_flows, &s->room, sizeof *flows);
    if (flows == NULL)
        return why_set(why, "no memory for the flows between ranks");
    s->flows = flows;
    s->flows[s->num_flows++] = (struct serve_flow){producer, consumer, bytes};
    return 0;
}

static int count_bytes(const struct exchange *x, uint32_t consumer, const struct plan_source *part, uint64_t *bytes,
                       struct why *why)
{
    struct plan_why reason = {"no memory"};
    struct plan *plan;
    struct runs runs;
    struct cache to;
    if (engine_cache(x->decode, consumer, &to, why) != 0)
        return -1;
    int rc = exchange_compile(x->prefill, x->decode, part->member, consumer, &to, part, 1, &plan, why);
    if (rc == 0) {
        if (runs_count(plan, x->request.held, x->request.tokens, &runs, &reason) != 0)
            rc = why_set(why, "%s", reason.text);
        plan_destroy(plan);
    }
    cache_fini(&to);
    *bytes = rc == 0 ? runs.bytes : 0;
    return rc;
}

static int bytes_of(struct serve *s, uint32_t consumer, const struct plan_source *part, uint64_t *bytes,
                    struct why *why)
{
    struct serve_known *k = s->known[consumer];
    while (k != NULL && memcmp(&k->box, &part->box, sizeof k->box) != 0)
        k = k->next;
    if (k == NULL) {
        k = calloc(1, sizeof *k);
        if (k == NULL)
            return why_set(why, "no memory for the flows between ranks");
        k->box = part->box;
        k->next = s->known[consumer];
        s->known[consumer] = k;
        if (count_bytes(s->exchange, consumer, part, &k->bytes, why) != 0)
            return -1;
    }
    *bytes = k->bytes;
    return 0;
}

static void put(struct plan_member *m, const struct serve_place *place)
{
    m->node = place != NULL ? place->node : 0;
    m->package = place != NULL ? place->package : PLAN_UNKNOWN;
    m->numa = place != NULL ? place->numa : PLAN_UNKNOWN;
}

static int add_consumer(struct serve *s, uint32_t consumer, const struct serve_place *place, uint32_t turn,
                        struct why *why)
{
    const struct exchange *x = s->exchange;
    struct plan_member me = x->decode->members[consumer];
    struct plan_source *parts;
    put(&me, place);
    int num = exchange_sources(x->prefill, s->members, &me, consumer, turn, &parts, why), rc = num < 0 ? -1 : 0;
    for (int i = 0; rc == 0 && i < num; i++) {
        uint64_t bytes = 0;
        rc = bytes_of(s, consumer, &parts[i], &bytes, why);
        if (rc == 0)
            rc = add(s, parts[i].member, consumer, bytes, why);
    }
    if (num >= 0)
        free(parts);
    return rc;
}

int serve_find(struct serve *s, const struct serve_place *from, const struct serve_place *to, uint32_t turn,
               struct why *why)
{
    const struct exchange *x = s->exchange;
    s->num_flows = 0;
    for (uint32_t i = 0; !s->has_replicas && i < x->num_pairs; i++)
        if (add(s, x->pairs[i].producer, x->pairs[i].consumer, x->pairs[i].moves.bytes, why) != 0)
            return -1;
    if (!s->has_replicas)
        return 0;
    memcpy(s->members, x->prefill->members, x->prefill->num_ranks * sizeof *s->members);
    for (uint32_t r = 0; r < x->prefill->num_ranks; r++)
        put(&s->members[r], from != NULL ? &from[r] : NULL);
    for (uint32_t r = 0; r < x->decode->num_ranks; r++)
        if (add_consumer(s, r, to != NULL ? &to[r] : NULL, turn, why) != 0)
            return -1;
    return 0;
}
