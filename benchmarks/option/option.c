/* SPDX-License-Identifier: BSD-3-Clause */
/* option: see option.h. getopt_long finds the words. */
#include "option/option.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spelling.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

int option_read_switch(const struct option_row *row, const char *text, void *field, struct why *why)
{
    (void)row, (void)text, (void)why;
    *(bool *)field = true;
    return 0;
}

int option_read_text(const struct option_row *row, const char *text, void *field, struct why *why)
{
    (void)row, (void)why;
    *(const char **)field = text;
    return 0;
}

int option_read_file(const struct option_row *row, const char *text, void *field, struct why *why)
{
    if (strncmp(text, "--", 2) == 0)
        return why_set(why, "--%s needs a file: \"%.64s\" is an option; ./%.64s names a file", row->name, text, text);
    return option_read_text(row, text, field, why);
}

/* A bound as a person writes it: 16M, 1G. */
struct number_text {
    char text[24];
};

static struct number_text number_text(uint64_t n)
{
    struct number_text t;
    unsigned shift = n > 0 && n % (UINT64_C(1) << 30) == 0 ? 30 : n > 0 && n % (UINT64_C(1) << 20) == 0 ? 20 : 0;
    snprintf(t.text, sizeof t.text, "%llu%s", (unsigned long long)(n >> shift), shift == 30 ? "G" : shift ? "M" : "");
    return t;
}

static bool read_whole(const struct option_row *row, const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (text[0] < '0' || text[0] > '9' || end[shift != 0] != '\0' || errno != 0 || n > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)n << shift;
    return *out >= row->whole.least && *out <= row->whole.most;
}

int option_read_u64(const struct option_row *row, const char *text, void *field, struct why *why)
{
    uint64_t n = 0;
    if (!read_whole(row, text, &n))
        return why_set(why, "--%s must be a whole number from %s to %s, and is \"%.64s\"", row->name,
                       number_text(row->whole.least).text, number_text(row->whole.most).text, text);
    *(uint64_t *)field = n;
    return 0;
}

int option_read_u32(const struct option_row *row, const char *text, void *field, struct why *why)
{
    uint64_t n = 0;
    if (option_read_u64(row, text, &n, why) != 0)
        return -1;
    *(uint32_t *)field = (uint32_t)n;
    return 0;
}

int option_read_list(const struct option_row *row, const char *text, void *field, struct why *why)
{
    struct option_list list = {0};
    const char *at = text;
    for (bool more = true; more;) {
        char word[32];
        size_t len = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        if (len >= sizeof word || list.count == OPTION_LIST_MAX || !read_whole(row, word, &list.value[list.count++]))
            return why_set(why, "--%s must be 1 to %d numbers from %s to %s with commas between them, and is \"%.64s\"",
                           row->name, OPTION_LIST_MAX, number_text(row->whole.least).text,
                           number_text(row->whole.most).text, text);
        more = at[len] == ',';
        at += len + more;
    }
    *(struct option_list *)field = list;
    return 0;
}

int option_read_real(const struct option_row *row, const char *text, void *field, struct why *why)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= row->real.least && x <= row->real.most))
        return why_set(why, "--%s must be a number from %g to %g, and is \"%.64s\"", row->name, row->real.least,
                       row->real.most, text);
    *(double *)field = x;
    return 0;
}

int option_read_choice(const struct option_row *row, const char *text, void *field, struct why *why)
{
    char all[128];
    unsigned mask = row->mask != 0 ? row->mask : ~0u, set;
    for (const struct option_choice *c = row->choices; c->name != NULL; c++) {
        if (strcmp(c->name, text) != 0)
            continue;
        memcpy(&set, field, sizeof set);
        set = (set & ~mask) | c->value;
        memcpy(field, &set, sizeof set);
        return 0;
    }
    return why_set(why, "--%s must be one of %s, and is \"%.64s\"", row->name,
                   option_names(row->choices, all, sizeof all), text);
}

const char *option_name(const struct option_choice *choices, unsigned value, const char *otherwise)
{
    for (; choices->name != NULL; choices++)
        if (choices->value == value)
            return choices->name;
    return otherwise;
}

