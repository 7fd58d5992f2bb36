/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places: neighbours claim places in one area, use them once its owner has opened them, and go; runtime/shm/places.h tells
 * how. A member claims, looks whether its place is open, uses it, and ends: in order, or dead between any two steps. A
 * member may be taken for gone while it lives, before it uses a place; then it never is opened again. What it wrote stays
 * in the place until the owner clears it. Nobody uses a place that another one uses, or finds what another one wrote there;
 * and when all have ended, every place is free.
 *
 *   EXCHANGE         a place is claimed by an exchange without a compare
 *   ANY_OPEN         a claimer does not compare who the place is open for
 *   BACK_EARLY       an open place is given back as soon as its member says that it goes, though it is not quiet
 *   NOT_CLEARED      a place is given back with what its member wrote
 *   OPEN_ONLY        only open places are given back: who dies before keeps its claim
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef PLACES
#define PLACES 2
#endif
#define NONE PLACES

/* In the area: a member's number, which is its own + 1. */
byte claimed[PLACES], open[PLACES];
byte word[PLACES]; /* what whoever used it has written there; 0: nothing */

/* What the owner hears. */
bool has_gone[MEMBERS], is_quiet[MEMBERS];

/* Only the assertions read these. */
byte users[PLACES], ended = 0;

inline may_die()
{
    if
    :: goto dead
    :: true
    fi
}

proctype member(byte me)
{
    byte place = 0, was;
    may_die();
    do
    :: place < PLACES ->
#ifdef EXCHANGE
        was = claimed[place];
        if
        :: was == 0 -> claimed[place] = me + 1; break
        :: was != 0 -> place++
        fi
#else
        atomic {
            if
            :: claimed[place] == 0 -> claimed[place] = me + 1; break
            :: claimed[place] != 0 -> place++
            fi
        }
#endif
    :: place == NONE -> goto quiet /* by other ways */
    od;
    may_die();
    if
    :: has_gone[me] = true /* its daemon has lost it, or thinks so */
    :: true
    fi;
    do
#ifdef ANY_OPEN
    :: open[place] != 0 -> break
#else
    :: open[place] == me + 1 -> break
#endif
    :: goto quiet /* it does without */
    od;
    atomic { assert(users[place] == 0); users[place]++ };
    assert(word[place] == 0);
    word[place] = me + 1;
    has_gone[me] = true;
    if
    :: true -> word[place] = me + 1 /* the last that it says */
    :: true /* dead before */
    fi;
    users[place]--;
dead:
quiet:
    atomic { is_quiet[me] = true; has_gone[me] = true; ended++ }
}

inline give_back(p, m)
{
#ifndef NOT_CLEARED
    word[p] = 0;
#endif
    open[p] = 0;
    atomic {
        if
        :: claimed[p] == m + 1 -> claimed[p] = 0
        :: else
        fi
    }
}

/* A member that it has taken for gone is never opened a place. One that is open is given back when its member is quiet. */
active proctype owner()
{
    byte p, m;
end:
    do
    :: true ->
        p = 0;
        do
        :: p < PLACES ->
            m = claimed[p];
            if
            :: m == 0
            :: m != 0 && open[p] != m && !has_gone[m - 1] -> open[p] = m
#ifndef OPEN_ONLY
            :: m != 0 && open[p] != m && has_gone[m - 1] -> m--; give_back(p, m)
#endif
#ifdef BACK_EARLY
            :: m != 0 && open[p] == m && has_gone[m - 1] -> m--; give_back(p, m)
#else
            :: m != 0 && open[p] == m && has_gone[m - 1] && is_quiet[m - 1] -> m--; give_back(p, m)
#endif
            :: else
            fi;
            p++
        :: p == PLACES -> break
        od;
        m = 0;
        if
        :: ended < MEMBERS
        :: ended == MEMBERS -> break
        fi
    od;
    /* All have ended: one round more finds them all. */
    p = 0;
    do
    :: p < PLACES ->
        m = claimed[p];
        if
        :: m == 0
#ifdef OPEN_ONLY
        :: m != 0 && open[p] != m
#else
        :: m != 0 && open[p] != m -> m--; give_back(p, m)
#endif
        :: m != 0 && open[p] == m -> m--; give_back(p, m)
        fi;
        p++
    :: p == PLACES -> break
    od;
    p = 0;
    do
    :: p < PLACES -> assert(claimed[p] == 0 && open[p] == 0 && word[p] == 0); p++
    :: p == PLACES -> break
    od
}

init
{
    byte i;
    atomic {
        for (i : 0 .. MEMBERS - 1) {
            run member(i)
        }
    }
}
