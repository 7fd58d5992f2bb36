/* SPDX-License-Identifier: BSD-3-Clause */
/* variables: Baton's settings as they are in this environment, and variables that MPI and UCX read. One thread. */
#ifndef BATON_INFO_VARIABLES_H
#define BATON_INFO_VARIABLES_H

#include <stdio.h>

#include "base/settings.h"
#include "info/info.h"

/** Adds problems with settings, and a fact for each variable of Baton, Open MPI, MPICH and UCX that is set. */
void variables_find(struct info *i);

/** Prints every setting and tunable: value, source, bounds, default and meaning. */
void variables_print(FILE *out);

/** What row `number` of settings_table is called: its variable, or the tunable's name. `name` may hold it. */
const char *variables_name(unsigned number, char name[SETTING_SPELLING_MAX]);

#define VARIABLES_VALUE_MAX 64

/** Its value: a number, or what is set if that is none. Returns text. */
const char *variables_value(unsigned number, char text[VARIABLES_VALUE_MAX]);

/** "environment" or "default". */
const char *variables_source(unsigned number);

#endif
