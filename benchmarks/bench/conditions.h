/* SPDX-License-Identifier: BSD-3-Clause */
/* conditions: what a figure depends on. It is printed above the figures. */
#ifndef BENCH_CONDITIONS_H
#define BENCH_CONDITIONS_H

#include <stdint.h>

#include "bench/bench.h"

/** Bytes of the last-level data cache that one core sees; 0 where the system does not say. */
uint64_t conditions_l3_bytes(void);

/** Notes the machine, the MPI library, the environment and the options. */
void conditions_note(struct bench *b);

/** Notes Baton's own description (baton_describe). */
void conditions_note_baton(struct bench *b, const baton_t *baton);

#endif
