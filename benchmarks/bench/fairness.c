/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fairness: how long a small want takes behind big ones, beside the same want alone. "Alone" is measured in the same
 * run, in turn with "behind", by the same processes, while they move nothing else.
 *
 *   same     the big wants are of the peer of the small one
 *   others   of all other prefill engines
 *   all      of both
 *   stopped  (--stop-engines) of engines that are stopped while bytes move; small wants are of all others in turn.
 *            They stop themselves, between two calls of MPI: UCX's queues in shared memory have many writers, and one
 *            that is stopped while it writes holds up the owner of the queue, whatever the program above does
 *
 * Big wants follow each other, two of each engine at a time, until --load bytes were wanted or all small wants have
 * ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "bench/blocks.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/hush.h"
#include "bench/pace.h"
#include "bench/pattern.h"
#include "bench/samples.h"
#include "bench/walk.h"
#include "core/path.h"

static const char *const columns[] = {"op",           "path",   "behind", "block_bytes", "batch",    "alone_us_p50",
                                      "alone_us_p90", "us_p50", "us_p90", "ratio_p90",   "bound_us", "within"};

#define POOL (UINT64_C(64) << 20) /* of a producer */
#define DEPTH 2u                  /* big wants of an engine at a time */
#define SMALL_A_PHASE 40u
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 1000000u
#define SETTLE_US 3000u /* after which bytes of the big wants move */

enum behind { SAME, OTHERS, ALL, STOPPED };
static const char *const behind_names[] = {"same", "others", "all", "stopped"};

enum command_kind { COMMAND_OFFER = 1, COMMAND_OVER, COMMAND_STOP, COMMAND_END };

struct command {
    uint32_t kind, batch, smalls, bigs; /* OFFER: how many of each */
    uint32_t first, step;               /* the small ones first, first + step, ... */
    uint64_t serial;
};

/** A prefill engine of one rank. */
struct engine {
    const char *name;
    int rank, pid;
    bool near; /* on this host: it can be stopped */
};

/** A big want's place: its blocks, and the want that is open there. */
struct slot {
    uint32_t next; /* the want that comes next */
    bool open;
    baton_id_t id;
};

struct run {
    struct bench *bench;
    struct context context;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    struct settings settings;
    uint64_t block_bytes, pool;
    uint32_t big;       /* blocks of a big want */
    uint32_t max_batch; /* of a small one */
    uint32_t bigs;      /* wants of an engine, at most */
    struct engine *engine;
    uint32_t num_engines; /* the first is the peer of the small wants */
    struct walk source, target, order;
    uint32_t *ids, *from;
    uint64_t serial;
    /* of the consumer, in a phase */
    struct slot *slot; /* [engine * DEPTH + k] */
    uint32_t open;     /* big wants */
    baton_path_t path;
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

static void find_engines(struct run *run)
{
    struct bench *b = run->bench;
    const struct roster *r = &b->roster;
    struct {
        long host;
        int pid;
    } me = {gethostid(), (int)getpid()}, *all = calloc((size_t)r->size, sizeof *all);
    run->engine = calloc((size_t)r->num_engines, sizeof *run->engine);
    if (!all || !run->engine)
        fail("out of memory");
    MPI_Allgather(&me, sizeof me, MPI_BYTE, all, sizeof me, MPI_BYTE, r->comm);
    for (int e = b->prefill; e < r->num_engines; e++) {
        const struct roster_engine *from = &r->engines[e];
        if (e == b->decode || !(from->role & BATON_ROLE_PREFILL) || from->tp != 1 || from->pp != 1)
            continue;
        run->engine[run->num_engines++] = (struct engine){.name = from->name,
                                                          .rank = from->first,
                                                          .pid = all[from->first].pid,
                                                          .near = all[from->first].host == all[b->consumer].host};
    }
    free(all);
}

static int own_engine(const struct run *run)
{
    for (uint32_t e = 0; e < run->num_engines; e++)
        if (run->engine[e].rank == run->bench->roster.rank)
            return (int)e;
    return -1;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void describe(struct run *run)
{
    uint32_t blocks = DEPTH * run->big;
    if (bench_is_consumer(run->bench))
        blocks = run->num_engines * DEPTH * run->big + 2 * run->max_batch;
    blocks_describe(run->block_bytes, blocks, &run->geometry, &run->tensor);
}

/* The blocks of big want i: in a producer's cache, or in the consumer's, where each producer has a region of its
   own. */
static void big_blocks(struct run *run, const struct walk *walk, uint32_t region, uint32_t i)
{
    walk_draw(walk, 0, run->big, run->ids);
    for (uint32_t k = 0; k < run->big; k++)
        run->ids[k] += (region * DEPTH + i % DEPTH) * run->big;
}

static void small_source(struct run *run, uint64_t serial, uint32_t i, uint32_t batch, uint32_t *ids)
{
    walk_draw(&run->order, serial * 1009 + (uint64_t)i * batch, batch, ids);
}

static void small_key(uint64_t serial, uint32_t i, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "small-%" PRIu64 "-%" PRIu32, serial, i);
}

static void big_key(uint64_t serial, uint32_t i, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "big-%" PRIu64 "-%" PRIu32, serial, i);
}

