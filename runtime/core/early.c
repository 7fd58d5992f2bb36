/* SPDX-License-Identifier: BSD-3-Clause */
/* early: see early.h. */
#include "core/early.h"

#include <stdlib.h>

#include "core/state.h"

struct early {
    uint32_t kept;
    uint32_t of[]; /* by rank */
};

int early_create(struct core *core)
{
    core->early = calloc(1, sizeof *core->early + core->c.directory->num_ranks * sizeof core->early->of[0]);
    return core->early != NULL ? 0 : BATON_ENOMEM;
}

void early_destroy(struct core *core)
{
    free(core->early);
}

bool early_may_keep(const struct core *core, uint32_t rank)
{
    uint64_t most = core->c.settings->waiting, each = most / 4 > 0 ? most / 4 : 1;
    return core->early->kept < most && core->early->of[rank] < each;
}

void early_keep(struct core *core, uint32_t rank)
{
    core->early->kept++;
    core->early->of[rank]++;
}

void early_drop(struct core *core, uint32_t rank)
{
    core->early->kept--;
    core->early->of[rank]--;
}

uint32_t early_kept(const struct core *core)
{
    return core->early->kept;
}

uint32_t early_kept_of(const struct core *core, uint32_t rank)
{
    return core->early->of[rank];
}
