/* SPDX-License-Identifier: BSD-3-Clause */
/* decode: the job of a decode rank: want the request's blocks, and check every element that came, and that no other
   did. */
#ifndef REPLAY_DECODE_H
#define REPLAY_DECODE_H

#include "replay/engine.h"

extern const struct engine_job decode_job;

#endif
