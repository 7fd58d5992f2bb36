/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_page: see settings_page.h. */
#include "batonrun/settings_page.h"

#include <stdlib.h>
#include <string.h>

#include "batonrun/mca.h"
#include "batonrun/node.h"
#include "batonrun/profile.h"

extern char **environ;

/* Nodes on which equal settings are set for equal reasons. */
struct kind {
    struct profile_setting settings[PROFILE_SETTINGS_MAX];
    unsigned num;
    enum profile_kind profile;
    bool leaves_adapters;  /* bound ranks have several to choose from, and UCX chooses */
    uint32_t first, count; /* nodes */
};

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* What the ranks of a node have there. */
struct use {
    uint32_t ranks, threads; /* hardware threads of the rank that has the fewest */
    bool has_adapter;
};

static void find_use(const struct placement *p, struct use *use)
{
    for (uint32_t r = 0; r < p->job.num_ranks; r++) {
        struct use *u = &use[p->places[r].node];
        uint32_t threads = placement_threads(p, r);
        if (u->ranks++ == 0 || threads < u->threads)
            u->threads = threads;
        u->has_adapter |= placement_adapter(p, r) != NULL;
    }
}

static void add_nodes_part(const struct placement *p, uint32_t node, const char *plugins, struct profile_facts *f)
{
    const struct machine *m = p->world.nodes[node].machine;
    if (p->options.topologies[0] !=
        NULL) { /* a description: its adapters are taken to be up, and nothing to be missing */
        f->osc_ucx = f->pml_ucx = true;
        for (uint32_t i = 0; i < m->num_nics; i++)
            f->port_is_active |= m->nics[i].is_fabric;
    } else if (p->allocation.num_hosts == 0 || !node_parse(m->facts, f)) {
        node_look("", plugins, f);
    }
}

/* What is the same for all nodes. */
struct common {
    bool bound;                   /* the ranks are */
    bool one_fabric;              /* a rank can do with one adapter */
    struct why no_single_adapter; /* where it cannot */
};

/* Of the node's rank with the fewest hardware threads. */
static struct profile_facts find_facts(const struct placement *p, uint32_t node, const struct use *use,
                                       const struct common *common, const struct settings_given *given)
{
    struct profile_facts f = {.survive = given->survive, .one_node = use->ranks == p->job.num_ranks};
    profile_mpi(given->mpi, &f);
    add_nodes_part(p, node, given->plugins, &f);
    f.sharers = common->bound ? 1 : use->ranks;
    f.threads = common->bound ? use->threads : p->world.nodes[node].machine->num_pus;
    if (common->bound && common->one_fabric && use->has_adapter)
        snprintf(f.nic, sizeof f.nic, "NIC:PORT");
    return f;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct kind *a, const struct kind *b)
{
    if (a->num != b->num || a->profile != b->profile || a->leaves_adapters != b->leaves_adapters)
        return false;
    for (unsigned i = 0; i < a->num; i++)
        if (strcmp(a->settings[i].variable, b->settings[i].variable) != 0 ||
            strcmp(a->settings[i].value, b->settings[i].value) != 0 ||
            strcmp(a->settings[i].reason, b->settings[i].reason) != 0)
            return false;
    return true;
}

