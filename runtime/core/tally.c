/* SPDX-License-Identifier: BSD-3-Clause */
/* tally: see tally.h. */
#include "core/tally.h"

#include "core/state.h"
#include "observe/metrics.h"

void tally_add(const struct core *core, uint32_t peer, bool write, uint64_t bytes, uint64_t began_ns)
{
    const struct core_config *c = &core->c;
    const struct directory_engine *e = &c->directory->engines[c->directory->engine_of[peer]];
    metrics_transfer(c->metrics, (struct metrics_engine){e->index, e->name, e->life},
                     (write ? c->path_out : c->path)[peer], write, bytes, core->now - began_ns);
}
