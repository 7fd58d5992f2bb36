/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline: what one rank's transfers did when, in a file of trace events that ui.perfetto.dev and chrome://tracing
 * read (BATON_TRACE).
 *
 *   record    what happened                                               whom it names
 *   WANT      a want was queued: baton_want was called                    the call, its key
 *   OFFER     the same of an offer                                        the call, its key
 *   SENT      a message leaves: with HEARD it makes an arrow              the peer, the want
 *   HEARD     a message was taken in                                      the peer, the want
 *   MATCHED   a want has met its offer: told by the producer, or by       the call, the peer, the want
 *             the consumer where that takes the lease by words
 *   LEASED    a leg has its lease: its bytes may move                     the leg, the peer, the want
 *   FIRST     its first byte is about to move                             the leg
 *   LAST      its last byte is known to have landed; where the path      the leg
 *             reads the generation by itself, FENCED comes with it
 *   FENCED    its bytes count: the generation was read again, or what     the leg
 *             was written is settled
 *   STOPPED   it was given up before that                                 the leg
 *   COPY      a copy worker has copied, or who makes the turn             the leg
 *   BATCH     a batch of one-sided operations of MPI was complete         the leg, the peer
 *   REPORTED  the event of a call goes out, to be polled                  the call
 *   LIFE      this start of the engine has a number: its id
 *
 * A call is named by its id and a leg by the tag of its mover, both of this rank alone. The moments of calls and legs
 * are the turns in which the reactor saw them. Messages, copies and batches have times of their own.
 *
 * Records go into a circular buffer of fixed size. A thread of the lowest priority writes them to the file every few
 * milliseconds (timeline_text.h). What finds no room there, or the file at its limit, is left out, and the file says
 * how much. A process that is killed leaves a file that can be loaded, and lacks its last milliseconds.
 *
 * THREAD. Whoever makes turns adds records, one thread at a time. Adding neither waits nor allocates nor calls the
 * system. Without a timeline each of the functions below costs one branch.
 */
#ifndef BATON_OBSERVE_TIMELINE_H
#define BATON_OBSERVE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/log.h"

#define TIMELINE_KEY 40 /* bytes of a key that are kept, NUL included */
#define TIMELINE_RECORDS 65536u
#define TIMELINE_BYTES ((uint64_t)256 << 20) /* the longest file: what viewers load in a browser with ease */

enum timeline_kind {
    TIMELINE_WANT = 1,
    TIMELINE_OFFER,
    TIMELINE_SENT,
    TIMELINE_HEARD,
    TIMELINE_MATCHED,
    TIMELINE_LEASED,
    TIMELINE_FIRST,
    TIMELINE_LAST,
    TIMELINE_FENCED,
    TIMELINE_STOPPED,
    TIMELINE_COPY,
    TIMELINE_BATCH,
    TIMELINE_REPORTED,
    TIMELINE_LIFE
};

/* Bits of timeline_record.what. */
#define TIMELINE_WRITES 1u   /* LEASED to STOPPED: it is a push */
#define TIMELINE_MOVES 2u    /* STOPPED: FIRST was told, and LAST was not */
#define TIMELINE_BY_WORDS 1u /* MATCHED */

struct timeline_record {
    uint64_t ns; /* when, or when it began */
    uint64_t id; /* of the call; of the leg; of the arrow */
    uint32_t peer;
    uint8_t kind;  /* an enum timeline_kind */
    uint8_t what;  /* COPY: the worker, from 1; 0: who makes the turn. Else bits */
    int16_t error; /* REPORTED: 0 or BATON_E... */
    union {
        char key[TIMELINE_KEY]; /* WANT, OFFER: its beginning */
        struct {
            const char *name;  /* SENT, HEARD, COPY: what. REPORTED: the event */
            uint64_t want;     /* SENT to LEASED: the consumer's id of it */
            uint64_t bytes;    /* LAST, COPY, BATCH, REPORTED */
            uint64_t runs;     /* BATCH */
            uint64_t until_ns; /* COPY, BATCH: when it ended */
        };
    };
};

struct timeline;

struct timeline_wish {
    const char *path; /* "%r" in it becomes the rank; where it has none, "." and the rank are added */
    uint32_t rank, workers;
    uint32_t index; /* in the engine */
    const char *engine, *host;
    const char *cpus;         /* the hardware threads of its thread (base/thread.h) */
    uint64_t bytes;           /* that the file may have */
    uint32_t records;         /* that the circular buffer holds, a power of two */
    const struct logger *log; /* copied */
};

/**
 * Makes the file, in place of one that is there, and the thread. BATON_ESYSTEM with an error sentence: the file cannot
 * be made, or another context writes it. BATON_ENOMEM.
 */
int timeline_create(const struct timeline_wish *wish, struct timeline **out);
/**
 * Writes what is left, and ends the file. A file that takes nothing for ten seconds is left as it is. NULL is ignored.
 */
void timeline_destroy(struct timeline *t);

/** In a forked child: closes its copy of the file, which the parent goes on to write. NULL is ignored. */
void timeline_forget(struct timeline *t);

/** Adds a record, or counts it as left out. */
void timeline_add(struct timeline *t, const struct timeline_record *record);
/** LIFE, now. */
void timeline_add_life(struct timeline *t, uint64_t life);
/** WANT, OFFER. */
void timeline_add_call(struct timeline *t, enum timeline_kind kind, uint64_t ns, uint64_t id, const char *key);
/** SENT, HEARD, now. `number`: the message's, among those from one of the two ranks to the other. */
void timeline_add_message(struct timeline *t, enum timeline_kind kind, uint32_t peer, uint32_t number, uint64_t want,
                          const char *name);

/** MATCHED, LEASED. `id`: of the call, or of the leg. */
static inline void timeline_meet(struct timeline *t, enum timeline_kind kind, uint64_t ns, uint64_t id, uint32_t peer,
                                 uint64_t want, unsigned what)
{
    if (t != NULL)
        timeline_add(t,
                     &(struct timeline_record){
                         .kind = (uint8_t)kind, .ns = ns, .id = id, .peer = peer, .what = (uint8_t)what, .want = want});
}

/** FIRST to STOPPED. */
static inline void timeline_leg(struct timeline *t, enum timeline_kind kind, uint64_t ns, uint64_t leg, uint64_t bytes,
                                unsigned what)
{
    if (t != NULL)
        timeline_add(t, &(struct timeline_record){
                            .kind = (uint8_t)kind, .ns = ns, .id = leg, .what = (uint8_t)what, .bytes = bytes});
}

#endif
