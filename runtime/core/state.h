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

#include "core/budget.h"
#include "core/core.h"
#include "core/lease.h"
#include "core/op.h"
#include "core/outcome.h"
#include "core/post.h"
#include "core/timer.h"
#include "core/turns.h"

#define NS_PER_MS UINT64_C(1000000)

/** Block tables in a peer's arena, as a message named them. */
struct peer_table {
    uint32_t slot, numbers;
    uint64_t generation, offset;
};

/**
 * What of an offer is in place: all of tokens [0, done), and of tokens [done, next) the layers below layer_end. Of the
 * last chunk, next is UINT32_MAX; of a whole offer, done is.
 */
struct reach {
    uint32_t done, next, layer_end;
};

#define REACH_WHOLE ((struct reach){UINT32_MAX, UINT32_MAX, UINT32_MAX})

/* ---- producer ---------------------------------------------------------------------------------------------------- */

enum reader_state { READER_NONE, READER_GRANTED, READER_ENDED };

/** One rank of a consumer engine, as a seat knows it. */
struct reader {
    uint64_t want;     /* the attempt that was granted */
    struct push *push; /* it is written to */
    uint64_t until_ns; /* its want's deadline: until then it keeps the lease alive */
    uint32_t asks;     /* how often it had asked then */
    int32_t error;     /* once ended: how */
    uint8_t state;     /* enum reader_state */
    bool expected;     /* it takes blocks from me, so its end is waited for */
    bool lost;         /* its rank was lost: only the quiet of what is written to it is waited for */
};

struct seat {
    uint32_t engine; /* DIRECTORY_NONE: free for any */
    uint32_t open;   /* expected readers that have not ended */
    bool free;       /* was, until it was bound */
    bool bound, complete;
    struct reader *readers; /* by index in the engine; NULL until bound */
};

/** A want or release that came before its offer. */
struct waiter {
    uint32_t peer;
    bool release; /* else a want */
    int32_t error;
    uint64_t want, ticket_incarnation, ticket_serial;
    uint32_t asks, tokens, held;
    uint8_t mode;
    bool partial;            /* it can take a part before the rest is in place */
    uint64_t until_ns;       /* the want's deadline */
    struct peer_table table; /* push: the consumer's */
    struct timer timer;      /* forgets it */
    struct offer *offer;
    struct waiter *prev, *next;
};

enum offer_state { OFFER_AWAITED, OFFER_LIVE, OFFER_DRAINING, OFFER_ENDED };

/**
 * What a rank wanted of the former offers of a key and attempt: its wants up to this one are over here. Their late
 * repetitions, and the words of their ends, are no words about the next offer.
 */
struct former {
    uint32_t rank;
    bool open; /* its part of the last offer was never taken: its next want is meant for that */
    uint64_t want;
};

/** A request key, while there is anything of it. */
struct request {
    char key[BATON_KEY_MAX];
    UT_hash_handle hh;
    struct offer *attempts;
};

/** All that is known of one attempt of a request on this rank, from the first word of it until its tombstone goes. */
struct offer {
    struct request *request;
    uint32_t attempt;
    struct offer *before, *behind; /* among the request's attempts */
    enum offer_state state;
    struct waiter *waiters; /* AWAITED, ENDED: for the next offer */
    struct former *formers; /* one a rank at most; of all states */
    uint32_t num_formers;
    uint32_t untaken[BATON_CONSUMERS_MAX], num_untaken; /* ENDED: engines whose seats nobody took */
    /* LIVE, DRAINING */
    struct call *call;
    baton_id_t id; /* the call's */
    UT_hash_handle by_id;
    struct lease lease;
    uint32_t num_seats;
    struct seat seats[BATON_CONSUMERS_MAX];
    struct reach reach; /* what is in place */
    uint8_t *ready;     /* of one in layers: bit i: so is my layer layer_first + i of tokens [done, next) */
    uint32_t serving;   /* readers granted whose path needs my polling */
    uint32_t pushes;    /* of its readers that are written to */
    int32_t worst;      /* the first error a reader ended with */
    int32_t worst_peer;
    struct timer timer;        /* LIVE: its time; DRAINING: until it is given up; ENDED: tombstone */
    uint64_t serial;           /* the ticket's */
    baton_status_t status;     /* DRAINING: what it will end as */
    int error;                 /* DRAINING, ENDED */
    struct offer *prev, *next; /* among the live and draining, or the ended */
};

