/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank: the shim by which mpirun starts each rank. It finds out which rank it is, runs the program as a child with the
 * variables of its role, passes signals on, reports how the program ended, and ends the processes that it left behind.
 */
#ifndef BATON_LAUNCH_RANK_H
#define BATON_LAUNCH_RANK_H

#include "launch/arguments.h"

#define RANK_OPTION "--rank"       /* batonrun's first argument, where it is the shim */
#define RANK_LAYOUT "BATON_LAUNCH" /* the variable with both sides as ExTxP, prefill first, separated by a space */
#define RANK_REPORTS "BATON_LAUNCH_REPORTS" /* the variable with the tag of reports; unset: none are wanted */

/** Runs the program; returns the status to exit with. */
int rank_main(char **program);

/** The name of a rank's engine, "prefill0" say. */
void rank_engine(const struct side *prefill, const struct side *decode, uint32_t rank, char name[32]);

/** Prints "batonrun: " and a sentence on standard error. Returns `status`. */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