/* The kinds of all nodes that have ranks. Returns how many. */
static uint32_t find_kinds(const struct placement *p, const struct use *use, const struct common *common,
                           const struct settings_given *given, struct kind *kinds)
{
    uint32_t num = 0;
    for (uint32_t node = 0; node < p->world.num_nodes; node++) {
        struct kind k = {.first = node, .count = 1};
        uint32_t same = 0;
        if (use[node].ranks == 0)
            continue;
        struct profile_facts f = find_facts(p, node, &use[node], common, given);
        k.num = profile_find(&f, k.settings);
        k.profile = profile_kind(&f);
        k.leaves_adapters =
            k.profile == PROFILE_FABRIC && common->bound && use[node].has_adapter && !common->one_fabric;
        while (same < num && !is_same(&kinds[same], &k))
            same++;
        if (same < num)
            kinds[same].count++;
        else
            kinds[num++] = k;
    }
    return num;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void print_one(FILE *out, const char *variable, const char *value, const char *source, const char *reason)
{
    int width = fprintf(out, "  %s=%s", variable, value);
    fprintf(out, "%*s  %-5s  %s\n", width < 40 ? 40 - width : 0, "", source, reason);
}

/* What the user has set: by -x, or in the environment. NULL: nothing. */
static const char *find_given(const struct settings_given *g, const char *variable)
{
    size_t length = strlen(variable);
    for (unsigned i = 0; i < g->num_exports; i++)
        if (strncmp(g->exports[i], variable, length) == 0 && g->exports[i][length] == '=')
            return g->exports[i] + length + 1;
    return getenv(variable);
}

static bool is_given(const void *given, const char *variable)
{
    return find_given(given, variable) != NULL || mca_is_given(NULL, variable);
}

/*
 * The user's variable that stays in the place of a setting. `value`: NULL if a file of Open MPI sets it, whose name
 * begins with "~" where it is under the user's home.
 */
static void print_own(FILE *out, const struct profile_setting *s, const char *own, const char *value)
{
    struct mca_line line;
    char reason[sizeof line.file + 128] = "set before: it stays";
    const char *home = getenv("HOME");
    const size_t length = home != NULL ? strlen(home) : 0;
    if (value == NULL && mca_sets(getenv, mca_config, own, &line)) {
        bool is_below = length > 0 && strncmp(line.file, home, length) == 0 && line.file[length] == '/';
        snprintf(reason, sizeof reason, "%s%s sets it: it stays", is_below ? "~" : "",
                 line.file + (is_below ? length : 0));
    }
    const size_t used = strlen(reason);
    if (own != s->variable)
        snprintf(reason + used, sizeof reason - used, ", and %s is not set beside it", s->variable);
    print_one(out, own, value != NULL ? value : "...", "yours", reason);
}

/* Which hardware threads the reactor and the copy workers run on. */
static void print_threads(FILE *out, const struct placement *p)
{
    uint32_t least = UINT32_MAX, whole = 0;
    if (!placement_can_bind(p)) {
        fputs("threads: ranks are not bound, and reactor and copy workers run where the engine's threads may run\n",
              out);
        return;
    }
    for (uint32_t r = 0; r < p->job.num_ranks; r++) {
        uint32_t n = placement_helpers(p, r);
        if (placement_has_whole_host(p, r))
            whole++;
        else
            least = n < least ? n : least;
    }
    if (least == 0)
        fputs("threads: a rank with a single hardware thread has none to set apart for reactor and copy workers\n",
              out);
    else
        fputs("threads: reactor and copy workers have the last hardware thread of each rank, or the last of four cores "
              "or more\n",
              out);
    if (whole > 0)
        fprintf(out, "threads: ranks alone on a host with all of its cores are not bound: %u\n", whole);
}

/* Where a rank is not held to the adapter nearest to it, although there are several. */
static void print_adapters(FILE *out, const struct kind *k, const struct common *common,
                           const struct settings_given *given)
{
    static const struct profile_setting devices = {.variable = "UCX_NET_DEVICES"};
    char reason[sizeof common->no_single_adapter + 32];
    if (!k->leaves_adapters || profile_own(&devices, is_given, given) != NULL)
        return;
    snprintf(reason, sizeof reason, "UCX chooses adapters: %s", common->no_single_adapter.text);
    print_one(out, devices.variable, "", "unset", reason);
}

static void print_kind(FILE *out, const struct placement *p, const struct kind *k, const struct common *common,
                       const struct settings_given *given)
{
    fprintf(out, "settings on %s", p->world.nodes[k->first].host);
    if (k->count > 1)
        fprintf(out, " and %u more node%s", k->count - 1, k->count > 2 ? "s" : "");
    fprintf(out, " (%s), by the node unless they are yours:\n", profile_name(k->profile));
    for (unsigned i = 0; i < k->num; i++) {
        const struct profile_setting *s = &k->settings[i];
        const char *own = profile_own(s, is_given, given);
        if (own == NULL)
            print_one(out, s->variable, s->value, "node", s->reason);
        else
            print_own(out, s, own, find_given(given, own));
    }
    print_adapters(out, k, common, given);
}

static bool is_of(const char *entry, const char *variable)
{
    size_t length = strlen(variable);
    return strncmp(variable, entry, length) == 0 && entry[length] == '=';
}

static bool is_in(const struct kind *kinds, uint32_t num, const char *entry, const struct settings_given *given)
{
    for (uint32_t k = 0; k < num; k++)
        for (unsigned i = 0; i < kinds[k].num; i++) {
            const char *own = profile_own(&kinds[k].settings[i], is_given, given);
            if (own != NULL && is_of(entry, own))
                return true;
        }
    return false;
}

/* The user's own variables that no line above is about. */
static void print_others(FILE *out, const struct kind *kinds, uint32_t num, const struct settings_given *given)
{
    static const char *const families[] = {"BATON_", "UCX_", "OMPI_MCA_"};
    for (char **e = environ; *e != NULL; e++)
        for (unsigned i = 0; i < sizeof families / sizeof families[0]; i++)
            if (strncmp(*e, families[i], strlen(families[i])) == 0 && !is_in(kinds, num, *e, given)) {
                char *name = strndup(*e, strcspn(*e, "="));
                if (name != NULL)
                    print_one(out, name, *e + strlen(name) + 1, "yours", "passed on to the ranks");
                free(name);
            }
}

int settings_print(FILE *out, const struct placement *p, const struct settings_given *given)
{
    uint32_t num = 0;
    struct common common = {.bound = placement_can_bind(p)};
    struct use *use = calloc((size_t)p->world.num_nodes + 1, sizeof *use);
    struct kind *kinds = calloc((size_t)p->world.num_nodes + 1, sizeof *kinds);
    if (use != NULL && kinds != NULL) {
        find_use(p, use);
        common.one_fabric = placement_has_one_fabric(p, &common.no_single_adapter);
        num = find_kinds(p, use, &common, given, kinds);
        print_threads(out, p);
    }
    if (num > 0 && given->mpi[0] == '\0')
        fputs("settings of MPI are left out, since this build has no MPI: those of UCX remain\n", out);
    for (uint32_t i = 0; i < num; i++)
        print_kind(out, p, &kinds[i], &common, given);
    if (num > 0)
        print_others(out, kinds, num, given);
    free(use);
    free(kinds);
    return num > 0 ? 0 : -1;
}
