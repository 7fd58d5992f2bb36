/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schema: what ranks say to each other: a row for each type of message, and a row for each of its fields. The rows make
 * the structs (message.h), encoding, decoding and the check of bounds (message.c), the names of the types (BATON_FAULT,
 * the log), and the messages that tests make up (tests/with_messages.h).
 *
 *   TYPE(number, NAME, body, version)      WIRE_NAME has that number, and the fields of that body. Ranks that speak an
 *                                          older version are not sent it. The numbers are 1, 2, 3 and so on, and no
 *                                          number is left out.
 *   BODY(body, FIELDS)                     struct wire_body, `body` in struct wire_message. Types with much the
 *                                          same fields share a body.
 *   FIELD(kind, name, sent, least, most)   The rows of a body stand in the order of their bytes. A message with a field
 *                                          below `least` or above `most` is refused.
 *
 *   kind             in C                   on the wire                                          least and most bound
 *   U8 U32 U64 I32   uint8_t, ...           1, 4 or 8 bytes                                      the value
 *   FLAG             bool                   1 byte; any but 0 is true                            the value
 *   TEXT             char[most + 1]         most + 1 bytes: the text, then zeros                 its length
 *   NAME             struct wire_name       length of the key (1 byte), key, attempt             key's length
 *   BITS             struct wire_bits       4 bytes: how many; then 8 bits in each byte          how many
 *   LIST             struct wire_list       4 bytes: how many; then 8 bytes each                 how many
 *   BYTES            struct wire_bytes      2 bytes: how many; then the bytes                    how many
 *
 *   sent       says which messages of the body have the field. In the others it is 0.
 *   ALWAYS     all
 *   IN(NAME)   those of that type; IN(NAME) | IN(OTHER): those of either
 *   PUSH       a WANT whose mode is push
 *   SINCE(n)   those of version n and later
 *   A field may have several of these conditions, joined by |. Then all must be met.
 *
 * Rules about two fields stand in `fits` (message.c).
 *
 * An example: a message that says how many tokens an offer will have in the end.
 *
 *   TYPE(21, HINT, hint, 2)                                in WIRE_TYPES
 *   BODY(hint, WIRE_HINT_FIELDS)                           in WIRE_BODIES
 *
 *   #define WIRE_HINT_FIELDS(FIELD)                        \
 *       FIELD(U64, generation, ALWAYS, 1, UINT64_MAX)      \
 *       FIELD(U32, tokens, ALWAYS, 1, UINT32_MAX)
 *
 * The type is of version 2, as are the other types and fields of its release: the first of them raises WIRE_VERSION
 * (wire/version.h) to 2.
 *
 * Now `struct wire_message m = {.type = WIRE_HINT, .hint = {.generation = 7, .tokens = 100}}` can be sent, and the
 * compiler asks for its case in `dispatch` (core/core.c).
 */
#ifndef BATON_WIRE_SCHEMA_H
#define BATON_WIRE_SCHEMA_H

/* clang-format off */
#define WIRE_TYPES(TYPE)                                                                                               \
    TYPE(1, WANT, want, 1)          /* give me what this name stands for */                                            \
    TYPE(2, GRANT, grant, 1)        /* it is here: read it, or in a push: I write */                                   \
    TYPE(3, NACK, nack, 1)          /* no; the error says why */                                                       \
    TYPE(4, DONE, end, 1)           /* I have it all */                                                                \
    TYPE(5, CANCEL, end, 1)         /* I no longer want it */                                                          \
    TYPE(6, CLOSED, closed, 1)      /* the answer to CANCEL */                                                         \
    TYPE(7, RELEASE, end, 1)        /* you granted me nothing, and I need nothing: do not wait for me */               \
    TYPE(8, WRITTEN, written, 1)    /* end of a push: all bytes are in place (error 0), or no more will come */        \
    TYPE(9, BEAT, beat, 1)          /* I am here; `ask`: are you? */                                                   \
    /* 10 to 13: within an engine, to and from its first rank */                                                       \
    TYPE(10, REPORT, verdict, 1)    /* how a call ended here */                                                        \
    TYPE(11, VERDICT, verdict, 1)   /* how the request ended for the engine */                                         \
    TYPE(12, ASK, verdict, 1)       /* where does it stand with you? */                                                \
    TYPE(13, STANDING, verdict, 1)  /* the answer, in words */                                                         \
    TYPE(14, CHECK, check, 1)       /* what are the hashes of what this want takes from you? */                        \
    TYPE(15, SUMS, sums, 1)         /* the answer, in parts */                                                         \
    TYPE(16, READY, ready, 1)       /* of an offer that is not whole: what of it is in place */                        \
    /* 17 to 19: about a third rank, the subject */                                                                    \
    TYPE(17, INQUIRY, subject, 1)   /* to a rank of the subject's node: is it dead? */                                 \
    TYPE(18, WITNESS, subject, 1)   /* the answer */                                                                   \
    TYPE(19, LEAVE, subject, 1)     /* I close; with a subject: alone, since that rank is lost, or is this one */      \
    TYPE(20, ENDED, ended, 1)       /* the answer to DONE, CANCEL and RELEASE: these wants' ends are known */

