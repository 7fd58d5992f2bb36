/* SPDX-License-Identifier: BSD-3-Clause */
/* text: a file of the user's, a line at a time. */
#ifndef BATON_PLACE_TEXT_H
#define BATON_PLACE_TEXT_H

#include "option/why.h"

/** Gets a line without its end and its note, which begins with "#"; it may change the line. 0, or -1 with *why. */
typedef int (*text_take_fn)(void *arg, char *line, struct why *why);

/**
 * Calls `take` for each line of a text, until it refuses one: *why is then "line 3", `of` and why it was refused, or
 * that there was no memory.
 */
int text_lines(const char *text, const char *of, text_take_fn take, void *arg, struct why *why);

#endif
