/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: getopt_long and its checks. A word that is not known is refused, so that a misspelt option never gives a
 * figure measured under other conditions than its reader believes.
 */
#include "bench/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"

static const char *const op_names[] = {"pull", "push", "submit", "memory", "handshake", "shapes", "fairness"};
static const char *const busy_names[] = {"pull+busy",      "push+busy",   "submit+busy",  "memory+busy",
                                         "handshake+busy", "shapes+busy", "fairness+busy"};

enum word {
    WORD_BLOCK = 256,
    WORD_BATCH,
    WORD_BLOCKS,
    WORD_POOL,
    WORD_ITERS,
    WORD_TRANSFERS,
    WORD_SECONDS,
    WORD_SEED,
    WORD_WANT_MS,
    WORD_STOP_ENGINE,
    WORD_STOP_SECONDS,
    WORD_LOAD,
    WORD_STOP_ENGINES,
    WORD_BUSY,
    WORD_PIN,
    WORD_CSV,
    WORD_TABLE,
    WORD_JSON,
    WORD_HELP
};

static const struct option words[] = {
    {"block", required_argument, NULL, WORD_BLOCK},
    {"batch", required_argument, NULL, WORD_BATCH},
    {"blocks", required_argument, NULL, WORD_BLOCKS},
    {"pool", required_argument, NULL, WORD_POOL},
    {"iters", required_argument, NULL, WORD_ITERS},
    {"transfers", required_argument, NULL, WORD_TRANSFERS},
    {"seconds", required_argument, NULL, WORD_SECONDS},
    {"seed", required_argument, NULL, WORD_SEED},
    {"want-ms", required_argument, NULL, WORD_WANT_MS},
    {"stop-engine", required_argument, NULL, WORD_STOP_ENGINE},
    {"stop-seconds", required_argument, NULL, WORD_STOP_SECONDS},
    {"load", required_argument, NULL, WORD_LOAD},
    {"stop-engines", required_argument, NULL, WORD_STOP_ENGINES},
    {"busy", no_argument, NULL, WORD_BUSY},
    {"pin", no_argument, NULL, WORD_PIN},
    {"csv", no_argument, NULL, WORD_CSV},
    {"table", no_argument, NULL, WORD_TABLE},
    {"json", required_argument, NULL, WORD_JSON},
    {"help", no_argument, NULL, WORD_HELP},
    {NULL, 0, NULL, 0},
};

void options_help(void)
{
    puts(
        "usage: baton-bench OPERATION [OPTION...]        under batonrun, as program of every rank\n"
        "\n"
        "operations\n"
        "  pull        bandwidth and latency of a transfer, beside the limit of its path\n"
        "  push        the same where the producer writes\n"
        "  submit      what baton_want costs its caller\n"
        "  memory      private memory of each rank, for caches of several sizes\n"
        "  handshake   time to the first block from each prefill engine, all wanted at once, and to the next\n"
        "  shapes      caches that are cut or laid out differently, beside ones that are not (up to 9 ranks: prefill "
        "8x1)\n"
        "  fairness    a small want behind big ones of its peer, of all other prefill engines, and of both, beside the "
        "same\n"
        "              alone (prefill 5x1)\n"
        "\n"
        "options (numbers may end in K, M or G: 2^10, 2^20, 2^30; lists are joined by commas)\n"
        "  --block LIST        bytes of a block, multiples of 32 (pull: 4K,64K,1M; submit, fairness: 4K; memory: 512)\n"
        "  --batch LIST        blocks of a transfer (pull: 1,64,1024; fairness: 1,64; submit: 1024; memory: 256)\n"
        "  --blocks LIST       memory: blocks of a cache (1000,100000)\n"
        "  --pool BYTES        cache of a side (the largest of 256M, 4 times the L3 cache, twice the largest batch;\n"
        "                      shapes: the consumer's, the larger of 128M and 4 times the L3 cache; fairness: a\n"
        "                      producer's, 64M)\n"
        "  --iters N           measured transfers a row (by size)\n"
        "  --transfers N       memory: transfers before the measurement (64)\n"
        "  --seconds S         time a row may take, where --iters is not given (3)\n"
        "  --seed N            of the scattered block ids (1)\n"
        "  --want-ms MS        handshake: deadline of a want (5000)\n"
        "  --stop-engine NAME  handshake: this engine's ranks stop themselves before they are wanted\n"
        "  --stop-seconds S    handshake: and are continued after so long (15)\n"
        "  --load BYTES        fairness: bytes of big wants from each engine; two are open at a time, half a pool each "
        "(1G)\n"
        "  --stop-engines N    fairness: stop N engines with bytes under way, and measure small wants from the\n"
        "                      others; on one host (none)\n"
        "  --busy              a computing thread in every rank while measuring\n"
        "  --pin               pin the caller to the first allowed CPU, the reactor to the last\n"
        "  --csv               comma-separated rows on standard output, the conditions on standard error\n"
        "  --table             aligned rows below the conditions (the default)\n"
        "  --json FILE         rows and conditions, also to FILE\n"
        "  --help              print this\n"
        "\n"
        "GB/s are 10^9 bytes a second. Exit status: 0; 1 wrong data, a missed deadline or a failure; 2 bad options.");
}

