/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fleet: the engines that are there, as any thread may read them while whoever makes turns changes them. Calls look an
 * engine up here by its name; what the core knows of its ranks stands in the directory, which whoever makes turns reads
 * alone.
 *
 * A version of it (base/versions.h) is immutable: engines in the order of their names, and a number that grows with
 * each change. Versions share the records of engines; how many versions have a record is the writer's to count. A
 * reader holds a version for as long as it copies, and never waits for the writer.
 */
#ifndef BATON_FRONT_FLEET_H
#define BATON_FRONT_FLEET_H

#include <stdint.h>

#include "baton.h"
#include "base/versions.h"
#include "core/directory.h"

struct fleet_rank {
    uint64_t number;           /* the member's */
    const char *host;          /* behind the engine's ranks: neighbours in this order share one */
    uint32_t rank;             /* in the directory */
    baton_distance_t distance; /* from this process */
};

struct fleet_engine {
    char name[BATON_ENGINE_NAME_MAX];
    uint64_t life;
    uint32_t index; /* in the directory */
    baton_role_t role;
    uint32_t tp, pp, num_ranks;
    uint32_t nearest;          /* index of the nearest of its ranks; the lowest of several */
    uint32_t uses;             /* the writer's: versions that have it */
    struct fleet_rank ranks[]; /* in order of pp_rank * tp + tp_rank */
};

struct fleet_version {
    struct version version;
    uint64_t number;
    uint32_t num_engines;
    struct fleet_engine *engines[]; /* by name */
};

struct fleet;

/** Without an engine, and of number 0. NULL: no memory. */
struct fleet *fleet_create(void);
/** There are no readers any more. NULL is allowed. */
void fleet_destroy(struct fleet *r);

/* ---- whoever makes turns ----------------------------------------------------------------------------------------- */

/**
 * Engines have come: all of that directory, in one version. `self` is this rank, which distances are from. 0;
 * BATON_ENOMEM, or BATON_EEXIST: an engine of the same name is there. Nothing has changed then.
 */
int fleet_publish_all(struct fleet *r, const struct directory *d, uint32_t self);
/** One engine has come. Errors: the same. */
int fleet_publish(struct fleet *r, const struct directory *d, uint32_t self, uint32_t engine);
/**
 * The engine of that name and life has gone. 0, also where it is not there; BATON_ENOMEM: nothing has changed, so it is
 * found still, and this is to be called again.
 */
int fleet_withdraw(struct fleet *r, const char *name, uint64_t life);

/* ---- any thread -------------------------------------------------------------------------------------------------- */

/** The newest version. It stays until fleet_done, which needs *place; little may be done until then. */
const struct fleet_version *fleet_read(struct fleet *r, unsigned *place);
void fleet_done(struct fleet *r, unsigned place);

/** The engine of that name in a version; NULL: there is none. */
const struct fleet_engine *fleet_named(const struct fleet_version *v, const char *name);

/**
 * The index in the directory of the engine of that name, its life and how far its nearest rank is; or DIRECTORY_NONE.
 */
uint32_t fleet_find(struct fleet *r, const char *name, uint64_t *life, baton_distance_t *distance);

/** The newest version's number. */
uint64_t fleet_number(struct fleet *r);

#endif
