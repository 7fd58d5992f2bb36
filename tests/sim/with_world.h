/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: a fake port for whole worlds of protocol cores in one thread and virtual time. Every rank has a real core
 * and a real cache; messages, cards and moves take the time that the test says, or are lost, doubled or refused by
 * its rules.
 */
#ifndef BATON_TESTS_WORLD_H
#define BATON_TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/core.h"
#include "front/beside.h"
#include "shm/handoffs.h"
#include "wire/card.h"
#include "wire/envelope.h"
#include "wire/message.h"

#define MS UINT64_C(1000000)
#define WORLD_TENSORS 4
#define WORLD_EVENTS 256
#define WORLD_WINDOW 6 /* tokens of a hybrid's window */

struct world;

struct world_rank {
    struct world *world;
    uint32_t rank;
    struct core *core;
    struct port port;
    struct bell bell;
    uint64_t rings;            /* of the bell, that it heard */
    uint64_t heard_ns;         /* all that had come by then was handed to its core */
    struct vicinity *vicinity; /* NULL: world_words is off */
    struct handoffs *handoffs; /* likewise */
    struct rings *owed;        /* likewise: to other ranks */
    baton_geometry_t geometry;
    baton_tensor_t tensors[WORLD_TENSORS];
    uint8_t *pool, *arena, *words, card[WIRE_CARD_MAX];
    uint64_t *board;
    struct net net; /* to ranks that are far */
    struct beside *beside;
    uint32_t syncs; /* of what it stored, for those */
    int card_bytes;
    bool bare;              /* has no cache */
    bool is_dead;           /* its neighbours know, and it need not come to rest in the end */
    bool has_gone;          /* by world_leave: it takes no step any more */
    bool lingers;           /* what it has sent, or was asked for, may still land, though it is dead */
    bool lends;             /* its turns are lent (front/turns.h): world_lend */
    bool stopped;           /* it neither answers nor takes anything */
    bool hears;             /* verdicts */
    bool deaf;              /* refuses sends to it with EAGAIN */
    bool refuses_zero;      /* its workers have no room to store zeros */
    int work_error;         /* what its hashes and zeros end with */
    uint64_t card_delay_ns; /* added to each read of its card */
    uint64_t move_extra_ns; /* added to each move from it */
    uint32_t bad_cards;     /* the next so many of its cards come corrupted */
    uint32_t moves;         /* how many moves were done on its memory */
    baton_event_t *events;  /* room for WORLD_EVENTS: 480 KiB, of which few are touched */
    int num_events;
    uint64_t event_at[WORLD_EVENTS];
};

struct world_message {
    uint32_t from, to;
    struct wire_message m;
};

struct due;

struct world {
    struct settings settings;
    struct logger log;
    uint64_t now;
    uint32_t num_ranks;  /* places in `ranks` that were ever taken */
    uint32_t most;       /* that there are */
    uint64_t num_joined; /* members so far: each has another number */
    struct directory *directory;
    baton_path_t *path, *path_out;
    struct world_rank *ranks;
    struct due *queue; /* what will happen, by time */
    struct due *held;  /* what waits for a stopped rank */
    uint64_t order;
    uint64_t message_ns, move_ns, board_ns, zero_ns;
    baton_mode_t mode;  /* of the wants that the world_ functions submit */
    bool zero_tail;     /* likewise: BATON_WANT_ZERO_TAIL */
    uint64_t chunk;     /* bytes that a move takes at most */
    bool asks;          /* no path reads a generation by itself, behind the last bytes */
    bool at_once;       /* paths within a node have done what is asked of them when the call returns */
    uint64_t answer_ns; /* that each of these takes */
    struct due *taken;  /* the answer that was taken at once last */
    uint32_t slots;     /* how many moves may be under way between two ranks; 0: any number */
    uint64_t batch_ns;  /* all that comes to a rank within this time comes in one step, at its end */
    uint32_t attempt;   /* of the offers and wants that the world_ functions submit */
    const char *seat;   /* the engine that their offers are for; NULL: any */
    const void *attach; /* num_attach bytes of the offers submitted */
    uint32_t num_attach;
    /** Says how often a message is delivered (1 without a rule). */
    int (*rule)(struct world *w, const struct world_message *m);
    /** Changes a message on its way, its envelope included. */
    void (*damage)(struct world *w, const struct world_message *m, uint8_t *packet, uint32_t bytes);
    struct envelope_counts *counts; /* those of rank a about rank b: [a * most + b] */
    uint32_t refused;               /* messages whose envelope was refused */
    /** Called before each move lands. */
    void (*on_move)(struct world *w, uint32_t from, uint32_t to);
    void *user;
    uint32_t sent[WIRE_TYPE_LAST + 1]; /* by type */
    uint32_t tables;                   /* block tables that were read */
    uint32_t boards;                   /* generations that were asked for */
};

