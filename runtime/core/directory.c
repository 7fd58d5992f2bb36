/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory: groups the world's rows into engines and refuses a world that contradicts itself, with a sentence that
 * names the engine and the ranks. Runs once, in the thread that starts; what it built is read by any thread. Every
 * rank computes the same from the same rows.
 */
#include "core/directory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int refuse(int error, struct plan_why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return error;
}

static int no_memory(struct plan_why *why)
{
    return refuse(BATON_ENOMEM, why, "no memory for the directory");
}

/* ---- grouping ---------------------------------------------------------------------------------------------------- */

static int by_name_and_rank(const void *a, const void *b, void *rows_)
{
    const struct wire_row *rows = rows_;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(rows[x].engine, rows[y].engine);
    return order != 0 ? order : (x > y) - (x < y);
}

/** Where the group of equal names that begins at order[begin] ends. */
static uint32_t group_end(const struct directory *d, const uint32_t *order, uint32_t begin)
{
    const char *name = d->rows[order[begin]].engine;
    uint32_t end = begin + 1;
    while (end < d->num_ranks && strcmp(d->rows[order[end]].engine, name) == 0) {
        end++;
    }
    return end;
}

/** Sets engine_of and num_engines: engines are numbered in order of their lowest rank. `order` is sorted. */
static void number_engines(struct directory *d, const uint32_t *order)
{
    for (uint32_t begin = 0, end; begin < d->num_ranks; begin = end) {
        end = group_end(d, order, begin);
        for (uint32_t i = begin; i < end; i++) {
            d->engine_of[order[i]] = order[begin]; /* its lowest rank, for the moment */
        }
    }
    for (uint32_t rank = 0; rank < d->num_ranks; rank++) {
        uint32_t lowest = d->engine_of[rank];
        d->engine_of[rank] = lowest == rank ? d->num_engines++ : d->engine_of[lowest];
    }
}

/* ---- one engine -------------------------------------------------------------------------------------------------- */

/** The ranks of one engine must say the same sizes, and those must be within the limit. */
static int check_sizes(const struct directory *d, const uint32_t *ranks, uint32_t n, struct plan_why *why)
{
    const struct wire_row *first = &d->rows[ranks[0]];
    for (uint32_t i = 1; i < n; i++) {
        const struct wire_row *row = &d->rows[ranks[i]];
        if (row->tp != first->tp || row->pp != first->pp) {
            return refuse(BATON_EGEOMETRY, why, "engine %s: rank %u says tp %u, pp %u, but rank %u says tp %u, pp %u",
                          first->engine, ranks[0], first->tp, first->pp, ranks[i], row->tp, row->pp);
        }
    }
    uint32_t size = (uint32_t)first->tp * first->pp;
    if (size > BATON_ENGINE_RANKS_MAX) {
        return refuse(BATON_EGEOMETRY, why, "engine %s: rank %u says tp %u x pp %u = %u ranks, the most is %u",
                      first->engine, ranks[0], first->tp, first->pp, size, (unsigned)BATON_ENGINE_RANKS_MAX);
    }
    return 0;
}

/** Puts each rank at its place. Every place must get one rank. */
static int fill_places(struct directory *d, struct directory_engine *e, const uint32_t *ranks, uint32_t n,
                       struct plan_why *why)
{
    const struct wire_row *first = &d->rows[ranks[0]];
    for (uint32_t place = 0; place < e->num_ranks; place++) {
        e->ranks[place] = DIRECTORY_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct wire_row *row = &d->rows[ranks[i]];
        uint32_t place = (uint32_t)row->pp_rank * row->tp + row->tp_rank; /* within: the row was checked */
        if (e->ranks[place] != DIRECTORY_NONE) {
            return refuse(BATON_EGEOMETRY, why, "engine %s: ranks %u and %u both say tp_rank %u, pp_rank %u", e->name,
                          e->ranks[place], ranks[i], row->tp_rank, row->pp_rank);
        }
        e->ranks[place] = ranks[i];
        e->members[place] =
            (struct plan_member){.box = row->box, .node = row->node, .package = row->package, .numa = row->numa};
        d->index_of[ranks[i]] = place;
    }
    for (uint32_t place = 0; place < e->num_ranks; place++) {
        if (e->ranks[place] == DIRECTORY_NONE) {
            return refuse(BATON_EGEOMETRY, why,
                          "engine %s: no rank says tp_rank %u, pp_rank %u (tp %u, pp %u, ranks %u to %u: %u of %u)",
                          e->name, place % first->tp, place / first->tp, first->tp, first->pp, ranks[0], ranks[n - 1],
                          n, e->num_ranks);
        }
    }
    return 0;
}

