/* SPDX-License-Identifier: BSD-3-Clause */
/* options: see options.h. */
#include "engine/options.h"

#include <stdio.h>

#include "baton.h"
#include "engine/memory.h"
#include "model/cut.h"
#include "option/option.h"

#define TRACE_REQUESTS 100 /* of a file */
#define MADE_REQUESTS 50

static const struct option_choice switches[] = {{"on", 1}, {"off", 0}, {NULL, 0}};
static const struct option_choice modes[] = {{"pull", BATON_MODE_PULL}, {"push", BATON_MODE_PUSH}, {NULL, 0}};
static const struct option_choice sabotages[] = {{"flip", SABOTAGE_FLIP}, {"lose", SABOTAGE_LOSE}, {NULL, 0}};
static const struct option_choice streams[] = {
    {"none", STREAM_NONE}, {"layers", STREAM_LAYERS}, {"chunks", STREAM_CHUNKS}, {"both", STREAM_BOTH}, {NULL, 0}};

#define IN_BOTH(member) cache[SIDE_PREFILL].member
#define SECOND(member) .second = offsetof(struct options, cache[SIDE_DECODE].member)

static const struct option_row rows[] = {
    {.help = "what is served"},
    {"trace", "FILE", "JSON lines with timestamp, input_length, output_length, hash_ids (default: made here)",
     OPTION_FILE(struct options, trace)},
    {"requests", "N", "the first N requests (default: 50, of a trace 100)",
     OPTION_WHOLE(struct options, requests, 1, TRACE_REQUESTS_MAX)},
    {"scale", "N", "lengths are divided by N (default 64)", OPTION_WHOLE(struct options, scale, 1, 4096)},
    {"speed", "X", "arrivals at X times the trace's pace; 0: all at once (default 0)",
     OPTION_REAL(struct options, speed, 0, 1e6)},
    {"abort", "FRACTION", "share of requests, 0 to 1, whose blocks are called off on their way (default 0)",
     OPTION_REAL(struct options, abort, 0, 1)},
    {.help = "the model"},
    {"layers", "N", "(default 4)", OPTION_WHOLE(struct options, shape.layers, 1, SHAPE_LAYERS_MAX)},
    {"heads", "N", "query heads (default 12)", OPTION_WHOLE(struct options, shape.heads, 1, 256)},
    {"kv-heads", "N", "heads of keys and values (default 4)", OPTION_WHOLE(struct options, shape.kv_heads, 1, 256)},
    {"head-size", "N", "channels of a head (default 16)", OPTION_WHOLE(struct options, shape.head_size, 2, 256)},
    {"ffn", "N", "columns of the MLP (default 384)", OPTION_WHOLE(struct options, shape.ffn, 1, SHAPE_FFN_MAX)},
    {"vocab", "N", "(default 512)", OPTION_WHOLE(struct options, shape.vocab, 2, SHAPE_VOCAB_MAX)},
    {"seed", "N", "of weights and made requests (default 1)", OPTION_WHOLE(struct options, shape.seed, 0, UINT64_MAX)},
    {.help = "the engines (of --block-tokens to --memory also P:D, where the sides differ)"},
    {CUT_BLOCK_TOKENS(struct options, cache[SIDE_PREFILL], cache[SIDE_DECODE])},
    {"pool", "N", "each rank has blocks for N of the longest requests, from 1 on (default 6)",
     OPTION_REAL(struct options, IN_BOTH(pool), 1, 1e6), SECOND(pool)},
    {CUT_LAYOUT(struct options, cache[SIDE_PREFILL], cache[SIDE_DECODE])},
    {CUT_KV(struct options, cache[SIDE_PREFILL], cache[SIDE_DECODE])},
    {CUT_ORDER(struct options, cache[SIDE_PREFILL], cache[SIDE_DECODE])},
    {"memory", "slab|private|mapped", "who makes the cache's memory: Baton, or the engine by malloc or as a memfd",
     OPTION_CHOICE(struct options, IN_BOTH(memory), memory_choices), SECOND(memory)},
    {"step-tokens", "N", "of a step at most, so that longer prompts are computed in chunks (default 64)",
     OPTION_WHOLE(struct options, step_tokens, 1, 65536)},
    {"running", "N", "requests of an engine at one time (default 16)", OPTION_WHOLE(struct options, running, 1, 65536)},
    {"prefix", "on|off", "the prefix cache (default on)", OPTION_CHOICE(struct options, prefix, switches)},
    {.help = "how blocks move"},
    {"mode", "pull|push", "who moves the bytes (default: Baton's choice)", OPTION_CHOICE(struct options, mode, modes)},
    {"stream", "none|layers|chunks|both", "blocks move while prefill computes (default none)",
     OPTION_CHOICE(struct options, stream, streams)},
    {"timeout-ms", "N", "deadline of each offer and want (default 30000)",
     OPTION_WHOLE(struct options, timeout_ms, 1, 3600000)},
    {"patience-ms", "N", "how long the ranks of an engine wait for each other before it is lost (default 20000)",
     OPTION_WHOLE(struct options, patience_ms, 1, 3600000)},
    {.help = "what is checked"},
    {"measure", "PAIRS",
     "measure how long a hand-off takes, beside a copy of the same bytes, and how much slower others decode while "
     "blocks "
     "arrive, in so many pairs (at least 20)",
     OPTION_WHOLE(struct options, measure, 20, 1000)},
    {"undivided", NULL, "one process answers all requests, without Baton", OPTION_SWITCH(struct options, undivided)},
    {"output", "FILE", "write a line for each request: its number and the hashes of its tokens and logits",
     OPTION_FILE(struct options, output)},
    {"sabotage", "flip|lose",
     "break one request on purpose: change one byte of what was received, or drop its answers (exit status 1)",
     OPTION_CHOICE(struct options, sabotage, sabotages)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct options, version)},
    {"help", NULL, "print this", OPTION_SWITCH(struct options, help)},
    {0},
};