const char *option_names(const struct option_choice *choices, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct option_choice *c = choices; c->name != NULL && used < room; c++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", c == choices ? "" : ", ", c->name);
    return text;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

#define WORD_FIRST 256   /* what getopt_long returns for row 0: behind all characters */
#define LETTERS_A_SLIP 3 /* of an option's name: a word with more slips is taken to mean something else */

static bool is_end(const struct option_row *row)
{
    return row->name == NULL && row->help == NULL;
}

/* The value of both sides, or "A:B". */
static int read_sides(const struct option_row *row, const char *text, char *out, struct why *why)
{
    char first[64];
    const char *colon = strchr(text, ':');
    const size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (len >= sizeof first) /* no value is so long, and the reader says so */
        return row->read(row, text, out + row->field, why);
    snprintf(first, sizeof first, "%.*s", (int)len, text);
    if (row->read(row, first, out + row->field, why) != 0)
        return -1;
    return row->read(row, colon != NULL ? colon + 1 : first, out + row->second, why);
}

static int read_value(const struct option_row *row, const char *text, char *out, struct why *why)
{
    const bool sides = row->second != 0 && text != NULL;
    return sides ? read_sides(row, text, out, why) : row->read(row, text, out + row->field, why);
}

static int lacks_value(const char *word, struct why *why)
{
    return why_set(why, "\"%.64s\" lacks its value; see --help", word);
}

static int takes_no_value(const char *word, struct why *why)
{
    return why_set(why, "\"%.64s\": this option takes no value; see --help", word);
}

const char *option_nearest(const struct option_row *const *tables, const char *word)
{
    const size_t length = strcspn(word, "=");
    const char *nearest = NULL;
    unsigned least = UINT_MAX;
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    for (; *tables != NULL; tables++)
        for (const struct option_row *row = *tables; !is_end(row); row++) {
            if (row->name == NULL)
                continue;
            const unsigned slips = spelling_distance(word + 2, length - 2, row->name);
            if (slips >= least || slips > strlen(row->name) / LETTERS_A_SLIP)
                continue;
            least = slips;
            nearest = row->name;
        }
    return nearest;
}

struct option_hint option_hint(const struct option_row *const *tables, const char *word)
{
    struct option_hint hint = {""};
    const char *nearest = option_nearest(tables, word);
    if (nearest != NULL)
        snprintf(hint.text, sizeof hint.text, " (is it --%s?)", nearest);
    return hint;
}

static int refuse(const struct option_row *rows, const char *word, int what, struct why *why)
{
    const struct option_row *const tables[] = {rows, NULL};
    if (what == ':')
        return lacks_value(word, why);
    if (optopt >= WORD_FIRST)
        return takes_no_value(word, why);
    return why_set(why, "\"%.64s\" is no option%s, or the beginning of several; see --help", word,
                   option_hint(tables, word).text);
}

int option_read(const struct option_row *rows, int argc, char **argv, void *out, const char **operand, uint64_t *given,
                struct why *why)
{
    struct option words[OPTION_ROWS_MAX + 1] = {{0}};
    unsigned num_words = 0;
    const char *only = NULL;
    uint64_t found = 0;
    for (unsigned i = 0; i < OPTION_ROWS_MAX && !is_end(&rows[i]); i++)
        if (rows[i].name != NULL)
            words[num_words++] = (struct option){rows[i].name, rows[i].value != NULL, NULL, WORD_FIRST + (int)i};
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (int at = 1, what; (what = getopt_long(argc, argv, "-:", words, NULL)) != -1; at = optind) {
        if (what == '?' || what == ':')
            return refuse(rows, argv[at], what, why);
        if (what == 1 && (operand == NULL || only != NULL))
            return why_set(why, "\"%.64s\" is not an option; see --help", optarg);
        if (what == 1) {
            only = optarg;
            continue;
        }
        if (read_value(&rows[what - WORD_FIRST], optarg, out, why) != 0)
            return -1;
        found |= UINT64_C(1) << (what - WORD_FIRST);
    }
    if (optind < argc)
        return why_set(why, "\"%.64s\" is not an option; see --help", argv[optind]);
    if (only != NULL)
        *operand = only;
    if (given != NULL)
        *given = found;
    return 0;
}

int option_take(const struct option_row *rows, char **words, void *out, struct why *why)
{
    size_t length = strcspn(words[0], "=");
    const char *value = words[0][length] == '=' ? words[0] + length + 1 : NULL;
    for (const struct option_row *row = rows; !is_end(row); row++) {
        if (row->name == NULL || strncmp(words[0], "--", 2) != 0 || strlen(row->name) != length - 2 ||
            strncmp(words[0] + 2, row->name, length - 2) != 0)
            continue;
        if (row->value == NULL && value != NULL)
            return takes_no_value(words[0], why);
        bool next = row->value != NULL && value == NULL;
        if (next && words[1] == NULL)
            return lacks_value(words[0], why);
        return read_value(row, next ? words[1] : value, out, why) == 0 ? 1 + next : -1;
    }
    return 0;
}

bool option_given(const struct option_row *rows, uint64_t given, const char *name)
{
    for (unsigned i = 0; i < OPTION_ROWS_MAX && !is_end(&rows[i]); i++)
        if (rows[i].name != NULL && strcmp(rows[i].name, name) == 0)
            return given >> i & 1;
    return false;
}

/* ---- the manual -------------------------------------------------------------------------------------------------- */

#define HELP_COLUMN 23
#define HELP_WIDTH 110

/* Words from column `at` on, in later lines from HELP_COLUMN on. */
static void print_wrapped(const char *text, int at)
{
    for (bool first = true; *text != '\0'; first = false) {
        int len = (int)strcspn(text, " ");
        if (!first && at + 1 + len > HELP_WIDTH)
            at = printf("\n%*s", HELP_COLUMN, "") - 1;
        else if (!first)
            at += printf(" ");
        at += printf("%.*s", len, text);
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

void option_help(const struct option_row *rows)
{
    for (const struct option_row *row = rows; !is_end(row); row++) {
        if (row->name == NULL) {
            puts(row->help);
            continue;
        }
        int at = printf("  --%s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        at += printf("%*s", at + 2 < HELP_COLUMN ? HELP_COLUMN - at : 2, "");
        print_wrapped(row->help, at);
    }
}

uint64_t option_list_most(const struct option_list *list)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < list->count; i++)
        most = list->value[i] > most ? list->value[i] : most;
    return most;
}
