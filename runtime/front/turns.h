/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns: who makes the reactor's turns while the reactor sleeps.
 *
 * A thread that sleeps takes 20 to 50 us to wake. So it lends its turns: a thread of the engine that makes a call, or
 * polls after the bell has rung, takes the next ones itself, and so does a copy worker whose jobs run out. A short
 * transfer within a node wakes nobody, a long one the worker that copies it, and that finds the offer as well: the call
 * is back sooner. Such a turn calls nothing of MPI, so turns are lent only where nothing of MPI is needed
 * (paths_can_lend). What a call does itself is bounded: the shm path copies at most BATON_INLINE_BYTES in a turn, turns
 * begin within 50 us between two polls, or are four, which a transfer takes; and a call of many blocks is left to the
 * reactor, since reading and checking their tables takes long.
 *
 * Between nodes the thread that hears the rings of other ranks (mpi/doorbell.h) makes the turns that they are for, one
 * wake-up sooner than the reactor. It is a thread of Baton's own: its turns are as the reactor's, and call MPI. Where
 * they would call a driver of a device, it only wakes the reactor: a driver may keep state by thread.
 *
 * Rings that no consumer waits for are put off in lent turns, and by a reactor that has woken its engine: to wake
 * another process takes as long as a short transfer, and may take the core that the engine's thread needs.
 *
 * A thread that polls again and again attends to the bell: ranks of this node that send something then wake nobody. The
 * reactor wakes every TURNS_OWED_NS meanwhile, for what came after the last poll.
 *
 * Whoever makes turns holds `lock`, and so do those who read what follows it. Nobody waits for it but the reactor: a
 * call that finds it taken leaves all to whoever has it.
 */
#ifndef BATON_FRONT_TURNS_H
#define BATON_FRONT_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct baton;

/* Who makes turns beside the reactor. */
enum turns_by { TURNS_CALL, TURNS_POLL, TURNS_WORKER, TURNS_DOORBELL, TURNS_BY };

struct turns {
    bool can_lend;            /* turns can be lent, in this world; set before the context is started */
    _Atomic uint64_t lent_ns; /* how long calls made turns since events were last polled */
    uint64_t owed_ns;         /* since when rings are put off; 0: none are. Under the lock */
    _Atomic uint32_t seen;    /* rings of the bell that the last turn has seen */
    _Atomic bool has_long;    /* a call is queued that only the reactor takes */
    _Atomic uint32_t ringing; /* threads that may ring the bell just now, without the lock */
    pthread_mutex_t lock;
    bool is_open;         /* others may make turns: the reactor has begun its loop, and nothing closes */
    bool is_lent;         /* the turn under way is not the reactor's */
    uint64_t last_ns;     /* when the last one that was not the reactor's ended */
    uint64_t woken_ns;    /* when the reactor wakes of itself; 0: it does not sleep */
    uint64_t attended_ns; /* when a thread that polls so last looked at the bell */
    uint64_t hurried_ns;  /* `woken_ns` of a sleep that was cut short, for that thread's sake */
    uint64_t count[TURNS_BY];
};

/** The longest time by which a ring is put off. The reactor's sleeps are no longer while calls and polls are made. */
#define TURNS_OWED_NS UINT64_C(2000000)

/** For how long a reactor that has woken its engine puts rings off. Then it wakes for them. */
#define TURNS_AWAKE_NS UINT64_C(200000)

void turns_init(struct turns *t);
void turns_fini(struct turns *t);

/**
 * A call of so many blocks was queued, for which at most so many bytes are copied here within so many nanoseconds:
 * makes turns here if they are lent, or wakes a copy worker to make them, or else the reactor. Any thread.
 */
void turns_call(struct baton *b, uint64_t blocks, uint64_t bytes, uint64_t left_ns);

/**
 * Events were polled, and there were any or none: calls may make turns again. If there were none and something has
 * happened that no turn has seen yet, makes one here, and returns true: poll again. Where another thread makes the
 * turns, a thread that does nothing but poll yields its core here instead. Any thread.
 */
bool turns_polled(struct baton *b, bool any);

/** A copy_look_fn of a struct baton: makes turns here if jobs run out and turns are lent, else wakes the reactor. */
void turns_worker(void *arg, bool runs_out);

/**
 * A doorbell_rung_fn of a struct baton: makes turns here while anything happens, for 10 ms at most, and leaves what
 * comes later to the reactor, which it wakes.
 */
void turns_rung(void *arg);

/** After `abandon` was set: waits until no thread rings the bell any more. False: one still may. */
bool turns_rest(struct baton *b, uint64_t until_ns);

/* ---- the reactor's, under the lock ------------------------------------------------------------------------------- */

/** Before a turn: what rang until now is seen by it. Returns the rings so far, for a sleep after it. */
uint32_t turns_look(struct baton *b);

/** At the end of a turn, after its events: rings other ranks of this node, or puts off the rings that can wait. */
void turns_ring(struct baton *b, uint64_t now_ns);
/** When the reactor is to make the rings that it has put off, by the clock; UINT64_MAX: there are none. */
uint64_t turns_due_ns(const struct baton *b);
/** Rings all that are owed a ring. */
void turns_ring_all(struct baton *b);

#endif
