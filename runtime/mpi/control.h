/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control: small two-sided messages between the ranks, on a communicator of their own. What goes out is the outbox's
 * (outbox.h: credits, failures, lost ranks), what comes in is the inbox's (inbox.h: order). Here the envelopes come
 * off, and the channel is opened and closed.
 *
 * Opening and closing are collective, and run on the thread that opens and closes. All else is the reactor's and never
 * blocks.
 */
#ifndef BATON_MPI_CONTROL_H
#define BATON_MPI_CONTROL_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/count.h"
#include "base/look.h"
#include "core/port.h"
#include "mpi/inbox.h"
#include "mpi/outbox.h"
#include "mpi/windows.h"
#include "mpi/world.h"

struct control {
    struct world *world;
    MPI_Comm comm;
    bool is_open;
    bool has_failed; /* the channel carries no messages any more */
    struct outbox outbox;
    struct inbox inbox;
    struct looking look; /* at the inbox */
    count_t bad;         /* messages that were refused */
    uint32_t expected;   /* at close: the MPI messages that this rank has to receive in all */
};

/** Duplicates the communicator and posts the receives. Collective, agreed. *c zeroed before. */
int control_open(struct control *c, struct world *w, const struct windows *v);

/** The local part of opening: posts the receives on `comm`, which belongs to the channel from now on. */
int control_begin(struct control *c, struct world *w, const struct windows *v, MPI_Comm comm);

/** See core/net.h. */
int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes);

/** Posts again the receives whose messages were handed out. */
void control_release(struct control *c);

/** Advances sends, hands out up to `max` messages. Their number; none once the channel has failed, which is logged. */
int control_progress(struct control *c, struct port_event *events, int max);

/** See path.h. */
void control_look(struct control *c);

static inline bool control_has_looked(const struct control *c)
{
    return c->has_failed || look_has_ended(&c->look);
}

/** Whether something waits to be sent. */
static inline bool control_busy(const struct control *c)
{
    return !c->has_failed && outbox_is_busy(&c->outbox);
}

/**
 * Before closing: completes the sends and receives all that was sent to this rank, so that no message stays in MPI for
 * a later communicator to find. Collective; the caller agrees on the result.
 */
int control_drain(struct control *c);

/** Frees what control_begin made, but for the receives and the communicator. */
void control_end(struct control *c);

/** Cancels the receives and frees everything. Collective; after an agreed control_drain. */
void control_close(struct control *c);

#endif