/* ---- a producer -------------------------------------------------------------------------------------------------- */

static uint32_t offer_all(struct run *run, const struct command *c, baton_id_t *offered)
{
    char key[BATON_KEY_MAX];
    uint32_t n = 0;
    for (uint32_t i = c->first; i < c->smalls; i += c->step) {
        small_key(c->serial, i, key);
        small_source(run, c->serial, i, c->batch, run->ids);
        offered[n++] = blocks_offer(&run->context, key, run->ids, c->batch);
    }
    for (uint32_t i = 0; i < c->bigs; i++) {
        big_key(c->serial, i, key);
        big_blocks(run, &run->source, 0, i);
        offered[n++] = blocks_offer(&run->context, key, run->ids, run->big);
    }
    return n;
}

/* Offers that were not wanted are cancelled. The others end by themselves. */
static void end_all(struct run *run, const baton_id_t *offered, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        fail_on(baton_cancel(run->context.baton, offered[i]), "baton_cancel");
    blocks_await_offers(&run->context, n);
}

static void stop_myself(void)
{
    hush_begin();
    if (raise(SIGSTOP) != 0)
        fail("cannot stop: %s", strerror(errno));
    hush_end();
}

static void obey(struct run *run)
{
    const struct bench *b = run->bench;
    baton_id_t *offered = calloc(SMALL_A_PHASE + run->bigs, sizeof *offered);
    struct command c = {0};
    uint32_t n = 0;
    char done = 1;
    if (!offered)
        fail("out of memory");
    while (c.kind != COMMAND_END) {
        channel_receive(b->roster.comm, b->consumer, &c, sizeof c, CHANNEL_ASLEEP);
        if (c.kind == COMMAND_STOP) {
            stop_myself();
            continue;
        }
        if (c.kind == COMMAND_OFFER)
            n = offer_all(run, &c, offered);
        if (c.kind == COMMAND_OVER)
            end_all(run, offered, n);
        channel_send(b->roster.comm, b->consumer, &done, sizeof done);
    }
    free(offered);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static void command(struct run *run, uint32_t engine, struct command c)
{
    char done;
    channel_send(run->bench->roster.comm, run->engine[engine].rank, &c, sizeof c);
    channel_receive(run->bench->roster.comm, run->engine[engine].rank, &done, sizeof done, CHANNEL_ASLEEP);
}

static void command_all(struct run *run, struct command c)
{
    for (uint32_t e = 0; e < run->num_engines; e++)
        command(run, e, c);
}

static baton_id_t want(struct run *run, uint32_t engine, const char *key, uint32_t blocks, void *user)
{
    return blocks_want(&run->context, run->engine[engine].name, key, run->ids, blocks, BATON_MODE_PULL, user);
}

static void want_big(struct run *run, struct slot *slot)
{
    char key[BATON_KEY_MAX];
    uint32_t engine = (uint32_t)(slot - run->slot) / DEPTH;
    if (slot->next >= run->bigs)
        return;
    big_key(run->serial, slot->next, key);
    big_blocks(run, &run->target, engine, slot->next);
    slot->id = want(run, engine, key, run->big, slot);
    slot->next += DEPTH;
    slot->open = true;
    run->open++;
}

/* If the event is of a big want, the next big want may follow. True: the event is of the small want. */
static bool count_event(struct run *run, bool more, const baton_event_t *event)
{
    struct slot *slot = event->user;
    if (event->error != 0 && !(slot && event->error == BATON_ECANCELED))
        fail("the want %s ended as %s: %s", event->key, baton_errname(event->error), event->detail);
    if (!slot)
        return true;
    slot->open = false;
    run->open--;
    if (more)
        want_big(run, slot);
    return false;
}

static bool take_event(struct run *run, bool more, baton_event_t *event)
{
    if (!context_await(&run->context, event, BLOCKS_PATIENCE_MS))
        fail("no event for %u ms", BLOCKS_PATIENCE_MS);
    return count_event(run, more, event);
}

/* Takes the events that have come meanwhile. No big wants follow them. */
static void take_big_events(struct run *run)
{
    baton_event_t event;
    while (run->open > 0 && context_await(&run->context, &event, 0))
        count_event(run, false, &event);
}

static void check(struct run *run, uint32_t i, uint32_t batch, uint32_t first)
{
    uint64_t at;
    small_source(run, run->serial, i, batch, run->from);
    for (uint32_t k = 0; k < batch; k++) {
        char *block = run->context.pool + (first + 2 * k) * run->block_bytes;
        if (!pattern_check(block, run->block_bytes, run->from[k], &at)) {
            fprintf(stderr, "baton-bench: wrong data: small want %" PRIu32 ", block %" PRIu32 ", byte %" PRIu64 "\n", i,
                    k, at);
            run->bench->status = 1;
            return;
        }
        memset(block, 0, run->block_bytes);
    }
}

static void want_small(struct run *run, uint32_t engine, uint32_t i, uint32_t batch, struct samples *out)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    uint32_t first = run->num_engines * DEPTH * run->big;
    for (uint32_t k = 0; k < batch; k++)
        run->ids[k] = first + 2 * k;
    small_key(run->serial, i, key);
    uint64_t begin = clock_now_ns();
    want(run, engine, key, batch, NULL);
    while (!take_event(run, true, &event))
        continue;
    if (samples_add(out, clock_now_ns() - begin) != 0)
        fail("out of memory for samples");
    run->path = blocks_path(&event);
    check(run, i, batch, first);
}

