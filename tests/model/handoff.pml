/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff: within a node, an offer is found, taken, read and ended through words in shared memory;
 * runtime/shm/HANDOFF.md tells how. One producer makes OFFERS offers of one key, one after the other, in the same slot,
 * with the same room for the table and the same blocks: an engine's thread begins them, the reactor ends them. Who
 * wants the key:
 *
 *   (by default)    two ranks of one engine, which needs both
 *   ENGINES=2       two engines of one rank, one seat for the two
 *   THREADS=2       one engine of one rank, twice: its second want begins in another thread when the first was answered
 *   REMOTE          two ranks of one engine, of which the second is on another node, and goes by messages
 *
 * Each access to shared memory is a step of its own, so the processes interleave between any two of them. Spin's memory
 * is sequentially consistent. Where a store must be visible before a later load is made, the program needs a fence;
 * some of the breakages swap the two, which shows that the order matters. CRASHES processes may die, between any two
 * steps. An offer may end at any moment, by its time, a cancel, or because its call was declined; so may a want.
 *
 *   WORD_AFTER_REREAD    a reader publishes its word after it has read the board again
 *   NO_REREAD            a reader does not read the board again after its last byte
 *   DONE_BEFORE_REREAD   a reader says DONE before it has read the board again
 *   UNCHECKED_TABLE      a reader does not look whose table it has read
 *   BOARD_AFTER_RECORD   a reader reads the board first after the record
 *   PLAIN_STORES         a reader's word is stored, and not exchanged for the value that was read
 *   RING_BEFORE_WORD     a reader rings before it publishes its end
 *   BARE_SEATS           the word of a seat does not name its lease
 *   BARE_WORDS           nor does the word of a reader
 *   LOOK_THEN_WAIT       a consumer says that it waits after its last look
 *   SCAN_THEN_INDEX      an offer rings who waits before it can be found
 *   RECORD_AFTER_RAISE   an offer's record is written after the board is raised
 *   NO_CHECK_AT_POP      the reactor looks who has ended only when it is rung
 *   NO_RAISE             who ends an offer does not raise the board
 *   REASON_AFTER_RAISE   or stores the reason later
 *   DECLINE_UNRAISED     a call that is declined ends without all that
 *   WORDS_ALONE          the reactor looks for the words of ranks of other nodes, too
 *   WAIT_FOR_READERS     who ends an offer waits for those whose words say that they read
 */
#ifndef ENGINES
#define ENGINES 1
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef OFFERS
#define OFFERS 2
#endif
#ifdef REMOTE
#define IS_REMOTE(w) (w == 1)
#else
#define IS_REMOTE(w) false
#endif
#define NOBODY 9
#define JUNK 8
#define POISON 7

mtype = { NOTHING, READING, DONE, FAILED } /* what a reader's word says, and how a want was answered */

/* In the producer's segment. Offer number o has the generation 2 * o - 1, and 2 * o stands there once it has ended. */
byte board = 0;
byte record_of = 0, record[2];         /* a generation; what there is to know of the offer, more than one word */
byte table = JUNK;                     /* in the arena, which is used again as soon as the lease has ended */
bool indexed = false;                  /* the key's place in the index names the slot */
byte seat_of = 0, seat = NOBODY;       /* one word: a lease, and the engine that has the seat */
byte word_of[2], word_by[2];           /* of each reader, one word: a lease, */
mtype word[2];                         /* a want of this rank, and what it does */
byte reason_of = 0;                    /* the lease whose reason is stored */
byte block[2];                         /* whose bytes they are */
bool waits[2], producer_bell = false;

byte queued = 0;                       /* the ring from the engine's thread to the reactor */
bool bell[2], asked[2], refused[2];    /* of a want: rung; its message is there; its answer */
mtype said[2];                         /* what the reactor knows of a rank by messages, of the offer that it knows */
bool known_waits[2];                   /* likewise: that the rank waits */
byte granted;                          /* the generation in a grant to another node */
bool dead[2], producer_dead = false;
byte crashes = CRASHES;
bool calm = false;                     /* from now on nothing expires, is cancelled or declined, */
bool late = false;                     /* until nothing else can happen */

/* Only the assertions read these. */
byte live = 0;                         /* the generation of an offer whose end was not told */
bool ending = false;
byte over = 0;                         /* offers whose end was told */
byte holds[2];                         /* of a rank: the lease that it has found unchanged after its word */
bool missed[2];                        /* of a want: it sleeps, since its last look did not find the key */
mtype ended[2];                        /* of a want: how it ended */
byte got[2];                           /* DONE: of which offer */

