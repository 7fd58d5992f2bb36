/* SPDX-License-Identifier: BSD-3-Clause */
/* page: a report for people, and for programs. Writes only. */
#ifndef BATON_INFO_PAGE_H
#define BATON_INFO_PAGE_H

#include <stdio.h>

#include "info/info.h"

/** A problem with what to do: "before: what", and the rest indented below. */
void page_problem(FILE *out, const char *before, const struct info_problem *p);

/** The problems, or that there is none. The facts "host" and "version" of the section "baton" must be there. */
void page_problems(FILE *out, const struct info *i);

/** The facts by section, in the order in which they were found. */
void page_facts(FILE *out, const struct info *i);

/** All of it, and every setting, as JSON. 0, or -1: this build has no JSON, or no memory. */
int page_json(FILE *out, const struct info *i);

#endif
