/* SPDX-License-Identifier: BSD-3-Clause */
/* options: baton-bench's command line. Every rank reads the same one, before MPI starts. Pure: errors are sentences,
   and nothing is printed but the manual. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "option/option.h"

/* Each operation: OP_…, its word on the command line, and the function that runs it (bench.h). */
#define OPERATIONS_MAP(X)                                                                                              \
    X(PULL, "pull", pull_run)                                                                                          \
    X(PUSH, "push", pull_run)                                                                                          \
    X(LATENCY, "latency", latency_run)                                                                                 \
    X(SUBMIT, "submit", submit_run)                                                                                    \
    X(MEMORY, "memory", memory_run)                                                                                    \
    X(HANDSHAKE, "handshake", handshake_run)                                                                           \
    X(SHAPES, "shapes", shapes_run)                                                                                    \
    X(FAIRNESS, "fairness", fairness_run)                                                                              \
    X(DISTANCES, "distances", distances_run)                                                                           \
    X(WRAPPED, "wrapped", wrapped_run)                                                                                 \
    X(REGIONS, "regions", regions_run)                                                                                 \
    X(FANOUT, "fanout", many_run)                                                                                      \
    X(INCAST, "incast", many_run)                                                                                      \
    X(ALLPAIRS, "allpairs", many_run)                                                                                  \
    X(INTERFERENCE, "interference", interference_run)                                                                  \
    X(IDLE, "idle", idle_run)                                                                                          \
    X(SCALE, "scale", scale_run)                                                                                       \
    X(WORLDS, "worlds", worlds_run)

#define OPERATION_ENUM(op, word, run) OP_##op,
enum bench_op { OPERATIONS_MAP(OPERATION_ENUM) };

enum bench_format { FORMAT_TABLE, FORMAT_CSV, FORMAT_OSU };

/* States of the two engines before the call that latency times. */
enum bench_state { STATE_ASLEEP, STATE_POLLED, STATE_STREAK, STATE_SPINNING, STATE_BUSY, STATE_ALL };

/* The calls from which latency times a transfer. */
enum bench_from { FROM_WANT, FROM_OFFER, FROM_READY, FROM_CALLS };

/* Whose memory a cache is. */
enum own_kind {
    OWN_SLAB,    /* none of the benchmark's own: Baton allocates the cache */
    OWN_PRIVATE, /* anonymous pages of this process */
    OWN_MAPPED,  /* each region a memfd of its own, whose descriptor stays open */
    OWN_KINDS
};

/* What latency alone takes. */
struct latency_options {
    enum own_kind memory;
    enum bench_state state;
    unsigned from; /* bit FROM_... for each call */
    bool verdicts; /* both engines ask for them */
};

struct options {
    enum bench_op op;
    struct option_list block;   /* bytes of a block */
    struct option_list batch;   /* blocks of a transfer */
    struct option_list blocks;  /* memory: blocks of a cache */
    struct option_list regions; /* regions: regions of a rank's cache */
    uint64_t pool;              /* bytes a side; 0: chosen by cache size and batch */
    uint64_t iters;             /* measured transfers a row; 0: chosen by size and time */
    uint64_t transfers;         /* memory: transfers before the measurement */
    double seconds;             /* a row's time, where iters is 0 */
    uint64_t seed;
    uint64_t want_ms;        /* handshake: deadline of a want */
    double stop_seconds;     /* handshake: after which the stopped engine is continued */
    const char *stop_engine; /* handshake: NULL: none is stopped */
    uint64_t load;           /* fairness: bytes of big wants of an engine */
    uint32_t stop_engines;   /* fairness: engines that are stopped */
    enum bench_format format;
    struct latency_options latency;
    bool busy, pin, version, help;
    const char *json;    /* NULL: no file */
    const char *with;    /* interference: VARIABLE=VALUE; NULL: none */
    const char *network; /* distances: a file of switches; NULL: one switch has all nodes */
};

/** 0, or -1 with *why: an option or the operation is unknown, missing or bad. Strings point into argv. */
int options_read(struct options *o, int argc, char **argv, struct why *why);

/** The manual on standard output. */
void options_help(void);

/** "pull", "submit" …, with "+busy" behind it where the engines compute. Static text. */
const char *options_op_name(const struct options *o);

/** "asleep", "polled" … Static text. */
const char *options_state_name(enum bench_state state);

/** "want", "offer" or "ready". Static text. */
const char *options_from_name(enum bench_from from);

/**
 * A value of BATON_TUNE (NULL: it is not set) with these tunables in place of those of the same names, or with none at
 * all (""): malloc'ed, or NULL, no memory.
 */
char *options_tuned(const char *given, const char *changes);

#endif