#define RANK(w) (THREADS == 2 -> 0 : w)
#define ENGINE(r) (ENGINES == 2 -> r : 0)
#define NEEDED(r) (ENGINES == 2 -> seat == r : (THREADS == 2 -> r == 0 : true))
#ifdef BARE_SEATS
#define SEAT_IS(g, e) (seat == e)
#else
#define SEAT_IS(g, e) (seat_of == g && seat == e)
#endif
#ifdef BARE_WORDS
#define WORD_SAYS(r, g, x) (word[r] == x)
#else
#define WORD_SAYS(r, g, x) (word_of[r] == g && word[r] == x)
#endif
#ifdef WORDS_ALONE
#define SAYS(r, g, x) WORD_SAYS(r, g, x)
#else
#define SAYS(r, g, x) (WORD_SAYS(r, g, x) || said[r] == x)
#endif
#define IS_KNOWN(r, g) (WORD_SAYS(r, g, READING) || said[r] == READING) /* whose death is looked for */
#define IS_OVER(r, g) (!NEEDED(r) || SAYS(r, g, DONE) || SAYS(r, g, FAILED) || (dead[r] && IS_KNOWN(r, g)))
#define ALL_OVER(g) (!SEAT_IS(g, NOBODY) && IS_OVER(0, g) && IS_OVER(1, g))
#define ALL_DONE(g) (!SEAT_IS(g, NOBODY) && (!NEEDED(0) || SAYS(0, g, DONE)) && (!NEEDED(1) || SAYS(1, g, DONE)))
#define CAN_BE_HAD(w) (indexed && (SEAT_IS(board, ENGINE(RANK(w))) || SEAT_IS(board, NOBODY)) && word_of[RANK(w)] != board)

inline ring_who_waits()
{
    bell[0] = bell[0] || waits[0];
    bell[1] = bell[1] || waits[1]
}

proctype offerer()
{
    byte o = 0, g;
    {
        do
        :: o == OFFERS -> break
        :: else ->
            atomic { live == 0 -> o++; g = 2 * o - 1; block[0] = o; block[1] = o }; /* prefill */
            table = o;
            atomic { seat_of = g; seat = NOBODY };
#ifndef RECORD_AFTER_RAISE
            record_of = g;
            record[0] = o;
            record[1] = o;
#endif
            atomic { board = g; live = g };
#ifdef RECORD_AFTER_RAISE
            record_of = g;
            record[0] = o;
            record[1] = o;
#endif
#ifdef SCAN_THEN_INDEX
            ring_who_waits();
            indexed = true;
#else
            indexed = true;
            ring_who_waits();
#endif
            atomic {
                assert(!missed[0] || bell[0] || dead[0] || producer_dead); /* its thread rings those that missed it */
                assert(!missed[1] || bell[1] || dead[1] || producer_dead);
                queued = g
            };
            live == 0
        od
    } unless { producer_dead }
}

inline end_offer()
{
    ending = true;
#ifndef REASON_AFTER_RAISE
    reason_of = g;
#endif
#ifndef NO_RAISE
    board = g + 1;
#endif
#ifdef REASON_AFTER_RAISE
    reason_of = g;
#endif
    indexed = false;
#ifdef WAIT_FOR_READERS
    !WORD_SAYS(0, g, READING) && !WORD_SAYS(1, g, READING);
#endif
    tell_end()
}

inline tell_end()
{
    atomic {
        /* All who have taken the lease are seen. */
        assert(holds[0] != g || dead[0] || word_of[0] == g);
        assert(holds[1] != g || dead[1] || word_of[1] == g);
        /* The offer is told as done only if all who are needed have its bytes. */
        assert(!ALL_DONE(g) || THREADS == 2 || !NEEDED(0) || got[0] == (g + 1) / 2);
        assert(!ALL_DONE(g) || THREADS == 2 || !NEEDED(1) || got[1] == (g + 1) / 2);
        assert(!ALL_DONE(g) || THREADS == 1 || got[0] == (g + 1) / 2 || got[1] == (g + 1) / 2);
        block[0] = JUNK; /* the blocks are the engine's again, */
        table = JUNK;    /* and the arena another offer's */
        said[0] = NOTHING;
        said[1] = NOTHING;
        g = 0
    };
    block[1] = JUNK;
    atomic { ending = false; over++; live = 0 }
}

inline check()
{
    if
    :: ALL_OVER(g) -> end_offer()
    :: else
    fi
}

