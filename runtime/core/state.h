/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state: the core's own structures, shared by its files and by nobody else.
 *
 *   producer: offer -> seats (one a consumer engine) -> readers (its ranks); early wants wait as waiters of the offer
 *   consumer: link (one a producer engine wanted) -> contacts (its ranks that serve us); want -> legs (one a contact)
 *
 * All of it belongs to the thread that steps the core.
 */
#ifndef BATON_CORE_STATE_H
#define BATON_CORE_STATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/core.h"
#include "core/lease.h"
#include "core/timer.h"

/* ---- producer ---------------------------------------------------------------------------------------------------- */

enum reader_state { READER_NONE, READER_GRANTED, READER_ENDED };

/** One rank of a consumer engine, as a seat knows it. */
struct reader {
    uint64_t want; /* the attempt that was granted */
    int32_t error; /* once ended: how */
    uint8_t state; /* enum reader_state */
    bool expected; /* it reads from me, so its end is waited for */
};

struct seat {
    uint32_t engine; /* DIRECTORY_NONE: free for any */
    uint32_t open;   /* expected readers that have not ended */
    bool bound, complete;
    struct reader *readers; /* by index in the engine; NULL until bound */
};

/** A want or release that came before its offer. */
struct waiter {
    uint32_t peer;
    bool release; /* else a want */
    int32_t error;
    uint64_t want, ticket_incarnation, ticket_serial;
    uint32_t tokens;
    struct timer timer; /* forgets it */
    struct offer *offer;
    struct waiter *prev, *next;
};

enum offer_state { OFFER_AWAITED, OFFER_LIVE, OFFER_ENDED };

/** All that is known of one request key on this rank, from the first word of it until its tombstone goes. */
struct offer {
    char key[BATON_KEY_MAX];
    UT_hash_handle hh;
    enum offer_state state;
    struct waiter *waiters; /* AWAITED */
    /* LIVE */
    struct core_submit *submit;
    struct lease lease;
    uint32_t num_seats;
    struct seat seats[BATON_CONSUMERS_MAX];
    uint32_t serving; /* readers granted whose path needs my polling */
    int32_t worst;    /* the first error a reader ended with */
    int32_t worst_peer;
    struct timer timer; /* LIVE: time to live; ENDED: tombstone */
    /* ENDED */
    uint64_t serial;
    int error;
    struct offer *prev, *next; /* among the live, or the ended */
};

/* ---- consumer ---------------------------------------------------------------------------------------------------- */

/** Whatever a tag names: reads of cards, and legs. */
struct op {
    uint64_t tag;
    UT_hash_handle hh;
    enum { OP_CONTACT, OP_LEG } kind;
};

enum contact_state { CONTACT_NEEDED, CONTACT_READING, CONTACT_GOOD };

/** One producer rank that serves me, per link. */
struct contact {
    struct op op; /* first: an op is cast back */
    struct link *link;
    uint32_t peer;
    enum contact_state state;
    uint32_t attempts;
    struct timer timer;     /* deadline of a reading, or pause before the next */
    struct plan_box *boxes; /* my parts that it serves; in the link's array */
    uint32_t num_boxes;
    uint8_t readers[WIRE_READERS_BYTES]; /* bit i: the rank of index i of my engine reads from it too */
    struct plan *plan;                   /* GOOD */
    uint64_t board_offset, arena_offset, arena_bytes, pool_offset, pool_bytes;
    uint32_t board_slots, num_blocks; /* the peer's */
};

enum link_state { LINK_IDLE, LINK_SHAKING, LINK_READY, LINK_REFUSED };

/** One producer engine, as a consumer of it. */
struct link {
    uint32_t engine;
    enum link_state state;
    uint32_t num_contacts, good;
    struct contact *contacts;
    struct plan_box *boxes;
    uint32_t *idle_ranks; /* producer ranks that nobody of my engine reads; only where I am the one to tell them */
    uint32_t num_idle;
    struct want *queue; /* wants behind the handshake, in order */
    uint32_t queued;
    uint64_t since_ns; /* first of the queue, or start of the handshake */
    int error;         /* REFUSED */
    int32_t error_peer;
    struct plan_why why;
};

enum leg_state { LEG_ASKED, LEG_TABLE, LEG_MOVING, LEG_FENCE, LEG_FENCED, LEG_CLOSED };

/** The part of a want between one producer rank and me. */
struct leg {
    struct op op; /* first */
    struct want *want;
    struct contact *contact;
    enum leg_state state;
    bool issued;   /* TABLE, FENCE: the read is under way */
    bool told;     /* the producer knows of the want */
    bool refused;  /* it said no, so it needs no word of the end */
    bool parked;   /* waits for PORT_QUIET */
    bool runnable; /* in core->run */
    struct timer resend;
    uint64_t pause_ns;
    uint32_t slot;
    uint32_t table_bytes;
    uint64_t generation, table_offset;
    uint32_t *src_blocks;
    struct plan_transfer transfer;
    struct plan_cursor cursor;
    uint64_t taken, landed;
    struct leg *run_prev, *run_next;
};

