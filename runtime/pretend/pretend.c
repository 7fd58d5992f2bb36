/* SPDX-License-Identifier: BSD-3-Clause */
/* pretend: see pretend.h. */
#include "pretend/pretend.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define ALIGNMENT (UINT64_C(2) << 20)

static void *map_file(struct pretend *p, enum pretend_kind kind)
{
    int descriptor = memfd_create("baton-pretend", MFD_CLOEXEC);
    if (descriptor < 0)
        return MAP_FAILED;
    void *at = MAP_FAILED, *device = MAP_FAILED;
    if (fchmod(descriptor, 0600) == 0 && ftruncate(descriptor, (off_t)p->mapped_bytes) == 0)
        at = mmap(NULL, p->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    const bool has_device = kind == PRETEND_DEVICE || kind == PRETEND_MIXED;
    if (has_device && at != MAP_FAILED)
        device = mmap(NULL, p->mapped_bytes, PROT_NONE, MAP_SHARED, descriptor, 0);
    int error = errno;
    close(descriptor);
    if (has_device && at != MAP_FAILED && device == MAP_FAILED) {
        munmap(at, p->mapped_bytes);
        at = MAP_FAILED;
    }
    p->device = device != MAP_FAILED ? device : NULL;
    errno = error;
    return at;
}

static int add_driver(struct pretend *p)
{
    p->wrapped = (uint8_t *)p->device + ((uint8_t *)p->base - (uint8_t *)p->mapping);
    int rc = pretend_driver_create(p->device, p->mapping, p->mapped_bytes, &p->driver);
    if (rc != 0)
        return error_set(rc, "the pretended device's driver could not be made (PRETEND_MEMORY)");
    p->table = pretend_driver_table(p->driver);
    return 0;
}

static int make_one(struct pretend *p, enum pretend_kind kind, uint64_t bytes)
{
    p->regions = calloc(1, sizeof *p->regions);
    if (p->regions == NULL)
        return error_set(BATON_ENOMEM, "no memory for a region (PRETEND_MEMORY)");
    p->num_regions = 1;
    *p->regions = (baton_region_t){.size = sizeof *p->regions,
                                   .base = p->wrapped,
                                   .bytes = bytes,
                                   .kind = kind == PRETEND_DEVICE ? BATON_MEMORY_DEVICE : BATON_MEMORY_HOST};
    return 0;
}

int pretend_create(struct pretend *p, enum pretend_kind kind, baton_geometry_t *g, unsigned first)
{
    *p = (struct pretend){.mapped_bytes = g->bytes + ALIGNMENT};
    void *at = kind == PRETEND_PRIVATE
                   ? mmap(NULL, p->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : map_file(p, kind);
    if (at == MAP_FAILED) {
        *p = (struct pretend){0};
        return error_set(BATON_ENOMEM, "no memory for a cache of %llu bytes (PRETEND_MEMORY): %s",
                         (unsigned long long)g->bytes, strerror(errno));
    }
    p->mapping = at;
    p->base = (void *)(((uintptr_t)at + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    p->wrapped = p->base;
    int rc = p->device != NULL ? add_driver(p) : 0;
    if (rc == 0)
        rc = kind == PRETEND_MIXED ? pretend_mix(p, g, first) : make_one(p, kind, g->bytes);
    if (rc != 0)
        pretend_fini(p);
    return rc;
}

void pretend_fini(struct pretend *p)
{
    pretend_driver_destroy(p->driver);
    if (p->mapping != NULL)
        munmap(p->mapping, p->mapped_bytes);
    if (p->device != NULL)
        munmap(p->device, p->mapped_bytes);
    free(p->regions);
    *p = (struct pretend){0};
}

/* ---- the room ---------------------------------------------------------------------------------------------------- */

static int create_wished(baton_geometry_t *g, unsigned first, struct pretend **out)
{
    static const char *const names[] = {"private", "shared", "device", "mixed"};
    const int num = sizeof names / sizeof names[0];
    const char *wish = getenv("PRETEND_MEMORY");
    int kind = 0;
    if (wish == NULL)
        return 0;
    while (kind < num && strcmp(names[kind], wish) != 0)
        kind++;
    if (kind == num)
        return error_set(BATON_ESETTING, "PRETEND_MEMORY=\"%.64s\" is not private, shared, device or mixed", wish);
    struct pretend *p = malloc(sizeof *p);
    int rc = p == NULL ? error_set(BATON_ENOMEM, "no memory (PRETEND_MEMORY)")
                       : pretend_create(p, PRETEND_PRIVATE + kind, g, first);
    if (rc == 0)
        *out = p;
    else
        free(p);
    return rc;
}

static void destroy(struct pretend *p)
{
    if (p != NULL)
        pretend_fini(p);
    free(p);
}

const struct pretend_room pretend_room = {create_wished, destroy};
