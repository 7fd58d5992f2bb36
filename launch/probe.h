/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe: asks each host of a run what it is. The launcher that will start the ranks first starts this program once on
 * each host; it prints its machine as a line (place/machine.h) on standard error, from which this one takes it.
 */
#ifndef BATON_LAUNCH_PROBE_H
#define BATON_LAUNCH_PROBE_H

#include "place/allocation.h"
#include "place/machine.h"

#define PROBE_OPTION "--probe" /* batonrun's first argument, where it is the probe */

/** What the probe itself does. Returns the status to exit with. */
int probe_main(void);

/**
 * Fills machines[i] for host i. `self`: this program's file, the same on all hosts. 0, or -1 with *why: which hosts did
 * not answer within a minute, or what failed. In both cases the machines of hosts that answered are there.
 */
int probe_hosts(const struct allocation *a, const char *self, struct machine *machines, struct why *why);

#endif
