/* SPDX-License-Identifier: BSD-3-Clause */
/* directory: see directory.h. */
#include "core/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t directory_find(const struct directory *d, const char *engine)
{
    for (uint32_t e = 0; e < d->num_engines; e++)
        if (strncmp(d->engines[e].name, engine, BATON_ENGINE_NAME_MAX) == 0)
            return e;
    return DIRECTORY_NONE;
}

/* Gives a rank its engine and its place there. */
static int rank_place(struct directory *d, uint32_t rank, struct plan_why *why)
{
    const struct wire_row *row = &d->rows[rank];
    uint32_t e = directory_find(d, row->engine), size = (uint32_t)row->tp * row->pp;
    if (size > BATON_ENGINE_RANKS_MAX) {
        snprintf(why->text, sizeof why->text, "engine %s: tp %u x pp %u is more than %d ranks", row->engine, row->tp,
                 row->pp, BATON_ENGINE_RANKS_MAX);
        return BATON_EGEOMETRY;
    }
    if (e == DIRECTORY_NONE) {
        struct directory_engine *engine = &d->engines[d->num_engines];
        engine->ranks = malloc(size * sizeof *engine->ranks);
        engine->members = calloc(size, sizeof *engine->members);
        e = d->num_engines++; /* counted now, so that it is freed whatever happens */
        if (engine->ranks == NULL || engine->members == NULL)
            return BATON_ENOMEM;
        memcpy(engine->name, row->engine, sizeof engine->name);
        engine->num_ranks = size;
        engine->number = e;
        for (uint32_t i = 0; i < size; i++)
            engine->ranks[i] = DIRECTORY_NONE;
    }
    struct directory_engine *engine = &d->engines[e];
    uint32_t index = (uint32_t)row->pp_rank * row->tp + row->tp_rank;
    for (uint32_t i = 0; i < engine->num_ranks; i++) {
        if (engine->ranks[i] == DIRECTORY_NONE)
            continue;
        const struct wire_row *other = &d->rows[engine->ranks[i]];
        if (other->verdicts != row->verdicts) {
            snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u differ in whom verdicts are told to",
                     row->engine, engine->ranks[i], rank);
            return BATON_EGEOMETRY;
        }
        if (other->tp != row->tp || other->pp != row->pp) {
            snprintf(why->text, sizeof why->text, "engine %s: rank %u says tp %u pp %u, rank %u says tp %u pp %u",
                     row->engine, engine->ranks[i], other->tp, other->pp, rank, row->tp, row->pp);
            return BATON_EGEOMETRY;
        }
        break; /* the first one met speaks for those before it */
    }
    if (engine->ranks[index] != DIRECTORY_NONE) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u both say tp_rank %u pp_rank %u", row->engine,
                 engine->ranks[index], rank, row->tp_rank, row->pp_rank);
        return BATON_EGEOMETRY;
    }
    engine->ranks[index] = rank;
    struct plan_member *m = &engine->members[index];
    *m = (struct plan_member){
        .num_boxes = row->num_boxes, .node = row->node, .package = row->package, .numa = row->numa};
    memcpy(m->box, row->box, sizeof m->box);
    d->engine_of[rank] = e;
    d->index_of[rank] = index;
    return 0;
}

static int check_full(const struct directory *d, struct plan_why *why)
{
    for (uint32_t e = 0; e < d->num_engines; e++)
        for (uint32_t i = 0; i < d->engines[e].num_ranks; i++)
            if (d->engines[e].ranks[i] == DIRECTORY_NONE) {
                snprintf(why->text, sizeof why->text,
                         "engine %s has %u ranks by its tp and pp, but its rank %u is missing", d->engines[e].name,
                         d->engines[e].num_ranks, i);
                return BATON_EGEOMETRY;
            }
    return 0;
}

int directory_create(const uint8_t *rows, uint32_t num_ranks, struct directory **out, struct plan_why *why)
{
    struct directory *d = calloc(1, sizeof *d);
    snprintf(why->text, sizeof why->text, "no memory for %u ranks", num_ranks);
    if (d == NULL)
        return BATON_ENOMEM;
    d->num_ranks = num_ranks;
    d->rows = calloc(num_ranks, sizeof *d->rows);
    d->engine_of = calloc(num_ranks, sizeof *d->engine_of);
    d->index_of = calloc(num_ranks, sizeof *d->index_of);
    d->engines = calloc(num_ranks, sizeof *d->engines);
    int rc = d->rows && d->engine_of && d->index_of && d->engines ? 0 : BATON_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < num_ranks; i++) {
        rc = wire_row_decode(rows + (size_t)i * WIRE_ROW_BYTES, &d->rows[i]);
        if (rc != 0)
            snprintf(why->text, sizeof why->text, "rank %u's directory row is malformed", i);
    }
    for (uint32_t i = 0; rc == 0 && i < num_ranks; i++)
        rc = rank_place(d, i, why);
    if (rc == 0)
        rc = check_full(d, why);
    if (rc != 0) {
        directory_destroy(d);
        return rc;
    }
    *out = d;
    return 0;
}

void directory_destroy(struct directory *d)
{
    if (d == NULL)
        return;
    for (uint32_t e = 0; e < d->num_engines; e++) {
        free(d->engines[e].ranks);
        free(d->engines[e].members);
    }
    free(d->engines);
    free(d->rows);
    free(d->engine_of);
    free(d->index_of);
    free(d);
}
