/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late: one rank is killed while the caches of all come late. With "waiting" it dies before it has declared its own,
 * with "going" at the moment at which it has, so that the others may be anywhere in the second half of start. They are
 * told so in time, and close.
 *
 *   late VICTIM waiting|going
 *
 * Each survivor prints one line. It says at last whether the sentence of baton_close names the victim.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "with_clock.h"
#include "with_geometry.h"

static int rank, victim;

static void declare(baton_t *b)
{
    baton_geometry_t g = small_geometry(16, 64);
    baton_tensor_t tensor;
    baton_cache_t *cache;
    check(rank, baton_geometry_layout(&g, &tensor, 0), "layout");
    const baton_region_t region = {.size = sizeof region, .base = malloc(g.bytes), .bytes = g.bytes};
    check(rank, baton_cache_wrap(b, &g, &region, 1, &cache), "wrap");
}

int main(int argc, char **argv)
{
    int level, rc;
    baton_t *b;
    if (argc != 3)
        return 2;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    victim = atoi(argv[1]);
    baton_open_params_t me = BATON_INIT(baton_open_params_t);
    check(rank, baton_role_from_env(&me), "role");
    me.flags = BATON_OPEN_CACHE_LATER;
    check(rank, baton_open(MPI_COMM_WORLD, &me, &b), "open");
    check(rank, baton_start(b), "start");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim && strcmp(argv[2], "waiting") == 0)
        raise(SIGKILL);
    declare(b);
    if (rank == victim)
        raise(SIGKILL);
    double begun = now_ms();
    while ((rc = baton_cache_ready(b)) == BATON_EAGAIN)
        usleep(1000);
    double told = now_ms();
    int closed = baton_close(b);
    char line[256], is[16], misses[16];
    snprintf(is, sizeof is, "rank %d", victim);
    snprintf(misses, sizeof misses, "missing: %d", victim);
    bool names = strstr(baton_errmsg(), is) != NULL || strstr(baton_errmsg(), misses) != NULL;
    snprintf(line, sizeof line, "rank %d: %s after %.0f ms, close %s after %.0f ms, %s\n", rank, baton_errname(rc),
             told - begun, baton_errname(closed), now_ms() - told, names ? "named" : "unnamed");
    fputs(line, stdout);
    fflush(stdout);
    baton_exit(0);
}
