/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * speaker: a word that is said to a peer again and again, with growing pauses, until it is answered. One message of a
 * speaker's waits among the messages to that peer, in its turn. While it does, other speakers wait behind it in the
 * order in which they came, without a message: each makes its message when the one before has left. So thousands of
 * words need no memory, each has its turn as fast as the peer takes messages, messages of other kinds do not hold them
 * up, and none is said that is void by then. The pause begins when the word has been said.
 *
 * Who repeats a word embeds a speaker: leg.c and ends.c. core.c lets them speak.
 */
#ifndef BATON_CORE_SPEAKER_H
#define BATON_CORE_SPEAKER_H

#include "core/core.h"
#include "core/queue.h"
#include "core/timer.h"

struct speaker;

/** Sends the word that is to be said by now. May stop the speaker, or free it. */
typedef void speaker_say(struct core *core, struct speaker *speaker);

/** Zeroed before. */
struct speaker {
    struct queued place; /* it waits among those who speak to the same peer, */
    struct timer timer;  /* or pauses */
    uint64_t pause_ns;
    uint32_t peer, number; /* number: of the message that said it last */
    speaker_say *say;
};

/** All speakers have stopped. Before post_destroy. */
void speakers_destroy(struct core *core);

/** Speaks to that peer from now on, within this call if no speaker's message to the peer waits. */
void speaker_begin(struct core *core, struct speaker *speaker, uint32_t peer, speaker_say *how);
/** It speaks again after the first pause, which begins now. */
void speaker_pause(struct core *core, struct speaker *speaker, uint32_t peer, speaker_say *how);
/** No-op where it does not speak. */
void speaker_stop(struct core *core, struct speaker *speaker);

/** Those who wait speak, as far as the port takes it. After post_flush. */
void speakers_flush(struct core *core);

#endif
