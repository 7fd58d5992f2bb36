/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core: the protocol. Offers, wants, handshakes and their timers, as one state machine without I/O, threads or clock:
 * it runs in a simulator as it runs in production.
 *
 *   core_step(core, now, …) takes what happened since the last step, fires the timers that are due, moves legs, and
 *   makes its calls on the port; outcomes are then taken by core_take.
 */
#ifndef BATON_CORE_CORE_H
#define BATON_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "core/call.h"
#include "core/directory.h"
#include "core/outcome.h"
#include "core/port.h"
#include "observe/log.h"

struct core;
struct metrics;
struct wire_message;

struct core_config {
    const struct settings *settings;
    const struct directory *directory; /* outlives the core */
    uint32_t self;                     /* my rank in it */
    const baton_geometry_t *geometry;  /* mine; NULL: no cache */
    const baton_path_t *path;          /* by rank: the path to it */
    const baton_path_t *path_out;      /* by rank: what is told of bytes that are written there */
    uint8_t *arena;                    /* my table arena, 8-aligned */
    uint64_t arena_bytes;
    const struct port *port;
    struct logger *log;
    struct metrics *metrics; /* what has moved counts there; NULL: nowhere */
};

int core_create(const struct core_config *config, struct core **out);
/** Calls that the core makes to the room above it, verdict/. NULL hooks: there is none. */
struct core_hooks {
    void (*message)(struct core *core, uint32_t rank, const struct wire_message *m); /* REPORT to STANDING */
    void (*end)(struct core *core, struct outcome *told);                            /* a call ended, or was given up */
    void (*loss)(struct core *core, uint32_t rank);                                  /* a rank was lost */
    void (*shut)(struct core *core);                                                 /* this rank closes */
    void (*destroy)(struct core *core);
};

/** `self` is the hooks' own. Once, before the first step. */
void core_hook(struct core *core, const struct core_hooks *hooks, void *self);
/** Frees everything. Legs must be quiet (core_is_quiet), else their tables stay allocated. */
void core_destroy(struct core *core);

/* ---- what the engine submits ------------------------------------------------------------------------------------- */

/** Takes a call at `now`: it is the core's from here on. */
void core_submit(struct core *core, uint64_t now, struct call *call);

/** Ends a call that the engine was told is given up, as that said. An id that has ended is ignored. */
void core_give_up(struct core *core, uint64_t now, baton_id_t id, baton_status_t status, int error, const char *detail);
/** Ends a call instead of beginning it: nobody hears of it but its engine. */
void core_decline(struct core *core, uint64_t now, struct call *call, int error, const char *detail);

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

/**
 * Handles events, fires timers, moves legs. `heard_ns`, which is not after `now`: all that had come by then is among
 * these events, or was among those of earlier steps. No timer fires that was due later: see timer.h.
 */
void core_step(struct core *core, uint64_t now, uint64_t heard_ns, const struct port_event *events, int num_events);

/** When the next timer is due; UINT64_MAX: none. */
uint64_t core_next_ns(const struct core *core);

/** Something is in hand that polling may advance: reads, moves, or messages that wait for credits. */
bool core_is_busy(const struct core *core);
/** A peer reads from here, or writes to here, over a path that needs this process to poll. */
bool core_is_serving(const struct core *core);

/** Whether core_take has something to give. */
bool core_has_outcome(const struct core *core);
/** Takes the next: outcome_free is the caller's now. NULL: none. */
struct outcome *core_take(struct core *core);

/** Ends everything with BATON_ECLOSED. Step until core_is_quiet. */
void core_shut(struct core *core, uint64_t now);
/** No offer, want or leg is left, no outcome waits to be decided. */
bool core_is_quiet(const struct core *core);
/** All offers and wants that are left were given up. */
bool core_is_given_up(const struct core *core);

/**
 * This member leaves alone: tells so its neighbours, and all with which it had business. Its end is no loss to them.
 */
void core_tell_left(struct core *core, uint64_t now);
/**
 * This rank leaves its world of MPI: from now on it finds out which rank is lost, whatever it had to do with that one.
 * Every rank watches rank 0 and its own node; rank 0 watches all, and tells them.
 */
void core_leave(struct core *core, uint64_t now);
/**
 * The rank without which the world is closed, the first that was found: windows it shares cannot be freed. -1: none.
 */
int64_t core_loss(const struct core *core);
#define CORE_NAME_MAX (BATON_ENGINE_NAME_MAX + WIRE_HOST_MAX + 32)
/** "rank 5 (engine decode1, host n07)", in at most CORE_NAME_MAX bytes. */
void core_rank_name(const struct core *core, uint32_t rank, char *text, size_t size);

/**
 * Between steps: takes an engine that has gone, and with which the core has nothing to do any more. The caller has
 * directory_forget done before the next step. False: there is none.
 */
bool core_take_forgotten(struct core *core, uint32_t *engine);

/** Fills what the core counts: all but turns, again, paths and what paths count. Any thread. */
void core_stats(const struct core *core, baton_stats_t *out);
int core_pending(const struct core *core, uint64_t now, baton_pending_t *out, int max);

#endif
