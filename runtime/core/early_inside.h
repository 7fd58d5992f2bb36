/* SPDX-License-Identifier: BSD-3-Clause */
/* early_inside: what early.c counts. For early.c, and for tests that look inside. */
#ifndef BATON_CORE_EARLY_INSIDE_H
#define BATON_CORE_EARLY_INSIDE_H

#include "core/early.h"

struct early {
    uint32_t kept[EARLY_KINDS]; /* of all ranks */
    uint32_t of[][EARLY_KINDS]; /* by rank */
};

#endif
