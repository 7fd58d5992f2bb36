/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call: what the engine asked, as one record: an offer, a want, or a word about one of them (cancel, ready, append).
 *
 * The caller allocates and checks the record, then hands it to the core (core_submit). The core frees a word as soon
 * as it has done what the word asks. An offer or a want lives until its end was taken from the core and freed
 * (outcome_free).
 */
#ifndef BATON_CORE_CALL_H
#define BATON_CORE_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mpsc.h"
#include "core/outcome.h"
#include "plan/plan.h"

enum call_kind { CALL_OFFER = 1, CALL_WANT, CALL_CANCEL, CALL_READY, CALL_APPEND };

struct call_offer {
    uint32_t num_tokens, ttl_ms;
    uint32_t num_seats;                                     /* >= 1 */
    char seats[BATON_CONSUMERS_MAX][BATON_ENGINE_NAME_MAX]; /* each of an engine, by its name; "": of any */
    bool in_layers;                  /* it, or each chunk of it, begins without a layer: CALL_READY adds layers */
    bool in_chunks;                  /* it begins without a token: CALL_APPEND adds tokens and their blocks */
    uint32_t room[BATON_GROUPS_MAX]; /* blocks that fit in the place of each table */
    uint32_t num_attach;
    uint8_t attach[BATON_ATTACH_MAX]; /* for the events of wants */
};

struct call_want {
    uint32_t engine; /* its index; DIRECTORY_NONE: that of the first engine that is whole by the name below */
    uint64_t life;   /* of the engine that is meant; 0: whichever has the index */
    char awaited[BATON_ENGINE_NAME_MAX];
    uint32_t num_tokens, held_tokens, timeout_ms;
    baton_mode_t mode; /* PULL or PUSH */
    bool zero_tail;    /* what lies behind its tokens in their last blocks is to be zero */
};

struct call_ready {
    uint32_t layer_first, layer_count;
    uint32_t chunk_tokens; /* the token at which their chunk ends; 0: the newest chunk, or an offer without chunks */
};

struct call_append {
    uint32_t num_tokens; /* of the offer so far, with this chunk */
};

struct call {
    struct mpsc_item item; /* on its way to whoever makes turns */
    enum call_kind kind;
    baton_id_t id;                  /* of an offer or want its own; of a word the call's that it is about */
    uint64_t submitted_ns;          /* when the call was made */
    uint64_t due_ns;                /* when its time is over; the core moves it on */
    _Atomic uint64_t *shown_due_ns; /* the same for other threads (front/calls.h); NULL: none reads it */
    char key[BATON_KEY_MAX];        /* what offer and want meet by */
    uint32_t attempt;               /* beside the key */
    char alias[BATON_KEY_MAX];      /* what the caller calls it, where that differs; else empty */
    void *user;
    union {
        struct call_offer offer;
        struct call_want want;
        struct call_ready ready;
        struct call_append append;
    };
    struct outcome end;        /* offer, want: its terminal event */
    struct outcome *given_up;  /* likewise: the event that it is given up. NULL: it was told so */
    struct outcome *verdict;   /* the event of its verdict; NULL: none is told here, or it was told */
    struct plan_tables tables; /* into blocks */
    uint32_t num_blocks;       /* of all tables */
    uint32_t blocks[];
};

static inline struct call *call_of_item(struct mpsc_item *item)
{
    return (struct call *)((unsigned char *)item - offsetof(struct call, item));
}

/** An offer or a want: it ends in an event. */
static inline bool call_ends(const struct call *call)
{
    return call->kind == CALL_OFFER || call->kind == CALL_WANT;
}

/** When its time is over, unless the core moves that on. */
static inline uint64_t call_due_ns(const struct call *call)
{
    uint32_t ms = call->kind == CALL_OFFER ? call->offer.ttl_ms : call->want.timeout_ms;
    return call->submitted_ns + ms * UINT64_C(1000000);
}

static inline void call_set_due(struct call *call, uint64_t due_ns)
{
    call->due_ns = due_ns;
    if (call->shown_due_ns != NULL)
        atomic_store_explicit(call->shown_due_ns, due_ns, memory_order_relaxed);
}

/** The key that its caller gave it. */
static inline const char *call_name(const struct call *call)
{
    return call->alias[0] != '\0' ? call->alias : call->key;
}

/**
 * Copies tables into a call whose blocks[] has place for all blocks: table i gets place for room[i] of them (NULL: for
 * those that it has). Each id stands for per_id[i] blocks, or (NULL) for one.
 */
void call_set_tables(struct call *call, const struct plan_tables *tables, const uint32_t *per_id, const uint32_t *room);
/** Adds tables to those of an offer, each to the one of its group. False: there is no room, and nothing has changed. */
bool call_add_tables(struct call *offer, const struct plan_tables *more);

/** Also frees its outcomes that were not handed out. NULL is allowed. */
void call_free(struct call *call);

#endif
