/* SPDX-License-Identifier: BSD-3-Clause */
/* A library to preload: MPI says that it is of another version. */
#include <mpi.h>
#include <stdio.h>

__attribute__((visibility("default"))) int MPI_Get_library_version(char *version, int *length)
{
    int rc = PMPI_Get_library_version(version, length);
    if (rc == MPI_SUCCESS)
        *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Open MPI v4.1.0, played by a test");
    return rc;
}