/* ---- peers ------------------------------------------------------------------------------------------------------- */

/** A rank with which there was business: legs of wants, and readers of offers; or that is watched in closing. */
struct peer {
    uint32_t rank, business;
    bool lost;          /* silent for too long, or dead: its transfers were ended */
    bool dead;          /* for certain: it never comes back, and needs nothing that was to go there */
    bool ended;         /* dead, and nothing of it is on its way here any more */
    bool excused;       /* this rank was late itself: it asks now, and judges at the next beat */
    bool left;          /* it said that it closes without the others: its end is no loss */
    uint32_t neighbour; /* of its node: the last one that was asked whether it is dead */
    uint64_t heard_ns;  /* by core->watched_ns */
    uint64_t lost_ns;
    bool is_news; /* that it was lost, or died: in core->losses */
    struct peer *prev, *next;
    struct timer beat;
    char host[WIRE_HOST_MAX];       /* as it said; empty: not known */
    struct turns_queue asks, moves; /* its movers that wait */
    struct share share;             /* what they have in flight */
};

/** Closing, seen from this rank: see leave.c. */
struct leaving {
    bool begun;    /* this rank closes */
    bool watching; /* over all ranks (rank 0), or over rank 0 and this node */
    uint32_t lost; /* the rank without which it closes; WIRE_NOBODY: all are there so far */
    bool is_own;   /* found here, and not told by another */
    struct timer timer;
};

/* ---- what is found out in pieces --------------------------------------------------------------------------------- */

#define LOOKS_A_STEP 4096 /* at members of engines: some 0.3 ms */

enum work_state { WORK_MORE, WORK_DONE, WORK_LATER };

/** Takes longer than a step may. One piece of it is done at a time; DONE: that was the last. LATER: no memory now. */
struct work {
    enum work_state (*piece)(struct core *core, struct work *work);
    struct work *prev, *next;
};

/** A message that waits until the readers of its engine are known. */
struct word {
    struct word *prev, *next;
    uint64_t came_ns;
    uint32_t peer, bytes;
    uint8_t data[];
};

/** Which ranks of a consumer engine read from me, and, if they are written to, what. */
struct readers {
    struct work work; /* first */
    uint32_t engine, known;
    bool *reads;            /* by index in it; the first `known` of them */
    uint32_t *first;        /* likewise: its first box; one more than ranks */
    struct plan_box *boxes; /* of all, in order */
    uint32_t num_boxes, room;
    struct word *words;
};

/* ---- handshakes -------------------------------------------------------------------------------------------------- */

enum contact_state { CONTACT_NEEDED, CONTACT_READING, CONTACT_GOOD, CONTACT_REFUSED };

/** One peer rank that I exchange blocks with in one direction, per link. */
struct contact {
    struct op op; /* first: an op is cast back */
    struct link *link;
    uint32_t peer;
    enum contact_state state;
    uint32_t attempts;
    struct timer timer;           /* deadline of a reading, or pause before the next */
    const struct plan_box *boxes; /* the parts that it serves, in the link's array; or takes, in its engine's readers */
    uint32_t num_boxes;
    bool is_spare;                       /* in the place of a source that failed */
    uint32_t legs;                       /* of a spare: those that wait for its card */
    struct contact *prev, *next;         /* in link->spares */
    uint8_t readers[WIRE_READERS_BYTES]; /* of a source: bit i: the rank of index i of my engine reads from it too */
    struct push *waiting;                /* of a target: pushes that need its card */
    struct plan *plan;                   /* GOOD: from the producer's cache to the consumer's */
    uint64_t board_offset, arena_offset, arena_bytes, pool_offset, pool_bytes;
    uint32_t board_slots;
    struct plan_why why; /* REFUSED */
};

