/* SPDX-License-Identifier: BSD-3-Clause */
/* costs: see costs.h. */
#include "place/costs.h"

#include <stdlib.h>
#include <string.h>

#include "place/text.h"

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

#define BLANKS " \t\r"
#define CLASSES "(cache, numa, package, node, switch, far)"

struct reader {
    struct costs *costs;
    bool seen[COST_CLASSES];
};

static int take_line(void *reader, char *line, struct why *why)
{
    struct reader *r = reader;
    const char *word = line + strspn(line, BLANKS);
    const int length = (int)strcspn(word, BLANKS), quoted = length < 80 ? length : 80;
    char *end;
    if (length == 0)
        return 0;
    const int class = find_class(word, (size_t)length);
    if (class < 0)
        return why_set(why, "\"%.*s\" is no class " CLASSES, quoted, word);
    if (r->seen[class])
        return why_set(why, "%s is given twice", cost_names[class]);
    const char *number = word + length + strspn(word + length, BLANKS);
    const double cost = strtod(number, &end);
    if (end == number || strcspn(end, BLANKS) > 0)
        return why_set(why, "%s lacks its cost: \"%.80s\" is no number", cost_names[class], number);
    if (end[strspn(end, BLANKS)] != '\0')
        return why_set(why, "%s has more than one number: \"%.80s\"", cost_names[class], number);
    if (!(cost >= LEAST && cost <= MOST))
        return why_set(why, "the cost of %s is out of range, which is %g to %g: \"%.80s\"", cost_names[class], LEAST,
                       MOST, number);
    r->seen[class] = true;
    r->costs->of[class] = cost;
    return 0;
}

int costs_read(struct costs *c, const char *text, struct why *why)
{
    struct reader r = {.costs = c};
    bool any = false;
    *c = costs_assumed;
    if (text_lines(text, "", take_line, &r, why) != 0)
        return -1;
    for (unsigned i = 0; i < COST_CLASSES; i++)
        any |= r.seen[i];
    if (!any)
        return why_set(why, "no class " CLASSES " has a cost");
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
