/* SPDX-License-Identifier: BSD-3-Clause */
/* print: an exchange as text, JSON and a graph. Equal exchanges give equal bytes. */
#ifndef PLAN_TOOL_PRINT_H
#define PLAN_TOOL_PRINT_H

#include <stdio.h>

#include "query.h"

/** Each 0, or -1 with *why: no memory. Errors of the stream stay in it, and the caller checks for them. */
int print_text(const struct query *q, const struct exchange *x, FILE *out, struct why *why);
int print_json(const struct query *q, const struct exchange *x, FILE *out, struct why *why);
int print_graph(const struct query *q, const struct exchange *x, FILE *out, struct why *why);

/** "layers 0-31, heads 0-1", "prefill 0 (tp 0, pp 0)": as all of these name them. */
void print_box(FILE *out, const struct plan_box *b, uint32_t num_splits);
void print_rank(FILE *out, const struct engine *e, uint32_t rank);

/** Measures what one consumer's plan costs, and prints it. */
int print_cost(const struct query *q, const struct exchange *x, FILE *out, struct why *why);

#endif
