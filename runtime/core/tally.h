/* SPDX-License-Identifier: BSD-3-Clause */
/* tally: what has moved between this rank and others, counted for the metrics by engine and path. */
#ifndef BATON_CORE_TALLY_H
#define BATON_CORE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

struct core;

/** All that was to move has landed; `write`: from mine to the peer's. `began_ns`: when it was granted. */
void tally_add(const struct core *core, uint32_t peer, bool write, uint64_t bytes, uint64_t began_ns);

#endif
