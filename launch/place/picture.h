/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture: the page of --explain as a picture: nodes with their packages, NUMA nodes, cores, GPUs and NICs, ranks in
 * the colours of their engines, the heaviest flows between them, and what the placement costs.
 */
#ifndef BATON_PLACE_PICTURE_H
#define BATON_PLACE_PICTURE_H

#include "place/explain.h"

/** Writes it as SVG. 0, or -1: no memory. Errors of the stream stay in it, and the caller checks for them. */
int picture_draw(FILE *out, const struct explain *e);

#endif
