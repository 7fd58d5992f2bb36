/* SPDX-License-Identifier: BSD-3-Clause */
/* options: see options.h. */
#include "replay/options.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/cut.h"
#include "option/option.h"
#include "replay/trace.h"

#define TRACE_FILE_REQUESTS 100 /* the default for a file */
#define PREFILL_TOKENS_PER_S 20000
#define CHUNK_TOKENS 512 /* the made trace has some 3000 tokens a request */
#define SPEED_LEAST 1e-6
#define SPEED_MOST 1e6

static const struct option_choice progresses[] = {
    {"thread", BATON_PROGRESS_THREAD}, {"caller", BATON_PROGRESS_CALLER}, {NULL, 0}};
static const struct option_choice streams[] = {{"layers", BATON_OFFER_LAYERS},
                                               {"chunks", BATON_OFFER_CHUNKS},
                                               {"both", BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS},
                                               {NULL, 0}};
static const struct option_choice modes[] = {{"pull", BATON_MODE_PULL}, {"push", BATON_MODE_PUSH}, {NULL, 0}};
static const struct option_choice paths[] = {{"shm", BATON_PATH_SHM},
                                             {"cma", BATON_PATH_CMA},
                                             {"rma", BATON_PATH_RMA},
                                             {"staged", BATON_PATH_STAGED},
                                             {NULL, 0}};
static const struct option_choice sabotages[] = {{"flip", SABOTAGE_FLIP},   {"head", SABOTAGE_HEAD},
                                                 {"stale", SABOTAGE_STALE}, {"short", SABOTAGE_SHORT},
                                                 {"late", SABOTAGE_LATE},   {NULL, 0}};

static int read_speeds(const struct option_row *row, const char *text, void *field, struct why *why)
{
    struct speeds speeds = {0};
    const char *at = text;
    for (bool more = true; more; at++) {
        char *end;
        const double x = strtod(at, &end);
        if (end == at || (*end != '\0' && *end != ',') || !(x == 0 || (x >= SPEED_LEAST && x <= SPEED_MOST)))
            return why_set(why,
                           "--%s must be 0, or numbers from 0.000001 to 1000000 with commas between, and is \"%.64s\"",
                           row->name, text);
        if (speeds.count == SPEEDS_MAX)
            return why_set(why, "--%s has more than %d numbers", row->name, SPEEDS_MAX);
        speeds.x[speeds.count++] = x;
        more = *end == ',';
        at = end;
    }
    for (uint32_t i = 0; i < speeds.count && speeds.count > 1; i++)
        if (speeds.x[i] == 0)
            return why_set(why, "--%s 0 is a run as fast as possible, and has no other beside it", row->name);
    *(struct speeds *)field = speeds;
    return 0;
}

