/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm: whole worlds of real protocol cores under random schedules, in virtual time, without MPI. A seed decides
 * everything: engines, caches, paths, limits, requests, delays, and what goes wrong. The same seed runs the same way
 * again, to the last event.
 *
 *   port.c      time, messages, one-sided operations: what a network and its failures do
 *   schedule.c  what engines do: offers, wants, cancels; what happens to ranks: stops, crashes
 *   oracle.c    what must be true of every call, block and byte
 *   cover.c     which (state, event) pairs of the protocol were met
 */
#ifndef BATON_TESTS_STORM_H
#define BATON_TESTS_STORM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/state.h"

#define STORM_US UINT64_C(1000)
#define STORM_MS UINT64_C(1000000)
#define STORM_GRID (STORM_MS / 4) /* times at which stopped ranks go on */
#define STORM_LAYERS 2
#define STORM_RANKS_MAX 64
#define STORM_KEYS_MAX 4

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
    bool is_want, ended, quarantined, cancelled;
    bool zero_tail;            /* want */
    bool in_layers, in_chunks; /* offer */
    uint32_t begun;            /* tokens of its chunks so far; else all */
    uint32_t given;            /* its blocks that were told of */
    uint32_t verdicts;         /* told of it */
    baton_mode_t mode;
    baton_status_t status;
    int error;
    uint64_t submitted_ns, time_ns, ended_ns; /* time_ns: its time to live or deadline */
    uint32_t *blocks;
    uint32_t *from; /* want, done: by producer rank, the offer whose bytes came */
};

struct storm_rank {
    struct storm *storm;
    uint32_t rank;
    enum storm_fate fate;
    bool lied; /* crashed, and has once told success without bytes */
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
};

struct storm {
    uint64_t seed, random, now;
    bool verbose, failed;
    char why[256];

    /* what this seed is like */
    bool calm;       /* nothing is lost, stopped or crashed: every deadline is kept */
    bool tangled;    /* one key, offered and wanted again and again: words of former calls meet later ones */
    bool passive;    /* one-sided operations need nothing of the rank they are done on, as by RDMA */
    bool local_puts; /* a put's completion says nothing of the other side */
    enum storm_death death;
    uint32_t loss, twice; /* messages of 1,000 that are lost, doubled */
    uint32_t bad_cards;   /* of 1,000 */
    uint32_t spoilt;      /* runs of 1,000, where checksums are on */
    uint64_t slow_ns;     /* longest delay of a message */
    uint32_t num_keys;    /* few: many attempts under one of them */
    int32_t untouched;    /* rank that is never stopped in this run; -1: as the seed says */

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
    STORM_CRASH
};
struct storm_plan {
    enum storm_action action;
    uint32_t rank, key, tokens, held, time_ms, engine, seats;
    uint32_t call, layer; /* READY; APPEND: call, tokens */
    uint32_t seat[BATON_CONSUMERS_MAX];
    baton_mode_t mode;
};
void storm_later(struct storm *s, uint64_t at, const struct storm_plan *plan);
/** Lets time pass until `until`, or until a failure. */
void storm_run(struct storm *s, uint64_t until);
void storm_collect(struct storm *s, struct storm_rank *r); /* what ended */
void storm_drop_all(struct storm *s);

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
void storm_check_end(struct storm *s);

/* cover.c */
void storm_cover(struct storm_rank *r, const struct port_event *e);
void storm_cover_call(struct storm_rank *r, const struct storm_call *c, const char *what);
void storm_cover_rank(const struct storm_rank *r); /* at its end */
void storm_cover_end(const struct storm_call *c);
/** Prints pairs and counts. False: a pair that must be met was met less than `least` times. */
bool storm_cover_report(uint64_t least, bool print);

/** Runs one seed. False: *s tells why. */
bool storm_seed(struct storm *s, uint64_t seed, bool verbose);

#endif
