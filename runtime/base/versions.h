/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions: the current version of something that one thread changes and any thread reads. A version is immutable once
 * it is published; a change publishes another one, and old ones are freed when nobody reads them any more.
 *
 * A reader takes one of VERSIONS_READERS places and writes there which version it reads. The writer frees an old
 * version that stands in no place, when it publishes and when it sweeps. So behind a call of the writer at most
 * VERSIONS_READERS old versions exist, however long readers lose their CPUs.
 *
 * PROGRESS. The writer never waits. A reader tries again only where a new version came in the meantime, and yields
 * where all places are taken. So a read is short: no call that may wait stands in it.
 */
#ifndef BATON_BASE_VERSIONS_H
#define BATON_BASE_VERSIONS_H

#include <stdatomic.h>

#define VERSIONS_READERS 64

/** Stands first in each version. */
struct version {
    struct version *older; /* the writer's: the next of those that wait to be freed */
};

struct versions {
    _Atomic(struct version *) current;
    struct {
        _Alignas(64) _Atomic(struct version *) reads; /* NULL: the place is free. In a cache line of its own */
    } places[VERSIONS_READERS];
    struct version *old; /* the writer's: published before, and not freed yet */
    void (*free)(struct version *);
};

/** `free` frees a version, in the writer's thread. There is no version yet. */
void versions_init(struct versions *v, void (*free)(struct version *));
/** Frees all versions. There are no readers any more. */
void versions_fini(struct versions *v);

/** The newest version, or NULL: none was published. It stays until versions_give, which needs *place. Any thread. */
const struct version *versions_take(struct versions *v, unsigned *place);
/** Not after versions_take has returned NULL. */
void versions_give(struct versions *v, unsigned place);

/** The writer: `next` is the newest version from now on. What was written to it before is seen by all who take it. */
void versions_publish(struct versions *v, struct version *next);
/** The writer: the newest version, which is its own to read without a place. NULL: none was published. */
const struct version *versions_newest(const struct versions *v);
/** The writer: frees the old versions that nobody reads. */
void versions_sweep(struct versions *v);

#endif
