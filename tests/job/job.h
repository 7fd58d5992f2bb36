/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: engines that offer and want requests, for the scenarios beside this file. Each engine has one rank; the prefill
 * engines come first. Blocks of a slot that is free hold a pattern. Whoever writes into them is found when the slot is
 * next used, or when the scenario looks.
 *
 * Each call is open, given up or ended, as in baton.h. Its blocks are left alone until its terminal event.
 */
#ifndef BATON_TESTS_JOB_H
#define BATON_TESTS_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#define JOB_LAYERS_MAX 2u

enum job_state { JOB_FREE, JOB_WAITS, JOB_OPEN, JOB_GIVEN_UP };

/** A place for one call. */
struct job_slot {
    enum job_state state;
    uint32_t peer, request; /* peer: the index of the other side's engine */
    uint32_t num_blocks, num_tokens;
    uint32_t *blocks;
    baton_id_t id;
    double began_ms; /* and whether it is late: the scenario's */
    bool is_late;
    uint64_t freed; /* when it became free, as a number */
};

/** The cache, in 64-bit words, and the slots in it. */
struct job_shape {
    uint32_t layers, planes, block_tokens, token_words; /* token_words: in one plane of one layer */
    uint32_t slots, blocks, tokens;                     /* slots with each peer; blocks and tokens of each at most */
};

/** This rank. */
struct job {
    baton_open_params_t me;
    baton_mode_t mode;                          /* of its wants */
    uint32_t rank, producers, consumers, peers; /* peers: engines of the other side */
    baton_t *baton;
    struct job_shape shape;
    struct job_slot *slots; /* those with peer p begin at p * shape.slots */
    uint32_t num_slots;
    uint64_t freed; /* slots, so far */
    baton_tensor_t tensors[JOB_LAYERS_MAX];
    uint8_t *base; /* of the cache; it stays after a close that met a loss */
};

extern struct job job;

/** Reads from the environment that batonrun made who this rank is, and from its argument how it wants. */
void job_init(const char *mode);
/** Opens, creates the cache and the slots, and starts. */
void job_open(MPI_Comm comm, const struct job_shape *shape);

bool job_produces(void);
/** The world's rank of an engine of the other side. */
uint32_t job_rank_of(uint32_t peer);

enum job_walk { JOB_FILL, JOB_CHECK, JOB_ERASE, JOB_LOOK };

/**
 * Goes over every word of a slot's blocks: fills them with what the request has, checks that they have it up to its
 * last token and nothing behind, makes them free, or looks whether they still are. Returns how many words are not so.
 */
uint32_t job_walk(const struct job_slot *s, enum job_walk what);
/** How many words of a free slot were written into. They are free again afterwards. */
uint32_t job_look(const struct job_slot *s);

/** The call has ended: makes its slot and blocks free. */
void job_free(struct job_slot *s);

/** Offers a slot's blocks, or wants into them. The slot is open where this returns 0. */
int job_call(struct job_slot *s, uint32_t timeout_ms);

bool job_is_terminal(const baton_event_t *e);
/**
 * Whether this event may come now. A call is given up once at most, and never as done. Its terminal event, of which
 * there is one, says that it was given up.
 */
bool job_in_order(const struct job_slot *s, const baton_event_t *e);

/** Waits for events, for so long at most. */
void job_wait(int ms);
/** Takes the events that are there, so many at most. Returns their number. */
int job_take(void (*take)(const baton_event_t *e));

/** The scenarios: each says what its arguments are and what it prints. They return the exit status. */
int job_fault(int argc, char **argv);
int job_lab(int argc, char **argv);
int job_overload(int argc, char **argv);

#endif
