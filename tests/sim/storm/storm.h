/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm: whole worlds of real protocol cores under random schedules, in virtual time, without MPI. A seed decides
 * everything: engines, caches, paths, limits, requests, delays, and what goes wrong. The same seed runs the same way
 * again, to the last event.
 *
 *   port.c      time, messages, one-sided operations: what a network and its failures do
 *   schedule.c  what engines do: offers, wants, cancels; what happens to ranks: stops, crashes
 *   members.c   engines that come and go, what each rank knows of them, and what must be true of that
 *   oracle.c    what must be true of every call, block and byte
 *   fair.c      what must be true of who moves how much, and when
 *   cover.c     which pairs of state and event of the protocol were met
 */
#ifndef BATON_TESTS_STORM_H
#define BATON_TESTS_STORM_H

#include <stdbool.h>
#include <stdint.h>

#include "front/beside.h"
#include "shm/handoffs.h"
#include "wire/card.h"
#include "../core_inside.h"
#include "wire/envelope.h"

#define STORM_US UINT64_C(1000)
#define STORM_MS UINT64_C(1000000)
#define STORM_GRID (STORM_MS / 4) /* times at which stopped ranks go on */
#define STORM_LAYERS 2
#define STORM_RANKS_MAX 64
#define STORM_LIVES_MAX 32
#define STORM_LIFE_RANKS 8 /* of one engine */
#define STORM_KEYS_MAX 4
#define STORM_STRAYS_MAX 64
#define STORM_WAITS_MAX 256 /* movers of one rank */

/*
 * Values of the caches' elements, 32 bits each. Those of an offer are the number of its call and a hash of the place.
 */
#define STORM_FREE 0xfefefefeu  /* in blocks that belong to nobody */
#define STORM_WANTED 0xabababab /* in blocks that wait for a transfer */
#define STORM_CALLS_MAX 0x8000u /* so that no offer's value is one of these */

/** AWAITED: it has not come. CRASHED: its process has ended, perhaps in order. */
enum storm_fate { STORM_RUNS, STORM_STOPPED, STORM_CRASHED, STORM_AWAITED };

/** How one-sided operations on a crashed rank of another node end. */
enum storm_death { STORM_DEATH_SILENT, STORM_DEATH_ERROR, STORM_DEATH_LIES };

/** One accepted call of an engine. */
struct storm_call {
    uint32_t number, rank, key, tokens, held, num_blocks;
    uint32_t engine; /* a life. Want: the producer's; offer: its own */
    uint32_t attempt;
    bool is_want, ended, cancelled;
    bool given_up;                 /* its GIVEN_UP was told; its blocks are lent until it has ended */
    bool zero_tail;                /* want */
    bool in_layers, in_chunks;     /* offer */
    bool is_unchecked;             /* offer that is done: by whom is to be checked */
    uint32_t begun;                /* in_chunks: tokens of its chunks so far; else all */
    uint32_t given;                /* how many of its blocks were given to the core */
    uint32_t verdicts;             /* verdicts that were told of it */
    uint64_t ended_ns;             /* when its terminal event came */
    uint32_t seats, seat;          /* offer: how many, and the engine of the first */
    uint8_t told[STORM_RANKS_MAX]; /* want: how often its end was sent to each rank */
    baton_mode_t mode;
    baton_status_t status;
    int error;
    uint64_t submitted_ns, time_ns; /* time_ns: its time to live, or time to its deadline */
    uint64_t last_word_ns;          /* offer: when its time to live last began */
    uint64_t answered_ns;           /* when it was given up, or ended; 0: neither */
    uint32_t *blocks;
    uint32_t *from; /* want that is done: by producer rank, the offer whose bytes came */

    uint64_t gone_ns[STORM_RANKS_MAX]; /* want: when each rank said that its offer has ended, and granted no other */
};

/** A mover that could move, as the oracle sees it. */
struct storm_wait {
    uint64_t tag;
    uint32_t passed, most; /* turns of its peer's other movers since its own; most movers that waited meanwhile */
};

