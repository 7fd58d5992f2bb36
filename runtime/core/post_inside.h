/* SPDX-License-Identifier: BSD-3-Clause */
/* post_inside: the fields of struct post. For post.c and speaker.c, and for tests that look inside. */
#ifndef BATON_CORE_POST_INSIDE_H
#define BATON_CORE_POST_INSIDE_H

#include "core/post.h"
#include "wire/sequence.h"

/** A message that the port could not take yet. */
struct unsent {
    struct unsent *prev, *next;
    uint32_t peer, bytes;
    uint8_t data[];
};

/** The state of the messages to and from one peer. */
struct letters {
    uint32_t sent;       /* the number of the last message to it */
    uint32_t unsent;     /* how many wait */
    uint32_t blocked_at; /* the last flush in which it took nothing */
    uint32_t spoken;     /* has_spoken: the number of the last message of a speaker's */
    struct sequence seen;
    bool closed, has_spoken;
};

struct post {
    const struct core_config *c;
    struct counts *stats;
    struct unsent *unsent;
    uint32_t num_unsent;
    struct listener *listeners; /* peers that speakers wait to speak to (speaker.c) */
    uint32_t flushes;
    struct letters of[]; /* by rank */
};

#endif
