/* SPDX-License-Identifier: BSD-3-Clause */
/* directory: see directory.h. */
#include "core/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int directory_measure(struct directory *d, uint32_t rank)
{
    const struct plan_member *here = &d->engines[d->engine_of[rank]].members[d->index_of[rank]];
    baton_distance_t *at = d->distances = malloc(d->num_ranks * sizeof *d->distances);
    if (at == NULL)
        return BATON_ENOMEM;
    for (uint32_t e = 0; e < d->num_engines; e++) {
        struct directory_engine *engine = &d->engines[e];
        engine->distances = at;
        for (uint32_t i = 0; i < engine->num_ranks; i++)
            *at++ = engine->ranks[i] == rank ? BATON_DISTANCE_SELF : plan_distance(here, &engine->members[i]);
    }
    return 0;
}

uint32_t directory_find(const struct directory *d, const char *engine)
{
    struct directory_engine *found;
    HASH_FIND(by_name, d->named, engine, strnlen(engine, BATON_ENGINE_NAME_MAX), found);
    return found != NULL ? found->index : DIRECTORY_NONE;
}

/* Ranks without a cache tell nothing of the model. */
static int check_model(struct directory *d, struct directory_engine *engine, uint32_t rank, struct plan_why *why)
{
    const struct wire_row *row = &d->rows[rank];
    if (row->model == 0)
        return 0;
    if (engine->told == DIRECTORY_NONE)
        engine->told = rank;
    const struct wire_row *other = &d->rows[engine->told];
    if (other->model != row->model) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u differ in model, dtype, a size or a total",
                 row->engine, engine->told, rank);
        return BATON_EGEOMETRY;
    }
    if (other->block_tokens != row->block_tokens) {
        snprintf(why->text, sizeof why->text, "engine %s: rank %u says block_tokens %u, rank %u says %u", row->engine,
                 engine->told, other->block_tokens, rank, row->block_tokens);
        return BATON_EGEOMETRY;
    }
    return 0;
}

unsigned directory_version(const struct directory *d, uint32_t rank, uint32_t peer)
{
    unsigned mine = d->rows[rank].version, theirs = d->rows[peer].version;
    return mine < theirs ? mine : theirs;
}

/* The engine that a row names, made if it is the first of it. Its index, or DIRECTORY_NONE: no memory. */
static uint32_t engine_for(struct directory *d, const struct wire_row *row)
{
    uint32_t e = directory_find(d, row->engine), size = (uint32_t)row->tp * row->pp;
    if (e != DIRECTORY_NONE)
        return e;
    struct directory_engine *engine = &d->engines[d->num_engines];
    engine->ranks = malloc(size * sizeof *engine->ranks);
    engine->members = calloc(size, sizeof *engine->members);
    engine->hosts = malloc(size * sizeof *engine->hosts);
    e = d->num_engines++; /* counted now, so that it is freed whatever happens */
    if (engine->ranks == NULL || engine->members == NULL || engine->hosts == NULL)
        return DIRECTORY_NONE;
    memcpy(engine->name, row->engine, sizeof engine->name);
    engine->num_ranks = size;
    engine->index = e;
    engine->told = DIRECTORY_NONE;
    for (uint32_t i = 0; i < size; i++)
        engine->ranks[i] = DIRECTORY_NONE;
    HASH_ADD_KEYPTR(by_name, d->named, engine->name, strlen(engine->name), engine);
    return engine->by_name.tbl != NULL ? e : DIRECTORY_NONE;
}

/* Whether a row agrees with those before it of its engine: 0, or BATON_EGEOMETRY with *why. */
static int check_same(const struct directory *d, const struct directory_engine *engine, uint32_t rank,
                      struct plan_why *why)
{
    const struct wire_row *row = &d->rows[rank];
    uint32_t i = 0;
    while (i < engine->num_ranks && engine->ranks[i] == DIRECTORY_NONE)
        i++;
    if (i == engine->num_ranks)
        return 0;
    const struct wire_row *other = &d->rows[engine->ranks[i]]; /* the first one met speaks for those before it */
    if (other->verdicts != row->verdicts) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u differ in whom verdicts are told to",
                 row->engine, engine->ranks[i], rank);
        return BATON_EGEOMETRY;
    }
    if (other->life != row->life) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u are of different lives", row->engine,
                 engine->ranks[i], rank);
        return BATON_EGEOMETRY;
    }
    if (other->tp != row->tp || other->pp != row->pp) {
        snprintf(why->text, sizeof why->text, "engine %s: rank %u says tp %u pp %u, rank %u says tp %u pp %u",
                 row->engine, engine->ranks[i], other->tp, other->pp, rank, row->tp, row->pp);
        return BATON_EGEOMETRY;
    }
    return 0;
}

/* Gives a rank its engine and its place there. */
static int rank_place(struct directory *d, uint32_t rank, struct plan_why *why)
{
    const struct wire_row *row = &d->rows[rank];
    if ((uint32_t)row->tp * row->pp > BATON_ENGINE_RANKS_MAX) {
        snprintf(why->text, sizeof why->text, "engine %s: tp %u x pp %u is more than %d ranks", row->engine, row->tp,
                 row->pp, BATON_ENGINE_RANKS_MAX);
        return BATON_EGEOMETRY;
    }
    uint32_t e = engine_for(d, row), index = (uint32_t)row->pp_rank * row->tp + row->tp_rank;
    if (e == DIRECTORY_NONE)
        return BATON_ENOMEM;
    struct directory_engine *engine = &d->engines[e];
    int rc = check_same(d, engine, rank, why);
    if (rc != 0)
        return rc;
    if (engine->ranks[index] != DIRECTORY_NONE) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u both say tp_rank %u pp_rank %u", row->engine,
                 engine->ranks[index], rank, row->tp_rank, row->pp_rank);
        return BATON_EGEOMETRY;
    }
    rc = check_model(d, engine, rank, why);
    if (rc != 0)
        return rc;
    engine->ranks[index] = rank;
    engine->hosts[index] = row->host;
    struct plan_member *m = &engine->members[index];
    *m = (struct plan_member){
        .num_boxes = row->num_boxes, .node = row->node, .package = row->package, .numa = row->numa};
    memcpy(m->box, row->box, sizeof m->box);
    d->engine_of[rank] = e;
    d->index_of[rank] = index;
    return 0;
}

