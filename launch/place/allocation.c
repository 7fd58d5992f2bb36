/* SPDX-License-Identifier: BSD-3-Clause */
/* allocation: see allocation.h. */
#include "place/allocation.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/number.h"
#include "place/hostlist.h"
#include "place/text.h"

#define NUMBER_MAX 1000000u /* of slots of a host */

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* A host that has been named. */
struct allocation_name {
    UT_hash_handle hh;
    uint32_t host;
};

static struct allocation_host *find(const struct allocation *a, const char *name, size_t length)
{
    struct allocation_name *found = NULL;
    HASH_FIND(hh, a->names, name, length, found);
    return found != NULL ? &a->hosts[found->host] : NULL;
}

static bool remember(struct allocation *a, const struct allocation_host *host)
{
    struct allocation_name *name = calloc(1, sizeof *name);
    if (name == NULL)
        return false;
    name->host = (uint32_t)(host - a->hosts);
    HASH_ADD_KEYPTR(hh, a->names, host->name, strlen(host->name), name);
    if (name->hh.tbl != NULL)
        return true;
    free(name);
    return false;
}

static void forget_names(struct allocation *a)
{
    struct allocation_name *name, *next;
    HASH_ITER(hh, a->names, name, next)
    {
        HASH_DEL(a->names, name);
        free(name);
    }
}

