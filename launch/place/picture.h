/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture: a placement as a graph in Graphviz's language: switches, nodes, packages and NUMA nodes as clusters in one
 * another, the ranks in them with what they have, the heaviest flows between ranks as edges, and what it all costs.
 */
#ifndef BATON_PLACE_PICTURE_H
#define BATON_PLACE_PICTURE_H

#include "place/explain.h"

#define PICTURE_NODES_MAX 64 /* that are drawn */
#define PICTURE_FLOWS_MAX 64 /* of each kind: from prefill to decode, and within engines */

/** 0, or -1: no memory. Errors of the stream stay in it, and the caller checks for them. */
int picture_write(FILE *out, const struct explain *e);

#endif
