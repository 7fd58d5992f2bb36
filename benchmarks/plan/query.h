/* SPDX-License-Identifier: BSD-3-Clause */
/* query: baton-plan's command line. Errors are sentences; nothing is printed but the manual. */
#ifndef PLAN_TOOL_QUERY_H
#define PLAN_TOOL_QUERY_H

#include <stdbool.h>

#include "exchange.h"

enum role { ROLE_PREFILL = 0, ROLE_DECODE = 1, ROLES = 2 };

struct query {
    struct engine_size size[ROLES];
    struct preset preset[ROLES];
    const char *file[ROLES]; /* a description; NULL: the preset */
    struct request request;
    uint32_t ranks_per_node;
    bool push;
    bool json;
    const char *svg; /* NULL: no file */
    bool one_rank;
    uint32_t rank;
    bool cost;
    bool help;
};

/** 0, or -1 with *why: an option that is unknown, lacks its value or has a bad one. Changes the strings of argv. */
int query_read(struct query *q, int argc, char **argv, struct why *why);

/** The manual on standard output. */
void query_help(void);

/** "nhd+block+layer" for a preset's layout. `text` has room for 32 bytes; returns it. */
const char *query_layout_name(unsigned layout, char *text);

#endif
