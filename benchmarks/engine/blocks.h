/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks: which blocks of the cache are used, and by how many requests. A full block gets a name, the hash of all
 * tokens up to its end. A block without users keeps its name and its bytes until it is taken for something else:
 * requests that begin alike find it (the prefix cache). Every rank of an engine makes the same calls, and so has the
 * same blocks.
 */
#ifndef ENGINE_BLOCKS_H
#define ENGINE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCKS_NONE UINT32_MAX

struct block;

struct blocks {
    uint32_t count, num_free;         /* free: without users, named or not */
    struct block *all, *free, *named; /* free ones, in the order in which they are taken; those with names, by name */
};

/** 0, or -1 for want of memory. */
int blocks_init(struct blocks *b, uint32_t count);
void blocks_fini(struct blocks *b);

/** Takes `count` blocks, each for one user; the one that was free for longest first. False: fewer are free. */
bool blocks_take(struct blocks *b, uint32_t count, uint32_t *out);

/** The block of that name, which gets one more user; or BLOCKS_NONE. */
uint32_t blocks_find(struct blocks *b, uint64_t name);

/** Names a block that is full. If another one has the name, this one stays without. */
void blocks_name(struct blocks *b, uint32_t block, uint64_t name);

/** A user of each block leaves it. */
void blocks_leave(struct blocks *b, const uint32_t *blocks, uint32_t count);

#endif
