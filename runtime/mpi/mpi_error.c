/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_error: see the header. */
#include "mpi/mpi_error.h"

#include <mpi.h>

#include "base/error.h"

int mpi_error_set(int error, const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS)
        return error_set(error, "%s failed: MPI error %d", call, rc);
    return error_set(error, "%s failed: %.120s", call, text);
}

int mpi_error_class(int rc)
{
    int class = MPI_ERR_OTHER;
    return MPI_Error_class(rc, &class) == MPI_SUCCESS ? class : MPI_ERR_OTHER;
}
