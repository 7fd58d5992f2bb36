/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: what ranks say to each other, as structs and as bytes. schema.h has the types and fields, version.h the
 * rules of the bytes. Encoding and decoding only. A bad field that arrives is BATON_EMESSAGE, never an assert.
 */
#ifndef BATON_WIRE_MESSAGE_H
#define BATON_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "wire/schema.h"
#include "wire/table.h"
#include "wire/version.h"

#define WIRE_MESSAGE_HEADER 36u /* what each message begins with, up to the want's id */
#define WIRE_MESSAGE_MAX 2032u  /* a network adds an envelope to each */
#define WIRE_DETAIL_MAX 96      /* bytes of a reason, NUL included */
#define WIRE_LIST_MAX 192u      /* numbers in a list */

enum wire_quiet { WIRE_QUIET = 1, WIRE_NOT_KNOWN = 2 };
enum wire_alive { WIRE_ALIVE = 1, WIRE_DEAD = 2, WIRE_UNKNOWN = 3 };

#define WIRE_TYPE(number, name, body, version) WIRE_##name = (number),
enum wire_type { WIRE_TYPES(WIRE_TYPE) };
#undef WIRE_TYPE

#define WIRE_COUNT(number, name, body, version) +1
#define WIRE_TYPE_LAST ((enum wire_type)(0 WIRE_TYPES(WIRE_COUNT)))

/** Names a request: its key, and which attempt at it. */
struct wire_name {
    char key[BATON_KEY_MAX];
    uint32_t attempt;
};

/** Flags by the index of a rank in its engine. */
struct wire_bits {
    uint32_t num;
    uint8_t bit[BATON_ENGINE_RANKS_MAX / 8];
};

/** 64-bit numbers. */
struct wire_list {
    uint32_t num;
    const uint64_t *out; /* encoding: the numbers */
    const uint8_t *in;   /* decoded: lies in the message's bytes, see wire_list_at */
};

struct wire_bytes {
    uint32_t num;
    const uint8_t *data; /* decoded: lies in the message's bytes */
};

/* The member of a struct that a row makes. */
#define WIRE_MEMBER_U8(name, most) uint8_t name;
#define WIRE_MEMBER_U32(name, most) uint32_t name;
#define WIRE_MEMBER_U64(name, most) uint64_t name;
#define WIRE_MEMBER_I32(name, most) int32_t name;
#define WIRE_MEMBER_FLAG(name, most) bool name;
#define WIRE_MEMBER_TEXT(name, most) char name[(most) + 1];
#define WIRE_MEMBER_NAME(name, most) struct wire_name name;
#define WIRE_MEMBER_BITS(name, most) struct wire_bits name;
#define WIRE_MEMBER_LIST(name, most) struct wire_list name;
#define WIRE_MEMBER_BYTES(name, most) struct wire_bytes name;
#define WIRE_MEMBER(kind, name, sent, least, most) WIRE_MEMBER_##kind(name, most)

/* struct wire_want, wire_grant and so on. */
#define WIRE_STRUCT(body, FIELDS)                                                                                      \
    struct wire_##body {                                                                                               \
        FIELDS(WIRE_MEMBER)                                                                                            \
    };
WIRE_BODIES(WIRE_STRUCT)
#undef WIRE_STRUCT

/** One message: what all have, and what its type has. */
struct wire_message {
    enum wire_type type;
    uint8_t version; /* that it is, or shall be, written in; encoding: 0, or later than this build's, is WIRE_VERSION */
    uint64_t from;   /* the sender's number as a member */
    uint64_t to;     /* the receiver's, as the sender knows it */
    uint32_t number; /* of this message among the sender's to this receiver: one that came before is dropped */
    uint64_t want_id; /* the want's sequence number at its consumer; REPORT, VERDICT: the call's; 0: of no want */
#define WIRE_UNION_MEMBER(body, FIELDS) struct wire_##body body;
    union {
        WIRE_BODIES(WIRE_UNION_MEMBER)
    };
#undef WIRE_UNION_MEMBER
};

/** Returns the length, <= WIRE_MESSAGE_MAX; out has that size. The message is trusted (our own). */
uint32_t wire_encode(const struct wire_message *m, uint8_t *out);

/**
 * 0, or BATON_EMESSAGE: the header is wrong, a field is missing or out of its bounds, or two fields contradict each
 * other. BATON_ENOSYS: a type of a newer version, to be skipped. *out is zeroed first.
 */
int wire_decode(const uint8_t *in, uint32_t bytes, struct wire_message *out);

/** The i-th number of a decoded list, i < num, while the message's bytes are there. */
uint64_t wire_list_at(const struct wire_list *list, uint32_t i);

/** The request that a message names; NULL: messages of its type name none. */
const struct wire_name *wire_name_of(const struct wire_message *m);

const char *wire_type_name(enum wire_type type);

/** The type of a message that wire_encode wrote; 0: it is shorter than any. */
enum wire_type wire_type_of(const uint8_t *message, uint32_t bytes);

/** The first version that knows a type: a peer of an older one is not sent it. */
unsigned wire_type_version(enum wire_type type);

#endif
