/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seat: who takes an offer. Owns the seats of one offer, one for each consumer engine that may take it, and, once an
 * engine has taken a seat, what each of its ranks (a reader) was granted and how it ended. A reader is
 * expected if, by the directory, it reads a part of its cache from this rank. The offer is complete when each expected
 * reader of each seat has ended. Readers are kept by identity and not counted, so a repeated end does no harm.
 *
 * The files of the offer call it, and push.c names a reader by it. It knows neither.
 */
#ifndef BATON_CORE_SEAT_H
#define BATON_CORE_SEAT_H

#include "core/core.h"
#include "core/word.h"

struct seats;
struct reader; /* one rank of an engine that has taken a seat */
struct push;

enum reader_state { READER_NONE, READER_GRANTED, READER_ENDED };

/** Seats of engines of those names, or of any (""), free so far. They must outlive the seats. NULL: no memory. */
struct seats *seats_create(const char (*names)[BATON_ENGINE_NAME_MAX], uint32_t num);
/**
 * From now on ranks of this node take the seats of that lease by themselves. The words in shared memory say which
 * engine has which seat, and a seat that is taken stays taken while its engine is there.
 */
void seats_share(struct seats *s, const struct port_handoff *handoff, uint32_t slot, uint64_t generation);
/** No reader may be written to any more. */
void seats_destroy(struct core *core, struct seats *s);

/** Every expected reader has ended. */
bool seats_are_complete(const struct seats *s);
/** Expected readers that have not ended; of a free seat, one. */
uint32_t seats_missing(const struct seats *s);
/** The first error that a reader ended with, and its rank (-1: none). */
int32_t seats_error(const struct seats *s, int32_t *rank);
/** The last deadline of a want that was granted and has not ended; 0: none. */
uint64_t seats_wanted_until(const struct seats *s);
/** The engines that are there and whose seats, which name them, are free still; their number. */
uint32_t seats_untaken(const struct core *core, const struct seats *s, uint32_t engines[BATON_CONSUMERS_MAX]);
/**
 * That engine has gone. Its seat is free again, if none of its ranks had begun; then, or where all of its ranks have
 * ended, nothing of it is known any more. False: a rank had begun, and now cannot end.
 */
bool seats_lose(struct core *core, struct seats *s, uint32_t engine);
/** Whether anything is known of ranks of that engine. */
bool seats_know(const struct seats *s, uint32_t engine);
/** All readers, one after the other; NULL: the first, or there is no other. */
struct reader *seats_next(const struct seats *s, const struct reader *r);

/** That rank, of an engine that has a seat; NULL: it has none. */
struct reader *reader_of(const struct core *core, const struct seats *s, uint32_t rank);
/**
 * The same, and its engine takes a seat if one is free. NULL with *error: BATON_ESEAT; BATON_EPEER (it
 * has gone), BATON_EBUSY (not all is known of it yet) or BATON_ENOMEM.
 */
struct reader *reader_take(struct core *core, struct seats *s, uint32_t rank, int *error);
/** The same of a rank that has taken the seat by words. So it has it, also if its engine has gone since. */
struct reader *reader_took(struct core *core, struct seats *s, uint32_t rank, int *error);

uint32_t reader_rank(const struct core *core, const struct reader *r);
enum reader_state reader_state(const struct reader *r);
bool reader_is_expected(const struct reader *r);
/** The want that it was granted last, and how often it had asked for that. 0: none. */
uint64_t reader_want(const struct reader *r);
uint32_t reader_asks(const struct reader *r);
/** The push that writes to it; NULL: it reads by itself. */
struct push *reader_push(const struct reader *r);
void reader_set_push(struct reader *r, struct push *push);

/** Business with it begins, unless it was GRANTED before. 0, or as peer_begin. */
int reader_grant(struct core *core, struct reader *r);
/** It is GRANTED that want, whose deadline keeps the lease alive. */
void reader_note(struct reader *r, const struct word *w);
/** That want has ended before it was granted anything. */
void reader_note_end(struct reader *r, uint64_t want);
/** Nothing of it is granted any more, but it may come again. */
void reader_rest(struct core *core, struct reader *r);
/**
 * Undoes a grant that a word about a former offer has brought. The reader may come again. Unless seats are shared,
 * another engine may take its seat.
 */
void reader_undo(struct core *core, struct seats *s, struct reader *r);
/** It has ended. */
void reader_end(struct core *core, struct seats *s, struct reader *r, int32_t error);
/** Its rank was lost: its end is not waited for, only the quiet of what is written to it. */
void reader_lose(struct core *core, struct seats *s, struct reader *r);

#endif
