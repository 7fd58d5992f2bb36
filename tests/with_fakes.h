/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fakes: the tables of functions on which the runtime stands, made up: a port with its path and handoff, a net, and a
 * world and a ground of one rank. Each function notes that it was called and returns what `says` has under its name; in
 * the beginning all goes well and nothing is under way. A test assigns what is special in it: a value in `says`, or a
 * function of its own in a table. `self` of each table is the fakes.
 */
#ifndef BATON_TESTS_WITH_FAKES_H
#define BATON_TESTS_WITH_FAKES_H

#include "core/ground.h"
#include "core/net.h"
#include "core/port.h"
#include "core/world.h"
#include "wire/message.h"

#define FAKES_KEPT 64 /* messages */

/*
 * All functions. Where tables share a name: `leave` and `close` are the world's, `leave_slot` is the handoff's.
 * `net_busy`, `net_move` and `net_close` are the net's, the others the port's.
 */
#define FAKES_NAMES                                                                                                    \
    send, raise, alive, sum, zero, read, board, move, settle, park, ended, progress, busy, write, enter, say_why,      \
        leave_slot, bind, vacate, word, told, take, hold, give_back, why, net_busy, net_move, room, sync, is_rung,     \
        rings, ring, failed, net_close, forget, counts, describe, agree, least, exchange, is_lost, start, expose,      \
        doorbell, selftest, meet_init, meet, meet_missing, meet_close, leave, silence, hurry, on_finalize, finalize,   \
        close, leave_open

struct fakes {
    struct port port; /* its handoff is the one below */
    struct port_handoff handoff;
    struct ground ground;
    struct ground_peer peer;
    struct net net;
    struct world_calls world;
    struct {
        int64_t FAKES_NAMES;
    } says;
    struct {
        _Atomic unsigned FAKES_NAMES;
    } asked; /* how often */
    /* what is handed out beside the values */
    uint64_t sum;
    struct handoff_word word;
    struct handoff_grant grant; /* of take */
    uint32_t slot;              /* of told */
    int reason;                 /* of why */
    struct port_event event;    /* of progress, which says how many of it */
    uint64_t left_ms;           /* that hurry was told last */
    /* messages */
    unsigned no_credit; /* so many are refused first */
    unsigned sent;      /* so many were taken since */
    struct fakes_message {
        uint32_t peer, bytes;
        uint8_t data[WIRE_MESSAGE_MAX];
    } message[FAKES_KEPT]; /* the last ones: message n lies at n % FAKES_KEPT */
};

/** This thread's last call of any fakes: its name and its numbers, as in "read 1 2 3 4". */
extern _Thread_local char fakes_call[256];

#define assert_called(text)                                                                                            \
    do {                                                                                                               \
        assert_string_equal(fakes_call, text);                                                                         \
        fakes_call[0] = '\0';                                                                                          \
    } while (0)

void fakes_init(struct fakes *f);

#endif
