/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace: the requests to replay, from a file of one JSON object a line or made here. Every rank reads the same file,
 * and must get the same list or the same error. So everything in a line is checked.
 *
 * The fields of a line: timestamp (ms since the start, not decreasing), input_length and output_length (tokens), and
 * hash_ids (one id per 512 tokens of the prompt). Other fields are ignored. baton-replay uses ids with --prefix-cache
 * alone (prefix.h); else it moves each prompt whole, as engines without a prefix cache do.
 */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "option/why.h"

#define TRACE_LINE_MAX ((size_t)1 << 20) /* bytes of a line without its end: 2^24 tokens have 32,768 ids */
#define TRACE_TOKENS_MAX (1 << 24)
#define TRACE_HASH_TOKENS 512
#define TRACE_REQUESTS_MAX 1000000
#define TRACE_DEFAULT_REQUESTS 24

struct trace_request {
    uint64_t arrival_ms; /* since the trace's start */
    uint32_t tokens;     /* of the prompt */
    uint32_t output_tokens;
    uint64_t first_id; /* where its ids begin, among the trace's: one for each TRACE_HASH_TOKENS tokens */
};

struct trace {
    uint32_t count, room;
    struct trace_request *requests;
    uint64_t *ids; /* of all requests that were read from a file */
    uint64_t num_ids, room_ids;
};

/**
 * Reads one line, without its end, and keeps no ids. The request before arrived at *arrival_ms. 0, or -1 with the field
 * in *why.
 */
int trace_parse(const char *line, size_t length, uint64_t arrival_ms, struct trace_request *out, struct why *why);

/** Reads at most `most` requests. `name` is the file's, for errors "name:line: field …". 0, or -1 and *out empty. */
int trace_read(FILE *file, const char *name, uint32_t most, struct trace *out, struct why *why);
int trace_open(const char *path, uint32_t most, struct trace *out, struct why *why);

/** Makes `count` requests of 100 to 6000 tokens from `seed`; most end in the middle of a block. 0 or -1. */
int trace_make(uint32_t count, uint64_t seed, struct trace *out, struct why *why);

/** Puts each request into the trace twice, side by side. 0, or -1 and nothing changed. */
int trace_double(struct trace *trace, struct why *why);

void trace_fini(struct trace *trace);

#endif
