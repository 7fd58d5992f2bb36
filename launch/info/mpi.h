/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: what MPI gives on this host, found by helper programs, and why it does not give what Baton needs. One thread. */
#ifndef BATON_INFO_MPI_H
#define BATON_INFO_MPI_H

#include "info/info.h"

/** Adds facts and problems. Takes a minute at most. `mpirun`: the launcher's program; NULL: that in PATH. */
void mpi_find(struct info *i, const char *mpirun);

#endif
