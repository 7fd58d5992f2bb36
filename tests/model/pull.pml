/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: one producer rank, one consumer rank, one lease slot, one key. Two offers follow each other under that key,
 * in the same slot and the same block, whose two halves the consumer reads one after the other while anything may
 * happen between.
 *
 *   producer   runtime/core/offer.c: offer_open, match, offer_end, offer_on_end
 *   consumer   runtime/core/leg.c and mover.c: ask, grant, copy, generation read again, DONE
 *
 * Messages keep their order; LOSSES of them may vanish. Either side may crash at any point. Left out: block tables
 * (their generation is compared as the board's is), several ranks, credits. Every loop is bounded, so each run ends: an
 * end in which somebody waits is an invalid end state, and the last assertions say that every call has had its one end.
 *
 *   NO_REREAD   the generation is not read again       NO_RAISE   it is not raised before the block is used again
 */
#ifndef LOSSES
#define LOSSES 1
#endif
#define ASKS 2
#define POISON 9
#define JUNK 8

mtype = { WANT, GRANT, NACK, DONE };
chan to_producer = [4] of { mtype, byte, byte } /* what, error, - */
chan to_consumer = [4] of { mtype, byte, byte } /* what, generation, offer */

byte board = 0;         /* the slot's generation; 0: never granted */
byte block[2];          /* whose bytes they are: 1, 2: an offer's; JUNK: used for something else */
byte landed[2];         /* the consumer's block */
bool producer_gone = false, consumer_gone = false;
byte losses = LOSSES;
byte offers_made = 0, offers_ended = 0, wants_ended = 0;

inline send(channel, what, x, y)
{
    atomic {
        if
        :: nfull(channel) -> channel!what, x, y
        :: losses > 0 -> losses--
        :: full(channel) /* the receiver takes nothing any more */
        fi
    }
}

/* The one way out of a live offer: the generation first, then the report, and the engine uses the block at once. */
inline end_offer()
{
    atomic {
#ifndef NO_RAISE
        board++;
#endif
        offers_ended++;
        live = 0
    }
    block[0] = JUNK;
    block[1] = JUNK
}

active proctype producer()
{
    byte live = 0, error, unused;
    bool waiting = false, remembered = false;
    do
    :: live == 0 && offers_made < 2 -> /* offer */
        block[0] = offers_made + 1;
        block[1] = offers_made + 1;
        atomic {
            offers_made++;
            live = offers_made;
            board++;
            remembered = false
        }
        if
        :: waiting -> waiting = false; send(to_consumer, GRANT, board, live)
        :: else
        fi
    :: live != 0 -> /* its time to live passes, or it is cancelled */
        end_offer();
        remembered = true
    :: to_producer?WANT, error, unused ->
        if
        :: live != 0 -> send(to_consumer, GRANT, board, live)
        :: live == 0 && remembered -> send(to_consumer, NACK, 0, 0)
        :: live == 0 && !remembered -> waiting = true
        fi
    :: to_producer?DONE, error, unused ->
        if
        :: live != 0 -> end_offer(); remembered = true
        :: else -> waiting = false
        fi
    :: !producer_gone && !consumer_gone -> producer_gone = true; break
    :: live == 0 && offers_made == 2 && (wants_ended == 1 || consumer_gone) && empty(to_producer) -> break
    :: timeout && live != 0 -> end_offer(); remembered = true
    :: timeout && live == 0 && (wants_ended == 1 || consumer_gone) -> break
    od;
    assert(producer_gone || offers_ended == offers_made)
}

active proctype consumer()
{
    byte asked = 0, generation = 0, offer = 0, again = 0;
    bool lies;
    landed[0] = POISON;
    landed[1] = POISON;
ask:
    if
    :: asked < ASKS -> asked++; send(to_producer, WANT, 0, 0)
    :: asked == ASKS -> goto give_up
    fi;
    do
    :: to_consumer?GRANT, generation, offer -> goto copy
    :: to_consumer?NACK, _, _ -> goto ended
    :: goto ask /* the resend timer */
    :: goto give_up /* the deadline, or a cancel */
    :: !producer_gone && !consumer_gone -> consumer_gone = true; goto gone
    od;
copy:
    /* On a network, the first operation on a dead rank may report success without a byte; later ones fail. */
    if
    :: lies = true
    :: lies = false
    fi;
    if
    :: producer_gone && lies -> skip
    :: else -> landed[0] = block[0]
    fi;
    if
    :: goto give_up
    :: skip
    fi;
    if
    :: producer_gone && lies -> skip
    :: else -> landed[1] = block[1]
    fi;
    if
    :: producer_gone && lies -> again = 0 /* the landing word is preset to a value that is no generation */
    :: else -> again = board
    fi;
#ifdef NO_REREAD
    again = generation;
#endif
    if
    :: again == generation ->
        assert(landed[0] == offer && landed[1] == offer); /* all of this offer's bytes, and no others */
        wants_ended++;
        send(to_producer, DONE, 0, 0);
        goto gone
    :: else -> goto give_up
    fi;
give_up:
    send(to_producer, DONE, 1, 0);
ended:
    wants_ended++;
gone:
    assert(consumer_gone || wants_ended == 1)
}
