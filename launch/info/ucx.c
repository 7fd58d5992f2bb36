/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: see ucx.h. */
#include "info/ucx.h"

#ifdef INFO_UCX

#include <limits.h>
#include <unistd.h>

#include "info/helper.h"

#define DEADLINE_S 20

void ucx_find(struct info *i)
{
    char path[PATH_MAX];
    struct helper h;
    helper_path(INFO_HELPERS "/baton-info-ucx", path, sizeof path);
    helper_run(&h, (char *const[]){path, NULL}, environ, DEADLINE_S);
    info_take(i, &h.info);
    info_fini(&h.info);
    if (h.status != 0 || !h.is_whole)
        helper_blame(
            &h, i, "the program that asks UCX for its devices",
            "install the UCX that Baton was built with, and let the loader find it (LD_LIBRARY_PATH, ldconfig)");
}

#else

void ucx_find(struct info *i)
{
    info_fact(i, INFO_OF_ALL, "ucx", "version", "unknown: Baton was built without UCX's development files");
}

#endif