enum link_state { LINK_BUILDING, LINK_IDLE, LINK_SHAKING, LINK_READY, LINK_REFUSED };

/**
 * One peer engine: as its consumer (contacts: the ranks that serve me; wants queue until all are good), or as its
 * producer in a push (contacts: all its ranks by index, of which those that take from me are wanted, each by itself).
 */
struct link {
    struct work work; /* first; BUILDING: finds out what the other ranks of the two engines are to each other */
    uint32_t served_to, readers_to, others_to, met; /* how far that is; contacts met among the others */
    bool tells;                                     /* the idle ones */
    bool lacks; /* a part that is wanted is held by none. Its one contact may tell that the caches do not match at all;
                   else it is ESOURCE, with `why` */
    uint32_t engine;
    bool is_targets;
    enum link_state state;
    uint32_t num_contacts, good;
    struct contact *contacts;
    struct plan_box *boxes;
    bool *served;          /* by index in my engine: whether that rank's cache can be filled from there */
    uint32_t *spare_ranks; /* that hold a part of what I want and are not read */
    uint32_t num_spare;
    struct contact *spares; /* those of them that were turned to */
    uint32_t *idle_ranks;   /* producer ranks that nobody of my engine reads; only where I am the one to tell them */
    uint32_t num_idle;
    struct want *queue; /* wants behind the handshake, in order */
    uint32_t queued;
    uint64_t since_ns; /* the first of the queue came */
    int error;         /* REFUSED */
    int32_t error_peer;
    struct plan_why why;
};

/* ---- movers ------------------------------------------------------------------------------------------------------ */

/** What its owner is to hear: that the bytes have moved, or why not; that it is quiet, after mover_stop said false. */
enum mover_news { MOVER_NOTHING, MOVER_MOVED, MOVER_QUIET };

enum mover_state { MOVER_IDLE, MOVER_WAITING, MOVER_TABLE, MOVER_MOVING, MOVER_PROOF, MOVER_DRAINING, MOVER_ENDED };

/**
 * Bytes between a peer's cache and mine, in either direction: the peer's block table is read from its arena, then runs
 * move, then comes the proof: of a pull that the lease was still the one granted, of a push that all is written.
 */
struct mover {
    struct op op; /* first */
    struct contact *contact;
    bool write; /* push: from mine to the peer's */
    enum mover_state state;
    bool issued;                  /* TABLE, PROOF: the question is under way */
    enum port_park parked;        /* stopped: LATER: it waits for PORT_QUIET; NEVER: for its peer's end, or close */
    struct reach reach;           /* what may move */
    struct peer_table table;      /* the newest that was named */
    struct peer_table asked;      /* TABLE: the one that is read */
    bool unread;                  /* theirs are not of the newest */
    uint32_t at, end, num_tokens; /* of a request of num_tokens, tokens [at, end) are moved now */
    const struct plan_tables *mine;
    struct plan_tables theirs;
    uint32_t *their_ids;
    struct plan_transfer transfer; /* of these tokens */
    struct plan_cursor cursor;
    uint64_t taken, landed, bytes; /* of all so far; bytes: with those of the transfer */
    struct turn turn;              /* in core->asks, or (MOVING) in core->moves */
    enum mover_news news;          /* not MOVER_NOTHING: it is in core->moved */
    int error;                     /* MOVER_MOVED: 0, or why it cannot go on, */
    char detail[96];               /* in words */
    struct mover *prev, *next;
};

/* ---- producer's side of a push ----------------------------------------------------------------------------------- */

enum push_state { PUSH_CARD, PUSH_WRITING, PUSH_WRITTEN, PUSH_STOPPING };

