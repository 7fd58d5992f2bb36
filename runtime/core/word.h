/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word: what a consumer's rank said to this producer about one of its wants: that it wants (WANT), or that it needs
 * nothing more (DONE, CANCEL, RELEASE: a release). A plain record, so its fields are open to all.
 */
#ifndef BATON_CORE_WORD_H
#define BATON_CORE_WORD_H

#include "core/contact.h"
#include "wire/message.h"

struct word {
    uint32_t peer;
    bool release;  /* else a want */
    int32_t error; /* release: how the want ended */
    uint64_t want, ticket_incarnation, ticket_serial;
    uint32_t asks, tokens, held;
    uint8_t mode;
    uint64_t until_ns;       /* the want's deadline */
    struct peer_table table; /* push: the consumer's */
};

struct word word_of_want(const struct core *core, uint32_t peer, const struct wire_message *m);
struct word word_of_end(uint32_t peer, const struct wire_message *m);

/** Whether its ticket, if it has one, is of the offer with that serial of this rank. */
bool word_names(const struct core *core, const struct word *w, uint64_t serial);

/**
 * Refuses a want. `generation`: of the offer that it is about, which then waits for the word of its end; 0: of none.
 */
void word_nack(struct core *core, const struct word *w, uint64_t generation, int error, const char *detail);

#endif
