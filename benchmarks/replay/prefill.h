/* SPDX-License-Identifier: BSD-3-Clause */
/* prefill: the job of a prefill rank: fill the request's blocks as a model would, at once or as its prefill goes on,
   offer them, poison them after. */
#ifndef REPLAY_PREFILL_H
#define REPLAY_PREFILL_H

#include "replay/engine.h"

extern const struct engine_job prefill_job;

#endif