inline answer(w)
{
    asked[w] = false;
    if
    :: over == OFFERS -> refused[w] = true
    :: over < OFFERS && g == 0 -> known_waits[w] = true
    :: over < OFFERS && g != 0 && !IS_REMOTE(w) -> bell[w] = true /* a grant: the rank takes the lease by its word */
    :: over < OFFERS && g != 0 && IS_REMOTE(w) ->
        if
        :: SEAT_IS(g, NOBODY) -> seat = ENGINE(w); said[w] = READING; granted = g; bell[w] = true
        :: SEAT_IS(g, ENGINE(w)) -> said[w] = READING; granted = g; bell[w] = true
        :: else -> refused[w] = true
        fi
    fi
}

proctype reactor()
{
    byte g = 0; /* the offer that it knows */
    {
end:
        do
        :: atomic { queued != 0 -> g = queued; queued = 0 }; /* rung or not: the reactor never sleeps for long */
            atomic { /* who waits by message is answered */
                asked[0] = asked[0] || known_waits[0];
                asked[1] = asked[1] || known_waits[1];
                known_waits[0] = false;
                known_waits[1] = false
            };
            if
            :: !calm ->
#ifdef DECLINE_UNRAISED
                indexed = false;
                tell_end()
#else
                end_offer()
#endif
            :: true ->
#ifndef NO_CHECK_AT_POP
                check()
#endif
            fi
        :: atomic { producer_bell -> producer_bell = false };
            if
            :: g != 0 -> check()
            :: g == 0
            fi
        :: g != 0 && (!calm || late) -> end_offer()
        :: atomic { asked[0] -> answer(0) }
        :: atomic { asked[1] -> answer(1) }
        od
    } unless { producer_dead }
}

/* The want ends: its word, if that is still about it, then the bell. */
inline publish(x)
{
#ifdef RING_BEFORE_WORD
    producer_bell = true;
#endif
#ifdef PLAIN_STORES
    atomic { word_of[r] = g; word_by[r] = w; word[r] = x };
#else
    atomic {
        if
        :: word_of[r] == g && word_by[r] == w -> word[r] = x
        :: else /* another want of this rank has taken a later lease */
        fi
    };
#endif
#ifndef RING_BEFORE_WORD
    producer_bell = true
#endif
}

proctype consumer(byte w)
{
    byte r = RANK(w), g, o, o2, t, old, landed[2];
    bool waiting = false;
    {
        landed[0] = POISON;
        landed[1] = POISON;
        THREADS == 1 || w == 0 || ended[0] != NOTHING;
look:
        missed[w] = false;
        old = word_of[r];
        if
        :: !indexed -> goto not_there
        :: indexed
        fi;
#ifndef BOARD_AFTER_RECORD
        g = board;
#endif
        o = record[0];
        o2 = record[1];
#ifdef BOARD_AFTER_RECORD
        g = board;
#endif
        if
        :: record_of == g && old != g
        :: else -> goto lost /* it has ended, or this rank's part of it has */
        fi;
        if
        :: board == g -> assert(o == (g + 1) / 2 && o2 == o) /* the record is whole, and of this lease */
        :: else -> goto lost
        fi;
        if
        :: SEAT_IS(g, ENGINE(r))
        :: atomic { SEAT_IS(g, NOBODY) -> seat = ENGINE(r) } /* exchanged: nobody else took it */
        :: !SEAT_IS(g, ENGINE(r)) && !SEAT_IS(g, NOBODY) -> goto lost
        fi;
#ifndef WORD_AFTER_REREAD
#ifdef PLAIN_STORES
        atomic { word_of[r] = g; word_by[r] = w; word[r] = READING };
#else
        if
        :: atomic { word_of[r] == old -> word_of[r] = g; word_by[r] = w; word[r] = READING }
        :: word_of[r] != old -> goto look
        fi;
#endif
#endif
        if
        :: atomic { board == g -> holds[r] = g }
        :: else -> goto too_late
        fi;
#ifdef WORD_AFTER_REREAD
        atomic { word_of[r] = g; word_by[r] = w; word[r] = READING };
#endif
        t = table;
#ifndef UNCHECKED_TABLE
        if
        :: t == o /* its own words say whose it is */
        :: else -> goto too_late
        fi;
#endif
        assert(o == (g + 1) / 2 && o2 == o && t == o); /* what was read is whole, and of this lease */
        landed[0] = block[0];
        if
        :: !calm -> ended[w] = FAILED; publish(FAILED); goto gone /* cancelled; its copy is quiet */
        :: true
        fi;
        landed[1] = block[1];
#ifdef DONE_BEFORE_REREAD
        publish(DONE);
#endif
#ifndef NO_REREAD
        if
        :: board == g
        :: else -> goto too_late
        fi;
#endif
        assert(landed[0] == o && landed[1] == o); /* never another offer's bytes, never a mixture */
        atomic { ended[w] = DONE; got[w] = o };   /* its event is queued */
#ifndef DONE_BEFORE_REREAD
        publish(DONE);
#endif
        goto gone;
too_late:
        assert(reason_of >= g); /* it has ended, and says why; if the slot has another lease, the producer is asked */
        ended[w] = FAILED;
        publish(FAILED);
        goto gone;
not_there:
#ifdef LOOK_THEN_WAIT
        atomic { missed[w] = true; waiting = true };
        waits[w] = true;
        goto ask;
#endif
        if
        :: !waiting -> waits[w] = true; waiting = true; goto look
        :: waiting -> missed[w] = !bell[w]
        fi;
lost:
        waits[w] = true;
        waiting = true;
ask:
        asked[w] = true;
        do
        :: atomic { bell[w] -> bell[w] = false; missed[w] = false }; goto look
        :: atomic { refused[w] || producer_dead || late || !calm -> ended[w] = FAILED; break }
        od;
gone:
        atomic { waits[w] = false; missed[w] = false }
    } unless { dead[r] }
}