void options_help(void)
{
    puts("usage: batonrun --prefill ExT --decode ExT baton-serve [OPTION...]    (ExTxP: P pipeline stages)\n"
         "       baton-serve --undivided [OPTION...]\n"
         "\n"
         "Serves requests with a small Llama whose weights are hashes. Prefill engines compute prompts, Baton moves\n"
         "the keys and values, decode engines answer. All answers are then computed once more, in one process each,\n"
         "and compared. The last line reads \"N/N requests: tokens and logits as undivided\".\n");
    option_help(rows);
    puts("\nexit status: 0 all answers as undivided, 1 a failure or a difference, 2 bad options or trace");
}

int options_read(struct options *o, int argc, char **argv, struct why *why)
{
    const struct options_cache cache = {.block_tokens = 16, .pool = 6};
    *o = (struct options){
        .scale = 64,
        .shape = {.layers = 4, .heads = 12, .kv_heads = 4, .head_size = 16, .ffn = 384, .vocab = 512, .seed = 1},
        .cache = {cache, cache},
        .step_tokens = 64,
        .running = 16,
        .prefix = 1,
        .timeout_ms = 30000,
        .patience_ms = 20000,
    };
    if (option_read(rows, argc, argv, o, NULL, NULL, why) != 0)
        return -1;
    if (o->help || o->version)
        return 0;
    if (o->requests == 0)
        o->requests = o->trace != NULL ? TRACE_REQUESTS : MADE_REQUESTS;
    return shape_check(&o->shape, why);
}

int options_load(const struct options *o, struct load *load, struct why *why)
{
    if (o->trace != NULL)
        return load_open(load, o->trace, o->requests, o->scale, o->shape.vocab, why);
    return load_make(load, o->requests, o->scale, o->shape.vocab, o->shape.seed, why);
}
