/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: see options.h. A word that is not known is refused, so that a misspelt option never gives a figure measured
 * under other conditions than its reader believes.
 */
#include "replay/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/trace.h"

#define TRACE_FILE_REQUESTS 100 /* of a file, where --requests is not given */
#define PREFILL_TOKENS_PER_S 20000
#define CHUNK_TOKENS 512 /* the trace that is made here has some 3000 a request */

enum word {
    WORD_TRACE = 256,
    WORD_REQUESTS,
    WORD_MODEL,
    WORD_DTYPE,
    WORD_LAYERS,
    WORD_BLOCK_TOKENS,
    WORD_LAYOUT,
    WORD_KV,
    WORD_ORDER,
    WORD_STREAM,
    WORD_CHUNK_TOKENS,
    WORD_PREFILL_RATE,
    WORD_HELD,
    WORD_POOL,
    WORD_INFLIGHT,
    WORD_SPEED,
    WORD_BUSY,
    WORD_PROGRESS,
    WORD_MODE,
    WORD_REQUIRE_PATH,
    WORD_SABOTAGE,
    WORD_JSON,
    WORD_TIMEOUT_MS,
    WORD_SEED,
    WORD_HELP
};

static const struct option words[] = {
    {"trace", required_argument, NULL, WORD_TRACE},
    {"requests", required_argument, NULL, WORD_REQUESTS},
    {"model", required_argument, NULL, WORD_MODEL},
    {"dtype", required_argument, NULL, WORD_DTYPE},
    {"layers", required_argument, NULL, WORD_LAYERS},
    {"block-tokens", required_argument, NULL, WORD_BLOCK_TOKENS},
    {"layout", required_argument, NULL, WORD_LAYOUT},
    {"kv", required_argument, NULL, WORD_KV},
    {"order", required_argument, NULL, WORD_ORDER},
    {"stream", required_argument, NULL, WORD_STREAM},
    {"chunk-tokens", required_argument, NULL, WORD_CHUNK_TOKENS},
    {"prefill-tokens-per-s", required_argument, NULL, WORD_PREFILL_RATE},
    {"held", required_argument, NULL, WORD_HELD},
    {"pool", required_argument, NULL, WORD_POOL},
    {"inflight", required_argument, NULL, WORD_INFLIGHT},
    {"speed", required_argument, NULL, WORD_SPEED},
    {"busy", no_argument, NULL, WORD_BUSY},
    {"progress", required_argument, NULL, WORD_PROGRESS},
    {"mode", required_argument, NULL, WORD_MODE},
    {"require-path", required_argument, NULL, WORD_REQUIRE_PATH},
    {"sabotage", required_argument, NULL, WORD_SABOTAGE},
    {"json", required_argument, NULL, WORD_JSON},
    {"timeout-ms", required_argument, NULL, WORD_TIMEOUT_MS},
    {"seed", required_argument, NULL, WORD_SEED},
    {"help", no_argument, NULL, WORD_HELP},
    {NULL, 0, NULL, 0},
};

