/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allocation: the hosts that ranks may run on, as a batch system or the user names them. Parsed only: the environment
 * and files come through functions of the caller.
 *
 * Sources of the formats: Slurm's sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"; PBS Professional's User's Guide,
 * PBS_NODEFILE; LSF's environment variable reference, LSB_DJOB_HOSTFILE and LSB_MCPU_HOSTS; mpirun(1) of Open MPI and
 * of MPICH's Hydra for host files.
 */
#ifndef BATON_PLACE_ALLOCATION_H
#define BATON_PLACE_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"
#include "place/hostlist.h"

struct allocation_host {
    char *name;     /* visible ASCII that needs no escapes in JSON, in a shell or in a launcher's files */
    uint32_t slots; /* ranks that it was given for; 0: not said */
    uint32_t times; /* that a list named it */
    uint32_t group; /* part of a heterogeneous job, from 0 */
};

/** Where it comes from. HERE: nothing names hosts, so it is this machine. */
enum allocation_source {
    ALLOCATION_HERE,
    ALLOCATION_SLURM,
    ALLOCATION_PBS,
    ALLOCATION_LSF,
    ALLOCATION_HOSTFILE,
    ALLOCATION_HOSTS
};

struct allocation {
    enum allocation_source source;
    uint32_t num_hosts, num_groups;
    struct allocation_host *hosts; /* each name once in a group, in the order in which they were named */
    struct allocation_name *names; /* of a list that is being read; else NULL */
};

/** The environment, and whole files as text (free it; NULL: cannot be read). */
typedef char *(*allocation_variable_fn)(const char *name);
typedef char *(*allocation_file_fn)(const char *path);

/**
 * What the batch system gave. Each of these returns 0, or -1 with *why: a name or number that cannot be read (it is
 * quoted), no hosts at all, too many, or no memory. Call allocation_fini in both cases.
 */
int allocation_from_batch(struct allocation *a, allocation_variable_fn variable, allocation_file_fn file,
                          struct why *why);
/**
 * "a:4,n[0-3]:4,c": names with slots, and numbers in brackets as Slurm writes them. No blanks. Here and in a host file
 * "localhost" is this machine, by its own name.
 */
int allocation_from_hosts(struct allocation *a, const char *text, struct why *why);
/**
 * The text of a host file: a host a line, with "slots=N" (Open MPI) or ":N" (MPICH) behind it, "#" before a comment. A
 * name may have numbers in brackets. "max_slots=N" has no effect, and any other word is refused, with its line. A host
 * that stands on several lines has the slots of all; without slots, as many as lines, if there are several.
 */
int allocation_from_hostfile(struct allocation *a, const char *text, struct why *why);
void allocation_fini(struct allocation *a);

/** This machine's own name; "localhost" if it has none. */
void allocation_here(char name[HOSTLIST_NAME_BYTES]);
/** Whether a name stands for it: localhost, 127.0.0.1. */
bool allocation_is_here(const char *name);

const char *allocation_source_name(enum allocation_source source);

#endif
