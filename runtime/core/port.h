/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port: the one table of functions by which the protocol core reaches the world, and the events by which the world
 * answers. The mpi and copy rooms implement it (wired by front/context), the simulator implements it, fault injection
 * wraps it.
 *
 * All calls are the reactor's. None blocks, none calls back: what happened comes as an event of a later core_step.
 * Peers are named by their rank in the directory. Tags are the core's, never used twice; an event whose tag the core no
 * longer knows is ignored.
 */
#ifndef BATON_CORE_PORT_H
#define BATON_CORE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

/**
 * A leg to be advanced. `cursor` moves by what was taken; the transfer must live until the leg is quiet, or (of a path
 * whose operations need it no longer once they are issued: rma) until it was parked.
 */
struct port_leg {
    uint32_t peer;
    bool write; /* from my cache to the peer's; else from the peer's to mine */
    uint64_t tag;
    const struct plan_transfer *transfer;
    struct plan_cursor *cursor;
    uint64_t pool_offset, pool_bytes; /* where the peer's region 0 lies in its segment, as its card says */
};

enum port_park {
    PORT_PARK_QUIET = 0, /* nothing of that tag is under way */
    PORT_PARK_LATER = 1, /* exactly one PORT_QUIET of that tag will come */
    PORT_PARK_NEVER = 2  /* it cannot be known */
};

enum port_alive { PORT_ALIVE, PORT_DEAD, PORT_UNKNOWN };

struct port {
    void *self;

    /** Sends a message, copied. 0, BATON_EAGAIN (later: credits), BATON_EPEER. In order between two ranks. */
    int (*send)(void *self, uint32_t peer, const void *message, uint32_t bytes);

    /** Reads [offset, offset + bytes) of a peer's segment: a card, block tables. Then PORT_READ. 0, EAGAIN, EPEER. */
    int (*read)(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);

    /**
     * Reads the peer's generation word at `offset` of its segment, over the path of its data, into a word preset to 0.
     * Called only when every PORT_MOVED of the leg has come. Then PORT_BOARD, before which everything read of that
     * peer is made visible. 0, EAGAIN, EPEER.
     */
    int (*board)(void *self, uint32_t peer, uint64_t offset, uint64_t tag);

    /**
     * Advances a leg by at most `budget` bytes. Returns the bytes taken (> 0), BATON_EAGAIN (no room now), or another
     * error (nothing taken). For bytes taken, PORT_MOVED events come, whose bytes add up to them.
     */
    int64_t (*move)(void *self, const struct port_leg *leg, uint64_t budget);

    /**
     * Remote completion of what a leg wrote: once every PORT_MOVED of it has come. Then PORT_SETTLED: whoever the peer
     * hears of it by a message sent after that finds the bytes in place. 0, EAGAIN, EPEER, or ENOSYS where this path
     * cannot know.
     */
    int (*settle)(void *self, uint32_t peer, uint64_t tag);

    /**
     * Gives up on whatever is under way with that tag: no event of it comes any more but the PORT_QUIET promised. Asked
     * whenever something is given up: also what failed, or was refused half-way, may have begun operations.
     */
    enum port_park (*park)(void *self, uint32_t peer, uint64_t tag);

    /** Stores my own slot's generation: release store, full fence, window sync. */
    void (*raise)(void *self, uint32_t slot, uint64_t generation);

    enum port_alive (*alive)(void *self, uint32_t peer);

    /**
     * Asked of a rank that is dead for certain: whether nothing that it sent, or that I asked of it, can land in my
     * memory any more. By shared memory that is so at once; by a network when the transport itself has reported that
     * the connection ended. Where it cannot be known, the answer stays false.
     */
    bool (*ended)(void *self, uint32_t peer);

    /**
     * Hashes parts [first, first + count) of a transfer as they lie in my cache, which is its source or its destination:
     * XXH3_64bits of each part's bytes in the order of the plan (plan_part). Then PORT_WORKED; transfer and out must
     * live until then, or until the port ends. 0 or EAGAIN.
     */
    int (*sum)(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
               uint64_t *out, uint64_t tag);

    /** Stores zeros into all that a transfer names in my cache, its destination. Then PORT_WORKED; else as sum. */
    int (*zero)(void *self, const struct plan_transfer *transfer, uint64_t tag);
};

enum port_event_kind { PORT_MESSAGE = 1, PORT_READ, PORT_BOARD, PORT_MOVED, PORT_SETTLED, PORT_QUIET, PORT_WORKED };

struct port_event {
    enum port_event_kind kind;
    int error;           /* READ, BOARD, MOVED, SETTLED: 0 or BATON_E... */
    uint32_t peer;       /* MESSAGE */
    uint64_t tag;        /* all but MESSAGE */
    const uint8_t *data; /* MESSAGE, READ: valid until core_step returns */
    uint32_t bytes;      /* MESSAGE, READ: of data */
    uint64_t moved;      /* MOVED: bytes, also of those that failed */
    uint64_t runs;       /* MOVED: runs moved by MPI; 0 for copies */
    uint64_t generation; /* BOARD */
};

#endif
