/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interference: how much slower a thread of the decode rank computes because of Baton: while nothing moves (idle), and
 * while blocks stream to it as fast as they can (streaming). Its work is arithmetic in registers, or sums over memory
 * that no cache holds.
 *
 * Each pair has two phases, one of them with what is examined and one without, and whichever comes first in one pair
 * comes second in the next. Without --with, the phase without is one in which the reactors hold still. With --with
 * VARIABLE=VALUE, blocks stream in both phases (or in neither), and the contexts of one are opened with that variable
 * in the environment: a row then says what the setting costs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/samples.h"
#include "bench/stream.h"

#define POOL (UINT64_C(128) << 20)
#define PAIRS_LEAST 20u
#define PAIRS_MOST 1000u
#define PHASE_NS (UINT64_C(50) * CLOCK_NS_PER_MS)
#define SETTLE_NS (UINT64_C(5) * CLOCK_NS_PER_MS) /* of a phase, before it counts */
#define STREAM_BYTES (UINT64_C(4) << 30)          /* more than a phase can move */
#define STREAM_MOST 1024u                         /* requests, which may be less: then one stream follows another */

struct run {
    struct bench *bench;
    uint64_t block_bytes;
    uint32_t batch;
    char variable[64];     /* of --with; empty: none */
    char *value;           /* of it */
    char *before;          /* what it is else; NULL: unset */
    struct busy computing; /* of the consumer */
    struct scene scene;
    struct stream stream;
    baton_path_t path; /* with what is examined */
    double *slower;    /* percent, by pair */
    uint64_t pairs;
    uint64_t bytes, ns; /* of the stream, in the phases with what is examined */
};

static bool has_setting(const struct run *r)
{
    return r->variable[0] != '\0';
}

/* ---- one phase --------------------------------------------------------------------------------------------------- */

static uint64_t pass(struct run *r, bool streams, uint64_t ns)
{
    const uint64_t until = clock_now_ns() + ns;
    const uint64_t bytes = streams ? stream_run(&r->stream, until) : 0;
    clock_sleep_until(until);
    return bytes;
}

/* By the consumer: the steps a second that the thread computes; one at least, also where it got no processor. */
static double watch(struct run *r, bool streams, bool counts)
{
    if (!r->scene.consumes)
        return 0;
    pass(r, streams, SETTLE_NS);
    const uint64_t steps = atomic_load(&r->computing.steps), begin = clock_now_ns();
    const uint64_t bytes = pass(r, streams, PHASE_NS);
    const uint64_t ns = clock_now_ns() - begin;
    if (counts) {
        r->bytes += bytes;
        r->ns += ns;
    }
    const uint64_t done = atomic_load(&r->computing.steps) - steps;
    return (double)(done > 0 ? done : 1) / (double)ns * 1e9;
}

static double stream_and_watch(struct run *r, bool streams, bool counts)
{
    const uint64_t count = STREAM_BYTES / ((uint64_t)r->batch * r->block_bytes);
    if (!streams)
        return watch(r, false, counts);
    stream_open(&r->stream, &r->scene, r->batch, count < 2 ? 2 : count > STREAM_MOST ? STREAM_MOST : (uint32_t)count);
    const double rate = watch(r, true, counts);
    stream_close(&r->stream);
    return rate;
}

/* A phase in which Baton holds still, or one in which it does what is examined. */
static double baton_phase(struct run *r, bool examined, bool streams)
{
    if (examined)
        return stream_and_watch(r, streams, true);
    scene_hold(&r->scene);
    const double rate = watch(r, false, false);
    scene_go_on(&r->scene, CHANNEL_ASLEEP);
    return rate;
}

static void open_scene(struct run *r)
{
    const struct options *o = &r->bench->options;
    const uint64_t given = (o->pool ? o->pool : POOL) / r->block_bytes,
                   least = 8 * (uint64_t)r->batch; /* what streams meets no other request */
    scene_open(r->bench, &r->scene,
               &(struct scene_form){.block_bytes = r->block_bytes,
                                    .num_blocks = (uint32_t)(given > least ? given : least),
                                    .max_batch = r->batch});
}

