/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line: see line.h. A line is TAG, the rank, a letter for its kind, and fields behind tabs: "f" scope, section, name
 * and value; "p" what, remedy and quote; "e" the number of lines before it.
 */
#include "info/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batonrun/descriptor.h"
#include "batonrun/lines.h"

#define TAG "@baton-info "
#define FIELDS_MAX 4
#define FIELD_BYTES 800 /* of one, escaped: what is longer loses its end */
#define DRAIN_MS 1000   /* then the rest follows anyway */

static const char *const scopes[] = {[INFO_OF_NODE] = "node", [INFO_OF_KIND] = "kind", [INFO_OF_ALL] = "all"};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A tab and the text, in which tab, newline and backslash are two letters each. */
static void add_field(char line[LINE_BYTES], const char *text)
{
    static const char from[] = "\t\n\\", to[] = "tn\\";
    size_t at = strlen(line), end = at + FIELD_BYTES;
    line[at++] = '\t';
    for (; *text != '\0' && at + 2 < end; text++) {
        const char *special = strchr(from, *text);
        if (special != NULL)
            line[at++] = '\\';
        line[at++] = special != NULL ? to[special - from] : *text;
    }
    line[at] = '\0';
}

static int write_line(int fd, uint32_t rank, char kind, const char *const fields[], unsigned num)
{
    char line[LINE_BYTES];
    _Static_assert(FIELDS_MAX * FIELD_BYTES + 64 < LINE_BYTES, "all fields fit");
    snprintf(line, sizeof line, "\n" TAG "%" PRIu32 " %c", rank, kind);
    for (unsigned i = 0; i < num; i++)
        add_field(line, fields[i]);
    size_t length = strlen(line);
    line[length++] = '\n';
    const int error = descriptor_write(fd, line, length);
    lines_drain(fd, DRAIN_MS);
    return error == 0 ? 0 : -1;
}

int line_write(int fd, uint32_t rank, const struct info *i)
{
    char number[24];
    int rc = 0;
    for (size_t k = 0; k < i->num_problems && rc == 0; k++) {
        const struct info_problem *p = &i->problems[k];
        rc = write_line(fd, rank, 'p', (const char *const[]){p->what, p->remedy, p->quote}, 3);
    }
    for (size_t k = 0; k < i->num_facts && rc == 0; k++) {
        const struct info_fact *f = &i->facts[k];
        rc = write_line(fd, rank, 'f', (const char *const[]){scopes[f->scope], f->section, f->name, f->value}, 4);
    }
    snprintf(number, sizeof number, "%zu", i->num_problems + i->num_facts);
    return rc == 0 ? write_line(fd, rank, 'e', (const char *const[]){number}, 1) : rc;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int64_t line_rank(const char *line)
{
    uint32_t rank;
    char kind;
    if (strncmp(line, TAG, strlen(TAG)) != 0 || sscanf(line + strlen(TAG), "%" SCNu32 " %c", &rank, &kind) != 2)
        return -1;
    return rank;
}

/* In place. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0') {
            ++text;
            *to++ = *text == 't' ? '\t' : *text == 'n' ? '\n' : *text;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

static unsigned split(char *at, char *fields[FIELDS_MAX])
{
    unsigned n = 0;
    while (n < FIELDS_MAX && (at = strchr(at, '\t')) != NULL) {
        *at++ = '\0';
        fields[n++] = at;
    }
    return n;
}

/* A word that this version does not know: what it says is not compared. */
static enum info_scope find_scope(const char *word)
{
    for (enum info_scope s = INFO_OF_NODE; s <= INFO_OF_ALL; s++)
        if (strcmp(word, scopes[s]) == 0)
            return s;
    return INFO_OF_NODE;
}

void line_take(struct line_reader *r, const char *line)
{
    char *own = strdup(line), *fields[FIELDS_MAX], kind = '\0';
    unsigned n = 0;
    if (own != NULL && sscanf(own + strlen(TAG), "%*" SCNu32 " %c", &kind) == 1)
        n = split(own, fields);
    for (unsigned i = 0; i < n; i++)
        unescape(fields[i]);
    if (kind == 'f' && n == 4) {
        r->lines++;
        info_fact(&r->info, find_scope(fields[0]), fields[1], fields[2], "%s", fields[3]);
    } else if (kind == 'p' && n == 3) {
        r->lines++;
        info_problem(&r->info, fields[0], fields[1], fields[2]);
    } else if (kind == 'e' && n == 1) {
        r->is_whole = strtoull(fields[0], NULL, 10) == r->lines;
    }
    free(own);
}
