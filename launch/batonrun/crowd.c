/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd: see crowd.h. */
#include "batonrun/crowd.h"

#include <inttypes.h>
#include <stdlib.h>

#include "batonrun/bind.h"
#include "place/allocation.h"

/* `threads`: 0: not known. */
static int check_host(const char *host, uint32_t ranks, uint32_t threads, struct why *why)
{
    const uint64_t most = (uint64_t)threads * CROWD_RANKS;
    if (threads == 0 || ranks <= most)
        return 0;
    return why_set(why,
                   "%" PRIu32 " ranks on host %.80s, whose ranks may use %" PRIu32
                   " hardware thread%s, are more than %d "
                   "for each: take fewer (%" PRIu64 " there) or more hosts, or --oversubscribe permits more",
                   ranks, host, threads, threads == 1 ? "" : "s", CROWD_RANKS, most);
}

int crowd_check(const struct placement *p, uint32_t ranks, struct why *why)
{
    if (p == NULL) {
        char here[HOSTLIST_NAME_BYTES];
        allocation_here(here);
        return check_host(here, ranks, bind_count(NULL), why);
    }
    const struct world *w = &p->world;
    uint32_t *of_node = calloc((size_t)w->num_nodes + 1, sizeof *of_node);
    int rc = of_node != NULL ? 0 : why_set(why, "no memory for %" PRIu32 " hosts", w->num_nodes);
    for (uint32_t r = 0; rc == 0 && r < ranks; r++)
        of_node[p->places[r].node]++;
    for (uint32_t i = 0; rc == 0 && i < w->num_nodes; i++)
        rc = check_host(w->nodes[i].host, of_node[i], w->nodes[i].machine->num_pus, why);
    free(of_node);
    return rc;
}
