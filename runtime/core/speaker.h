/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * speaker: repeats a word to a peer, with growing pauses, until it is answered. At most one speaker to a peer has a
 * message in the peer's queue. The others wait for it in the order in which they came, and have no message yet: each
 * makes its own when the message before has left. So thousands of words need no memory, each is said as fast as the
 * peer takes messages, messages of other kinds do not hold them up, and a word that has become void is not said. A
 * speaker's pause begins when its word has left.
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
