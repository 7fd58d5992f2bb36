/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher: see launcher.h. The command lines; launcher_find.c chooses among them. */
#include "batonrun/launcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void add_words(struct command *c, char *const *words)
{
    for (; words != NULL && *words != NULL; words++)
        command_add(c, "%s", *words);
}

/* The user's words come last of the options: of two that contradict each other, launchers take the last. */
static void add_end(struct command *c, const struct launch *what)
{
    add_words(c, what->words);
    add_words(c, what->shim);
}

/*
 * The nodes of the ranks, numbered in the order in which ranks name them; free it. *repeats: a node has ranks that are
 * not one after another.
 */
static uint32_t *number_nodes(const struct launch *what, bool *repeats)
{
    uint32_t *node_of = calloc(what->ranks, sizeof *node_of), *first = calloc(what->ranks, sizeof *first), num = 0;
    if (node_of == NULL || first == NULL)
        command_out_of_memory();
    *repeats = false;
    for (uint32_t r = 0; r < what->ranks; r++) {
        uint32_t node = 0;
        while (node < num && strcmp(what->hosts[first[node]].name, what->hosts[r].name) != 0)
            node++;
        *repeats = *repeats || (r > 0 && node < num && node != node_of[r - 1]);
        if (node == num)
            first[num++] = r;
        node_of[r] = node;
    }
    free(first);
    return node_of;
}

static uint32_t count_nodes(const struct launch *what)
{
    bool repeats;
    uint32_t *node_of = number_nodes(what, &repeats), most = 0;
    for (uint32_t r = 0; r < what->ranks; r++)
        most = node_of[r] > most ? node_of[r] : most;
    free(node_of);
    return most + 1;
}

/* What `write` writes, as text to free. */
static char *text_of(const struct launch *what, void (*write)(const struct launch *what, FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out != NULL)
        write(what, out);
    if (out == NULL || fclose(out) != 0)
        command_out_of_memory();
    return text;
}

/* ---- Open MPI ---------------------------------------------------------------------------------------------------- */

/* Of both generations. The rank's shim binds it, so the launcher does not. */
static void add_openmpi(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c)
{
    /* Of hosts that are named batonrun has counted the slots itself. PRRTE has one option for the mapping and this. */
    const bool oversubscribes = host_file != NULL || what->crowded, is_prrte = l->kind == LAUNCHER_PRRTE;
    command_add(c, "%s", l->program);
    if (l->is_prterun) {
        command_add(c, "--personality");
        command_add(c, "ompi");
    }
    command_add(c, "-np");
    command_add(c, "%u", what->ranks);
    if (what->survive) /* the loss of a rank does not end the others */
        command_add(c, "--enable-recovery");
    command_add(c, "--bind-to");
    command_add(c, "none");
    if (host_file != NULL || (is_prrte && oversubscribes)) {
        command_add(c, "--map-by");
        command_add(c, "%s%s", host_file != NULL ? "seq" : "", is_prrte ? ":OVERSUBSCRIBE" : "");
    }
    if (host_file != NULL) {
        command_add(c, "--hostfile");
        command_add(c, "%s", host_file);
    }
    if (oversubscribes && !is_prrte)
        command_add(c, "--oversubscribe");
    for (unsigned i = 0; i < what->num_exports; i++) {
        command_add(c, "-x");
        command_add(c, "%s", what->exports[i]);
    }
    add_end(c, what);
}

/* A host a line, in the order of ranks: for Open MPI's mapping "seq", and for Slurm's "arbitrary". */
static void write_each(const struct launch *what, FILE *out)
{
    for (uint32_t r = 0; r < what->ranks; r++)
        fprintf(out, "%s\n", what->hosts[r].name);
}

/* ---- Hydra ------------------------------------------------------------------------------------------------------- */

#define HYDRA_WITH_RANKMAP 402 /* 4.2 */

static void write_nodes(const struct launch *what, FILE *out)
{
    bool repeats;
    uint32_t *node_of = number_nodes(what, &repeats);
    for (uint32_t r = 0; r < what->ranks; r++)
        fprintf(out, "%s%u", r > 0 ? "," : "", node_of[r]);
    free(node_of);
}

/*
 * Hydra starts a proxy for each line of its host file, and tells MPI that each proxy is a node. Where a host stands on
 * several lines, this says which ranks really share a node. Versions before 4.2 cannot be told.
 */
static void add_nodes(const struct launcher *l, const struct launch *what, struct command *c)
{
    bool repeats;
    free(number_nodes(what, &repeats));
    if (!repeats || l->version < HYDRA_WITH_RANKMAP)
        return;
    char *text = text_of(what, write_nodes);
    command_add(c, "-rankmap");
    command_add(c, "%s", text);
    free(text);
}

static void add_hydra(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c)
{
    command_add(c, "%s", l->program);
    command_add(c, "-n");
    command_add(c, "%u", what->ranks);
    if (what->survive)
        command_add(c, "-disable-auto-cleanup");
    command_add(c, "-bind-to");
    command_add(c, "none");
    if (host_file != NULL) {
        command_add(c, "-f");
        command_add(c, "%s", host_file);
        add_nodes(l, what, c);
    }
    command_add(c, "-genvall"); /* which passes the variables that have no value here */
    for (unsigned i = 0; i < what->num_exports; i++) {
        const char *export = what->exports[i], *value = strchr(export, '=');
        if (value == NULL)
            continue;
        command_add(c, "-genv");
        command_add(c, "%.*s", (int)(value - export), export);
        command_add(c, "%s", value + 1);
    }
    add_end(c, what);
}

