/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm: whole worlds of real protocol cores under random schedules, in virtual time, without MPI. A seed decides
 * everything: engines, caches, paths, limits, requests, delays, and what goes wrong. The same seed runs the same way
 * again, to the last event.
 *
 *   port.c      time, messages, one-sided operations: what a network and its failures do
 *   schedule.c  what engines do: offers, wants, cancels; what happens to ranks: stops, crashes
 *   oracle.c    what must be true of every call, block and byte
 *   fair.c      what must be true of who moves how much when
 *   cover.c     which (state, event) pairs of the protocol were met
 */
#ifndef BATON_TESTS_STORM_H
#define BATON_TESTS_STORM_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/card.h"
#include "../core_inside.h"
#include "wire/envelope.h"

#define STORM_US UINT64_C(1000)
#define STORM_MS UINT64_C(1000000)
#define STORM_GRID (STORM_MS / 4) /* times at which stopped ranks go on */
#define STORM_LAYERS 2
#define STORM_RANKS_MAX 64
#define STORM_KEYS_MAX 4
#define STORM_STRAYS_MAX 64
#define STORM_WAITS_MAX 256 /* movers of one rank */

/* Values of the caches' elements, 32 bits each. An offer's are its call's number and a hash of the place. */
#define STORM_FREE 0xfefefefeu  /* in blocks that belong to nobody */
#define STORM_WANTED 0xabababab /* in blocks that wait for a transfer */
#define STORM_CALLS_MAX 0x8000u /* so that no offer's value is one of these */

enum storm_fate { STORM_RUNS, STORM_STOPPED, STORM_CRASHED };

/** What one-sided operations on a crashed rank of another node do. */
enum storm_death { STORM_DEATH_SILENT, STORM_DEATH_ERROR, STORM_DEATH_LIES };

/** One accepted call of an engine. */
struct storm_call {
    uint32_t number, rank, key, tokens, held, num_blocks;
    uint32_t engine; /* want: the producer's; offer: its own */
    uint32_t attempt;
    bool is_want, ended, cancelled;
    bool given_up;                 /* told so; its blocks are lent until it has ended */
    bool zero_tail;                /* want */
    bool in_layers, in_chunks;     /* offer */
    uint32_t begun;                /* tokens of its chunks so far; else all */
    uint32_t given;                /* its blocks that were told of */
    uint32_t verdicts;             /* told of it */
    uint64_t ended_ns;             /* its terminal event */
    uint32_t seats, seat;          /* offer: how many, and the engine of the first */
    uint8_t told[STORM_RANKS_MAX]; /* want: how often its end was said to each rank */
    baton_mode_t mode;
    baton_status_t status;
    int error;
    uint64_t submitted_ns, time_ns; /* time_ns: its time to live or deadline */
    uint64_t last_word_ns;          /* offer: when its time to live last began */
    uint64_t answered_ns;           /* given up, or ended; 0: neither */
    uint32_t *blocks;
    uint32_t *from; /* want, done: by producer rank, the offer whose bytes came */
};

/** A mover that could move, as the oracle sees it. */
struct storm_wait {
    uint64_t tag;
    uint32_t passed, most; /* turns of others of its peer since its own; the most that waited meanwhile */
};

struct storm_rank {
    struct storm *storm;
    uint32_t rank;
    uint32_t moving[2]; /* slots in use: of copies, of the network */
    uint64_t steps;
    struct storm_wait waits[STORM_WAITS_MAX];
    uint32_t num_waits;
    enum storm_fate fate;
    bool lied;          /* crashed, and has once told success without bytes */
    bool was_stopped;   /* at some time */
    bool closes;        /* its engine calls no more; it answers others until all come to rest */
    uint32_t has_stray; /* operations that it began and cannot account for, by tag */
    uint64_t stray[STORM_STRAYS_MAX];
    uint64_t resumed_ns; /* when it was stopped for the last time, the end of that */
    uint64_t losses;     /* of other ranks, that were looked at */
    struct core *core;
    struct port port;
    baton_geometry_t geometry;
    baton_tensor_t tensors[STORM_LAYERS];
    uint8_t *pool, *arena, card[WIRE_CARD_MAX];
    uint32_t card_bytes;
    uint64_t *board;
    uint32_t *block_of; /* by element of the pool */
    uint32_t *owner;    /* by block: the number of the call it belongs to; 0: nobody */
};

struct storm_pair {
    uint64_t last_ns; /* arrival of the last message: the next comes no sooner */
    uint32_t drawn;   /* random numbers taken */
    uint32_t under_way;
    struct envelope_counts counts;
    /* what `from` moves to or from `to` */
    uint32_t moving;       /* slots in use */
    bool overdue;          /* one was put aside, and none has come since */
    uint64_t sign_ns;      /* when bytes came last that were not given up, or began to be under way */
    uint64_t refused_step; /* by chance, in that step */
    uint32_t passed, most; /* turns of other peers since its last; the most that waited meanwhile */
    uint64_t waiting;      /* by tag: the transfer with it that has waited since then */
};

struct storm {
    uint64_t seed, random, now;
    bool verbose, failed;
    char why[256];

