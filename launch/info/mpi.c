/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi: see mpi.h. Two helper programs tell it: one asks the library for its settings as they are in this environment;
 * the other is a world of two ranks, which batonrun starts on this host as on two pretended nodes.
 */
#include "info/mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "info/helper.h"
#include "batonrun/mca.h"
#include "batonrun/node.h"
#include "batonrun/profile.h"

#define SETTINGS_DEADLINE_S 20
#define WORLD_DEADLINE_S 45
#define WORLD_TIMEOUT "40" /* batonrun ends the world before the deadline, and says so */

/* ---- what the environment of a launcher leaves out --------------------------------------------------------------- */

static bool begins(const char *entry, const char *const *prefixes, size_t num)
{
    for (size_t i = 0; i < num; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/*
 * A launcher or batch job that started baton-info must not take the ranks of its world for its own; and nothing shall
 * hide what the library says.
 */
static bool is_of_launcher(const char *entry)
{
    static const char *const own[] = {"OMPI_MCA_orte_",
                                      "OMPI_MCA_ess",
                                      "OMPI_MCA_pmix",
                                      "OMPI_MCA_prte_",
                                      "OMPI_MCA_plm",
                                      "OMPI_MCA_ras",
                                      "OMPI_MCA_rmaps",
                                      "PMIX_",
                                      "PMI_",
                                      "PRTE_",
                                      "HYDRA_",
                                      "HYDI_",
                                      "SLURM_",
                                      "PBS_",
                                      "LSB_",
                                      "MPI_LOCAL",
                                      "OMPI_MCA_initial_",
                                      "BATON_LAUNCH_",
                                      "BATON_LAYOUT=",
                                      "BATON_ENGINE=",
                                      "BATON_ROLE=",
                                      "BATON_TP",
                                      "BATON_PP",
                                      "BATON_FAKE_NODES=",
                                      "BATON_FAULT=",
                                      "BATON_LOG="};
    static const char *const kept[] = {"OMPI_MCA_", "OMPI_ALLOW_"};
    if (begins(entry, own, sizeof own / sizeof own[0]))
        return true;
    return strncmp(entry, "OMPI_", 5) == 0 && !begins(entry, kept, sizeof kept / sizeof kept[0]);
}

/* NULL: no memory. A setting with a bad value is a problem of its own, and would end the world before MPI is tried. */
static char **world_environment(void)
{
    size_t num = 0, kept = 0;
    while (environ[num] != NULL)
        num++;
    char **own = calloc(num + 2, sizeof *own);
    for (size_t k = 0; own != NULL && k < num; k++)
        if (!is_of_launcher(environ[k]) && settings_check(environ[k]) >= 0)
            own[kept++] = environ[k];
    if (own != NULL)
        own[kept] = "BATON_FAKE_NODES=2";
    return own;
}

/* ---- the library's settings -------------------------------------------------------------------------------------- */

/* Whether a list of components, "^ucx,pt2pt", leaves one out. */
static bool leaves_out(const char *list, const char *component)
{
    size_t length = strlen(component);
    if (list == NULL || list[0] == '\0')
        return false;
    bool excludes = list[0] == '^', listed = false;
    for (const char *at = list + excludes; *at != '\0'; at += *at == ',') {
        size_t n = strcspn(at, ",");
        listed |= n == length && strncmp(at, component, n) == 0;
        at += n;
    }
    return listed == excludes;
}

/* What batonrun would set for a rank of a world of several nodes. */
struct profile {
    struct profile_setting settings[PROFILE_SETTINGS_MAX];
    unsigned num;
};

static struct profile find_profile(void)
{
    struct profile p;
    struct profile_facts facts = {0};
    profile_mpi(BATON_MPI, &facts);
    node_look("", BATON_MPI_PLUGINS, &facts);
    p.num = profile_find(&facts, p.settings);
    return p;
}

static const struct profile_setting *find_setting(const struct profile *p, const char *variable)
{
    for (unsigned k = 0; k < p->num; k++)
        if (strcmp(p->settings[k].variable, variable) == 0)
            return &p->settings[k];
    return NULL;
}

/* Adapters and interfaces have other names on other machines. */
static enum info_scope scope_of(const char *variable)
{
    bool is_of_node = strncmp(variable, "UCX_", 4) == 0 || strcmp(variable, "OMPI_MCA_btl_tcp_if_include") == 0;
    return is_of_node ? INFO_OF_NODE : INFO_OF_ALL;
}

static void add_profile(struct info *i, const struct profile *p)
{
    for (unsigned k = 0; k < p->num; k++)
        if (profile_own(&p->settings[k], mca_is_given, NULL) == NULL)
            info_fact(i, scope_of(p->settings[k].variable), "batonrun sets", p->settings[k].variable, "%s: %s",
                      p->settings[k].value, p->settings[k].reason);
}

/* "OMPI_MCA_osc=ucx,sm OMPI_MCA_pml=ucx ...": what turns Open MPI's components of UCX on. */
static void list_cure(const struct profile *p, char *text, size_t size)
{
    static const char *const cures[] = {"OMPI_MCA_osc", "OMPI_MCA_pml", "OMPI_MCA_opal_common_ucx_tls",
                                        "OMPI_MCA_opal_common_ucx_devices"};
    text[0] = '\0';
    for (size_t k = 0; k < sizeof cures / sizeof cures[0]; k++) {
        const struct profile_setting *s = find_setting(p, cures[k]);
        size_t used = strlen(text);
        if (s != NULL)
            snprintf(text + used, size - used, "%s%s=%s", used > 0 ? " " : "", s->variable, s->value);
    }
}

/* Debian's configuration file turns off all components that can make windows between nodes. */
static void judge_components(struct info *i, const struct profile *p)
{
    const struct profile_setting *best = find_setting(p, "OMPI_MCA_osc");
    const char *osc = info_value(i, "components", "osc"), *pml = info_value(i, "components", "pml");
    const char *parameter = leaves_out(osc, "ucx") ? "osc" : "pml";
    struct mca_line line;
    char what[512], cure[256], remedy[768];
    if (best != NULL && best->is_second_best)
        info_problem(i, best->reason, "install an Open MPI with UCX, and a UCX that is built with --enable-mt", NULL);
    if (best == NULL || leaves_out(best->value, "ucx") || (!leaves_out(osc, "ucx") && !leaves_out(pml, "ucx")))
        return;
    bool by_variable = getenv("OMPI_MCA_osc") != NULL || getenv("OMPI_MCA_pml") != NULL;
    bool by_file = !by_variable && mca_find(info_value(i, "components", "mca_base_param_files"), parameter, &line);
    snprintf(what, sizeof what, "Open MPI's components of UCX are turned off (osc=%.60s, pml=%.60s%s%.200s)",
             osc != NULL ? osc : "", pml != NULL ? pml : "",
             by_file       ? ", by "
             : by_variable ? ", by the environment"
                           : "",
             by_file ? line.file : "");
    list_cure(p, cure, sizeof cure);
    if (by_variable)
        snprintf(remedy, sizeof remedy, "set %s, or unset OMPI_MCA_osc and OMPI_MCA_pml and use batonrun", cure);
    else if (by_file && mca_is_chosen(getenv, parameter, &line))
        snprintf(remedy, sizeof remedy, "set %s, or take %s out of %.200s and use batonrun", cure, parameter,
                 line.file);
    else
        snprintf(remedy, sizeof remedy, "under plain mpirun, set %s; batonrun sets them", cure);
    info_problem(i, what, remedy, NULL);
}

static bool find_settings(struct info *i)
{
    if (!helper_ask(i, INFO_HELPERS "/baton-info-mpi", "settings", SETTINGS_DEADLINE_S,
                    "the program that asks MPI for its settings",
                    "install the MPI that Baton was built with, and let the loader find it (LD_LIBRARY_PATH, "
                    "ldconfig)"))
        return false;
    const struct profile profile = find_profile();
    judge_components(i, &profile);
    add_profile(i, &profile);
    return true;
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

static void judge_level(struct info *i)
{
    const char *level = info_value(i, "mpi", "thread level");
    char what[256];
    if (level == NULL || strcmp(level, "MPI_THREAD_MULTIPLE") == 0)
        return;
    snprintf(what, sizeof what,
             "MPI gives %s, not MPI_THREAD_MULTIPLE: blocks move only inside baton_poll and baton_progress", level);
    info_problem(i, what,
                 "use an MPI library that is built with threads, or call baton_progress often in the engine's loop",
                 NULL);
}

static void find_world(struct info *i, const char *mpirun)
{
    char path[PATH_MAX], batonrun[PATH_MAX];
    char *argv[16] = {batonrun, "--timeout", WORLD_TIMEOUT, "--prefill", "1x1", "--decode", "1x1"};
    unsigned n = 7;
    char **environment = world_environment();
    struct helper h;
    if (environment == NULL)
        return;
    helper_path(INFO_HELPERS "/baton-info-mpi", path, sizeof path);
    helper_path("batonrun", batonrun, sizeof batonrun);
    if (mpirun != NULL) {
        argv[n++] = "--mpirun";
        argv[n++] = (char *)(uintptr_t)mpirun;
    }
    argv[n++] = path;
    argv[n++] = "world";
    helper_run(&h, argv, environment, WORLD_DEADLINE_S);
    free(environment);
    info_take(i, &h.info);
    info_fini(&h.info);
    if (h.status != 0 || !h.is_whole)
        helper_blame(&h, i, "a world of two ranks on this host",
                     i->num_problems > 0 ? "mend the other problems first; then see what the ranks said"
                                         : "see what the ranks and the launcher said");
    else if (h.said[0] != '\0')
        info_fact(i, INFO_OF_NODE, "mpi", "printed", "%s", h.said);
    judge_level(i);
}

void mpi_find(struct info *i, const char *mpirun)
{
    if (BATON_MPI[0] == '\0')
        info_fact(i, INFO_OF_ALL, "mpi", "library", "none: this build has no MPI (BATON_WITH_MPI=OFF)");
    else if (find_settings(i))
        find_world(i, mpirun);
}