#define WIRE_BODIES(BODY)                                                                                              \
    BODY(want, WIRE_WANT_FIELDS)                                                                                       \
    BODY(grant, WIRE_GRANT_FIELDS)                                                                                     \
    BODY(ready, WIRE_READY_FIELDS)                                                                                     \
    BODY(nack, WIRE_NACK_FIELDS)                                                                                       \
    BODY(end, WIRE_END_FIELDS)                                                                                         \
    BODY(closed, WIRE_CLOSED_FIELDS)                                                                                   \
    BODY(written, WIRE_WRITTEN_FIELDS)                                                                                 \
    BODY(beat, WIRE_BEAT_FIELDS)                                                                                       \
    BODY(verdict, WIRE_VERDICT_FIELDS)                                                                                 \
    BODY(check, WIRE_CHECK_FIELDS)                                                                                     \
    BODY(sums, WIRE_SUMS_FIELDS)                                                                                       \
    BODY(ended, WIRE_ENDED_FIELDS)                                                                                     \
    BODY(subject, WIRE_SUBJECT_FIELDS)

#define WIRE_WANT_FIELDS(FIELD)                                                                                        \
    FIELD(NAME, name, ALWAYS, 1, BATON_KEY_MAX - 1)                                                                    \
    FIELD(U8, mode, ALWAYS, BATON_MODE_PULL, BATON_MODE_PUSH)                                                          \
    FIELD(U32, asks, ALWAYS, 0, UINT32_MAX)             /* how often this want has asked */                            \
    FIELD(U32, time_left_ms, ALWAYS, 1, UINT32_MAX)                                                                    \
    FIELD(U32, tokens, ALWAYS, 1, UINT32_MAX)                                                                          \
    /* of the ranks of the consumer's engine, by index: those that will acknowledge this producer rank */              \
    FIELD(BITS, readers, ALWAYS, 1, BATON_ENGINE_RANKS_MAX)                                                            \
    FIELD(U32, slot, PUSH, 0, UINT32_MAX)               /* of the consumer's lease, */                                 \
    FIELD(U32, table_entries, PUSH, 1, UINT32_MAX)      /* and of its tables */                                        \
    FIELD(U64, generation, PUSH, 1, UINT64_MAX)                                                                        \
    FIELD(U64, table_offset, PUSH, 0, UINT64_MAX)       /* in the arena */                                             \
    FIELD(U32, held, PUSH, 0, UINT32_MAX)               /* tokens that the consumer has already */

#define WIRE_GRANT_FIELDS(FIELD)                                                                                       \
    FIELD(U32, asks, ALWAYS, 0, UINT32_MAX)             /* the asking that was seen last */                            \
    FIELD(U32, slot, ALWAYS, 0, UINT32_MAX)             /* of the producer's lease, */                                 \
    FIELD(U32, table_entries, ALWAYS, 0, UINT32_MAX)    /* and of its tables */                                        \
    FIELD(U32, offered_tokens, ALWAYS, 1, UINT32_MAX)                                                                  \
    FIELD(U64, generation, ALWAYS, 1, UINT64_MAX)                                                                      \
    FIELD(U64, table_offset, ALWAYS, 0, UINT64_MAX)     /* in the arena */                                             \
    FIELD(FLAG, partial, ALWAYS, 0, 1)                  /* not all is in place, READY says what is */                  \
    FIELD(BYTES, attach, ALWAYS, 0, BATON_ATTACH_MAX)   /* the engine's own, of the offer */                           \
    FIELD(BYTES, table, ALWAYS, 0, WIRE_TABLE_SENT_MAX) /* the tables, as in the arena; none: they are read there */

/* In place: all of tokens [0, done), and of tokens [done, next) the layers below layer_end. UINT32_MAX: to the end. */
#define WIRE_READY_FIELDS(FIELD)                                                                                       \
    FIELD(U64, generation, ALWAYS, 1, UINT64_MAX)       /* of the producer's lease */                                  \
    FIELD(U32, tokens_done, ALWAYS, 0, UINT32_MAX)                                                                     \
    FIELD(U32, tokens_next, ALWAYS, 0, UINT32_MAX)                                                                     \
    FIELD(U32, layer_end, ALWAYS, 0, UINT32_MAX)                                                                       \
    FIELD(U32, table_entries, ALWAYS, 0, UINT32_MAX)    /* of the lease's tables by now */                             \
    FIELD(U64, table_offset, ALWAYS, 0, UINT64_MAX)

