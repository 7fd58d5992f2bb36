/* SPDX-License-Identifier: BSD-3-Clause */
/* options: baton-replay's command line. Every rank reads the same one. Pure: errors are sentences, nothing is printed
   but the manual. */
#ifndef REPLAY_OPTIONS_H
#define REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "model/model.h"
#include "option/why.h"

enum side { SIDE_PREFILL = 0, SIDE_DECODE = 1, SIDES = 2 };

/** What is broken on purpose, to show that the checks find it. */
enum sabotage { SABOTAGE_NONE, SABOTAGE_FLIP, SABOTAGE_HEAD, SABOTAGE_STALE, SABOTAGE_SHORT, SABOTAGE_LATE };

#define SPEEDS_MAX 16

/** Paces of the arrivals, a run for each. 0, which stands alone: as fast as possible. */
struct speeds {
    uint32_t count;
    double x[SPEEDS_MAX];
};

struct options {
    const char *trace; /* NULL: made here */
    const char *pairs; /* NULL: decode engines take requests in turn */
    uint32_t requests;
    bool requests_given;         /* a trace with fewer is then an error */
    struct model_cut cut[SIDES]; /* they differ in block_tokens and layout only */
    uint32_t stream;             /* an or of baton_offer_flags_t, for every other offer; 0: no prefill is modelled */
    uint32_t chunk_tokens, prefill_tokens_per_s;
    double held;           /* share of the requests of which the decode side has a leading part already */
    uint64_t cache_tokens; /* of each decode engine's prefix cache; 0: it has none */
    uint64_t pool_bytes;   /* 0: follows from what is moved */
    uint32_t inflight;
    struct speeds speeds;
    uint32_t deadline_ms; /* for a request's latency; 0: none */
    bool busy;
    baton_progress_mode_t progress; /* AUTO: a thread where MPI allows it */
    baton_mode_t mode;              /* AUTO: as Baton chooses */
    baton_path_t require_path;      /* BATON_PATH_NONE: any */
    enum sabotage sabotage;
    const char *json; /* NULL: no file */
    uint32_t timeout_ms;
    uint64_t seed;
    bool version, help;
};

/** 0, or -1 with *why: an option that is unknown, lacks its value or has a bad one. Strings point into argv. */
int options_read(struct options *o, int argc, char **argv, struct why *why);

/** The manual on standard output. */
void options_help(void);

const char *options_sabotage_name(enum sabotage kind);
const char *options_progress_name(baton_progress_mode_t mode);
const char *options_stream_name(uint32_t stream);
const char *options_mode_name(baton_mode_t mode);
const char *options_path_name(baton_path_t path);

#endif
