/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: what ranks say to each other, as bytes (see version.h). Encoding and decoding only. Every field that arrives is
 * checked here or by the caller named beside it, and a bad one is BATON_EMESSAGE, never an assert.
 */
#ifndef BATON_WIRE_MESSAGE_H
#define BATON_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "wire/version.h"

#define WIRE_MESSAGE_MAX 2032u /* the control channel adds its 16-byte envelope: 2 KiB in all */
#define WIRE_READERS_BYTES (BATON_ENGINE_RANKS_MAX / 8)

enum wire_type {
    WIRE_WANT = 1,
    WIRE_GRANT = 2,
    WIRE_NACK = 3,
    WIRE_DONE = 4,
    WIRE_CANCEL = 5,
    WIRE_CLOSED = 6,
    WIRE_RELEASE = 7,
    WIRE_WRITTEN = 8, /* the producer's end of a push: its bytes are in place (error 0), or it writes no more */
    WIRE_BEAT = 9,    /* I am here; `ask`: are you? */
    /* within an engine, to and from its first rank */
    WIRE_REPORT = 10,   /* how a call ended here */
    WIRE_VERDICT = 11,  /* how the request ended for the engine */
    WIRE_ASK = 12,      /* where does it stand with you? */
    WIRE_STANDING = 13, /* the answer, in words */
    WIRE_CHECK = 14,    /* what are the hashes of what this want takes from you? */
    WIRE_SUMS = 15,     /* the answer, in parts */
    WIRE_READY = 16,    /* of an offer that is not whole: what of it is in place */
    /* about a third rank, the subject */
    WIRE_INQUIRY = 17, /* to a rank of the subject's node: is it dead? */
    WIRE_WITNESS = 18, /* the answer */
    WIRE_LEAVE = 19,   /* I am closing; and where a subject is named: without the others, since that rank is lost */
    WIRE_ENDED = 20    /* the answer to DONE, CANCEL and RELEASE: these wants' ends are known */
};

#define WIRE_TYPE_LAST WIRE_ENDED
#define WIRE_TYPE_LAST_1 WIRE_READY /* of version 1 */

/** The first version that knows a type: a peer of an older one is not sent it. */
static inline unsigned wire_type_version(enum wire_type type)
{
    return type <= WIRE_TYPE_LAST_1 ? 1 : 2;
}

#define WIRE_NOBODY UINT32_MAX /* as a LEAVE's subject */
#define WIRE_HOST_MAX 64       /* bytes of a host's name, NUL included */
#define WIRE_SUMS_MOST 192u    /* numbers in a list: hashes of a SUMS, wants of an ENDED */

enum wire_quiet { WIRE_QUIET = 1, WIRE_NOT_KNOWN = 2 };
enum wire_life { WIRE_ALIVE = 1, WIRE_DEAD = 2, WIRE_UNKNOWN = 3 };

/** Names a request: its key, and which attempt at it. Version 1 has no attempts, and keys shorter than WIRE_KEY_1. */
struct wire_name {
    char key[BATON_KEY_MAX];
    uint32_t attempt;
};

/** A list of 64-bit numbers. */
struct wire_list {
    uint32_t num;
    const uint64_t *out; /* encoding: the numbers */
    const uint8_t *in;   /* decoded: lies in the message's bytes, see wire_list_at */
};

struct wire_want {
    struct wire_name name;
    uint8_t mode;  /* baton_mode_t, not AUTO */
    uint32_t asks; /* how often this want has asked */
    uint32_t time_left_ms, tokens;
    uint64_t ticket_incarnation, ticket_serial; /* 0: no ticket */
    uint32_t num_readers_bits;                  /* ranks of the consumer's engine */
    uint8_t readers[WIRE_READERS_BYTES];        /* bit i: its rank of index i will acknowledge this producer rank */
    bool partial;                               /* its sender understands READY */
    /* in push mode: the consumer's lease and its tables, and the tokens that it has already */
    uint32_t slot, numbers;
    uint64_t generation, table_offset;
    uint32_t held;
};

struct wire_grant {
    uint32_t asks;          /* the asking that was seen last */
    uint32_t slot, numbers; /* the producer's lease, and of its tables */
    uint64_t generation;
    uint64_t table_offset; /* in the arena */
    uint32_t offered_tokens;
    bool partial;          /* not all is in place, READY says what is */
    uint32_t num_attach;   /* bytes of the engine's own, reserved: 0 in this version */
    const uint8_t *attach; /* decoded: lies in the message's bytes */
};

