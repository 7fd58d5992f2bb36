/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net: what the port needs for peers of other nodes, at any time of a context's life. It is a path to every peer
 * (core/path.h), which carries messages too. Front uses it for whomever nothing nearer leads to: a neighbour without
 * lanes also gets its messages by the net. Peers are numbers (core/ground.h): what stands for them in the network is
 * known to whoever fills this table alone.
 *
 * BYTES are handed over as runs, so that whoever fills this table needs to know nothing of plans. They may cross a
 * queue of fixed entries to another process.
 *
 * THREAD. All calls are for whoever makes turns (front/turns.h), but where one says that any thread may call it. Before
 * there are turns, the thread that starts the context makes them.
 * LENT TURNS are those of other threads, which the library behind the net may not bear. Of its path they call `park`,
 * `look` and `has_looked`, and else what any thread may call (front/beside.h). These three, and `busy`, look at what is
 * known here, and call nothing of that library.
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

#define NET_RUNS 128u /* that are handed over at a time, at most */

/**
 * Bytes that lie together on both sides, `count` times. The k-th piece lies at from + k * from_step at the source, and
 * goes to to + k * to_step at the destination: both are offsets in a region of that side's cache. One run names all
 * tokens of a block of which only some heads move.
 */
struct net_run {
    uint64_t from, to;
    int64_t from_step, to_step; /* mean nothing where count is 1 */
    uint64_t bytes;             /* of a piece; >= 1 */
    uint32_t count;             /* >= 1 */
    uint32_t from_region, to_region;
};

/** The runs of a leg that move next, in their order. */
struct net_move {
    uint32_t peer;
    bool write; /* from my cache to the peer's; else from the peer's to mine */
    uint64_t tag;
    const struct path_regions *theirs; /* the peer's; all runs lie within them, and within mine */
    const struct net_run *runs;
    uint32_t num_runs; /* 1 .. NET_RUNS */
    uint64_t board; /* that of the leg, where these runs are its last; else 0. Read only if all of the runs are taken,
                          and once every move of the tag, this one and those before, has all its bytes in place */
};

struct net {
    const char *name; /* of what it goes through, for sentences: "MPI" */
    /**
     * To every peer; without a `close`. It may be copied once the world has been started. `read` and `board`:
     * BATON_EINVAL where all peers are of this node, so that there is nothing to read through. Its `move` is NULL: the
     * two below take that place. `progress` hands out messages too. Bytes and words go on after `send` has failed for
     * good.
     */
    struct path path;
    void *self;

    /**
     * How many runs of a leg with that peer are taken now, so that none are made in vain: 1 .. NET_RUNS. Else why none
     * is: an error of `move`.
     */
    int (*room)(void *self, uint32_t peer);

    /**
     * Begins to move the bytes of runs. Returns how many were taken (> 0), from the first run's first byte on; the last
     * one may be any byte of a run. Or an error (nothing taken): those of core/path.h, and BATON_EINVAL as above.
     * What the move points to is not needed once this returns. For bytes taken, PORT_MOVED events come, whose bytes add
     * up to them. The last one of the tag may tell the generation that stands at `board`.
     */
    int64_t (*move)(void *self, const struct net_move *move);

    bool has_nodes; /* there are peers of other nodes. Else nothing happens in the net that rings no bell */
    bool exposes;   /* memory that engines own can be reached from other nodes. Known once it was exposed */

    /** As that of the port (core/port.h): at most WIRE_MESSAGE_MAX bytes. BATON_EAGAIN: no place or credit. */
    int (*send)(void *self, uint32_t peer, const void *message, uint32_t bytes);

    /** After a store into my segment: a full fence, and whatever else peers need to read by the net what was stored. */
    void (*sync)(void *self);

    /** Whether peers of other nodes ring my bell too. */
    bool (*is_rung)(const void *self);
    /** How often they rang mine and I theirs. Where it has grown, messages or bytes may be on their way: stay awake. */
    uint32_t (*rings)(const void *self);
    /** At the end of a turn: rings those to whom something went in it. */
    void (*ring)(void *self);

    /** Whether messages, or the completion of what was begun, have failed for good. Logged when it happened. */
    bool (*failed)(const void *self);

    /**
     * Frees what net and ground stand for. Local. Only for a context without a world (core/world.h): where there is
     * one, its own `close` does that, and this may be NULL.
     */
    void (*close)(void *self);
    /** In a forked child: closes its copies of the descriptors, and touches nothing else. */
    void (*forget)(void *self);

    /** Any thread. */
    struct net_counts (*counts)(const void *self);
    /** How peers of other nodes are reached, in lines of text. Any thread. */
    void (*describe)(const void *self, struct textbuf *out);
};

#endif
