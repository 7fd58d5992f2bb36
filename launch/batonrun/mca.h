/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mca: Open MPI's files of parameters, by the rules by which Open MPI reads them: which file sets a parameter, and
 * whether somebody chose that. Any thread; the environment must not change meanwhile.
 */
#ifndef BATON_LAUNCH_MCA_H
#define BATON_LAUNCH_MCA_H

#include <limits.h>
#include <stdbool.h>

#define MCA_FILES_BYTES (2 * PATH_MAX)

typedef char *(*mca_variable_fn)(const char *name); /* as getenv */

/** A line of a file. */
struct mca_line {
    char file[PATH_MAX], value[256];
};

/**
 * Lists the files that Open MPI reads, with commas between them; what an earlier one says counts. They are those of
 * OMPI_MCA_mca_base_param_files, else the user's and the system's. `config`: the folder of the system's; empty: none.
 */
void mca_files(mca_variable_fn variable, const char *config, char files[MCA_FILES_BYTES]);

/** The line of such files that counts for a parameter ("osc"). False: there is none. */
bool mca_find(const char *files, const char *parameter, struct mca_line *out);

/**
 * Whether somebody chose such a line. Debian's package has lines in the system's file that turn off the components of
 * UCX: nobody chose these, unless they are in the user's own file.
 */
bool mca_is_chosen(mca_variable_fn variable, const char *parameter, const struct mca_line *line);

/** Whether a file sets the variable OMPI_MCA_… by somebody's choice; into *out. */
bool mca_sets(mca_variable_fn variable, const char *config, const char *name, struct mca_line *out);

/** As profile_given_fn: the variable is set in the environment, where -x leads too, or by mca_sets of this system. */
bool mca_is_given(const void *unused, const char *variable);

/** The folder of the system's file, of the Open MPI that Baton was built with; empty: it was another MPI. */
extern const char mca_config[];

#endif
