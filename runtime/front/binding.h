/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binding: which hardware threads the reactor and the copy workers run on, and where the cache's memory lies: what was
 * asked for, and what came of it. The thread that opens and starts; once started, any thread may read it.
 */
#ifndef BATON_FRONT_BINDING_H
#define BATON_FRONT_BINDING_H

#include <stddef.h>
#include <stdint.h>

#include "topo/pages.h"

#define BINDING_CPUS "BATON_REACTOR_CPUS"
#define BINDING_LIST_BYTES 512

struct baton;
struct textbuf;

struct binding {
    char wished[BINDING_LIST_BYTES]; /* hardware threads; empty: those of the engine's thread */
    struct pages_count pages;
};

/** Reads the wish. 0, or BATON_ESETTING: it is malformed. */
int binding_read(struct binding *p, char *(*lookup)(const char *variable));

/** For thread_start. */
const char *binding_cpus(const struct binding *p);

/** How many hardware threads this process may use: `own`, and those wished for that are not among its own. */
uint32_t binding_count(const struct binding *p, uint32_t own);

/** Once all threads run and memory has its pages: looks where they are, and warns where that is not as asked. */
void binding_check(struct baton *b);

/** Two lines of baton_describe. */
void binding_describe(const struct baton *b, struct textbuf *out);

#endif