/* Asks the kernel: in the file, the state stands behind the name in brackets. */
static char state_of(int pid)
{
    char path[32], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        fail("cannot read %s: %s", path, strerror(errno));
    fclose(f);
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : '?';
}

static void stop_engines(struct run *run, uint32_t stopped)
{
    for (uint32_t e = run->num_engines - stopped; e < run->num_engines; e++)
        channel_send(run->bench->roster.comm, run->engine[e].rank, &(struct command){.kind = COMMAND_STOP},
                     sizeof(struct command));
    uint64_t end = clock_now_ns() + BLOCKS_PATIENCE_MS * CLOCK_NS_PER_MS;
    for (uint32_t e = run->num_engines - stopped; e < run->num_engines; e++)
        while (state_of(run->engine[e].pid) != 'T') {
            if (clock_now_ns() > end)
                fail("engine %s does not stop", run->engine[e].name);
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    take_big_events(run);
}

static void continue_engines(const struct run *run, uint32_t stopped)
{
    for (uint32_t e = run->num_engines - stopped; e < run->num_engines; e++)
        if (kill(run->engine[e].pid, SIGCONT) != 0)
            fail("engine %s cannot be continued: %s", run->engine[e].name, strerror(errno));
}

/* Small wants of engines [0, small_engines), behind big ones of engines [first, last). */
static void phase(struct run *run, uint32_t batch, uint32_t small_engines, uint32_t first, uint32_t last,
                  uint32_t stopped, struct samples *out)
{
    baton_event_t event;
    run->serial++;
    for (uint32_t e = 0; e < run->num_engines; e++) {
        bool serves = e < small_engines, loads = e >= first && e < last;
        command(run, e,
                (struct command){.kind = COMMAND_OFFER,
                                 .batch = batch,
                                 .smalls = serves ? SMALL_A_PHASE : 0,
                                 .bigs = loads ? run->bigs : 0,
                                 .first = e,
                                 .step = small_engines,
                                 .serial = run->serial});
        for (uint32_t k = 0; k < DEPTH; k++) {
            run->slot[e * DEPTH + k] = (struct slot){.next = k};
            if (loads)
                want_big(run, &run->slot[e * DEPTH + k]);
        }
    }
    if (run->open > 0)
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_US * 1000}, NULL);
    if (last > first && stopped > 0)
        stop_engines(run, stopped);
    for (uint32_t i = 0; i < SMALL_A_PHASE && (last == first || run->open > 0); i++)
        want_small(run, i % small_engines, i, batch, out);
    if (last > first)
        continue_engines(run, stopped);
    for (uint32_t i = 0; i < run->num_engines * DEPTH; i++)
        if (run->slot[i].open)
            fail_on(baton_cancel(run->context.baton, run->slot[i].id), "baton_cancel");
    while (run->open > 0)
        take_event(run, false, &event);
    command_all(run, (struct command){.kind = COMMAND_OVER});
}

