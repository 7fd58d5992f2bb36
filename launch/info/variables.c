/* SPDX-License-Identifier: BSD-3-Clause */
/* variables: see variables.h. */
#include "info/variables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"

const char *variables_name(unsigned number, char name[SETTING_SPELLING_MAX])
{
    const struct setting_info *s = &settings_table[number];
    if (setting_is_tunable(s))
        return s->name;
    setting_spell(s, name);
    return name;
}

/* What the environment has for it; NULL: nothing. */
static const char *find_given(unsigned number)
{
    const struct setting_info *s = &settings_table[number];
    char name[SETTING_SPELLING_MAX];
    return setting_is_tunable(s) ? settings_tuned(getenv("BATON_TUNE"), s->name) : getenv(variables_name(number, name));
}

const char *variables_value(unsigned number, char text[VARIABLES_VALUE_MAX])
{
    const struct setting_info *s = &settings_table[number];
    const char *given = find_given(number);
    uint64_t value = s->preset;
    if (given != NULL)
        snprintf(text, VARIABLES_VALUE_MAX, "%.*s", (int)strcspn(given, setting_is_tunable(s) ? "," : ""), given);
    if (given == NULL || settings_number(text, &value) == 0)
        snprintf(text, VARIABLES_VALUE_MAX, "%" PRIu64, value);
    return text;
}

const char *variables_source(unsigned number)
{
    return find_given(number) != NULL ? "environment" : "default";
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

/* Each by itself, so that a bad one does not hide the next. */
static void find_bad(struct info *i)
{
    for (char **entry = environ; *entry != NULL; entry++)
        if (settings_check(*entry) < 0)
            info_problem(i, baton_errmsg(), "correct the value, or unset the variable", NULL);
}

static void find_misspelt(struct info *i)
{
    char text[512], nearest[SETTING_SPELLING_MAX];
    for (char **entry = environ; *entry != NULL; entry++) {
        if (!settings_nearest(*entry, nearest))
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
    char name[SETTING_SPELLING_MAX], text[VARIABLES_VALUE_MAX];
    fprintf(out, "%-20s %12s  %-11s %" PRIu64 "..%" PRIu64, variables_name(number, name), variables_value(number, text),
            variables_source(number), s->least, s->most);
    if (find_given(number) != NULL)
        fprintf(out, " (default %" PRIu64 ")", s->preset);
    fprintf(out, "  %s\n", s->meaning);
}

static void print_table(FILE *out, enum setting_kind kind)
{
    for (unsigned k = 0; k < settings_count; k++)
        if (settings_table[k].kind == kind)
            print_row(out, k);
}

void variables_print(FILE *out)
{
    fputs("\nsettings: variable, value, source, bounds, meaning\n", out);
    print_table(out, SETTING_VARIABLE);
    fputs(
        "Beside these there are BATON_ENGINE, BATON_ROLE, BATON_TP, BATON_TP_RANK, BATON_PP and BATON_PP_RANK: the "
        "role of a rank; BATON_GPU, its GPU; and BATON_REACTOR_CPUS, the hardware threads of the reactor and the copy "
        "workers (\"0-3,8\"). "
        "batonrun sets them. BATON_TRACE names the file of a timeline.\n"
        "\ntunables, in BATON_TUNE=name=value,name=value: name, value, source, bounds, meaning\n",
        out);
    print_table(out, SETTING_TUNABLE);
    fputs("\nsettings and tunables of tests:\n", out);
    print_table(out, SETTING_TEST_VARIABLE);
    print_table(out, SETTING_TEST_TUNABLE);
    fputs("BATON_FAULT injects faults: see baton(7).\n", out);
}
