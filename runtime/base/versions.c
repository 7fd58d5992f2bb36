/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions: hazard pointers (M. Michael, 2004).
 *
 * A reader writes to its place, then reads `current`; the writer writes `current`, then reads the places. All four are
 * sequentially consistent, so at least one of them sees what the other wrote: either the reader finds that its version
 * is not the current one any more, or the writer finds the version in a place and keeps it.
 *
 * A place is given back by a release, and read by the writer with acquire: what a reader read happens before the free.
 * Where the next reader has taken the place meanwhile, its compare-exchange carries that on.
 */
#include "base/versions.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

void versions_init(struct versions *v, void (*free)(struct version *))
{
    *v = (struct versions){.free = free};
}

void versions_fini(struct versions *v)
{
    struct version *last = atomic_load_explicit(&v->current, memory_order_relaxed);
    versions_sweep(v);
    if (last != NULL)
        v->free(last);
    atomic_store_explicit(&v->current, NULL, memory_order_relaxed);
}

/* A free place, in which `reads` stands from now on. A thread begins where it was last: there it meets no other. */
static unsigned place_take(struct versions *v, struct version *reads)
{
    static _Thread_local unsigned last;
    for (unsigned tries = 1;; tries++, last = (last + 1) % VERSIONS_READERS) {
        struct version *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&v->places[last].reads, &none, reads, memory_order_seq_cst,
                                                    memory_order_relaxed))
            return last;
        if (tries % VERSIONS_READERS == 0)
            sched_yield();
    }
}

const struct version *versions_take(struct versions *v, unsigned *place)
{
    struct version *now = atomic_load_explicit(&v->current, memory_order_seq_cst), *reads = now;
    if (now == NULL)
        return NULL;
    *place = place_take(v, reads);
    while ((now = atomic_load_explicit(&v->current, memory_order_seq_cst)) != reads) {
        reads = now;
        atomic_store_explicit(&v->places[*place].reads, reads, memory_order_seq_cst);
    }
    return reads;
}

void versions_give(struct versions *v, unsigned place)
{
    atomic_store_explicit(&v->places[place].reads, NULL, memory_order_release);
}

const struct version *versions_newest(const struct versions *v)
{
    return atomic_load_explicit(&v->current, memory_order_relaxed);
}

static bool is_read(const struct versions *v, const struct version *old)
{
    unsigned i = 0;
    while (i < VERSIONS_READERS && atomic_load_explicit(&v->places[i].reads, memory_order_seq_cst) != old)
        i++;
    return i < VERSIONS_READERS;
}

void versions_sweep(struct versions *v)
{
    for (struct version **at = &v->old, *old; (old = *at) != NULL;) {
        if (is_read(v, old)) {
            at = &old->older;
            continue;
        }
        *at = old->older;
        v->free(old);
    }
}

void versions_publish(struct versions *v, struct version *next)
{
    struct version *old = atomic_load_explicit(&v->current, memory_order_relaxed);
    atomic_store_explicit(&v->current, next, memory_order_seq_cst);
    if (old != NULL) {
        old->older = v->old;
        v->old = old;
    }
    versions_sweep(v);
}
