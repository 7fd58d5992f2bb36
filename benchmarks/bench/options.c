/* SPDX-License-Identifier: BSD-3-Clause */
/* options: see options.h. */
#include "bench/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "baton.h"

#define BYTES_MOST (UINT64_C(1) << 50)
#define TIMES_MOST 1000000000
#define WITH_MOST 47  /* letters of a variable, which is a cell of the report */
#define STOP_MORE_S 3 /* that a stopped engine stays so behind the wants' deadline */

#define OPERATION_CHOICE(op, word, run) {word, OP_##op},
#define OPERATION_BUSY_NAME(op, word, run) word "+busy",
static const struct option_choice ops[] = {OPERATIONS_MAP(OPERATION_CHOICE){NULL, 0}};
static const char *const busy_names[] = {OPERATIONS_MAP(OPERATION_BUSY_NAME)};

static const struct option_choice formats[] = {
    {"table", FORMAT_TABLE}, {"csv", FORMAT_CSV}, {"osu", FORMAT_OSU}, {NULL, 0}};
static const struct option_choice states[] = {{"asleep", STATE_ASLEEP},
                                              {"polled", STATE_POLLED},
                                              {"streak", STATE_STREAK},
                                              {"spinning", STATE_SPINNING},
                                              {"busy", STATE_BUSY},
                                              {"all", STATE_ALL},
                                              {NULL, 0}};
static const struct option_choice memories[] = {
    {"slab", OWN_SLAB}, {"private", OWN_PRIVATE}, {"mapped", OWN_MAPPED}, {NULL, 0}};
static const struct option_choice calls[] = {{"want", 1u << FROM_WANT},
                                             {"offer", 1u << FROM_OFFER},
                                             {"ready", 1u << FROM_READY},
                                             {"all", (1u << FROM_CALLS) - 1},
                                             {NULL, 0}};

/* An option that is named after the format that it stands for. */
static int read_format(const struct option_row *row, const char *text, void *field, struct why *why)
{
    const struct option_row choice = {.name = row->name, .choices = formats};
    (void)text;
    return option_read_choice(&choice, row->name, field, why);
}

/* Words with commas between them, each of which sets bits. */
static int read_calls(const struct option_row *row, const char *text, void *field, struct why *why)
{
    const struct option_row choice = {.name = row->name, .choices = calls};
    unsigned set = 0;
    const char *at = text;
    for (bool more = true; more;) {
        char word[16], all[64];
        const size_t len = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        unsigned bits = 0;
        if (option_read_choice(&choice, word, &bits, why) != 0)
            return why_set(why, "--%s must be one or more of %s with commas between them, and is \"%.64s\"", row->name,
                           option_names(calls, all, sizeof all), text);
        set |= bits;
        more = at[len] == ',';
        at += len + more;
    }
    *(unsigned *)field = set;
    return 0;
}