/* On another node: it reads by rma, and its words are messages. */
proctype remote(byte w)
{
    byte g, o, landed[2];
    landed[0] = POISON;
    landed[1] = POISON;
    asked[w] = true;
    do
    :: atomic { bell[w] -> bell[w] = false; g = granted; o = (g + 1) / 2 }; break
    :: atomic { refused[w] || producer_dead || late || !calm -> ended[w] = FAILED; goto gone }
    od;
    landed[0] = block[0];
    landed[1] = block[1];
    if
    :: board == g -> assert(landed[0] == o && landed[1] == o); atomic { ended[w] = DONE; got[w] = o }
    :: else -> ended[w] = FAILED
    fi;
    atomic {
        if
        :: live == g && !ending -> said[w] = ended[w]; producer_bell = true /* the message comes, and wakes */
        :: else
        fi
    };
gone:
    skip
}

/* Who reads and dies is seen by a pidfd, which wakes the producer. */
proctype death()
{
end:
    do
    :: atomic { crashes > 0 && !dead[0] && THREADS == 1 -> crashes--; dead[0] = true; producer_bell = true }
    :: atomic { crashes > 0 && !dead[1] && THREADS == 1 && !IS_REMOTE(1) -> crashes--; dead[1] = true; producer_bell = true }
    :: atomic { crashes > 0 && !producer_dead -> crashes--; producer_dead = true }
    :: crashes == 0 -> break
    :: calm -> break
    od
}

#define HAS_IT(w) (!NEEDED(w) || (ended[w] == DONE && got[w] == (live + 1) / 2))
#define IS_IDLE(r) (live != 0 && ENGINES == 2 && seat == r && word_of[r] != live && ended[r] != NOTHING && !dead[r])

/* Nothing can happen any more: who waits, and for what? */
proctype watch()
{
    calm = true;
end:
    atomic {
        timeout ->
        if
        :: !producer_dead ->
            assert(!ending);                      /* an end waits for nobody */
            assert(live == 0 || !ALL_OVER(live)); /* all have ended, but the producer does not know */
            assert(live == 0 || THREADS == 2 || SEAT_IS(live, NOBODY) || !HAS_IT(0) || !HAS_IT(1));
            assert(!IS_IDLE(0) && !IS_IDLE(1));   /* an engine has the seat but does not read */
            assert(ended[0] != NOTHING || dead[RANK(0)] || !CAN_BE_HAD(0)); /* it is there, unknown to the consumer */
            assert(ended[1] != NOTHING || dead[RANK(1)] || !CAN_BE_HAD(1) || THREADS == 2)
        :: producer_dead
        fi;
        late = true
    }
}

init
{
    atomic {
        word[0] = NOTHING;
        word[1] = NOTHING;
        said[0] = NOTHING;
        said[1] = NOTHING;
        ended[0] = NOTHING;
        ended[1] = NOTHING;
        run offerer();
        run reactor();
        run consumer(0);
#ifdef REMOTE
        run remote(1);
#else
        run consumer(1);
#endif
#if CRASHES
        run death();
#endif
        run watch()
    }
}
