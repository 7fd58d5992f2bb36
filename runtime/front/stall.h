/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: answers calls in time while no turns are made. There are three reasons for that:
 *
 *   no CPU      The thread that makes a turn, or has to make the next one, does not run: the scheduler, a debugger or a
 *               cgroup keeps it off the CPU. Wants are given up STALL_LATE_NS after their deadlines; if
 *               the thread is Baton's own, only once it was seen not to run. Offers are not given up: a
 *               message that no turn has read yet may have extended their time.
 *   inside MPI  The reactor is in a call of MPI, which cannot be interrupted. Wants are given up quiet_ms after their
 *               deadlines, which is how long the core too waits for a want to become quiet.
 *   stalled     One turn has lasted longer than stall_ms: an operation on a dead rank may never return. All calls are
 *               given up, and new ones are refused until the turn ends.
 *
 * A watchdog thread checks this four times in the shorter one of quiet_ms and stall_ms, and soon after the deadline of
 * a want. It makes no MPI call, and waits for no lock that a thread of the engine holds. The reactor checks too while
 * it waits for another thread's turn.
 *
 * Under BATON_PROGRESS_CALLER the caller decides when turns are made. Only a turn that stalls has calls given up.
 */
#ifndef BATON_FRONT_STALL_H
#define BATON_FRONT_STALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "base/latch.h"

/** So long after its deadline a want is given up for which no turn has been made. */
#define STALL_LATE_NS UINT64_C(10000000)

struct baton;

struct stall {
    /* the thread that opened the context */
    pthread_t thread;
    bool is_watching;   /* `thread` runs */
    struct latch ended; /* it has ended */
    /* the watchdog */
    uint64_t seen_turn_ns, seen_ns, seen_ran_ns; /* Baton's own turn at the last look; when that was; what its thread
                                                    had run until then */
    uint64_t paused_ns;                          /* when it last looked at turns that last, or was late */
    uint64_t excused_since_ns, excused_ns;       /* since when turns were due, and for how long of that time the process
                                                    may have stood still */
    bool was_late;                               /* for the last look */
    /* any thread */
    struct bell bell;          /* of the watchdog: it ends, or is to look sooner */
    atomic_bool must_end;      /* it ends */
    _Atomic uint64_t looks_ns; /* when it looks next */
    atomic_bool is_off_cpu;    /* the thread that makes that turn gets no CPU */
    _Atomic uint64_t turn_ns;  /* when the last turn began that lasted too long; 0: none has */
    _Atomic uint64_t over_ns;  /* when the last turn began of which the reactor knows that, and goes on */
    _Atomic bool has_given_up; /* calls, and the reactor has not taken notice yet */
};

void stall_init(struct stall *s);

/** Makes and ends the watchdog. */
int stall_watch_start(struct baton *b);
/** False: its thread does not end, as one that waits for a disk; it uses the context still. */
bool stall_watch_stop(struct baton *b);

/** A call was queued that is due then: the watchdog looks in time. Any thread. */
void stall_expect(struct baton *b, uint64_t due_ns);

/** The reactor, which waits for another thread's turn, gives up what is late meanwhile. */
void stall_help(struct baton *b, uint64_t now_ns);

/** The turn under way has lasted longer than stall_ms. Any thread. */
bool stall_is_on(const struct baton *b);

/** Whether calls were given up since the last time that this was asked. The reactor ends them then. */
bool stall_take_given_up(struct stall *s);
/** The reactor goes on in its turn. True: it was stalled. */
bool stall_end(struct baton *b);

#endif
