/* SPDX-License-Identifier: BSD-3-Clause */
/* command: see command.h. */
#include "batonrun/command.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void command_out_of_memory(void)
{
    fputs("batonrun: out of memory\n", stderr);
    exit(1);
}

/* Room is doubled when the count is a power of two; the NULL behind the words counts. */
static void append(char ***list, size_t *num, char *word)
{
    if ((*num & (*num + 1)) == 0)
        *list = realloc(*list, 2 * (*num + 1) * sizeof **list);
    if (*list == NULL || word == NULL)
        command_out_of_memory();
    (*list)[(*num)++] = word;
    (*list)[*num] = NULL;
}

void command_add(struct command *c, const char *format, ...)
{
    char *word;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&word, format, args);
    va_end(args);
    append(&c->argv, &c->num_words, length >= 0 ? word : NULL);
}

void command_set(struct command *c, const char *variable, const char *value)
{
    char *word;
    int length = asprintf(&word, "%s=%s", variable, value);
    append(&c->variables, &c->num_variables, length >= 0 ? word : NULL);
}

void command_preset(struct command *c, const char *variable, const char *value)
{
    if (getenv(variable) == NULL)
        command_set(c, variable, value);
}

void command_unset(struct command *c, const char *variable)
{
    if (getenv(variable) != NULL)
        append(&c->variables, &c->num_variables, strdup(variable));
}

static void free_list(char **list)
{
    for (char **word = list; word != NULL && *word != NULL; word++)
        free(*word);
    free(list);
}

void command_fini(struct command *c)
{
    free_list(c->argv);
    free_list(c->variables);
    *c = (struct command){0};
}

void command_use_variables(const struct command *c)
{
    for (size_t i = 0; i < c->num_variables; i++) {
        const char *value = strchr(c->variables[i], '=');
        char *name = strndup(c->variables[i], strcspn(c->variables[i], "="));
        if (name == NULL || (value != NULL ? setenv(name, value + 1, 1) : unsetenv(name)) != 0)
            command_out_of_memory();
        free(name);
    }
}

/* Characters that no shell treats specially. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";

void command_print_word(const char *word, FILE *out)
{
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

void command_print(const struct command *c, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < c->num_variables; i++) {
        if (strchr(c->variables[i], '=') != NULL)
            continue;
        fprintf(out, "%s-u %s ", any ? "" : "env ", c->variables[i]);
        any = true;
    }
    for (size_t i = 0; i < c->num_variables; i++) {
        if (strchr(c->variables[i], '=') == NULL)
            continue;
        size_t name = strcspn(c->variables[i], "=") + 1;
        fprintf(out, "%.*s", (int)name, c->variables[i]);
        command_print_word(c->variables[i] + name, out);
        putc(' ', out);
    }
    for (size_t i = 0; i < c->num_words; i++) {
        if (i > 0)
            putc(' ', out);
        command_print_word(c->argv[i], out);
    }
    putc('\n', out);
}
