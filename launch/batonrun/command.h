/* SPDX-License-Identifier: BSD-3-Clause */
/* command: a command line that grows word by word, with the variables that it needs, and its text for a shell. */
#ifndef BATON_LAUNCH_COMMAND_H
#define BATON_LAUNCH_COMMAND_H

#include <stddef.h>
#include <stdio.h>

/** Lists end with NULL once they have a word. Words are copies. */
struct command {
    char **argv, **variables; /* a variable as "NAME=VALUE", or "NAME" where it must not be set */
    size_t num_words, num_variables;
};

/** Where there is no memory, all of these end the program by this. */
void command_out_of_memory(void) __attribute__((noreturn));

void command_add(struct command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void command_set(struct command *c, const char *variable, const char *value);
/** As command_set, unless the variable is set already. */
void command_preset(struct command *c, const char *variable, const char *value);
/** The command runs without the variable. Nothing, unless it is set here. */
void command_unset(struct command *c, const char *variable);
void command_fini(struct command *c);

/** Gives the variables to this process, hence to the command that it will run. */
void command_use_variables(const struct command *c);

/** A line by which a shell would run it, variables first. */
void command_print(const struct command *c, FILE *out);
/** One word, quoted so that a shell reads it back. */
void command_print_word(const char *word, FILE *out);

#endif
