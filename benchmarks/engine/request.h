/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: what one engine knows of one request: its tokens, the blocks that hold their keys and values, and how far it
 * has come. It may have two transfers: blocks come in from another engine, and are given out to one.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/digest.h"

#define REQUEST_ATTACH_MAX 256 /* bytes that come with blocks */

enum phase {
    PHASE_WAITING, /* has no blocks */
    PHASE_LOADING, /* has blocks, whose bytes are on their way */
    PHASE_RUNNING, /* is computed */
    PHASE_GIVING,  /* is computed, and its blocks are given to another engine */
    PHASE_ENDED
};

/** How a transfer stands. The outcome for an engine is the least of its ranks' outcomes. */
enum outcome {
    OUTCOME_OPEN,
    OUTCOME_GIVEN_UP, /* failed, and its blocks are not the engine's yet */
    OUTCOME_FAILED,   /* failed, and its blocks are the engine's */
    OUTCOME_DONE
};

struct transfer {
    bool open;            /* begun, and its blocks are not the engine's yet */
    enum outcome mine;    /* on this rank, as the carrier says */
    bool withdrawn;       /* it was asked to end */
    uint64_t id;          /* the carrier's */
    uint32_t from, until; /* the tokens that move */
    uint32_t num_attach;  /* in: of bytes that came along */
    unsigned char attach[REQUEST_ATTACH_MAX];
    uint64_t begun_ns, ended_ns; /* on this rank */
    uint32_t *aside, num_aside;  /* blocks of a transfer that was given up: nobody may touch them */
};

struct request {
    uint32_t index; /* in the load */
    enum phase phase;
    bool alone;    /* this engine computes it without help */
    bool aborted;  /* its load was called off on purpose */
    bool answered; /* all its tokens are known */
    uint16_t *tokens;
    uint32_t known;    /* tokens of these */
    uint32_t computed; /* leading tokens whose keys and values are in place */
    uint32_t goal;     /* what this engine computes: tokens */
    uint32_t *blocks, num_blocks;
    uint32_t named; /* blocks that have their names */
    uint64_t name;  /* of the last of them */
    struct transfer in, out;
    struct digest digest;
    uint64_t first_ns, last_ns; /* when its first and last answers came */
};

#endif
