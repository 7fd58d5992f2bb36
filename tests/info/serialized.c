/* SPDX-License-Identifier: BSD-3-Clause */
/* A library to preload: MPI gives MPI_THREAD_SERIALIZED, whatever is asked for. */
#include <mpi.h>

#define HERE __attribute__((visibility("default")))

HERE int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)required;
    return PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, provided);
}

HERE int MPI_Query_thread(int *provided)
{
    int rc = PMPI_Query_thread(provided);
    if (rc == MPI_SUCCESS && *provided > MPI_THREAD_SERIALIZED)
        *provided = MPI_THREAD_SERIALIZED;
    return rc;
}
