/* SPDX-License-Identifier: BSD-3-Clause */
/* network: see network.h. */
#include "place/network.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "place/hostlist.h"

#define LINE_MAX_BYTES 65536

/** A switch or a node. */
struct network_name {
    UT_hash_handle hh;
    struct network_name *above; /* NULL: the top, or a switch that was only named by one above it */
    uint32_t number, height;    /* of a switch; nodes have no height */
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

/* The value of KEY=VALUE in a line that is cut into words at its NULs; NULL: it has none. */
static const char *value_of(const char *line, const char *end, const char *key)
{
    size_t length = strlen(key);
    for (const char *word = line; word < end; word += strlen(word) + 1)
        if (strncasecmp(word, key, length) == 0 && word[length] == '=')
            return word + length + 1;
    return NULL;
}

static int read_line(struct network *n, char *line, struct why *why)
{
    char *end = line + strcspn(line, "#");
    *end = '\0';
    for (char *c = line; c < end; c++)
        if (strchr(" \t\r", *c) != NULL)
            *c = '\0';
    const char *own = value_of(line, end, "SwitchName"), *nodes = value_of(line, end, "Nodes");
    const char *switches = value_of(line, end, "Switches");
    for (char *c = line; own == NULL && c < end; c++)
        if (*c != '\0')
            return why_set(why, "no SwitchName= in it");
    if (own == NULL)
        return 0;
    struct network_name *name = name_of(n, own, true, why);
    if (name == NULL)
        return -1;
    if (name->is_described)
        return why_set(why, "the switch \"%.80s\" comes twice", own);
    name->is_described = true;
    struct below b = {n, name, true};
    if (switches != NULL && hostlist_each(switches, put_below, &b, why) != 0)
        return -1;
    b.is_switch = false;
    return nodes != NULL ? hostlist_each(nodes, put_below, &b, why) : 0;
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
    uint32_t number = 1;
    for (const char *at = text; *at != '\0'; number++) {
        size_t length = strcspn(at, "\n");
        char *line = length < LINE_MAX_BYTES ? strndup(at, length) : NULL;
        struct why reason = {"it is too long, or there is no memory"};
        int rc = line != NULL ? read_line(n, line, &reason) : -1;
        free(line);
        if (rc != 0)
            return why_set(why, "line %u of the network: %.300s", number, reason.text);
        at += length;
        at += *at == '\n';
    }
    return find_heights(n, why);
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
