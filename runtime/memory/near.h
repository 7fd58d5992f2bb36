/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * near: how this process reaches the cache of another process of this node. A cache that Baton allocated lies in the
 * rank's segment. For memory that the engine owns, each region takes the first of these ways that works:
 *
 *   mapped    the file that it is mapped from is mapped here too. A file that can be mapped for reading
 *             alone, such as a sealed one, is read in this way and written by cross-memory attach, if its owner may
 *             write it
 *   attached  cross-memory attach. It is tried by reading bytes that are known: they prove that the kernel permits it,
 *             and that the process is the right one
 *
 * Made once by the thread that starts, and not changed after that.
 */
#ifndef BATON_MEMORY_NEAR_H
#define BATON_MEMORY_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process.h"
#include "core/path.h"
#include "wire/card.h"

enum memory_reach {
    MEMORY_OUT_OF_REACH,
    MEMORY_MAPPED,  /* its base is an address of this process */
    MEMORY_ATTACHED /* its base is one of its process, for process_vm_readv and process_vm_writev */
};

/** How the regions of a cache are read, or written. */
struct memory_way {
    enum memory_reach *reach; /* by region */
    char **bases;             /* likewise; NULL where it is out of reach */
};

/** The segment of a rank of this node. */
struct memory_segment {
    const uint8_t *mapped; /* here */
    uint64_t bytes;
    struct process *process; /* with its sample */
};

struct memory_near {
    struct memory_way read, write;
    struct path_regions regions; /* as the card says */
    struct path_region *places;
    void **mappings;
    size_t *lengths;
    uint32_t num_mappings;
    char why[96]; /* why a region has no better way, or not for writing; empty: each has */
};

/**
 * Finds the ways to the cache that a card names, if it names one. 0; BATON_ENOMEM; BATON_EMESSAGE: the card names a
 * place outside of the segment. Out of reach is no error.
 */
int memory_near_find(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment);
/** Whether each region can be written that can be read. */
bool memory_near_is_writable(const struct memory_near *n);
void memory_near_fini(struct memory_near *n);

#endif
