/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: one rank's part of an engine that replays. Its loop takes the engine's requests in order, keeps at most
 * --inflight of them outstanding, and sleeps on Baton's descriptor in between. What is done with a request is the
 * job's: prefill.c offers it, decode.c wants it. One thread.
 *
 * Blocks are made ready and checked in pieces, between which calls are made and events are read. So a call is made when
 * its time comes, whatever is still to be checked. With --speed a request takes its place and is made ready ahead of
 * its time, where there is a place.
 */
#ifndef REPLAY_ENGINE_H
#define REPLAY_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "replay/load.h"
#include "replay/meet.h"
#include "replay/options.h"
#include "replay/pattern.h"
#include "replay/pool.h"
#include "replay/prefix.h"
#include "replay/route.h"
#include "replay/share.h"
#include "replay/stream.h"
#include "replay/tally.h"

enum slot_state {
    SLOT_FREE,
    SLOT_READYING, /* its blocks are made ready, piece by piece */
    SLOT_FILLING,  /* the same, at the pace of a prefill */
    SLOT_HELD,     /* its blocks are ready; the call was not accepted yet */
    SLOT_OUT,      /* accepted: its event will come */
    SLOT_CHECKING  /* its event came; its blocks are checked, piece by piece */
};

/** One request on its way. */
struct slot {
    enum slot_state state;
    bool gate; /* not a request, but the signal that sabotage needs (sabotage.h) */
    uint32_t request, num_tokens;
    uint32_t held;    /* leading tokens that a decode rank has already */
    uint32_t *blocks; /* of all tables, one behind the other */
    baton_table_t tables[BATON_GROUPS_MAX];
    baton_id_t id;
    uint64_t begin_ns;       /* of the want, or of a prefill that takes time */
    struct stream_step step; /* what is made ready or checked now */
    bool done;               /* its event said so: what it wanted is there */
    bool right;              /* so are the event's numbers, and all that was checked so far */

    /* Of a prefill that takes time. */
    bool streams;    /* it is offered while it goes on */
    uint64_t due_ns; /* when it goes on; 0: it does not */
    uint32_t given;  /* tokens that were appended */
};

struct engine;

struct engine_job {
    /** Leading tokens of the request that this side has already. */
    uint32_t (*held)(const struct engine *e, uint32_t request, uint32_t num_tokens);
    /** Whether request may be begun now. */
    bool (*may_begin)(struct engine *e, uint32_t request);
    /** Whether a request may take its place ahead of its time. */
    bool (*may_prepare)(const struct engine *e);
    /** The state of a slot whose blocks were just taken: SLOT_READYING; or another one, if ready() is not for it. */
    enum slot_state (*prepare)(struct engine *e, struct slot *s);
    /** Makes a piece of the blocks ready (engine_piece); the last one, or not. */
    void (*ready)(struct engine *e, struct slot *s, bool last);
    /** Calls Baton; returns what it returns. */
    int (*call)(struct engine *e, struct slot *s, const char *key);
    /** The call was accepted. */
    void (*accepted)(struct engine *e, struct slot *s);
    /** It was refused, for good. NULL: that is counted by nobody else. */
    void (*refused)(struct engine *e, struct slot *s);
    /** The slot's due_ns has come. NULL: it never does. */
    void (*go_on)(struct engine *e, struct slot *s);
    /** Its event came: the blocks are the engine's again, and are given back when each piece was checked. */
    void (*finish)(struct engine *e, struct slot *s, const baton_event_t *event);
    /** Checks a piece, which holds poison afterwards. The last one, or not. */
    void (*check)(struct engine *e, struct slot *s, bool last);
    unsigned char poison; /* what the job's free blocks hold */
};

/** One run through the trace. */
struct engine_phase {
    uint32_t number;
    const char *name;
    double speed;              /* 0: all requests have arrived */
    uint64_t start_ns, end_ns; /* start: all ranks' */
    uint32_t next;             /* request to begin next */
    uint32_t outstanding;
    uint64_t good_ns; /* when a call last ended done, or no call was open */
    bool gate_open;
    bool waits; /* the next request has arrived and found no place */
    struct tally tally;
    struct tally_samples samples;
    struct tally_moments *moments; /* by request */
    struct load_times *times;      /* by request: of those that this rank wanted */
    uint32_t *verified;            /* by request: 1 where this rank found every element right */
};

struct engine {
    baton_t *baton;
    bool lends_thread; /* BATON_PROGRESS_CALLER */
    const struct options *options;
    const struct trace *trace;
    const struct route *route;
    const struct prefix *prefix;
    struct meet *meet;
    const char *name;
    uint32_t rank_in_engine;
    struct share share;
    struct pattern pattern;
    uint32_t num_groups;
    struct pool pools[BATON_GROUPS_MAX]; /* by group */
    const struct engine_job *job;
    uint32_t num_slots; /* --inflight, and a last one for the gate */
    struct slot *slots;
    struct engine_phase phase; /* that runs */

    /* Of the whole run. */
    uint64_t complaints;
    bool shows_progress;
    uint64_t shown_ns; /* when progress was last shown */
};

int engine_init(struct engine *e, const struct engine_job *job, const baton_geometry_t *g, struct why *why);
void engine_fini(struct engine *e);

/** Replays the engine's share once. Returns when every call has ended. If one does not end, the process exits. */
void engine_run(struct engine *e, uint32_t phase, const char *phase_name, double speed);

/** When a request arrives, on this rank's clock. */
uint64_t engine_arrival_ns(const struct engine *e, uint32_t request);

/** Postpones the slot a little: a call of it was refused at a limit. */
void engine_postpone(struct engine *e, struct slot *s);

/** Begins the gate, outside the order of requests. */
void engine_begin_gate(struct engine *e, uint32_t request);

/** The pattern's number of a request. Each phase has its own numbers, so that bytes of one phase are wrong in
   another. */
uint64_t engine_pattern_request(const struct engine *e, uint32_t request);
struct pattern_table engine_table(const struct engine *e, const struct slot *s);
/** The same, and of it the piece that is made ready or checked now. */
struct pattern_table engine_piece(const struct engine *e, const struct slot *s);

/** Whether a block of each group lies free, for the gate. */
bool engine_has_spare(const struct engine *e, uint32_t request);

/** Adds wrong elements of a request to the tally, and complains of the first. */
void engine_count_misses(struct engine *e, const struct pattern_table *t, uint32_t request,
                         const struct pattern_result *r, const char *what);

/** Prints a line on standard error that begins with the rank's name. Only the first lines are printed; all are
   counted. */
void engine_complain(struct engine *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
