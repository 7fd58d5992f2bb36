/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged: the path between two ranks of which one cannot reach the other's memory: it is a device's, which only its
 * driver may touch, or the kernel or MPI permits no way to it. The source gathers bytes into a slot of its segment, the
 * destination reads the slot over the path that segments are read by, and scatters it. Each side touches its own cache
 * alone: by its driver, or by loads and stores.
 *
 * FENCE. A slot has a generation, which is raised before the slot is used again. The destination reads it again after
 * the bytes. So a source may take back a slot that a silent destination keeps. The generation of the lease is read by
 * the core after that, over the same path, once all bytes of a leg are in place.
 *
 * QUIET. What is under way into my cache is what my driver copies. What I wrote is under way until its destination says
 * that it landed, or has died.
 *
 * Whoever makes turns (front/turns.h) uses all of it. Where there is a driver, that is one thread until the context
 * is closed, and then the one that closes it.
 */
#ifndef BATON_STAGED_STAGED_H
#define BATON_STAGED_STAGED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/port.h"
#include "observe/log.h"

#define STAGED_SLOT_BYTES (UINT64_C(256) << 10)
#define STAGED_TAGS (UINT64_C(1) << 63) /* tags with this bit are those of operations of this path */

struct staged;

/** What the path uses: the segments, and messages. */
struct staged_ground {
    void *arg;
    /** The path by which that rank's segment is read. */
    const struct path *(*segment)(void *arg, uint32_t peer);
    /** BATON_EAGAIN: there is no room. A turn comes by itself once there may be some. */
    int (*send)(void *arg, uint32_t peer, const void *message, uint32_t bytes);
    /** Makes what was stored into my segment visible to all readers. */
    void (*sync)(void *arg);
};

struct staged_wish {
    uint32_t num_ranks;
    struct staged_ground ground;
    uint8_t *area; /* of my segment */
    uint64_t area_offset, area_bytes;
    const struct path_regions *mine; /* as addresses; must outlive the path. num 0: I have no cache */
    bool is_writable;
    const baton_driver_t *driver; /* of my regions that are a device's; NULL: none is */
    /** How long a slot stays with a destination that says nothing, and a push waits for a source that is not read. */
    uint64_t lent_ms;
    const struct logger *log;
};

/** 0 or BATON_ENOMEM. */
int staged_create(const struct staged_wish *wish, struct staged **out);

/** The table of core/path.h. Its `close` waits for the driver. */
void staged_path(struct staged *s, struct path *out);

/**
 * What `park` does, but for the path that it stands on: gives up the exchanges of a tag. True: PORT_QUIET of it will
 * come.
 */
bool staged_give_up(struct staged *s, uint64_t tag);

/** Whether an event is this path's: a note, or the answer of an operation of its own. It then has been dealt with. */
bool staged_takes(struct staged *s, const struct port_event *e);

/** As port.sum and port.zero, for a cache that only the driver may touch. */
int staged_sum(struct staged *s, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
               uint64_t *out, uint64_t tag);
int staged_zero(struct staged *s, const struct plan_transfer *transfer, uint64_t tag);

#endif
