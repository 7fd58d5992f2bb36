/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank: the shim by which mpirun starts each rank. It finds out which rank it is, takes its cores, and sets the
 * variables of its role and those that MPI and UCX need on this node (profile.h). It runs the program as a child,
 * passes signals on, reports how the program ended, and ends the processes that it left behind.
 */
#ifndef BATON_LAUNCH_RANK_H
#define BATON_LAUNCH_RANK_H

#define RANK_OPTION "--rank"                /* batonrun's first argument, where it is the shim */
#define RANK_LAYOUT "BATON_LAYOUT"          /* the variable with both sides (base/layout.h) */
#define RANK_PLACES "BATON_LAUNCH_PLACES"   /* the variable with all ranks' places (bind.h); unset: they have none */
#define RANK_SURVIVE "BATON_LAUNCH_SURVIVE" /* the variable that is set where the ranks outlive one that is lost */
#define RANK_HELPERS "BATON_REACTOR_CPUS"   /* the setting of the library that names the reactor's hardware threads */
#define RANK_GPUS "BATON_GPU"               /* the variable that names the rank's GPUs */
#define RANK_METRICS "BATON_METRICS"        /* the setting of the library that names the job's pages of metrics */
#define RANK_METRICS_FILE "BATON_LAUNCH_METRICS" /* the variable with the file of --metrics; unset: none is wanted */
#define RANK_REPORTS "BATON_LAUNCH_REPORTS"      /* the variable with the tag of reports; unset: none are wanted */

/**
 * Runs the rank's program; returns the status to exit with. words[0]: how many of the words behind it are the prefill
 * ranks' program; those after them are the decode ranks', or, if there are none, both sides have the first. Each of
 * these begins with RANK_MARK, since a word ":" would begin a second program of mpirun's.
 */
int rank_main(char **words);

#define RANK_MARK '='

#endif