/** One reader that is written to. */
struct push {
    struct mover mover; /* first */
    struct offer *offer;
    struct seat *seat;
    uint32_t peer, asks; /* how often it was asked for */
    uint64_t want;
    enum push_state state;
    int32_t error;            /* STOPPING: why */
    char detail[96];          /* and in words */
    bool cancelled;           /* STOPPING: by the consumer, which waits for CLOSED */
    bool belated;             /* STOPPING: its want was about a former offer of this key */
    struct push *prev, *next; /* in contact->waiting */
};

/* ---- consumer ---------------------------------------------------------------------------------------------------- */

enum leg_state {
    LEG_HANDSHAKE,
    LEG_ASKED,
    LEG_MOVING,
    LEG_DOUBTED,
    LEG_AWAITED,
    LEG_CHECKING,
    LEG_FENCED,
    LEG_STOPPING,
    LEG_CLOSED
};

/** The part of a want between one producer rank and me. */
struct leg {
    struct mover mover; /* first; pull */
    struct want *want;
    struct contact *contact;
    enum leg_state state;
    bool busy;           /* counted among the peer's business */
    bool told;           /* the producer knows of the want */
    bool ended;          /* and has nothing under way for it: it said no, or was sent CANCEL */
    bool unsaid;         /* yet its offer must hear of the end */
    uint64_t generation; /* of the lease that was granted, or that was written from; 0: of none yet */
    uint32_t doubts;     /* DOUBTED: WANTs that were not answered */
    uint32_t asks;       /* WANTs sent. An answer to an earlier one settles nothing: the last is still to be acted on */
    int error;           /* why its former rank was left */
    bool leaves;         /* STOPPING: for another rank, once it is quiet */
    struct check *check; /* CHECKING */
    struct timer resend;
    uint64_t pause_ns;
};

enum want_state { WANT_QUEUED, WANT_ACTIVE, WANT_DRAINING };

struct left {
    uint32_t peer;
    bool told; /* it knows of the want */
    uint64_t generation;
};

/** What one rank wants from one engine has one want at a time. */
struct want_name {
    char key[BATON_KEY_MAX];
    uint32_t attempt, engine;
};

/** Why a want cannot go on. */
struct leg_failure {
    int error; /* 0: it can */
    int32_t peer;
    char detail[128];
};

struct want {
    uint64_t seq; /* = the submission's id */
    UT_hash_handle hh;
    struct want_name name;
    UT_hash_handle by_name; /* in core->named until it is reported */
    enum want_state state;
    struct call *call;
    struct link *link;
    struct leg *legs;
    uint32_t num_legs, fenced, closed;
    struct leg_failure failure; /* of the first leg that failed */
    bool is_news;               /* a leg failed, is fenced or is closed: it is in core->told */
    struct want *told_before, *told_after;
    bool claims;  /* its blocks: claim.c */
    bool unheard; /* it failed here, before any producer heard of it */
    bool leased;
    struct lease lease; /* push: my block table */
    struct tail *tail;  /* what is zeroed behind its tokens; NULL: nothing, or done */
    struct left *left;  /* ranks that legs were taken away from */
    uint32_t num_left;
    struct timer deadline; /* DRAINING: until it is given up */
    baton_status_t status; /* DRAINING: what it will end as */
    int error;
    int32_t peer;
    char detail[128];
    struct want *prev, *next; /* in link->queue */
};

/* ---- the core ---------------------------------------------------------------------------------------------------- */

struct core {
    struct core_config c;
    uint64_t incarnation;   /* mine */
    uint32_t engine, index; /* my engine, my index in it */
    uint64_t now;
    struct timers timers;
    bool shut;

    struct leases *leases;
    struct request *requests;   /* by key */
    struct offer *live, *ended; /* the latter are tombstones, oldest first */
    uint32_t num_formers;       /* of all of them */
    struct offer *called;       /* those in `live`, by their calls' ids */
    uint32_t num_ended, num_waiting, num_live, serving;
    struct readers **readers; /* by engine; found out on demand */
    struct work *works;       /* what goes on in pieces, in turn */
    struct timer works_timer;
    struct word *words;         /* whose readers are known by now: news */
    uint32_t looks, looks_most; /* at members of engines, in this step; and when it is enough */
    uint64_t works_pause_ns;    /* then; tests stretch it */

