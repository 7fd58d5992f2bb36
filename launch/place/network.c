/* SPDX-License-Identifier: BSD-3-Clause */
/* network: see network.h. */
#include "place/network.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "place/hostlist.h"

/** A switch or a node. */
struct network_name {
    UT_hash_handle hh;
    struct network_name *above; /* NULL: the top */
    uint32_t number, height;    /* of a switch; nodes have no height */
    uint32_t line;              /* that names it first */
    bool is_switch, is_described;
    char text[];
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* NULL: *why says what is wrong. */
static struct network_name *name_of(struct network *n, const char *text, bool is_switch, struct why *why)
{
    struct network_name *name = NULL;
    HASH_FIND_STR(n->names, text, name);
    if (name != NULL && name->is_switch == is_switch)
        return name;
    if (name != NULL)
        return why_set(why, "\"%.80s\" is both a switch and a node", text), NULL;
    size_t length = strlen(text);
    name = calloc(1, sizeof *name + length + 1);
    if (name == NULL)
        return why_set(why, "no memory for the network"), NULL;
    memcpy(name->text, text, length);
    name->is_switch = is_switch;
    name->number = n->num_switches;
    name->line = n->line;
    HASH_ADD_KEYPTR(hh, n->names, name->text, length, name);
    if (name->hh.tbl == NULL) {
        free(name);
        return why_set(why, "no memory for the network"), NULL;
    }
    n->num_switches += is_switch;
    return name;
}

struct below {
    struct network *network;
    struct network_name *above;
    bool is_switch;
};

static int put_below(void *arg, const char *text, struct why *why)
{
    struct below *b = arg;
    struct network_name *name = name_of(b->network, text, b->is_switch, why);
    if (name == NULL)
        return -1;
    if (name->above != NULL)
        return why_set(why, "\"%.80s\" is below two switches, \"%.80s\" and \"%.80s\"", text, name->above->text,
                       b->above->text);
    name->above = b->above;
    return 0;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

#define BLANKS " \t\r"

enum key { SWITCH_NAME, SWITCHES, NODES, LINK_SPEED, KEYS };

static const char *const key_names[KEYS] = {"SwitchName", "Switches", "Nodes", "LinkSpeed"};

/* Cuts "KEY=VALUE KEY=VALUE" into values, NULL where a key is not there. Blanks may stand around "=". */
static int cut_values(char *line, const char *values[KEYS], struct why *why)
{
    for (char *at = line + strspn(line, BLANKS); *at != '\0'; at += strspn(at, BLANKS)) {
        const int length = (int)strcspn(at, "=" BLANKS), quoted = length < 80 ? length : 80;
        char *value = at + length + strspn(at + length, BLANKS);
        unsigned key = 0;
        while (key < KEYS &&
               (strlen(key_names[key]) != (size_t)length || strncasecmp(at, key_names[key], (size_t)length) != 0))
            key++;
        if (key == KEYS || *value != '=')
            return why_set(why, "\"%.*s\" is no key of a tree of switches (SwitchName=, Switches=, Nodes=, LinkSpeed=)",
                           quoted, at);
        value += 1 + strspn(value + 1, BLANKS);
        at = value + strcspn(value, BLANKS);
        if (values[key] != NULL)
            return why_set(why, "%s= comes twice", key_names[key]);
        if (at == value)
            return why_set(why, "%s= lacks its value", key_names[key]);
        values[key] = value;
        if (*at != '\0')
            *at++ = '\0';
    }
    return 0;
}

static int read_line(struct network *n, char *line, struct why *why)
{
    const char *values[KEYS] = {NULL};
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, BLANKS)] == '\0')
        return 0;
    if (cut_values(line, values, why) != 0)
        return -1;
    const char *own = values[SWITCH_NAME];
    if (own == NULL)
        return why_set(why, "no SwitchName= in it");
    struct network_name *name = name_of(n, own, true, why);
    if (name == NULL)
        return -1;
    if (name->is_described)
        return why_set(why, "the switch \"%.80s\" comes twice", own);
    name->is_described = true;
    struct below b = {n, name, true};
    if (values[SWITCHES] != NULL && hostlist_each(values[SWITCHES], put_below, &b, why) != 0)
        return -1;
    b.is_switch = false;
    return values[NODES] != NULL ? hostlist_each(values[NODES], put_below, &b, why) : 0;
}

