/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * again: one key used twice. RANKS producer ranks make two offers under it, one after the other, and one consumer rank
 * makes two wants of all those ranks. Offers and wants come in either order. Any of them may be cancelled until some
 * moment, after which nobody cancels. LOSSES messages vanish, and REPEATS messages are sent again without need. A
 * sender repeats a message until it is answered.
 *
 *   producer   an offer's end becomes a tombstone: runtime/core/offer.c
 *   want       WANT until GRANT or NACK, then END until ACK: runtime/core/leg.c, link.c
 *
 * With ATTEMPTS, the second offer and the second want carry attempt 1, the first ones 0: only equal attempts meet, and
 * a tombstone answers wants of its own and of older attempts. Without, all four carry 0: a want of a used key waits for
 * the next offer, unless the ended one had a seat for its engine (NAMED) that no want of it ever came for.
 *
 * There are no deadlines. So when nothing can happen any more, whatever is open waits for ever. watch() says what may:
 * a want without its offer, and an offer without its want, but nothing else.
 *
 *   TOMBSTONE_FOR_ALL    a tombstone answers newer attempts too
 *   USED_KEY_GONE        without attempts, each want of a used key is answered
 *   ANY_ATTEMPT          a want takes whichever offer of its key lives
 *   END_ONCE             an end is sent once
 *   END_TO_THE_FIRST     an end is sent to one rank only
 *   REFUSED_UNKNOWN      an offer that refuses a want does not remember it, so that the want's end means nothing to it
 *   REPETITION_STAYS     a want's end leaves a repetition of the want waiting
 *   OLDER_WAIT_ON        wants that wait are not told of a newer tombstone
 */
#ifndef RANKS
#define RANKS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef REPEATS
#define REPEATS 1
#endif
#ifdef ATTEMPTS
#define ATTEMPT(x) (x)
#else
#define ATTEMPT(x) 0
#endif
#ifdef NAMED
#define NAMES true
#else
#define NAMES false
#endif
#define NONE 9

mtype = { WANT, END, GRANT, NACK, ACK };
mtype = { TO_COME, OPEN, ENDED };
chan to_rank[RANKS] = [12] of { mtype, byte, byte } /* what, want, generation: o + 1 for offer number o */
chan to_want[2] = [12] of { mtype, byte, byte }     /* what, rank, generation */

typedef rank {
    mtype offer[2];
    byte reader[2];   /* the want that the offer knows of; NONE */
    byte met[2];      /* the want that really came to it, for the assertions */
    bool refuses[2];
    bool waits[2];    /* a want without its offer */
    bool released[2]; /* a want that ended before its offer came */
};
rank ranks[RANKS];
mtype want[2];
typedef terms {
    byte generation[RANKS]; /* as granted; 0: not yet */
    bool answered[RANKS];   /* its end was answered */
};
terms side[2];
byte losses = LOSSES, refusals = 1;
bool calm = false; /* from now on nobody cancels */
byte again[2]; /* how often a message may be repeated: each loss makes one more necessary */

#define R ranks[r]

inline say(channel, w, what, x, y)
{
    if
    :: losses > 0 -> losses--; again[w]++
    :: assert(nfull(channel)); channel!what, x, y
    fi
}

/* Sets o to the offer of this rank that a want would take, or NONE. */
inline find_live(w)
{
    o = NONE;
    if
    :: R.offer[0] == OPEN && ATTEMPT(0) == ATTEMPT(w) -> o = 0
    :: R.offer[1] == OPEN && ATTEMPT(1) == ATTEMPT(w) -> o = 1
#ifdef ANY_ATTEMPT
    :: R.offer[0] == OPEN -> o = 0
#endif
    :: else
    fi
}

/* The rule: the offer that a want could have had is over, and no other will come. */
#define LAST (R.offer[1] == TO_COME -> 0 : 1)
#ifdef ATTEMPTS
#define OVER(w) (R.offer[w] == ENDED || R.offer[1] == ENDED)
#else
#define OVER(w) (NAMES && R.offer[LAST] == ENDED && R.met[LAST] == NONE)
#endif

