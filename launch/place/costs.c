/* SPDX-License-Identifier: BSD-3-Clause */
/* costs: see costs.h. */
#include "place/costs.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 0.001
#define MOST 1e9

const char *const cost_names[COST_CLASSES] = {"cache", "numa", "package", "node", "switch", "far"};

const struct costs costs_assumed = {.of = {1, 1, 1.2, 2, 10, 20}};

static int find_class(const char *word, size_t length)
{
    for (int i = 0; i < COST_CLASSES; i++)
        if (strlen(cost_names[i]) == length && strncmp(cost_names[i], word, length) == 0)
            return i;
    return -1;
}

/* One line, without its end. Returns false if it cannot be read. */
static bool read_line(struct costs *c, bool seen[COST_CLASSES], const char *line)
{
    const char *blanks = " \t\r", *word = line + strspn(line, blanks);
    size_t length = strcspn(word, " \t\r#");
    if (length == 0)
        return *word == '\0' || *word == '#';
    int class = find_class(word, length);
    if (class < 0 || seen[class])
        return false;
    char *end;
    double cost = strtod(word + length, &end);
    bool good = end != word + length && cost >= LEAST && cost <= MOST;
    end += strspn(end, blanks);
    seen[class] = true;
    c->of[class] = cost;
    return good && (*end == '\0' || *end == '#');
}

int costs_read(struct costs *c, const char *text, struct why *why)
{
    bool seen[COST_CLASSES] = {false};
    *c = costs_assumed;
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        char *line = strndup(at, length);
        bool good = line != NULL && read_line(c, seen, line);
        free(line);
        if (!good)
            return why_set(why, "\"%.*s\" is no class (cache, numa, package, node, switch, far) with its cost",
                           length < 80 ? (int)length : 80, at);
        at += length + (at[length] == '\n');
    }
    for (unsigned i = 1; i < COST_CLASSES; i++)
        if (c->of[i] < c->of[i - 1])
            return why_set(why, "%s costs %g, which is less than %s, %g: the farther class may not cost less",
                           cost_names[i], c->of[i], cost_names[i - 1], c->of[i - 1]);
    return 0;
}

struct costs costs_of(const double ns_a_byte[COST_CLASSES])
{
    struct costs c = costs_assumed;
    unsigned first = 0;
    while (first < COST_CLASSES && ns_a_byte[first] <= 0)
        first++;
    for (unsigned i = first + 1; i < COST_CLASSES; i++) {
        if (ns_a_byte[i] > 0)
            c.of[i] = costs_assumed.of[first] * ns_a_byte[i] / ns_a_byte[first];
        else
            c.of[i] = c.of[i - 1] * costs_assumed.of[i] / costs_assumed.of[i - 1];
        c.of[i] = c.of[i] > c.of[i - 1] ? c.of[i] : c.of[i - 1];
    }
    return c;
}
