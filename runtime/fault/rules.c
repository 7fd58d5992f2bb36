/* SPDX-License-Identifier: BSD-3-Clause */
/* rules: see rules.h. Runs once, in the thread that starts. */
#include "fault/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "wire/message.h"

static const char *const action_names[] = {"drop", "double", "delay", "corrupt", "stall", "stop", "kill"};
static const char *const event_names[] = {"send",   "take",  "card",  "table", "board",   "move",
                                          "settle", "enter", "leave", "lease", "giveback"};

static int find(const char *const *names, int n, const char *text, size_t length)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
            return i;
    return -1;
}

static int message_type(const char *text, size_t length)
{
    if (length == 1 && text[0] == '*')
        return RULES_ANY_TYPE;
    for (unsigned t = WIRE_WANT; t <= WIRE_TYPE_LAST; t++)
        if (strlen(wire_type_name((enum wire_type)t)) == length &&
            strncmp(wire_type_name((enum wire_type)t), text, length) == 0)
            return (int)t;
    return -1;
}

static bool number(const char **at, uint64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return true;
}

/* "take.WANT" or "card". Returns where the text goes on, or NULL. */
static const char *read_event(const char *at, struct rule *r)
{
    size_t length = strcspn(at, ".#~+/,:");
    int event = find(event_names, EVENTS, at, length), type = RULES_ANY_TYPE;
    at += length;
    if (event == SEND || event == TAKE) {
        if (*at++ != '.')
            return NULL;
        length = strcspn(at, "#~+/,:");
        type = message_type(at, length);
        at += length;
    }
    if (event < 0 || type < 0)
        return NULL;
    r->event = (enum event)event;
    r->type = (unsigned)type;
    return at;
}

/* "#2~500+10/1". Returns where the text goes on, or NULL. *other: the rule is for another rank. */
static const char *read_marks(const char *at, uint32_t rank, struct rule *r, bool *other)
{
    while (*at != '\0' && *at != ',' && *at != ':') {
        uint64_t value;
        char mark = *at++;
        if (!number(&at, &value))
            return NULL;
        if (mark == '#' && value > 0)
            r->only = value;
        else if (mark == '~' && value <= 1000)
            r->chance = value;
        else if (mark == '+' && value <= UINT32_MAX)
            r->ms = value;
        else if (mark == '/')
            *other = value != rank;
        else
            return NULL;
    }
    return at;
}

/* Whether this can be done at that event. */
static bool is_possible(enum action action, enum event event)
{
    switch (action) {
    case DROP:
        return event == SEND || event == TAKE;
    case DOUBLE:
    case DELAY:
        return event == SEND;
    case CORRUPT:
        return event <= TABLE || event == MOVE;
    default:
        return true;
    }
}

/* One rule, up to a comma, a colon or the end. *other: it is for another rank. */
static bool read_rule(const char **text, uint32_t rank, struct rule *r, bool *other)
{
    size_t length = strcspn(*text, "@");
    int action = find(action_names, ACTIONS, *text, length);
    *r = (struct rule){.chance = 1000};
    if (action < 0 || (*text)[length] != '@')
        return false;
    r->action = (enum action)action;
    const char *at = read_event(*text + length + 1, r);
    if (at == NULL || !is_possible(r->action, r->event))
        return false;
    at = read_marks(at, rank, r, other);
    if (at == NULL)
        return false;
    *text = at;
    return true;
}

int rules_read(struct rules *rules, const char *text, uint32_t rank)
{
    const char *at = text;
    for (;;) {
        bool other = false;
        struct rule rule;
        if (rules->num == RULES_MAX || !read_rule(&at, rank, &rule, &other))
            return error_set(BATON_ESETTING, "BATON_FAULT: cannot read \"%.40s\": action@event[#n][~p][+ms][/rank]",
                             at);
        if (!other)
            rules->rule[rules->num++] = rule;
        if (*at != ',')
            break;
        at++;
    }
    if (*at == ':') {
        at++;
        if (!number(&at, &rules->seed))
            return error_set(BATON_ESETTING, "BATON_FAULT: a number must follow the colon, not \"%.40s\"", at);
    }
    return *at == '\0' ? 0 : error_set(BATON_ESETTING, "BATON_FAULT: \"%.40s\" is left over", at);
}
