/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info: what baton-info found out of one host: problems, each with what to do, and facts. Made by the parts of
 * baton-info and by its helper programs, read by the page, the JSON text and batonrun --check. One thread.
 */
#ifndef BATON_INFO_INFO_H
#define BATON_INFO_INFO_H

#include <stdbool.h>
#include <stddef.h>

/** On which nodes of a world a fact should be the same. */
enum info_scope {
    INFO_OF_NODE, /* it need not be */
    INFO_OF_KIND, /* on nodes whose machines are alike, up to a tenth of each number in it: what follows from memory */
    INFO_OF_ALL
};

/** The fact by which machines are alike. */
#define INFO_KIND_SECTION "machine"
#define INFO_KIND_NAME "hwloc"

struct info_fact {
    char *section, *name, *value;
    enum info_scope scope;
};

struct info_problem {
    char *what, *remedy; /* sentences without their full stops */
    char *quote;         /* lines of another program that say more; may be empty */
};

struct info {
    struct info_fact *facts;
    struct info_problem *problems;
    size_t num_facts, num_problems;
};

/** Adds a fact. Without memory, this and all else here ends the process with status 1. */
void info_fact(struct info *i, enum info_scope scope, const char *section, const char *name, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/** Adds a problem, unless there is one already whose sentence `what` begins with. `quote` may be NULL. */
void info_problem(struct info *i, const char *what, const char *remedy, const char *quote);

/** Adds the facts and problems of *from. */
void info_take(struct info *i, const struct info *from);

/** The value of a fact; NULL: there is none of this name. */
const char *info_value(const struct info *i, const char *section, const char *name);

void info_fini(struct info *i);

#endif
