/* SPDX-License-Identifier: BSD-3-Clause */
/* query: see query.h. The words of caches are baton-replay's, and each takes P:D. */
#include "query.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum word {
    WORD_PREFILL = 256,
    WORD_DECODE,
    WORD_MODEL,
    WORD_LAYERS,
    WORD_DTYPE,
    WORD_BLOCK_TOKENS,
    WORD_LAYOUT,
    WORD_KV,
    WORD_ORDER,
    WORD_PREFILL_CACHE,
    WORD_DECODE_CACHE,
    WORD_TOKENS,
    WORD_HELD,
    WORD_MODE,
    WORD_RANKS_PER_NODE,
    WORD_RANK,
    WORD_JSON,
    WORD_SVG,
    WORD_COST,
    WORD_HELP
};

static const struct option words[] = {
    {"prefill", required_argument, NULL, WORD_PREFILL},
    {"decode", required_argument, NULL, WORD_DECODE},
    {"model", required_argument, NULL, WORD_MODEL},
    {"layers", required_argument, NULL, WORD_LAYERS},
    {"dtype", required_argument, NULL, WORD_DTYPE},
    {"block-tokens", required_argument, NULL, WORD_BLOCK_TOKENS},
    {"layout", required_argument, NULL, WORD_LAYOUT},
    {"kv", required_argument, NULL, WORD_KV},
    {"order", required_argument, NULL, WORD_ORDER},
    {"prefill-cache", required_argument, NULL, WORD_PREFILL_CACHE},
    {"decode-cache", required_argument, NULL, WORD_DECODE_CACHE},
    {"tokens", required_argument, NULL, WORD_TOKENS},
    {"held", required_argument, NULL, WORD_HELD},
    {"mode", required_argument, NULL, WORD_MODE},
    {"ranks-per-node", required_argument, NULL, WORD_RANKS_PER_NODE},
    {"rank", required_argument, NULL, WORD_RANK},
    {"json", no_argument, NULL, WORD_JSON},
    {"svg", required_argument, NULL, WORD_SVG},
    {"cost", no_argument, NULL, WORD_COST},
    {"help", no_argument, NULL, WORD_HELP},
    {NULL, 0, NULL, 0},
};

void query_help(void)
{
    printf(
        "usage: baton-plan --prefill TPxPP --decode TPxPP [OPTION...]\n"
        "\n"
        "Prints what the ranks of a decode engine take from the ranks of a prefill engine for one request: layers,\n"
        "heads, bytes and contiguous runs, as Baton's own planner cuts them. Nothing is moved and MPI is not needed.\n"
        "\n"
        "the engines\n"
        "  --prefill TPxPP      TP ranks by PP stages; ExTPxPP for E such engines: one is planned, all take nodes\n"
        "  --decode TPxPP\n"
        "  --ranks-per-node N   ranks are seated in order, prefill engines first (default 8)\n"
        "the caches (P:D where the prefill and the decode side differ, hnd:nhd say)\n"
        "  --model NAME         %s (default llama3-8b)\n"
        "  --layers N           the model's first N layers (default all)\n"
        "  --dtype NAME         bf16, fp8, fp32 (default bf16)\n"
        "  --block-tokens N     tokens of a block (default 16)\n"
        "  --layout hnd|nhd     order of head and token in a block (default hnd)\n"
        "  --kv separate|block|fused   K and V: apart, side by side in a block, or in an entry (default separate)\n"
        "  --order layer|block  layer by layer, or all layers of a block together (default layer)\n"
        "  --prefill-cache FILE, --decode-cache FILE   a cache of your own, in JSON (see baton-plan(1))\n"
        "the request\n"
        "  --tokens N           (default 4096)\n"
        "  --held N             leading tokens that the decode side has already (default 0)\n"
        "  --mode pull|push     who moves the bytes; the pairs are the same (default pull)\n"
        "what is printed\n"
        "  --rank N             this decode rank only, and the summary\n"
        "  --json               all of it, for programs, instead of the text\n"
        "  --svg FILE           draw the bytes between ranks there too\n"
        "  --cost               instead of who takes what: time and memory of one decode rank's plan (--rank, or 0),\n"
        "                       and of this program\n"
        "\n"
        "exit status: 0 planned, 1 the caches do not match, 2 bad options or description\n",
        preset_models());
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int read_u32(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *out, struct why *why)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < least || n > most)
        return why_set(why, "--%s must be a whole number from %u to %u, and is \"%.64s\"", option, least, most, text);
    *out = (uint32_t)n;
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
    return why_set(why, "--%s must be one of %s, and is \"%.64s\"", option, all, text);
}

static const char *const token_choices[] = {"hnd", "nhd", NULL};
static const unsigned token_bits[] = {BATON_LAYOUT_HND, BATON_LAYOUT_NHD};
static const char *const kv_choices[] = {"separate", "block", "fused", NULL};
static const unsigned kv_bits[] = {BATON_LAYOUT_KV_SEPARATE, BATON_LAYOUT_KV_BLOCK, BATON_LAYOUT_KV_FUSED};
static const char *const order_choices[] = {"layer", "block", NULL};
static const unsigned order_bits[] = {BATON_LAYOUT_LAYER_MAJOR, BATON_LAYOUT_BLOCK_MAJOR};
static const char *const mode_choices[] = {"pull", "push", NULL};

