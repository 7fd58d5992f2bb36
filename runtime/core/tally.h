/* SPDX-License-Identifier: BSD-3-Clause */
/* tally: what has moved between this rank and others, counted for events, and for the metrics by engine and path. */
#ifndef BATON_CORE_TALLY_H
#define BATON_CORE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

struct core;

/** Bytes that have moved between this rank and one peer; `write`: from mine to the peer's. */
struct tally {
    uint32_t peer;
    bool write;
    uint64_t bytes, by[BATON_PATHS]; /* all; by path; NONE: by the one to the peer */
};

/** Those that moved by one path. */
uint64_t tally_by(const struct core *core, const struct tally *t, baton_path_t path);
/** The path by which most of them moved. */
baton_path_t tally_path(const struct core *core, const struct tally *t);

/** All that was to move has landed. `began_ns`: when it was granted. */
void tally_add(const struct core *core, const struct tally *t, uint64_t began_ns);

#endif
