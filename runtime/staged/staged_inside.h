/* SPDX-License-Identifier: BSD-3-Clause */
/* staged_inside: what the path owns. Only staged.c, exchange.c, slots.c and chore.c include this. */
#ifndef BATON_STAGED_STAGED_INSIDE_H
#define BATON_STAGED_STAGED_INSIDE_H

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/look.h"
#include "staged/note.h"
#include "staged/staged.h"

#define STAGED_OF_PEER 8  /* exchanges that I began with one peer */
#define STAGED_BY_PEER 16 /* exchanges that a peer began with me: more is no peer of ours */
#define STAGED_LANDINGS 16

struct answer;

/* ---- slots.c: memory that bytes pass through ---- */

enum slot_state { SLOT_FREE, SLOT_USED, SLOT_LENT };

/** A slot of my segment, which peers read. */
struct slot {
    enum slot_state state;
    uint64_t generation;
    uint32_t peer;     /* SLOT_LENT: to whom */
    uint64_t since_ns; /* SLOT_LENT */
};

/** A slot with a new generation, which its word has. NULL: none is free. */
struct slot *slot_take(struct staged *s);
void slot_give_back(struct slot *slot);
void slot_lend(struct slot *slot, uint32_t peer);
/** That peer needs the slot of that generation no longer. */
void slot_return(struct staged *s, uint32_t peer, uint64_t generation);
uint8_t *slot_bytes(const struct staged *s, const struct slot *slot);
/** Offsets in my segment. */
uint64_t slot_offset(const struct staged *s, const struct slot *slot);
uint64_t slot_word_offset(const struct staged *s, const struct slot *slot);

/**
 * STAGED_SLOT_BYTES of this process alone, for one who holds so many: no more than are free then. NULL: they are in
 * use, or there is no memory.
 */
uint8_t *landing_take(struct staged *s, uint32_t held);
void landing_give_back(struct staged *s, uint8_t *landing);

/* ---- chore.c: hashes and zeros of my own cache ---- */

struct chore;

/** Goes on with all chores as far as possible. */
void chores_step(struct staged *s);
/** The driver ended a copy of that id. False: it is none of a chore. */
bool chore_copied(struct staged *s, uint64_t id, int error);
void chores_free(struct staged *s);

/* ---- exchange.c ---- */

enum exchange_kind {
    EXCHANGE_PULL,  /* I asked, and get bytes */
    EXCHANGE_SERVE, /* a peer asked */
    EXCHANGE_PUSH,  /* I put */
    EXCHANGE_TAKE   /* a peer put, and I get bytes */
};

enum exchange_state {
    X_SLOT,    /* waits for a slot */
    X_COPY,    /* is to be copied between my cache and its slot or landing */
    X_COPYING, /* the driver does it */
    X_TELL,    /* its note is to be sent: ASK, HERE, PUT, LANDED or FREE */
    X_AWAIT,   /* for HERE or LANDED */
    X_READ,    /* the peer's slot is to be read */
    X_READING,
    X_BOARD, /* and then its generation */
    X_BOARDING,
    X_ENDED
};

struct exchange {
    struct exchange *prev, *next;
    UT_hash_handle hh; /* by id */
    uint64_t id, peer_id;
    uint64_t tag; /* the core's; PULL and PUSH */
    uint32_t peer;
    enum exchange_kind kind;
    enum exchange_state state;
    bool is_given_up; /* nothing is told of it any more */
    bool owes_quiet;  /* but that: it was under way then */
    int error;
    uint64_t bytes;
    uint32_t num_runs;
    struct note_run mine[NOTE_RUNS], theirs[NOTE_RUNS];
    struct slot *slot;             /* SERVE, PUSH */
    uint64_t held;                 /* its generation then */
    uint8_t *landing;              /* PULL, TAKE */
    uint64_t since_ns;             /* when it got that */
    uint64_t at, word, generation; /* of the peer's slot */
    struct answer *moved, *quiet;  /* what the core may be owed; PULL and PUSH */
};

/** Whether I began it; else its peer did. */
static inline bool exchange_is_mine(const struct exchange *x)
{
    return x->kind == EXCHANGE_PULL || x->kind == EXCHANGE_PUSH;
}

/** A new one with an id, in the list, with memory for what the core is owed. NULL: no memory. */
struct exchange *exchange_add(struct staged *s, enum exchange_kind kind, uint32_t peer);
/** Gives back all that it holds. */
void exchange_remove(struct staged *s, struct exchange *x);
/** The core wants to hear nothing of it any more, but when it is quiet. True: it is not. */
bool exchange_give_up(struct staged *s, struct exchange *x);
/** Goes on with all exchanges as far as possible. */
void exchanges_step(struct staged *s);
/** A note of a peer, or an answer of the path to its segment. */
void exchange_note(struct staged *s, uint32_t peer, const struct note *n);
void exchange_answer(struct staged *s, const struct port_event *e);
/** The driver ended a copy of that id. False: it is none of an exchange. */
bool exchange_copied(struct staged *s, uint64_t id, int error);

/* ---- staged.c ---- */

/** What there is with one peer. */
struct staged_peer {
    uint32_t begun, served; /* exchanges that I began, and that it began */
    uint32_t landed;        /* landings that they hold */
    bool has_ended;         /* it is dead, and nothing of it is taken, or told to it, any more */
    bool is_full;           /* the last note to it found no room */
};

struct staged {
    struct staged_wish wish;
    uint64_t last_id, last_generation;
    struct exchange *exchanges, *by_id;
    struct staged_peer *peers; /* by rank */
    struct slot *slots;
    uint32_t num_slots;
    uint8_t *landings[STAGED_LANDINGS];
    uint32_t num_landings, free_landings; /* made; of these, free ones first */
    struct chore *chores;
    struct answer *answers; /* events to be handed out */
    uint32_t copying;       /* copies that the driver has */
    struct looking look_answers, look_copies;
};

struct answer {
    struct answer *prev, *next;
    struct port_event event;
};

/** The path by which that rank's segment is read. */
static inline const struct path *staged_segment(const struct staged *s, uint32_t peer)
{
    return s->wish.ground.segment(s->wish.ground.arg, peer);
}

/** Queues an event for the next progress, in memory that was set aside for it: *owed becomes NULL. */
void staged_tell(struct staged *s, struct answer **owed, struct port_event event);

/**
 * Begins to copy runs of my cache to or from `host`. 0: done already; BATON_EBUSY: the driver will say when;
 * BATON_EAGAIN: call again; or an error.
 */
int staged_copy(struct staged *s, const struct note_run *runs, uint32_t num, uint8_t *host, bool to_cache, uint64_t id);

#endif
