/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff: how ranks of a node find each other's offers, take leases of them and give them back without a message: the
 * part of the port (core/port.h) that leads to words in their segments. shm/handoff.h is the memory behind it, and
 * shm/HANDOFF.md says why it is right.
 *
 * THREAD. All calls are those of the thread that steps the core. None blocks.
 */
#ifndef BATON_CORE_HANDOFF_H
#define BATON_CORE_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#define HANDOFF_NOBODY 0              /* no engine: a seat that is free */
#define HANDOFF_LEFT_MS_MAX 0x3fffffu /* of the time that a reader's word can name: 70 minutes */

/** What a want must match. */
struct handoff_name {
    uint32_t attempt;
    char key[BATON_KEY_MAX];
};

/** What is known of an offer. */
struct handoff_offer {
    uint64_t table_offset; /* in the table arena of its rank */
    uint32_t table_entries;
    uint32_t num_tokens;
    uint32_t num_attach;
    uint8_t attach[BATON_ATTACH_MAX];
    struct handoff_name name;
};

enum handoff_state { HANDOFF_NONE, HANDOFF_READING, HANDOFF_DONE, HANDOFF_FAILED };

/** What a rank of the node says of a lease. */
struct handoff_word {
    enum handoff_state state;
    int error;        /* FAILED: a BATON_E... */
    uint32_t left_ms; /* READING: of its want's time when it began */
};

/** What a rank wants, and for which engine. */
struct handoff_want {
    struct handoff_name name;
    uint64_t engine;
    uint32_t num_tokens; /* at most; or, if is_whole, exactly */
    bool is_whole;
    uint32_t left_ms;
};

/** What became of taking a lease. */
enum handoff_taken {
    HANDOFF_ASK,     /* nothing: there is no such offer, or something is unusual. The producer is asked by message */
    HANDOFF_TAKEN,   /* give_back must follow */
    HANDOFF_TOO_LATE /* the offer ended while the want's engine took its seat. *grant says which lease it had */
};

/** A lease that was taken. */
struct handoff_grant {
    uint32_t slot;
    uint64_t generation;
    struct handoff_offer offer;
};

/**
 * Slots and generations are those of the leases (core/lease.h), peers are ranks of the directory, and engines are named
 * by their identities (core/directory.h), which are the same in all processes.
 */
struct port_handoff {
    void *self;

    /* ---- the producer's ---- */

    /** Before port.raise(slot, generation): what is known, and the seats' engines (HANDOFF_NOBODY: free). */
    void (*write)(void *self, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                  const uint64_t *seats, uint32_t num_seats);
    /** After it: the offer can be found from now on. */
    void (*enter)(void *self, uint32_t slot);
    /** Before the generation is raised beyond this one: why the lease ends. */
    void (*say_why)(void *self, uint32_t slot, uint64_t generation, int error);
    /** After it: the offer can be found no more. */
    void (*leave)(void *self, uint32_t slot);
    /** A seat for an engine that asks by message: that which it took by words, or a free one. Its index; -1: none. */
    int (*bind)(void *self, uint32_t slot, uint64_t generation, uint64_t engine);
    /**
     * The engine of that seat has gone. `is_free`: it is free again, unless the offer names an engine for it. Else
     * nobody takes it any more.
     */
    void (*vacate)(void *self, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free);
    /** What that rank says of a lease of mine. One that cannot reach my segment says nothing. */
    struct handoff_word (*word)(void *self, uint32_t slot, uint64_t generation, uint32_t peer);
    /** Takes a slot of which a reader has said something since. False: there is none. */
    bool (*told)(void *self, uint32_t *slot);

    /* ---- the consumer's ---- */

    /** Finds an offer of that rank and takes a lease of it. */
    enum handoff_taken (*take)(void *self, uint32_t peer, const struct handoff_want *want, struct handoff_grant *grant);
    /**
     * That rank granted a lease by message. True: from now on it is as one that was taken. False: it has ended, is of
     * an offer that is found by messages alone, or this rank has had it before.
     */
    bool (*hold)(void *self, uint32_t peer, uint32_t slot, uint64_t generation, uint32_t left_ms);
    /** Nothing is read any more: done (0), or failed with an error. Wakes that rank. */
    void (*give_back)(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int error);
    /** Why a lease has ended whose generation is raised. False: it is not known any more. */
    bool (*why)(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int *error);
};

#endif
