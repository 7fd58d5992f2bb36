/* SPDX-License-Identifier: BSD-3-Clause */
/* tally: see tally.h. */
#include "core/tally.h"

#include "core/state.h"
#include "observe/metrics.h"

static baton_path_t usual_path(const struct core *core, const struct tally *t)
{
    return (t->write ? core->c.path_out : core->c.path)[t->peer];
}

uint64_t tally_by(const struct core *core, const struct tally *t, baton_path_t path)
{
    return t->by[path] + (path == usual_path(core, t) ? t->by[BATON_PATH_NONE] : 0);
}

baton_path_t tally_path(const struct core *core, const struct tally *t)
{
    baton_path_t most = usual_path(core, t);
    for (baton_path_t i = BATON_PATH_NONE + 1; i < BATON_PATHS; i++)
        if (tally_by(core, t, i) > tally_by(core, t, most))
            most = i;
    return most;
}

void tally_add(const struct core *core, const struct tally *t, uint64_t began_ns)
{
    const struct core_config *c = &core->c;
    const struct directory_engine *e = c->directory->engines[c->directory->engine_of[t->peer]];
    metrics_transfer(c->metrics, (struct metrics_engine){e->index, e->name, e->life}, tally_path(core, t), t->write,
                     t->bytes, core->now - began_ns);
}
