/* SPDX-License-Identifier: BSD-3-Clause */
/* roster: see roster.h. */
#include "replay/roster.h"

#include <string.h>

uint32_t roster_find(const struct roster *roster, enum side side, const char *name)
{
    uint32_t e = 0;
    while (e < roster->num[side] && strcmp(roster->engines[side][e].name, name) != 0)
        e++;
    return e;
}
