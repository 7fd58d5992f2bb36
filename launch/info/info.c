/* SPDX-License-Identifier: BSD-3-Clause */
/* info: see info.h. */
#include "info/info.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void end_without_memory(void)
{
    fputs("baton-info: out of memory\n", stderr);
    exit(1);
}

static char *copy(const char *text)
{
    char *own = strdup(text != NULL ? text : "");
    if (own == NULL)
        end_without_memory();
    return own;
}

/* Room for one more member of an array. */
static void *grow(void *members, size_t num, size_t bytes)
{
    void *more = realloc(members, (num + 1) * bytes);
    if (more == NULL)
        end_without_memory();
    return more;
}

void info_fact(struct info *i, enum info_scope scope, const char *section, const char *name, const char *format, ...)
{
    va_list args;
    char *value;
    va_start(args, format);
    if (vasprintf(&value, format, args) < 0)
        end_without_memory();
    va_end(args);
    i->facts = grow(i->facts, i->num_facts, sizeof *i->facts);
    i->facts[i->num_facts++] = (struct info_fact){copy(section), copy(name), value, scope};
}

void info_problem(struct info *i, const char *what, const char *remedy, const char *quote)
{
    for (size_t k = 0; k < i->num_problems; k++)
        if (strncmp(what, i->problems[k].what, strlen(i->problems[k].what)) == 0)
            return;
    i->problems = grow(i->problems, i->num_problems, sizeof *i->problems);
    i->problems[i->num_problems++] = (struct info_problem){copy(what), copy(remedy), copy(quote)};
}

void info_take(struct info *i, const struct info *from)
{
    for (size_t k = 0; k < from->num_facts; k++)
        info_fact(i, from->facts[k].scope, from->facts[k].section, from->facts[k].name, "%s", from->facts[k].value);
    for (size_t k = 0; k < from->num_problems; k++)
        info_problem(i, from->problems[k].what, from->problems[k].remedy, from->problems[k].quote);
}

const char *info_value(const struct info *i, const char *section, const char *name)
{
    for (size_t k = 0; k < i->num_facts; k++)
        if (strcmp(i->facts[k].section, section) == 0 && strcmp(i->facts[k].name, name) == 0)
            return i->facts[k].value;
    return NULL;
}

void info_fini(struct info *i)
{
    for (size_t k = 0; k < i->num_facts; k++) {
        free(i->facts[k].section);
        free(i->facts[k].name);
        free(i->facts[k].value);
    }
    for (size_t k = 0; k < i->num_problems; k++) {
        free(i->problems[k].what);
        free(i->problems[k].remedy);
        free(i->problems[k].quote);
    }
    free(i->facts);
    free(i->problems);
    *i = (struct info){0};
}
