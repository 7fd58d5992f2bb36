/* SPDX-License-Identifier: BSD-3-Clause */
/* mca: see mca.h. */
#include "batonrun/mca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char mca_config[] = BATON_MPI_CONFIG;

static void write_users(mca_variable_fn variable, char path[PATH_MAX])
{
    const char *home = variable("HOME");
    path[0] = '\0';
    if (home != NULL && home[0] != '\0' && strlen(home) < PATH_MAX - 64)
        snprintf(path, PATH_MAX, "%.*s/.openmpi/mca-params.conf", PATH_MAX - 64, home);
}

void mca_files(mca_variable_fn variable, const char *config, char files[MCA_FILES_BYTES])
{
    char users[PATH_MAX];
    const char *own = variable("OMPI_MCA_mca_base_param_files");
    if (own == NULL)
        own = variable("OMPI_MCA_mca_param_files");
    if (own != NULL) {
        snprintf(files, MCA_FILES_BYTES, "%s", own);
        return;
    }
    write_users(variable, users);
    snprintf(files, MCA_FILES_BYTES, "%s%s%s%s", users, users[0] != '\0' && config[0] != '\0' ? "," : "", config,
             config[0] != '\0' ? "/openmpi-mca-params.conf" : "");
}

/* Of "  pml = ob1 " the value, "ob1". NULL: the line does not set the parameter. Changes the line. */
static const char *take_value(char *line, const char *parameter)
{
    char *at = line + strspn(line, " \t");
    size_t length = strlen(parameter);
    if (strncmp(at, parameter, length) != 0)
        return NULL;
    at += length + strspn(at + length, " \t");
    if (*at != '=')
        return NULL;
    at += 1 + strspn(at + 1, " \t");
    for (char *end = at + strlen(at); end > at && strchr(" \t\r\n", end[-1]) != NULL; end--)
        end[-1] = '\0';
    return at;
}

/* The last line counts. */
static bool find_in(const char *path, const char *parameter, struct mca_line *out)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && getline(&line, &room, file) >= 0) {
        const char *value = take_value(line, parameter);
        if (value != NULL)
            snprintf(out->value, sizeof out->value, "%s", value);
        found |= value != NULL;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

bool mca_find(const char *files, const char *parameter, struct mca_line *out)
{
    for (const char *at = files; at != NULL && *at != '\0'; at += *at == ',') {
        size_t length = strcspn(at, ",");
        snprintf(out->file, sizeof out->file, "%.*s", (int)length, at);
        at += length;
        if (find_in(out->file, parameter, out))
            return true;
    }
    return false;
}

bool mca_is_chosen(mca_variable_fn variable, const char *parameter, const struct mca_line *line)
{
    static const char *const debian[][2] = {
        {"osc", "^ucx,pt2pt"}, {"pml", "^ucx"}, {"btl", "^uct,openib,ofi"}, {"mtl", "^ofi"}};
    char users[PATH_MAX];
    write_users(variable, users);
    if (strcmp(line->file, users) == 0)
        return true;
    for (unsigned i = 0; i < sizeof debian / sizeof debian[0]; i++)
        if (strcmp(parameter, debian[i][0]) == 0 && strcmp(line->value, debian[i][1]) == 0)
            return false;
    return true;
}

bool mca_sets(mca_variable_fn variable, const char *config, const char *name, struct mca_line *out)
{
    static const char prefix[] = "OMPI_MCA_";
    char files[MCA_FILES_BYTES];
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    mca_files(variable, config, files);
    const char *parameter = name + sizeof prefix - 1;
    return mca_find(files, parameter, out) && mca_is_chosen(variable, parameter, out);
}

bool mca_is_given(const void *unused, const char *variable)
{
    struct mca_line line;
    (void)unused;
    return getenv(variable) != NULL || mca_sets(getenv, mca_config, variable, &line);
}
