/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cache: what a rank declares of its cache, and the memory of it. The thread that opens declares it, or any thread
 * after start where caches come late; start makes its base.
 */
#ifndef BATON_FRONT_CACHE_H
#define BATON_FRONT_CACHE_H

#include "baton.h"

#include "memory/own.h"

struct textbuf;
struct pretend;

struct baton_cache {
    baton_geometry_t geometry;              /* it points to a copy of the tensors; they name the regions of `own` */
    struct memory_own *own;                 /* NULL: Baton allocates the memory, region 0 alone */
    char *base;                             /* of region 0, where Baton allocates it, after start; or `pretend` does */
    struct path_region pool;                /* the same, as a region */
    struct path_regions whole;              /* the same, as all regions */
    uint64_t block_bytes[BATON_GROUPS_MAX]; /* by group, of all its tensors */
    struct pretend *pretend;                /* in builds with tests: the memory that `own` wraps; else NULL */
};

/** NULL is no cache. */
void cache_free(struct baton_cache *cache);

/** Other ranks may still reach the memory: cache_free will leave it. */
void cache_leave(struct baton_cache *cache);

/** Describes its memory in lines of text. */
void cache_describe(const struct baton_cache *cache, const baton_driver_t *driver, struct textbuf *out);

/** Bytes that Baton must allocate for it. */
uint64_t cache_pool_bytes(const struct baton_cache *cache);

/** The first bytes of its regions, NULL of one that no thread may touch. Without a cache, NULL. After start. */
char *const *cache_touchable(const struct baton_cache *cache);

/** Where its region 0 lies, in memory that Baton allocated. */
void cache_place(struct baton_cache *cache, void *base);

/** Its regions, as addresses here; no cache has none. After start. */
const struct path_regions *cache_regions(const struct baton_cache *cache);

/** The flags of it in a directory row: WIRE_ROW_... */
uint32_t cache_features(const struct baton_cache *cache);

/** Whether ranks of other nodes reach the memory of such a cache through windows over it. */
bool cache_is_exposed(uint32_t features);

#endif
