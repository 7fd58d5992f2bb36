/* SPDX-License-Identifier: BSD-3-Clause */
/* distances: how far each decode engine is from each prefill engine, by a file that batonrun --pairs wrote. Every rank
   reads the same file, and everything in it is checked. */
#ifndef REPLAY_DISTANCES_H
#define REPLAY_DISTANCES_H

#include <jansson.h>
#include <stdint.h>

#include "option/why.h"
#include "replay/roster.h"

struct distances {
    uint32_t prefills, decodes;
    double *of; /* of prefill engine p and decode engine d: of[p * decodes + d]. HUGE_VAL: the file does not say it */
};

/** 0, or -1 with *why and *out empty. The table must name a decode engine for each prefill engine of the roster. */
int distances_parse(const json_t *table, const struct roster *roster, struct distances *out, struct why *why);
int distances_open(const char *path, const struct roster *roster, struct distances *out, struct why *why);

void distances_fini(struct distances *d);

#endif
