/* SPDX-License-Identifier: BSD-3-Clause */
/* with_openmetrics: see with_openmetrics.h. A text of a few thousand lines, so what was seen is looked through. */
#include "unit/with_openmetrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 128, LABELS = 512, SERIES = 20000, FAMILIES = 256 };

enum type { COUNTER, GAUGE, INFO, HISTOGRAM, TYPES };

static const char *const types[TYPES] = {"counter", "gauge", "info", "histogram"};
static const char *const suffixes[TYPES][4] = {{"_total"}, {""}, {"_info"}, {"_bucket", "_count", "_sum"}};
static const char *const old_suffixes[TYPES][4] = {{""}, {""}, {NULL}, {"_bucket", "_count", "_sum"}};

struct reader {
    const char *at;
    bool is_old; /* 0.0.4: a family has its samples' name, and there are neither infos nor units */
    unsigned line;
    char families[FAMILIES][NAME];
    unsigned num_families;
    enum type type; /* of the family under way, the last of the list */
    bool has_unit, has_help, has_sample;
    char *series[SERIES]; /* names with labels */
    unsigned num_series;
    /* the histogram under way */
    char labels[LABELS]; /* but "le" */
    double le, count;
    bool is_open, has_infinity;
    unsigned parts; /* bits: count and sum came */
    char *why;
    size_t size;
};

static bool bad(struct reader *r, const char *what)
{
    snprintf(r->why, r->size, "line %u: %s", r->line, what);
    return false;
}

static bool take_name(const char **at, char name[NAME])
{
    size_t n = 0;
    for (; (isalnum((unsigned char)**at) || **at == '_') && n + 1 < NAME; ++*at)
        name[n++] = **at;
    name[n] = '\0';
    return n > 0 && !isdigit((unsigned char)name[0]);
}

