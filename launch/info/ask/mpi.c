/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-info-mpi: says by lines (info/line.h) what MPI gives. A program of its own, since MPI may abort, hang, or not
 * be installed where baton-info is.
 *
 *   baton-info-mpi settings   which library is loaded, and the components that it would choose from; without MPI_Init
 *   baton-info-mpi world      as a rank of a small world: opens Baton, which makes windows and tests itself
 */
#include <baton.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info/line.h"

#define TEXT_BYTES 4096

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void add_library(struct info *i)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, version = 0, subversion = 0;
    Dl_info file;
    MPI_Get_library_version(library, &length);
    MPI_Get_version(&version, &subversion);
    library[strcspn(library, "\n")] = '\0';
    info_fact(i, INFO_OF_ALL, "mpi", "library", "%s", library);
    info_fact(i, INFO_OF_ALL, "mpi", "standard", "%d.%d", version, subversion);
    if (dladdr((void *)(uintptr_t)MPI_Init, &file) != 0 && file.dli_fname != NULL)
        info_fact(i, INFO_OF_ALL, "mpi", "file", "%s", file.dli_fname);
}

/* The value of a text variable of MPI's tools interface. */
static void add_variable(struct info *i, int index, const char *name)
{
    char value[TEXT_BYTES] = "";
    MPI_T_cvar_handle handle;
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return;
    if (count < TEXT_BYTES && MPI_T_cvar_read(handle, value) == MPI_SUCCESS) {
        value[TEXT_BYTES - 1] = '\0';
        info_fact(i, INFO_OF_ALL, "components", name, "%s", value);
    }
    MPI_T_cvar_handle_free(&handle);
}

/* What Open MPI chooses its components from, and its files of parameters. Other libraries have no such variables. */
static void add_components(struct info *i)
{
    static const char *const wanted[] = {"pml", "osc", "btl", "mca_base_param_files"};
    int level, num = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS)
        return;
    MPI_T_cvar_get_num(&num);
    for (int k = 0; k < num; k++) {
        char name[256] = "";
        int length = sizeof name, verbosity, binding, scope;
        MPI_Datatype type;
        if (MPI_T_cvar_get_info(k, name, &length, &verbosity, &type, NULL, NULL, NULL, &binding, &scope) != MPI_SUCCESS)
            continue;
        for (unsigned w = 0; w < sizeof wanted / sizeof wanted[0]; w++)
            if (strcmp(name, wanted[w]) == 0 && type == MPI_CHAR)
                add_variable(i, k, name);
    }
    MPI_T_finalize();
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

static const char *level_name(int level)
{
    return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
           : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
           : level == MPI_THREAD_MULTIPLE   ? "MPI_THREAD_MULTIPLE"
                                            : "an unknown level";
}

/* A warning of the library is a problem, and says itself what to do. */
static void take_log(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)source;
    if (level <= BATON_LOG_WARNING)
        info_problem(user, line, "", NULL);
}

static int fail(struct info *i, const char *call, int error)
{
    char text[512];
    snprintf(text, sizeof text, "%s fails: %s: %s", call, baton_strerror(error), baton_errmsg());
    info_problem(i, text, "", NULL);
    return -1;
}

/* Lines of baton_describe are facts: "window over nodes: ucx window 3". */
static void add_description(struct info *i, const baton_t *b)
{
    char text[TEXT_BYTES];
    if (baton_describe(b, text, sizeof text) < 0)
        return;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *value = strstr(line, ": ");
        if (value == NULL)
            continue;
        *value = '\0';
        char *progress = strstr(value + 2, "progress by ");
        if (strcmp(line, "world") == 0 && progress != NULL)
            info_fact(i, INFO_OF_ALL, "mpi", "progress", "%s", progress + strlen("progress "));
        if (strcmp(line, "quirks") == 0)
            info_fact(i, INFO_OF_ALL, "mpi", line, "%s", value + 2);
        else if (strncmp(line, "window", 6) == 0) /* the component; MPI's number of the window is of no use here */
            info_fact(i, INFO_OF_ALL, "mpi", line, "%.*s", (int)strcspn(value + 2, ", "), value + 2);
    }
}

/* baton_start makes the windows, and fails unless the self-tests pass. */
static int use_baton(struct info *i, int level)
{
    baton_open_params_t p = {.size = sizeof p};
    baton_t *b;
    int error = baton_role_from_env(&p);
    if (error != 0)
        return fail(i, "baton_role_from_env", error);
    if (level < MPI_THREAD_MULTIPLE) /* baton-info says so itself, and what to do */
        p.progress = BATON_PROGRESS_CALLER;
    baton_log_set(take_log, i);
    error = baton_open(MPI_COMM_NULL, &p, &b);
    if (error != 0)
        return fail(i, "baton_open", error);
    error = baton_start(b);
    if (error != 0)
        return fail(i, "baton_start", error);
    info_fact(i, INFO_OF_ALL, "mpi", "self-tests", "passed");
    add_description(i, b);
    error = baton_close(b);
    return error == 0 ? 0 : fail(i, "baton_close", error);
}

static int be_rank(struct info *i)
{
    int level = 0, rank = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    info_fact(i, INFO_OF_ALL, "mpi", "thread level", "%s", level_name(level));
    int rc = use_baton(i, level);
    /* All ranks found the same, so one says it, and before MPI may hang at its end. */
    if (rank == 0 && line_write(STDOUT_FILENO, 0, i) != 0)
        rc = -1;
    if (rc != 0)
        baton_exit(1);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    struct info info = {0};
    int rc = 2;
    if (argc == 2 && strcmp(argv[1], "settings") == 0) {
        add_library(&info);
        add_components(&info);
        rc = line_write(STDOUT_FILENO, 0, &info) == 0 ? 0 : 1;
    } else if (argc == 2 && strcmp(argv[1], "world") == 0) {
        rc = be_rank(&info);
    } else {
        fputs("this is a part of baton-info, which starts it\n", stderr);
    }
    info_fini(&info);
    return rc;
}