/** All of tokens [0, done) is in place, and of tokens [done, next) the layers below layer_end. UINT32_MAX: to the end. */
struct wire_ready {
    uint64_t generation; /* of the producer's lease */
    uint32_t tokens_done, tokens_next, layer_end;
    uint32_t numbers; /* of the lease's tables by now */
    uint64_t table_offset;
};

struct wire_nack {
    uint32_t asks; /* the asking that was seen last */
    int32_t error; /* not 0 */
    char detail[96];
    uint64_t generation; /* of the offer that refused; 0: none did (or version 1) */
};

/** DONE, CANCEL, RELEASE. */
struct wire_end {
    struct wire_name name;
    int32_t error;       /* CANCEL: not 0 */
    uint64_t generation; /* DONE, CANCEL: of the lease that the bytes are of; 0: not known (or not sent) */
    /* RELEASE */
    uint32_t time_left_ms;
    uint64_t ticket_incarnation, ticket_serial; /* 0: no ticket */
};

struct wire_closed {
    uint8_t quiet; /* enum wire_quiet */
};

struct wire_written {
    uint32_t asks; /* the asking that was seen last */
    int32_t error;
    uint64_t bytes;
    char detail[96];
    uint64_t generation; /* of the producer's lease; 0: not sent */
};

struct wire_beat {
    uint8_t ask;              /* 1: to be answered; 0: the answer */
    char host[WIRE_HOST_MAX]; /* the sender's; empty: not known, not sent */
};

/** REPORT, VERDICT, ASK, STANDING. */
struct wire_verdict {
    struct wire_name name;
    uint8_t verb;    /* enum call_kind: an offer's or a want's */
    uint32_t engine; /* the producer's, by its place in the directory */
    /* REPORT, VERDICT */
    uint8_t status;      /* baton_status_t */
    uint8_t quarantined; /* told by builds before 0.2; not used */
    int32_t error;
    int32_t peer;    /* VERDICT: the rank to name; -1: none */
    char detail[96]; /* STANDING too */
    uint8_t again;   /* REPORT: 1: it was sent before */
};

struct wire_check {
    struct wire_name name;
    uint32_t tokens, held;
};

/** An error, or the hashes of the parts (plan_part) first, first + 1, ... */
struct wire_sums {
    int32_t error;
    uint32_t first;
    struct wire_list hashes;
};

struct wire_ended {
    struct wire_list wants;
};

/** INQUIRY, WITNESS, LEAVE: about a third rank. */
struct wire_subject {
    uint32_t rank;            /* LEAVE: or WIRE_NOBODY */
    uint64_t incarnation;     /* 0 with WIRE_NOBODY alone */
    uint8_t life;             /* WITNESS: enum wire_life */
    char host[WIRE_HOST_MAX]; /* WITNESS, LEAVE: the subject's; empty: not known */
};

/** One message: what all have, and what its type has. */
struct wire_message {
    enum wire_type type;
    uint8_t version; /* that it is, or shall be, written in; encoding: 0, or later than this build's, is WIRE_VERSION */
    uint64_t from;   /* sender's incarnation */
    uint64_t to;     /* the receiver's, as the sender knows it */
    uint32_t number; /* of this message among the sender's to this receiver: one that came before is dropped */
    uint64_t want_id; /* the want's sequence number at its consumer; REPORT, VERDICT: the call's; 0: of no want */
    union {
        struct wire_want want;
        struct wire_grant grant;
        struct wire_ready ready;
        struct wire_nack nack;
        struct wire_end end; /* DONE, CANCEL, RELEASE */
        struct wire_closed closed;
        struct wire_written written;
        struct wire_beat beat;
        struct wire_verdict verdict; /* REPORT, VERDICT, ASK, STANDING */
        struct wire_check check;
        struct wire_sums sums;
        struct wire_ended ended;
        struct wire_subject subject; /* INQUIRY, WITNESS, LEAVE */
    };
};

/** The request that a message names; NULL: messages of its type name none. */
const struct wire_name *wire_name_of(const struct wire_message *m);

/** Returns the length, <= WIRE_MESSAGE_MAX; out has that size. The message is trusted (our own). */
uint32_t wire_encode(const struct wire_message *m, uint8_t *out);

/**
 * 0 or BATON_EMESSAGE: magic, version 0, length, unknown type, key empty or unterminated, mode, error not negative
 * where it must be, bits above BATON_ENGINE_RANKS_MAX, text not terminated. *out is zeroed first. BATON_ENOSYS: a type of
 * a newer version; to be skipped.
 */
int wire_decode(const uint8_t *in, uint32_t bytes, struct wire_message *out);

/** The i-th number of a decoded list, i < num, while the message's bytes are there. */
uint64_t wire_list_at(const struct wire_list *list, uint32_t i);

const char *wire_type_name(enum wire_type type);

#endif
