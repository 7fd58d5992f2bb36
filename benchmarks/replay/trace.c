/* SPDX-License-Identifier: BSD-3-Clause */
/* trace: see trace.h. Reads a line at a time, and no more of the file than was asked for. */
#include "replay/trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "replay/random.h"

#define SHOWN_MAX 40 /* bytes of a bad value that an error repeats */

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static int refuse_value(const char *field, const json_t *value, const char *demand, struct why *why)
{
    char shown[SHOWN_MAX + 1] = {0}; /* jansson writes only the pieces that fit, and no NUL behind them */
    if (value == NULL)
        return why_set(why, "field \"%s\" is missing", field);
    size_t length = json_dumpb(value, shown, SHOWN_MAX, JSON_ENCODE_ANY | JSON_COMPACT);
    return why_set(why, "field \"%s\" must be %s, and is %s%s", field, demand, shown, length > SHOWN_MAX ? "..." : "");
}

static int read_integer(const json_t *object, const char *field, uint64_t least, uint64_t most, uint64_t *out,
                        struct why *why)
{
    const json_t *value = json_object_get(object, field);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number < least || (uint64_t)number > most) {
        char demand[80];
        snprintf(demand, sizeof demand, "an integer from %llu to %llu", (unsigned long long)least,
                 (unsigned long long)most);
        return refuse_value(field, value, demand, why);
    }
    *out = (uint64_t)number;
    return 0;
}

static int keep_id(struct trace *trace, uint64_t id, struct why *why)
{
    if (trace->num_ids == trace->room_ids) {
        uint64_t room = trace->room_ids ? trace->room_ids * 2 : 1024;
        uint64_t *grown = realloc(trace->ids, room * sizeof *grown);
        if (grown == NULL)
            return why_set(why, "no memory for %llu ids", (unsigned long long)room);
        trace->ids = grown;
        trace->room_ids = room;
    }
    trace->ids[trace->num_ids++] = id;
    return 0;
}

/* The ids are kept in *keep, unless that is NULL. */
static int read_hash_ids(const json_t *object, uint32_t tokens, struct trace *keep, struct why *why)
{
    const json_t *ids = json_object_get(object, "hash_ids");
    if (!json_is_array(ids))
        return refuse_value("hash_ids", ids, "an array", why);
    size_t needed = (tokens + TRACE_HASH_TOKENS - 1) / TRACE_HASH_TOKENS;
    if (json_array_size(ids) != needed)
        return why_set(why, "field \"hash_ids\" must have %zu ids for %u tokens (one per %d), and has %zu", needed,
                       tokens, TRACE_HASH_TOKENS, json_array_size(ids));
    for (size_t i = 0; i < needed; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return refuse_value("hash_ids", id, "an array of integers from 0 on", why);
        if (keep != NULL && keep_id(keep, (uint64_t)json_integer_value(id), why) != 0)
            return -1;
    }
    return 0;
}

static int read_fields(const json_t *object, uint64_t arrival_ms, struct trace_request *out, struct trace *keep,
                       struct why *why)
{
    const uint64_t first_id = keep != NULL ? keep->num_ids : 0;
    uint64_t arrival, tokens, output;
    if (!json_is_object(object))
        return why_set(why, "the line is not a JSON object");
    if (read_integer(object, "timestamp", arrival_ms, INT64_MAX / 1000000, &arrival, why) != 0 ||
        read_integer(object, "input_length", 1, TRACE_TOKENS_MAX, &tokens, why) != 0 ||
        read_integer(object, "output_length", 0, TRACE_TOKENS_MAX, &output, why) != 0 ||
        read_hash_ids(object, (uint32_t)tokens, keep, why) != 0)
        return -1;
    *out = (struct trace_request){
        .arrival_ms = arrival, .tokens = (uint32_t)tokens, .output_tokens = (uint32_t)output, .first_id = first_id};
    return 0;
}

static int parse(const char *line, size_t length, uint64_t arrival_ms, struct trace_request *out, struct trace *keep,
                 struct why *why)
{
    json_error_t error;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        return why_set(why, "the line is not JSON: %.100s (at byte %d)", error.text, error.position);
    int rc = read_fields(object, arrival_ms, out, keep, why);
    json_decref(object);
    return rc;
}

