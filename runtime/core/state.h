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

#include "core/claim.h"
#include "core/core.h"
#include "core/early.h"
#include "core/ends.h"
#include "core/lease.h"
#include "core/leave.h"
#include "core/link.h"
#include "core/mover.h"
#include "core/offer.h"
#include "core/op.h"
#include "core/outcome.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/queue.h"
#include "core/reap.h"
#include "core/survey.h"
#include "core/timer.h"
#include "core/work.h"

#define NS_PER_MS UINT64_C(1000000)

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
    struct mover *mover; /* pull */
    struct want *want;
    struct contact *contact;
    struct queued card; /* HANDSHAKE: it waits for the contact's */
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
    struct queued behind; /* QUEUED: its link */
};

/* ---- the core ---------------------------------------------------------------------------------------------------- */

struct core {
    struct core_config c;
    uint64_t now;
    struct timers timers;
    struct ops ops;
    struct works works;
    struct reap reap;
    bool shut;
    uint32_t serving; /* peers that read from here or write to here over a path that needs this process to poll */
    baton_stats_t stats;
    struct post *post;
    struct outcomes outcomes;
    struct leases *leases;
    struct early *early;
    struct survey *survey;
    struct peers *peers;
    struct leaving *leaving;
    struct ends *ends;
    struct claims *claims; /* NULL: none yet */
    struct links *links;
    struct movers *movers;

    struct attempts *attempts;
    struct offers *offers;

    struct want *wants; /* by seq */
    struct want *told;  /* news of their legs */
    struct want *named; /* those that have not been reported, by key and engine */
    struct check *checks;
    uint32_t num_checks;
    struct tail *tails;
    struct plan *own; /* from my cache to itself, once a tail needed it */
    uint32_t num_legs;

    struct report *reports; /* by id: my calls that ended and await their verdict */
    struct round *rounds, *rounds_by_name;
    uint32_t num_rounds, num_closed;
    uint64_t evicted_ns; /* when a closed round last made room */
};

/** My row in the directory, my engine, and my index in it. */
static inline const struct wire_row *core_row(const struct core *core)
{
    return &core->c.directory->rows[core->c.self];
}

static inline uint32_t core_engine(const struct core *core)
{
    return core->c.directory->engine_of[core->c.self];
}

static inline uint32_t core_index(const struct core *core)
{
    return core->c.directory->index_of[core->c.self];
}

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
void wants_lose(struct core *core, uint32_t rank);             /* ends what it gives here */
void wants_on_spare(struct core *core, struct contact *spare); /* good or refused now */
void wants_on_link(struct core *core, struct link *link);      /* READY or REFUSED now */
void wants_destroy(struct core *core);

struct call *want_call(struct core *core, const char *key, uint32_t attempt, uint32_t engine); /* as offer_call */
void want_standing(struct core *core, const char *key, uint32_t attempt, uint32_t engine, char *text, size_t size);

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
void leg_on_spare(struct core *core, struct leg *leg); /* its contact is good or refused now */
void leg_begin(struct core *core, struct leg *leg);    /* asks. The want may end by it */
void leg_on_message(struct core *core, uint32_t peer, const struct wire_message *m); /* GRANT, NACK, WRITTEN, CLOSED */
void leg_on_moved(struct core *core, struct leg *leg, int error, const char *detail);
void leg_on_checked(struct core *core, struct leg *leg, int how, const char *detail); /* as check.c says */
void leg_on_quiet(struct core *core, struct leg *leg);
void leg_stop(struct core *core, struct leg *leg); /* the want drains: give up, close when quiet */
void leg_lose(struct core *core, struct leg *leg); /* its peer is lost. The want may end by it */
void leg_free(struct core *core, struct leg *leg);

#endif