struct world_engine {
    const char *name;
    uint32_t tp, heads_total, num_blocks, layout;
    const char *model;   /* NULL: "model" */
    bool bare_first;     /* two stages, the first without a cache */
    bool one_layer_each; /* two stages, of one layer each */
    bool one_tensor;     /* its second layer has no tensor */
    bool other_rules;    /* its planner version differs */
    uint32_t node;       /* the node of all its ranks; 0: each is on a node of its own */
    uint32_t
        window_block; /* not 0: a hybrid: layer 0 has full attention, layer 1 a window, in blocks of so many tokens,
                              and a state */
    baton_verdicts_t verdicts;
};

/** Ranks are numbered engine by engine. */
void world_init(struct world *w, const struct world_engine *engines, uint32_t num_engines);
void world_fini(struct world *w);

/** A rank goes, and all others hear of it at once. is_dead: else it says so itself. What was to come to it is lost. */
void world_leave(struct world *w, uint32_t rank, bool is_dead, bool is_quiet);
/** An engine comes, with all its ranks, and all others hear of it at once. Its first rank. */
uint32_t world_join(struct world *w, const struct world_engine *engine);
/** The same of one of its ranks. */
uint32_t world_join_rank(struct world *w, const struct world_engine *engine, uint32_t index);

/** Lets time pass until `until_ns`. */
void world_run(struct world *w, uint64_t until_ns);

/** From now on all turns of that rank are lent: it hears nothing that is far, or all are its own again. */
void world_lend(struct world *w, uint32_t rank, bool lends);

/** The address of offset `at` of a rank's segment, where its card and its row are read. */
uint8_t *world_address(struct world *w, uint32_t rank, uint64_t at);

/** Submits; blocks are first, first + step, …; ids count up from 1 per call. */
baton_id_t world_offer(struct world *w, uint32_t rank, const char *key, uint32_t first, uint32_t step, uint32_t tokens,
                       uint32_t ttl_ms);
baton_id_t world_want(struct world *w, uint32_t rank, const char *engine, const char *key, uint32_t first,
                      uint32_t step, uint32_t tokens, uint32_t timeout_ms);
/** The same without a layer in place. */
baton_id_t world_offer_layers(struct world *w, uint32_t rank, const char *key, uint32_t first, uint32_t step,
                              uint32_t tokens, uint32_t ttl_ms);
/** The same without a token in place, and without a block; in_layers: each chunk without a layer too. */
baton_id_t world_offer_chunks(struct world *w, uint32_t rank, const char *key, uint32_t tokens, bool in_layers,
                              uint32_t ttl_ms);
/** Appends so many blocks: first, first + 1, … From now on `tokens` tokens are in place. */
void world_append(struct world *w, uint32_t rank, baton_id_t id, uint32_t first, uint32_t blocks, uint32_t tokens);
void world_ready(struct world *w, uint32_t rank, baton_id_t id, uint32_t layer_first, uint32_t layer_count);
/** The same for the chunk that ends with so many tokens. */
void world_ready_of(struct world *w, uint32_t rank, baton_id_t id, uint32_t layer_first, uint32_t layer_count,
                    uint32_t tokens);
/** Submits what is made elsewhere; returns its id. */
baton_id_t world_submit(struct world *w, uint32_t rank, struct call *call);
void world_cancel(struct world *w, uint32_t rank, baton_id_t id);

