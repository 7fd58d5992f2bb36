/* SPDX-License-Identifier: BSD-3-Clause */
/* print: an exchange as text, JSON and SVG. Equal exchanges give equal bytes. */
#ifndef PLAN_TOOL_PRINT_H
#define PLAN_TOOL_PRINT_H

#include <stdio.h>

#include "query.h"

/** Each 0, or -1 with *why: no memory. Errors of the stream stay in it, and the caller checks for them. */
int print_text(const struct query *q, const struct exchange *x, FILE *out, struct why *why);
int print_json(const struct query *q, const struct exchange *x, FILE *out, struct why *why);
int print_svg(const struct exchange *x, FILE *out, struct why *why);

/** Measures what one consumer's plan costs, and prints it. */
int print_cost(const struct query *q, const struct engine *prefill, const struct engine *decode, FILE *out,
               struct why *why);

#endif
