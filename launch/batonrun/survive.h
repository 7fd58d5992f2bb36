/* SPDX-License-Identifier: BSD-3-Clause */
/* survive: what the launcher itself would do to ranks that are to outlive the loss of a host (--survive). */
#ifndef BATON_LAUNCH_SURVIVE_H
#define BATON_LAUNCH_SURVIVE_H

#include <stdint.h>

#include "batonrun/launcher.h"

/**
 * A sentence that names the danger and the setting that helps; NULL: none is known. `hosts`: on which the launcher
 * itself starts its daemons, by ssh. `variable`: getenv.
 */
const char *survive_danger(const struct launcher *l, uint32_t hosts, char *(*variable)(const char *name));

#endif