/* What both sides share is taken from the prefill side. */
static const struct option_row rows[] = {
    {.help = "what is replayed"},
    {"trace", "FILE", "JSON lines with timestamp, input_length, output_length, hash_ids (default: made here)",
     OPTION_FILE(struct options, trace)},
    {"requests", "N", "the first N requests (default: 24, of a trace 100)",
     OPTION_WHOLE(struct options, requests, 1, TRACE_REQUESTS_MAX)},
    {"pairs", "FILE",
     "of batonrun --pairs: each request goes to the nearest decode engine, as long as that has fewer than --inflight "
     "requests more than another (default: to all in turn)",
     OPTION_TEXT(struct options, pairs)},
    {"speed", "X,...",
     "requests arrive at X times the trace's pace, whatever is outstanding, and a request's latency runs from its "
     "arrival. Several: a run each. 0: as fast as possible (default 0)",
     .read = read_speeds, .field = offsetof(struct options, speeds)},
    {"deadline-ms", "N", "with --speed: count the requests that are received N ms after their arrival, or sooner",
     OPTION_WHOLE(struct options, deadline_ms, 1, 3600000)},
    {"inflight", "N", "requests outstanding at one time, each engine; with --speed, the next ones wait (default 8)",
     OPTION_WHOLE(struct options, inflight, 1, 1024)},
    {"busy", NULL, "a second run while all cores compute; its times stand beside the first run's",
     OPTION_SWITCH(struct options, busy)},
    {"mode", "pull|push",
     "who moves the bytes: the decode side reads, or the prefill side writes (default: Baton's choice)",
     OPTION_CHOICE(struct options, mode, modes)},
    {"held", "FRACTION",
     "share of requests, 0 to 1, of which the decode side has a leading part, or all, already (default 0)",
     OPTION_REAL(struct options, held, 0, 1)},
    {"prefix-cache", "TOKENS",
     "each decode engine has a prefix cache of so many tokens, and wants only what follows the beginning that a "
     "request "
     "shares with earlier ones by hash_ids (default: none)",
     OPTION_WHOLE(struct options, cache_tokens, TRACE_HASH_TOKENS, UINT64_C(1) << 50)},
    {"progress", "thread|caller", "who makes Baton's MPI calls (default: a thread, where MPI allows it)",
     OPTION_CHOICE(struct options, progress, progresses)},
    {.help = "a prefill that takes time"},
    {"stream", "layers|chunks|both",
     "each request is replayed twice: once its bytes move while prefill goes on, layer by layer, in chunks of tokens, "
     "or each chunk layer by layer; once they move at its end. For both, the report has the time from prefill's end "
     "(the last bytes are in place) until all are received, over requests that were wanted before that",
     OPTION_CHOICE(struct options, stream, streams)},
    {"prefill-tokens-per-s", "N",
     "with --stream: the pace of each request's prefill (default 20000: assumed, not measured)",
     OPTION_WHOLE(struct options, prefill_tokens_per_s, 1, 1000000000)},
    {"chunk-tokens", "N", "with --stream chunks or both: tokens of a chunk (default 512)",
     OPTION_WHOLE(struct options, chunk_tokens, 1, TRACE_TOKENS_MAX)},
    {.help = "the caches (of --block-tokens, --layout, --kv and --order also P:D, as hnd:nhd, where the sides differ)"},
    {CUT_MODEL(struct options, cut[SIDE_PREFILL]),
     .help = "llama3-8b (default), llama3-70b, qwen3-32b, deepseek-v3 (one latent), gpt-oss-120b (sliding windows), "
             "nemotron-h-8b (Mamba)"},
    {CUT_LAYERS(struct options, cut[SIDE_PREFILL]),
     .help = "the model's first N layers (default 2, or as many as have each kind among them)"},
    {CUT_DTYPE(struct options, cut[SIDE_PREFILL])},
    {CUT_BLOCK_TOKENS(struct options, cut[SIDE_PREFILL], cut[SIDE_DECODE])},
    {CUT_LAYOUT(struct options, cut[SIDE_PREFILL], cut[SIDE_DECODE])},
    {CUT_KV(struct options, cut[SIDE_PREFILL], cut[SIDE_DECODE])},
    {CUT_ORDER(struct options, cut[SIDE_PREFILL], cut[SIDE_DECODE])},
    {"pool", "BYTES", "each rank's cache (default: at most a quarter of what it moves)",
     OPTION_WHOLE(struct options, pool_bytes, 1, UINT64_C(1) << 50)},
    {.help = "what is checked"},
    {"require-path", "shm|cma|rma|staged", "fail where a byte took another path",
     OPTION_CHOICE(struct options, require_path, paths)},
    {"sabotage", "flip|head|stale|short|late",
     "break one request, to see that the replay finds it (exit status 1). late needs --stream: bytes are said to be in "
     "place before they are",
     OPTION_CHOICE(struct options, sabotage, sabotages)},
    {"timeout-ms", "N", "deadline of each request (default 60000)",
     OPTION_WHOLE(struct options, timeout_ms, 1, 3600000)},
    {"seed", "N", "of pattern, block ids and made requests (default 1)",
     OPTION_WHOLE(struct options, seed, 0, UINT64_MAX)},
    {"json", "FILE", "write the results there too", OPTION_FILE(struct options, json)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct options, version)},
    {"help", NULL, "print this", OPTION_SWITCH(struct options, help)},
    {0},
};

