/* SPDX-License-Identifier: BSD-3-Clause */
/* variables: Baton's settings as they are in this environment, and variables that MPI and UCX read. One thread. */
#ifndef BATON_INFO_VARIABLES_H
#define BATON_INFO_VARIABLES_H

#include <stdio.h>

#include "info/info.h"

/** Adds problems with settings, and a fact for each variable of Baton, Open MPI, MPICH and UCX that is set. */
void variables_find(struct info *i);

/** Prints every setting: value, source, bounds, default and meaning. */
void variables_print(FILE *out);

/** The value of row `number` of settings_table: a number, or what is set if that is none. `text` may hold it. */
const char *variables_value(unsigned number, char text[24]);

/** "environment" or "default". */
const char *variables_source(unsigned number);

#endif