const char *options_op_name(const struct options *o)
{
    return o->busy ? busy_names[o->op] : op_names[o->op];
}

static int refuse(const char *what, const char *text)
{
    fprintf(stderr, "baton-bench: %s: %s (--help lists all options)\n", what, text);
    return 2;
}

static int read_number(const char *name, const char *text, uint64_t least, uint64_t *out)
{
    uint64_t value;
    if (settings_number(text, &value) != 0 || value < least)
        return refuse(name, text);
    *out = value;
    return 0;
}

static int read_list(const char *name, const char *text, struct number_list *out)
{
    char word[32];
    out->count = 0;
    for (;;) {
        size_t len = strcspn(text, ",");
        if (len == 0 || len >= sizeof word || out->count == OPTIONS_LIST_MAX)
            return refuse(name, text);
        memcpy(word, text, len);
        word[len] = '\0';
        int rc = read_number(name, word, 1, &out->value[out->count++]);
        if (rc != 0)
            return rc;
        if (text[len] == '\0')
            return 0;
        text += len + 1;
    }
}

static int read_seconds(const char *name, const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value < 86400))
        return refuse(name, text);
    *out = value;
    return 0;
}

static int read_op(const char *text, struct options *o)
{
    for (unsigned i = 0; i < sizeof op_names / sizeof *op_names; i++) {
        if (strcmp(text, op_names[i]) == 0) {
            o->op = (enum bench_op)i;
            return 0;
        }
    }
    return refuse("no such operation", text);
}

static void preset_list(struct number_list *list, unsigned count, const uint64_t *values)
{
    if (list->count > 0)
        return;
    list->count = count;
    memcpy(list->value, values, count * sizeof *values);
}

static void preset(struct options *o)
{
    static const uint64_t pull_block[] = {4096, 65536, 1048576}, pull_batch[] = {1, 64, 1024};
    static const uint64_t submit_block[] = {4096}, submit_batch[] = {1024};
    static const uint64_t memory_block[] = {512}, memory_batch[] = {256}, memory_blocks[] = {1000, 100000};
    preset_list(&o->blocks, 2, memory_blocks);
    switch (o->op) {
    case OP_PULL:
    case OP_PUSH:
        preset_list(&o->block, 3, pull_block);
        preset_list(&o->batch, 3, pull_batch);
        break;
    case OP_SUBMIT:
        preset_list(&o->block, 1, submit_block);
        preset_list(&o->batch, 1, submit_batch);
        break;
    case OP_FAIRNESS:
        preset_list(&o->block, 1, submit_block);
        preset_list(&o->batch, 2, pull_batch);
        break;
    case OP_MEMORY:
    case OP_HANDSHAKE:
    case OP_SHAPES:
        preset_list(&o->block, 1, memory_block);
        preset_list(&o->batch, 1, memory_batch);
        break;
    }
}

