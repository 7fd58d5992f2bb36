/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_mpi: as much of MPI as the rma path and the control channel call after start, in one process and one thread,
 * without MPI_Init. Below the shim, which does what goes wrong; by itself it does everything at once and well.
 */
#ifndef BATON_TESTS_FAKE_MPI_H
#define BATON_TESTS_FAKE_MPI_H

#include <mpi.h>
#include <stdint.h>

/** Where a rank's segment lies: `bytes` from offset `at` of it. */
extern uint8_t *(*fake_address)(int rank, MPI_Aint at, int bytes);

/** The window of all, and a rank's own side of the communicator of all. */
MPI_Win fake_window(void);
MPI_Comm fake_comm(int rank);

/** A message to that rank that nobody has received. */
int fake_messages(int rank);
/** Forgets every request, receive and message. */
void fake_reset(void);

#endif
