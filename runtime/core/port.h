/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port: the one table of functions by which the protocol core reaches the world, and the events by which the world
 * answers. front/paths.c implements it over the paths (core/path.h), the simulator implements it in virtual time, fault
 * injection wraps it.
 *
 * Thread, completion and errors are as in core/path.h: all calls are for whoever makes turns, none blocks or calls
 * back, and what happened comes as an event of a later core_step. Peers are named by their rank in the directory. An
 * event whose tag the core no longer knows is ignored.
 */
#ifndef BATON_CORE_PORT_H
#define BATON_CORE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/handoff.h"
#include "core/path.h"

enum port_alive { PORT_ALIVE, PORT_DEAD, PORT_UNKNOWN };

struct port {
    struct path path; /* to every rank */
    void *self;

    /** Sends a message, copied. 0, BATON_EAGAIN (later: credits), BATON_EPEER. In order between two ranks. */
    int (*send)(void *self, uint32_t peer, const void *message, uint32_t bytes);

    /**
     * Stores my own slot's generation: release store, full fence. `far`: it ends a lease that a rank was told of which
     * reads it over a far path. Events of this step are handed out only once such a rank finds the generation, and what
     * it wrote here is seen. Else a far rank finds it before it hears any message that is sent after this.
     */
    void (*raise)(void *self, uint32_t slot, uint64_t generation, bool far);

    enum port_alive (*alive)(void *self, uint32_t peer);

    /** NULL: offers and wants meet by messages alone. */
    const struct port_handoff *handoff;

    /**
     * Hashes parts [first, first + count) of a transfer as they lie in my cache, which is its source or its
     * destination: XXH3_64bits of each part's bytes in the order of the plan (plan_part). Then PORT_WORKED, with an
     * error where they could not be read; transfer and out must live until then, or until the port ends. 0 or EAGAIN.
     */
    int (*sum)(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
               uint64_t *out, uint64_t tag);

    /** Stores zeros into all that a transfer names in my cache, its destination. Then PORT_WORKED; else as sum. */
    int (*zero)(void *self, const struct plan_transfer *transfer, uint64_t tag);
};

/**
 * JOINED and LEFT: a member came, or went, and the directory says so already: whoever steps the core changes that
 * first. Nothing comes from a member behind its LEFT.
 */
enum port_event_kind {
    PORT_MESSAGE = 1,
    PORT_READ,
    PORT_BOARD,
    PORT_MOVED,
    PORT_SETTLED,
    PORT_QUIET,
    PORT_WORKED,
    PORT_JOINED,
    PORT_LEFT
};

struct port_event {
    enum port_event_kind kind;
    int error;           /* READ, BOARD, MOVED, SETTLED, WORKED: 0 or BATON_E...; LEFT: 0: it said so; BATON_EPEER: its
                            process has ended */
    bool is_quiet;       /* LEFT: nothing that it sent, or that was asked of it, can land here any more. Else
                            path.ended says when that is so */
    uint32_t peer;       /* MESSAGE, JOINED, LEFT */
    uint64_t tag;        /* READ to WORKED */
    const uint8_t *data; /* MESSAGE, READ: valid until core_step returns */
    uint32_t bytes;      /* MESSAGE, READ: of data */
    uint64_t moved;      /* MOVED: bytes, also of those that failed */
    uint64_t runs;       /* MOVED: runs moved by MPI; 0 for copies */
    uint64_t generation; /* BOARD; MOVED: as read behind the last bytes of a leg, or 0: not read */
    uint64_t at_ns;      /* of an answer: when it was there, by the clock that steps are told; 0: at once */
    baton_path_t path;   /* MOVED: by which; NONE: by the one to the peer, as the core knows it */
};

#endif