    struct link **links, **targets;     /* by engine: whom I read from, whom I write to */
    uint8_t *claimed[BATON_GROUPS_MAX]; /* BATON_PARANOID: by group, bit i: block i belongs to an open want */
    struct want *wants;                 /* by seq */
    struct want *told;                  /* news of their legs */
    struct want *named;                 /* those that have not been reported, by key and engine */
    struct ops ops;
    struct check *checks;
    uint32_t num_checks;
    struct tail *tails;
    struct plan *own;          /* from my cache to itself, once a tail needed it */
    struct turns asks, moves;  /* of movers: questions to peers, and bytes */
    struct mover *moved;       /* news */
    struct budget copies, rma; /* bytes in flight, by path */
    struct timer look;         /* who of those that hold bytes is silent */
    uint32_t num_legs, num_pushes;
    uint32_t reading;  /* reads of cards, tables, generations under way */
    uint32_t awaiting; /* legs that a peer writes whose path needs my polling */

    struct post *post;
    struct peer **peers; /* by rank; NULL: no business with it yet */
    struct peer *losses; /* news */
    uint64_t stepped_ns; /* the last step */
    uint64_t watched_ns; /* time in which this rank looked for messages: of a pause of its own, one beat counts */
    struct leaving leaving;
    uint32_t *waits_of; /* by rank: its words that wait for their offers */

    struct ending *endings; /* by want: words of ends that were not answered yet; oldest first */
    uint32_t num_endings;
    struct answers **answers; /* by rank: those that it is owed; NULL: never any */

    struct report *reports; /* by id: my calls that ended and await their verdict */
    struct round *rounds, *rounds_by_name;
    uint32_t num_rounds, num_closed;
    uint64_t evicted_ns; /* when a closed round last made room */

    struct outcomes outcomes;
    baton_stats_t stats;
};

/* peer.c: who is there */
int peer_begin(struct core *core, uint32_t rank); /* business with it. 0, EPEER (it is lost) or ENOMEM */
int peer_know(struct core *core, uint32_t rank);  /* so that it can be held. 0 or ENOMEM */
void peer_hold(struct core *core, uint32_t rank); /* business with it, lost or not */
void peer_end(struct core *core, uint32_t rank);
bool peer_is_lost(const struct core *core, uint32_t rank);
void peer_heard(struct core *core, uint32_t rank);
void peer_on_beat(struct core *core, uint32_t rank, const struct wire_message *m);
bool peer_is_dead(const struct core *core, uint32_t rank);
/** It is dead, and nothing that it sent or was asked for can land here any more. */
bool peer_is_ended(const struct core *core, uint32_t rank);
void peers_watch(struct core *core, uint64_t now); /* a step begins */
/** A rank that was lost, or died, since: its transfers are to end, then peer_mourned is due. NULL: none. */
struct peer *peer_take_loss(struct core *core);
void peer_mourned(struct core *core, struct peer *p);
void peer_beat(struct core *core, uint32_t rank, bool ask);
const char *peer_host(const struct core *core, uint32_t rank); /* from it, or another rank of its node; NULL: unknown */
void peer_note_host(struct core *core, uint32_t rank, const char host[WIRE_HOST_MAX]);
void peer_on_inquiry(struct core *core, uint32_t rank, const struct wire_message *m);
void peer_on_witness(struct core *core, uint32_t rank, const struct wire_message *m);
void peers_destroy(struct core *core);

/* leave.c: closing */
void leave_on_message(struct core *core, uint32_t rank, const struct wire_message *m);
void leave_on_loss(struct core *core, const struct peer *p);
void leave_destroy(struct core *core);

