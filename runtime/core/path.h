/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path: a way to the memory of other ranks. A path is a folder that fills one table of functions: runtime/shm for ranks
 * whose segments are mapped here, runtime/staged for memory that one side cannot reach, runtime/mpi for all others. The
 * port of the protocol core has such a table too, which reaches every rank: front fills it by routing each call to the
 * path of that rank, the simulator fills it by itself.
 *
 * THREAD. All calls are for whoever makes turns (front/turns.h). None waits for a peer, and none calls back.
 * COMPLETION. Whatever was begun ends by an event with the tag of the call, which a later `progress` hands out, or
 * `answer` at once. Of a tag that was parked PORT_QUIET alone comes. Tags are the core's, and never used twice.
 * ERRORS. A call returns 0 or an error. After an error no event comes, but an operation may have begun all the same:
 * park the tag. BATON_EAGAIN: no room now, try again later. BATON_EPEER: that peer can be reached no more.
 * BATON_EMESSAGE: the place lies outside of the rank's segment. What fails later has its error in its event.
 */
#ifndef BATON_CORE_PATH_H
#define BATON_CORE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "baton.h"

struct plan_cursor;
struct plan_transfer;
struct port_event;

/** One region of a cache. */
struct path_region {
    uint64_t at, bytes;
    bool is_device; /* only a driver may touch it */
};

/**
 * Where the regions of a rank's cache lie, as its card says. `at` counts from the start of the rank's segment or, where
 * the engine owns the memory (is_wrapped), is an address in its process.
 */
struct path_regions {
    bool is_wrapped;
    uint32_t num;
    const struct path_region *region;
};

/** Whether `bytes` from `offset` on lie within that region. */
static inline bool path_holds(const struct path_regions *regions, uint32_t region, uint64_t offset, uint64_t bytes)
{
    return region < regions->num && bytes <= regions->region[region].bytes &&
           offset <= regions->region[region].bytes - bytes;
}

/**
 * A leg to be advanced. `cursor` moves by what was taken. The transfer must live until the leg is quiet. Over a far
 * path, whose operations need it no longer once they are issued, it must live until the leg was parked.
 */
struct path_leg {
    uint32_t peer;
    bool write; /* from my cache to the peer's; else from the peer's to mine */
    uint64_t tag;
    const struct plan_transfer *transfer;
    struct plan_cursor *cursor;
    const struct path_regions *theirs; /* the peer's; the plan's runs lie within them */
    /**
     * 0; or, where all of a read's bytes may move now, the place of the peer's generation word in its segment. A path
     * that takes the last of these bytes may read the word by itself, once every byte of the leg is in place, and tell
     * it with the last of them. The core then does not ask by `board`.
     */
    uint64_t board;
};

enum path_park {
    PATH_PARK_QUIET = 0, /* nothing of that tag is under way */
    PATH_PARK_LATER = 1, /* PORT_QUIET of that tag will come: ask again then */
    PATH_PARK_NEVER = 2, /* it cannot be known */
    PATH_PARK_SOON = 3   /* as LATER, whatever becomes of the peer: copy workers of mine use the transfer until then */
};

struct path {
    void *self;

    /* ---- what the core calls ---- */

    /**
     * Reads [offset, offset + bytes) of a peer's segment: a card, block tables. Not while bytes of that tag are under
     * way. Then PORT_READ.
     */
    int (*read)(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);

    /**
     * Reads the peer's generation word at `offset` of its segment, a multiple of 8, over the path of its data, into a
     * word preset to 0. Called only when every PORT_MOVED of the leg has come. Then PORT_BOARD, before which everything
     * read of that peer is made visible. Not called where the last PORT_MOVED told the generation.
     */
    int (*board)(void *self, uint32_t peer, uint64_t offset, uint64_t tag);

    /**
     * Advances a leg by at most `budget` bytes. Returns the bytes taken (> 0), or an error (nothing taken). For bytes
     * taken, PORT_MOVED events come, whose bytes add up to them. One of them may tell the leg's generation: as
     * PORT_BOARD, behind all other bytes of the leg. A path whose copy workers or whose peer walk the plan
     * themselves gains nothing from a list of its runs; the net gets one instead (core/net.h).
     */
    int64_t (*move)(void *self, const struct path_leg *leg, uint64_t budget);

    /**
     * Remote completion of what a leg wrote. Called only when every PORT_MOVED of the leg has come. Then PORT_SETTLED:
     * a peer that hears of it by a message sent after that finds the bytes in place. ENOSYS where this path cannot
     * know.
     */
    int (*settle)(void *self, uint32_t peer, uint64_t tag);

    /**
     * Right after one of the calls above has begun something: its event, if it is there already. `progress` does not
     * hand it out then. What it points to stays until the next call. False: it comes by `progress`. NULL: each does.
     */
    bool (*answer)(void *self, uint32_t peer, uint64_t tag, struct port_event *event);

    /**
     * Gives up whatever is under way with that tag: no event of it comes any more but the PORT_QUIET promised. Called
     * whenever something is given up, also if it failed or was refused half-way: it may have begun operations.
     */
    enum path_park (*park)(void *self, uint32_t peer, uint64_t tag);

    /**
     * Asked of a rank that is dead for certain: whether nothing that it sent, or that was asked of it, can land in my
     * memory any more. By shared memory that is so at once; by a network, when the transport itself has reported that
     * the connection ended. Where it cannot be known, the answer stays false.
     */
    bool (*ended)(void *self, uint32_t peer);

    /* ---- what front calls. A simulator makes its own events and needs none of these. ---- */

    /** Fills up to `max` events; what they point to stays until the next call. Returns their number. */
    int (*progress)(void *self, struct port_event *events, int max);

    /**
     * `look` marks all that has come by now. `has_looked`: `progress` has handed out all of that since. A path that is
     * given more without end reaches its mark all the same. NULL both: each `progress` hands out all that there is.
     */
    void (*look)(void *self);
    bool (*has_looked)(const void *self);

    /** Something is under way that only `progress` finds out about: nobody rings the bell for it. */
    bool (*busy)(const void *self);

    /**
     * Ends the path's threads and frees it. 0; or BATON_EPEER (baton_errmsg says why): nothing was freed, since memory
     * is still in use that somebody else writes to or reads. NULL: whoever made it does that.
     */
    int (*close)(void *self);

    baton_path_t kind; /* what the engine is told */
    const char *name;
};

/**
 * Whether this kind goes over a network, or through the process at the other end. Bytes of far paths have a budget of
 * their own, and they move only while the process at the other end polls; bytes of near paths are moved by this
 * process' copy workers alone.
 */
static inline bool path_is_far(baton_path_t kind)
{
    return kind == BATON_PATH_RMA || kind == BATON_PATH_STAGED;
}

#endif
