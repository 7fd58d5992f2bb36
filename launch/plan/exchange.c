/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange: see exchange.h. Each consumer is matched only with the producers of stages that hold its layers, and caches
 * are made for one pair and then dropped. So 10,000 ranks a side are planned in seconds.
 */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"

#define PARTS_FIRST 64 /* room for parts that is tried first */
#define PARTS_MOST (BATON_SPLITS_MAX * PLAN_CELLS_MAX)

static int add_part(struct exchange *x, const struct plan_source *part)
{
    struct plan_source *parts = grow(x->parts, x->num_parts, &x->room_parts, sizeof *parts);
    if (parts == NULL)
        return -1;
    x->parts = parts;
    x->parts[x->num_parts++] = *part;
    return 0;
}

static int refuse(const struct engine *prefill, const struct engine *decode, uint32_t producer, uint32_t consumer,
                  const char *text, struct why *why)
{
    return why_set(why, "%s rank %u and %s rank %u do not match: %s", prefill->source.role, producer,
                   decode->source.role, consumer, text);
}

/* ---- one consumer ------------------------------------------------------------------------------------------------ */

int exchange_sources(const struct engine *prefill, const struct plan_member *members, const struct plan_member *me,
                     uint32_t consumer, uint32_t turn, struct plan_source **out, struct why *why)
{
    struct plan_source *parts = NULL;
    struct plan_why reason = {""};
    uint32_t first, end, room = PARTS_FIRST / 2;
    int n = BATON_ENOMEM;
    engine_ranks_of(prefill, &me->box[0], &first, &end); /* all boxes of a rank have the same layers */
    for (bool full = true; full;) {
        free(parts);
        room *= 2;
        parts = malloc(room * sizeof *parts);
        if (parts == NULL)
            break;
        n = plan_sources(me, consumer, turn, &members[first], end - first, parts, room, &reason);
        full = n == BATON_EGEOMETRY && room < PARTS_MOST; /* more parts, perhaps */
        if (full)
            reason.text[0] = '\0';
    }
    if (n < 0) {
        free(parts);
        return why_set(why, "decode rank %u: %s", consumer,
                       n == BATON_ENOMEM ? "no memory for its sources" : reason.text);
    }
    for (int i = 0; i < n; i++)
        parts[i].member += first;
    *out = parts;
    return n;
}

int exchange_compile(const struct engine *prefill, const struct engine *decode, uint32_t producer, uint32_t consumer,
                     const struct cache *to, const struct plan_source *parts, uint32_t num_parts, struct plan **out,
                     struct why *why)
{
    struct plan_box *boxes = malloc(num_parts * sizeof *boxes);
    struct plan_why reason = {"no memory"};
    struct cache from;
    if (boxes == NULL)
        return refuse(prefill, decode, producer, consumer, reason.text, why);
    for (uint32_t i = 0; i < num_parts; i++)
        boxes[i] = parts[i].box;
    int rc = engine_cache(prefill, producer, &from, why);
    if (rc == 0) {
        rc = geometry_match(from.geometry, to->geometry, &reason);
        if (rc == 0)
            rc = plan_compile(from.geometry, to->geometry, boxes, num_parts, out, &reason);
        if (rc != 0)
            refuse(prefill, decode, producer, consumer, reason.text, why);
        cache_fini(&from);
    }
    free(boxes);
    return rc == 0 ? 0 : -1;
}

static int add_pair(struct exchange *x, uint32_t consumer, const struct cache *to, const struct plan_source *parts,
                    uint32_t num_parts, struct why *why)
{
    const uint32_t producer = parts[0].member;
    struct plan_why reason = {"no memory"};
    struct plan *plan;
    struct pair *pairs = grow(x->pairs, x->num_pairs, &x->room_pairs, sizeof *pairs);
    if (pairs == NULL)
        return refuse(x->prefill, x->decode, producer, consumer, reason.text, why);
    x->pairs = pairs;
    struct pair *pair = &x->pairs[x->num_pairs];
    *pair = (struct pair){.producer = producer,
                          .consumer = consumer,
                          .first_part = x->num_parts,
                          .num_parts = num_parts,
                          .same_node = x->prefill->members[producer].node == x->decode->members[consumer].node};
    for (uint32_t i = 0; i < num_parts; i++)
        if (add_part(x, &parts[i]) != 0)
            return refuse(x->prefill, x->decode, producer, consumer, reason.text, why);
    if (exchange_compile(x->prefill, x->decode, producer, consumer, to, parts, num_parts, &plan, why) != 0)
        return -1;
    int rc = runs_count(plan, x->request.held, x->request.tokens, &pair->moves, &reason);
    plan_destroy(plan);
    if (rc != 0)
        return refuse(x->prefill, x->decode, producer, consumer, reason.text, why);
    x->num_pairs++;
    return 0;
}

static int add_consumer(struct exchange *x, uint32_t consumer, struct why *why)
{
    struct plan_source *parts = NULL;
    struct cache to;
    x->first_pair[consumer] = x->num_pairs;
    int n = exchange_sources(x->prefill, x->prefill->members, &x->decode->members[consumer], consumer,
                             plan_turn("decode0"), &parts, why);
    if (n < 0)
        return -1;
    int rc = engine_cache(x->decode, consumer, &to, why);
    if (rc == 0) {
        uint32_t next;
        for (uint32_t i = 0; rc == 0 && i < (uint32_t)n; i = next) {
            for (next = i + 1; next < (uint32_t)n && parts[next].member == parts[i].member; next++)
                ;
            rc = add_pair(x, consumer, &to, &parts[i], next - i, why);
        }
        cache_fini(&to);
    }
    free(parts);
    return rc;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* A difference of the whole model is reported as such, and not as a head or layer that nobody holds. */
static int match_models(const struct engine *prefill, const struct engine *decode, struct why *why)
{
    struct cache from, to;
    struct plan_why reason;
    if (engine_cache(prefill, 0, &from, why) != 0)
        return -1;
    int rc = engine_cache(decode, 0, &to, why);
    if (rc == 0) {
        if (geometry_match(from.geometry, to.geometry, &reason) != 0)
            rc = refuse(prefill, decode, 0, 0, reason.text, why);
        cache_fini(&to);
    }
    cache_fini(&from);
    return rc;
}

int exchange_init(struct exchange *x, const struct engine *prefill, const struct engine *decode,
                  const struct request *request, struct why *why)
{
    *x = (struct exchange){.prefill = prefill, .decode = decode, .request = *request};
    x->first_pair = calloc((size_t)decode->num_ranks + 1, sizeof *x->first_pair);
    if (x->first_pair == NULL)
        return why_set(why, "no memory for %u ranks", decode->num_ranks);
    int rc = match_models(prefill, decode, why);
    for (uint32_t i = 0; rc == 0 && i < decode->num_ranks; i++)
        rc = add_consumer(x, i, why);
    x->first_pair[decode->num_ranks] = x->num_pairs;
    return rc;
}

void exchange_fini(struct exchange *x)
{
    free(x->pairs);
    free(x->parts);
    free(x->first_pair);
    *x = (struct exchange){0};
}
