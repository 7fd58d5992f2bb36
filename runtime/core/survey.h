/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survey: who serves whom between two engines. Owns, for each consumer engine, which of its ranks read from this one
 * and what a push would write to them (struct readers). This is found out piece by piece (work.h), from the first word
 * of that engine on. Words of its ranks wait here meanwhile.
 *
 * core.c asks before it dispatches a word to an offer, and hands on those that waited. link.c and offer.c read answers.
 */
#ifndef BATON_CORE_SURVEY_H
#define BATON_CORE_SURVEY_H

#include "core/core.h"
#include "wire/message.h"

struct readers;

/** 0 or BATON_ENOMEM. */
int survey_create(struct core *core);
void survey_destroy(struct core *core);

/**
 * Which producer ranks serve rank `index` of the consumer, and what: malloc'ed; their number, or plan_sources' error.
 */
int survey_sources(struct core *core, const struct directory_engine *consumer, uint32_t index,
                   const struct directory_engine *producer, struct plan_source **out, struct plan_why *why);
/** Whether a rank's cache can be filled by that engine, so that a want of it can begin: 1 or 0; or BATON_ENOMEM. */
int survey_served(struct core *core, const struct directory_engine *consumer, uint32_t index,
                  const struct directory_engine *producer);

/** Forgets it. None of its ranks has a word here that waits. */
void survey_forget(struct core *core, uint32_t engine);
/** That rank has gone: none of its words waits any more. */
void readers_drop_words(struct core *core, uint32_t rank);
/** Finds out about that engine, if that was not begun yet, all its ranks and mine have come, and there is memory. */
void readers_begin(struct core *core, uint32_t engine);
/** The readers of some engine are being found out: words of its ranks may wait. */
bool survey_is_open(const struct core *core);
/** The readers of that engine; NULL: not all are known yet. */
const struct readers *readers_of(const struct core *core, uint32_t engine);
/** Whether its rank of that index reads from me. */
bool readers_have(const struct readers *r, uint32_t index);
/** The boxes that a push writes to that rank, and how many. */
const struct plan_box *readers_boxes(const struct readers *r, uint32_t index, uint32_t *num);

/**
 * The readers of a message's engine are to be known. True: not yet, and the message was kept; or dropped, since not all
 * ranks of its engine or of mine have come. It is said again.
 */
bool readers_await(struct core *core, const struct port_event *e);
/** Takes a message that was kept and need not wait any more. False: there is none. */
bool readers_take_word(struct core *core, uint32_t *peer, struct wire_message *m);

#endif
