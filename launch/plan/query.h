/* SPDX-License-Identifier: BSD-3-Clause */
/* query: baton-plan's command line. Errors are sentences; nothing is printed but the manual. */
#ifndef PLAN_TOOL_QUERY_H
#define PLAN_TOOL_QUERY_H

#include <stdbool.h>

#include "dot.h"
#include "exchange.h"

enum role { ROLE_PREFILL = 0, ROLE_DECODE = 1, ROLES = 2 };

#define QUERY_ALL UINT32_MAX

struct query {
    struct engine_size size[ROLES];
    struct model_cut cut[ROLES];
    const char *file[ROLES]; /* a description; NULL: the cut of a model */
    struct request request;
    uint32_t ranks_per_node;
    baton_mode_t mode;
    uint32_t rank; /* of the decode engine; QUERY_ALL: every one */
    bool json;
    struct dot_files picture;
    bool cost;
    bool version, help;
};

/** 0, or -1 with *why: an option that is unknown, lacks its value or has a bad one. Strings point into argv. */
int query_read(struct query *q, int argc, char **argv, struct why *why);

/** The manual on standard output. */
void query_help(void);

#endif
