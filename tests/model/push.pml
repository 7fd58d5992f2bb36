/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * push: one producer rank that writes, one consumer rank that lends it a block of two halves, two offers under one key.
 *
 *   producer   runtime/core/offer.c and push.c: match, again, push_stop, offer_end
 *   consumer   runtime/core/leg.c: asking with a count, WRITTEN, and CANCEL until CLOSED
 *
 * Messages keep their order; LOSSES of them may vanish. The consumer repeats its WANT by a timer and its CANCEL until
 * it is answered. A write has landed at the latest when it is settled, and cannot be called back. The producer reads
 * the consumer's table, whose generation ends with the want, before it writes.
 *
 *   REPORT_BEFORE_QUIET   the consumer reports without waiting for CLOSED
 *   ANY_ANSWER            an answer to an earlier asking settles the want
 *   NO_SETTLE             the producer says CLOSED while one of its writes is still under way
 */
#ifndef LOSSES
#define LOSSES 1
#endif
#define ASKS 2
#define CANCELS 3

mtype = { WANT, GRANT, NACK, WRITTEN, CANCEL, CLOSED, DONE };
chan to_producer = [5] of { mtype, byte, byte } /* what, asks, error */
chan to_consumer = [5] of { mtype, byte, byte } /* what, asks, error */

bool lent = false;          /* the consumer's block belongs to the transfer */
byte landed[2];             /* whose bytes are in it; 0: nobody's */
bool flying = false;        /* a write is under way */
byte flying_half, flying_offer;
byte source = 0;            /* whose bytes the producer's block has; 8: used for something else */
byte losses = LOSSES;
bool want_ended = false, want_done = false;
byte offers_made = 0, offers_ended = 0;

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

/* What was put lands at some time, whatever its writer does meanwhile. */
active proctype network()
{
    do
    :: flying -> atomic {
        assert(lent); /* nothing is written into blocks that are not lent */
        landed[flying_half] = flying_offer;
        flying = false
        }
    :: want_ended && !flying && offers_made == 2 && offers_ended == 2 -> break
    :: timeout -> break
    od
}

inline settle()
{
#ifndef NO_SETTLE
    !flying
#else
    skip
#endif
}

inline stop_push(answer, asks_, error_)
{
    settle();
    halves = 0;
    pushing = false;
    written = false;
    send(to_consumer, answer, asks_, error_)
}

active proctype producer()
{
    byte live = 0, asks = 0, error = 0, halves = 0, waiting = 0, cancels = 0;
    bool pushing = false, written = false, remembered = false, reader_ended = false;
    do
    :: live == 0 && offers_made < 2 ->
        offers_made++;
        live = offers_made;
        source = live;
        remembered = false;
        reader_ended = false;
        if
        :: waiting > 0 -> asks = waiting; waiting = 0; pushing = lent; halves = 0
        :: else
        fi
    :: live != 0 -> /* expires, or is cancelled: quiet first, then the report, and the block is used at once */
        if
        :: pushing || written -> stop_push(WRITTEN, asks, 1)
        :: else
        fi;
        offers_ended++;
        live = 0;
        source = 8;
        remembered = true
    :: pushing && halves < 2 && !flying && lent -> /* the table was read under the want's generation */
        atomic { flying = true; flying_half = halves; flying_offer = source; halves++ }
    :: pushing && halves == 2 -> settle(); pushing = false; written = true; send(to_consumer, WRITTEN, asks, 0)
    :: pushing && !lent && !flying -> stop_push(WRITTEN, asks, 1); reader_ended = true /* the table is stale */
    :: to_producer?WANT, error, _ ->
        if
        :: live != 0 && pushing -> asks = error; send(to_consumer, GRANT, asks, 0)
        :: live != 0 && written -> asks = error; send(to_consumer, WRITTEN, asks, 0)
        :: live != 0 && !pushing && !written && reader_ended -> send(to_consumer, NACK, error, 1)
        :: live != 0 && !pushing && !written && !reader_ended ->
            asks = error;
            pushing = true;
            halves = 0;
            send(to_consumer, GRANT, asks, 0)
        :: live == 0 && remembered -> send(to_consumer, NACK, error, 1)
        :: live == 0 && !remembered -> waiting = error
        fi
    :: to_producer?CANCEL, _, _ ->
        waiting = 0;
        if
        :: pushing || written -> stop_push(CLOSED, 0, 0)
        :: else -> send(to_consumer, CLOSED, 0, 0)
        fi;
        reader_ended = true
    :: to_producer?DONE, _, _ -> /* the reader has ended well: so has the offer */
        if
        :: live != 0 && written -> written = false; offers_ended++; live = 0; source = 8; remembered = true
        :: else
        fi
    :: live == 0 && offers_made == 2 && want_ended && empty(to_producer) -> break
    :: timeout && live != 0 && !pushing ->
        written = false;
        offers_ended++;
        live = 0;
        source = 8;
        remembered = true
    :: timeout && live == 0 && want_ended -> break
    od;
    assert(offers_ended == offers_made)
}

active proctype consumer()
{
    byte asked = 0, echo, error, cancels = 0;
    landed[0] = 0;
    landed[1] = 0;
    lent = true;
ask:
    if
    :: asked < ASKS -> asked++; send(to_producer, WANT, asked, 0)
    :: asked == ASKS -> goto cancel
    fi;
    do
    :: to_consumer?GRANT, echo, error
    :: to_consumer?WRITTEN, echo, error ->
        if
#ifdef ANY_ANSWER
        :: error == 0 -> goto done
        :: error != 0 -> goto quiet
#else
        :: echo == asked && error == 0 -> goto done
        :: echo == asked && error != 0 -> goto quiet
        :: echo != asked /* the later asking must still be handled */
#endif
        fi
    :: to_consumer?NACK, echo, error ->
        if
#ifdef ANY_ANSWER
        :: goto quiet
#else
        :: echo == asked -> goto quiet
        :: echo != asked
#endif
        fi
    :: to_consumer?CLOSED, _, _
    :: goto ask /* the resend timer */
    :: goto cancel /* the deadline, or a cancel */
    od;
done:
    assert(landed[0] != 0 && landed[0] != 8 && landed[0] == landed[1]);
    atomic { lent = false; want_ended = true; want_done = true };
    send(to_producer, DONE, 0, 0);
    goto over;
cancel:
#ifdef REPORT_BEFORE_QUIET
    send(to_producer, CANCEL, 0, 0);
    goto quiet;
#endif
again:
    if
    :: cancels < CANCELS -> cancels++; send(to_producer, CANCEL, 0, 0)
    :: else
    fi;
    do
    :: to_consumer?CLOSED, _, _ -> goto quiet
    :: to_consumer?GRANT, _, _
    :: to_consumer?WRITTEN, echo, _ -> if :: echo == asked -> goto quiet :: else fi
    :: to_consumer?NACK, echo, _ -> if :: echo == asked -> goto quiet :: else fi
    :: timeout && cancels < CANCELS -> goto again
    od;
quiet:
    atomic { lent = false; want_ended = true };
over:
    assert(want_ended)
}
