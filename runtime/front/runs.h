/* SPDX-License-Identifier: BSD-3-Clause */
/* runs: a leg's plan as runs, which are what the net moves (core/net.h). The thread that makes a turn. */
#ifndef BATON_FRONT_RUNS_H
#define BATON_FRONT_RUNS_H

#include "core/net.h"

/** As the move of a path (core/path.h), over the net. */
int64_t runs_move(const struct net *net, const struct path_leg *leg, uint64_t budget);

#endif
