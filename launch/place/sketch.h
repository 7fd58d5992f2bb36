/* SPDX-License-Identifier: BSD-3-Clause */
/* sketch: where each thing of a picture of a placement lies: nodes, their packages, NUMA nodes, ranks and devices. */
#ifndef BATON_PLACE_SKETCH_H
#define BATON_PLACE_SKETCH_H

#include "launch/plan/drawing.h"
#include "place/explain.h"

#define SKETCH_NODES_MAX 64 /* that are drawn */
#define SKETCH_TITLE_PX 13  /* a line of letters above the parts of a box */
#define SKETCH_PAD_PX 5
#define SKETCH_CORE_PX 9
#define SKETCH_CORES_MAX 64 /* squares of a NUMA node; of more cores, several share one */

/** A NUMA node or a package of a node: a run of its cores. Places are those of the page. */
struct sketch_part {
    struct drawing_box box;
    uint32_t first_core, end_core;
    uint32_t ranks;      /* that begin in it; of NUMA nodes only */
    double devices_y;    /* where the devices' boxes begin, which are in it and in no smaller part */
    uint32_t devices;    /* so many */
    uint32_t cores_a_px; /* cores that share a square; of NUMA nodes only */
};

struct sketch_node {
    struct drawing_box box;
    uint32_t number; /* in the world */
    uint32_t num_packages, num_numas;
    struct sketch_part whole, *packages, *numas; /* in order of core */
};

struct sketch {
    const struct explain *explain;
    uint32_t num_nodes; /* drawn, in order of the world */
    uint32_t left_out;  /* further ones that hold ranks */
    struct sketch_node *nodes;
    uint32_t *rank_at;         /* by seat */
    struct drawing_box *ranks; /* by rank; of width 0: its node is not drawn */
    struct drawing_box page;   /* of the nodes, from 0, 0 on */
};

/** 0; -1: no memory. Call sketch_fini in both cases. */
int sketch_init(struct sketch *s, const struct explain *e);
void sketch_fini(struct sketch *s);

/** The device's box in a part, of which it is the k-th. */
struct drawing_box sketch_device(const struct sketch_part *part, uint32_t k);
/** The k-th square of cores of a NUMA node. */
struct drawing_box sketch_core(const struct sketch_part *numa, uint32_t k);
/** Whether the cores near a device are in that part, and not all in a part of the next smaller kind. */
bool sketch_is_of(const struct sketch_node *n, const struct machine_device *d, const struct sketch_part *part);

#endif