static int read_layout(const char *option, const char *text, const char *const *choices, const unsigned *bits,
                       unsigned mask, unsigned *layout, struct why *why)
{
    unsigned choice = 0;
    if (read_choice(option, text, choices, &choice, why) != 0)
        return -1;
    *layout = (*layout & ~mask) | bits[choice];
    return 0;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static int read_side(struct preset *p, int word, const char *text, struct why *why)
{
    switch (word) {
    case WORD_MODEL:
        p->model = text;
        return 0;
    case WORD_DTYPE:
        p->dtype = text;
        return 0;
    case WORD_LAYERS:
        return read_u32("layers", text, 1, BATON_TENSORS_MAX, &p->layers, why);
    case WORD_BLOCK_TOKENS:
        return read_u32("block-tokens", text, 1, 4096, &p->block_tokens, why);
    case WORD_LAYOUT:
        return read_layout("layout", text, token_choices, token_bits, BATON_LAYOUT_NHD, &p->layout, why);
    case WORD_KV:
        return read_layout("kv", text, kv_choices, kv_bits, BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED, &p->layout,
                           why);
    default:
        return read_layout("order", text, order_choices, order_bits, BATON_LAYOUT_BLOCK_MAJOR, &p->layout, why);
    }
}

/* "hnd" for both sides, or "hnd:nhd" for one each. */
static int read_sides(struct query *q, int word, char *text, struct why *why)
{
    char *colon = strchr(text, ':');
    if (colon != NULL)
        *colon = '\0';
    if (read_side(&q->preset[ROLE_PREFILL], word, text, why) != 0)
        return -1;
    return read_side(&q->preset[ROLE_DECODE], word, colon ? colon + 1 : text, why);
}

static int read_word(struct query *q, int word, char *text, struct why *why)
{
    unsigned choice = 0;
    switch (word) {
    case WORD_PREFILL:
        return engine_size_read("prefill", text, &q->size[ROLE_PREFILL], why);
    case WORD_DECODE:
        return engine_size_read("decode", text, &q->size[ROLE_DECODE], why);
    case WORD_PREFILL_CACHE:
        q->file[ROLE_PREFILL] = text;
        return 0;
    case WORD_DECODE_CACHE:
        q->file[ROLE_DECODE] = text;
        return 0;
    case WORD_TOKENS:
        return read_u32("tokens", text, 1, 1u << 30, &q->request.tokens, why);
    case WORD_HELD:
        return read_u32("held", text, 0, 1u << 30, &q->request.held, why);
    case WORD_MODE:
        if (read_choice("mode", text, mode_choices, &choice, why) != 0)
            return -1;
        q->push = choice == 1;
        return 0;
    case WORD_RANKS_PER_NODE:
        return read_u32("ranks-per-node", text, 1, ENGINE_RANKS_MAX, &q->ranks_per_node, why);
    case WORD_RANK:
        q->one_rank = true;
        return read_u32("rank", text, 0, ENGINE_RANKS_MAX - 1, &q->rank, why);
    case WORD_SVG:
        q->svg = text;
        return 0;
    case WORD_JSON:
        q->json = true;
        return 0;
    case WORD_COST:
        q->cost = true;
        return 0;
    case WORD_HELP:
        q->help = true;
        return 0;
    default:
        return read_sides(q, word, text, why);
    }
}

/* What only the whole line tells. */
static int finish(const struct query *q, bool cache_words, struct why *why)
{
    static const char *const roles[] = {"prefill", "decode"};
    for (unsigned i = 0; i < ROLES; i++) {
        if (q->size[i].tp == 0)
            return why_set(why, "--%s TPxPP is missing; see --help", roles[i]);
        if (q->file[i] == NULL && preset_check(&q->preset[i], why) != 0)
            return -1;
    }
    if (cache_words && q->file[ROLE_PREFILL] != NULL && q->file[ROLE_DECODE] != NULL)
        return why_set(why, "both caches are files: the words of a model's cache would have no effect");
    if (q->request.held > q->request.tokens)
        return why_set(why, "--held is %u, and the request has %u tokens", q->request.held, q->request.tokens);
    const struct engine_size *d = &q->size[ROLE_DECODE];
    if (q->one_rank && q->rank >= d->tp * d->pp)
        return why_set(why, "--rank is %u, and the decode engine has %u ranks", q->rank, d->tp * d->pp);
    if (q->cost && q->json)
        return why_set(why, "--cost and --json exclude each other");
    return 0;
}

static bool is_cache_word(int word)
{
    return word >= WORD_MODEL && word <= WORD_ORDER;
}

int query_read(struct query *q, int argc, char **argv, struct why *why)
{
    const struct preset preset = {.model = "llama3-8b", .dtype = "bf16", .block_tokens = 16};
    bool cache_words = false;
    *q = (struct query){.preset = {preset, preset}, .request.tokens = 4096, .ranks_per_node = 8};
    optind = 0;
    opterr = 0;
    int word;
    while ((word = getopt_long(argc, argv, "+:", words, NULL)) != -1) {
        if (word == '?')
            return why_set(why, "\"%.64s\" is no option, or takes no value; see --help", argv[optind - 1]);
        if (word == ':')
            return why_set(why, "\"%.64s\" lacks its value", argv[optind - 1]);
        if (read_word(q, word, optarg, why) != 0)
            return -1;
        cache_words |= is_cache_word(word);
    }
    if (optind < argc)
        return why_set(why, "\"%.64s\" is not an option; see --help", argv[optind]);
    return q->help ? 0 : finish(q, cache_words, why);
}

const char *query_layout_name(unsigned layout, char *text)
{
    unsigned kv = layout & BATON_LAYOUT_KV_FUSED ? 2 : layout & BATON_LAYOUT_KV_BLOCK ? 1 : 0;
    snprintf(text, 32, "%s+%s+%s", token_choices[(layout & BATON_LAYOUT_NHD) != 0], kv_choices[kv],
             order_choices[(layout & BATON_LAYOUT_BLOCK_MAJOR) != 0]);
    return text;
}