/* offer.c: the producer's side */
void offers_lose(struct core *core, uint32_t rank); /* ends what it takes from here */
void offer_submit(struct core *core, struct call *call);
bool offer_cancel(struct core *core, baton_id_t id, int error); /* false: no live offer has that id */
/** The engine was told that the offer is given up: it is. */
void offer_give_up(struct core *core, baton_id_t id, baton_status_t status, int error);
void offer_on_want(struct core *core, uint32_t peer, const struct wire_message *m);
void offer_on_end(struct core *core, uint32_t peer, const struct wire_message *m); /* DONE, CANCEL, RELEASE */
/** News of a push's mover, or of the contact that pushes wait for. Offers may end by it. */
void offers_on_mover(struct core *core, struct push *push, enum mover_news news, int error, const char *detail);
void offers_on_contact(struct core *core, struct contact *c);
/** Layers of an offer are in place; or tokens. */
void offer_ready(struct core *core, const struct call *word);
void offer_append(struct core *core, const struct call *word);
void offers_shut(struct core *core);
void offers_destroy(struct core *core);

/** What is known of a request; NULL: nothing. */
struct offer *offer_find(const struct core *core, const char *key, uint32_t attempt);
/** The call of the live offer of that request, if that rank's want is granted; NULL: it is not. */
const struct call *offer_granted(struct core *core, const char *key, uint32_t attempt, uint32_t peer, uint64_t want);
/** The call of the live offer of that request; NULL: none. And in words, where it stands. */
struct call *offer_call(struct core *core, const char *key, uint32_t attempt);
void offer_standing(struct core *core, const char *key, uint32_t attempt, char *text, size_t size);

/* push.c: what an offer writes to its readers */
int push_create(struct core *core, struct offer *o, struct seat *seat, const struct waiter *w, struct push **out);
/** What became of a push: seat NULL: it goes on. Else it is gone: quiet, and its consumer was told. */
struct push_end {
    struct seat *seat;
    uint32_t peer;
    int32_t error;
    bool belated;
};
struct push_end push_start(struct core *core, struct push *push);
struct push_end push_stop(struct core *core, struct push *push, int32_t error, const char *detail);
struct push_end push_cancel(struct core *core, struct push *push, int32_t error); /* by who waits for CLOSED */
struct push_end push_on_contact(struct core *core, struct push *push);            /* GOOD or REFUSED now */
struct push_end push_on_moved(struct core *core, struct push *push, int error, const char *detail);
struct push_end push_on_quiet(struct core *core, struct push *push);
void push_tell(struct core *core, const struct push *push, int32_t error); /* WRITTEN */
void push_destroy(struct core *core, struct push *push);

/* survey.c: who serves whom */
/** Does as many pieces as this step may; core_step goes on with the rest. */
static inline void work_begin(struct core *core, struct work *work,
                              enum work_state (*piece)(struct core *core, struct work *work))
{
    enum work_state state = WORK_MORE;
    work->piece = piece;
    while (state == WORK_MORE && core->looks < core->looks_most)
        state = piece(core, work);
    if (state != WORK_DONE)
        DL_APPEND(core->works, work);
}
/** The parts of rank `index` of the consumer and who serves them: malloc'ed; their number, or what plan_sources says. */
int survey_sources(struct core *core, const struct directory_engine *consumer, uint32_t index,
                   const struct directory_engine *producer, struct plan_source **out, struct plan_why *why);
/** Whether a rank's cache can be filled by that engine, so that a want of it can begin: 1 or 0; or BATON_ENOMEM. */
int survey_served(struct core *core, const struct directory_engine *consumer, uint32_t index,
                  const struct directory_engine *producer);
const struct readers *readers_of(const struct core *core, uint32_t engine); /* NULL: not known yet */
/** The readers of a message's engine are to be known. True: not yet, and the message was kept (or dropped). */
bool readers_await(struct core *core, const struct port_event *e);
/** Takes a message that was kept and need not wait any more. False: there is none. */
bool readers_take_word(struct core *core, uint32_t *peer, struct wire_message *m);
/** Whether one more word of that rank may be kept. No rank may take the places of all others. */
bool may_wait(const struct core *core, uint32_t peer);
void readers_free(struct core *core);