/**
 * One start of an engine. Its ranks are members, and come once: all that ever come have a place among the storm's
 * ranks. Where nobody comes or goes, each name has one life, whose index is the name's.
 */
struct storm_life {
    uint64_t life; /* 0: it is not told */
    uint32_t name, num_ranks;
    uint32_t ranks[STORM_LIFE_RANKS]; /* in order of (pp_rank, tp_rank) */
};

/** What a rank knows of another one. */
struct storm_view {
    uint32_t rank;     /* in its directory; DIRECTORY_NONE: it does not know it */
    uint64_t since_ns; /* when it heard that it came */
    uint64_t left_ns;  /* when it heard that it went; 0: it has not */
};

struct storm_rank {
    struct storm *storm;
    uint32_t rank;
    uint32_t life, index, node; /* index: in its life */
    uint64_t number;            /* the member's */
    uint8_t verdicts;
    uint8_t row[WIRE_ROW_BYTES];
    struct directory *directory;             /* as it knows the world */
    struct storm_view view[STORM_RANKS_MAX]; /* by the storm's rank */
    uint32_t member_at[STORM_RANKS_MAX]; /* by rank in its directory: the storm's rank; DIRECTORY_NONE: it is free */
    baton_path_t path[STORM_RANKS_MAX];  /* likewise */
    bool left_in_order;                  /* CRASHED: it said so itself */
    uint32_t moving[2];                  /* slots in use: for copies, for the network */
    uint64_t steps;
    struct storm_wait waits[STORM_WAITS_MAX];
    uint32_t num_waits;
    enum storm_fate fate;
    bool lied;          /* crashed, and one operation on it has said success without bytes */
    bool was_stopped;   /* at some time */
    bool closes;        /* it makes no more calls, and answers others until all come to rest */
    uint32_t has_stray; /* tags of failed operations that may still move bytes */
    uint64_t stray[STORM_STRAYS_MAX];
    uint64_t resumed_ns; /* when it went on after its last stop */
    uint64_t heard_ns;   /* all that had come by then was handed to its core */
    uint64_t losses;     /* losses of other ranks that were checked so far */
    struct core *core;
    struct port port;
    baton_geometry_t geometry;
    baton_tensor_t tensors[STORM_LAYERS];
    uint8_t *pool, *arena, card[WIRE_CARD_MAX];
    uint32_t card_bytes;
    uint64_t *board, *window; /* as this node finds it; as other nodes do, since the last sync */
    uint64_t *told;           /* by slot: the lease that a rank of another node was told of last */
    struct net net;           /* to ranks of other nodes */
    struct beside *beside;    /* the same, for the port */
    bool is_lent;             /* the turn under way */
    bool is_unsynced;         /* a lease has ended that other nodes were told of, and they do not know it yet */
    bool hears_far;           /* something of another node is told in it */
    bool is_awaited;          /* a turn that is not lent will come, since something was left to it */
    uint64_t turns;           /* that could have been lent */
    uint8_t *words;           /* by which ranks of its node take its offers */
    struct vicinity *vicinity;
    struct handoffs *handoffs;
    struct port_handoff late_words; /* see port.c */
    struct rings *owed;             /* to other ranks */
    struct bell bell;
    uint32_t rings;             /* of the bell, that were heard */
    struct storm_due *answered; /* what its core took at once last */
    bool wakes;                 /* it will be stepped, since it was rung or told of a lease */
    uint32_t *block_of;         /* by element of the pool */
    uint32_t *owner;            /* by block: the number of the call that it belongs to; 0: none */
};

struct storm_pair {
    uint64_t last_ns; /* when the last message arrives: the next one comes no sooner */
    uint32_t drawn;   /* random numbers taken */
    uint32_t number;  /* of the last message that was sent */
    uint32_t under_way;
    struct envelope_counts counts;
    /* what `from` moves to `to` or reads from it */
    uint32_t moving;       /* slots in use */
    bool overdue;          /* an operation was open too long, and none has completed since */
    uint64_t sign_ns;      /* when bytes that were not given up last came, or began to move */
    uint64_t refused_step; /* the step in which the port refused a move by chance */
    uint32_t passed, most; /* turns of other peers since its own; most peers that waited meanwhile */
    uint64_t waiting;      /* tag of the transfer that has waited since then */
};