/* Where a number stands, or would: the place begins at its low bits, since numbers are random. */
static uint32_t number_place(const struct directory *d, uint64_t number)
{
    uint32_t at = (uint32_t)number & d->number_mask;
    while (d->by_number[at] != DIRECTORY_NONE && d->rows[d->by_number[at]].number != number)
        at = (at + 1) & d->number_mask;
    return at;
}

uint32_t directory_rank(const struct directory *d, uint64_t number)
{
    return d->by_number[number_place(d, number)];
}

/* At most half of the places are taken. */
static int index_numbers(struct directory *d, struct plan_why *why)
{
    uint32_t places = 2;
    while (places < 2 * d->num_ranks)
        places *= 2;
    d->by_number = malloc(places * sizeof *d->by_number);
    if (d->by_number == NULL)
        return BATON_ENOMEM;
    memset(d->by_number, 0xff, places * sizeof *d->by_number);
    d->number_mask = places - 1;
    for (uint32_t i = 0; i < d->num_ranks; i++) {
        uint32_t *at = &d->by_number[number_place(d, d->rows[i].number)];
        if (*at != DIRECTORY_NONE) {
            snprintf(why->text, sizeof why->text, "ranks %u and %u have the same number", *at, i);
            return BATON_EMESSAGE;
        }
        *at = i;
    }
    return 0;
}

/* Each engine has all of its ranks, and so a life. */
static int check_full(struct directory *d, struct plan_why *why)
{
    for (uint32_t e = 0; e < d->num_engines; e++) {
        for (uint32_t i = 0; i < d->engines[e].num_ranks; i++)
            if (d->engines[e].ranks[i] == DIRECTORY_NONE) {
                snprintf(why->text, sizeof why->text,
                         "engine %s has %u ranks by its tp and pp, but its rank %u is missing", d->engines[e].name,
                         d->engines[e].num_ranks, i);
                return BATON_EGEOMETRY;
            }
        const struct wire_row *first = &d->rows[d->engines[e].ranks[0]];
        d->engines[e].life = first->life != 0 ? first->life : first->number;
    }
    return 0;
}

struct place {
    uint32_t node, rank;
};

static int by_node(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Ranks of one node stand beside each other once they are sorted; the last one leads back to the first. */
static int join_nodes(struct directory *d)
{
    struct place *places = malloc(d->num_ranks * sizeof *places);
    if (places == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < d->num_ranks; i++)
        places[i] = (struct place){d->rows[i].node, i};
    qsort(places, d->num_ranks, sizeof *places, by_node);
    for (uint32_t i = 0, first = 0; i < d->num_ranks; i++) {
        bool last = i + 1 == d->num_ranks || places[i + 1].node != places[i].node;
        d->next_on_node[places[i].rank] = places[last ? first : i + 1].rank;
        first = last ? i + 1 : first;
    }
    free(places);
    return 0;
}

/* There was room for an engine a rank. Now it is known how many there are. */
static int trim_engines(struct directory *d)
{
    struct directory_engine *fit = malloc((d->num_engines + 1) * sizeof *fit);
    if (fit == NULL)
        return BATON_ENOMEM;
    memcpy(fit, d->engines, d->num_engines * sizeof *fit);
    HASH_CLEAR(by_name, d->named);
    free(d->engines);
    d->engines = fit;
    for (uint32_t e = 0; e < d->num_engines; e++) {
        HASH_ADD_KEYPTR(by_name, d->named, fit[e].name, strlen(fit[e].name), &fit[e]);
        if (fit[e].by_name.tbl == NULL)
            return BATON_ENOMEM;
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
    d->next_on_node = calloc(num_ranks, sizeof *d->next_on_node);
    d->engines = calloc(num_ranks, sizeof *d->engines);
    int rc = d->rows && d->engine_of && d->index_of && d->next_on_node && d->engines ? 0 : BATON_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < num_ranks; i++) {
        rc = wire_row_decode(rows + (size_t)i * WIRE_ROW_BYTES, &d->rows[i]);
        if (rc != 0)
            snprintf(why->text, sizeof why->text, "rank %u's directory row is malformed", i);
    }
    for (uint32_t i = 0; rc == 0 && i < num_ranks; i++)
        rc = rank_place(d, i, why);
    if (rc == 0)
        rc = check_full(d, why);
    if (rc == 0)
        rc = index_numbers(d, why);
    if (rc == 0)
        rc = join_nodes(d);
    if (rc == 0)
        rc = trim_engines(d);
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
    HASH_CLEAR(by_name, d->named);
    for (uint32_t e = 0; e < d->num_engines; e++) {
        free(d->engines[e].ranks);
        free(d->engines[e].members);
        free(d->engines[e].hosts);
    }
    free(d->engines);
    free(d->rows);
    free(d->engine_of);
    free(d->index_of);
    free(d->next_on_node);
    free(d->by_number);
    free(d->distances);
    free(d);
}