/* Contexts of its own, with the setting or without. */
static double setting_phase(struct run *r, bool examined, bool streams)
{
    context_set(r->variable, examined ? r->value : r->before);
    open_scene(r);
    scene_verify(&r->scene, r->batch, false); /* the first contact is none of the phase */
    const double rate = stream_and_watch(r, streams, examined);
    scene_close(&r->scene);
    context_set(r->variable, r->before);
    return rate;
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

static void add_pair(struct run *r, bool streams)
{
    double (*phase)(struct run *, bool, bool) = has_setting(r) ? setting_phase : baton_phase;
    const bool first = r->pairs % 2;
    double rate[2]; /* without, with */
    rate[first] = phase(r, first, streams);
    rate[!first] = phase(r, !first, streams);
    r->slower[r->pairs++] = 100 * (rate[0] / rate[1] - 1);
}

static void run_row(struct run *r, bool streams)
{
    struct bench *b = r->bench;
    struct pace pace;
    const char *work = busy_work_name(r->computing.work), *state = streams ? "streaming" : "idle";
    r->pairs = 0;
    r->bytes = r->ns = 0;
    pace_begin(&pace, b, PAIRS_LEAST, PAIRS_MOST, "%s, %s", work, state);
    while (pace_next(&pace))
        add_pair(r, streams);
    const struct interval slower = interval_of(r->slower, r->pairs);
    report_row(&b->report,
               "path=%s|work=%s|state=%s|of=%s|block_bytes=%" PRIu64 "|batch=%" PRIu32 "|pairs=%" PRIu64
               "|slower_percent=%.3f|low_percent=%.3f|high_percent=%.3f|GBps=%.3f",
               bench_path_name(r->path), work, state, has_setting(r) ? r->variable : "baton", r->block_bytes, r->batch,
               r->pairs, slower.median, slower.low, slower.high, r->ns > 0 ? (double)r->bytes / (double)r->ns : 0.0);
}

static void run_works(struct run *r)
{
    for (enum busy_work work = BUSY_REGISTERS; work < BUSY_WORKS; work++) {
        r->computing.work = work;
        if (bench_is_consumer(r->bench))
            busy_start(&r->computing, &r->bench->pin);
        run_row(r, false);
        run_row(r, true);
        busy_stop(&r->computing);
    }
}

static void run_size(struct run *r, bool notes)
{
    struct transfer t;
    if (has_setting(r))
        context_set(r->variable, r->value);
    open_scene(r);
    if (notes)
        context_note(r->bench, &r->scene.context);
    scene_verify(&r->scene, r->batch, false);
    scene_move(&r->scene, r->batch, false, &t);
    r->path = t.path;
    if (!has_setting(r))
        run_works(r);
    scene_close(&r->scene);
    if (has_setting(r)) {
        context_set(r->variable, r->before);
        run_works(r);
    }
}

static void read_setting(struct run *r)
{
    const char *with = r->bench->options.with;
    if (with == NULL)
        return;
    const size_t length = strcspn(with, "=");
    memcpy(r->variable, with, length); /* the options know that there is room */
    r->before = getenv(r->variable) != NULL ? strdup(getenv(r->variable)) : NULL;
    r->value = strcmp(r->variable, "BATON_TUNE") == 0 ? options_tuned(r->before, with + length + 1)
                                                      : strdup(with + length + 1);
    if (r->value == NULL)
        fail("out of memory");
}

void interference_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct run run = {.bench = b};
    run.slower = room(o->iters ? o->iters : PAIRS_MOST, sizeof *run.slower);
    read_setting(&run);
    report_note(&b->report,
                "slower_percent: by how much a thread of the decode rank computes slower %s%s: the median of pairs of "
                "phases of %" PRIu64 " ms, and the interval in which it lies with 95 %% confidence",
                has_setting(&run) ? "with " : "than while the reactors hold still", has_setting(&run) ? o->with : "",
                PHASE_NS / CLOCK_NS_PER_MS);
    for (unsigned i = 0; i < o->block.count; i++) {
        run.block_bytes = o->block.value[i];
        run.batch = (uint32_t)o->batch.value[0];
        run_size(&run, i == 0);
    }
    free(run.value);
    free(run.before);
    free(run.slower);
}
