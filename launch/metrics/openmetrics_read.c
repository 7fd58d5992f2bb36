/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmetrics_read: the way back, for baton-top. Of a histogram the bounds in the text are kept: a value counts in the
 * bucket of its bound. What the text says is not trusted: numbers are taken within bounds, and lines are cut.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/openmetrics.h"

#define LINE_BYTES 1024
#define LABEL_BYTES 128

struct line {
    char name[LABEL_BYTES]; /* without "baton_" */
    char more[LINE_BYTES];  /* the labels behind those of the rank, as they stand there */
    char engine[LABEL_BYTES], host[LABEL_BYTES], run[LABEL_BYTES];
    uint32_t rank, context;
    double value;
};

/* The value of a label of `labels`, without escapes. False: there is none. */
static bool label(const char *labels, const char *name, char out[LABEL_BYTES])
{
    const size_t length = strlen(name);
    size_t n = 0;
    for (const char *at = labels; *at != '\0'; at++) {
        bool is_it = strncmp(at, name, length) == 0 && at[length] == '=' && at[length + 1] == '"';
        at += strcspn(at, "\"");
        if (*at == '\0')
            break;
        for (at++; *at != '\0' && *at != '"'; at++) {
            at += *at == '\\' && at[1] != '\0';
            if (is_it && n + 1 < LABEL_BYTES)
                out[n++] = *at;
        }
        out[n] = '\0';
        if (is_it)
            return true;
        at += *at != '\0' && at[1] == ',';
        if (*at == '\0')
            break;
    }
    return false;
}

/* Where the labels that are not the rank's begin. They stand behind these, in this order. */
static const char *behind_own(const char *labels)
{
    static const char *const own[] = {"rank=\"", "engine=\"", "host=\"", "run=\"", "context=\""};
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strncmp(labels, own[i], strlen(own[i])) != 0)
            continue;
        for (labels += strlen(own[i]); *labels != '\0' && *labels != '"'; labels++)
            labels += *labels == '\\' && labels[1] != '\0';
        labels += *labels != '\0';
        labels += *labels == ',';
    }
    return labels;
}

/* False: it is no sample of a rank. */
static bool split(char *text, struct line *l)
{
    char number[LABEL_BYTES], *end;
    char *labels = strchr(text, '{'), *value = strrchr(text, '}');
    if (strncmp(text, "baton_", 6) != 0 || labels == NULL || value == NULL || value < labels)
        return false;
    *labels++ = *value++ = '\0';
    snprintf(l->name, sizeof l->name, "%.*s", LABEL_BYTES - 1, text + 6);
    l->value = strtod(value, &end);
    l->context = label(labels, "context", number) ? (uint32_t)strtoul(number, NULL, 10) : 0;
    if (end == value || !(l->value >= 0) || !label(labels, "rank", number) || !label(labels, "engine", l->engine) ||
        !label(labels, "host", l->host) || !label(labels, "run", l->run) || !metrics_name_is_good(l->run))
        return false;
    metrics_text_clean(l->engine);
    metrics_text_clean(l->host);
    l->rank = (uint32_t)strtoul(number, NULL, 10);
    snprintf(l->more, sizeof l->more, "%.*s", LINE_BYTES - 1, behind_own(labels));
    return true;
}

static uint64_t whole(double value)
{
    return value < 18446744073709551615.0 ? (uint64_t)value : UINT64_MAX;
}

static uint64_t ns_of(double seconds)
{
    return whole(seconds * 1e9 + 0.5);
}

/* ---- what a sample sets ------------------------------------------------------------------------------------------ */

