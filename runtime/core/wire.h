/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: what ranks send and publish, as bytes. Encoding and decoding only; every field that arrives is checked here or
 * by the caller named beside it, and a bad one is BATON_EMESSAGE, never an assert.
 *
 * All numbers are little-endian. What is published for whoever reads it (cards, rows, tables) is written once; a message is
 * written in the older version of its two sides.
 * Every message, card and row begins with a magic and a format version, and all but the
 * row, whose size is fixed, with a length, so that a build one version older or newer skips what it does not know:
 * decoders accept any version >= 1 whose known fields are there, and ignore what follows them. A field that was added to
 * a version later stands last, and is 0 where it is not sent.
 */
#ifndef BATON_CORE_WIRE_H
#define BATON_CORE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

/*
 * Two ranks speak the older of their versions, which the directory rows say. For tests, a build with BATON_WIRE_FIRST plays
 * version 1, and one with BATON_WIRE_NEXT the version that comes after: it says so, and adds to all that it publishes.
 */
#if defined BATON_WIRE_NEXT
#define WIRE_VERSION 3
#elif defined BATON_WIRE_FIRST
#define WIRE_VERSION 1
#else
#define WIRE_VERSION 2
#endif
#define WIRE_HASHES 2          /* the version from which on envelopes carry hashes, */
#define WIRE_NAMES 2           /* requests have keys longer than WIRE_KEY_1 - 1 bytes, and attempts, */
#define WIRE_KEY_1 64u         /* (the field of a key in version 1, NUL included) */
#define WIRE_ENDS 2            /* and the word of a want's end is answered */
#define WIRE_MESSAGE_MAX 2032u /* the control channel adds its 16-byte envelope: 2 KiB in all */
#define WIRE_ROW_BYTES 128u
#define WIRE_CARD_MAX 65536u
#define WIRE_READERS_BYTES (BATON_ENGINE_RANKS_MAX / 8)

/* ---- directory row ---- */

/** What every rank knows of every other. */
struct wire_row {
    uint8_t version; /* that its build speaks; encoding: 0 is WIRE_VERSION */
    char engine[BATON_ENGINE_NAME_MAX];
    uint8_t role; /* baton_role_t */
    uint16_t tp, pp, tp_rank, pp_rank;
    uint32_t node;                         /* number of its node in the world */
    uint32_t package, numa;                /* on that node; TOPO_UNKNOWN */
    uint64_t incarnation;                  /* of this context of that rank; not 0 */
    uint64_t card_offset;                  /* in its segment */
    uint32_t card_bytes;                   /* <= WIRE_CARD_MAX */
    uint8_t verdicts;                      /* baton_verdicts_t */
    uint8_t rules;                         /* PLAN_RULES of its build; 0: of before they were told */
    uint32_t features;                     /* reserved: 0 */
    uint32_t num_boxes;                    /* 0: no cache */
    uint32_t model, block_tokens;          /* geometry_model, and of its first group; 0: no cache, or not told */
    struct plan_box box[BATON_SPLITS_MAX]; /* layers and heads held, by split; of one cache the layers are the same */
};

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES]);
/** 0 or BATON_EMESSAGE (magic, version, checksum, name not terminated or empty, role, tp/pp 0, rank outside, …). */
int wire_row_decode(const uint8_t in[WIRE_ROW_BYTES], struct wire_row *row);

/* ---- card ---- */

/** What a rank publishes of itself. Offsets are in its segment. */
struct wire_card {
    uint64_t incarnation;
    char host[64];
    char unread[2][32]; /* texts of earlier builds that nobody reads: empty in ours */
    uint64_t board_offset;
    uint32_t board_slots;
    uint64_t arena_offset, arena_bytes;
    uint64_t pool_offset, pool_bytes;
    /* reserved, 0 in this version: what its build can do; where its offers' index and its readers' words lie */
    uint32_t features;
    uint64_t index_offset, words_offset;
    uint32_t index_slots, words_slots;
    uint32_t has_geometry;
    baton_geometry_t geometry; /* decoded: its tensors are malloc'ed, groups and splits are the following */
    baton_group_t groups[BATON_GROUPS_MAX];
    baton_split_t splits[BATON_SPLITS_MAX];
};

/** Writes at most `size` bytes; returns the length, or BATON_EINVAL if it would be more than size or WIRE_CARD_MAX. */
int wire_card_encode(const struct wire_card *card, uint8_t *out, uint32_t size);
/**
 * Decodes and checks lengths, checksum, terminated strings, counts. The geometry's own sense is geometry_check's to
 * judge. On success wire_card_free is due, and the card must stay where it is. 0, BATON_EMESSAGE or BATON_ENOMEM.
 */
int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *card);
void wire_card_free(struct wire_card *card);

/* ---- block tables of a request, as they lie in the arena ---- */

#define WIRE_TABLE_HEADER 32u
#define WIRE_NUMBERS_MAX (1u << 24) /* of the tables of one call */

/** Numbers that tables take behind the header: the ids; and a few more, unless there is one table from token 0 on. */
uint32_t wire_table_numbers(const struct plan_tables *tables);

/** Bytes of tables of so many numbers. */
static inline uint64_t wire_table_bytes(uint32_t numbers)
{
    return WIRE_TABLE_HEADER + (uint64_t)numbers * 4;
}

/** Writes header (magic, slot, generation, count, checksum) and numbers; `out` has wire_table_bytes(), 8-aligned. */
void wire_table_encode(uint32_t slot, uint64_t generation, const struct plan_tables *tables, uint8_t *out);
/**
 * Checks that `in` holds the tables of this slot and generation; they then point into *ids, which is malloc'ed. What the
 * ids mean is plan_table_check's to judge. BATON_ESTALE: another lease's, or a bad checksum. BATON_EMESSAGE: the numbers
 * make no tables. BATON_ENOMEM. `in` may change while it is read: it is copied before it is checked.
 */
int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, struct plan_tables *tables,
                      uint32_t **ids);

/* ---- messages ---- */

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
    uint8_t verb;    /* enum core_submit_kind: an offer's or a want's */
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
