/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pretend: memory as an engine might own it, for tests. PRETEND_MEMORY=private, shared, device or mixed in the
 * environment has baton_cache_create take such memory and wrap it, so that every program can be run over every kind of
 * memory. Where it is mixed, tensors that lie apart have regions of their own, each of the next kind (mixed.c). This
 * room is a part of builds with tests alone (front/cache.c).
 *
 * THE DEVICE. Its pages are mapped twice. One mapping is the device's: no thread may touch it, and it is what is
 * wrapped. The other is the engine's, as if its kernels ran there. Between the device's pages and others only the
 * driver copies: by a thread of its own, later, and in any order.
 */
#ifndef BATON_PRETEND_PRETEND_H
#define BATON_PRETEND_PRETEND_H

#include <stdint.h>

#include "baton.h"

enum pretend_kind { PRETEND_NONE, PRETEND_PRIVATE, PRETEND_SHARED, PRETEND_DEVICE, PRETEND_MIXED };

struct pretend_driver;

struct pretend {
    void *base;              /* the engine's, aligned to 2 MiB */
    void *wrapped;           /* the device's mapping of the same; without one, the same */
    baton_region_t *regions; /* the same, as it is to be wrapped */
    uint32_t num_regions;
    struct pretend_driver *driver; /* of the device; without one, NULL */
    baton_driver_t table;          /* its; else zeros */
    void *mapping, *device;
    uint64_t mapped_bytes;
};

/**
 * Maps zeros, g->bytes of them. Where they are mixed, `first` is the place of the first region's kind in their order,
 * and the tensors, which named region 0 alone, name their regions. 0, BATON_ENOMEM or BATON_ESYSTEM with an error
 * sentence.
 */
int pretend_create(struct pretend *p, enum pretend_kind kind, baton_geometry_t *g, unsigned first);
void pretend_fini(struct pretend *p);

/** What front asks of this room. */
struct pretend_room {
    /** What PRETEND_MEMORY wishes; *out stays as it is where it is not set. As pretend_create, and BATON_ESETTING. */
    int (*create)(baton_geometry_t *g, unsigned first, struct pretend **out);
    void (*destroy)(struct pretend *p); /* NULL is none */
};
extern const struct pretend_room pretend_room;

/* ---- mixed.c ---- */

/** Cuts what is mapped into regions of several kinds: private, shared and the device's. As pretend_create. */
int pretend_mix(struct pretend *p, baton_geometry_t *g, unsigned first);

/* ---- driver.c ---- */

/** A driver of a device whose pages lie at `device`, `bytes` of them, and which its thread reaches at `kernel`. */
int pretend_driver_create(uint8_t *device, uint8_t *kernel, uint64_t bytes, struct pretend_driver **out);
/** Ends its thread, once all copies are done. */
void pretend_driver_destroy(struct pretend_driver *d);
/** The table that engines give to Baton. */
baton_driver_t pretend_driver_table(struct pretend_driver *d);

#endif
