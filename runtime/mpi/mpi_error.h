/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_error: what a call of MPI returned, in words and as a class. Any thread. */
#ifndef BATON_MPI_MPI_ERROR_H
#define BATON_MPI_MPI_ERROR_H

/** Sets the sentence "<call> failed: <what MPI says>" and returns `error`. */
int mpi_error_set(int error, const char *call, int rc);

/** The class of an error that a call returned: the standard has names for classes only. */
int mpi_error_class(int rc);

#endif
