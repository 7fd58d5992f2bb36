/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close: ranks that make no calls. One of them is killed, the others close. Each prints how long that took, counted
 * from the later of its call and the death, and why no window was freed.
 *
 *   close VICTIM before|during|left
 *
 *   before  the victim is dead when they close
 *   during  they wait for the victim in baton_close when it dies
 *   left    one rank closes and leaves soon, the others follow some time later: they must not name that rank as lost
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"
#include "with_clock.h"

#define LIVES_MS 500

int main(int argc, char **argv)
{
    int rank, size, level;
    baton_t *b;
    baton_open_params_t me = {.size = sizeof me};
    if (argc != 3)
        return 2;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(rank, baton_role_from_env(&me), "role");
    check(rank, baton_open(MPI_COMM_WORLD, &me, &b), "open");
    check(rank, baton_start(b), "start");
    MPI_Barrier(MPI_COMM_WORLD);
    double death = now_ms() + LIVES_MS, begin = death;
    int victim = atoi(argv[1]), first = (victim + 1) % size;
    if (rank == victim) {
        sleep_until(death);
        raise(SIGKILL);
    }
    if (strcmp(argv[2], "during") == 0)
        begin = death - LIVES_MS / 2;
    else if (strcmp(argv[2], "before") == 0 || rank == first)
        begin = death + 200;
    else
        begin = death + 6000;
    sleep_until(begin);
    int rc = baton_close(b);
    printf("rank %d: %s after %.0f ms: %s\n", rank, baton_errname(rc), now_ms() - (begin > death ? begin : death),
           baton_errmsg());
    baton_exit(rc != BATON_EPEER);
}
