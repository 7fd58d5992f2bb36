/* SPDX-License-Identifier: BSD-3-Clause */
/* query: see query.h. */
#include "query.h"

#include <stdio.h>

#include "model/cut.h"
#include "option/option.h"

static const struct option_choice modes[] = {{"pull", BATON_MODE_PULL}, {"push", BATON_MODE_PUSH}, {NULL, 0}};

static int read_size(const struct option_row *row, const char *text, void *field, struct why *why)
{
    return engine_size_read(row->name, text, field, why);
}

static const struct option_row rows[] = {
    {.help = "the engines"},
    {"prefill", "TPxPP", "TP ranks by PP stages; ExTPxPP for E such engines: one is planned, all take nodes",
     .read = read_size, .field = offsetof(struct query, size[ROLE_PREFILL])},
    {"decode", "TPxPP", "the same for the decode side", .read = read_size,
     .field = offsetof(struct query, size[ROLE_DECODE])},
    {"ranks-per-node", "N", "ranks are seated in order, prefill engines first (default 8)",
     OPTION_WHOLE(struct query, ranks_per_node, 1, ENGINE_RANKS_MAX)},
    {.help = "the caches (of the first seven also P:D, as hnd:nhd, where the prefill and the decode side differ)"},
    {CUT_MODEL(struct query, cut[ROLE_PREFILL]), .second = offsetof(struct query, cut[ROLE_DECODE].model),
     .help = "llama3-8b (default), llama3-70b, qwen3-32b, deepseek-v3, gpt-oss-120b, nemotron-h-8b"},
    {CUT_LAYERS(struct query, cut[ROLE_PREFILL]), .second = offsetof(struct query, cut[ROLE_DECODE].layers),
     .help = "the model's first N layers (default all)"},
    {CUT_DTYPE(struct query, cut[ROLE_PREFILL]), .second = offsetof(struct query, cut[ROLE_DECODE].dtype)},
    {CUT_BLOCK_TOKENS(struct query, cut[ROLE_PREFILL], cut[ROLE_DECODE])},
    {CUT_LAYOUT(struct query, cut[ROLE_PREFILL], cut[ROLE_DECODE])},
    {CUT_KV(struct query, cut[ROLE_PREFILL], cut[ROLE_DECODE])},
    {CUT_ORDER(struct query, cut[ROLE_PREFILL], cut[ROLE_DECODE])},
    {"prefill-cache", "FILE", "the prefill side's cache is one of your own, in JSON (see baton-plan(1))",
     OPTION_FILE(struct query, file[ROLE_PREFILL])},
    {"decode-cache", "FILE", "the same for the decode side", OPTION_FILE(struct query, file[ROLE_DECODE])},
    {.help = "the request"},
    {"tokens", "N", "its tokens (default 4096)", OPTION_WHOLE(struct query, request.tokens, 1, 1u << 30)},
    {"held", "N", "leading tokens that the decode side has already (default 0)",
     OPTION_WHOLE(struct query, request.held, 0, 1u << 30)},
    {"mode", "pull|push", "who moves the bytes; the pairs are the same (default pull)",
     OPTION_CHOICE(struct query, mode, modes)},
    {.help = "what is printed"},
    {"rank", "N", "this decode rank only, and the summary of all",
     OPTION_WHOLE(struct query, rank, 0, ENGINE_RANKS_MAX - 1)},
    {"json", NULL, "the same for programs, instead of the text", OPTION_SWITCH(struct query, json)},
    {"dot", "FILE", "write what is printed of ranks there too, as a graph in Graphviz's language",
     OPTION_FILE(struct query, picture.dot)},
    {"svg", "FILE", "draw that graph there, by Graphviz's program dot", OPTION_FILE(struct query, picture.svg)},
    {"cost", NULL,
     "instead of who takes what: time and memory of one decode rank's plan (--rank, or 0), and of this program; not "
     "with "
     "--json",
     OPTION_SWITCH(struct query, cost)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct query, version)},
    {"help", NULL, "print this", OPTION_SWITCH(struct query, help)},
    {0},
};

void query_help(void)
{
    puts("usage: baton-plan --prefill TPxPP --decode TPxPP [OPTION...]\n"
         "\n"
         "Prints what the ranks of a decode engine take from the ranks of a prefill engine for one request: layers,\n"
         "heads, bytes and contiguous runs, as Baton's own planner cuts them. Nothing is moved and MPI is not needed.\n"
         "Numbers may end in K, M or G: 2^10, 2^20, 2^30.\n");
    option_help(rows);
    puts("\nexit status: 0 planned, 1 the caches do not match, 2 bad options or description");
}

static bool chooses_a_model(uint64_t given)
{
    static const char *const names[] = {"model", "layers", "dtype", "block-tokens", "layout", "kv", "order"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (option_given(rows, given, names[i]))
            return true;
    return false;
}

/* Checks that need the whole command line. */
static int finish(struct query *q, uint64_t given, struct why *why)
{
    static const char *const roles[] = {"prefill", "decode"};
    for (unsigned i = 0; i < ROLES; i++) {
        struct model_cut *cut = &q->cut[i];
        if (q->size[i].tp == 0)
            return why_set(why, "--%s TPxPP is missing; see --help", roles[i]);
        cut->layers = cut->layers > 0 ? cut->layers : cut->model->layers;
        if (q->file[i] == NULL && cut_check(cut, why) != 0)
            return -1;
    }
    if (q->file[ROLE_PREFILL] != NULL && q->file[ROLE_DECODE] != NULL && chooses_a_model(given))
        return why_set(why, "both caches are files: the options of a model's cache would have no effect");
    if (q->request.held > q->request.tokens)
        return why_set(why, "--held is %u, and the request has %u tokens", q->request.held, q->request.tokens);
    const uint32_t ranks = engine_size_ranks(&q->size[ROLE_DECODE]);
    if (q->rank != QUERY_ALL && q->rank >= ranks)
        return why_set(why, "--rank is %u, and the decode engine has %u ranks", q->rank, ranks);
    if (q->cost && q->json)
        return why_set(why, "--cost and --json exclude each other");
    return 0;
}

int query_read(struct query *q, int argc, char **argv, struct why *why)
{
    const struct model_cut cut = cut_default();
    uint64_t given;
    *q = (struct query){
        .cut = {cut, cut}, .request.tokens = 4096, .ranks_per_node = 8, .mode = BATON_MODE_PULL, .rank = QUERY_ALL};
    if (option_read(rows, argc, argv, q, NULL, &given, why) != 0)
        return -1;
    return q->help || q->version ? 0 : finish(q, given, why);
}
