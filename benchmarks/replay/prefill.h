/* SPDX-License-Identifier: BSD-3-Clause */
/* prefill: the job of a prefill rank. It fills the request's blocks as a model would, at once or while its prefill goes
   on, offers them, and poisons them afterwards. */
#ifndef REPLAY_PREFILL_H
#define REPLAY_PREFILL_H

#include "replay/engine.h"

extern const struct engine_job prefill_job;

#endif
