/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shim: a slow or failing MPI that keeps to the standard. It stands between the library and MPI (its MPI_… call PMPI_…)
 * and does by rule what a real one does now and then: one call is refused, takes effect late, completes in error, or
 * changes places with others. Until a rule is set it changes nothing.
 *
 * What MPI_Get and MPI_Put begin has no request: it is only sure to be done with the request or the flush that follows.
 * The shim keeps such operations back until then, so that one whose batch fails is still to come.
 */
#ifndef BATON_TESTS_SHIM_H
#define BATON_TESTS_SHIM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum shim_call { SHIM_GET, SHIM_RGET, SHIM_PUT, SHIM_RPUT, SHIM_ISEND, SHIM_IRECV, SHIM_FLUSH, SHIM_CALLS };

enum shim_fault {
    SHIM_FAIL,  /* the call is refused: nothing of it is done */
    SHIM_LATE,  /* it takes effect late, and its request (that of its batch) completes then */
    SHIM_BREAK, /* its request (that of its batch) completes in error; the bytes of a get or put come late even so. A
                   message is lost. A flush is refused after it was done */
    SHIM_SWAP, /* a batch is done in the other order, and completes after the one that follows. A message arrives and is
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

/** From now on. NULL: no fault any more; what is late stays so. Any thread. */
void shim_set(const struct shim_rule *rule);
/** How many calls the rule has met. */
uint32_t shim_met(void);
/** How many calls of that kind came since the rule was set. */
uint32_t shim_calls(enum shim_call call);
/** Operations that are late, and were not done yet. */
uint32_t shim_late(void);
/** Late operations are done as they fall due, by this and by every test of a request. Call it on the reactor's thread. */
void shim_progress(void);
/** The clock; the monotonic one where it is NULL. */
extern uint64_t (*shim_clock)(void);

/** Says that windows have the separate memory model. */
void shim_separate_model(bool is);
/**
 * A batch's request completes before its operations are done, which come `late_ns` later: what no promise allows. Those
 * of several gets, and any of puts, that have an operation of at least so many bytes.
 */
void shim_break_promise(bool gets, bool puts, int least_bytes, uint64_t late_ns);

/** Frees the windows that were made since the last call and never freed. Collective over those who made them. */
void shim_free_windows(void);

#endif
