/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_page: the part of the page of --explain that is about variables: value, who sets it, and why. */
#ifndef BATON_LAUNCH_SETTINGS_PAGE_H
#define BATON_LAUNCH_SETTINGS_PAGE_H

#include <stdio.h>

#include "batonrun/placement.h"

/** What the command line says of variables, and the MPI library that Baton was built with. */
struct settings_given {
    bool survive;
    const char *const *exports; /* VAR or VAR=VALUE */
    unsigned num_exports;
    const char *mpi, *plugins; /* "Open MPI v4.1.4"; the folder of its components (node.h) */
};

/** A section for each kind of node that has ranks. 0, or -1: no memory. */
int settings_print(FILE *out, const struct placement *p, const struct settings_given *given);

#endif
