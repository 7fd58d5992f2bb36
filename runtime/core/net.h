/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net: what the port needs for peers of other nodes, at any time of a context's life. It is a path to every peer
 * (core/path.h), which carries messages too. Front uses it for whomever nothing nearer leads to: a neighbour without
 * lanes also gets its messages by the net. Peers are numbers (core/ground.h): what stands for them in the network is
 * known to whoever fills this table alone.
 *
 * THREAD. All calls are for whoever makes turns (front/turns.h), but where one says that any thread may call it.
 * COMPLETION and ERRORS are those of core/path.h: no call blocks, and what was begun ends by an event of `progress`.
 */
#ifndef BATON_CORE_NET_H
#define BATON_CORE_NET_H

#include "core/port.h"

struct textbuf;

/** Counts that the net keeps. */
struct net_counts {
    uint64_t messages_bad; /* refused before the core saw them */
    uint64_t flushes, settled, poisoned;
    uint32_t parked;
};

struct net {
    /**
     * To every peer; the net closes it. It may be copied once the world has been started. `read`, `board` and `move`:
     * BATON_EINVAL where all peers are of this node, so that there is nothing to read through. `progress` hands out
     * messages too. Bytes and words go on after `send` has failed for good.
     */
    struct path path;
    void *self;

    bool has_nodes; /* there are peers of other nodes. Else nothing happens in the net that rings no bell */
    bool exposes;   /* memory that engines own can be reached from other nodes. Known once it was exposed */

    /** As that of the port (core/port.h): at most WIRE_MESSAGE_MAX bytes. BATON_EAGAIN: no place or credit. */
    int (*send)(void *self, uint32_t peer, const void *message, uint32_t bytes);

    /** After a store into my segment: a full fence, and whatever else peers need to read by the net what was stored. */
    void (*sync)(void *self);

    /** Whether peers of other nodes ring my bell too. */
    bool (*is_rung)(const void *self);
    /** How often they did, and I rang them: after either, something from another node is to be expected. */
    uint32_t (*rings)(const void *self);
    /** At the end of a turn: rings those to whom something went in it. */
    void (*ring)(void *self);

    /** Whether messages, or the completion of what was begun, have failed for good. Logged when it happened. */
    bool (*failed)(const void *self);

    /** Any thread. */
    struct net_counts (*counts)(const void *self);
    /** How peers of other nodes are reached, in lines of text. Any thread. */
    void (*describe)(const void *self, struct textbuf *page);
};

#endif
