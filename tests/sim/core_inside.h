/* SPDX-License-Identifier: BSD-3-Clause */
/* core_inside: the core's private headers, for tests that look inside. */
#ifndef BATON_TESTS_CORE_INSIDE_H
#define BATON_TESTS_CORE_INSIDE_H

#include "core/attempt_inside.h"
#include "core/check.h"
#include "core/contact_inside.h"
#include "core/early_inside.h"
#include "core/ends.h"
#include "core/leg_inside.h"
#include "core/mover_inside.h"
#include "core/offer_inside.h"
#include "core/peer_inside.h"
#include "core/post_inside.h"
#include "core/state.h"
#include "core/survey.h"
#include "verdict/verdict_inside.h"
#include "core/want_inside.h"
#include "wire/message.h"

#endif
