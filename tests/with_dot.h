/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_dot: reads a graph in Graphviz's language as far as Baton writes it: a digraph of clusters, nodes and edges,
 * whose labels are quoted. What is not of that form fails the test. Include cmocka.h first.
 */
#ifndef BATON_TESTS_WITH_DOT_H
#define BATON_TESTS_WITH_DOT_H

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DOT_TOP UINT32_MAX

/** A cluster, a node or an edge. Empty strings: it has no such attribute. */
struct dot_thing {
    const char *name, *to;     /* to: of an edge */
    const char *label, *style; /* the label as it is shown, its lines with their ends */
    const char *color;
    uint32_t within; /* the cluster; DOT_TOP: none */
};

struct dot_read {
    char *texts, *next_text; /* where the strings lie */
    const char *at;
    char token; /* the next one: a letter of the language, 'a' for a word, 's' for a string, '\0' at the end */
    const char *text;
    const char *label;      /* of the whole graph */
    const char *edge_style; /* of the edges that follow */
    uint32_t num_clusters, num_nodes, num_edges;
    struct dot_thing *clusters, *nodes, *edges;
};

/* A string as it is shown. No line of the file ends in it. */
static inline void dot_take_string(struct dot_read *d)
{
    for (d->at++; *d->at != '"'; d->at++) {
        assert_true(*d->at >= 0x20 && *d->at <= 0x7e);
        if (*d->at == '\\') {
            d->at++;
            assert_non_null(strchr("\"\\nl", *d->at));
            *d->next_text++ = *d->at == '"' || *d->at == '\\' ? *d->at : '\n';
        } else if (*d->at == '&') {
            assert_int_equal(strncmp(d->at, "&amp;", 5), 0);
            *d->next_text++ = '&';
            d->at += 4;
        } else {
            *d->next_text++ = *d->at;
        }
    }
    d->at++;
}

static inline void dot_next(struct dot_read *d)
{
    d->at += strspn(d->at, " \n");
    d->text = d->next_text;
    d->token = *d->at;
    if (*d->at == '"') {
        d->token = 's';
        dot_take_string(d);
    } else if (isalnum(*d->at) || *d->at == '_') {
        d->token = 'a';
        while (isalnum(*d->at) || *d->at == '_' || *d->at == '.')
            *d->next_text++ = *d->at++;
    } else if (*d->at == '-') {
        assert_int_equal(d->at[1], '>');
        d->at += 2;
    } else if (*d->at != '\0') {
        d->at++;
    }
    *d->next_text++ = '\0';
}

static inline const char *dot_take(struct dot_read *d, char token)
{
    const char *text = d->text;
    assert_int_equal(d->token, token);
    dot_next(d);
    return text;
}

/* "name=value" behind its name. */
static inline void dot_take_value(struct dot_read *d, struct dot_thing *t, const char *name)
{
    dot_take(d, '=');
    const char **where = strcmp(name, "label") == 0 || strcmp(name, "xlabel") == 0 ? &t->label
                         : strcmp(name, "style") == 0                              ? &t->style
                         : strcmp(name, "fillcolor") == 0                          ? &t->color
                                                                                   : NULL;
    const char *value = dot_take(d, where == &t->label ? 's' : d->token == 's' ? 's' : 'a');
    if (where != NULL)
        *where = value;
}

static inline void dot_take_attributes(struct dot_read *d, struct dot_thing *t)
{
    while (d->token == '[' || d->token == ',') {
        dot_next(d);
        dot_take_value(d, t, dot_take(d, 'a'));
    }
    dot_take(d, ']');
}

static inline void dot_take_statements(struct dot_read *d, struct dot_thing *around, uint32_t within)
{
    dot_take(d, '{');
    while (d->token != '}') {
        const char *name = dot_take(d, 'a');
        struct dot_thing t = {.name = name, .to = "", .label = "", .style = "", .color = "", .within = within};
        if (strcmp(name, "subgraph") == 0) {
            const uint32_t number = d->num_clusters++;
            d->clusters[number] = t;
            d->clusters[number].name = dot_take(d, 'a');
            dot_take_statements(d, &d->clusters[number], number);
            continue;
        }
        if (d->token == '=') {
            dot_take_value(d, around, name);
        } else if (d->token == '-') {
            dot_next(d);
            t.to = dot_take(d, 'a');
            t.style = d->edge_style;
            dot_take_attributes(d, &t);
            d->edges[d->num_edges++] = t;
        } else {
            dot_take_attributes(d, &t);
            if (strcmp(name, "edge") == 0)
                d->edge_style = t.style;
            if (strcmp(name, "node") != 0 && strcmp(name, "edge") != 0 && strcmp(name, "graph") != 0)
                d->nodes[d->num_nodes++] = t;
        }
        dot_take(d, ';');
    }
    dot_take(d, '}');
}

/** Reads a graph. End it with dot_read_fini. */
static inline void dot_read(struct dot_read *d, const char *text)
{
    const size_t length = strlen(text) + 1;
    struct dot_thing graph = {.label = ""};
    *d = (struct dot_read){.at = text, .texts = calloc(length, 3), .edge_style = ""};
    d->clusters = calloc(length / 8 + 1, sizeof *d->clusters);
    d->nodes = calloc(length / 8 + 1, sizeof *d->nodes);
    d->edges = calloc(length / 8 + 1, sizeof *d->edges);
    assert_true(d->texts != NULL && d->clusters != NULL && d->nodes != NULL && d->edges != NULL);
    d->next_text = d->texts;
    dot_next(d);
    assert_string_equal(dot_take(d, 'a'), "digraph");
    dot_take(d, 'a');
    dot_take_statements(d, &graph, DOT_TOP);
    assert_int_equal(d->token, '\0');
    d->label = graph.label;
}

static inline void dot_read_fini(struct dot_read *d)
{
    free(d->texts);
    free(d->clusters);
    free(d->nodes);
    free(d->edges);
}

/** The one thing of that name. */
static inline const struct dot_thing *dot_find(const struct dot_thing *things, uint32_t num, const char *name)
{
    const struct dot_thing *found = NULL;
    for (uint32_t i = 0; i < num; i++)
        if (strcmp(things[i].name, name) == 0) {
            assert_null(found);
            found = &things[i];
        }
    if (found == NULL)
        fail_msg("the graph has no %s", name);
    return found;
}

/** Whether a label has that text, between its lines' ends and commas. */
static inline bool dot_has(const char *label, const char *text)
{
    const size_t length = strlen(text);
    for (const char *at = label; (at = strstr(at, text)) != NULL; at++)
        if ((at == label || at[-1] == '\n' || strncmp(at - 2, ", ", 2) == 0) && strchr(",\n", at[length]) != NULL)
            return true;
    return false;
}

#endif
