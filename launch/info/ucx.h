/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: what UCX finds on this host, by a helper program. One thread. */
#ifndef BATON_INFO_UCX_H
#define BATON_INFO_UCX_H

#include "info/info.h"

/** Adds facts and problems. Where this build has no UCX, a fact says so. */
void ucx_find(struct info *i);

#endif