void options_help(void)
{
    puts(
        "usage: batonrun --prefill ExT --decode ExT baton-replay [OPTION...]    (ExTxP: P pipeline stages)\n"
        "\n"
        "Replays a request trace: the prefill engines fill and offer the blocks of each prompt, the decode engines "
        "want\n"
        "them and check every element. The last line reads \"verified N/N requests, M blocks, 0 mismatches\".\n"
        "\n"
        "what is replayed\n"
        "  --trace FILE         JSON lines with timestamp, input_length, output_length, hash_ids (default: made here)\n"
        "  --requests N         the first N requests (default: 24, of a trace 100)\n"
        "  --speed X            arrivals at X times the trace's pace; 0: as fast as possible (default 0)\n"
        "  --inflight N         requests outstanding at one time, each engine (default 8)\n"
        "  --busy               a second run while all cores compute; its times stand beside the first run's\n"
        "  --mode pull|push     who moves the bytes: the decode side reads, or the prefill side writes (default: "
        "Baton's "
        "choice)\n"
        "  --held FRACTION      share of requests of which the decode side has a leading part, or all, already "
        "(default 0)\n"
        "  --progress thread|caller    who makes Baton's MPI calls (default: a thread, where MPI allows it)\n"
        "a prefill that takes time\n"
        "  --stream layers|chunks|both   each request is replayed twice: once its bytes move while prefill goes on, "
        "layer\n"
        "                       by layer, in chunks of tokens, or each chunk layer by layer; once they move at its\n"
        "                       end. For both, the report has the time from prefill's end (the last bytes are in\n"
        "                       place) until all are received, over requests that were wanted before that\n"
        "  --prefill-tokens-per-s N    the pace of each request's prefill (default 20000: assumed, not measured)\n"
        "  --chunk-tokens N     tokens of a chunk (default 512)\n"
        "the caches (P:D where the prefill and the decode side differ, hnd:nhd say)\n"
        "  --model NAME         llama3-8b (default), llama3-70b, qwen3-32b, deepseek-v3 (one latent), gpt-oss-120b "
        "(sliding\n"
        "                       windows), nemotron-h-8b (Mamba)\n"
        "  --layers N           the model's first N layers (default 2, or as many as have each kind among them)\n"
        "  --dtype NAME         bf16, fp8, fp32 (default bf16)\n"
        "  --block-tokens N     tokens of a block (default 16), or N:N\n"
        "  --layout hnd|nhd     order of head and token in a block (default hnd)\n"
        "  --kv separate|block|fused   K and V: apart, side by side in a block, or in an entry (default separate)\n"
        "  --order layer|block  layer by layer, or all layers of a block together (default layer)\n"
        "  --pool BYTES         each rank's cache, K, M or G behind it (default: at most a quarter of what it moves)\n"
        "what is checked\n"
        "  --require-path shm|rma      fail where a byte took another path\n"
        "  --sabotage flip|head|stale|short|late   break one request, to see that the replay finds it (exit "
        "status\n"
        "                       1). late needs --stream: bytes are said to be in place before they are\n"
        "  --timeout-ms N       deadline of each request (default 60000)\n"
        "  --seed N             of pattern, block ids and made requests (default 1)\n"
        "  --json FILE          write the results there too\n"
        "\n"
        "exit status: 0 all verified, 1 a failure or mismatch, 2 bad options or trace");
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int read_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out,
                       struct why *why)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < least || n > most)
        return why_set(why, "--%s must be a whole number from %llu to %llu, and is \"%s\"", option,
                       (unsigned long long)least, (unsigned long long)most, text);
    *out = n;
    return 0;
}

static int read_u32(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *out, struct why *why)
{
    uint64_t n = 0;
    if (read_number(option, text, least, most, &n, why) != 0)
        return -1;
    *out = (uint32_t)n;
    return 0;
}

static int read_bytes(const char *option, const char *text, uint64_t *out, struct why *why)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift != 0)
        end++;
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n == 0 || n > (UINT64_C(1) << 50) >> shift)
        return why_set(why, "--%s must be a number of bytes, K, M or G behind it, and is \"%s\"", option, text);
    *out = (uint64_t)n << shift;
    return 0;
}

static int read_share(const char *option, const char *text, double *out, struct why *why)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= 0 && x <= 1))
        return why_set(why, "--%s must be a fraction from 0 to 1, and is \"%s\"", option, text);
    *out = x;
    return 0;
}

static int read_speed(const char *text, double *out, struct why *why)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(x) || x < 0 || (x > 0 && x < 1e-6))
        return why_set(why, "--speed must be 0 or a factor from 0.000001 on, and is \"%s\"", text);
    *out = x;
    return 0;
}

/* One word of a list, by its place in it. */
static int read_choice(const char *option, const char *text, const char *const *choices, unsigned *out, struct why *why)
{
    char all[64] = "";
    for (unsigned i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return 0;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", choices[i]);
    }
    return why_set(why, "--%s must be one of %s, and is \"%s\"", option, all, text);
}

/* The words of the two sides: "nhd" for both, or "hnd:nhd" for one each. What is cut off a long one was no choice. */
struct sides {
    char word[SIDES][16];
};

static struct sides split_sides(const char *text)
{
    struct sides s;
    const char *colon = strchr(text, ':');
    const size_t first = colon ? (size_t)(colon - text) : strlen(text);
    snprintf(s.word[SIDE_PREFILL], sizeof s.word[0], "%.*s", first < 16 ? (int)first : 15, text);
    snprintf(s.word[SIDE_DECODE], sizeof s.word[0], "%s", colon ? colon + 1 : text);
    return s;
}

/* Into the bits of `mask` of each side's layout. */
static int read_layout(struct options *o, const char *option, const char *text, const char *const *choices,
                       const unsigned *bits, unsigned mask, struct why *why)
{
    const struct sides s = split_sides(text);
    for (unsigned side = 0; side < SIDES; side++) {
        unsigned choice = 0;
        if (read_choice(option, s.word[side], choices, &choice, why) != 0)
            return -1;
        o->cut[side].layout = (o->cut[side].layout & ~mask) | bits[choice];
    }
    return 0;
}

