/* SPDX-License-Identifier: BSD-3-Clause */
/* page: the text of page.h. */
#include "info/page.h"

#include <string.h>

/* Each line of a text behind `before`. */
static void print_lines(FILE *out, const char *before, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        fprintf(out, "%s%.*s\n", before, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

void page_problem(FILE *out, const char *before, const struct info_problem *p)
{
    fprintf(out, "%s: %s\n", before, p->what);
    if (p->remedy[0] != '\0')
        fprintf(out, "  do: %s\n", p->remedy);
    print_lines(out, "  | ", p->quote);
}

void page_problems(FILE *out, const struct info *i)
{
    fprintf(out, "baton %s on %s: ", info_value(i, "baton", "version"), info_value(i, "baton", "host"));
    if (i->num_problems == 0)
        fputs("no problem was found\n", out);
    else
        fprintf(out, "%zu problem%s\n", i->num_problems, i->num_problems == 1 ? "" : "s");
    for (size_t k = 0; k < i->num_problems; k++)
        page_problem(out, "problem", &i->problems[k]);
}

static void print_fact(FILE *out, const struct info_fact *f)
{
    fprintf(out, "  %-30s ", f->name);
    if (strchr(f->value, '\n') == NULL) {
        fprintf(out, "%s\n", f->value);
        return;
    }
    fputc('\n', out);
    print_lines(out, "  | ", f->value);
}

/* The first fact of a section brings the others of it along. */
static bool begins_section(const struct info *i, size_t number)
{
    for (size_t k = 0; k < number; k++)
        if (strcmp(i->facts[k].section, i->facts[number].section) == 0)
            return false;
    return true;
}

void page_facts(FILE *out, const struct info *i)
{
    for (size_t k = 0; k < i->num_facts; k++) {
        if (!begins_section(i, k))
            continue;
        fprintf(out, "\n%s\n", i->facts[k].section);
        for (size_t n = k; n < i->num_facts; n++)
            if (strcmp(i->facts[n].section, i->facts[k].section) == 0)
                print_fact(out, &i->facts[n]);
    }
}
