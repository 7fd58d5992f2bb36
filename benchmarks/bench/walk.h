/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk: scattered block ids. A walk is one random order of all ids of a cache, and each draw takes the next ids of it.
 * So every draw is scattered and has no id twice, and a block comes again only after all others. If the cache is
 * several times the processor's, no draw finds its blocks there. A draw is a function of seed and place: both ends of a
 * transfer compute it, and no table has to be sent.
 */
#ifndef BENCH_WALK_H
#define BENCH_WALK_H

#include <stdint.h>

struct walk {
    uint32_t num_blocks;
    uint32_t *order;
};

/** Fails without memory. *seed goes on to that of the next walk. */
void walk_init(struct walk *w, uint32_t num_blocks, uint64_t *seed);
void walk_fini(struct walk *w);

/** `count` (at most num_blocks) ids from place `start` of the walk on; start may be any number. */
void walk_draw(const struct walk *w, uint64_t start, uint32_t count, uint32_t *out);

#endif