static int read_block_tokens(struct options *o, const char *text, struct why *why)
{
    const struct sides s = split_sides(text);
    for (unsigned side = 0; side < SIDES; side++)
        if (read_u32("block-tokens", s.word[side], 1, 4096, &o->cut[side].block_tokens, why) != 0)
            return -1;
    return 0;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const char *const token_choices[] = {"hnd", "nhd", NULL};
static const unsigned token_bits[] = {BATON_LAYOUT_HND, BATON_LAYOUT_NHD};
static const char *const kv_choices[] = {"separate", "block", "fused", NULL};
static const unsigned kv_bits[] = {BATON_LAYOUT_KV_SEPARATE, BATON_LAYOUT_KV_BLOCK, BATON_LAYOUT_KV_FUSED};
static const char *const order_choices[] = {"layer", "block", NULL};
static const unsigned order_bits[] = {BATON_LAYOUT_LAYER_MAJOR, BATON_LAYOUT_BLOCK_MAJOR};
static const char *const progress_choices[] = {"auto", "thread", "caller", NULL};
static const char *const stream_choices[] = {"none", "layers", "chunks", "both", NULL}; /* by baton_offer_flags_t */
static const char *const mode_choices[] = {"auto", "pull", "push", NULL};
static const char *const path_choices[] = {"none", "shm", "rma", NULL};
static const char *const sabotage_choices[] = {"none", "flip", "head", "stale", "short", "late", NULL};

static int read_cache_word(struct options *o, int word, const char *text, struct why *why)
{
    struct model_cut *cut = &o->cut[SIDE_PREFILL]; /* what both sides share is taken from here */
    switch (word) {
    case WORD_MODEL:
        cut->model = model_find(text);
        return cut->model ? 0 : why_set(why, "--model must be one of %s, and is \"%s\"", model_names(), text);
    case WORD_DTYPE:
        cut->dtype = model_dtype_find(text);
        return cut->dtype ? 0 : why_set(why, "--dtype must be one of bf16, fp8, fp32, and is \"%s\"", text);
    case WORD_LAYERS:
        return read_u32("layers", text, 1, BATON_TENSORS_MAX, &cut->layers, why);
    case WORD_BLOCK_TOKENS:
        return read_block_tokens(o, text, why);
    case WORD_LAYOUT:
        return read_layout(o, "layout", text, token_choices, token_bits, BATON_LAYOUT_NHD, why);
    case WORD_KV:
        return read_layout(o, "kv", text, kv_choices, kv_bits, BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED, why);
    default:
        return read_layout(o, "order", text, order_choices, order_bits, BATON_LAYOUT_BLOCK_MAJOR, why);
    }
}

static int read_word(struct options *o, int word, const char *text, struct why *why)
{
    unsigned choice = 0;
    switch (word) {
    case WORD_TRACE:
        o->trace = text;
        return 0;
    case WORD_REQUESTS:
        o->requests_given = true;
        return read_u32("requests", text, 1, TRACE_REQUESTS_MAX, &o->requests, why);
    case WORD_STREAM:
        if (read_choice("stream", text, stream_choices + 1, &choice, why) != 0)
            return -1;
        o->stream = choice + 1;
        return 0;
    case WORD_CHUNK_TOKENS:
        return read_u32("chunk-tokens", text, 1, TRACE_TOKENS_MAX, &o->chunk_tokens, why);
    case WORD_PREFILL_RATE:
        return read_u32("prefill-tokens-per-s", text, 1, 1000000000, &o->prefill_tokens_per_s, why);
    case WORD_HELD:
        return read_share("held", text, &o->held, why);
    case WORD_POOL:
        return read_bytes("pool", text, &o->pool_bytes, why);
    case WORD_INFLIGHT:
        return read_u32("inflight", text, 1, 1024, &o->inflight, why);
    case WORD_SPEED:
        return read_speed(text, &o->speed, why);
    case WORD_BUSY:
        o->busy = true;
        return 0;
    case WORD_PROGRESS:
        if (read_choice("progress", text, progress_choices + 1, &choice, why) != 0)
            return -1;
        o->progress = (baton_progress_mode_t)(choice + 1);
        return 0;
    case WORD_MODE:
        if (read_choice("mode", text, mode_choices + 1, &choice, why) != 0)
            return -1;
        o->mode = (baton_mode_t)(choice + 1);
        return 0;
    case WORD_REQUIRE_PATH:
        if (read_choice("require-path", text, path_choices + 1, &choice, why) != 0)
            return -1;
        o->require_path = (baton_path_t)(choice + 1);
        return 0;
    case WORD_SABOTAGE:
        if (read_choice("sabotage", text, sabotage_choices + 1, &choice, why) != 0)
            return -1;
        o->sabotage = (enum sabotage)(choice + 1);
        return 0;
    case WORD_JSON:
        o->json = text;
        return 0;
    case WORD_TIMEOUT_MS:
        return read_u32("timeout-ms", text, 1, 3600000, &o->timeout_ms, why);
    case WORD_SEED:
        return read_number("seed", text, 0, UINT64_MAX, &o->seed, why);
    case WORD_HELP:
        o->help = true;
        return 0;
    default:
        return read_cache_word(o, word, text, why);
    }
}

static int finish_stream(struct options *o, struct why *why)
{
    if (o->prefill_tokens_per_s > 0 && o->stream == 0)
        return why_set(why, "--prefill-tokens-per-s is of --stream, which is not given");
    if (o->chunk_tokens > 0 && (o->stream & BATON_OFFER_CHUNKS) == 0)
        return why_set(why, "--chunk-tokens is of --stream chunks or both, which is not given");
    if (o->sabotage == SABOTAGE_LATE && o->stream == 0)
        return why_set(why, "--sabotage late is of --stream, which is not given");
    if (o->prefill_tokens_per_s == 0)
        o->prefill_tokens_per_s = PREFILL_TOKENS_PER_S;
    if (o->chunk_tokens == 0)
        o->chunk_tokens = CHUNK_TOKENS;
    return 0;
}

/* What only the whole line tells. */
static int finish(struct options *o, struct why *why)
{
    struct model_cut *prefill = &o->cut[SIDE_PREFILL], *decode = &o->cut[SIDE_DECODE];
    const uint32_t least = model_least_layers(prefill->model);
    if (prefill->layers == 0)
        prefill->layers = least > 2 ? least : 2;
    if (prefill->layers > prefill->model->layers)
        return why_set(why, "--layers is %u, and %s has %u layers", prefill->layers, prefill->model->name,
                       prefill->model->layers);
    if (prefill->layers < least)
        return why_set(why, "--layers is %u, and only the first %u layers of %s have each kind among them",
                       prefill->layers, least, prefill->model->name);
    if (o->requests == 0)
        o->requests = o->trace ? TRACE_FILE_REQUESTS : TRACE_DEFAULT_REQUESTS;
    decode->model = prefill->model;
    decode->dtype = prefill->dtype;
    decode->layers = prefill->layers;
    return finish_stream(o, why);
}

int options_read(struct options *o, int argc, char **argv, struct why *why)
{
    *o = (struct options){.inflight = 8, .timeout_ms = 60000, .seed = 1};
    o->cut[SIDE_PREFILL] =
        (struct model_cut){.model = model_find("llama3-8b"), .dtype = model_dtype_find("bf16"), .block_tokens = 16};
    o->cut[SIDE_DECODE].block_tokens = 16;
    optind = 0;
    opterr = 0;
    int word;
    while ((word = getopt_long(argc, argv, "+:", words, NULL)) != -1) {
        if (word == '?')
            return why_set(why, "\"%s\" is no option, or takes no value; see --help", argv[optind - 1]);
        if (word == ':')
            return why_set(why, "\"%s\" lacks its value", argv[optind - 1]);
        if (read_word(o, word, optarg, why) != 0)
            return -1;
    }
    if (optind < argc)
        return why_set(why, "\"%s\" is not an option; see --help", argv[optind]);
    return finish(o, why);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *options_sabotage_name(enum sabotage kind)
{
    return sabotage_choices[kind];
}

const char *options_progress_name(baton_progress_mode_t mode)
{
    return progress_choices[mode];
}

const char *options_stream_name(uint32_t stream)
{
    return stream_choices[stream];
}

const char *options_mode_name(baton_mode_t mode)
{
    return mode_choices[mode];
}

const char *options_path_name(baton_path_t path)
{
    return path_choices[path];
}

const char *options_layout_name(unsigned layout, char *text)
{
    unsigned kv = layout & BATON_LAYOUT_KV_FUSED ? 2 : layout & BATON_LAYOUT_KV_BLOCK ? 1 : 0;
    snprintf(text, 32, "%s+%s+%s", token_choices[(layout & BATON_LAYOUT_NHD) != 0], kv_choices[kv],
             order_choices[(layout & BATON_LAYOUT_BLOCK_MAJOR) != 0]);
    return text;
}
