/* SPDX-License-Identifier: BSD-3-Clause */
/* variables: see variables.h. */
#include "info/variables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"

const char *variables_value(unsigned number, char text[24])
{
    const char *set = getenv(settings_table[number].variable);
    uint64_t value = settings_table[number].preset;
    if (set != NULL && settings_number(set, &value) != 0)
        return set;
    snprintf(text, 24, "%" PRIu64, value);
    return text;
}

const char *variables_source(unsigned number)
{
    return getenv(settings_table[number].variable) != NULL ? "environment" : "default";
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static const char *only; /* the variable that look_up knows */

static char *look_up(const char *variable)
{
    return strcmp(variable, only) == 0 ? getenv(variable) : NULL;
}

/* Each by itself, so that a bad one does not hide the next. */
static void find_bad(struct info *i)
{
    struct settings s;
    for (unsigned k = 0; k < settings_count; k++) {
        only = settings_table[k].variable;
        if (settings_read(&s, look_up) != 0)
            info_problem(i, baton_errmsg(), "correct the value, or unset the variable", NULL);
    }
}

static void find_misspelt(struct info *i)
{
    char text[512];
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *nearest = settings_nearest(*entry);
        if (nearest == NULL)
            continue;
        snprintf(text, sizeof text, "%.*s in the environment is not a setting and has no effect; the nearest is %s",
                 (int)strcspn(*entry, "="), *entry, nearest);
        info_problem(i, text, "correct the name, or unset the variable", NULL);
    }
}

/* ---- what is set ------------------------------------------------------------------------------------------------- */

static bool is_shown(const char *entry)
{
    static const char *const prefixes[] = {"BATON_",
                                           "UCX_",
                                           "OMPI_MCA_pml",
                                           "OMPI_MCA_osc",
                                           "OMPI_MCA_btl",
                                           "OMPI_MCA_coll",
                                           "OMPI_MCA_opal_common_ucx",
                                           "OMPI_MCA_mpi_",
                                           "MPIR_CVAR_"};
    for (size_t k = 0; k < sizeof prefixes / sizeof prefixes[0]; k++)
        if (strncmp(entry, prefixes[k], strlen(prefixes[k])) == 0)
            return true;
    return false;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static void add_set(struct info *i)
{
    size_t num = 0, shown = 0;
    while (environ[num] != NULL)
        num++;
    char **own = calloc(num + 1, sizeof *own);
    for (size_t k = 0; own != NULL && k < num; k++)
        if (is_shown(environ[k]))
            own[shown++] = environ[k];
    if (own != NULL)
        qsort(own, shown, sizeof *own, by_name);
    for (size_t k = 0; k < shown; k++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(own[k], "="), own[k]);
        info_fact(i, INFO_OF_NODE, "environment", name, "%s", own[k] + strcspn(own[k], "=") + 1);
    }
    free(own);
}

void variables_find(struct info *i)
{
    find_bad(i);
    find_misspelt(i);
    add_set(i);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The default stands behind the bounds where the value is another source's. */
static void print_row(FILE *out, unsigned number)
{
    const struct setting_info *s = &settings_table[number];
    char text[24];
    fprintf(out, "%-27s %12s  %-11s %" PRIu64 "..%" PRIu64, s->variable, variables_value(number, text),
            variables_source(number), s->least, s->most);
    if (getenv(s->variable) != NULL)
        fprintf(out, " (default %" PRIu64 ")", s->preset);
    fprintf(out, "  %s\n", s->meaning);
}

static void print_table(FILE *out, bool of_tests)
{
    for (unsigned k = 0; k < settings_count; k++)
        if (settings_table[k].is_of_tests == of_tests)
            print_row(out, k);
}

void variables_print(FILE *out)
{
    fputs("\nsettings: variable, value, source, bounds, meaning\n", out);
    print_table(out, false);
    fputs(
        "Beside these there are BATON_ENGINE, BATON_ROLE, BATON_TP, BATON_TP_RANK, BATON_PP and BATON_PP_RANK: the "
        "role of a rank; BATON_GPU, its GPU; and BATON_REACTOR_CPUS, the hardware threads of the reactor and the copy "
        "workers (\"0-3,8\"). "
        "batonrun sets them. BATON_TRACE names the file of a timeline.\n\nFor tests:\n",
        out);
    print_table(out, true);
    fputs("BATON_FAULT injects faults: see baton(7).\n", out);
}