/** The terminal event of that id at that rank; NULL: none yet. Fails the test if there are two. */
const baton_event_t *world_event(struct world *w, uint32_t rank, baton_id_t id);
/** The GIVEN_UP of that id; NULL: none yet. Fails the test if there are two, or one after the terminal event. */
const baton_event_t *world_given_up(struct world *w, uint32_t rank, baton_id_t id);
/** The one verdict with that id at that rank, or (id 0) the first one without a call of it; NULL: none yet. */
const baton_event_t *world_verdict(struct world *w, uint32_t rank, baton_id_t id);
uint64_t world_event_ns(struct world *w, uint32_t rank, baton_id_t id);
/** The rank that an event names as its peer; -1: none. Fails the test if what else it says of it is wrong. */
int32_t world_peer(const struct world *w, const baton_event_t *event);

/** What that rank has counted. */
baton_stats_t world_stats(const struct world *w, uint32_t rank);

/** Fills the blocks of a request with bytes that depend on (seed, layer, plane, head, token, channel). */
void world_fill(struct world *w, uint32_t rank, uint32_t seed, uint32_t first, uint32_t step, uint32_t tokens);
/** How many elements of the request are not those bytes, and how many bytes behind its tokens are not the poison. */
uint64_t world_wrong(struct world *w, uint32_t rank, uint32_t seed, uint32_t first, uint32_t step, uint32_t tokens);
/** The same of one of its two layers. */
void world_fill_layer(struct world *w, uint32_t rank, uint32_t layer, uint32_t seed, uint32_t first, uint32_t step,
                      uint32_t tokens);
uint64_t world_wrong_layer(struct world *w, uint32_t rank, uint32_t layer, uint32_t seed, uint32_t first, uint32_t step,
                           uint32_t tokens);
void world_poison(struct world *w, uint32_t rank);

/** The mode of all wants in worlds made from now on: PULL, unless a test program sets it. */
extern baton_mode_t world_mode;
/** Whether the ranks of worlds made from now on take each other's offers by words (core/handoff.h): all are near. */
extern bool world_words;
/** Their BATON_LEASES; 0: 16. */
extern uint32_t world_leases;

#define WORLD(w, engines)                                                                                              \
    struct world w;                                                                                                    \
    world_init(&w, engines, sizeof(engines) / sizeof(engines)[0])

/** Requires that the call has ended with this status and error. */
#define ENDED(w, rank, id, wanted_status, wanted_error)                                                                \
    do {                                                                                                               \
        const baton_event_t *ended_ = world_event(w, rank, id);                                                        \
        assert_non_null(ended_);                                                                                       \
        assert_int_equal(ended_->status, wanted_status);                                                               \
        assert_int_equal(ended_->error, wanted_error);                                                                 \
    } while (0)

#define DONE(w, rank, id) ENDED(w, rank, id, BATON_STATUS_DONE, 0)

/** Lets time pass until `until_ns`; then the call has ended well. */
#define DONE_AFTER(w, rank, id, until_ns)                                                                              \
    do {                                                                                                               \
        baton_id_t after_ = (id);                                                                                      \
        world_run(w, until_ns);                                                                                        \
        DONE(w, rank, after_);                                                                                         \
    } while (0)

/** Runs a group of tests with pulls, with pushes, and with leases taken by words. Its value is what main returns. */
#define WORLD_ALL_WAYS(tests)                                                                                          \
    (cmocka_run_group_tests_name("pull", tests, world_pulls, NULL) +                                                   \
     cmocka_run_group_tests_name("push", tests, world_pushes, NULL) +                                                  \
     cmocka_run_group_tests_name("words", tests, world_takes, NULL))
int world_pulls(void **state);
int world_pushes(void **state);
int world_takes(void **state);

/** The test is about messages that are not sent, or a path that is not used, where leases are taken by words. */
#define NOT_BY_WORDS()                                                                                                 \
    do {                                                                                                               \
        if (world_words)                                                                                               \
            skip();                                                                                                    \
    } while (0)

#endif