/* The wants that the tombstone answers. */
#ifdef TOMBSTONE_FOR_ALL
#define ANSWERS(w) (R.offer[0] == ENDED || R.offer[1] == ENDED)
#else
#ifdef USED_KEY_GONE
#define ANSWERS(w) (R.offer[LAST] == ENDED)
#else
#define ANSWERS(w) OVER(w)
#endif
#endif

inline tell_gone(w)
{
    assert(OVER(w));
    R.waits[w] = false;
    say(to_want[w], w, NACK, r, 0)
}

inline end_offer(x)
{
    R.offer[x] = ENDED;
    R.reader[x] = NONE;
#ifndef OLDER_WAIT_ON
    if
    :: R.waits[0] && ANSWERS(0) -> tell_gone(0)
    :: else
    fi;
    if
    :: R.waits[1] && ANSWERS(1) -> tell_gone(1)
    :: else
    fi
#endif
}

inline match(w)
{
    assert(ATTEMPT(o) == ATTEMPT(w));
    R.met[o] = w;
    R.reader[o] = w;
    if
    :: refusals > 0 && !R.refuses[o] -> refusals--; R.refuses[o] = true
    :: true
    fi;
    if
    :: R.refuses[o] ->
#ifdef REFUSED_UNKNOWN
        R.reader[o] = NONE;
#endif
        say(to_want[w], w, NACK, r, 0)
    :: else -> say(to_want[w], w, GRANT, r, o + 1)
    fi
}

inline make_offer(x)
{
    R.offer[x] = OPEN;
    o = x;
    if
    :: R.released[0] && ATTEMPT(0) == ATTEMPT(x) -> R.released[0] = false; R.met[x] = 0; end_offer(x)
    :: R.released[1] && ATTEMPT(1) == ATTEMPT(x) -> R.released[1] = false; R.met[x] = 1; end_offer(x)
    :: R.waits[0] && ATTEMPT(0) == ATTEMPT(x) -> R.waits[0] = false; match(0)
    :: R.waits[1] && ATTEMPT(1) == ATTEMPT(x) -> R.waits[1] = false; match(1)
    :: else
    fi
}

proctype producer(byte r)
{
    byte o, w, generation;
end:
    do
    :: atomic { R.offer[0] == TO_COME && R.offer[1] == TO_COME -> make_offer(0) }
#ifdef ATTEMPTS
    :: atomic { R.offer[1] == TO_COME -> make_offer(1) } /* the first one may never be made */
#else
    :: atomic { R.offer[0] == ENDED && R.offer[1] == TO_COME -> make_offer(1) }
#endif
    :: atomic { !calm && R.offer[0] == OPEN -> end_offer(0) } /* its time to live, or a cancel */
    :: atomic { !calm && R.offer[1] == OPEN -> end_offer(1) }
    :: atomic {
        to_rank[r]?WANT, w, generation ->
        find_live(w);
        if
        :: o != NONE -> match(w)
        :: o == NONE && ANSWERS(w) -> tell_gone(w)
        :: else ->
#ifndef ATTEMPTS
            R.waits[1 - w] = false; /* a rank's newer word stands in the place of its former one */
            R.released[1 - w] = false;
#endif
            R.waits[w] = true
        fi
        }
    :: atomic {
        to_rank[r]?END, w, generation ->
        find_live(w);
        if
        :: o != NONE && R.reader[o] == w && generation != 0 && generation != o + 1 ->
            R.reader[o] = NONE; /* the want had the bytes of the former offer, and a repetition of it found this one */
            R.met[o] = NONE
        :: o != NONE && R.reader[o] == w && (generation == 0 || generation == o + 1) -> end_offer(o)
        :: o == NONE && R.waits[w] ->
#ifdef REPETITION_STAYS
            R.waits[w] = generation != 0;
#else
            R.waits[w] = false;
#endif
            R.released[w] = generation == 0
        :: else
        fi;
        say(to_want[w], w, ACK, r, 0)
        }
    od
}

