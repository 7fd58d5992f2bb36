/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seats: an offer that must serve two ranks, whose last messages may come twice, or never. The offer is done only if
 * both ranks have ended well. It tells them apart by who they are (runtime/core/offer.c: reader_end).
 *
 *   COUNT_NOT_IDENTITY   messages are counted instead
 */
chan words = [6] of { byte, byte } /* who, error */
bool served[2];
bool offer_done = false, offer_ended = false;
byte twice = 2, losses = 1;

active proctype offer()
{
    byte who, error, count = 0;
    bool ended[2];
    do
    :: words?who, error ->
#ifdef COUNT_NOT_IDENTITY
        count++;
#else
        if
        :: !ended[who] -> ended[who] = true; count++
        :: else
        fi;
#endif
        if
        :: error != 0 -> offer_ended = true; break
        :: count == 2 && error == 0 -> offer_done = true; offer_ended = true; break
        :: else
        fi
    :: offer_ended = true; break /* its time to live passes */
    od;
    assert(offer_ended);
    assert(!offer_done || (served[0] && served[1]))
}

proctype reader(byte me)
{
    if
    :: served[me] = true;
        if
        :: words!me, 0
        :: atomic { losses > 0 -> losses-- }
        fi
    :: words!me, 1 /* it fails, and says so */
    :: atomic { losses > 0 -> losses-- } /* it dies */
    fi;
    do
    :: atomic { twice > 0 && served[me] -> twice-- }; words!me, 0
    :: break
    od
}

init
{
    atomic {
        run reader(0);
        run reader(1)
    }
}
