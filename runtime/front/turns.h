/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns: who makes the reactor's turns while the reactor sleeps.
 *
 * LENT TURNS. To wake a thread takes 20 to 50 us. So while the reactor sleeps, others make its turns: a thread of the
 * engine that makes a call, or that polls after the bell has rung, and a copy worker that has no more jobs. A short
 * transfer within a node then wakes nobody. A long one wakes the worker that copies it, and that worker finds the offer
 * as well, so the call returns sooner. Turns are lent wherever a rank of this node is reached without MPI, and nothing
 * is staged (paths_can_lend).
 *
 * BESIDE MPI. A lent turn calls nothing of MPI. What it has for ranks of other nodes it leaves to the next turn that is
 * not lent, for which the reactor is woken (front/beside.h). It hears nothing of them, so nothing that is due is judged
 * by it. Where it ends a lease that they were told of, its events wait for that turn too.
 *
 * HELP. A thread that does nothing but poll waits for the bytes that copy workers move. So after 10 us it does slices
 * of long copies (shm/copy.h), one a poll, and makes the turn that reports the last one as a worker would.
 *
 * BOUNDS. A call does a bounded amount of work: the shm path copies at most inline_bytes in a turn, by cross-memory
 * attach too; the calls between two polls begin turns for 50 us, or make four turns, as many as a transfer by workers
 * takes; and a call of many blocks is left to the reactor, since it takes long to read and check their tables.
 *
 * DOORBELL. Between nodes the thread that hears the rings of other ranks (mpi/doorbell.h) makes turns for what they
 * announce, which saves waking the reactor. It is a thread of Baton's own, so its turns may call MPI. It makes none
 * where a turn would call the driver of a device, which may keep state by thread: there it wakes the reactor.
 *
 * RINGS. To wake another process takes as long as a short transfer, and may take the CPU that the engine's thread
 * needs. So rings that no consumer waits for are put off in lent turns, and by a reactor that has just woken its
 * engine. A thread that polls again and again attends to the bell, so that ranks of this node which send something wake
 * nobody. The reactor wakes every TURNS_OWED_NS meanwhile, for what came after the last poll.
 *
 * THE LOCK. Whoever makes turns holds `lock`. So does whoever reads the fields that are written under it and not
 * atomic. Only the reactor waits for it: a call that finds it taken leaves its work to the holder. A thread of the
 * engine holds it for turns alone, and only if the scheduler ranks it at least as high as a normal thread, or as the
 * thread that called baton_start if that has a lower rank: a holder that gets no CPU holds up all others. Where that
 * happens all the same, since a debugger stops the holder for instance, calls that are due are given up in time
 * (front/stall.h). A poll makes a turn in place of a reactor that should have made one and gets no CPU.
 */
#ifndef BATON_FRONT_TURNS_H
#define BATON_FRONT_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/count.h"
#include "base/owned.h"

struct baton;

/* The threads that make turns beside the reactor. */
enum turns_by { TURNS_CALL, TURNS_POLL, TURNS_WORKER, TURNS_DOORBELL, TURNS_BY };

struct turns {
    bool can_lend;            /* turns can be lent, in this world; set before the context is started */
    int least_rank;           /* least task_rank (base/task.h) of an engine's thread that makes turns; likewise */
    _Atomic uint64_t lent_ns; /* how long calls made turns since events were last polled */
    _Atomic uint32_t seen;    /* rings of the bell that the last turn has seen */
    _Atomic bool has_long;    /* a call is queued that only the reactor takes */
    _Atomic uint32_t ringing; /* threads that may ring the bell just now, without the lock */
    struct owned lock;
    /* written under the lock, read by any thread */
    _Atomic bool is_open;      /* others may make turns: the reactor has begun its loop, and nothing closes */
    _Atomic bool is_lent;      /* the turn under way is not the reactor's */
    _Atomic uint64_t ended_ns; /* when the last turn that has ended began */
    _Atomic uint64_t owed_ns;  /* since when rings are put off; 0: none are */
    _Atomic uint64_t woken_ns; /* when the reactor, which sleeps or yields, wakes of itself; 0: it does neither */
    count_t count[TURNS_BY];
    uint64_t last_ns; /* when the last turn that was not the reactor's ended */
    /* any thread */
    _Atomic uint64_t attended_ns; /* when a thread that does nothing but poll last looked at the bell */
    _Atomic uint64_t hurried_ns;  /* `woken_ns` of a sleep that was cut short, for that thread's sake */
};

/** The longest time by which a ring is put off. The reactor's sleeps are no longer while calls and polls are made. */
#define TURNS_OWED_NS UINT64_C(2000000)

/** For how long a reactor that has woken its engine puts rings off. Then it wakes for them. */
#define TURNS_AWAKE_NS UINT64_C(200000)

void turns_init(struct turns *t);

/**
 * A call of `blocks` blocks, of which at most `bytes` bytes are copied here, was queued at `now_ns`; its deadline is
 * `left_ns` away. Wakes a copy worker to make turns, or makes them here if they are lent, or else wakes the reactor.
 * Any thread.
 */
void turns_call(struct baton *b, uint64_t now_ns, uint64_t blocks, uint64_t bytes, uint64_t left_ns);

/** Whether the turn under way is not the reactor's, nor of the thread that hears rings. Any thread. */
static inline bool turns_are_lent(const struct turns *t)
{
    return atomic_load_explicit(&t->is_lent, memory_order_relaxed);
}

/** Wakes the reactor if it sleeps. Any thread. */
void turns_wake(struct baton *b);

/**
 * Events were polled, and there were any or none: calls may make turns again. If there were none and something has
 * happened that no turn has seen yet, or the reactor is late, makes one here, or does a slice of a copy, and returns
 * true: poll again. Where another thread makes the turns, a thread that does nothing but poll yields its CPU here
 * instead. Any thread.
 */
bool turns_polled(struct baton *b, bool any);

/** A copy_done_fn of a struct baton: makes turns here if jobs run out and turns are lent, else wakes the reactor. */
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