struct storm {
    uint64_t seed, random, now;
    uint64_t luck; /* of members that come and go: all else is drawn as it is without */
    bool verbose, failed;
    char why[256];

    /* what this seed is like */
    bool calm;       /* nothing is lost, stopped or crashed, but members may go: every deadline is kept */
    bool tangled;    /* one key is used again and again: messages of former calls meet later ones */
    bool deafened;   /* calm, but some messages of ends and their answers are lost; offers live long */
    bool tries;      /* attempts are numbered */
    bool crowded;    /* many requests at a time compete for a few slots */
    bool passive;    /* as by RDMA, one-sided operations need nothing of the rank they are done on */
    bool local_puts; /* a put's completion says nothing of the other side */
    bool proves;     /* most reads tell the generation with their last bytes */
    bool lends;      /* some turns are lent (front/turns.h): they leave other nodes to a later one */
    bool changes;    /* members come and go */
    enum storm_death death;
    uint32_t loss, twice;       /* messages of 1,000 that are lost, doubled */
    uint32_t damaged;           /* of 1,000, in one to four bits, envelope included, between ranks that send hashes */
    uint32_t forged;            /* grants of 1,000 with tables of another lease */
    uint32_t bad_cards;         /* of 1,000 */
    uint32_t spoilt;            /* runs of 1,000, where checksums are on */
    uint32_t strays;            /* moves of 1,000 that fail, and whose bytes land some time later all the same */
    bool pidfds;                /* it is known of ranks on all nodes whether they are gone */
    uint64_t slow_ns;           /* longest delay of a message */
    uint32_t slots, peer_slots; /* moves at a time: of one rank over each kind of path; with one peer */
    uint64_t slot_bytes;        /* bytes of one move at most */
    uint32_t num_keys;          /* few, so that a key has many attempts */
    int32_t untouched;          /* a rank that is never stopped in this run; -1: none beyond the seed's choice */

    struct settings settings;
    struct logger log;
    uint32_t num_engines, num_lives; /* num_engines: names. Their first lives come first */
    struct storm_life lives[STORM_LIVES_MAX];
    uint32_t num_ranks;  /* of all lives */
    uint32_t most_ranks; /* that one directory has room for */
    struct storm_rank ranks[STORM_RANKS_MAX];
    baton_path_t *path; /* [from * num_ranks + to] */
    struct storm_pair *pairs;

    struct storm_due **heap;
    uint32_t num_due, heap_room;
    uint64_t order;

    struct storm_call *calls;
    uint32_t num_calls, calls_room, num_unchecked;
    uint64_t horizon; /* when every call must have ended */
};

