/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wakes: events on their way to pollers that sleep on a descriptor (runtime/front/events.c). A put pushes, counts and
 * writes; a poll reads what is counted, then takes up to MOST events; if it took all, it reads once more what was written
 * meanwhile. Nobody sleeps beside an event, and whoever is woken finds a count, so that a poll makes the descriptor quiet.
 *
 *   CLEAR_LAST     a poll reads the descriptor after it has taken events
 *   NO_REARM       a poll that had enough does not write
 *   NO_LOOK        a poll that has read once more does not look whether an event came before that
 *   COUNT_LAST     a put writes, and counts then
 *   FLAG           a flag stands for the count, and a poll takes it before it reads
 */
#define PUTTERS 2
#define POLLERS 2
#define PUTS 2
#define MOST 2
#define SPARE 1 /* polls by a poller that is awake */

byte ring, descriptor, counted; /* events; writes that were not read; these, and those that will be made */
byte spare = SPARE;

inline add()
{
#ifdef COUNT_LAST
    descriptor++;
    counted++
#else
    counted++;
    descriptor++
#endif
}

inline clear()
{
    if
    :: counted == 0
    :: counted > 0 ->
#ifdef FLAG
        counted = 0;
#endif
        atomic { was = descriptor; descriptor = 0 };
#ifndef FLAG
        counted = counted - was;
#endif
        was = 0
    fi
}

proctype putter()
{
    byte n;
    for (n : 1 .. PUTS) {
        ring++;
        if
        :: ring > 0 -> add()
        :: ring == 0
        fi
    }
}

proctype poller()
{
    byte was, taken;
end:
    do
    :: atomic { descriptor > 0 -> assert(counted > 0) }; goto polls
    :: atomic { spare > 0 -> spare-- }; goto polls
    od;
polls:
#ifndef CLEAR_LAST
    clear();
#endif
    taken = 0;
    do
    :: atomic { taken < MOST && ring > 0 -> ring--; taken++ }
    :: taken == MOST || ring == 0 -> break
    od;
#ifdef CLEAR_LAST
    clear();
#else
    if
    :: taken > 0 && taken < MOST ->
        clear();
#ifndef NO_LOOK
        if
        :: ring > 0 -> add()
        :: ring == 0
        fi
#endif
    :: else
    fi;
#endif
#ifndef NO_REARM
    if
    :: taken == MOST && ring > 0 -> add()
    :: else
    fi;
#endif
    goto end
}

/* When nobody can go on, all is taken. */
active proctype rest()
{
    timeout -> assert(ring == 0 && descriptor == 0 && counted == 0)
}

init
{
    byte i;
    atomic {
        for (i : 1 .. PUTTERS) {
            run putter()
        }
        for (i : 1 .. POLLERS) {
            run poller()
        }
    }
}