/* link.c: handshakes */
struct link *link_of(struct core *core, uint32_t engine, int *error, struct plan_why *why);
void link_queue(struct core *core, struct link *link, struct want *want);
void link_unqueue(struct core *core, struct link *link, struct want *want);
/** What a card changed: the state of a target or of a spare contact, or its link is LINK_READY or LINK_REFUSED now. */
enum link_news { LINK_NOTHING, LINK_TARGET, LINK_SPARE, LINK_SETTLED };
enum link_news link_on_card(struct core *core, struct contact *contact, const struct port_event *e);
/** Takes the first want of its queue. NULL: none. */
struct want *link_take(struct link *link);
/** The contact by which I write to `peer`, or NULL with *error. */
struct contact *target_of(struct core *core, uint32_t peer, int *error);
void contact_want(struct core *core,
                  struct contact *c); /* its card, unless it is known or asked for; of targets and spares */
void contact_leave(struct core *core, struct contact *c); /* nobody waits for it any more */
/** The contact by which `rank` can take the place of one that failed; NULL: it does not hold all of that one's part. */
struct contact *link_spare(struct core *core, const struct contact *failed, uint32_t rank);
void links_destroy(struct core *core);
/** Whether a table that a peer names lies within what its card said. */
bool contact_holds(const struct contact *c, const struct peer_table *table);

/* mover.c */
/** Begins; there will be news once, unless it is stopped. Moves tokens [held, num_tokens) by its contact's plan as far as m->reach goes; mover_ready raises that. */
int mover_start(struct core *core, struct mover *m, const struct peer_table *table, uint32_t held, uint32_t num_tokens,
                const struct plan_tables *mine);
/** More is in place; of a read, these are the peer's tables by now (NULL: as before). 0, or BATON_EMESSAGE. */
int mover_ready(struct core *core, struct mover *m, const struct reach *reach, const struct peer_table *table);
/** Gives up, and asks the port what is under way. True: it is quiet; false: there will be news of that. */
bool mover_stop(struct core *core, struct mover *m);
void mover_on_event(struct core *core, struct mover *m, const struct port_event *e);
/** Its peer is dead, or ended: what was stopped may be quiet by that. True: it is. */
bool mover_lose(struct core *core, struct mover *m);
void mover_free(struct core *core, struct mover *m);
/** Gives each its turns. False: there is news, which goes first. */
bool movers_run(struct core *core);
/** Takes one mover of which there is news. NULL: none. */
struct mover *mover_take_news(struct core *core, enum mover_news *news);
bool movers_wait(const struct core *core); /* one would go on if it could */

/* ends.c: the words of wants' ends, and their answers */
void ends_tell(struct core *core, uint32_t peer, struct wire_message *m); /* DONE, CANCEL, RELEASE: until answered */
void ends_take_back(struct core *core, uint32_t peer, uint64_t want);     /* it is asked, or has answered */
void ends_on_answer(struct core *core, uint32_t peer, const struct wire_message *m); /* ENDED */
void ends_answer(struct core *core, uint32_t peer, uint64_t want);
void ends_lose(struct core *core, uint32_t rank); /* it is gone for certain */
void ends_shut(struct core *core);
void ends_destroy(struct core *core);

/* ask.c: what a want asks of every rank that serves it */
const baton_ticket_t *ask_ticket(const struct want *want, uint32_t peer); /* for that producer rank; NULL: none */
uint32_t ask_left_ms(const struct core *core, const struct want *want);   /* until its deadline; at least 1 */
bool ask_knows(const struct want *want, uint32_t rank);                   /* it has, or had, a leg with that rank */

