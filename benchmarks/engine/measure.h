/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure: two figures of one prefill and one decode engine of one rank each. How long a hand-off takes, both engines
 * asleep, beside a copy of the same bytes by one thread; and how much slower other requests decode while blocks arrive.
 * It needs neither scheduler nor trace: the blocks are drawn, and what they hold does not matter.
 */
#ifndef ENGINE_MEASURE_H
#define ENGINE_MEASURE_H

#include "engine/serve.h"

/** Sets what the measurement needs of the options: the load has a request for each hand-off. */
void measure_options(struct options *o);

/** Measures, and prints on the decode rank. 0, or -1 with *why: a transfer failed, or the engines are other ones. */
int measure_run(struct serve *s, struct why *why);

#endif
