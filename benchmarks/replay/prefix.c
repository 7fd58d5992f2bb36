/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: see prefix.h. A cache is a table of ids, and a list of them in the order of their last use. The ids of a
 * prompt are used from its last to its first, so that a prefix outlives what follows it.
 */
#include "replay/prefix.h"

#include <stdlib.h>
#include <utlist.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
    uint64_t id;
    struct entry *prev, *next; /* the one not used for longest comes first */
    UT_hash_handle hh;
};

struct cache {
    uint64_t room; /* ids */
    struct entry *table, *used;
};

static struct entry *find(const struct cache *c, uint64_t id)
{
    struct entry *e;
    HASH_FIND(hh, c->table, &id, sizeof id, e);
    return e;
}

static void drop(struct cache *c, struct entry *e)
{
    HASH_DEL(c->table, e);
    DL_DELETE(c->used, e);
    free(e);
}

static int add(struct cache *c, uint64_t id)
{
    struct entry *e = malloc(sizeof *e);
    if (e == NULL)
        return -1;
    *e = (struct entry){.id = id};
    HASH_ADD(hh, c->table, id, sizeof e->id, e);
    if (e->hh.tbl == NULL) { /* uthash had no memory */
        free(e);
        return -1;
    }
    DL_APPEND(c->used, e);
    if (HASH_COUNT(c->table) > c->room)
        drop(c, c->used);
    return 0;
}

/* Uses an id, which is in the cache afterwards. */
static int use(struct cache *c, uint64_t id)
{
    struct entry *e = find(c, id);
    if (e == NULL)
        return add(c, id);
    DL_DELETE(c->used, e);
    DL_APPEND(c->used, e);
    return 0;
}

/* How many of a prompt's first ids are there. */
static uint32_t hits(const struct cache *c, const uint64_t *ids, uint32_t count)
{
    uint32_t n = 0;
    while (n < count && find(c, ids[n]) != NULL)
        n++;
    return n;
}

static int take(struct cache *c, const struct trace *t, uint32_t request, uint32_t *held)
{
    const uint32_t tokens = t->requests[request].tokens, count = (tokens + TRACE_HASH_TOKENS - 1) / TRACE_HASH_TOKENS;
    const uint64_t *ids = t->ids + t->requests[request].first_id;
    const uint64_t found = (uint64_t)hits(c, ids, count) * TRACE_HASH_TOKENS;
    *held = found < tokens ? (uint32_t)found : tokens;
    for (uint32_t i = count; i-- > 0;)
        if (use(c, ids[i]) != 0)
            return -1;
    return 0;
}

static void empty(struct cache *c)
{
    while (c->used != NULL)
        drop(c, c->used);
}

int prefix_init(struct prefix *p, const struct trace *trace, const uint32_t *engine_of, uint32_t engines,
                uint64_t cache_tokens, struct why *why)
{
    struct cache *caches = calloc(engines, sizeof *caches);
    int rc = 0;
    p->held = calloc(trace->count, sizeof *p->held);
    if (caches == NULL || p->held == NULL)
        rc = -1;
    for (uint32_t e = 0; rc == 0 && e < engines; e++)
        caches[e].room = cache_tokens / TRACE_HASH_TOKENS;
    for (uint32_t i = 0; rc == 0 && i < trace->count; i++)
        rc = take(&caches[engine_of[i]], trace, i, &p->held[i]);
    for (uint32_t e = 0; caches != NULL && e < engines; e++)
        empty(&caches[e]);
    free(caches);
    if (rc != 0)
        prefix_fini(p);
    return rc == 0 ? 0 : why_set(why, "no memory for the prefix caches of %u engines", engines);
}

void prefix_fini(struct prefix *p)
{
    free(p->held);
    *p = (struct prefix){0};
}