static bool take(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

/* ---- lines about a family ---------------------------------------------------------------------------------------- */

static const char *family(const struct reader *r)
{
    return r->families[r->num_families - 1];
}

static bool ends_histogram(struct reader *r)
{
    if (r->is_open && (!r->has_infinity || r->parts != 3))
        return bad(r, "a histogram lacks +Inf, its count or its sum");
    r->is_open = false;
    return true;
}

static bool take_type(struct reader *r, const char *line)
{
    char name[NAME];
    if (!ends_histogram(r) || !take_name(&line, name) || !take(&line, " "))
        return bad(r, "a TYPE without a name");
    for (unsigned i = 0; i < r->num_families; i++)
        if (strcmp(r->families[i], name) == 0)
            return bad(r, "a family comes twice");
    for (r->type = 0; r->type < TYPES && strcmp(line, types[r->type]) != 0; r->type++)
        continue;
    if (r->type == TYPES || (r->is_old && r->type == INFO) || r->num_families == FAMILIES)
        return bad(r, "an unknown type");
    strcpy(r->families[r->num_families++], name);
    r->has_unit = r->has_help = r->has_sample = false;
    return true;
}

/* UNIT and HELP: of the family whose TYPE came, before its samples, once each. */
static bool take_about(struct reader *r, const char *line, bool *has, const char **rest)
{
    char name[NAME];
    if (r->num_families == 0 || r->has_sample || *has || !take_name(&line, name) || !take(&line, " ") ||
        strcmp(name, family(r)) != 0)
        return bad(r, "a UNIT or HELP is out of its place");
    *has = true;
    *rest = line;
    return true;
}

static bool take_unit(struct reader *r, const char *line)
{
    const char *unit;
    if (r->is_old)
        return bad(r, "this form has no UNIT");
    if (!take_about(r, line, &r->has_unit, &unit))
        return false;
    size_t name = strlen(family(r)), n = strlen(unit);
    return (n > 0 && name > n + 1 && family(r)[name - n - 1] == '_' && strcmp(family(r) + name - n, unit) == 0) ||
           bad(r, "the name does not end in the unit");
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Reads {a="b",...}. The text of all labels but "le" goes to `others`. */
static bool take_labels(struct reader *r, const char **at, char others[LABELS], char le[NAME])
{
    char name[NAME], seen[16][NAME];
    unsigned num = 0;
    size_t n = 0;
    others[0] = le[0] = '\0';
    if (!take(at, "{"))
        return true;
    do {
        const char *first = *at;
        if (!take_name(at, name) || !take(at, "=\""))
            return bad(r, "a label is malformed");
        for (unsigned i = 0; i < num; i++)
            if (strcmp(seen[i], name) == 0)
                return bad(r, "a label comes twice");
        if (num == 16)
            return bad(r, "too many labels");
        strcpy(seen[num++], name);
        const char *value = *at;
        for (; **at != '"'; ++*at) {
            if (**at == '\\' && strchr("\\\"n", (*at)[1]) != NULL && (*at)[1] != '\0')
                ++*at;
            else if (**at == '\\' || **at == '\0')
                return bad(r, "a label's value is malformed");
        }
        if (strcmp(name, "le") == 0)
            snprintf(le, NAME, "%.*s", (int)(*at - value), value);
        ++*at;
        if (strcmp(name, "le") != 0)
            n += (size_t)snprintf(others + n, n < LABELS ? LABELS - n : 0, "%.*s,", (int)(*at - first), first);
        if (n >= LABELS)
            return bad(r, "labels are long");
    } while (take(at, ","));
    return take(at, "}") || bad(r, "the labels do not end");
}

static bool take_series(struct reader *r, const char *line, const char *end)
{
    char *text = strndup(line, (size_t)(end - line));
    for (unsigned i = 0; i < r->num_series; i++)
        if (strcmp(r->series[i], text) == 0) {
            free(text);
            return bad(r, "a series comes twice");
        }
    if (r->num_series == SERIES)
        return bad(r, "too many series");
    r->series[r->num_series++] = text;
    return true;
}

/* `part`: 0: bucket, 1: count, 2: sum. Buckets come first, in rising order, then count and sum, of the same labels. */
static bool take_histogram(struct reader *r, unsigned part, const char *labels, const char *le, double value)
{
    if (part == 0) {
        char *end;
        double bound = strtod(le, &end);
        if (le[0] == '\0' || *end != '\0')
            return bad(r, "a bucket has no bound");
        bool is_first = !r->is_open || strcmp(labels, r->labels) != 0;
        if (is_first && !ends_histogram(r))
            return false;
        if (!is_first && (r->has_infinity || bound <= r->le || value < r->count))
            return bad(r, "buckets do not rise");
        snprintf(r->labels, sizeof r->labels, "%s", labels);
        r->is_open = true;
        r->parts = 0;
        r->le = bound;
        r->count = value;
        r->has_infinity = isinf(bound);
        return true;
    }
    if (!r->is_open || strcmp(labels, r->labels) != 0 || le[0] != '\0')
        return bad(r, "count or sum are not those of the buckets before");
    if (part == 1 && value != r->count)
        return bad(r, "the count is not that of the last bucket");
    r->parts |= part;
    return true;
}

static bool take_sample(struct reader *r, const char *line)
{
    char name[NAME], labels[LABELS], le[NAME], *end;
    const char *at = line;
    if (r->num_families == 0 || !take_name(&at, name))
        return bad(r, "neither a sample nor a word about a family");
    const char *const *ends = r->is_old ? old_suffixes[r->type] : suffixes[r->type];
    size_t length = strlen(family(r));
    unsigned part = 0;
    bool is_ours = strncmp(name, family(r), length) == 0;
    while (is_ours && part < 4 && ends[part] != NULL && strcmp(name + length, ends[part]) != 0)
        part++;
    if (!is_ours || part == 4 || ends[part] == NULL)
        return bad(r, "a sample that is not of the family before it");
    if (!take_labels(r, &at, labels, le) || !take_series(r, line, at))
        return false;
    if (!take(&at, " "))
        return bad(r, "a sample without a value");
    double value = strtod(at, &end);
    if (end == at || *end != '\0' || isnan(value))
        return bad(r, "the value is no number");
    if (r->type != GAUGE && value < 0)
        return bad(r, "a count below 0");
    if (r->type == INFO && value != 1)
        return bad(r, "an info is 1");
    r->has_sample = true;
    return r->type == HISTOGRAM ? take_histogram(r, part, labels, le, value)
                                : le[0] == '\0' || bad(r, "le belongs to histograms");
}

static bool take_line(struct reader *r, const char *line)
{
    const char *help;
    if (take(&line, "# TYPE "))
        return take_type(r, line);
    if (take(&line, "# UNIT "))
        return take_unit(r, line);
    if (take(&line, "# HELP "))
        return take_about(r, line, &r->has_help, &help) && (help[0] != '\0' || bad(r, "an empty HELP"));
    return take_sample(r, line);
}

static bool read_all(struct reader *r)
{
    for (r->line = 1;; r->line++) {
        const char *end = strchr(r->at, '\n');
        if (end == NULL)
            return bad(r, "the text does not end in # EOF and a newline");
        char *line = strndup(r->at, (size_t)(end - r->at));
        r->at = end + 1;
        bool is_end = strcmp(line, "# EOF") == 0;
        bool good = is_end || take_line(r, line);
        free(line);
        if (is_end)
            return ends_histogram(r) && (*r->at == '\0' || bad(r, "something follows # EOF"));
        if (!good)
            return false;
    }
}

bool openmetrics_is_good(const char *text, bool is_old, char *why, size_t size)
{
    struct reader *r = calloc(1, sizeof *r);
    r->at = text;
    r->is_old = is_old;
    r->why = why;
    r->size = size;
    why[0] = '\0';
    bool good = read_all(r);
    for (unsigned i = 0; i < r->num_series; i++)
        free(r->series[i]);
    free(r);
    return good;
}
