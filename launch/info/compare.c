/* SPDX-License-Identifier: BSD-3-Clause */
/* compare: see compare.h. */
#include "info/compare.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "info/page.h"

#define NAMES_BYTES 160
#define TOLERANCE 0.1

/* ---- names of hosts ---------------------------------------------------------------------------------------------- */

/* "n0, n1 and 3 more". */
struct names {
    char text[NAMES_BYTES];
    uint32_t more;
};

static void add_name(struct names *n, const char *name)
{
    size_t used = strlen(n->text), length = strlen(name) + (used > 0 ? 2 : 0);
    if (n->more == 0 && used + length + 24 < sizeof n->text)
        snprintf(n->text + used, sizeof n->text - used, "%s%s", used > 0 ? ", " : "", name);
    else
        n->more++;
}

static const char *end_names(struct names *n)
{
    size_t used = strlen(n->text);
    if (n->more > 0)
        snprintf(n->text + used, sizeof n->text - used, " and %u more", n->more);
    return n->text;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static const char *value_of(const struct compare_host *h, const struct info_fact *f)
{
    const char *value = h->info != NULL ? info_value(h->info, f->section, f->name) : NULL;
    return value != NULL ? value : "not found";
}

/* Equal texts, but that each number of one may be greater than the other's by a tenth of itself. */
static bool is_about(const char *value, const char *other)
{
    while (*value != '\0' && *other != '\0') {
        if (isdigit((unsigned char)*value) && isdigit((unsigned char)*other)) {
            char *end, *other_end;
            double x = strtod(value, &end), y = strtod(other, &other_end);
            if (x > y ? x - y > TOLERANCE * x : y - x > TOLERANCE * y)
                return false;
            value = end;
            other = other_end;
        } else if (*value++ != *other++) {
            return false;
        }
    }
    return *value == *other;
}

static bool is_same(const struct info_fact *f, const char *value, const char *other)
{
    return f->scope == INFO_OF_KIND ? is_about(value, other) : strcmp(value, other) == 0;
}

/* The fact that says which kind of machine a host is. */
static const struct info_fact kind = {INFO_KIND_SECTION, INFO_KIND_NAME, "", INFO_OF_ALL};

static bool is_compared(const struct compare_host *h, const struct compare_host *other, const struct info_fact *f)
{
    return h->info != NULL && other->info != NULL &&
           (f->scope == INFO_OF_ALL ||
            (f->scope == INFO_OF_KIND && strcmp(value_of(h, &kind), value_of(other, &kind)) == 0));
}

/* Whether a host before `number` has this fact too: then it was judged there. */
static bool is_known(const struct compare_host *hosts, uint32_t number, const struct info_fact *f)
{
    for (uint32_t h = 0; h < number; h++)
        if (is_compared(&hosts[h], &hosts[number], f) && info_value(hosts[h].info, f->section, f->name) != NULL)
            return true;
    return false;
}

/* Each value, with the hosts that have it, of those that are compared with `number`. */
static void print_values(FILE *out, const struct compare_host *hosts, uint32_t num, uint32_t number,
                         const struct info_fact *f)
{
    bool *done = calloc(num, sizeof *done);
    for (uint32_t h = 0; done != NULL && h < num; h++) {
        struct names names = {0};
        if (done[h] || !is_compared(&hosts[h], &hosts[number], f))
            continue;
        for (uint32_t k = h; k < num; k++) {
            if (done[k] || !is_compared(&hosts[k], &hosts[number], f) ||
                !is_same(f, value_of(&hosts[k], f), value_of(&hosts[h], f)))
                continue;
            add_name(&names, hosts[k].name);
            done[k] = true;
        }
        fprintf(out, "  %s: %s\n", end_names(&names), value_of(&hosts[h], f));
    }
    if (done == NULL)
        fputs("  there is no memory to say how\n", out);
    free(done);
}

static bool differs(const struct compare_host *hosts, uint32_t num, uint32_t number, const struct info_fact *f)
{
    for (uint32_t h = 0; h < num; h++)
        if (is_compared(&hosts[h], &hosts[number], f) &&
            !is_same(f, value_of(&hosts[h], f), value_of(&hosts[number], f)))
            return true;
    return false;
}

static uint32_t print_differences(FILE *out, const struct compare_host *hosts, uint32_t num)
{
    uint32_t found = 0;
    for (uint32_t h = 0; h < num; h++)
        for (size_t k = 0; hosts[h].info != NULL && k < hosts[h].info->num_facts; k++) {
            const struct info_fact *f = &hosts[h].info->facts[k];
            if (is_known(hosts, h, f) || !differs(hosts, num, h, f))
                continue;
            fprintf(out, "differs: %s, %s\n", f->section, f->name);
            print_values(out, hosts, num, h, f);
            found++;
        }
    if (found > 0)
        fputs("  do: make them the same on all hosts; ranks of one world must have the same libraries and limits\n",
              out);
    return found;
}

/* Nodes for prefill may be other machines than those for decode. */
static void print_kinds(FILE *out, const struct compare_host *hosts, uint32_t num)
{
    uint32_t first = 0;
    while (first < num && hosts[first].info == NULL)
        first++;
    if (first == num || !differs(hosts, num, first, &kind))
        return;
    fputs("machines of several kinds:\n", out);
    print_values(out, hosts, num, first, &kind);
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

static const struct info_problem *find_problem(const struct compare_host *h, const char *what)
{
    for (size_t k = 0; h->info != NULL && k < h->info->num_problems; k++)
        if (strcmp(h->info->problems[k].what, what) == 0)
            return &h->info->problems[k];
    return NULL;
}

static uint32_t print_problems(FILE *out, const struct compare_host *hosts, uint32_t num)
{
    uint32_t found = 0;
    for (uint32_t h = 0; h < num; h++)
        for (size_t k = 0; hosts[h].info != NULL && k < hosts[h].info->num_problems; k++) {
            const struct info_problem *p = &hosts[h].info->problems[k];
            struct names names = {0};
            char before[NAMES_BYTES + 16];
            bool earlier = false;
            for (uint32_t n = 0; n < h; n++)
                earlier |= find_problem(&hosts[n], p->what) != NULL;
            if (earlier)
                continue;
            for (uint32_t n = h; n < num; n++)
                if (find_problem(&hosts[n], p->what) != NULL)
                    add_name(&names, hosts[n].name);
            snprintf(before, sizeof before, "problem on %s", end_names(&names));
            page_problem(out, before, p);
            found++;
        }
    return found;
}

static uint32_t print_silent(FILE *out, const struct compare_host *hosts, uint32_t num)
{
    uint32_t found = 0;
    for (uint32_t h = 0; h < num; h++) {
        if (hosts[h].info != NULL)
            continue;
        fprintf(out, "problem on %s: baton-info did not report from there%s%s\n", hosts[h].name,
                hosts[h].why != NULL && hosts[h].why[0] != '\0' ? ": " : "", hosts[h].why != NULL ? hosts[h].why : "");
        fputs("  do: see that the launcher reaches the host, and that Baton lies at the same path there\n", out);
        found++;
    }
    return found;
}

uint32_t compare_print(FILE *out, const struct compare_host *hosts, uint32_t num)
{
    uint32_t found = print_silent(out, hosts, num);
    found += print_problems(out, hosts, num);
    found += print_differences(out, hosts, num);
    print_kinds(out, hosts, num);
    return found;
}