/* Cuts a line off the text at *at, together with those that it goes on in: it then ends in a backslash. */
static char *cut_line(char **at, uint32_t *lines)
{
    char *line = *at, *end = line;
    for (bool more = true; more && **at != '\0'; ++*lines) {
        const size_t length = strcspn(*at, "\n"), next = length + ((*at)[length] == '\n');
        size_t part = length;
        while (part > 0 && strchr(BLANKS, (*at)[part - 1]) != NULL)
            part--;
        more = part > 0 && (*at)[part - 1] == '\\';
        part -= more;
        memmove(end, *at, part);
        end += part;
        *at += next;
    }
    *end = '\0';
    return line;
}

static int read_lines(struct network *n, char *text, struct why *why)
{
    uint32_t lines = 0;
    for (char *at = text; *at != '\0';) {
        struct why reason;
        n->line = lines + 1;
        if (read_line(n, cut_line(&at, &lines), &reason) != 0)
            return why_set(why, "line %u of the network: %.300s", n->line, reason.text);
    }
    return 0;
}

static int check_switches(const struct network *n, struct why *why)
{
    const struct network_name *name, *next;
    HASH_ITER(hh, n->names, name, next)
    if (name->is_switch && !name->is_described)
        return why_set(why, "line %u of the network: no line has SwitchName=%.80s", name->line, name->text);
    return n->num_switches > 0 ? 0 : why_set(why, "no line has SwitchName=");
}

/* A switch is one higher than the highest below it. */
static int find_heights(struct network *n, struct why *why)
{
    struct network_name *name, *next;
    HASH_ITER(hh, n->names, name, next)
    {
        uint32_t height = 0;
        for (struct network_name *s = name->is_switch ? name : name->above; s != NULL; s = s->above, height++) {
            if (height >= NETWORK_HEIGHT_MAX)
                return why_set(why, "there are more than %d switches above \"%.80s\", or they form a circle",
                               NETWORK_HEIGHT_MAX, name->text);
            s->height = height > s->height ? height : s->height;
            n->height = s->height + 1 > n->height ? s->height + 1 : n->height;
        }
    }
    return 0;
}

int network_read(struct network *n, const char *text, struct why *why)
{
    *n = (struct network){0};
    char *copy = strdup(text);
    const int rc = copy != NULL ? read_lines(n, copy, why) : why_set(why, "no memory for the network");
    free(copy);
    return rc == 0 && check_switches(n, why) == 0 ? find_heights(n, why) : -1;
}

void network_fini(struct network *n)
{
    struct network_name *name, *next;
    HASH_ITER(hh, n->names, name, next)
    {
        HASH_DEL(n->names, name);
        free(name);
    }
    *n = (struct network){0};
}

bool network_path(const struct network *n, const char *node, uint32_t path[NETWORK_HEIGHT_MAX])
{
    struct network_name *name = NULL;
    HASH_FIND_STR(n->names, node, name);
    if (name == NULL || name->is_switch)
        return false;
    const struct network_name *s = name->above;
    for (uint32_t height = 0; height < n->height; height++) {
        if (s->above != NULL && s->above->height <= height)
            s = s->above;
        path[height] = s->number;
    }
    return true;
}

const char *network_switch(const struct network *n, const char *node)
{
    struct network_name *name = NULL;
    HASH_FIND_STR(n->names, node, name);
    return name != NULL && !name->is_switch && name->above != NULL ? name->above->text : NULL;
}