    /* what this seed is like */
    bool calm;       /* nothing is lost, stopped or crashed: every deadline is kept */
    bool tangled;    /* one key, offered and wanted again and again: words of former calls meet later ones */
    bool deafened;   /* calm, but for words of ends and their answers, which are lost some times; offers live long */
    bool tries;      /* attempts are numbered */
    bool crowded;    /* many requests at a time, which compete for a few slots */
    bool passive;    /* one-sided operations need nothing of the rank they are done on, as by RDMA */
    bool local_puts; /* a put's completion says nothing of the other side */
    enum storm_death death;
    uint32_t loss, twice;       /* messages of 1,000 that are lost, doubled */
    uint32_t damaged;           /* of them, envelope included, in one to four bits, between ranks that send hashes */
    uint32_t bad_cards;         /* of 1,000 */
    uint32_t spoilt;            /* runs of 1,000, where checksums are on */
    uint32_t strays;            /* moves of 1,000 that fail, and whose bytes land some time later all the same */
    bool pidfds;                /* of ranks of all nodes it is known whether they are gone */
    uint64_t slow_ns;           /* longest delay of a message */
    uint32_t slots, peer_slots; /* operations that move bytes: of one rank, over each kind of path; with one peer */
    uint64_t slot_bytes;        /* that one moves at most */
    uint32_t num_keys;          /* few: many attempts under one of them */
    int32_t untouched;          /* rank that is never stopped in this run; -1: as the seed says */

    struct settings settings;
    struct logger log;
    struct directory *directory;
    uint32_t num_engines, num_ranks;
    struct storm_rank ranks[STORM_RANKS_MAX];
    baton_path_t *path; /* [from * num_ranks + to] */
    struct storm_pair *pairs;

    struct storm_due **heap;
    uint32_t num_due, heap_room;
    uint64_t order;

    struct storm_call *calls;
    uint32_t num_calls, calls_room;
    uint64_t horizon; /* when every call must have ended */
};

/** Ends the run: the first reason stays. */
void storm_fail(struct storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void storm_say(const struct storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t storm_hash(uint64_t x);
/** The seed's own stream: 0 .. below - 1. */
uint32_t storm_below(struct storm *s, uint32_t below);
bool storm_chance(struct storm *s, uint32_t of_1000);

/* port.c */
void storm_port(struct storm_rank *r);
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
    STORM_LIE
};
struct storm_plan {
    enum storm_action action;
    uint32_t rank, key, attempt, tokens, held, time_ms, engine, seats;
    uint32_t call, layer; /* READY; APPEND: call, tokens */
    uint32_t to, subject; /* LIE */
    uint32_t seat[BATON_CONSUMERS_MAX];
    baton_mode_t mode;
};
void storm_later(struct storm *s, uint64_t at, const struct storm_plan *plan);
/** Lets time pass until `until`, or until a failure. */
void storm_run(struct storm *s, uint64_t until);
void storm_collect(struct storm *s, struct storm_rank *r); /* what ended */
void storm_drop_all(struct storm *s);

bool storm_has_room(struct storm *s, uint32_t rank, uint32_t peer); /* for one more operation that moves bytes */

/* fair.c */
/** Bytes that may be in flight over a path. */
static inline uint64_t storm_limit(const struct storm *s, baton_path_t path)
{
    return path == BATON_PATH_SHM ? s->settings.copy_bytes * s->settings.copy_workers : s->settings.rma_bytes;
}
/** Before a leg gets a slot and at most `budget` bytes. */
void storm_check_turn(struct storm_rank *r, const struct path_leg *leg, uint64_t budget);
/** Bytes of a leg begin to be under way, or came. */
void storm_note_begin(struct storm_rank *r, uint32_t peer);
void storm_note_come(struct storm_rank *r, uint32_t peer, uint64_t tag);
/** After a step: nobody waits for what is free. */
void storm_check_idle(struct storm_rank *r);

/* schedule.c */
void storm_build(struct storm *s);
void storm_schedule(struct storm *s);
/** The engine offers or wants a key anew, at once or soon after the event of its former call. */
void storm_again(struct storm *s, const struct storm_call *former);
void storm_act(struct storm *s, const struct storm_plan *plan);
void storm_free(struct storm *s);

/* oracle.c */
/** All elements of its blocks, or of one layer of them; 0: an offer's own, as far as its chunks go. */
void storm_fill(struct storm *s, struct storm_call *c, uint32_t value);
void storm_fill_layer(struct storm *s, struct storm_call *c, uint32_t layer, uint32_t value);
void storm_map(struct storm_rank *r);
void storm_take_blocks(struct storm *s, struct storm_call *c);
void storm_on_event(struct storm *s, struct storm_rank *r, const baton_event_t *e);
void storm_check_write(struct storm *s, struct storm_rank *r, uint64_t offset);
bool storm_hears(const struct storm *s, uint32_t rank); /* whether verdicts are told to that rank */
void storm_check_limits(struct storm *s, struct storm_rank *r);
void storm_check_losses(struct storm *s, struct storm_rank *r);
void storm_check_end(struct storm *s);

/* cover.c */
void storm_cover(struct storm_rank *r, const struct port_event *e);
void storm_cover_call(struct storm_rank *r, const struct storm_call *c, const char *what);
void storm_cover_rank(const struct storm_rank *r); /* at its end */
void storm_cover_end(const struct storm_call *c);
/** Prints pairs and counts. False: a pair that must be met was met less than `least` times. */
bool storm_cover_report(uint64_t least, bool print);
/** Hands the counts of this process to another, and adds those of another to them; both close fd. */
bool storm_cover_write(int fd);
bool storm_cover_read(int fd);

/** Runs one seed. False: *s tells why. */
bool storm_seed(struct storm *s, uint64_t seed, bool verbose);

#endif