/** Ends the run. Of several reasons the first one stays. */
void storm_fail(struct storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void storm_say(const struct storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t storm_hash(uint64_t x);
/** The seed's next random number: 0 .. below - 1. */
uint32_t storm_below(struct storm *s, uint32_t below);
bool storm_chance(struct storm *s, uint32_t of_1000);
/** The same of members that come and go. */
uint32_t storm_luck(struct storm *s, uint32_t below);

/**
 * The id of a call, and the call of an id; NULL: there is none. Where members come and go, later members have lower
 * ids, as ids begin anew with each life.
 */
uint64_t storm_id(const struct storm *s, const struct storm_call *c);
struct storm_call *storm_call_of(struct storm *s, uint64_t id);

/* port.c */
void storm_port(struct storm_rank *r);
/** The words of a rank that knows itself. Their table is behind its port from _take on. */
void storm_words(struct storm *s, struct storm_rank *r);
void storm_words_take(struct storm *s, struct storm_rank *r);
/** The first finds the words of the other, or has forgotten it. */
void storm_words_join(struct storm *s, struct storm_rank *a, struct storm_rank *b);
void storm_words_leave(struct storm *s, struct storm_rank *a, const struct storm_rank *gone);
void storm_words_forget(struct storm *s, const struct storm_rank *r, uint64_t engine);
enum storm_action {
    STORM_OFFER,
    STORM_WANT,
    STORM_CANCEL,
    STORM_READY,
    STORM_APPEND,
    STORM_STOP,
    STORM_RESUME,
    STORM_CRASH,
    STORM_CLOSE,
    STORM_LIE,
    STORM_COME,
    STORM_GO /* in order: it closes, and goes when it is quiet */
};
struct storm_plan {
    enum storm_action action;
    uint32_t rank, key, attempt, tokens, held, time_ms, engine, seats; /* engine: its name */
    uint32_t call, layer; /* READY: call and layer; APPEND: call and tokens */
    uint32_t to, subject; /* LIE */
    uint32_t seat[BATON_CONSUMERS_MAX];
    uint32_t life;  /* WANT: the only one that will do, + 1; 0: any */
    uint32_t found; /* WANT: the life that was there when the call was made, + 1; 0: it is made now */
    uint32_t index; /* WANT: of that life among the engines of its directory */
    baton_mode_t mode;
};
void storm_later(struct storm *s, uint64_t at, const struct storm_plan *plan);
/** Lets time pass until `until`, or until a failure. */
void storm_run(struct storm *s, uint64_t until);
/** News of another member come to a rank some time from now. */
void storm_tell(struct storm *s, uint32_t to, uint32_t member, bool has_come, uint64_t delay_ns);
/** A step of that rank, with these events. */
void storm_step(struct storm *s, struct storm_rank *r, const struct port_event *e, int n, bool may_lend);
/** Nothing moves between the two. */
bool storm_is_still(const struct storm *s, uint32_t a, uint32_t b);
/** A turn of that rank begins, which may be lent if it hears nothing of other nodes. storm_collect ends it. */
void storm_turn(struct storm *s, struct storm_rank *r, bool may_lend);
void storm_collect(struct storm *s, struct storm_rank *r); /* takes its events */
/** So long at most after a turn that has left something comes one that is not lent. */
static inline uint64_t storm_left_ns(const struct storm *s)
{
    return s->calm ? STORM_MS / 4 : s->seed % 3 == 0 ? 20 * STORM_MS : STORM_MS;
}
void storm_drop_all(struct storm *s);

/** Whether something lies unread at that rank that had come to it by then. */
bool storm_has_unread(const struct storm *s, uint32_t rank, uint64_t until);
bool storm_has_room(struct storm *s, uint32_t rank, uint32_t peer); /* for one more move */

/* fair.c */
/** Bytes that may be in flight over a path. */
static inline uint64_t storm_limit(const struct storm *s, baton_path_t path)
{
    return path == BATON_PATH_SHM ? s->settings.copy_bytes * s->settings.copy_workers : s->settings.rma_bytes;
}
/** Checks a turn, before a leg gets a slot and at most `budget` bytes. */
void storm_check_turn(struct storm_rank *r, const struct path_leg *leg, uint64_t budget);
/** Notes that bytes of a leg begin to move, or have come. */
void storm_note_begin(struct storm_rank *r, uint32_t peer);
void storm_note_come(struct storm_rank *r, uint32_t peer, uint64_t tag);
/** Checks after a step that nobody waits for what is free. */
void storm_check_idle(struct storm_rank *r);

/* schedule.c */

/** What engines of one name are like: all their lives. */
struct storm_kind {
    uint32_t tp, pp, heads_total, layout, block_tokens, num_blocks, planes, head_size;
    bool bare; /* its first stage has no cache */
    uint32_t verdicts;
};

void storm_build(struct storm *s);
/** A new life of that name, and its ranks, which have not come. */
void storm_build_life(struct storm *s, const struct storm_kind *kind, uint32_t name, uint32_t nodes);
/** The core of a rank that knows itself, and whose words are there. */
void storm_begin(struct storm *s, struct storm_rank *r);
void storm_schedule(struct storm *s);
/** Draws a request: the ranks that are there offer and want, from then on. */
void storm_draw_request(struct storm *s, uint64_t from_ns);
/** Lets the engine offer or want a key anew, at once or soon after the event of its former call. */
void storm_again(struct storm *s, const struct storm_call *former);
void storm_act(struct storm *s, const struct storm_plan *plan);
void storm_free(struct storm *s);

/* members.c */

/** Draws the lives that follow the first ones, by name. */
void storm_draw_lives(struct storm *s, const struct storm_kind *kinds, uint32_t nodes);
/** Those that are there from the start meet, and begin. */
void storm_meet_all(struct storm *s);
/** Draws when members come and go, and requests in the time of those that come. */
void storm_draw_changes(struct storm *s);
void storm_come(struct storm *s, struct storm_rank *r);
/** It closes, and ends once it is quiet. */
void storm_go(struct storm *s, struct storm_rank *r);
/** Its process has ended. Others hear of that, where members come and go. */
void storm_end(struct storm *s, struct storm_rank *r, bool in_order);
/** News that have come. False: it cannot be known yet, and is tried again. */
bool storm_on_joined(struct storm *s, struct storm_rank *r, uint32_t member);
void storm_on_left(struct storm *s, struct storm_rank *r, uint32_t member);
/** Between steps: forgets engines that have gone, and with which the rank has nothing to do any more. */
void storm_forget(struct storm *s, struct storm_rank *r);
/** The end: all has been heard. */
void storm_check_members(struct storm *s, struct storm_rank *r);
/** The life that is whole there, of that name; its index in the directory. NULL: none is. */
const struct storm_life *storm_find(const struct storm_rank *r, uint32_t name, uint32_t *index);
/** Whether that rank knows all ranks of that life, and of none that it has gone. */
bool storm_is_whole(const struct storm_rank *r, uint32_t life);
/** When it heard that the first of that life has gone; 0: it has not. */
uint64_t storm_gone_ns(const struct storm *s, const struct storm_rank *r, uint32_t life);

static inline const struct storm_life *storm_life_of(const struct storm *s, uint32_t rank)
{
    return &s->lives[s->ranks[rank].life];
}

/* oracle.c */
/** Sets all elements of a call's blocks, or of one layer. 0: to an offer's own values, as far as its chunks go. */
void storm_fill(struct storm *s, struct storm_call *c, uint32_t value);
void storm_fill_layer(struct storm *s, struct storm_call *c, uint32_t layer, uint32_t value);
void storm_map(struct storm_rank *r);
void storm_take_blocks(struct storm *s, struct storm_call *c);
void storm_on_event(struct storm *s, struct storm_rank *r, const baton_event_t *e);
void storm_check_write(struct storm *s, struct storm_rank *r, uint64_t offset);
bool storm_hears(const struct storm *s, uint32_t rank); /* whether that rank hears verdicts */
void storm_check_limits(struct storm *s, struct storm_rank *r);
void storm_check_losses(struct storm *s, struct storm_rank *r);
/** Checks the offers that are done, once all wants that are were told. */
void storm_check_done(struct storm *s);
/** Notes what a producer answers a want. */
void storm_note_answer(struct storm *s, uint32_t rank, const struct wire_message *m);
void storm_check_end(struct storm *s);

/* cover.c */
void storm_cover(struct storm_rank *r, const struct port_event *e);
void storm_cover_call(struct storm_rank *r, const struct storm_call *c, const char *what);
void storm_cover_rank(const struct storm_rank *r); /* when the rank ends */
void storm_cover_end(const struct storm_call *c);
void storm_cover_news(const char *state, const char *news); /* of a member */
void storm_cover_left(const struct storm_rank *r, uint32_t rank);
/** Prints pairs and counts. False: a pair that must be met was met less than `least` times. */
bool storm_cover_report(uint64_t least, bool print);
/** Hands the counts of this process to another, and adds those of another to them; both close fd. */
bool storm_cover_write(int fd);
bool storm_cover_read(int fd);

/** Runs one seed. False: it failed, and *s says why. */
bool storm_seed(struct storm *s, uint64_t seed, bool verbose);

#endif
