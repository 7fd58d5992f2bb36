/* SPDX-License-Identifier: BSD-3-Clause */
/* early: see early.h. */
#include "core/early_inside.h"

#include <stdlib.h>

#include "core/state.h"

int early_create(struct core *core)
{
    core->early = calloc(1, sizeof *core->early + core->c.directory->most * sizeof core->early->of[0]);
    return core->early != NULL ? 0 : BATON_ENOMEM;
}

void early_destroy(struct core *core)
{
    free(core->early);
}

bool early_may_keep(const struct core *core, uint32_t rank, enum early_kind kind)
{
    uint64_t most = kind == EARLY_LIVE ? core->c.settings->waiting : core->c.settings->tombstones;
    uint64_t each = most / 4 > 0 ? most / 4 : 1;
    return core->early->kept[kind] < most && core->early->of[rank][kind] < each;
}

void early_keep(struct core *core, uint32_t rank, enum early_kind kind)
{
    core->early->kept[kind]++;
    core->early->of[rank][kind]++;
}

void early_drop(struct core *core, uint32_t rank, enum early_kind kind)
{
    core->early->kept[kind]--;
    core->early->of[rank][kind]--;
}
