/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * option: the command lines of the tools. Each has a table with a row for each option:
 * its name, its value's bounds, the field that it sets, and its part of the manual. A word that is not known is
 * refused, so that a misspelt option never gives a figure measured under other conditions than its reader believes.
 * Pure: errors are sentences, and nothing is printed but the manual.
 */
#ifndef OPTION_OPTION_H
#define OPTION_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "option/why.h"

#define OPTION_LIST_MAX 32
#define OPTION_ROWS_MAX 64

/** Numbers given as "4K,64K,1M". */
struct option_list {
    unsigned count;
    uint64_t value[OPTION_LIST_MAX];
};

/** A word that an option takes, and what it sets. A list of them ends with a name that is NULL. */
struct option_choice {
    const char *name;
    unsigned value;
};

struct option_row;

/** Sets *field by a value's text. 0, or -1 with *why: the text is none of the values that the row allows. */
typedef int (*option_reader)(const struct option_row *row, const char *text, void *field, struct why *why);

/** A table ends with a row of zeros. A row with `help` alone is a heading of the manual. */
struct option_row {
    const char *name;  /* without its hyphens */
    const char *value; /* what the manual calls it; NULL: the option takes none */
    const char *help;
    option_reader read;
    size_t field;  /* where it is in the program's struct */
    size_t second; /* not 0: "A:B" sets field to A and this to B, and "A" sets both */
    struct {
        uint64_t least, most;
    } whole;
    struct {
        double least, most;
    } real;
    const struct option_choice *choices;
    unsigned mask; /* of choices: the bits that they set; 0: all */
};

/* The end of a row: what sets `member` of `type`, and the bounds of what it may be. */
#define OPTION_SWITCH(type, member)                                                                                    \
    .read = _Generic(((type *)0)->member, bool : option_read_switch), .field = offsetof(type, member)
#define OPTION_TEXT(type, member)                                                                                      \
    .read = _Generic(((type *)0)->member, const char * : option_read_text), .field = offsetof(type, member)
#define OPTION_FILE(type, member)                                                                                      \
    .read = _Generic(((type *)0)->member, const char * : option_read_file), .field = offsetof(type, member)
#define OPTION_WHOLE(type, member, from, to)                                                                           \
    .read = _Generic(((type *)0)->member, uint32_t                                                                     \
                     : option_read_u32, uint64_t                                                                       \
                     : option_read_u64),                                                                               \
    .field = offsetof(type, member), .whole = {from, to}
#define OPTION_LIST(type, member, from, to)                                                                            \
    .read = _Generic(((type *)0)->member, struct option_list                                                           \
                     : option_read_list),                                                                              \
    .field = offsetof(type, member), .whole = {from, to}
#define OPTION_REAL(type, member, from, to)                                                                            \
    .read = _Generic(((type *)0)->member, double                                                                       \
                     : option_read_real),                                                                              \
    .field = offsetof(type, member), .real = {from, to}
#define OPTION_CHOICE(type, member, words) /* an unsigned member, or an enum */                                        \
    .read = option_read_choice, .field = offsetof(type, member), .choices = words

int option_read_switch(const struct option_row *row, const char *text, void *field, struct why *why);
int option_read_text(const struct option_row *row, const char *text, void *field, struct why *why);
/** A file's name: no option, which would be taken for it where the name is forgotten. */
int option_read_file(const struct option_row *row, const char *text, void *field, struct why *why);
/** K, M or G behind a number stand for 2^10, 2^20 and 2^30. */
int option_read_u32(const struct option_row *row, const char *text, void *field, struct why *why);
int option_read_u64(const struct option_row *row, const char *text, void *field, struct why *why);
int option_read_list(const struct option_row *row, const char *text, void *field, struct why *why);
int option_read_real(const struct option_row *row, const char *text, void *field, struct why *why);
int option_read_choice(const struct option_row *row, const char *text, void *field, struct why *why);

/**
 * Reads a command line into the program's struct *out, whose fields have their defaults. *operand becomes the one word
 * that is no option, and stays as it is where there is none; NULL: such a word is refused. *given (or NULL) gets bit i
 * for row i. 0, or -1 with *why. Strings point into argv.
 */
int option_read(const struct option_row *rows, int argc, char **argv, void *out, const char **operand, uint64_t *given,
                struct why *why);

/**
 * Reads the one option that words[0] is, "--name" or "--name=value", and sets its field in *out. `words` ends with
 * NULL. Returns how many words that took, 1 or 2; 0: no row has that name; -1 with *why.
 */
int option_take(const struct option_row *rows, char **words, void *out, struct why *why);

/**
 * The name, without hyphens, that a misspelt word such as "--nmae=x" is nearest to. `tables` ends with NULL. NULL: the
 * word is near no row's name.
 */
const char *option_nearest(const struct option_row *const *tables, const char *word);

/** What follows a word that no row has: " (is it --name?)", or nothing. */
struct option_hint {
    char text[48];
};

struct option_hint option_hint(const struct option_row *const *tables, const char *word);

/** Whether `given` has the row of this name. */
bool option_given(const struct option_row *rows, uint64_t given, const char *name);

/** The manual of all rows, on standard output. */
void option_help(const struct option_row *rows);

/** The largest number of a list. */
uint64_t option_list_most(const struct option_list *list);

/** The name of a value; `otherwise` where no choice has it. */
const char *option_name(const struct option_choice *choices, unsigned value, const char *otherwise);

/** The names of all choices, with commas between them, cut to the room that there is. Returns `text`. */
const char *option_names(const struct option_choice *choices, char *text, size_t room);

#endif