static const struct option_row rows[] = {
    {.help = "options (numbers may end in K, M or G: 2^10, 2^20, 2^30; lists are joined by commas)"},
    {"block", "LIST",
     "bytes of a block, multiples of 32 (pull, push, latency, worlds: 4K,64K,1M; wrapped, fanout, incast, allpairs: "
     "4K,64K; submit, fairness, regions: 4K; distances, interference: 64K; memory: 512)",
     OPTION_LIST(struct options, block, 32, UINT64_C(1) << 30)},
    {"batch", "LIST",
     "blocks of a transfer (pull, push: 1,64,1024; latency: 1,8,64; fairness, worlds: 1,64; distances, interference: "
     "64; submit, wrapped: 1024; memory, fanout, incast, allpairs: 256; with --format osu: pull, push: 64, latency: 1)",
     OPTION_LIST(struct options, batch, 1, UINT64_C(1) << 24)},
    {"blocks", "LIST", "memory: blocks of a cache (1000,100000)",
     OPTION_LIST(struct options, blocks, 2, UINT64_C(1) << 28)},
    {"regions", "LIST", "regions: regions of each rank's cache; each number divides the largest (1,256)",
     OPTION_LIST(struct options, regions, 1, BATON_REGIONS_MAX)},
    {"pool", "BYTES",
     "cache of a side (pull, push: the largest of 256M, 4 times the L3 cache, twice the largest batch; wrapped, "
     "latency, worlds: the same, of 128M; shapes: the consumer's, the larger of 128M and 4 times the L3 cache; "
     "fairness: a producer's, 64M; fanout, incast, allpairs, interference: 128M)",
     OPTION_WHOLE(struct options, pool, 4096, BYTES_MOST)},
    {"iters", "N", "measured transfers a row; fairness, worlds: rounds; regions: starts (by size and --seconds)",
     OPTION_WHOLE(struct options, iters, 1, TIMES_MOST)},
    {"transfers", "N", "memory: transfers before the measurement (64)",
     OPTION_WHOLE(struct options, transfers, 1, TIMES_MOST)},
    {"seconds", "S",
     "time a row may take, or with worlds a size of blocks, where --iters is not given; idle: for how long it is "
     "measured (3)",
     OPTION_REAL(struct options, seconds, 0.001, 86400)},
    {"seed", "N", "of the scattered block ids (1)", OPTION_WHOLE(struct options, seed, 0, UINT64_MAX)},
    {"want-ms", "MS", "handshake: deadline of a want (5000)", OPTION_WHOLE(struct options, want_ms, 1, 3600000)},
    {"stop-engine", "NAME", "handshake: this engine's ranks stop themselves before they are wanted (none)",
     OPTION_TEXT(struct options, stop_engine)},
    {"stop-seconds", "S", "handshake: and are continued after so long, 3 more than --want-ms at least (15)",
     OPTION_REAL(struct options, stop_seconds, 0.001, 86400)},
    {"load", "BYTES", "fairness: bytes of big wants from each engine; two are open at a time, half a pool each (1G)",
     OPTION_WHOLE(struct options, load, 1, BYTES_MOST)},
    {"stop-engines", "N",
     "fairness: stop N engines with bytes under way, and measure small wants from the others; on one host (0: none)",
     OPTION_WHOLE(struct options, stop_engines, 0, 65536)},
    {"state", "STATE", "latency: asleep, polled, streak, spinning, busy or all (all; polled with --format osu)",
     OPTION_CHOICE(struct options, latency.state, states)},
    {"from", "LIST",
     "latency: the calls from which a transfer is timed: want (its offer is there), offer (its want waits), ready (the "
     "second of two layers), or all (want)",
     .read = read_calls, .field = offsetof(struct options, latency.from)},
    {"memory", "KIND", "latency: caches that Baton allocates (slab), or the engines' own, private or mapped (slab)",
     OPTION_CHOICE(struct options, latency.memory, memories)},
    {"verdicts", NULL, "latency: both engines ask for verdicts, and the time ends with that of the want",
     OPTION_SWITCH(struct options, latency.verdicts)},
    {"with", "VAR=VALUE", "interference: measure what this setting costs, instead of Baton as a whole",
     OPTION_TEXT(struct options, with)},
    {"network", "FILE", "distances: the switches between hosts, as batonrun takes them (one for all)",
     OPTION_FILE(struct options, network)},
    {"busy", NULL, "a computing thread in every rank while measuring", OPTION_SWITCH(struct options, busy)},
    {"pin", NULL, "pin the caller to the first allowed CPU, the reactor to the last",
     OPTION_SWITCH(struct options, pin)},
    {"format", "FORMAT",
     "table: aligned rows below the conditions (the default); csv: comma-separated rows on standard output, the "
     "conditions on standard error; osu: two columns as OSU's micro-benchmarks print them (pull, push, latency)",
     OPTION_CHOICE(struct options, format, formats)},
    {"csv", NULL, "the same as --format csv", .read = read_format, .field = offsetof(struct options, format)},
    {"table", NULL, "the same as --format table", .read = read_format, .field = offsetof(struct options, format)},
    {"json", "FILE", "rows and conditions, also to FILE", OPTION_FILE(struct options, json)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct options, version)},
    {"help", NULL, "print this", OPTION_SWITCH(struct options, help)},
    {0},
};

