/* SPDX-License-Identifier: BSD-3-Clause */
/* decode: the job of a decode rank. It wants the request's blocks, and checks that every element came, and that nothing
   else was written. */
#ifndef REPLAY_DECODE_H
#define REPLAY_DECODE_H

#include "replay/engine.h"

extern const struct engine_job decode_job;

#endif
