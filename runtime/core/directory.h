/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory: the members that this process knows of, by engine. A member comes with its row (directory_join) and goes
 * (directory_leave). In a world of MPI all come at start.
 *
 * A RANK is the index of a member in this process's tables. It is small, it is given again, and it never leaves the
 * process: between processes a member is named by its number. In a world of MPI it is the rank of the communicator.
 *
 * An ENGINE is forming until all of its tp * pp ranks are there, then whole, and gone from the moment when the first of
 * them goes. One engine of a name is there at a time. The name of one that is gone is free at once. What is known of
 * it stays, its ranks and its slot among the engines with it, until directory_forget. A rank of another life is a rank
 * of another engine.
 *
 * Whoever steps the core changes the directory, between steps. Tables have room for the most that can be there at a
 * time, so nothing moves; memory of what is not used is not touched.
 */
#ifndef BATON_CORE_DIRECTORY_H
#define BATON_CORE_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "wire/message.h"
#include "wire/row.h"

#define DIRECTORY_NONE UINT32_MAX

enum directory_state { DIRECTORY_FORMING, DIRECTORY_WHOLE, DIRECTORY_GONE };

/**
 * What is known of one member alone. Its engine, its place there and how its cache is cut stand in directory_engine,
 * once for all of its ranks or, as the planner takes them, in `members`.
 */
struct directory_row {
    uint64_t number; /* the member's */
    uint64_t card_offset;
    const char *host; /* as it says; "": not known */
    uint32_t card_bytes;
    uint32_t model, block_tokens; /* 0: it has no cache */
    uint32_t features;            /* WIRE_ROW_..., or 0 */
    uint32_t node;
    uint8_t version, role, rules; /* see wire/row.h */
    uint8_t num_boxes;            /* 0: it has no cache */
};

struct directory_host;

struct directory_engine {
    char name[BATON_ENGINE_NAME_MAX];
    uint32_t index; /* among the engines */
    enum directory_state state;
    uint32_t tp, pp, num_ranks;
    uint32_t num_joined;         /* of these, have come */
    uint32_t num_left;           /* of these, have gone again */
    baton_verdicts_t verdicts;   /* whom they are told to */
    uint64_t told_life;          /* by its ranks; 0: they name none */
    uint64_t life;               /* of this start of it; 0: not known before it is whole */
    uint32_t *ranks;             /* in order of (pp_rank, tp_rank): a rank's place here is its index. DIRECTORY_NONE: it
                                    has not come */
    struct plan_member *members; /* the same order */
    uint32_t told;               /* the first of its ranks that told of its model; DIRECTORY_NONE: none did */
    struct directory_host *hosts;         /* their names, each once */
    struct directory_engine *prev, *next; /* gone: among `gone` */
    UT_hash_handle by_name;
};

/** All of its ranks have come, though some may have gone again: so all is known of who does what in it. */
static inline bool directory_is_complete(const struct directory_engine *e)
{
    return e->num_joined == e->num_ranks;
}

struct directory_node;

struct directory {
    uint32_t most;              /* members that can be there at a time */
    uint32_t num_ranks;         /* all ranks are below it; between them may be free ones */
    struct directory_row *rows; /* by rank */
    uint32_t *engine_of;        /* by rank: engine index; DIRECTORY_NONE: the rank is free */
    uint32_t *index_of;         /* by rank: index in its engine */
    uint32_t *next_on_node;     /* by rank: the next rank of its node, the first after the last */
    uint32_t *free_ranks;       /* those below num_ranks that are free: the last is given first */
    uint32_t num_free_ranks;
    uint32_t *by_number;       /* heads of chains of ranks, by their members' numbers: a rank + 1; 0: none */
    uint32_t *next_by_number;  /* by rank: the same */
    uint32_t number_mask;      /* of the chains */
    uint32_t num_engines;      /* slots of engines that were ever used */
    uint32_t num_free_engines; /* of these, are free */
    struct directory_engine *
        *engines;                   /* by index; NULL: a free slot. In a world of MPI in order of their lowest ranks */
    struct directory_engine *named; /* forming and whole ones, by name */
    struct directory_engine *gone;
    struct directory_node *nodes;
};

/** A directory of at most so many members at a time. 0 or BATON_ENOMEM. */
int directory_create(uint32_t most, struct directory **out);
/**
 * The directory of a world whose members all come at start, from its rows (num_ranks * WIRE_ROW_BYTES bytes): member i
 * has rank i, and each engine is whole. 0, or an error of directory_join, or BATON_EGEOMETRY: a rank is missing.
 */
int directory_of_world(const uint8_t *rows, uint32_t num_ranks, struct directory **out, struct plan_why *why);
void directory_destroy(struct directory *d);

/**
 * A member comes: decodes and checks its row, and gives it a rank. Ranks of one engine must agree on life, tp and pp,
 * on the model and on block_tokens as far as they tell, fill each (pp_rank, tp_rank) once, and number at most
 * BATON_ENGINE_RANKS_MAX.
 * 0; or, with *why, and nothing has changed: BATON_EMESSAGE (the row is malformed), BATON_EEXIST (the number is known),
 * BATON_EGEOMETRY (ranks of the engine contradict each other, or it has a member in that place), BATON_EGONE (it has
 * lost a rank), BATON_EBUSY (as many are there as may be), BATON_ENOMEM.
 */
int directory_join(struct directory *d, const uint8_t row[WIRE_ROW_BYTES], uint32_t *rank, struct plan_why *why);

/** That member has gone, once: its engine is gone with it. */
void directory_leave(struct directory *d, uint32_t rank);

/**
 * Forgets an engine all of whose ranks that came have gone: the ranks and its slot are free, and the numbers are
 * unknown. Nobody may have anything to do with it any more.
 */
void directory_forget(struct directory *d, uint32_t engine);

/** The wire version that two ranks speak: the older of theirs. */
unsigned directory_version(const struct directory *d, uint32_t rank, uint32_t peer);

/**
 * What names this start of an engine in all processes: a hash of its name and its life, never 0. The engine is whole or
 * gone.
 */
uint64_t directory_identity(const struct directory *d, uint32_t engine);

/** How far a rank is from another one. What is not known of a place is not the same place. */
baton_distance_t directory_distance(const struct directory *d, uint32_t from, uint32_t to);

/** The rank whose member has that number, or DIRECTORY_NONE. */
uint32_t directory_rank(const struct directory *d, uint64_t number);

/**
 * Index of the engine of that name, forming or whole, or DIRECTORY_NONE. Takes as long with many engines as with few.
 */
uint32_t directory_find(const struct directory *d, const char *engine);

#endif