/* want.c, leg.c: the consumer's side */
void want_submit(struct core *core, struct call *call);
/** One want looks at its legs, of which there is news. False: there is none. */
bool wants_on_legs(struct core *core);
bool want_cancel(struct core *core, baton_id_t id);
/** The engine was told that the want is given up: it is, and its name is free. False: there is none. */
bool want_give_up(struct core *core, baton_id_t id, baton_status_t status, int error, const char *detail);
void wants_shut(struct core *core);
void wants_lose(struct core *core, uint32_t rank);                   /* ends what it gives here */
void wants_on_spare(struct core *core, const struct contact *spare); /* GOOD or REFUSED now */
void wants_on_link(struct core *core, struct link *link);            /* READY or REFUSED now */
void wants_destroy(struct core *core);

struct call *want_call(struct core *core, const char *key, uint32_t attempt, uint32_t engine); /* as offer_call */
void want_standing(struct core *core, const char *key, uint32_t attempt, uint32_t engine, char *text, size_t size);

/* claim.c: blocks of open wants, under BATON_PARANOID. 0; EINVAL: one belongs to another, with *why; or ENOMEM */
int claim_take(struct core *core, const struct call *call, struct plan_why *why);
void claim_leave(struct core *core, const struct call *call);
void claims_free(struct core *core);

/* verdict.c: the outcome for the whole engine */
void verdict_report(struct core *core, struct outcome *told); /* a call ended, or was given up */
void verdict_on_message(struct core *core, uint32_t rank, const struct wire_message *m);
void verdicts_lose(struct core *core, uint32_t rank);
void verdicts_shut(struct core *core);

/* check.c: hashes of what arrived. How it stands: one of these, or an error, with why->text. */
#define CHECK_OPEN 0
#define CHECK_GOOD 1                                 /* all hashes are equal, and the consumer's check is gone */
int check_begin(struct core *core, struct leg *leg); /* CHECK_OPEN, CHECK_GOOD (there is nothing to hash) or ENOMEM */
void check_ask(struct core *core, const struct leg *leg);
void check_stop(struct core *core, struct leg *leg);
int check_on_sums(struct core *core, struct leg *leg, const struct wire_message *m, struct plan_why *why);
/** Some of it was hashed. *leg: whose it is; NULL: a producer's (CHECK_GOOD: check_answer is due), or it was given up. */
int check_on_event(struct core *core, struct check *c, struct leg **leg, struct plan_why *why);
/** What a consumer asked. */
struct check_question {
    char key[BATON_KEY_MAX];
    uint32_t attempt, peer;
    uint64_t want;
};
/** `granted`: the call of the offer that this want is granted; NULL: none. */
void check_on_ask(struct core *core, uint32_t peer, const struct wire_message *m, const struct call *granted);
const struct check_question *check_asked(const struct check *c);
void check_answer(struct core *core, struct check *c, const struct call *granted);
void checks_run(struct core *core);
void checks_destroy(struct core *core);

/* tail.c: zeros behind a want's tokens */
int tail_begin(struct core *core, struct want *want, struct plan_why *why); /* 0, or an error */
void tail_stop(struct core *core, struct want *want);                       /* unless a worker has it: then as ever */
struct want *tail_end(struct core *core, struct tail *t);                   /* it is done; whose it was */
void tails_run(struct core *core);
void tails_destroy(struct core *core);
void want_settle(struct core *core, struct want *want); /* looks at its legs and its tail. It may end by it */

const char *leg_state_name(enum leg_state state);
void leg_on_spare(struct core *core, struct leg *leg, int error, const char *detail); /* its card came, or is no good */
void leg_begin(struct core *core, struct leg *leg);                                   /* asks. The want may end by it */
void leg_on_message(struct core *core, uint32_t peer, const struct wire_message *m);  /* GRANT, NACK, WRITTEN, CLOSED */
void leg_on_moved(struct core *core, struct leg *leg, int error, const char *detail);
void leg_on_checked(struct core *core, struct leg *leg, int how, const char *detail); /* as check.c says */
void leg_on_quiet(struct core *core, struct leg *leg);
void leg_stop(struct core *core, struct leg *leg); /* the want drains: give up, close when quiet */
void leg_lose(struct core *core, struct leg *leg); /* its peer is lost. The want may end by it */
void leg_free(struct core *core, struct leg *leg);

#endif
