/* SPDX-License-Identifier: BSD-3-Clause */
/* placement_options: batonrun's options about where ranks go. Parsed only. */
#ifndef BATON_LAUNCH_PLACEMENT_OPTIONS_H
#define BATON_LAUNCH_PLACEMENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/plan/dot.h"
#include "model/cut.h"

#define PLACEMENT_TOPOLOGIES_MAX 16
#define PLACEMENT_GPUS_UNSAID UINT32_MAX /* a GPU for each rank, on hosts that have any */

struct placement_options {
    const char *hosts, *hostfile; /* "a:4,b:4"; a file; NULL: the batch system's, or this machine */
    /* Files with lstopo's XML, or hwloc's synthetic form, of every host, or of some: "HOSTS=FILE". NULL ends them. */
    const char *topologies[PLACEMENT_TOPOLOGIES_MAX + 1];
    const char *pairs;   /* a file for them, as JSON */
    const char *costs;   /* a file of what a byte costs at each distance */
    const char *network; /* a file of switches */
    struct dot_files picture;
    struct model_cut cut;
    uint32_t tokens, output_tokens;
    uint32_t cores_per_rank, gpus_per_rank;
    double inside;
    bool straddle, oversubscribe, spread, pack, together, apart;
    bool explain;
};

extern const struct option_row placement_rows[];
struct placement_options placement_defaults(void);
/** Whether any of them was given that says where ranks go, or asks for that, beside the hosts. */
bool placement_is_wished(const struct placement_options *o);
/** Checks that need all of them. 0, or -1 with *why. */
int placement_check(const struct placement_options *o, struct why *why);

#endif