void options_help(void)
{
    puts("usage: batonrun --prefill ExT --decode ExT baton-replay [OPTION...]    (ExTxP: P pipeline stages)\n"
         "\n"
         "Replays a request trace: the prefill engines fill and offer the blocks of each prompt, the decode engines\n"
         "want them and check every element. The last line reads \"verified N/N requests, M blocks, 0 mismatches\".\n"
         "Numbers may end in K, M or G: 2^10, 2^20, 2^30.\n");
    option_help(rows);
    puts("\nexit status: 0 all verified, 1 a failure or mismatch, 2 bad options or trace");
}

static int finish_stream(struct options *o, struct why *why)
{
    if (o->prefill_tokens_per_s > 0 && o->stream == 0)
        return why_set(why, "--prefill-tokens-per-s needs --stream");
    if (o->chunk_tokens > 0 && (o->stream & BATON_OFFER_CHUNKS) == 0)
        return why_set(why, "--chunk-tokens needs --stream chunks or --stream both");
    if (o->sabotage == SABOTAGE_LATE && o->stream == 0)
        return why_set(why, "--sabotage late needs --stream");
    if (o->prefill_tokens_per_s == 0)
        o->prefill_tokens_per_s = PREFILL_TOKENS_PER_S;
    if (o->chunk_tokens == 0)
        o->chunk_tokens = CHUNK_TOKENS;
    return 0;
}

static int check_speeds(const struct options *o, struct why *why)
{
    if (o->busy && o->speeds.count > 1)
        return why_set(why, "--busy takes one --speed");
    if (o->deadline_ms > 0 && o->speeds.x[0] == 0)
        return why_set(why, "--deadline-ms needs --speed: without it requests have no time of arrival");
    return 0;
}

static int check_prefix(const struct options *o, struct why *why)
{
    if (o->cache_tokens > 0 && o->trace == NULL)
        return why_set(why, "--prefix-cache needs --trace: requests that are made here have no hash_ids");
    if (o->cache_tokens > 0 && (o->stream != 0 || o->held > 0))
        return why_set(why, "--prefix-cache goes with neither --stream nor --held");
    return 0;
}

/* Checks that need the whole command line. */
static int finish(struct options *o, struct why *why)
{
    struct model_cut *prefill = &o->cut[SIDE_PREFILL], *decode = &o->cut[SIDE_DECODE];
    const uint32_t least = model_least_layers(prefill->model);
    if (prefill->layers == 0)
        prefill->layers = least > 2 ? least : 2;
    if (cut_check(prefill, why) != 0)
        return -1;
    if (prefill->layers < least)
        return why_set(why, "--layers is %u, and only the first %u layers of %s have each kind among them",
                       prefill->layers, least, prefill->model->name);
    o->requests_given = o->requests > 0;
    if (!o->requests_given)
        o->requests = o->trace ? TRACE_FILE_REQUESTS : TRACE_DEFAULT_REQUESTS;
    decode->model = prefill->model;
    decode->dtype = prefill->dtype;
    decode->layers = prefill->layers;
    return check_speeds(o, why) != 0 || check_prefix(o, why) != 0 ? -1 : finish_stream(o, why);
}

int options_read(struct options *o, int argc, char **argv, struct why *why)
{
    const struct model_cut cut = cut_default();
    *o = (struct options){.cut = {cut, cut}, .inflight = 8, .speeds.count = 1, .timeout_ms = 60000, .seed = 1};
    if (option_read(rows, argc, argv, o, NULL, NULL, why) != 0)
        return -1;
    return o->help || o->version ? 0 : finish(o, why);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *options_sabotage_name(enum sabotage kind)
{
    return option_name(sabotages, kind, "none");
}

const char *options_progress_name(baton_progress_mode_t mode)
{
    return option_name(progresses, mode, "auto");
}

const char *options_stream_name(uint32_t stream)
{
    return option_name(streams, stream, "none");
}

const char *options_mode_name(baton_mode_t mode)
{
    return option_name(modes, mode, "auto");
}

const char *options_path_name(baton_path_t path)
{
    return option_name(paths, path, "none");
}
