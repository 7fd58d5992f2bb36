/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: see ucx.h. */
#include "info/ucx.h"

#ifdef INFO_UCX

#include "info/helper.h"

#define DEADLINE_S 20

void ucx_find(struct info *i)
{
    helper_ask(i, INFO_HELPERS "/baton-info-ucx", NULL, DEADLINE_S, "the program that asks UCX for its devices",
               "install the UCX that Baton was built with, and let the loader find it (LD_LIBRARY_PATH, ldconfig)");
}

#else

void ucx_find(struct info *i)
{
    info_fact(i, INFO_OF_ALL, "ucx", "version", "unknown: Baton was built without UCX's development files");
}

#endif