/* Nanoseconds a byte of a big want alone. */
static void move_one(struct run *run, struct samples *out)
{
    baton_event_t event;
    struct slot *slot = &run->slot[0];
    run->serial++;
    command(run, 0, (struct command){.kind = COMMAND_OFFER, .bigs = 1, .step = 1, .serial = run->serial});
    *slot = (struct slot){.next = 0};
    uint64_t begin = clock_now_ns();
    want_big(run, slot);
    take_event(run, false, &event);
    if (samples_add(out, clock_now_ns() - begin) != 0)
        fail("out of memory for samples");
    command(run, 0, (struct command){.kind = COMMAND_OVER});
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

static void print(struct run *run, enum behind behind, uint32_t batch, uint32_t competing, struct samples *s)
{
    const struct options *o = &run->bench->options;
    struct report_row row = {0};
    struct samples *alone = &s[0], *behind_it = &s[1];
    double alone_90 = (double)samples_quantile(alone, 0.9), us_90 = (double)samples_quantile(behind_it, 0.9);
    double big_bytes = (double)run->big * (double)run->block_bytes;
    double ns_a_byte = (double)samples_quantile(&s[2], 0.5) / big_bytes;
    const struct settings *set = &run->settings;
    double in_flight = (double)(path_is_far(run->path) ? set->rma_bytes : set->copy_bytes * set->copy_workers);
    double ahead = in_flight + competing * (double)set->chunk_bytes;
    double bound = behind == STOPPED ? 2 * alone_90 : 3 * alone_90 + ahead * ns_a_byte;
    report_cell(&row, "%s", options_op_name(o));
    report_cell(&row, "%s", bench_path_name(run->path));
    report_cell(&row, "%s", behind_names[behind]);
    report_cell(&row, "%" PRIu64, run->block_bytes);
    report_cell(&row, "%" PRIu32, batch);
    report_cell(&row, "%.1f", (double)samples_quantile(alone, 0.5) / 1e3);
    report_cell(&row, "%.1f", alone_90 / 1e3);
    report_cell(&row, "%.1f", (double)samples_quantile(behind_it, 0.5) / 1e3);
    report_cell(&row, "%.1f", us_90 / 1e3);
    report_cell(&row, "%.2f", us_90 / alone_90);
    report_cell(&row, "%.1f", bound / 1e3);
    report_cell(&row, "%s", us_90 <= bound ? "yes" : "no");
    report_add(&run->bench->report, &row);
    report_note(&run->bench->report,
                "  %zu small wants alone, %zu behind %" PRIu32 " big ones of %.0f MiB, which alone move %.2f GB/s",
                alone->count, behind_it->count, competing, big_bytes / (1 << 20), 1 / ns_a_byte);
}

static void run_row(struct run *run, enum behind behind, uint32_t batch)
{
    const struct options *o = &run->bench->options;
    uint32_t stopped = behind == STOPPED ? o->stop_engines : 0, small_engines = 1;
    uint32_t first = behind == OTHERS ? 1 : 0, last = behind == SAME ? 1 : run->num_engines;
    struct samples s[3] = {{0}}, ignored = {0};
    struct pace pace;
    if (behind == STOPPED)
        first = small_engines = run->num_engines - stopped;
    phase(run, batch, small_engines, 0, 0, 0, &ignored); /* warm */
    phase(run, batch, small_engines, first, last, 0, &ignored);
    pace_begin(&pace, run->bench, ROUNDS_LEAST, ROUNDS_MOST, "%" PRIu64 " x %" PRIu32 ", behind %s", run->block_bytes,
               batch, behind_names[behind]);
    while (pace_next(&pace)) {
        move_one(run, &s[2]);
        phase(run, batch, small_engines, 0, 0, 0, &s[0]);
        phase(run, batch, small_engines, first, last, stopped, &s[1]);
    }
    if (s[1].count == 0)
        fail("all big wants had ended before the small ones were called: make --pool or --load larger");
    print(run, behind, batch, (last - first) * DEPTH, s);
    for (unsigned i = 0; i < 3; i++)
        samples_fini(&s[i]);
    samples_fini(&ignored);
}

static void run_consumer(struct run *run)
{
    const struct options *o = &run->bench->options;
    for (unsigned i = 0; i < o->batch.count; i++) {
        uint32_t batch = (uint32_t)o->batch.value[i];
        if (o->stop_engines > 0) {
            run_row(run, STOPPED, batch);
            continue;
        }
        run_row(run, SAME, batch);
        if (run->num_engines > 1) {
            run_row(run, OTHERS, batch);
            run_row(run, ALL, batch);
        }
    }
    command_all(run, (struct command){.kind = COMMAND_END});
}

/* ---- a block size ------------------------------------------------------------------------------------------------ */

static void open_run(struct run *run, uint64_t block_bytes)
{
    const struct options *o = &run->bench->options;
    uint64_t seed = o->seed;
    run->block_bytes = block_bytes;
    run->big = (uint32_t)(run->pool / DEPTH / block_bytes);
    if (run->big < run->max_batch)
        fail("--pool of %" PRIu64 " bytes is too small for %" PRIu32 " blocks twice", run->pool, run->max_batch);
    uint64_t bigs = o->load / (run->big * block_bytes);
    run->bigs = bigs < DEPTH ? DEPTH : bigs > 1024 ? 1024 : (uint32_t)bigs;
    describe(run);
    bool moves = bench_is_consumer(run->bench) || own_engine(run) >= 0;
    context_open(run->bench, &run->context, &run->bench->roster.ranks[run->bench->roster.rank],
                 moves ? &run->geometry : NULL);
    run->ids = calloc(run->big, sizeof *run->ids);
    run->from = calloc(run->max_batch, sizeof *run->from);
    run->slot = calloc(run->num_engines * DEPTH, sizeof *run->slot);
    if (!run->ids || !run->from || !run->slot || walk_init(&run->source, run->big, walk_random(&seed)) != 0 ||
        walk_init(&run->target, run->big, walk_random(&seed)) != 0 ||
        walk_init(&run->order, DEPTH * run->big, walk_random(&seed)) != 0)
        fail("out of memory for block tables");
    if (own_engine(run) >= 0)
        blocks_fill(run->context.pool, block_bytes, DEPTH * run->big, 0);
    channel_barrier(run->bench->roster.comm);
}

static void close_run(struct run *run)
{
    channel_barrier(run->bench->roster.comm);
    context_close(run->bench, &run->context);
    walk_fini(&run->source);
    walk_fini(&run->target);
    walk_fini(&run->order);
    free(run->ids);
    free(run->from);
    free(run->slot);
}

void fairness_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct run run = {.bench = b, .pool = o->pool ? o->pool : POOL};
    report_open(&b->report, o, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    fail_on(settings_read(&run.settings, environ), "settings");
    find_engines(&run);
    for (unsigned i = 0; i < o->batch.count; i++)
        run.max_batch = o->batch.value[i] > run.max_batch ? (uint32_t)o->batch.value[i] : run.max_batch;
    if (o->stop_engines >= run.num_engines)
        fail("--stop-engines %" PRIu32 ": only %" PRIu32 " prefill engines of one rank run", o->stop_engines,
             run.num_engines);
    for (uint32_t e = run.num_engines - o->stop_engines; e < run.num_engines; e++)
        if (!run.engine[e].near)
            fail("--stop-engines: engine %s runs on another host than the decode rank", run.engine[e].name);
    for (unsigned i = 0; i < o->block.count; i++) {
        open_run(&run, o->block.value[i]);
        if (i == 0 && b->report.active) {
            conditions_note_baton(b, run.context.baton);
            report_note(&b->report, "microseconds from the call of baton_want to its event; bound: %s",
                        o->stop_engines > 0
                            ? "2 x alone p90"
                            : "3 x alone p90, and the time of all that may be in flight over the path (rma_bytes, "
                              "copy_bytes a worker) and of one chunk_bytes a big want");
        }
        if (bench_is_consumer(b))
            run_consumer(&run);
        else if (own_engine(&run) >= 0)
            obey(&run);
        close_run(&run);
    }
    free(run.engine);
}
