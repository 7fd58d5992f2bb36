/* SPDX-License-Identifier: BSD-3-Clause */
/* explain: one page that says which rank runs where, why, and what that is worth. */
#ifndef BATON_PLACE_EXPLAIN_H
#define BATON_PLACE_EXPLAIN_H

#include <stdio.h>

#include "baton.h"
#include "place/choice.h"

#define EXPLAIN_WARNINGS 2

/** All that the page is about. Nothing is changed by printing it. */
struct explain {
    const struct allocation *allocation;
    const char *machines; /* where the nodes' descriptions come from */
    const char *costs;    /* where the distances come from */
    const char *model;    /* what the flows are counted for, in words */
    const char *uncut;    /* why the engines cannot be cut of that model, so that no transfers count; NULL: they can */
    const struct engine_size *sizes;
    const struct choice *choice;
    const struct world *world;
    const struct job *job;                  /* as it was placed: bytes within engines have their weight */
    const struct job *unweighted;           /* the same with all bytes as they are */
    const char *warnings[EXPLAIN_WARNINGS]; /* what the ranks' places lack; NULL: no more */
    bool bound;                             /* ranks have their cores to themselves */
    const uint32_t *seat_of;
    const struct world_place *places;
};

/** 0, or -1: no memory. */
int explain_print(FILE *out, const struct explain *e);

/* Parts of the page. */

/** One sentence, without the end of the line: what is placed where. */
void explain_headline(FILE *out, const struct explain *e);
/** What flows where, and what launchers' defaults cost beside this. 0, or -1: no memory. */
int explain_costs(FILE *out, const struct explain *e);
/** A remark where most cores have no rank and --cores-per-rank gives ranks more. 0, or -1: no memory. */
int explain_idle_cores(FILE *out, const struct explain *e);
void explain_role(const struct explain *e, uint32_t rank, baton_open_params_t *role);
/** Bytes as people read them: 1.2 GB, 34 MB. Returns text. */
const char *explain_bytes(double bytes, char text[32]);
/** "0-3", or "2" where both are the same. Returns text. */
const char *explain_range(uint32_t first, uint32_t last, char text[32]);

#define EXPLAIN_GPUS_BYTES 512

/**
 * "cuda3 (0),cuda2 (1)": the GPUs of a rank as the system names them, with their numbers in BATON_GPU; as many as there
 * is room for. Empty: it has none.
 */
const char *explain_gpus(const struct explain *e, uint32_t rank, char text[EXPLAIN_GPUS_BYTES]);

#endif
