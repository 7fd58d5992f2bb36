/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pretend: memory as an engine might own it, for tests. With the setting BATON_MEMORY, baton_cache_create takes such
 * memory and wraps it, so that every program can be run over every kind of memory.
 *
 * THE DEVICE. Its pages are mapped twice. One mapping is the device's: no thread may touch it, and it is what is
 * wrapped. The other is the engine's, as if its kernels ran there. Between the device's pages and others only the
 * driver copies: by a thread of its own, later, and in any order.
 */
#ifndef BATON_PRETEND_PRETEND_H
#define BATON_PRETEND_PRETEND_H

#include <stdint.h>

#include "baton.h"

/** Values of the setting BATON_MEMORY. */
enum pretend_kind { PRETEND_NONE = 0, PRETEND_PRIVATE = 1, PRETEND_SHARED = 2, PRETEND_DEVICE = 3 };

struct pretend_driver;

struct pretend {
    void *base;                    /* the engine's, aligned to 2 MiB */
    void *wrapped;                 /* the same, as it is to be wrapped */
    struct pretend_driver *driver; /* PRETEND_DEVICE */
    void *mapping, *device;
    uint64_t mapped_bytes;
};

/** Maps zeros. 0, BATON_ENOMEM or BATON_ESYSTEM with an error sentence. */
int pretend_create(struct pretend *p, enum pretend_kind kind, uint64_t bytes);
void pretend_fini(struct pretend *p);

/* ---- driver.c ---- */

/** A driver of a device whose pages lie at `device`, `bytes` of them, and which its thread reaches at `kernel`. */
int pretend_driver_create(uint8_t *device, uint8_t *kernel, uint64_t bytes, struct pretend_driver **out);
/** Ends its thread, once all copies are done. */
void pretend_driver_destroy(struct pretend_driver *d);
/** The table that engines give to Baton. */
baton_driver_t pretend_driver_table(struct pretend_driver *d);

#endif