void options_help(void)
{
    puts(
        "usage: baton-bench OPERATION [OPTION...]        under batonrun, as program of every rank\n"
        "\n"
        "operations\n"
        "  pull                 bandwidth and latency of a transfer, beside the limit of its path\n"
        "  push                 the same where the producer writes\n"
        "  latency              percentiles of a transfer's time, with engines that sleep, poll, spin or compute, "
        "beside\n"
        "                       the limit of its path\n"
        "  submit               what baton_want costs its caller\n"
        "  memory               private memory of each rank, for caches of several sizes\n"
        "  handshake            time to the first block from each prefill engine, all wanted at once, and to the next\n"
        "  shapes               caches that are cut or laid out differently, beside ones that are not (up to 9 ranks:\n"
        "                       prefill 8x1)\n"
        "  fairness             a small want behind big ones of its peer, of all other prefill engines, and of both,\n"
        "                       beside the same alone (prefill 5x1)\n"
        "  distances            what a byte costs between near and far ranks, as a file for batonrun --costs\n"
        "  wrapped              caches in memory of the engine's own, beside process_vm_readv alone or a cache that "
        "Baton\n"
        "                       allocates; on one node\n"
        "  regions              a start with caches of many regions, beside the same caches in one (prefill 4x1, "
        "decode\n"
        "                       4x1)\n"
        "  fanout               one prefill engine and all decode engines at once, beside the same without Baton\n"
        "  incast               all prefill engines and one decode engine\n"
        "  allpairs             all prefill engines and all decode engines\n"
        "  interference         how much slower a thread of the decode rank computes, idle and while blocks stream\n"
        "  idle                 CPU time and wake-ups of each rank while nothing happens\n"
        "  scale                start, first contact, memory and close by the number of ranks: 2, 4, 8 and so on\n"
        "  worlds               a transfer within a node in a world of several, beside the same in a world of one\n"
        "                       (decode 2x1, BATON_FAKE_NODES=2)\n");
    option_help(rows);
    puts(
        "\nGB/s are 10^9 bytes a second. Exit status: 0; 1 wrong data, a missed deadline or a failure; 2 bad options.");
}

const char *options_op_name(const struct options *o)
{
    return o->busy ? busy_names[o->op] : option_name(ops, o->op, "");
}

const char *options_state_name(enum bench_state state)
{
    return option_name(states, state, "");
}

const char *options_from_name(enum bench_from from)
{
    return option_name(calls, 1u << from, "");
}

