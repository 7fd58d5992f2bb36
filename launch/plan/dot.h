/* SPDX-License-Identifier: BSD-3-Clause */
/* dot: graphs in Graphviz's language, and Graphviz's program `dot`, which draws them. */
#ifndef PLAN_TOOL_DOT_H
#define PLAN_TOOL_DOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "option/why.h"

/**
 * A text within a quoted string of a graph, which shows it as it is: what the language gives a meaning is escaped, and
 * what is no printable ASCII becomes "_".
 */
void dot_escaped(FILE *out, const char *text);

/** The first lines of a graph whose edges go from left to right; its last one is "}". */
void dot_head(FILE *out, const char *name);

/** Where a graph goes; NULL: nowhere. */
struct dot_files {
    const char *dot;     /* as it is */
    const char *svg;     /* as `dot` draws it, which is looked for in PATH */
    unsigned patience_s; /* that `dot` has for it; 0: a minute */
};

static inline bool dot_is_wanted(const struct dot_files *files)
{
    return files->dot != NULL || files->svg != NULL;
}

/** A graph that is written to `out`, by its owner. */
struct dot {
    FILE *out;
    char *text;
    size_t length;
};

/** 0, or -1 with *why: no memory. Call dot_end in the first case. */
int dot_begin(struct dot *d, struct why *why);

/**
 * Puts the graph where it goes, unless `rc` is not 0: what writing it came to, with *why. Frees it. 0, or -1 with *why,
 * which names the option that a file is from. What `dot` says goes to standard error. A graph that `dot` does not draw
 * leaves the file svg as it was. Call it in the main thread.
 */
int dot_end(struct dot *d, const struct dot_files *files, int rc, struct why *why);

#endif
