/* SPDX-License-Identifier: BSD-3-Clause */
/* options: baton-bench's command line. Every rank reads the same one, before MPI starts. Pure: errors are sentences,
   and nothing is printed but the manual. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "option/option.h"

enum bench_op {
    OP_PULL,
    OP_PUSH,
    OP_SUBMIT,
    OP_MEMORY,
    OP_HANDSHAKE,
    OP_SHAPES,
    OP_FAIRNESS,
    OP_DISTANCES,
    OP_WRAPPED,
    OP_REGIONS,
    OP_LATENCY
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
    bool busy, pin, csv, version, help;
    const char *json;    /* NULL: no file */
    const char *network; /* distances: a file of switches; NULL: one switch has all nodes */
};

/** 0, or -1 with *why: an option or the operation is unknown, missing or bad. Strings point into argv. */
int options_read(struct options *o, int argc, char **argv, struct why *why);

/** The manual on standard output. */
void options_help(void);

/** The largest of --regions. */
uint64_t options_most_regions(const struct options *o);

/** "pull", "submit" …, with "+busy" behind it where the engines compute. Static text. */
const char *options_op_name(const struct options *o);

#endif
