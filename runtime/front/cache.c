/* SPDX-License-Identifier: BSD-3-Clause */
/* cache: see cache.h. */
#include "front/cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/forked.h"
#include "base/textbuf.h"
#include "base/sized.h"
#include "front/context.h"
#include "front/start.h"
#include "pretend/pretend.h"
#include "wire/row.h"

/* Builds without tests have nothing of that room but its header. */
#ifdef BATON_TESTS
static const struct pretend_room *const tests = &pretend_room;
#else
static const struct pretend_room *const tests = NULL;
#endif

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* `wish`: the regions that it lies in; NULL: one of its own size. */
static int take_geometry(const baton_geometry_t *given, const struct memory_wish *wish, baton_geometry_t *geometry)
{
    struct plan_why why;
    int rc = sized_take(given, "baton_geometry_t", geometry, sizeof *geometry);
    if (rc != 0)
        return rc;
    uint64_t bytes[BATON_REGIONS_MAX] = {geometry->bytes};
    for (uint32_t i = 0; wish != NULL && i < wish->num_regions; i++)
        bytes[i] = wish->regions[i].bytes;
    rc = geometry_check(geometry, bytes, wish != NULL ? wish->num_regions : 1, &why);
    if (rc != 0)
        return error_set(rc, "geometry: %s", why.text);
    if (geometry->model[0] == '\0')
        return error_set(BATON_EINVAL, "geometry: model must not be empty");
    return 0;
}

static struct baton_cache *cache_new(const baton_geometry_t *geometry)
{
    struct baton_cache *cache = calloc(1, sizeof *cache);
    baton_tensor_t *tensors = malloc(geometry->num_tensors * sizeof *tensors);
    if (cache == NULL || tensors == NULL) {
        free(cache);
        free(tensors);
        error_set(BATON_ENOMEM, "no memory for the geometry");
        return NULL;
    }
    memcpy(tensors, geometry->tensors, geometry->num_tensors * sizeof *tensors);
    cache->geometry = *geometry;
    cache->geometry.tensors = tensors;
    for (uint32_t i = 0; i < geometry->num_groups; i++)
        cache->block_bytes[i] = geometry_block_bytes(geometry, i);
    return cache;
}

void cache_free(struct baton_cache *cache)
{
    if (cache == NULL)
        return;
    memory_own_destroy(cache->own);
    if (tests != NULL)
        tests->destroy(cache->pretend);
    free((void *)cache->geometry.tensors);
    free(cache);
}

void cache_leave(struct baton_cache *cache)
{
    if (cache != NULL)
        cache->pretend = NULL;
}

static int own_memory(struct baton_cache *cache, const struct memory_wish *wish)
{
    int rc =
        memory_own_create(wish, (baton_tensor_t *)cache->geometry.tensors, cache->geometry.num_tensors, &cache->own);
    if (rc == 0)
        cache->geometry.bytes = memory_own_bytes(cache->own);
    return rc;
}

/* ---- memory that Baton allocates --------------------------------------------------------------------------------- */

/* In tests, memory as an engine might own it may take the place of Baton's. */
static int wrap_for_tests(struct baton *b, struct baton_cache *cache)
{
    int rc = tests != NULL ? tests->create(&cache->geometry, 1 + b->who.tp_rank + b->who.pp_rank, &cache->pretend) : 0;
    const struct pretend *p = cache->pretend;
    if (p == NULL)
        return rc;
    rc = own_memory(cache, &(struct memory_wish){p->regions, p->num_regions});
    if (rc != 0)
        return rc;
    cache->base = p->base;
    if (p->table.copy != NULL)
        b->start.driver = p->table;
    for (uint32_t i = 0; i < cache->own->num; i++)
        if (cache->own->bases[i] == NULL) /* as the engine has it mapped */
            cache->own->bases[i] = (char *)p->base + (cache->own->regions[i].address - (uint64_t)(uintptr_t)p->wrapped);
    return 0;
}

/* Of memory that the engine owns; without a wish, of memory that Baton allocates. */
static int declare(struct baton *b, const baton_geometry_t *given, const struct memory_wish *wish,
                   struct baton_cache **out)
{
    baton_geometry_t geometry;
    int rc = take_geometry(given, wish, &geometry);
    if (rc != 0)
        return rc;
    struct baton_cache *cache = cache_new(&geometry);
    if (cache == NULL)
        return BATON_ENOMEM;
    rc = wish != NULL ? own_memory(cache, wish) : wrap_for_tests(b, cache);
    if (rc != 0) {
        cache_free(cache);
        return rc;
    }
    *out = b->cache = cache;
    return 0;
}

