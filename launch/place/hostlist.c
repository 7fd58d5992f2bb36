/* SPDX-License-Identifier: BSD-3-Clause */
/* hostlist: see hostlist.h. */
#include "place/hostlist.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    const char *text;
    hostlist_fn take;
    void *arg;
    uint32_t left; /* names that may still come */
    char name[HOSTLIST_NAME_BYTES];
};

static int add_names(struct walk *w, size_t length, const char *rest, const char *end, struct why *why);

/* One range of a bracket, "7" or "001-004", at *at. Numbers keep the leading zeros of the first. */
static int add_range(struct walk *w, size_t length, const char **at, const char *rest, const char *end, struct why *why)
{
    const char *digits = *at;
    int width = (int)strspn(digits, "0123456789");
    uint64_t first = strtoull(digits, NULL, 10), last = first;
    const char *c = digits + width;
    if (*c == '-' && width > 0 && width < 10) {
        size_t digits_too = strspn(c + 1, "0123456789");
        last = digits_too > 0 && digits_too < 10 ? strtoull(c + 1, NULL, 10) : 0;
        c += 1 + digits_too;
    }
    if (width == 0 || width >= 10 || last < first || last - first >= HOSTLIST_NAMES_MAX)
        return why_set(why, "\"%.40s\" is no range of numbers", digits);
    for (uint64_t n = first; n <= last; n++) {
        int more = snprintf(w->name + length, HOSTLIST_NAME_BYTES - length, "%0*llu", width, (unsigned long long)n);
        if (length + (size_t)more >= HOSTLIST_NAME_BYTES)
            return why_set(why, "a host name is longer than %d bytes", HOSTLIST_NAME_BYTES - 1);
        if (add_names(w, length + (size_t)more, rest, end, why) != 0)
            return -1;
    }
    *at = c;
    return 0;
}

/* Adds the names that begin with name[0, length) and go on as [rest, end) says. */
static int add_names(struct walk *w, size_t length, const char *rest, const char *end, struct why *why)
{
    const char *open = memchr(rest, '[', (size_t)(end - rest));
    size_t plain = (size_t)((open != NULL ? open : end) - rest);
    if (length + plain >= HOSTLIST_NAME_BYTES)
        return why_set(why, "a host name is longer than %d bytes", HOSTLIST_NAME_BYTES - 1);
    memcpy(w->name + length, rest, plain);
    length += plain;
    if (open == NULL) {
        w->name[length] = '\0';
        if (w->left-- == 0)
            return why_set(why, "\"%.80s\" are more than %d names", w->text, HOSTLIST_NAMES_MAX);
        return w->take(w->arg, w->name, why);
    }
    const char *close = memchr(open, ']', (size_t)(end - open));
    if (close == NULL)
        return why_set(why, "\"%.80s\" has no closing bracket", rest);
    const char *at = open;
    do {
        at++;
        if (add_range(w, length, &at, close + 1, end, why) != 0)
            return -1;
    } while (*at == ',');
    return at == close ? 0 : why_set(why, "\"%.40s\" is no range of numbers", at);
}

/* The end of a name: a comma outside of brackets, or the end of the text. */
static const char *end_of_name(const char *at)
{
    for (bool inside = false; *at != '\0' && (inside || *at != ','); at++)
        inside = *at == '[' || (inside && *at != ']');
    return at;
}

int hostlist_each(const char *text, hostlist_fn take, void *arg, struct why *why)
{
    struct walk w = {.text = text, .take = take, .arg = arg, .left = HOSTLIST_NAMES_MAX};
    for (const char *at = text;; at++) {
        const char *end = end_of_name(at);
        if (add_names(&w, 0, at, end, why) != 0)
            return -1;
        at = end;
        if (*at == '\0')
            return 0;
    }
}
