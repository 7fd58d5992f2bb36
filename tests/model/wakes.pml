/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wakes: events on their way to pollers that sleep on a descriptor (runtime/front/events.c). A put pushes, counts and
 * writes; a poll takes up to MOST events, and if none is left, reads what is counted and looks whether an event came
 * before that. Nobody sleeps beside an event, and whoever is woken finds a count, so that a poll makes the descriptor
 * quiet. A poller may stop, as one that loses its CPU for as long as the others run, but in one place: between reading and
 * looking.
 *
 *   CLEAR_FIRST   a poll reads the descriptor before it takes events
 *   NO_LOOK       a poll that has read does not look whether an event came before that
 *   COUNT_LAST    a put writes, and counts then
 *   FLAG          a flag stands for the count, and a poll takes it before it reads
 */
#define PUTTERS 2
#define POLLERS 2
#define PUTS 2
#define MOST 2
#define SPARE 1 /* polls by a poller that is awake */

byte ring, descriptor, counted; /* events; writes that were not read; these, and those that will be made */
byte spare = SPARE, stops = POLLERS - 1;

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
    was = 0;
    if
    :: counted == 0
    :: counted > 0 ->
#ifdef FLAG
        counted = 0;
#endif
        atomic { was = descriptor; descriptor = 0 };
#ifndef FLAG
        counted = counted - was
#endif
    fi
}

inline may_stop()
{
    if
    :: atomic { stops > 0 -> stops-- }; goto end_stopped
    :: true
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
#ifdef CLEAR_FIRST
    clear();
#endif
    may_stop();
    taken = 0;
    do
    :: atomic { taken < MOST && ring > 0 -> ring--; taken++ }
    :: taken == MOST || ring == 0 -> break
    od;
#ifdef CLEAR_FIRST
    if
    :: ring > 0 -> add()
    :: ring == 0
    fi;
#else
    may_stop();
    if
    :: ring == 0 ->
        clear();
#ifndef NO_LOOK
        if
        :: was > 0 && ring > 0 -> add()
        :: else
        fi
#endif
    :: ring > 0
    fi;
#endif
    goto end;
end_stopped:
    false
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
