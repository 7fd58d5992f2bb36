/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shim: an MPI that is slow or fails, but keeps to the standard. It stands between the library and MPI: its MPI_…
 * functions call PMPI_…. By rule it does what a real MPI does now and then: one call is refused, takes effect late,
 * completes in error, or changes places with others. Without a rule it changes nothing.
 *
 * MPI_Get and MPI_Put have no request: what they begin is certain to be done only with the request or the flush that
 * follows. The shim keeps such operations back until then. So where a batch fails, its first operations are still to
 * come.
 */
#ifndef BATON_TESTS_SHIM_H
#define BATON_TESTS_SHIM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum shim_call { SHIM_GET, SHIM_RGET, SHIM_PUT, SHIM_RPUT, SHIM_ISEND, SHIM_IRECV, SHIM_FLUSH, SHIM_CALLS };

enum shim_fault {
    SHIM_FAIL,  /* the call is refused: nothing of it is done */
    SHIM_LATE,  /* it takes effect late, and its request, which is that of its batch, completes then */
    SHIM_BREAK, /* its request completes in error, and the bytes of a get or put come late nevertheless. A message is
                   lost. A flush is done, and then refused */
    SHIM_SWAP,  /* a batch is done in reverse order, and completes after the one that follows. A message arrives, but is
                   reported as failed */
    SHIM_FAULTS
};

struct shim_rule {
    enum shim_call call;
    enum shim_fault fault;
    uint32_t nth;     /* 1: the first call of that kind from now on */
    uint32_t times;   /* so many in a row; 0: 1 */
    uint64_t late_ns; /* how late */
};

extern const char *const shim_call_name[SHIM_CALLS], *const shim_fault_name[SHIM_FAULTS];

/** The rule holds from now on. NULL: no more faults, but what is late stays late. Any thread. */
void shim_set(const struct shim_rule *rule);
/** How many calls the rule has met. */
uint32_t shim_met(void);
/** How many calls of that kind came since the rule was set. */
uint32_t shim_calls(enum shim_call call);
/** Operations that are late and not done yet. */
uint32_t shim_late(void);
/** Does the late operations that are due, as every test of a request does. Call it on the reactor's thread. */
void shim_progress(void);
/** The clock. NULL: the monotonic one. */
extern uint64_t (*shim_clock)(void);

/** Whether MPI_Win_get_attr says that windows have the separate memory model. */
void shim_separate_model(bool is);
/**
 * Breaks promises of the quirks table: the request of a batch completes `late_ns` before its operations are done. Of
 * batches of several gets, of batches of puts, or of both; of those with an operation of at least so many bytes.
 */
void shim_break_promise(bool gets, bool puts, int least_bytes, uint64_t late_ns);

/** The requests of the next `num` batches never complete, though their operations are done at once. */
void shim_lose_completions(uint32_t num);

/** Frees the windows that were made since the last call and not freed. Collective over the ranks that made them. */
void shim_free_windows(void);

#endif
