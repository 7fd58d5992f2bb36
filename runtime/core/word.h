/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word: what a consumer's rank said to this producer about one of its wants: that it wants (WANT), or that it needs
 * nothing more (DONE, CANCEL, RELEASE: a release). A plain record, so its fields are open to all.
 *
 * A word names its want by the want's number, which its rank gives once, and the offer that it is about:
 *
 *   WANT, RELEASE   by key and attempt
 *   DONE, CANCEL    by the generation of the lease that its rank was granted, which this rank gives once; key and
 *                   attempt lead there. A CANCEL may name none (0): it ends what that very want was granted, and
 *                   nothing else
 *
 * One offer at a time has a key and an attempt, but others may follow it. So an attempt remembers which wants of a rank
 * were of its former offers (former.c): what these still say is not about the next one. Ranks of this node that took
 * their lease by themselves name it by slot and generation (core/handoff.h).
 */
#ifndef BATON_CORE_WORD_H
#define BATON_CORE_WORD_H

#include "core/contact.h"
#include "wire/message.h"

struct word {
    uint32_t peer;
    bool release;  /* else a want */
    int32_t error; /* release: how the want ended */
    uint64_t want;
    uint32_t asks, tokens, held;
    uint8_t mode;
    uint64_t until_ns;       /* the want's deadline */
    struct peer_table table; /* push: the consumer's */
};

struct word word_of_want(const struct core *core, uint32_t peer, const struct wire_message *m);
struct word word_of_end(uint32_t peer, const struct wire_message *m);

/**
 * Refuses a want. `generation`: of the offer that it is about, which then waits for the word of its end; 0: of none.
 */
void word_nack(struct core *core, const struct word *w, uint64_t generation, int error, const char *detail);

#endif
