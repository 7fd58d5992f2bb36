/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doorbell: wakes a rank of another node, whose bell cannot be rung by a store: by a datagram (UDP over IPv4). MPI has
 * no means for that: without it a sleeping rank is noticed when it wakes of itself.
 *
 * A datagram carries nothing but who rings, and the number that the rung rank has told all ranks at start. It says
 * "look now", so one that is lost, doubled or forged costs time or a look, never a transfer. What it announces, a
 * message of MPI, may come later than it; whoever is rung looks again after ever longer pauses (front/reactor.c).
 *
 *   each rank   doorbell_open; then all cards are exchanged; doorbell_know; doorbell_try, whether rings come through
 *   reactor     doorbell_ring, before it waits for another rank, and doorbell_flush; doorbell_heard
 *
 * A thread waits for datagrams, and calls rung_fn. No call of MPI is made here.
 */
#ifndef BATON_MPI_DOORBELL_H
#define BATON_MPI_DOORBELL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"

#define DOORBELL_ADDRESSES 4
#define DOORBELL_OWED 16 /* ranks whose ring may be put off */

/** What a rank tells all others. Numbers as this machine has them, addresses as the network has them. */
struct doorbell_card {
    uint64_t key; /* a ring must have it */
    uint32_t address[DOORBELL_ADDRESSES];
    uint8_t prefix[DOORBELL_ADDRESSES]; /* bits of each address that name its network */
    uint16_t port;                      /* 0: it cannot be rung */
    uint16_t num;
};

struct doorbell_peer {
    uint64_t key, rung_ns, asked_ns;
    uint32_t address;
    uint16_t port;
    uint8_t asks;
    _Atomic bool has_answered; /* datagrams go there and back */
};

/** Called by the thread that listens, after rings. Further ones wait until it returns. */
typedef void doorbell_rung_fn(void *arg);

struct doorbell {
    int socket, stop; /* -1: none */
    bool is_open;
    _Atomic bool listens, is_stuck; /* the thread: it was begun; it could not be ended */
    pthread_t thread;
    struct latch ended; /* the thread is at its end */
    /* What the caller sets before doorbell_open. */
    doorbell_rung_fn *rung_fn;
    void *arg;               /* its first */
    uint64_t slice_us, nice; /* of the thread (base/thread.h) */
    const char *cpus;        /* the same; NULL: those of who opens */
    uint32_t rank, size;
    struct doorbell_card card;  /* mine */
    struct doorbell_peer *peer; /* by rank, after doorbell_know */
    _Atomic uint32_t heard;     /* rings */
    _Atomic uint32_t known;     /* ranks in `peer`, once it is whole */
    _Atomic int64_t silent;     /* a rank that has not answered rings; -1: none */
    _Atomic int deaf;           /* the errno for which the thread has ended by itself; 0: it has not */
    _Atomic uint64_t strange;   /* datagrams that were none of these */
    uint64_t unsent;            /* rings that the system refused */
    uint32_t rung;              /* rings of others, for doorbell_flush too */
    uint32_t owed[DOORBELL_OWED], num_owed;
};

/**
 * Opens this rank's, d zeroed before but for what the caller sets. With `listens`, rung_fn is called from now on.
 * 0, or BATON_ESYSTEM with the reason in *why: d then rings nobody, and is closed all the same.
 */
int doorbell_open(struct doorbell *d, uint32_t rank, bool listens, const char **why);

/** Everybody's cards, in the order of ranks: chooses by which address each is reached. 0 or BATON_ENOMEM. */
int doorbell_know(struct doorbell *d, const struct doorbell_card *cards, uint32_t size);

/** Whether a rank that listens answers within `most_ns`: asks again every 20 ms. Blocks. */
bool doorbell_try(struct doorbell *d, uint32_t rank, uint64_t most_ns);

/**
 * Rings a rank at the next doorbell_flush, unless it was rung within the last 100 us: then it still looks often. A call
 * on a closed doorbell, or of a rank that cannot be rung, does nothing.
 */
void doorbell_ring(struct doorbell *d, uint32_t rank, uint64_t now_ns);
/**
 * At the end of a turn, after what the engine waits for: sending takes as long as all else of it. Never blocks. Rings
 * ask for an answer until the peer has given one. Where it gives none to some of them, `silent` is its rank from then
 * on: what does not come through there may not come through here.
 */
void doorbell_flush(struct doorbell *d);

/** How often this rank was rung so far. Any thread. */
uint32_t doorbell_heard(const struct doorbell *d);

/**
 * Ends the thread, after which rung_fn is not called any more. The reactor may ring meanwhile. False: rung_fn does not
 * return within 2 s; the thread then stays, and doorbell_close frees nothing.
 */
bool doorbell_silence(struct doorbell *d);

/** Ends the thread and frees everything. Twice does no harm. */
void doorbell_close(struct doorbell *d);
/** In a forked child, instead of that: closes its copies of the descriptors, and touches nothing else. */
void doorbell_forget(struct doorbell *d);

#endif
