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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "core/directory.h"
#include "core/port.h"
#include "observe/log.h"

struct core;

struct core_config {
    const struct settings *settings;
    const struct directory *directory; /* outlives the core */
    uint32_t self;                     /* my rank in it */
    const baton_geometry_t *geometry;  /* mine; NULL: no cache */
    const baton_path_t *path;          /* by rank: the path to it */
    uint8_t *arena;                    /* my table arena, 8-aligned */
    uint64_t arena_bytes;
    const struct port *port;
    struct logger *log;
    const char *host; /* this rank's; NULL: not known */
};

int core_create(const struct core_config *config, struct core **out);
/** Frees everything. Legs must be quiet (core_is_quiet), else their tables stay allocated. */
void core_destroy(struct core *core);

/* ---- what the engine submits ------------------------------------------------------------------------------------- */

enum core_submit_kind { CORE_OFFER = 1, CORE_WANT, CORE_CANCEL, CORE_READY, CORE_APPEND };

/**
 * One submission: malloc'ed by the caller, owned by the core from core_submit on. Checked by the caller. It carries
 * its own event, so that no accepted call can end without one for want of memory.
 */
struct core_submit {
    enum core_submit_kind kind;
    baton_id_t id;
    uint64_t submitted_ns;     /* when the call was made */
    char key[BATON_KEY_MAX];   /* what offer and want meet by */
    uint32_t attempt;          /* beside the key */
    char alias[BATON_KEY_MAX]; /* what the caller calls it, where that differs; else empty */
    void *user;
    uint32_t num_tokens, held_tokens; /* held: want */
    uint32_t time_ms;                 /* offer: ttl; want: deadline, from submitted_ns */
    _Atomic uint64_t due_ns;          /* when its time is over; the core moves it on. Read by any thread */
    /* offer */
    uint64_t serial;                     /* the ticket's */
    uint32_t num_seats;                  /* >= 1 */
    uint32_t seats[BATON_CONSUMERS_MAX]; /* engine index, or DIRECTORY_NONE: any */
    bool in_layers;                      /* it, or each chunk of it, begins without any; and then, of CORE_READY: */
    uint32_t layer_first, layer_count;   /* (num_tokens: of which chunk) */
    bool in_chunks; /* it begins without a token; CORE_APPEND adds tables, up to `room`, and says up to which token */
    uint32_t room[BATON_GROUPS_MAX]; /* block ids that fit in the place of each table */
    /* want */
    baton_mode_t mode; /* PULL or PUSH */
    bool zero_tail;    /* what lies behind its tokens in their last blocks is to be zero */
    uint32_t engine;   /* index */
    uint32_t num_tickets;
    baton_ticket_t *tickets;     /* malloc'ed, or NULL */
    uint32_t place;              /* the caller's */
    struct core_submit *spare;   /* offer, want: a second record, for the event that it is given up */
    struct core_submit *verdict; /* where verdicts are told: a record for the event */
    bool given_up;               /* it was told so */
    bool refused;                /* it never was a part of its request: its key was in use */
    bool verdict_came;           /* before its end */
    /* the core's: the event that this call will end in, and its place in the queue of outcomes */
    baton_event_t event;
    struct core_submit *next;
    struct core_submit *told_before, *told_after; /* in the list of ends that verdicts are made of */
    struct core_submit *call;                     /* of the record that tells that a call is given up: the call's */
    const char *state, *leg; /* where it stood when it failed, for the log; NULL: no more than that */
    /* both */
    struct plan_tables tables; /* into blocks */
    uint32_t num_blocks;       /* of all tables */
    uint32_t blocks[];
};

/**
 * Copies tables into a submission, whose blocks[] has room for the ids of all: per_id[i] for each id of table i, or, with
 * NULL, one; and for as many as s->room says, if that is more.
 */
void core_submit_tables(struct core_submit *s, const struct plan_tables *tables, const uint32_t *per_id);
/** Adds tables to those of s, each to the one of its group. False, and nothing has changed: there is no room for them. */
bool core_submit_append(struct core_submit *s, const struct plan_tables *more);

/** When its time is over, unless the core moves that on. */
static inline uint64_t core_submit_due_ns(const struct core_submit *s)
{
    return s->submitted_ns + s->time_ms * UINT64_C(1000000);
}

/** What its caller calls it. */
static inline const char *core_submit_name(const struct core_submit *s)
{
    return s->alias[0] != '\0' ? s->alias : s->key;
}

/** Takes one submission at `now`. */
void core_submit(struct core *core, uint64_t now, struct core_submit *submit);

/** Ends a call that the engine was told is given up, as that said. An id that has ended is ignored. */
void core_give_up(struct core *core, uint64_t now, baton_id_t id, baton_status_t status, int error, const char *detail);
/** Ends a call instead of beginning it: nobody hears of it but its engine. */
void core_decline(struct core *core, uint64_t now, struct core_submit *submit, int error, const char *detail);

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

/** Handles events, fires timers, moves legs. */
void core_step(struct core *core, uint64_t now, const struct port_event *events, int num_events);

/** When the next timer is due; UINT64_MAX: none. */
uint64_t core_next_ns(const struct core *core);

/** Something is in hand that polling may advance: reads, moves, or messages that wait for credits. */
bool core_is_busy(const struct core *core);
/** A peer reads from here, or writes to here, over a path that needs this process to poll. */
bool core_is_serving(const struct core *core);

/** Whether core_take has something to give. */
bool core_has_outcome(const struct core *core);
/** Takes one that ended: its event is filled. NULL: none. The caller's now: core_submit_free. */
struct core_submit *core_take(struct core *core);
void core_submit_free(struct core_submit *submit);

/** Ends everything with BATON_ECLOSED. Step until core_is_quiet. */
void core_shut(struct core *core, uint64_t now);
/** No offer, want or leg is left, no outcome waits to be decided. */
bool core_is_quiet(const struct core *core);
/** Of offers and wants, none is left but those that were given up. */
bool core_is_given_up(const struct core *core);

/** Once all ranks listen: this rank and rank 0 tell each other their hosts, by which the lost are named. */
void core_greet(struct core *core, uint64_t now);
/**
 * This rank closes: from now on it finds out which rank is lost, whatever it had to do with that one. Every rank watches
 * rank 0 and its own node; rank 0 watches all, and tells them.
 */
void core_leave(struct core *core, uint64_t now);
/** The rank without which the world is closed, the first that was found: windows it shares cannot be freed. -1: none. */
int64_t core_loss(const struct core *core);
/** "rank 5 (engine decode1, host n07)" */
void core_rank_name(const struct core *core, uint32_t rank, char *text, size_t size);

/** Fills what the core counts (all but messages, turns, again, paths). */
void core_stats(const struct core *core, baton_stats_t *out);
int core_pending(const struct core *core, uint64_t now, baton_pending_t *out, int max);

#endif
