/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict_inside: reports and rounds. For verdict.c, round.c and report.c, and for tests that look inside. */
#ifndef BATON_VERDICT_VERDICT_INSIDE_H
#define BATON_VERDICT_VERDICT_INSIDE_H

#include "base/hash.h"
#include "core/state.h"
#include "core/timer.h"
#include "verdict/verdict.h"

/** One call of mine that ended, and whose verdict I await. */
struct report {
    uint64_t id;
    UT_hash_handle hh;
    struct outcome *verdict; /* NULL: it is not told here */
    struct wire_message message;
    struct timer timer;
    uint64_t pause_ns, until_ns;
};

/* Hashed as its bytes are: it has no padding. */
struct round_name {
    struct wire_name request;
    uint32_t verb;     /* enum call_kind */
    uint64_t producer; /* the number of the first member of the producer's engine */
};
_Static_assert(sizeof(struct round_name) == sizeof(struct wire_name) + sizeof(uint32_t) + sizeof(uint64_t),
               "struct round_name has padding");

struct round {
    struct round_name name;
    UT_hash_handle hh;
    struct round *later;       /* of the same name: a next attempt */
    struct round *prev, *next; /* in verdicts->rounds, oldest first */
    bool closed, asked;
    uint32_t missing;
    struct timer timer;
    baton_status_t status;
    int32_t error, peer; /* the worst that was reported, and by which rank; DONE: 0, -1 */
    char detail[96];
    uint32_t standing_of; /* index of the missing rank that `standing` is about */
    char standing[96];
    uint64_t ids[]; /* by index in the engine: the call that it reported; 0: none yet */
};

struct verdicts {
    struct report *reports; /* by id */
    struct round *rounds;   /* oldest first */
    struct round *rounds_by_name;
    uint32_t num_rounds, num_closed;
    uint64_t evicted_ns; /* when a closed round last made room */
};

static inline const struct directory_engine *my_engine(const struct core *core)
{
    return core->c.directory->engines[core_engine(core)];
}

static inline baton_verdicts_t mode_of(const struct core *core)
{
    return core->c.directory->engines[core_engine(core)]->verdicts;
}

static inline uint32_t leader(const struct core *core)
{
    return my_engine(core)->ranks[0];
}

/** Whether the rank of that index holds a part of the cache. */
static inline bool takes_part(const struct core *core, uint32_t index)
{
    return my_engine(core)->members[index].num_boxes > 0;
}

/** The engine of a member, in the directory; DIRECTORY_NONE: that member is not there. */
static inline uint32_t engine_of_member(const struct core *core, uint64_t number)
{
    const uint32_t rank = directory_rank(core->c.directory, number);
    return rank != DIRECTORY_NONE ? core->c.directory->engine_of[rank] : DIRECTORY_NONE;
}

static inline struct verdicts *verdicts_of(const struct core *core)
{
    return core->above.self;
}

/* report.c */

/** Tells this rank's engine. */
void report_emit(struct core *core, struct outcome *verdict, const struct wire_verdict *v);
/** Makes a verdict of a report that got none. */
void report_fail_message(const struct core *core, struct wire_message *m, int error, const char *why);
/** The first rank is told by *m. `verdict`: the event of its verdict, or NULL. 0, or as peer_begin. */
int report_create(struct core *core, const struct wire_message *m, struct outcome *verdict);
void report_on_verdict(struct core *core, const struct wire_message *m);
/**
 * The number of the first member of the producer's engine, of a call of mine; or, if that is not there, the life that
 * was meant.
 */
uint64_t report_producer(const struct core *core, const struct call *call);
void reports_fail(struct core *core, int error, const char *why);
void reports_destroy(struct core *core);

/* round.c */

void round_on_report(struct core *core, uint32_t rank, const struct wire_message *m);
void round_on_standing(struct core *core, uint32_t rank, const struct wire_message *m);
/** The first rank asks where this one stands. */
void round_on_ask(struct core *core, uint32_t rank, const struct wire_message *m);
void rounds_lose(struct core *core, uint32_t rank);
void rounds_destroy(struct core *core);

#endif
