/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_mpi: those functions of MPI that the rma path and the control channel call after start, in one process and one
 * thread, without MPI_Init. It lies below the shim, which makes things go wrong. By itself it does everything at once.
 */
#ifndef BATON_TESTS_FAKE_MPI_H
#define BATON_TESTS_FAKE_MPI_H

#include <mpi.h>
#include <stdint.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

/** The test's: the address of `bytes` bytes from offset `at` of a rank's segment on. */
extern uint8_t *(*fake_address)(int rank, MPI_Aint at, int bytes);

/** The window of all ranks; a rank's handle of their communicator. */
MPI_Win fake_window(void);
MPI_Comm fake_comm(int rank);

/** How many messages to that rank nobody has received. */
int fake_messages(int rank);
#ifdef OMPI_HAVE_MPI_EXT_FTMPI
/** A process is lost: tests of that rank's receives fail, while nothing has come, until the rank acknowledges it. */
void fake_interrupt(int rank);
#endif
/** Forgets every request, receive and message. */
void fake_reset(void);

#endif