inline tell_end()
{
    r = 0;
    do
#ifdef END_TO_THE_FIRST
    :: r == 1 -> break
#endif
    :: r < RANKS && !side[me].answered[r] -> say(to_rank[r], me, END, me, side[me].generation[r]); r++
    :: r < RANKS && side[me].answered[r] -> r++
    :: r == RANKS -> break
    od
}

inline ask()
{
    r = 0;
    do
    :: r < RANKS && side[me].generation[r] == 0 -> say(to_rank[r], me, WANT, me, 0); r++
    :: r < RANKS && side[me].generation[r] != 0 -> r++
    :: r == RANKS -> break
    od
}

inline end_want()
{
    want[me] = ENDED;
    tell_end()
}

proctype consumer(byte me)
{
    byte r, generation, granted = 0;
end_before:
    atomic {
#ifdef ATTEMPTS
        me == 0 || want[0] != TO_COME;
#else
        me == 0 || want[0] == ENDED;
#endif
        want[me] = OPEN;
        again[me] = again[me] + REPEATS;
        ask()
    };
end:
    do
    :: atomic {
        want[me] == OPEN && nempty(to_want[me]) ->
        if
        :: to_want[me]?GRANT, r, generation ->
            granted = granted + (side[me].generation[r] == 0 -> 1 : 0);
            side[me].generation[r] = generation
        :: to_want[me]?NACK, r, generation -> end_want()
        fi
        }
    :: atomic { want[me] == OPEN && granted == RANKS -> end_want() } /* done, or the generation was raised */
    :: atomic { !calm && want[me] == OPEN -> end_want() }            /* cancelled, or its deadline */
    :: atomic {
        want[me] == ENDED && nempty(to_want[me]) ->
        if
        :: to_want[me]?ACK, r, generation -> side[me].answered[r] = true
        :: to_want[me]?GRANT, r, generation
        :: to_want[me]?NACK, r, generation
        fi
        }
    :: atomic { want[me] == OPEN && again[me] > 0 && granted < RANKS -> again[me]--; ask() }
#ifndef END_ONCE
    :: atomic { want[me] == ENDED && again[me] > 0 -> again[me]--; tell_end() }
#endif
    od
}

#define IS(r_, o_, w_) (ranks[r_].offer[o_] == OPEN && ATTEMPT(o_) == ATTEMPT(w_))

/* Nothing can happen any more: what waits, and may it? */
inline judge(w)
{
    if
    :: want[w] == OPEN && side[w].generation[r] == 0 ->
        assert(!IS(r, 0, w) && !IS(r, 1, w)); /* its offer is there, but the want does not know */
        assert(!OVER(w))                      /* its offer is over, but the want does not know */
    :: want[w] == ENDED ->
        assert(!(R.offer[0] == OPEN && R.met[0] == w)); /* the want is over, but its offer does not know */
        assert(!(R.offer[1] == OPEN && R.met[1] == w))
    :: else
    fi
}

proctype watch()
{
    byte r = 0;
    calm = true;
end:
    atomic {
        timeout ->
        do
        :: r < RANKS -> judge(0); judge(1); r++
        :: r == RANKS -> break
        od
    }
}

init
{
    byte r = 0;
    atomic {
        want[0] = TO_COME;
        want[1] = TO_COME;
        do
        :: r < RANKS ->
            R.offer[0] = TO_COME;
            R.offer[1] = TO_COME;
            R.reader[0] = NONE;
            R.reader[1] = NONE;
            R.met[0] = NONE;
            R.met[1] = NONE;
            run producer(r);
            r++
        :: r == RANKS -> break
        od;
        run consumer(0);
        run consumer(1);
        run watch()
    }
}
