/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node: whole contexts in one process, without MPI. Each is a member of a world that is made up: its ground, net and
 * world are filled here, all else is real (threads, copy workers, core). Steps of start and close wait for all members,
 * so each needs a thread of its own for these. Between members of different nodes all goes over the net, which copies
 * at once and tells of it in a later turn. It stands for MPI: a call of it in a turn that is lent ends the process.
 *
 * Once started, all members may be left without a world (node_alone). Then each closes by itself.
 */
#ifndef BATON_TESTS_WITH_NODE_H
#define BATON_TESTS_WITH_NODE_H

#include <pthread.h>

#include "front/context.h"
#include "with_fakes.h"

#define NODE_MEMBERS 4
#define NODE_ROW_BYTES 512 /* at most, of what members exchange */

struct node_item; /* an event that waits to be handed out */

struct node_member {
    struct fakes fakes; /* first: `self` of its tables */
    struct node *node;
    uint32_t self;
    struct ground_peer peers[NODE_MEMBERS];
    void *mapping;
    uint64_t mapped_bytes, bytes; /* of the mapping; of the segment in it */
    struct path_region pool;
    struct path_regions mine; /* addresses */
    bool is_here, has_left;
    baton_progress_mode_t mode; /* before it is open */
    int process;                /* that its neighbours take it for; before it is started */
    baton_t *b;                 /* once it is open */
    /* under the node's lock */
    struct node_item *first, *given;
    _Atomic uint32_t waiting, sent, moves; /* events; messages and legs over the net, so far */
};

struct node {
    uint32_t num, a_node; /* members; of each node, in order */
    pthread_mutex_t lock;
    pthread_cond_t all_came;
    uint32_t came, rounds; /* to the step under way; steps that are over */
    uint8_t brought[NODE_MEMBERS][NODE_ROW_BYTES], all[NODE_MEMBERS][NODE_ROW_BYTES];
    struct node_member member[NODE_MEMBERS];
};

/** a_node 1: all members are far from each other; num: none is. */
void node_init(struct node *n, uint32_t num, uint32_t a_node);
void node_fini(struct node *n);

/** As baton_open; all members at once. */
int node_open(struct node_member *m, const baton_open_params_t *params, baton_t **out);

/** All members are started: none has a world any more. What each stands on stays until node_fini. */
void node_alone(struct node *n);

#endif
