/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inbox: a circle of receives for the control messages of all ranks. The receives are posted for any source, and MPI
 * matches a sender's messages to them in the order in which they were posted. Only the head of the circle is tested, so
 * messages come out in the order in which each sender sent them.
 *
 * FAILURES. A receive that cannot be posted is posted later. One that fails is a damaged message. Where such
 * failures go on for BATON_PEER_MS, the inbox fails. Where MPI only interrupts the receives, since a process was lost
 * (ULFM), they go on.
 *
 * The thread that makes a turn, after start. Never blocks, except in inbox_cancel.
 */
#ifndef BATON_MPI_INBOX_H
#define BATON_MPI_INBOX_H

#include <mpi.h>
#include <stdint.h>

#include "mpi/world.h"

#define INBOX_BYTES 2056u /* the longest message, with its envelope */
#define INBOX_RECEIVES 64 /* posted at any time */
enum { INBOX_TAG = 1 };   /* on which the messages travel */

/** Something that came. */
struct inbox_message {
    const uint8_t *data; /* the envelope and what is behind it; valid until the next inbox_release */
    int bytes;           /* < 0: it is damaged */
    uint32_t rank;       /* that brought it; its envelope says who speaks. UINT32_MAX: unknown (damaged, and logged) */
};

struct inbox {
    const struct world *world;
    MPI_Comm comm;
    /*
     * The circle. Receives head - handed .. head - 1, modulo INBOX_RECEIVES, were handed out or skipped: inbox_release
     * posts them again.
     */
    uint8_t (*received)[INBOX_BYTES];
    MPI_Request receive[INBOX_RECEIVES];
    uint32_t head, handed;
    uint32_t arrived;    /* messages, envelopes alone included */
    uint64_t failing_ns; /* since when none could be posted or came whole; 0: they work */
};

/** Posts all receives. Local. *in zeroed before. On an error inbox_cancel and inbox_fini undo what was done. */
int inbox_init(struct inbox *in, const struct world *w, MPI_Comm comm);
/** Frees the memory. */
void inbox_fini(struct inbox *in);
/** Cancels the receives that are posted. It waits in MPI: the caller has a watchdog. */
void inbox_cancel(struct inbox *in);

/** Posts again the receives whose messages were handed out. 0, or BATON_EMPI: the inbox has failed. */
int inbox_release(struct inbox *in);
/** The next message: 1. 0: none is there. BATON_EMPI: the inbox has failed. */
int inbox_take(struct inbox *in, struct inbox_message *out);

#endif
