/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: batonrun's command line. It is parsed only: nothing is run, printed or read from the environment. */
#ifndef BATON_LAUNCH_ARGUMENTS_H
#define BATON_LAUNCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#define ARGUMENTS_EXPORTS_MAX 64
#define ARGUMENTS_RANKS_MAX 65536

/** One side of the world: so many engines, of tp x pp ranks each. 0 engines: there is no such side. */
struct side {
    uint32_t engines, tp, pp;
};

struct arguments {
    bool help, dry_run, survive;
    struct side prefill, decode;
    uint32_t timeout_s;                         /* 0: none */
    const char *exports[ARGUMENTS_EXPORTS_MAX]; /* VAR or VAR=VALUE */
    unsigned num_exports;
    char **program; /* NULL-terminated, within argv */
    char error[256];
};

/** 0, or -1 with a sentence in error. argv must be NULL-terminated and outlive *out. */
int arguments_parse(int argc, char **argv, struct arguments *out);

/**
 * "ExT" or "ExTxP", each 1 or more. Where E is 0 the others do not matter and become 1. False: malformed or too large.
 */
bool side_parse(const char *text, struct side *out);

uint32_t side_ranks(const struct side *s);

extern const char arguments_usage[];

#endif