int baton_cache_create(baton_t *b, const baton_geometry_t *given, baton_memory_t memory, baton_cache_t **out)
{
    int rc = context_check(b);
    if (rc != 0)
        return rc;
    if (given == NULL || out == NULL)
        return error_set(BATON_EINVAL, "geometry and out must not be NULL");
    if (b->state != CONTEXT_OPEN)
        return error_set(BATON_ESTATE, "declare the cache before baton_start");
    if (memory != BATON_MEMORY_HOST)
        return error_set(BATON_ENOSYS, "Baton allocates host memory only: hand over memory of your own by "
                                       "baton_cache_wrap");
    if (b->cache != NULL)
        return error_set(BATON_ENOSYS, "this version has one cache a context");
    return declare(b, given, NULL, out);
}

/* ---- memory that the engine owns --------------------------------------------------------------------------------- */

/* The caller's regions as this build knows them: entries of one size, one behind the other. */
static int take_entries(const baton_region_t *given, uint32_t num, baton_region_t *out)
{
    size_t first = 0, size;
    for (uint32_t i = 0; i < num; i++) {
        const char *entry = (const char *)given + i * first;
        memcpy(&size, entry, sizeof size);
        if (i > 0 && size != first)
            return error_set(BATON_EINVAL,
                             "region %" PRIu32 " says that its size is %zu, and region 0 %zu: all have one", i, size,
                             first);
        int rc = sized_take(entry, "baton_region_t", &out[i], sizeof out[i]);
        if (rc != 0)
            return rc;
        first = size;
    }
    return 0;
}

static int check_regions(const struct baton *b, const struct memory_wish *w)
{
    for (uint32_t i = 0; i < w->num_regions; i++) {
        const baton_region_t *r = &w->regions[i];
        if (r->kind < BATON_MEMORY_HOST || r->kind > BATON_MEMORY_SHARED)
            return error_set(BATON_EINVAL, "region %" PRIu32 ": memory %d is no kind of memory", i, (int)r->kind);
        if (r->kind != BATON_MEMORY_DEVICE && r->device != 0)
            return error_set(BATON_EINVAL, "region %" PRIu32 " names device %" PRIu32 ", and is no device's memory", i,
                             r->device);
        if (r->kind == BATON_MEMORY_DEVICE && b->start.driver.copy == NULL)
            return error_set(BATON_ENOSYS,
                             "region %" PRIu32 " is a device's memory, which needs a driver: "
                             "baton_driver_set",
                             i);
    }
    return 0;
}

static int check_wrap(const struct baton *b, uint32_t num_regions)
{
    int rc = late_check(b);
    if (rc != 0)
        return rc;
    if (num_regions == 0 || num_regions > BATON_REGIONS_MAX)
        return error_set(BATON_EINVAL, "num_regions is %" PRIu32 ": must be 1 to %d", num_regions, BATON_REGIONS_MAX);
    return b->cache == NULL ? 0 : error_set(BATON_ENOSYS, "this version has one cache a context");
}

int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, const baton_region_t *regions, uint32_t num_regions,
                     baton_cache_t **out)
{
    int rc = context_check(b);
    if (rc == 0 && (geometry == NULL || regions == NULL || out == NULL))
        rc = error_set(BATON_EINVAL, "geometry, regions and out must not be NULL");
    if (rc == 0)
        rc = check_wrap(b, num_regions);
    if (rc != 0)
        return rc;
    baton_region_t *own = calloc(num_regions, sizeof *own);
    rc = own != NULL ? take_entries(regions, num_regions, own)
                     : error_set(BATON_ENOMEM, "no memory for %" PRIu32 " regions", num_regions);
    const struct memory_wish wish = {own, num_regions};
    if (rc == 0)
        rc = check_regions(b, &wish);
    if (rc == 0)
        rc = declare(b, geometry, &wish, out);
    free(own);
    if (rc == 0)
        late_declared(b);
    return rc;
}

