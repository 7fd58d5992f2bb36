/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own: the memory of this rank's cache that its engine owns: its regions, and the files that they are mapped from,
 * found by asking the kernel. The thread that declares the cache makes it; then it does not change.
 */
#ifndef BATON_MEMORY_OWN_H
#define BATON_MEMORY_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/path.h"
#include "wire/card.h"

/** What an engine declares. */
struct memory_wish {
    const baton_region_t *regions;
    uint32_t num_regions;
};

/** A file that regions are mapped from. */
struct memory_file {
    uint64_t device, inode;
    int descriptor; /* mine, by which peers find it */
};

struct memory_own {
    bool is_writable;            /* all of it that is no device's */
    uint32_t num;                /* regions, after neighbours were joined */
    struct wire_region *regions; /* in the order of their addresses */
    char **bases;                /* the same regions' first bytes; NULL: a device's, which no thread may touch */
    struct path_regions all;     /* the same regions, as addresses here */
    uint32_t num_files;
    struct memory_file *files;
};

/**
 * Checks the regions, finds out where they lie, and joins those that touch each other. Tensors then name the joined
 * regions: `tensors` are changed. Returns 0, BATON_EINVAL (also where a region is not mapped, or is not shared though
 * its kind says so), BATON_ENOMEM or BATON_ESYSTEM, with an error sentence.
 */
int memory_own_create(const struct memory_wish *wish, baton_tensor_t *tensors, uint32_t num_tensors,
                      struct memory_own **out);
/** Closes the files' descriptors, once no peer needs them any more. */
void memory_own_settle(struct memory_own *m);
/** NULL is no memory. */
void memory_own_destroy(struct memory_own *m);

/** Bytes of all regions. */
uint64_t memory_own_bytes(const struct memory_own *m);

/** How many regions other processes can map. */
uint32_t memory_own_shared(const struct memory_own *m);

/** How many regions are a device's. */
uint32_t memory_own_devices(const struct memory_own *m);

#endif
