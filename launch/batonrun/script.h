/* SPDX-License-Identifier: BSD-3-Clause */
/* script: the file by which a batch system starts the same world as a command line of batonrun. */
#ifndef BATON_LAUNCH_SCRIPT_H
#define BATON_LAUNCH_SCRIPT_H

#include <stdint.h>
#include <stdio.h>

enum script_kind { SCRIPT_NONE, SCRIPT_SLURM, SCRIPT_PBS };

/** What the job asks for. */
struct script_job {
    uint32_t ranks;
    uint32_t nodes;          /* 0: the batch system chooses how many */
    uint32_t ranks_per_node; /* where `nodes` is not 0 */
    uint32_t cpus_per_rank;
    uint32_t minutes; /* 0: the batch system's own limit */
};

struct arguments;
struct allocation;

/** `hosts`: those that the user named; NULL: none. */
struct script_job script_job_of(const struct arguments *a, const struct allocation *hosts);

/**
 * Prints the file. Its last line is the command line argv, which arguments_parse has read: words that became NULL there
 * are left out, since the job has hosts of its own.
 */
void script_print(const struct script_job *job, const struct arguments *a, int argc, char *const *argv, FILE *out);

#endif