/** `ranks`: the n ranks that carry one name, ascending. */
static int build_engine(struct directory *d, const uint32_t *ranks, uint32_t n, struct plan_why *why)
{
    const struct wire_row *first = &d->rows[ranks[0]];
    int error = check_sizes(d, ranks, n, why);
    if (error != 0) {
        return error;
    }
    struct directory_engine *e = &d->engines[d->engine_of[ranks[0]]];
    memcpy(e->name, first->engine, sizeof(e->name));
    e->num_ranks = (uint32_t)first->tp * first->pp;
    e->ranks = malloc(e->num_ranks * sizeof(*e->ranks));
    e->members = malloc(e->num_ranks * sizeof(*e->members));
    if (e->ranks == NULL || e->members == NULL) {
        return no_memory(why);
    }
    return fill_places(d, e, ranks, n, why);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int decode_rows(struct directory *d, const uint8_t *rows, struct plan_why *why)
{
    for (uint32_t rank = 0; rank < d->num_ranks; rank++) {
        int error = wire_row_decode(rows + (size_t)rank * WIRE_ROW_BYTES, &d->rows[rank]);
        if (error != 0) {
            return refuse(error, why, "the directory row of rank %u is damaged, or has a field out of range", rank);
        }
    }
    return 0;
}

/** `order` is scratch for num_ranks ranks. */
static int build(struct directory *d, uint32_t *order, struct plan_why *why)
{
    for (uint32_t rank = 0; rank < d->num_ranks; rank++) {
        order[rank] = rank;
    }
    qsort_r(order, d->num_ranks, sizeof(*order), by_name_and_rank, d->rows);
    number_engines(d, order);
    d->engines = calloc(d->num_engines, sizeof(*d->engines));
    d->by_name = malloc(d->num_engines * sizeof(*d->by_name));
    if (d->engines == NULL || d->by_name == NULL) {
        return no_memory(why);
    }
    int error = 0;
    uint32_t named = 0;
    for (uint32_t begin = 0, end; begin < d->num_ranks && error == 0; begin = end) {
        end = group_end(d, order, begin);
        d->by_name[named++] = d->engine_of[order[begin]];
        error = build_engine(d, order + begin, end - begin, why);
    }
    return error;
}

int directory_create(const uint8_t *rows, uint32_t num_ranks, struct directory **out, struct plan_why *why)
{
    if (num_ranks == 0) {
        return refuse(BATON_EMESSAGE, why, "the directory has no rows");
    }
    struct directory *d = calloc(1, sizeof(*d));
    uint32_t *order = malloc(num_ranks * sizeof(*order));
    int error = 0;
    if (d == NULL || order == NULL) {
        error = no_memory(why);
        goto free_order;
    }
    d->num_ranks = num_ranks;
    d->rows = malloc(num_ranks * sizeof(*d->rows));
    d->engine_of = malloc(num_ranks * sizeof(*d->engine_of));
    d->index_of = malloc(num_ranks * sizeof(*d->index_of));
    if (d->rows == NULL || d->engine_of == NULL || d->index_of == NULL) {
        error = no_memory(why);
        goto free_order;
    }
    error = decode_rows(d, rows, why);
    if (error == 0) {
        error = build(d, order, why);
    }
free_order:
    free(order);
    if (error != 0) {
        directory_destroy(d);
        return error;
    }
    *out = d;
    return 0;
}

void directory_destroy(struct directory *d)
{
    if (d == NULL) {
        return;
    }
    for (uint32_t i = 0; d->engines != NULL && i < d->num_engines; i++) {
        free(d->engines[i].ranks);
        free(d->engines[i].members);
    }
    free(d->engines);
    free(d->by_name);
    free(d->rows);
    free(d->engine_of);
    free(d->index_of);
    free(d);
}

/** Bisects: a want looks its engine up in the engine's own thread. */
uint32_t directory_find(const struct directory *d, const char *engine)
{
    uint32_t low = 0, high = d->num_engines;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(engine, d->engines[d->by_name[middle]].name);
        if (order == 0) {
            return d->by_name[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return DIRECTORY_NONE;
}
