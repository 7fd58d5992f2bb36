/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd: hosts that would have so many ranks that none gets on. Each rank has two busy threads or more, and a host with
 * hundreds of them for each hardware thread is of no use to anybody for minutes.
 */
#ifndef BATON_LAUNCH_CROWD_H
#define BATON_LAUNCH_CROWD_H

#include "batonrun/placement.h"

#define CROWD_RANKS 4 /* of a hardware thread, at most */

/**
 * Whether no host gets more than CROWD_RANKS a hardware thread of those that ranks may use there. 0, or -1 with *why.
 * `placement`: NULL: all ranks go to this machine.
 */
int crowd_check(const struct placement *placement, uint32_t ranks, struct why *why);

#endif
