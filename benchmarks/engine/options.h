/* SPDX-License-Identifier: BSD-3-Clause */
/* options: baton-serve's command line. Every rank reads the same one. Pure. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/scheduler.h"
#include "engine/shape.h"
#include "option/why.h"

enum side { SIDE_PREFILL = 0, SIDE_DECODE = 1, SIDES = 2 };

/** The cache of each rank of one side. */
struct options_cache {
    uint32_t block_tokens;
    double pool;     /* has blocks for so many of the longest requests */
    uint32_t blocks; /* so many in any case; 0: as the pool says */
    unsigned layout; /* baton_layout_t */
    unsigned memory; /* a row of memory.h */
};

enum sabotage { SABOTAGE_NONE, SABOTAGE_FLIP, SABOTAGE_LOSE };

struct options {
    const char *trace; /* NULL: made here */
    uint32_t requests, scale;
    double speed; /* 0: all requests are there at once */
    struct shape shape;
    struct options_cache cache[SIDES];
    uint32_t step_tokens, running;
    unsigned prefix; /* 0 or 1 */
    enum stream stream;
    double abort;
    unsigned mode; /* baton_mode_t */
    uint32_t timeout_ms, patience_ms;
    enum sabotage sabotage;
    bool undivided;
    uint32_t measure;   /* pairs; 0: requests are served */
    const char *output; /* NULL: no file */
    bool version, help;
};

/** 0, or -1 with *why. Strings point into argv. */
int options_read(struct options *o, int argc, char **argv, struct why *why);
void options_help(void);

/** The load that the options ask for. 0, or -1 with *why. */
int options_load(const struct options *o, struct load *load, struct why *why);

#endif
