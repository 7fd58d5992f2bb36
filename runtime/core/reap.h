/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reap: memory of what has ended. An end takes effect at once: names, timers, tags, budgets and places in lists are
 * given back where it ends. Only the memory stays until the end of the step, so that a function that still holds a
 * pointer to what ended beneath it finds its state there, and no other's bytes.
 */
#ifndef BATON_CORE_REAP_H
#define BATON_CORE_REAP_H

#include <stddef.h>

/** All of one core; zeroed before. */
struct reap {
    struct reaped *first;
};

/** Zeroed memory, to be given back by reap_add. NULL: out of memory. */
void *reap_new(size_t bytes);
/** Its owner has ended. NULL is ignored. */
void reap_add(struct reap *r, void *memory);
/** Frees all that was added. The step is over: nobody points to it. */
void reap_free(struct reap *r);

#endif
