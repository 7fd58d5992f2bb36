/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher: the program that starts the ranks. Each kind has a row in one table: its names, and how its command line is
 * made from a description that is the same for all kinds.
 *
 * Sources: mpirun(1) of Open MPI 4.1; prterun's help of PRRTE 3.0.8, which is the mpirun of Open MPI 5; mpiexec.hydra's
 * help of MPICH 4.2.1; srun(1) of Slurm 22.05.
 */
#ifndef BATON_LAUNCH_LAUNCHER_H
#define BATON_LAUNCH_LAUNCHER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "batonrun/command.h"
#include "option/option.h"

/** FIND stands for the one that fits the MPI library. */
enum launcher_kind { LAUNCHER_FIND, LAUNCHER_OPENMPI, LAUNCHER_PRRTE, LAUNCHER_HYDRA, LAUNCHER_SRUN };
#define LAUNCHER_KINDS (LAUNCHER_SRUN + 1)

/** The MPI that Baton was built with, as far as launchers differ by it. */
enum launcher_library { LIBRARY_ANY, LIBRARY_OPENMPI_4, LIBRARY_OPENMPI_5, LIBRARY_MPICH };

struct launcher {
    enum launcher_kind kind;
    enum launcher_library library;
    char program[PATH_MAX]; /* looked for in PATH, unless it has a slash */
    unsigned version;       /* 402 is 4.2; 0: not known */
    bool is_prterun;        /* PRRTE's own command, which takes Open MPI's options only when told to */
};

/** Where a rank goes. */
struct launch_host {
    const char *name;
    uint32_t component; /* of a heterogeneous Slurm job, from 0 on; in the order of ranks it never becomes less */
};

/** What is to be started. */
struct launch {
    uint32_t ranks;
    const struct launch_host *hosts; /* of each rank; NULL: the launcher chooses them */
    bool survive;
    bool crowded;               /* there are more ranks than there is room for */
    const char *const *exports; /* VAR or VAR=VALUE */
    unsigned num_exports;
    char *const *words; /* the user's own, NULL-terminated; NULL: none */
    char *const *shim;  /* what runs on each rank, NULL-terminated */
};

/** The names of the kinds, all but FIND. */
extern const struct option_choice launcher_choices[];

/** By the first words of MPI_Get_library_version, "Open MPI v4.1.4". */
enum launcher_library launcher_library_of(const char *text);

/** What the user asked for, and where this process runs. */
struct launcher_wish {
    enum launcher_kind kind;
    const char *program; /* NULL: a usual name */
    const char *library; /* what the MPI library says of itself; NULL or empty: not known */
    bool in_slurm_job;
    bool spans_components; /* of a heterogeneous Slurm job, which srun alone does without ssh */
    bool dry;              /* nothing will be run, so the program need not be there */
};

#define LAUNCHER_STATUS_MISSING 127
#define LAUNCHER_STATUS_WRONG 1

/**
 * Finds the launcher: by the wish, else by what programs of the usual names print for --version. Returns 0, or the
 * status to exit with and *why. A launcher that the user named although it is not of the library's kind is taken; *why
 * has a warning then, and is empty otherwise.
 */
int launcher_find(struct launcher *l, const struct launcher_wish *wish, struct why *why);

/**
 * The text of the file by which this launcher is told the ranks' hosts; free it. NULL: it needs none, since the launch
 * names no hosts, or the command line does.
 */
char *launcher_host_file(const struct launcher *l, const struct launch *what);

/** Adds the variables that the launcher itself needs to *c. */
void launcher_presets(const struct launcher *l, struct command *c);

/** Adds the command line to *c. `host_file`: the path of that file; NULL: there is none. */
void launcher_command(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c);

#endif
