/* SPDX-License-Identifier: BSD-3-Clause */
/* survive: see survive.h. */
#include "batonrun/survive.h"

#include <stddef.h>
#include <string.h>

#include "base/number.h"

#define RADIX 64 /* so many daemons mpirun of Open MPI 4 starts itself; these start further ones */

const char *survive_danger(const struct launcher *l, uint32_t hosts, char *(*variable)(const char *name))
{
    const char *radix = variable("OMPI_MCA_routed_radix"), *flat = variable("OMPI_MCA_plm_rsh_no_tree_spawn");
    uint32_t direct = RADIX;
    if (radix != NULL && (!number_take(&radix, UINT32_MAX, &direct) || *radix != '\0'))
        direct = RADIX;
    if (l->kind != LAUNCHER_OPENMPI || hosts <= direct || (flat != NULL && strcmp(flat, "1") == 0))
        return NULL;
    return "--survive: mpirun starts its daemons as a tree, and the ranks on hosts below a lost one end with it: "
           "OMPI_MCA_plm_rsh_no_tree_spawn=1 makes mpirun start each daemon itself";
}
