/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe: asks each host of a run what it is. The launcher that will start the ranks first starts this program once on
 * each host; it prints its machine as a line (place/machine.h) on standard error, from which this one takes it.
 */
#ifndef BATON_LAUNCH_PROBE_H
#define BATON_LAUNCH_PROBE_H

#include "batonrun/launcher.h"
#include "place/allocation.h"
#include "place/machine.h"

#define PROBE_OPTION "--probe" /* batonrun's first argument, where it is the probe */

/** What the probe itself does. Returns the status to exit with. */
int probe_main(void);

/** How hosts are reached. */
struct probe_way {
    const struct launcher *launcher;
    char *const *words; /* the user's for the launcher; NULL: none */
    const char *self;   /* this program's file, the same on all hosts */
};

/**
 * Fills machines[i] for host i. 0, or -1 with *why: which hosts did not answer within a minute, and a second more for
 * each ten hosts, or what failed. In both cases the machines of hosts that answered are there.
 */
int probe_hosts(const struct allocation *a, const struct probe_way *way, struct machine *machines, struct why *why);

#endif
