/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_inside: what peer.c knows of a rank. For peer.c, and for tests that look inside. */
#ifndef BATON_CORE_PEER_INSIDE_H
#define BATON_CORE_PEER_INSIDE_H

#include "core/peer.h"
#include "core/queue.h"
#include "core/timer.h"

/** A rank with which there was business: legs of wants, and readers of offers; or that is watched in closing. */
struct peer {
    uint32_t rank, business;
    bool lost, dead, ended, left; /* see peer.h */
    bool excused;                 /* this rank was late itself: it asks now, and judges at the next beat */
    uint32_t neighbour;           /* of its node: the last one that was asked whether it is dead */
    uint64_t heard_ns;            /* by peers->watched_ns */
    uint64_t lost_ns;
    struct queued news; /* it was lost, or died: in peers->losses */
    struct timer beat;
};

struct peers {
    struct queue losses;    /* news */
    uint64_t stepped_ns;    /* when the last step was */
    uint64_t looked_ns;     /* what it had heard */
    uint64_t awake_ns;      /* time in which this rank made steps: of a pause of its own, one beat counts */
    uint64_t watched_ns;    /* the part of it in which it looked for messages */
    struct peer *by_rank[]; /* NULL: no business with it yet */
};

#endif