static bool set_stat(const struct line *l, struct metrics_body *b)
{
#define SET(field, type, family, labels, help)                                                                         \
    if ((strcmp(l->name, family "_total") == 0 || strcmp(l->name, family) == 0) && strcmp(l->more, labels) == 0) {     \
        b->stats[METRICS_##field] = strstr(family, "_seconds") != NULL ? ns_of(l->value) : whole(l->value);            \
        return true;                                                                                                   \
    }
    METRICS_STATS_MAP(SET)
#undef SET
    return false;
}

static unsigned path_of(const struct line *l)
{
    char name[LABEL_BYTES];
    for (unsigned i = 0; label(l->more, "path", name) && i < METRICS_PATHS; i++)
        if (strcmp(name, openmetrics_path(i)) == 0)
            return i;
    return 0;
}

static unsigned reason_of(const struct line *l)
{
    char name[LABEL_BYTES];
    for (unsigned i = 1; label(l->more, "reason", name) && i < BATON_REASONS; i++)
        if (strcmp(name, baton_errname(-(int)i)) == 0)
            return strcmp(name, "BATON_UNKNOWN") != 0 ? i : 0;
    return 0;
}

/* The row of the sample's peer. NULL: it names none, or there is no room for one more. */
static struct metrics_peer *peer_of(const struct line *l, struct metrics_body *b)
{
    char name[LABEL_BYTES];
    if (!label(l->more, "peer", name))
        return NULL;
    metrics_text_clean(name);
    if (strcmp(name, METRICS_OTHERS) == 0) {
        snprintf(b->peer[METRICS_PEERS].engine, sizeof b->peer->engine, "%s", METRICS_OTHERS);
        return &b->peer[METRICS_PEERS];
    }
    for (unsigned i = 0; i < b->num_peers; i++)
        if (strcmp(b->peer[i].engine, name) == 0)
            return &b->peer[i];
    if (b->num_peers == METRICS_PEERS || strlen(name) >= sizeof b->peer->engine)
        return NULL;
    struct metrics_peer *row = &b->peer[b->num_peers++];
    snprintf(row->engine, sizeof row->engine, "%.*s", (int)sizeof row->engine - 1, name);
    return row;
}

static void set_peer(const struct line *l, struct metrics_body *b)
{
    char text[LABEL_BYTES];
    struct metrics_peer *p = peer_of(l, b);
    if (p == NULL)
        return;
    const unsigned way = label(l->more, "direction", text) && strcmp(text, "out") == 0 ? METRICS_OUT : METRICS_IN;
    struct histogram *h = &p->transfer_ns;
    if (strcmp(l->name, "moved_bytes_total") == 0)
        p->bytes[path_of(l)][way] = whole(l->value);
    else if (strcmp(l->name, "transfers_total") == 0)
        p->transfers[path_of(l)][way] = whole(l->value);
    else if (strcmp(l->name, "peer_failures_total") == 0)
        p->failures[reason_of(l)] = whole(l->value);
    else if (strcmp(l->name, "peer_transfer_duration_seconds_sum") == 0)
        h->sum = ns_of(l->value);
    else if (strcmp(l->name, "peer_transfer_duration_seconds_bucket") == 0 && label(l->more, "le", text)) {
        const bool is_last = strcmp(text, "+Inf") == 0; /* its values have no bound: the one before is the best known */
        const uint64_t le = is_last ? OPENMETRICS_NS_MOST : ns_of(strtod(text, NULL)), now = whole(l->value);
        histogram_add_times(h, le, now > h->count ? now - h->count : 0);
    }
}

static void set(const struct line *l, struct pages_rank *r)
{
    struct metrics_body *b = &r->view.body;
    r->is_there = true;
    snprintf(b->engine, sizeof b->engine, "%.*s", (int)sizeof b->engine - 1, l->engine);
    snprintf(b->host, sizeof b->host, "%.*s", (int)sizeof b->host - 1, l->host);
    if (strcmp(l->name, "up") == 0)
        r->view.is_alive = l->value != 0;
    else if (strcmp(l->name, "closed") == 0)
        b->is_closed = l->value != 0;
    else if (strcmp(l->name, "stalled") == 0)
        r->view.stalled_ns = l->value != 0;
    else if (strcmp(l->name, "stalls_total") == 0)
        b->stalls = whole(l->value);
    else if (strcmp(l->name, "started_timestamp_seconds") == 0)
        b->began_ns = ns_of(l->value);
    else if (strcmp(l->name, "renewed_timestamp_seconds") == 0)
        b->renewed_ns = ns_of(l->value);
    else if (strcmp(l->name, "received_bytes_total") == 0)
        b->received[path_of(l)] = whole(l->value);
    else if (strcmp(l->name, "failures_total") == 0)
        b->reasons[reason_of(l)] = whole(l->value);
    else if (!set_stat(l, b))
        set_peer(l, b);
}

bool openmetrics_read(FILE *in, struct pages *p)
{
    char text[2 * LINE_BYTES];
    bool is_whole = false;
    struct line line;
    p->why[0] = '\0';
    for (uint32_t i = 0; i < p->num; i++) {
        p->ranks[i]->is_there = false;
        memset(&p->ranks[i]->view, 0, sizeof p->ranks[i]->view);
    }
    while (!is_whole && fgets(text, sizeof text, in) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        is_whole = strcmp(text, "# EOF") == 0;
        struct pages_rank *r = split(text, &line) ? pages_entry(p, line.run, line.rank, line.context, 0) : NULL;
        if (r != NULL)
            set(&line, r);
    }
    pages_drop_gone(p, NULL);
    pages_sort(p);
    if (!is_whole || p->num == 0)
        snprintf(p->why, sizeof p->why, is_whole ? "it tells of no rank" : "it is no whole text of OpenMetrics");
    return is_whole;
}