static int check(const struct options *o)
{
    for (unsigned i = 0; i < o->block.count; i++) {
        if (o->block.value[i] % 32 != 0 || o->block.value[i] > UINT64_C(1) << 30)
            return refuse("--block", "a block has a multiple of 32 bytes, at most 1 GiB");
    }
    for (unsigned i = 0; i < o->batch.count; i++) {
        if (o->batch.value[i] > UINT64_C(1) << 24)
            return refuse("--batch", "at most 16M blocks a transfer");
    }
    for (unsigned i = 0; i < o->blocks.count; i++) {
        if (o->blocks.value[i] < 2 || o->blocks.value[i] > UINT64_C(1) << 28)
            return refuse("--blocks", "a cache has 2 to 256M blocks");
    }
    if (o->want_ms > 3600000)
        return refuse("--want-ms", "at most 3600000");
    if (o->stop_engine && o->stop_seconds * 1000 < (double)o->want_ms + 3000)
        return refuse("--stop-seconds", "must exceed --want-ms by 3 seconds, or no deadline is seen");
    return 0;
}

static int read_word(struct options *o, int word, const char *text)
{
    switch ((enum word)word) {
    case WORD_BLOCK:
        return read_list("--block", text, &o->block);
    case WORD_BATCH:
        return read_list("--batch", text, &o->batch);
    case WORD_BLOCKS:
        return read_list("--blocks", text, &o->blocks);
    case WORD_POOL:
        return read_number("--pool", text, 4096, &o->pool);
    case WORD_ITERS:
        return read_number("--iters", text, 1, &o->iters);
    case WORD_TRANSFERS:
        return read_number("--transfers", text, 1, &o->transfers);
    case WORD_SECONDS:
        return read_seconds("--seconds", text, &o->seconds);
    case WORD_SEED:
        return read_number("--seed", text, 0, &o->seed);
    case WORD_WANT_MS:
        return read_number("--want-ms", text, 1, &o->want_ms);
    case WORD_STOP_ENGINE:
        o->stop_engine = text;
        return 0;
    case WORD_STOP_SECONDS:
        return read_seconds("--stop-seconds", text, &o->stop_seconds);
    case WORD_LOAD:
        return read_number("--load", text, 1, &o->load);
    case WORD_STOP_ENGINES: {
        uint64_t n;
        int rc = read_number("--stop-engines", text, 1, &n);
        if (rc == 0 && n > 65536)
            return refuse("--stop-engines", text);
        o->stop_engines = rc == 0 ? (uint32_t)n : 0;
        return rc;
    }
    case WORD_BUSY:
        o->busy = true;
        return 0;
    case WORD_PIN:
        o->pin = true;
        return 0;
    case WORD_CSV:
    case WORD_TABLE:
        o->csv = word == WORD_CSV;
        return 0;
    case WORD_JSON:
        o->json = text;
        return 0;
    case WORD_HELP:
        o->help = true;
        return 0;
    }
    return 2; /* getopt has named the unknown option */
}

int options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){
        .seed = 1, .seconds = 3, .transfers = 64, .want_ms = 5000, .stop_seconds = 15, .load = UINT64_C(1) << 30};
    int word;
    while ((word = getopt_long(argc, argv, "", words, NULL)) != -1) {
        int rc = read_word(o, word, optarg);
        if (rc != 0)
            return rc;
    }
    if (o->help)
        return 0;
    if (optind == argc)
        return refuse("no operation given", "pull, push, submit, memory, handshake, shapes or fairness");
    int rc = read_op(argv[optind], o);
    if (rc != 0)
        return rc;
    if (optind + 1 < argc)
        return refuse("not understood", argv[optind + 1]);
    preset(o);
    return check(o);
}
