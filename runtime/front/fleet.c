/* SPDX-License-Identifier: BSD-3-Clause */
/* fleet: see fleet.h. */
#include "front/fleet.h"

#include <stdlib.h>
#include <string.h>

struct fleet {
    struct versions versions;
};

/* ---- versions ---------------------------------------------------------------------------------------------------- */

static void engine_drop(struct fleet_engine *engine)
{
    if (--engine->uses == 0)
        free(engine);
}

static void version_free(struct version *version)
{
    struct fleet_version *v = (struct fleet_version *)version; /* its first field */
    for (uint32_t i = 0; i < v->num_engines; i++)
        engine_drop(v->engines[i]);
    free(v);
}

static struct fleet_version *version_create(uint64_t number, uint32_t num_engines)
{
    struct fleet_version *v = calloc(1, sizeof *v + num_engines * sizeof v->engines[0]);
    if (v != NULL)
        *v = (struct fleet_version){.number = number, .num_engines = num_engines};
    return v;
}

static const struct fleet_version *newest(const struct fleet *r)
{
    return (const struct fleet_version *)versions_newest(&r->versions);
}

static void publish(struct fleet *r, struct fleet_version *v)
{
    for (uint32_t i = 0; i < v->num_engines; i++)
        v->engines[i]->uses++;
    versions_publish(&r->versions, &v->version);
}

struct fleet *fleet_create(void)
{
    struct fleet *r = aligned_alloc(_Alignof(struct fleet), sizeof *r);
    struct fleet_version *none = version_create(0, 0);
    if (r == NULL || none == NULL) {
        free(r);
        free(none);
        return NULL;
    }
    versions_init(&r->versions, version_free);
    publish(r, none);
    return r;
}

void fleet_destroy(struct fleet *r)
{
    if (r != NULL)
        versions_fini(&r->versions);
    free(r);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* The host of an engine's rank. The directory has each of its names once. */
static const char *host_of(const struct directory *d, const struct directory_engine *from, uint32_t i)
{
    return d->rows[from->ranks[i]].host;
}

static bool shares_host(const struct directory *d, const struct directory_engine *from, uint32_t i)
{
    return i > 0 && host_of(d, from, i) == host_of(d, from, i - 1);
}

static struct fleet_engine *engine_create(const struct directory *d, uint32_t self, uint32_t index)
{
    const struct directory_engine *from = d->engines[index];
    struct fleet_engine *engine;
    const size_t bytes = sizeof *engine + from->num_ranks * sizeof engine->ranks[0];
    size_t names = 0;
    for (uint32_t i = 0; i < from->num_ranks; i++)
        names += shares_host(d, from, i) ? 0 : strlen(host_of(d, from, i)) + 1;
    engine = malloc(bytes + names);
    if (engine == NULL)
        return NULL;
    *engine = (struct fleet_engine){.life = from->life,
                                    .index = index,
                                    .role = (baton_role_t)d->rows[from->ranks[0]].role,
                                    .tp = from->tp,
                                    .pp = from->pp,
                                    .num_ranks = from->num_ranks};
    memcpy(engine->name, from->name, sizeof engine->name);
    char *name = (char *)engine + bytes;
    for (uint32_t i = 0; i < from->num_ranks; i++) {
        struct fleet_rank *rank = &engine->ranks[i];
        *rank = (struct fleet_rank){.number = d->rows[from->ranks[i]].number,
                                    .host = shares_host(d, from, i) ? rank[-1].host : name,
                                    .rank = from->ranks[i],
                                    .distance = directory_distance(d, self, from->ranks[i])};
        if (rank->host == name)
            name = stpcpy(name, host_of(d, from, i)) + 1;
        if (rank->distance < engine->ranks[engine->nearest].distance)
            engine->nearest = i;
    }
    return engine;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct fleet_engine *const *)a)->name, (*(struct fleet_engine *const *)b)->name);
}

/* Engines from..to - 1 of the directory, beside those that are there. */
static int add(struct fleet *r, const struct directory *d, uint32_t self, uint32_t from, uint32_t to)
{
    const struct fleet_version *old = newest(r);
    struct fleet_version *v = version_create(old->number + 1, old->num_engines + to - from);
    int rc = v == NULL ? BATON_ENOMEM : 0;
    uint32_t made = from;
    if (rc == 0)
        memcpy(v->engines, old->engines, old->num_engines * sizeof v->engines[0]);
    while (rc == 0 && made < to) {
        struct fleet_engine *engine = engine_create(d, self, made);
        if (engine == NULL)
            rc = BATON_ENOMEM;
        else if (fleet_named(old, engine->name) != NULL)
            rc = BATON_EEXIST;
        v->engines[old->num_engines + made++ - from] = engine;
    }
    if (rc == 0) {
        qsort(v->engines, v->num_engines, sizeof v->engines[0], by_name);
        publish(r, v);
        return 0;
    }
    while (made > from)
        free(v->engines[old->num_engines + --made - from]);
    free(v);
    return rc;
}

int fleet_publish_all(struct fleet *r, const struct directory *d, uint32_t self)
{
    return add(r, d, self, 0, d->num_engines);
}

int fleet_publish(struct fleet *r, const struct directory *d, uint32_t self, uint32_t engine)
{
    return add(r, d, self, engine, engine + 1);
}

int fleet_withdraw(struct fleet *r, const char *name, uint64_t life)
{
    const struct fleet_version *old = newest(r);
    const struct fleet_engine *gone = fleet_named(old, name);
    if (gone == NULL || gone->life != life)
        return 0;
    struct fleet_version *v = version_create(old->number + 1, old->num_engines - 1);
    if (v == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0, n = 0; i < old->num_engines; i++)
        if (old->engines[i] != gone)
            v->engines[n++] = old->engines[i];
    publish(r, v);
    return 0;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

const struct fleet_version *fleet_read(struct fleet *r, unsigned *place)
{
    return (const struct fleet_version *)versions_take(&r->versions, place);
}

void fleet_done(struct fleet *r, unsigned place)
{
    versions_give(&r->versions, place);
}

/* A name that is too long is greater or less than each of them, which end before. */
const struct fleet_engine *fleet_named(const struct fleet_version *v, const char *name)
{
    uint32_t from = 0, to = v->num_engines;
    while (from < to) {
        const uint32_t at = from + (to - from) / 2;
        const int order = strncmp(name, v->engines[at]->name, BATON_ENGINE_NAME_MAX);
        if (order == 0)
            return v->engines[at];
        if (order < 0)
            to = at;
        else
            from = at + 1;
    }
    return NULL;
}

uint32_t fleet_find(struct fleet *r, const char *name, uint64_t *life, baton_distance_t *distance)
{
    unsigned place;
    const struct fleet_engine *engine = fleet_named(fleet_read(r, &place), name);
    const uint32_t index = engine != NULL ? engine->index : DIRECTORY_NONE;
    if (engine != NULL) {
        *life = engine->life;
        *distance = engine->ranks[engine->nearest].distance;
    }
    fleet_done(r, place);
    return index;
}

uint64_t fleet_number(struct fleet *r)
{
    unsigned place;
    const uint64_t number = fleet_read(r, &place)->number;
    fleet_done(r, place);
    return number;
}
