/* SPDX-License-Identifier: BSD-3-Clause */
/* with_line: a command line from one string. */
#ifndef UNIT_WITH_LINE_H
#define UNIT_WITH_LINE_H

#include <string.h>

#define LINE_WORDS_MAX 40

/** An argv whose words point into `text`. */
struct line {
    int argc;
    char *argv[LINE_WORDS_MAX + 1];
    char text[512];
};

/** Splits `text` at its blanks, and puts a program's name before the words. */
static inline void line_set(struct line *l, const char *text)
{
    char *rest = NULL;
    assert_true(strlen(text) + 8 < sizeof l->text);
    strcpy(l->text, "program ");
    strcat(l->text, text);
    l->argc = 0;
    for (char *word = strtok_r(l->text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(l->argc < LINE_WORDS_MAX);
        l->argv[l->argc++] = word;
    }
    l->argv[l->argc] = NULL;
}

#endif