/* Others have a meaning of their own at the beginning of a name in mpirun's files. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Visible ASCII without what files of hosts, shells or JSON would need escapes for. */
static bool is_host_name(const char *name, size_t length)
{
    if (length == 0 || length >= HOSTLIST_NAME_BYTES || !is_letter(name[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x21 || name[i] > 0x7e || strchr("/'\"\\$`;&|<>()[],=#", name[i]) != NULL)
            return false;
    return true;
}

/* NULL: *why says what is wrong. */
static struct allocation_host *add(struct allocation *a, const char *name, size_t length, struct why *why)
{
    if (!is_host_name(name, length))
        return why_set(why, "\"%.*s\" is no host name", (int)(length < 80 ? length : 80), name), NULL;
    if (a->num_hosts == HOSTLIST_NAMES_MAX)
        return why_set(why, "there are more than %d hosts", HOSTLIST_NAMES_MAX), NULL;
    if ((a->num_hosts & (a->num_hosts - 1)) == 0) { /* a power of two: it is full */
        struct allocation_host *more = realloc(a->hosts, (a->num_hosts ? 2u * a->num_hosts : 1) * sizeof *more);
        if (more == NULL)
            return why_set(why, "no memory for %u hosts", a->num_hosts), NULL;
        a->hosts = more;
    }
    char *copy = strndup(name, length);
    if (copy == NULL)
        return why_set(why, "no memory for %u hosts", a->num_hosts), NULL;
    a->hosts[a->num_hosts] = (struct allocation_host){.name = copy, .group = a->num_groups};
    return &a->hosts[a->num_hosts++];
}

void allocation_fini(struct allocation *a)
{
    forget_names(a);
    for (uint32_t i = 0; i < a->num_hosts; i++)
        free(a->hosts[i].name);
    free(a->hosts);
    *a = (struct allocation){0};
}

const char *allocation_source_name(enum allocation_source source)
{
    static const char *const names[] = {
        [ALLOCATION_HERE] = "this machine", [ALLOCATION_SLURM] = "Slurm",         [ALLOCATION_PBS] = "PBS",
        [ALLOCATION_LSF] = "LSF",           [ALLOCATION_HOSTFILE] = "--hostfile", [ALLOCATION_HOSTS] = "--host"};
    return names[source];
}

/* A number from 1 on at *at, which moves behind it; 0: there is none, or it is too large. */
static uint32_t read_number(const char **at)
{
    uint32_t n;
    return number_take(at, NUMBER_MAX, &n) ? n : 0;
}

/* ---- Slurm ------------------------------------------------------------------------------------------------------- */

/* The variable's name, or in a heterogeneous job that of one group's. */
static const char *slurm_name(const char *name, int group, char text[128])
{
    snprintf(text, 128, group < 0 ? "%s" : "%s_HET_GROUP_%d", name, group);
    return text;
}

static const char *slurm_variable(allocation_variable_fn variable, const char *name, int group)
{
    char text[128];
    return variable(slurm_name(name, group, text));
}

/* "4(x2),2": the slots of each host from `first` on. */
static bool read_counts(struct allocation *a, uint32_t first, const char *text)
{
    uint32_t host = first;
    const char *at = text;
    while (host < a->num_hosts) {
        uint32_t n, times;
        if (!number_take_times(&at, NUMBER_MAX, &n, &times) || n == 0 || times == 0 || times > a->num_hosts - host)
            return false;
        for (; times > 0; times--, host++)
            a->hosts[host].slots = n;
        at += *at == ',';
    }
    return *at == '\0';
}

static int take_name(void *arg, const char *name, struct why *why)
{
    return add(arg, name, strlen(name), why) != NULL ? 0 : -1;
}

static int read_slurm_group(struct allocation *a, allocation_variable_fn variable, int group, struct why *why)
{
    const char *list = slurm_variable(variable, "SLURM_JOB_NODELIST", group);
    /* Without a number of tasks Slurm says 1 a node, which nobody asked for. */
    bool tasks_asked = slurm_variable(variable, "SLURM_NTASKS", group) != NULL ||
                       slurm_variable(variable, "SLURM_NTASKS_PER_NODE", group) != NULL;
    const char *tasks = tasks_asked ? slurm_variable(variable, "SLURM_TASKS_PER_NODE", group) : NULL;
    uint32_t first = a->num_hosts;
    char name[128];
    if (list == NULL)
        return why_set(why, "Slurm names no hosts (%s)", slurm_name("SLURM_JOB_NODELIST", group, name));
    if (hostlist_each(list, take_name, a, why) != 0)
        return -1;
    if (tasks != NULL && !read_counts(a, first, tasks)) {
        if (variable("SLURM_STEP_ID") == NULL)
            return why_set(why,
                           "Slurm's variable %s=\"%.80s\" does not count the tasks of %u hosts: name hosts by --host",
                           slurm_name("SLURM_TASKS_PER_NODE", group, name), tasks, a->num_hosts - first);
        for (uint32_t i = first; i < a->num_hosts; i++) /* they are the tasks of a step, such as a shell */
            a->hosts[i].slots = 0;
    }
    a->num_groups++;
    return 0;
}

static int read_slurm(struct allocation *a, allocation_variable_fn variable, struct why *why)
{
    const char *groups = variable("SLURM_HET_SIZE");
    uint32_t n = groups != NULL ? read_number(&groups) : 0;
    int rc = n == 0 ? read_slurm_group(a, variable, -1, why) : 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = read_slurm_group(a, variable, (int)i, why);
    return rc;
}

/* ---- lists with a host a line or a word -------------------------------------------------------------------------- */

#define BLANKS " \t\r"

/* `words` end with NULL. */
static bool is_among(const char *word, size_t length, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strlen(*words) == length && memcmp(*words, word, length) == 0)
            return true;
    return false;
}

void allocation_here(char name[HOSTLIST_NAME_BYTES])
{
    if (gethostname(name, HOSTLIST_NAME_BYTES) != 0)
        snprintf(name, HOSTLIST_NAME_BYTES, "localhost");
    name[HOSTLIST_NAME_BYTES - 1] = '\0';
}

/* Open MPI knows this machine by its own name alone in a file that says where each rank goes. */
static const char *const other_names[] = {"localhost", "127.0.0.1", NULL};

static bool is_here(const char *name, size_t length)
{
    return is_among(name, length, other_names);
}

bool allocation_is_here(const char *name)
{
    return is_here(name, strlen(name));
}

/* Hosts that come again add up. */
static int add_slots(struct allocation *a, const char *name, size_t length, uint32_t slots, struct why *why)
{
    char here[HOSTLIST_NAME_BYTES];
    if (is_here(name, length)) {
        allocation_here(here);
        name = here;
        length = strlen(here);
    }
    if (memchr(name, '@', length) != NULL)
        return why_set(why, "\"%.*s\" names a user: let ssh's configuration name it", (int)(length < 80 ? length : 80),
                       name);
    struct allocation_host *host = find(a, name, length);
    if (host == NULL) {
        host = add(a, name, length, why);
        if (host == NULL)
            return -1;
        if (!remember(a, host))
            return why_set(why, "no memory for %u hosts", a->num_hosts);
    }
    host->times++;
    host->slots += slots;
    return host->slots <= NUMBER_MAX ? 0 : why_set(why, "%.80s has more than %u slots", host->name, NUMBER_MAX);
}

/* Without slots, a host has as many as the list named it, if that was several times. */
static int finish_hosts(struct allocation *a, struct why *why)
{
    forget_names(a);
    for (uint32_t i = 0; i < a->num_hosts; i++)
        if (a->hosts[i].slots == 0 && a->hosts[i].times > 1)
            a->hosts[i].slots = a->hosts[i].times;
    a->num_groups = 1;
    return a->num_hosts > 0 ? 0 : why_set(why, "no hosts are named");
}

/* A number of slots that ends its word. `word`: what is quoted if it is none. */
static int read_slots(const char *word, const char **at, uint32_t *slots, struct why *why)
{
    *slots = read_number(at);
    if (*slots > 0 && (**at == '\0' || strchr(BLANKS, **at) != NULL))
        return 0;
    return why_set(why, "\"%.80s\" is no number of slots", word);
}

/* "n0" or "n0:4". */
static int take_host(void *allocation, const char *word, struct why *why)
{
    const size_t length = strcspn(word, ":");
    const char *at = word + length + 1;
    uint32_t slots = 0;
    if (word[length] == ':' && read_slots(word + length, &at, &slots, why) != 0)
        return -1;
    return *word == '\0' ? 0 : add_slots(allocation, word, length, slots, why);
}

int allocation_from_hosts(struct allocation *a, const char *text, struct why *why)
{
    *a = (struct allocation){.source = ALLOCATION_HOSTS};
    if (text[strcspn(text, BLANKS "\n")] != '\0')
        return why_set(why, "--host \"%.80s\" has a blank in it: only commas stand between hosts", text);
    return hostlist_each(text, take_host, a, why) == 0 ? finish_hosts(a, why) : -1;
}

/* The words of Open MPI's host files that give slots, and those that bound them, which have no effect here. */
static const char *const slot_words[] = {"slots", "cpu", "count", NULL};
static const char *const bound_words[] = {"max_slots", "max-slots", "slots_max", "slots-max", "max_cpu",
                                          "max-cpu",   "cpu_max",   "cpu-max",   "max_count", "max-count",
                                          "count_max", "count-max", NULL};

/* One "slots=4" at *at, which moves behind it; blanks may stand around "=". Unknown words count if `strict`. */
static int read_word(const char **at, bool strict, uint32_t *slots, struct why *why)
{
    const char *word = *at, *value = word + strcspn(word, "=" BLANKS);
    const size_t length = (size_t)(value - word);
    const bool is_slots = is_among(word, length, slot_words);
    const bool is_bound = is_among(word, length, bound_words);
    uint32_t number;
    value += strspn(value, BLANKS);
    if ((!is_slots && !is_bound) || *value != '=') {
        *at = word + strcspn(word, BLANKS);
        return strict ? why_set(why, "\"%.*s\" is no word of a host file: slots=N or max_slots=N may follow a host",
                                (int)(*at - word < 80 ? *at - word : 80), word)
                      : 0;
    }
    *at = value + 1 + strspn(value + 1, BLANKS);
    if (read_slots(word, at, &number, why) != 0)
        return -1;
    if (is_slots && *slots > 0)
        return why_set(why, "\"%.80s\" gives the host's slots once more", word);
    *slots = is_slots ? number : *slots;
    return 0;
}

/* The hosts of one line, and the slots that it gives to each of them. */
struct host_line {
    struct allocation *allocation;
    uint32_t slots;
};

static int take_host_of_line(void *line, const char *name, struct why *why)
{
    const struct host_line *l = line;
    return add_slots(l->allocation, name, strlen(name), l->slots, why);
}

/* A file with a host a line. */
struct host_file {
    struct allocation *allocation;
    bool strict;
};

static int take_line(void *file, char *line, struct why *why)
{
    const struct host_file *f = file;
    struct host_line l = {.allocation = f->allocation};
    char *name = line + strspn(line, BLANKS), *behind = name + strcspn(name, ":" BLANKS);
    const char *at = behind + (*behind == ':');
    if (*name == '\0')
        return 0;
    if (*behind == ':' && read_slots(behind, &at, &l.slots, why) != 0)
        return -1;
    for (at += strspn(at, BLANKS); *at != '\0'; at += strspn(at, BLANKS))
        if (read_word(&at, f->strict, &l.slots, why) != 0)
            return -1;
    *behind = '\0';
    return hostlist_each(name, take_host_of_line, &l, why);
}

static int read_lines(struct allocation *a, const char *text, bool strict, struct why *why)
{
    struct host_file f = {a, strict};
    return text_lines(text, "", take_line, &f, why) == 0 ? finish_hosts(a, why) : -1;
}

int allocation_from_hostfile(struct allocation *a, const char *text, struct why *why)
{
    *a = (struct allocation){.source = ALLOCATION_HOSTFILE};
    return read_lines(a, text, true, why);
}

/* A file with a line for each slot. */
static int read_slot_lines(struct allocation *a, const char *path, allocation_file_fn file, struct why *why)
{
    char *text = file(path);
    if (text == NULL)
        return why_set(why, "%s's file of hosts \"%.200s\" cannot be read", allocation_source_name(a->source), path);
    struct why reason;
    int rc = read_lines(a, text, false, &reason);
    for (uint32_t i = 0; i < a->num_hosts; i++)
        a->hosts[i].slots += a->hosts[i].slots == 0;
    free(text);
    return rc == 0 ? 0
                   : why_set(why, "%s's file of hosts \"%.150s\": %.200s", allocation_source_name(a->source), path,
                             reason.text);
}

/* "hostA 2 hostB 4". */
static int read_lsf_pairs(struct allocation *a, const char *text, struct why *why)
{
    for (const char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        const char *name = at;
        const size_t length = strcspn(name, " ");
        at += length + strspn(at + length, " ");
        const uint32_t slots = read_number(&at);
        if (slots == 0 || (*at != ' ' && *at != '\0'))
            return why_set(why, "LSF's LSB_MCPU_HOSTS \"%.80s\" cannot be read", text);
        if (add_slots(a, name, length, slots, why) != 0)
            return -1;
    }
    return finish_hosts(a, why);
}

int allocation_from_batch(struct allocation *a, allocation_variable_fn variable, allocation_file_fn file,
                          struct why *why)
{
    const char *pbs = variable("PBS_NODEFILE"), *lsf = variable("LSB_DJOB_HOSTFILE"),
               *pairs = variable("LSB_MCPU_HOSTS");
    *a = (struct allocation){.source = ALLOCATION_HERE};
    if (variable("SLURM_JOB_ID") != NULL &&
        (variable("SLURM_JOB_NODELIST") != NULL || variable("SLURM_HET_SIZE") != NULL)) {
        a->source = ALLOCATION_SLURM;
        return read_slurm(a, variable, why);
    }
    if (pbs != NULL) {
        a->source = ALLOCATION_PBS;
        return read_slot_lines(a, pbs, file, why);
    }
    if (lsf == NULL && pairs == NULL)
        return 0;
    a->source = ALLOCATION_LSF;
    return lsf != NULL ? read_slot_lines(a, lsf, file, why) : read_lsf_pairs(a, pairs, why);
}