int trace_parse(const char *line, size_t length, uint64_t arrival_ms, struct trace_request *out, struct why *why)
{
    return parse(line, length, arrival_ms, out, NULL, why);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int append(struct trace *trace, struct trace_request request, struct why *why)
{
    if (trace->count == trace->room) {
        uint32_t room = trace->room ? trace->room * 2 : 64;
        struct trace_request *grown = realloc(trace->requests, room * sizeof *grown);
        if (grown == NULL)
            return why_set(why, "no memory for %u requests", room);
        trace->requests = grown;
        trace->room = room;
    }
    trace->requests[trace->count++] = request;
    return 0;
}

enum line_end { LINE_READ, LINE_NONE, LINE_TOO_LONG, LINE_ERROR };

static enum line_end read_line(FILE *file, char *line, size_t *length)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(file)) != EOF && c != '\n') {
        if (n == TRACE_LINE_MAX)
            return LINE_TOO_LONG;
        line[n++] = (char)c;
    }
    *length = n;
    if (c == EOF && ferror(file))
        return LINE_ERROR;
    return c == EOF && n == 0 ? LINE_NONE : LINE_READ;
}

/* 1: a request was read; 0: the file has ended; -1: an error. */
static int read_request(FILE *file, const char *name, char *line, struct trace *out, struct why *why)
{
    const uint32_t number = out->count + 1;
    const uint64_t before = out->count ? out->requests[out->count - 1].arrival_ms : 0;
    struct trace_request request;
    struct why inner;
    size_t length;
    switch (read_line(file, line, &length)) {
    case LINE_NONE:
        return 0;
    case LINE_TOO_LONG:
        return why_set(why, "%s:%u: the line is longer than %zu bytes", name, number, TRACE_LINE_MAX);
    case LINE_ERROR:
        return why_set(why, "%s:%u: cannot read: %s", name, number, strerror(errno));
    case LINE_READ:
        break;
    }
    if (parse(line, length, before, &request, out, &inner) != 0)
        return why_set(why, "%s:%u: %s", name, number, inner.text);
    return append(out, request, why) == 0 ? 1 : -1;
}

int trace_read(FILE *file, const char *name, uint32_t most, struct trace *out, struct why *why)
{
    int rc = 1;
    *out = (struct trace){0};
    char *line = malloc(TRACE_LINE_MAX);
    if (line == NULL)
        return why_set(why, "no memory for a line of the trace");
    while (rc == 1 && out->count < most)
        rc = read_request(file, name, line, out, why);
    free(line);
    if (rc >= 0 && out->count == 0)
        rc = why_set(why, "%s: no request in it", name);
    if (rc >= 0)
        return 0;
    trace_fini(out);
    return -1;
}

int trace_open(const char *path, uint32_t most, struct trace *out, struct why *why)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return why_set(why, "%s: cannot open the trace: %s", path, strerror(errno));
    int rc = trace_read(file, path, most, out, why);
    fclose(file);
    return rc;
}

/* ---- made here --------------------------------------------------------------------------------------------------- */

int trace_make(uint32_t count, uint64_t seed, struct trace *out, struct why *why)
{
    const uint32_t least = 100, most = 6000;
    uint64_t state = seed, arrival_ms = 0;
    *out = (struct trace){0};
    for (uint32_t i = 0; i < count; i++) {
        struct trace_request request = {
            .arrival_ms = arrival_ms,
            .tokens = least + random_below(&state, most - least + 1),
            .output_tokens = 1 + random_below(&state, 500),
        };
        if (append(out, request, why) != 0) {
            trace_fini(out);
            return -1;
        }
        arrival_ms += random_below(&state, 200);
    }
    return 0;
}

int trace_double(struct trace *trace, struct why *why)
{
    struct trace_request *both = malloc(2 * (size_t)trace->count * sizeof *both);
    if (both == NULL)
        return why_set(why, "no memory for %u requests twice", trace->count);
    for (uint32_t i = 0; i < trace->count; i++)
        both[2 * i] = both[2 * i + 1] = trace->requests[i];
    free(trace->requests);
    trace->count *= 2;
    trace->room = trace->count;
    trace->requests = both;
    return 0;
}

void trace_fini(struct trace *trace)
{
    free(trace->requests);
    free(trace->ids);
    *trace = (struct trace){0};
}