#define WIRE_NACK_FIELDS(FIELD)                                                                                        \
    FIELD(U32, asks, ALWAYS, 0, UINT32_MAX)             /* the asking that was seen last */                            \
    FIELD(I32, error, ALWAYS, INT32_MIN, -1)                                                                           \
    FIELD(TEXT, detail, ALWAYS, 0, WIRE_DETAIL_MAX - 1)                                                                \
    FIELD(U64, generation, ALWAYS, 0, UINT64_MAX)       /* of the offer that refused; 0: none did */

#define WIRE_END_FIELDS(FIELD)                                                                                         \
    FIELD(NAME, name, ALWAYS, 1, BATON_KEY_MAX - 1)                                                                    \
    FIELD(I32, error, ALWAYS, INT32_MIN, 0)             /* CANCEL: not 0 */                                            \
    FIELD(U64, generation, IN(DONE) | IN(CANCEL), 0, UINT64_MAX) /* of the lease; 0: it names no offer */      \
    FIELD(U32, time_left_ms, IN(RELEASE), 0, UINT32_MAX)

#define WIRE_CLOSED_FIELDS(FIELD)                                                                                      \
    FIELD(U8, quiet, ALWAYS, WIRE_QUIET, WIRE_NOT_KNOWN) /* enum wire_quiet */

#define WIRE_WRITTEN_FIELDS(FIELD)                                                                                     \
    FIELD(U32, asks, ALWAYS, 0, UINT32_MAX)             /* the asking that was seen last */                            \
    FIELD(I32, error, ALWAYS, INT32_MIN, 0)                                                                            \
    FIELD(U64, bytes, ALWAYS, 0, UINT64_MAX)                                                                           \
    FIELD(TEXT, detail, ALWAYS, 0, WIRE_DETAIL_MAX - 1)                                                                \
    FIELD(U64, generation, ALWAYS, 1, UINT64_MAX)       /* of the producer's lease */                                  \
    FIELD(U8, path, ALWAYS, 1, BATON_PATHS - 1)         /* baton_path_t: by which they were written */                 \
    FIELD(BYTES, attach, ALWAYS, 0, BATON_ATTACH_MAX)   /* as in a GRANT, which may have been lost */

#define WIRE_BEAT_FIELDS(FIELD)                                                                                        \
    FIELD(U8, ask, ALWAYS, 0, 1)                        /* 1: to be answered; 0: the answer */

#define WIRE_VERDICT_FIELDS(FIELD)                                                                                     \
    FIELD(NAME, name, ALWAYS, 1, BATON_KEY_MAX - 1)                                                                    \
    FIELD(U8, verb, ALWAYS, 1, 2)                       /* enum call_kind: an offer's or a want's */                   \
    FIELD(U64, producer, ALWAYS, 0, UINT64_MAX)         /* the number of the first member of the producer's engine; */ \
                                                        /* 0: none was there */                                        \
    FIELD(U8, status, IN(REPORT) | IN(VERDICT), BATON_STATUS_DONE, BATON_STATUS_CANCELLED)                             \
    FIELD(I32, error, IN(REPORT) | IN(VERDICT), INT32_MIN, 0)                                                          \
    FIELD(U64, member, IN(VERDICT), 0, UINT64_MAX)      /* the number of the member to name; 0: none */                \
    FIELD(TEXT, detail, IN(REPORT) | IN(VERDICT) | IN(STANDING), 0, WIRE_DETAIL_MAX - 1)                               \
    FIELD(U8, again, IN(REPORT), 0, 1)                  /* 1: it was sent before */

#define WIRE_CHECK_FIELDS(FIELD)                                                                                       \
    FIELD(NAME, name, ALWAYS, 1, BATON_KEY_MAX - 1)                                                                    \
    FIELD(U32, tokens, ALWAYS, 1, UINT32_MAX)                                                                          \
    FIELD(U32, held, ALWAYS, 0, UINT32_MAX)

#define WIRE_SUMS_FIELDS(FIELD)                                                                                        \
    FIELD(I32, error, ALWAYS, INT32_MIN, 0)             /* or the hashes */                                            \
    FIELD(U32, first, ALWAYS, 0, UINT32_MAX)            /* of the parts (plan_part) first, first + 1, ... */           \
    FIELD(LIST, hashes, ALWAYS, 0, WIRE_LIST_MAX)

#define WIRE_ENDED_FIELDS(FIELD)                                                                                       \
    FIELD(LIST, wants, ALWAYS, 1, WIRE_LIST_MAX)

#define WIRE_SUBJECT_FIELDS(FIELD)                                                                                     \
    FIELD(U64, member, ALWAYS, 0, UINT64_MAX)           /* its number; LEAVE: or 0, none */                            \
    FIELD(U8, alive, IN(WITNESS), WIRE_ALIVE, WIRE_UNKNOWN) /* enum wire_alive */

/* clang-format on */

#endif