#define LIST(...)                                                                                                      \
    {                                                                                                                  \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                                                    \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define K UINT64_C(1024)

/* What --block and --batch are where they are not given. */
static const struct {
    struct option_list block, batch;
} presets[] = {
    [OP_PULL] = {LIST(4 * K, 64 * K, K *K), LIST(1, 64, 1024)},
    [OP_PUSH] = {LIST(4 * K, 64 * K, K *K), LIST(1, 64, 1024)},
    [OP_LATENCY] = {LIST(4 * K, 64 * K, K *K), LIST(1, 8, 64)},
    [OP_SUBMIT] = {LIST(4 * K), LIST(1024)},
    [OP_MEMORY] = {LIST(512), LIST(256)},
    [OP_HANDSHAKE] = {LIST(512), LIST(256)},
    [OP_SHAPES] = {LIST(512), LIST(256)},
    [OP_FAIRNESS] = {LIST(4 * K), LIST(1, 64)},
    [OP_DISTANCES] = {LIST(64 * K), LIST(64)},
    [OP_WRAPPED] = {LIST(4 * K, 64 * K), LIST(1024)},
    [OP_REGIONS] = {LIST(4 * K), LIST(1024)},
    [OP_FANOUT] = {LIST(4 * K, 64 * K), LIST(256)},
    [OP_INCAST] = {LIST(4 * K, 64 * K), LIST(256)},
    [OP_ALLPAIRS] = {LIST(4 * K, 64 * K), LIST(256)},
    [OP_INTERFERENCE] = {LIST(64 * K), LIST(64)},
    [OP_IDLE] = {LIST(512), LIST(256)},
    [OP_SCALE] = {LIST(512), LIST(256)},
    [OP_WORLDS] = {LIST(4 * K, 64 * K, K *K), LIST(1, 64)},
};

static void preset_list(struct option_list *list, const struct option_list *preset)
{
    if (list->count == 0)
        *list = *preset;
}

static void preset(struct options *o)
{
    static const struct option_list one = LIST(1), some = LIST(64), blocks = LIST(1000, 100000), regions = LIST(1, 256);
    if (o->format == FORMAT_OSU)
        preset_list(&o->batch, o->op == OP_LATENCY ? &one : &some);
    preset_list(&o->block, &presets[o->op].block);
    preset_list(&o->batch, &presets[o->op].batch);
    preset_list(&o->blocks, &blocks);
    preset_list(&o->regions, &regions);
    if (o->op == OP_LATENCY && o->format == FORMAT_OSU && o->latency.state == STATE_ALL)
        o->latency.state = STATE_POLLED;
    if (o->op == OP_LATENCY && o->latency.from == 0)
        o->latency.from = 1u << FROM_WANT;
}

/* A streak is timed from its wants, until their events. */
static int check_streak(const struct options *o, struct why *why)
{
    if (o->latency.state != STATE_STREAK)
        return 0;
    if ((o->latency.from & 1u << FROM_WANT) == 0)
        return why_set(why, "--state streak needs want in --from");
    return o->latency.verdicts ? why_set(why, "--state streak is not for --verdicts") : 0;
}

/* What baton_open reads besides the table of settings. */
static bool is_word_of_open(const char *name)
{
    static const char *const words[] = {"BATON_FAULT", "BATON_METRICS", "BATON_REACTOR_CPUS", "BATON_TRACE"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0)
            return true;
    return false;
}

/* VARIABLE=VALUE, where a context reads the variable and takes the value: any other one would be measured without
 * effect, or end the run half-way. */
static int check_with(const struct options *o, struct why *why)
{
    char name[WITH_MOST + 1], nearest[SETTING_SPELLING_MAX];
    const size_t length = o->with != NULL ? strcspn(o->with, "=") : 0;
    if (o->with == NULL)
        return 0;
    if (o->with[length] == '\0' || length == 0 || length > WITH_MOST)
        return why_set(why, "--with must be VARIABLE=VALUE, and is \"%.64s\"", o->with);
    snprintf(name, sizeof name, "%.*s", (int)length, o->with);
    const int is_setting = settings_check(o->with);
    if (is_setting < 0)
        return why_set(why, "--with %s", baton_errmsg());
    if (is_setting == 1 || is_word_of_open(name))
        return 0;
    const bool is_misspelt = settings_nearest(o->with, nearest);
    return why_set(why, "--with needs a setting that Baton reads when a context is opened, and %s is none%s%s", name,
                   is_misspelt ? "; the nearest is " : "; baton-info lists them", is_misspelt ? nearest : "");
}

/* Two columns have room for the size of a block alone. */
static int check_osu(const struct options *o, struct why *why)
{
    if (o->op != OP_PULL && o->op != OP_PUSH && o->op != OP_LATENCY)
        return why_set(why, "--format osu is for pull, push and latency");
    if (o->batch.count > 1)
        return why_set(why, "--format osu takes one --batch");
    if ((o->latency.from & (o->latency.from - 1)) != 0)
        return why_set(why, "--format osu takes one call of --from");
    return 0;
}

#define BIT(op) (1u << OP_##op)
#define CROWD (BIT(FANOUT) | BIT(INCAST) | BIT(ALLPAIRS))
#define STREAM                                                                                                         \
    (BIT(PULL) | BIT(PUSH) | BIT(LATENCY) | BIT(WRAPPED) | BIT(DISTANCES) | BIT(INTERFERENCE) | BIT(WORLDS) | CROWD)

/* The operations that an option is for. Those that are not here are for all. */
static const struct {
    const char *option;
    unsigned ops;
} uses[] = {
    {"block", STREAM | BIT(SUBMIT) | BIT(MEMORY) | BIT(FAIRNESS) | BIT(REGIONS)},
    {"batch", STREAM | BIT(SUBMIT) | BIT(MEMORY) | BIT(FAIRNESS)},
    {"blocks", BIT(MEMORY)},
    {"regions", BIT(REGIONS)},
    {"pool", STREAM | BIT(SHAPES) | BIT(FAIRNESS)},
    {"iters", STREAM | BIT(SUBMIT) | BIT(SHAPES) | BIT(FAIRNESS) | BIT(REGIONS) | BIT(SCALE)},
    {"transfers", BIT(MEMORY)},
    {"seconds", STREAM | BIT(SUBMIT) | BIT(SHAPES) | BIT(FAIRNESS) | BIT(REGIONS) | BIT(SCALE) | BIT(IDLE)},
    {"seed", ~(BIT(HANDSHAKE) | BIT(REGIONS) | BIT(IDLE) | BIT(SCALE))},
    {"busy", ~BIT(REGIONS)}, /* whose contexts are opened by hand */
    {"pin", ~BIT(REGIONS)},
    {"want-ms", BIT(HANDSHAKE)},
    {"stop-engine", BIT(HANDSHAKE)},
    {"stop-seconds", BIT(HANDSHAKE)},
    {"load", BIT(FAIRNESS)},
    {"stop-engines", BIT(FAIRNESS)},
    {"state", BIT(LATENCY)},
    {"from", BIT(LATENCY)},
    {"memory", BIT(LATENCY)},
    {"verdicts", BIT(LATENCY)},
    {"with", BIT(INTERFERENCE)},
    {"network", BIT(DISTANCES)},
    {"format", ~BIT(DISTANCES)}, /* which prints a file of its own form */
    {"csv", ~BIT(DISTANCES)},
    {"table", ~BIT(DISTANCES)},
    {"json", ~BIT(DISTANCES)},
};

/* The first operation of a set. */
static const char *first_of(unsigned set)
{
    return option_name(ops, (unsigned)__builtin_ctz(set), "");
}

/* What the operation does not use would be passed over, and believed to have been used. */
static int check_used(const struct options *o, uint64_t given, struct why *why)
{
    for (unsigned i = 0; i < sizeof uses / sizeof *uses; i++)
        if ((uses[i].ops >> o->op & 1) == 0 && option_given(rows, given, uses[i].option))
            return why_set(why, "%s takes no --%s; %s does", option_name(ops, o->op, ""), uses[i].option,
                           first_of(uses[i].ops));
    if (option_given(rows, given, "stop-seconds") && o->stop_engine == NULL)
        return why_set(why, "--stop-seconds needs --stop-engine");
    return 0;
}

static int check(const struct options *o, struct why *why)
{
    for (unsigned i = 0; i < o->block.count; i++)
        if (o->block.value[i] % 32 != 0)
            return why_set(why, "--block must be multiples of 32, and has %llu", (unsigned long long)o->block.value[i]);
    if (o->stop_engine && o->stop_seconds * 1000 < (double)o->want_ms + STOP_MORE_S * 1000)
        return why_set(why,
                       "--stop-seconds must be %g at least, %d more than --want-ms, or no deadline is seen: it is %g",
                       (double)o->want_ms / 1000 + STOP_MORE_S, STOP_MORE_S, o->stop_seconds);
    for (unsigned i = 0; i < o->regions.count; i++)
        if (option_list_most(&o->regions) % o->regions.value[i] != 0)
            return why_set(why, "--regions must divide the largest of them, and %llu does not divide %llu",
                           (unsigned long long)o->regions.value[i], (unsigned long long)option_list_most(&o->regions));
    if (o->op == OP_REGIONS && o->block.count > 1)
        return why_set(why, "regions takes one --block");
    if (check_with(o, why) != 0)
        return -1;
    if (o->op == OP_INTERFERENCE && o->batch.count > 1)
        return why_set(why, "interference takes one --batch");
    if (o->op == OP_DISTANCES && (o->block.count > 1 || o->batch.count > 1))
        return why_set(why, "distances takes one --block and one --batch");
    if (o->op == OP_LATENCY && check_streak(o, why) != 0)
        return -1;
    return o->format == FORMAT_OSU ? check_osu(o, why) : 0;
}

static int read_op(const char *text, struct options *o, struct why *why)
{
    const struct option_row row = {.choices = ops};
    char all[256];
    if (text == NULL)
        return why_set(why, "no operation is given: %s", option_names(ops, all, sizeof all));
    if (option_read_choice(&row, text, &o->op, why) != 0)
        return why_set(why, "the operation must be one of %s, and is \"%.64s\"", option_names(ops, all, sizeof all),
                       text);
    return 0;
}

int options_read(struct options *o, int argc, char **argv, struct why *why)
{
    const char *op = NULL;
    uint64_t given = 0;
    *o = (struct options){.seed = 1,
                          .seconds = 3,
                          .transfers = 64,
                          .want_ms = 5000,
                          .stop_seconds = 15,
                          .load = UINT64_C(1) << 30,
                          .latency = {.state = STATE_ALL}};
    if (option_read(rows, argc, argv, o, &op, &given, why) != 0)
        return -1;
    if (o->help || o->version)
        return 0;
    if (read_op(op, o, why) != 0)
        return -1;
    if (check_used(o, given, why) != 0)
        return -1;
    preset(o);
    return check(o, why);
}

/* ---- tunables ---------------------------------------------------------------------------------------------------- */

static bool is_named(const char *tunables, const char *name, size_t length)
{
    for (const char *at = tunables; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return true;
    return false;
}

char *options_tuned(const char *given, const char *changes)
{
    char *out = malloc((given != NULL ? strlen(given) : 0) + strlen(changes) + 2);
    size_t used = 0;
    if (out == NULL)
        return NULL;
    for (const char *at = given != NULL ? given : ""; *at != '\0'; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        if (!is_named(changes, at, strcspn(at, "=,"))) {
            memcpy(out + used, at, length);
            used += length;
            out[used++] = ',';
        }
        at += length;
    }
    strcpy(out + used, changes);
    if (changes[0] == '\0')
        out[0] = '\0'; /* none at all */
    return out;
}