enum want_state { WANT_QUEUED, WANT_ACTIVE, WANT_DRAINING };

struct want {
    uint64_t seq; /* = the submission's id */
    UT_hash_handle hh;
    enum want_state state;
    struct core_submit *submit;
    struct link *link;
    struct leg *legs;
    uint32_t num_legs, fenced, closed;
    struct timer deadline;
    baton_status_t status; /* DRAINING: what it will end as */
    int error;
    int32_t peer;
    char detail[128];
    struct want *prev, *next; /* in link->queue */
};

/* ---- the core ---------------------------------------------------------------------------------------------------- */

/** A message that the port could not take yet. Its order with others to that peer is kept. */
struct unsent {
    struct unsent *prev, *next;
    uint32_t peer, bytes;
    uint8_t data[];
};

struct core {
    struct core_config c;
    uint64_t incarnation;   /* mine */
    uint32_t engine, index; /* my engine, my index in it */
    uint64_t now;
    struct timers timers;
    uint64_t next_tag;
    bool shut;

    struct leases *leases;
    struct offer *offers;       /* by key */
    struct offer *live, *ended; /* the latter are tombstones, oldest first */
    uint32_t num_ended, num_waiting, num_live, serving;
    bool **reads_me; /* by engine: by index in it, whether that rank reads from me; computed on demand */

    struct link **links; /* by engine */
    struct want *wants;  /* by seq */
    struct op *ops;
    struct leg *run; /* legs that can advance, in turn */
    uint64_t inflight;
    uint32_t num_legs, reading; /* reads of cards, tables, generations under way */

    struct unsent *unsent;
    uint32_t num_unsent;
    uint32_t *unsent_to;  /* by rank: how many of them */
    uint64_t *blocked_at; /* by rank: the last flush in which it took nothing */
    uint64_t flushes;

    struct core_submit *outcomes, *outcomes_last;
    baton_stats_t stats;
};

/* core.c */
void core_send(struct core *core, uint32_t peer, struct wire_message *m);
/** Ends a submission: its event is filled by the caller but for type, id, key, user, blocks and total_ns. */
void core_outcome(struct core *core, struct core_submit *submit, baton_status_t status, int error);
int op_add(struct core *core, struct op *op, int kind);
void op_remove(struct core *core, struct op *op);

/* offer.c: the producer's side */
void offer_submit(struct core *core, struct core_submit *s);
bool offer_cancel(struct core *core, baton_id_t id, int error); /* false: no live offer has that id */
void offer_on_want(struct core *core, uint32_t peer, const struct wire_message *m);
void offer_on_end(struct core *core, uint32_t peer, const struct wire_message *m); /* DONE, CANCEL, RELEASE */
void offers_shut(struct core *core);
void offers_destroy(struct core *core);

/* link.c: handshakes */
struct link *link_of(struct core *core, uint32_t engine, int *error, struct plan_why *why);
void link_queue(struct core *core, struct link *link, struct want *want);
void link_unqueue(struct core *core, struct link *link, struct want *want);
void link_on_card(struct core *core, struct contact *contact, const struct port_event *e);
void links_destroy(struct core *core);
/** Whether a lease that a peer names lies within what its card said: slot and table. */
bool contact_holds(const struct contact *c, uint32_t slot, uint64_t table_offset, uint64_t table_bytes);
/** Marks which ranks of engine `consumer` read from rank `index` of engine `producer`. */
int link_readers(const struct core *core, uint32_t consumer, uint32_t producer, uint32_t index, bool *out);

/* want.c, leg.c: the consumer's side */
void want_submit(struct core *core, struct core_submit *s);
void want_begin(struct core *core, struct want *want); /* the link is ready */
void want_fail(struct core *core, struct want *want, baton_status_t status, int error, int32_t peer,
               const char *detail);
void want_leg_fenced(struct core *core, struct want *want);
void want_leg_closed(struct core *core, struct want *want);
bool want_cancel(struct core *core, baton_id_t id);
void wants_shut(struct core *core);
void wants_destroy(struct core *core);

void leg_ask(struct core *core, struct leg *leg);
void leg_on_message(struct core *core, uint32_t peer, const struct wire_message *m); /* GRANT, NACK */
void leg_on_event(struct core *core, struct leg *leg, const struct port_event *e);
void leg_run_all(struct core *core);
void leg_stop(struct core *core, struct leg *leg); /* the want drains: give up, close when quiet */
void leg_free(struct core *core, struct leg *leg);

#endif