/* A line for each row of ranks on one host, with their number. */
static void write_rows(const struct launch *what, FILE *out)
{
    for (uint32_t r = 0, next; r < what->ranks; r = next) {
        for (next = r + 1; next < what->ranks && strcmp(what->hosts[r].name, what->hosts[next].name) == 0;)
            next++;
        fprintf(out, "%s:%u\n", what->hosts[r].name, next - r);
    }
}

/* ---- srun -------------------------------------------------------------------------------------------------------- */

static bool has_components(const struct launch *what)
{
    return what->hosts != NULL && what->hosts[what->ranks - 1].component > 0;
}

/*
 * On hosts of the job: a step that shares their CPUs with other steps, such as a shell. Its variables travel with it;
 * those with a value of their own are set on the rank's side, since --export cannot have a comma in a value.
 */
static void add_step(const struct launcher *l, const struct launch *what, struct command *c)
{
    command_add(c, "--ntasks=%u", what->ranks);
    command_add(c, "--mpi=%s", l->library == LIBRARY_MPICH ? "pmi2" : "pmix");
    command_add(c, "--cpu-bind=none");
    command_add(c, "--export=ALL");
    if (what->survive)
        command_add(c, "--no-kill");
    command_add(c, "--kill-on-bad-exit=%d", !what->survive);
    if (what->hosts != NULL) {
        command_add(c, "--overlap");
        command_add(c, "--nodes=%u", count_nodes(what));
        command_add(c, "--distribution=arbitrary");
        if (what->crowded)
            command_add(c, "--overcommit");
    }
    add_words(c, what->words);
    bool any = false;
    for (unsigned i = 0; i < what->num_exports; i++) {
        if (strchr(what->exports[i], '=') == NULL)
            continue;
        if (!any)
            command_add(c, "env");
        any = true;
        command_add(c, "%s", what->exports[i]);
    }
    add_words(c, what->shim);
}

static void write_names(const struct launch *what, FILE *out)
{
    for (uint32_t r = 0; r < what->ranks; r++)
        fprintf(out, "%s%s", r > 0 ? "," : "", what->hosts[r].name);
}

/* "n0,n0,n1": with --distribution=arbitrary a host for each rank, in order. A SLURM_HOSTFILE would be that of all
   components, and "n0*2" is understood in a file alone. */
static void add_component_hosts(const struct launch *what, struct command *c)
{
    char *text = text_of(what, write_names);
    command_add(c, "--nodelist=%s", text);
    free(text);
}

/* All components of a heterogeneous job have one step together, in which ranks are numbered component by component. */
static void add_components(const struct launcher *l, const struct launch *what, struct command *c)
{
    for (uint32_t first = 0, end; first < what->ranks; first = end) {
        uint32_t component = what->hosts[first].component;
        for (end = first + 1; end < what->ranks && what->hosts[end].component == component;)
            end++;
        struct launch part = *what;
        part.ranks = end - first;
        part.hosts = &what->hosts[first];
        if (first > 0)
            command_add(c, ":");
        command_add(c, "--het-group=%u", component);
        add_component_hosts(&part, c);
        add_step(l, &part, c);
    }
}

static void add_srun(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c)
{
    static const char *const of_tasks[] = {"SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"};
    command_add(c, "%s", l->program);
    for (unsigned i = 0; i < 2; i++) /* each would limit the step, and the probe, to a task's share of the job's CPUs */
        command_unset(c, of_tasks[i]);
    if (host_file != NULL)
        command_set(c, "SLURM_HOSTFILE", host_file);
    if (has_components(what))
        add_components(l, what, c);
    else
        add_step(l, what, c);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
    void (*add)(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c);
    void (*write_hosts)(const struct launch *what, FILE *out);
} kinds[LAUNCHER_KINDS] = {
    [LAUNCHER_OPENMPI] = {add_openmpi, write_each},
    [LAUNCHER_PRRTE] = {add_openmpi, write_each},
    [LAUNCHER_HYDRA] = {add_hydra, write_rows},
    [LAUNCHER_SRUN] = {add_srun, write_each},
};

void launcher_presets(const struct launcher *l, struct command *c)
{
    /* Where batonrun itself runs in a rank of some world. Which of these a rank would then go by is left to chance. */
    static const char *const of_a_rank[] = {
        "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_ID", "PMI_PORT"};
    for (unsigned i = 0; i < sizeof of_a_rank / sizeof of_a_rank[0]; i++)
        command_unset(c, of_a_rank[i]);
    static const char *const for_root[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                           "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
    if (geteuid() != 0 || (l->kind != LAUNCHER_OPENMPI && l->kind != LAUNCHER_PRRTE))
        return;
    for (unsigned i = 0; i < (l->is_prterun ? 4 : 2); i++)
        command_preset(c, for_root[i], "1");
}

char *launcher_host_file(const struct launcher *l, const struct launch *what)
{
    if (what->hosts == NULL || (l->kind == LAUNCHER_SRUN && has_components(what)))
        return NULL;
    return text_of(what, kinds[l->kind].write_hosts);
}

void launcher_command(const struct launcher *l, const struct launch *what, const char *host_file, struct command *c)
{
    kinds[l->kind].add(l, what, host_file, c);
}
