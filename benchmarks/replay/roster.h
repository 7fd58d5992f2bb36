/* SPDX-License-Identifier: BSD-3-Clause */
/* roster: the engines of both sides, numbered in the order of their ranks. */
#ifndef REPLAY_ROSTER_H
#define REPLAY_ROSTER_H

#include <stdint.h>

#include "baton.h"
#include "replay/options.h"

struct roster_engine {
    char name[BATON_ENGINE_NAME_MAX];
    uint32_t tp, pp;
};

struct roster {
    uint32_t num[SIDES];
    struct roster_engine *engines[SIDES];
};

/** The number of the engine of that name. The number of all engines of the side: there is none. */
uint32_t roster_find(const struct roster *roster, enum side side, const char *name);

#endif