int baton_driver_set(baton_t *b, const baton_driver_t *driver)
{
    baton_driver_t own;
    int rc = context_check(b);
    if (rc == 0 && driver == NULL)
        rc = error_set(BATON_EINVAL, "driver must not be NULL");
    if (rc == 0)
        rc = sized_take(driver, "baton_driver_t", &own, sizeof own);
    if (rc != 0)
        return rc;
    if (own.copy == NULL || own.poll == NULL || own.name == NULL)
        return error_set(BATON_EINVAL, "a driver has a name, copy and poll");
    if (b->start.driver.copy != NULL)
        return error_set(BATON_ESTATE, "this context has a driver");
    rc = late_check(b);
    if (rc != 0)
        return rc;
    b->start.driver = own;
    return 0;
}

void *baton_cache_base(const baton_cache_t *cache)
{
    if (cache == NULL)
        return NULL;
    if (forked_is()) {
        error_set(BATON_ESTATE, "the cache belongs to the process that this one was forked from");
        return NULL;
    }
    return cache->base;
}

uint64_t cache_pool_bytes(const struct baton_cache *cache)
{
    return cache != NULL && cache->own == NULL ? cache->geometry.bytes : 0;
}

char *const *cache_touchable(const struct baton_cache *cache)
{
    if (cache == NULL)
        return NULL;
    return cache->own != NULL ? cache->own->bases : &cache->base;
}

void cache_place(struct baton_cache *cache, void *base)
{
    cache->base = base;
    cache->pool = (struct path_region){(uint64_t)(uintptr_t)base, cache->geometry.bytes, false};
    cache->whole = (struct path_regions){.num = 1, .region = &cache->pool};
}

const struct path_regions *cache_regions(const struct baton_cache *cache)
{
    static const struct path_regions none;
    if (cache == NULL)
        return &none;
    return cache->own != NULL ? &cache->own->all : &cache->whole;
}

uint32_t cache_features(const struct baton_cache *cache)
{
    if (cache == NULL || cache->own == NULL)
        return 0;
    const uint32_t devices = memory_own_devices(cache->own), others = cache->own->num - devices;
    return WIRE_ROW_WRAPPED | (devices > 0 ? WIRE_ROW_DEVICE : 0u) | (devices > 0 && others > 0 ? WIRE_ROW_MIXED : 0u);
}

bool cache_is_exposed(uint32_t features)
{
    const bool has_host = (features & WIRE_ROW_DEVICE) == 0 || (features & WIRE_ROW_MIXED) != 0;
    return (features & WIRE_ROW_WRAPPED) != 0 && has_host;
}

/* The numbers of the devices, and what copies from and to them. */
static void describe_devices(const struct memory_own *m, const baton_driver_t *driver, struct textbuf *out)
{
    textbuf_print(out, "device: %" PRIu32 " region%s of", memory_own_devices(m), memory_own_devices(m) == 1 ? "" : "s");
    for (uint32_t i = 0; i < m->num; i++) {
        const struct wire_region *r = &m->regions[i];
        bool is_new = wire_region_is_device(r);
        for (uint32_t k = 0; k < i && is_new; k++)
            is_new = !wire_region_is_device(&m->regions[k]) || m->regions[k].ordinal != r->ordinal;
        if (is_new)
            textbuf_print(out, " %" PRIu32, r->ordinal);
    }
    textbuf_print(out, "; its driver is \"%s\"\n", driver->name);
}

void cache_describe(const struct baton_cache *cache, const baton_driver_t *driver, struct textbuf *out)
{
    const double mib = 1 << 20;
    const struct memory_own *m = cache != NULL ? cache->own : NULL;
    if (cache == NULL)
        textbuf_print(out, "cache: none\n");
    else if (m == NULL)
        textbuf_print(out, "cache: allocated by Baton, %.1f MiB\n", (double)cache->geometry.bytes / mib);
    else
        textbuf_print(out, "cache: wrapped, %" PRIu32 " region%s, %" PRIu32 " of them in shared mappings, %.1f MiB%s\n",
                      m->num, m->num == 1 ? "" : "s", memory_own_shared(m), (double)memory_own_bytes(m) / mib,
                      m->is_writable ? "" : ", read-only");
    if (m != NULL && memory_own_devices(m) > 0)
        describe_devices(m, driver, out);
}
