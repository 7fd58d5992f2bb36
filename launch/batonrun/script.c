/* SPDX-License-Identifier: BSD-3-Clause */
/* script: see script.h. */
#include "batonrun/script.h"

#include <inttypes.h>

#include "batonrun/arguments.h"
#include "batonrun/command.h"
#include "place/allocation.h"

#define CPUS_PER_RANK 2 /* its own thread, and the reactor's or a copy worker's */

struct script_job script_job_of(const struct arguments *a, const struct allocation *hosts)
{
    struct script_job job = {.ranks = arguments_ranks(a), .cpus_per_rank = CPUS_PER_RANK};
    if (a->placement.cores_per_rank > CPUS_PER_RANK)
        job.cpus_per_rank = a->placement.cores_per_rank;
    /* The ranks' time, and a minute to start and end the job. */
    job.minutes = a->timeout_s > 0 ? (a->timeout_s + 59) / 60 + 1 : 0;
    if (hosts == NULL)
        return job;
    job.nodes = hosts->num_hosts;
    for (uint32_t i = 0; i < hosts->num_hosts; i++)
        if (hosts->hosts[i].slots > job.ranks_per_node)
            job.ranks_per_node = hosts->hosts[i].slots;
    if (job.ranks_per_node == 0)
        job.ranks_per_node = (job.ranks + job.nodes - 1) / job.nodes;
    return job;
}

static void print_slurm(const struct script_job *job, FILE *out)
{
    if (job->nodes > 0)
        fprintf(out, "#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=%u\n", job->nodes, job->ranks_per_node);
    else
        fprintf(out, "#SBATCH --ntasks=%u\n", job->ranks);
    fprintf(out, "#SBATCH --cpus-per-task=%u\n", job->cpus_per_rank);
    if (job->minutes > 0)
        fprintf(out, "#SBATCH --time=%u\n", job->minutes);
}

/* Where the number of nodes is not known, each rank is a chunk that PBS puts anywhere. */
static void print_pbs(const struct script_job *job, FILE *out)
{
    uint32_t chunks = job->nodes > 0 ? job->nodes : job->ranks, ranks = job->nodes > 0 ? job->ranks_per_node : 1;
    fputs("#PBS -V\n", out); /* the job has the variables of the shell that submits it, as Slurm's jobs do */
    const uint64_t cpus = ranks * (uint64_t)job->cpus_per_rank;
    fprintf(out, "#PBS -l select=%u:ncpus=%" PRIu64 ":mpiprocs=%u\n", chunks, cpus, ranks);
    if (job->nodes > 1)
        fputs("#PBS -l place=scatter\n", out); /* each chunk on a node of its own */
    if (job->minutes > 0)
        fprintf(out, "#PBS -l walltime=%u:%02u:00\n", job->minutes / 60, job->minutes % 60);
    fputs("cd \"$PBS_O_WORKDIR\" || exit 1\n", out);
}

void script_print(const struct script_job *job, const struct arguments *a, int argc, char *const *argv, FILE *out)
{
    fputs("#!/bin/sh\n", out);
    if (a->script == SCRIPT_SLURM)
        print_slurm(job, out);
    else
        print_pbs(job, out);
    fputs("exec ", out);
    command_print_word(argv[0], out);
    for (char *const *word = argv + 1; word < argv + argc; word++) {
        const char *text = word == a->marks.colon ? ":" : word == a->marks.end ? "--" : *word;
        if (text == NULL)
            continue;
        putc(' ', out);
        command_print_word(text, out);
    }
    putc('\n', out);
}
