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
#include "bench/blocks.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/roster.h"
#include "bench/samples.h"
#include "bench/scatter.h"
#include "core/path.h"

#define POOL (UINT64_C(64) << 20) /* of a producer */
#define DEPTH 2u                  /* big wants of an engine at a time */
#define SMALL_A_PHASE 40u
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 1000000u
#define SETTLE_US 3000u /* after which bytes of the big wants move */

enum behind { SAME, OTHERS, ALL, STOPPED };
static const char *const behind_names[] = {"same", "others", "all", "stopped"};

/* A phase: small wants of engines [0, small_engines), behind big ones of engines [first, last), of which the last
   `stopped` ones are stopped meanwhile. */
struct phase {
    uint32_t batch; /* of a small want */
    uint32_t small_engines, first, last, stopped;
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
    struct blocks cache;
    struct settings settings;
    uint64_t block_bytes, pool;
    uint32_t big;       /* blocks of a big want */
    uint32_t max_batch; /* of a small one */
    uint32_t bigs;      /* wants of an engine, at most */
    struct engine *engine;
    uint32_t num_engines; /* the first is the peer of the small wants */
    int own;              /* this rank's place among them, or -1 */
    struct walk source, target, order;
    uint32_t *ids, *from;
    uint64_t serial;
    baton_id_t *offered; /* of a producer, in a phase */
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
    } me = {gethostid(), (int)getpid()}, *all = room((size_t)r->size, sizeof *all);
    run->engine = room((size_t)r->num_engines, sizeof *run->engine);
    run->own = -1;
    MPI_Allgather(&me, sizeof me, MPI_BYTE, all, sizeof me, MPI_BYTE, r->comm);
    for (int e = b->prefill; e < r->num_engines; e++) {
        const struct roster_engine *from = &r->engines[e];
        if (e == b->decode || !roster_is_single(r, e, BATON_ROLE_PREFILL))
            continue;
        if (from->first == r->rank)
            run->own = (int)run->num_engines;
        run->engine[run->num_engines++] = (struct engine){.name = from->name,
                                                          .rank = from->first,
                                                          .pid = all[from->first].pid,
                                                          .near = all[from->first].host == all[b->consumer].host};
    }
    free(all);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

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

/* "small-3-7", or with `what` "big": of that phase, and its place there. */
static void key_of(const struct run *run, const char *what, uint32_t i, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "%s-%" PRIu64 "-%" PRIu32, what, run->serial, i);
}

/* Engines [first, last) wait here until the consumer comes. */
static void signal_to(const struct run *run, uint32_t first, uint32_t last)
{
    const struct bench *b = run->bench;
    char now = 1;
    for (uint32_t e = first; e < last && bench_is_consumer(b); e++)
        channel_send(b->roster.comm, run->engine[e].rank, &now, sizeof now);
    if (run->own >= (int)first && run->own < (int)last)
        channel_receive(b->roster.comm, b->consumer, &now, sizeof now, CHANNEL_ASLEEP);
}

/* The consumer waits here until all engines have come. */
static void finish(const struct run *run)
{
    const struct bench *b = run->bench;
    char done = 1;
    for (uint32_t e = 0; e < run->num_engines && bench_is_consumer(b); e++)
        channel_receive(b->roster.comm, run->engine[e].rank, &done, sizeof done, CHANNEL_ASLEEP);
    if (run->own >= 0)
        channel_send(b->roster.comm, b->consumer, &done, sizeof done);
}

/* ---- a producer -------------------------------------------------------------------------------------------------- */

static uint32_t offer_all(struct run *run, const struct phase *p, uint32_t smalls, uint32_t bigs)
{
    char key[BATON_KEY_MAX];
    uint32_t n = 0;
    for (uint32_t i = (uint32_t)run->own; i < smalls; i += p->small_engines) {
        key_of(run, "small", i, key);
        small_source(run, run->serial, i, p->batch, run->ids);
        run->offered[n++] = context_offer(&run->context, key, run->ids, p->batch, 0);
    }
    for (uint32_t i = 0; i < bigs; i++) {
        key_of(run, "big", i, key);
        big_blocks(run, &run->source, 0, i);
        run->offered[n++] = context_offer(&run->context, key, run->ids, run->big, 0);
    }
    return n;
}

static void stop_myself(void)
{
    halt_begin();
    if (raise(SIGSTOP) != 0)
        fail("cannot stop: %s", strerror(errno));
    halt_end();
}

/* Offers that were not wanted are cancelled in the end. The others end by themselves. */
static void produce(struct run *run, const struct phase *p, uint32_t bigs)
{
    const uint32_t own = (uint32_t)run->own, from = run->num_engines - p->stopped;
    signal_to(run, 0, run->num_engines);
    const bool loads = own >= p->first && own < p->last;
    const uint32_t n = offer_all(run, p, own < p->small_engines ? SMALL_A_PHASE : 0, loads ? bigs : 0);
    finish(run);
    if (own >= from) {
        signal_to(run, from, run->num_engines);
        stop_myself();
    }
    signal_to(run, 0, run->num_engines);
    context_end_offers(&run->context, run->offered, n);
    finish(run);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static baton_id_t want(struct run *run, uint32_t engine, const char *key, uint32_t blocks, void *user)
{
    return context_want(&run->context, run->engine[engine].name, key, run->ids, blocks, BATON_MODE_PULL, user);
}

static void want_big(struct run *run, struct slot *slot)
{
    char key[BATON_KEY_MAX];
    uint32_t engine = (uint32_t)(slot - run->slot) / DEPTH;
    if (slot->next >= run->bigs)
        return;
    key_of(run, "big", slot->next, key);
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
    if (!context_await(&run->context, event, CONTEXT_PATIENCE_MS))
        fail("no event for %u ms", CONTEXT_PATIENCE_MS);
    return count_event(run, more, event);
}

/* Takes the events that have come meanwhile. No big wants follow them. */
static void take_big_events(struct run *run)
{
    baton_event_t event;
    while (run->open > 0 && context_await(&run->context, &event, 0))
        count_event(run, false, &event);
}

static void want_small(struct run *run, uint32_t engine, uint32_t i, uint32_t batch, struct samples *out)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    for (uint32_t k = 0; k < batch; k++)
        run->ids[k] = run->num_engines * DEPTH * run->big + 2 * k;
    key_of(run, "small", i, key);
    uint64_t begin = clock_now_ns();
    want(run, engine, key, batch, NULL);
    while (!take_event(run, true, &event))
        continue;
    samples_add(out, clock_now_ns() - begin);
    run->path = context_path(&event);
    for (uint32_t k = 0; k < batch; k++)
        run->ids[k] = run->num_engines * DEPTH * run->big + 2 * k; /* big wants have followed meanwhile */
    small_source(run, run->serial, i, batch, run->from);
    if (!blocks_check(&run->cache, 0, run->from, run->ids, batch, false, key))
        run->bench->status = 1;
    blocks_poison(&run->cache, run->ids, batch);
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
    signal_to(run, run->num_engines - stopped, run->num_engines);
    uint64_t end = clock_now_ns() + CONTEXT_PATIENCE_MS * CLOCK_NS_PER_MS;
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

static void consume(struct run *run, const struct phase *p, struct samples *out)
{
    const bool loads = p->last > p->first;
    baton_event_t event;
    signal_to(run, 0, run->num_engines);
    finish(run);
    for (uint32_t i = 0; i < run->num_engines * DEPTH; i++) {
        run->slot[i] = (struct slot){.next = i % DEPTH};
        if (i / DEPTH >= p->first && i / DEPTH < p->last)
            want_big(run, &run->slot[i]);
    }
    if (run->open > 0)
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_US * 1000}, NULL);
    if (p->stopped > 0)
        stop_engines(run, p->stopped);
    for (uint32_t i = 0; i < SMALL_A_PHASE && (!loads || run->open > 0); i++)
        want_small(run, i % p->small_engines, i, p->batch, out);
    continue_engines(run, p->stopped);
    for (uint32_t i = 0; i < run->num_engines * DEPTH; i++)
        if (run->slot[i].open)
            fail_on(baton_cancel(run->context.baton, run->slot[i].id), "baton_cancel");
    while (run->open > 0)
        take_event(run, false, &event);
    signal_to(run, 0, run->num_engines);
    finish(run);
}

static void run_phase(struct run *run, const struct phase *p, struct samples *out)
{
    run->serial++;
    if (bench_is_consumer(run->bench))
        consume(run, p, out);
    else if (run->own >= 0)
        produce(run, p, run->bigs);
}

/* One big want of the first engine, alone. */
static void move_one(struct run *run, struct samples *out)
{
    static const struct phase alone = {.last = 1, .small_engines = 0};
    baton_event_t event;
    run->serial++;
    if (run->own >= 0)
        produce(run, &alone, 1);
    if (!bench_is_consumer(run->bench))
        return;
    signal_to(run, 0, run->num_engines);
    finish(run);
    run->slot[0] = (struct slot){.next = 0};
    const uint64_t begin = clock_now_ns();
    want_big(run, &run->slot[0]);
    take_event(run, false, &event);
    samples_add(out, clock_now_ns() - begin);
    signal_to(run, 0, run->num_engines);
    finish(run);
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

static void print(struct run *run, enum behind behind, uint32_t batch, uint32_t competing, struct samples *s)
{
    struct report *r = &run->bench->report;
    struct samples *alone = &s[0], *behind_it = &s[1];
    const double alone_90 = samples_us(alone, 0.9), us_90 = samples_us(behind_it, 0.9);
    const double big_bytes = (double)run->big * (double)run->block_bytes;
    const double ns_a_byte = (double)samples_quantile(&s[2], 0.5) / big_bytes;
    const struct settings *set = &run->settings;
    const double in_flight = (double)(path_is_far(run->path) ? set->rma_bytes : set->copy_bytes * set->copy_workers);
    const double ahead = in_flight + competing * (double)set->chunk_bytes;
    const double bound = behind == STOPPED ? 2 * alone_90 : 3 * alone_90 + ahead * ns_a_byte / 1e3;
    report_row(r,
               "path=%s|behind=%s|block_bytes=%" PRIu64 "|batch=%" PRIu32
               "|alone_us_p50=%.1f|alone_us_p90=%.1f|us_p50=%.1f|us_p90=%.1f|ratio_p90=%.2f|bound_us=%.1f|within=%s",
               bench_path_name(run->path), behind_names[behind], run->block_bytes, batch, samples_us(alone, 0.5),
               alone_90, samples_us(behind_it, 0.5), us_90, us_90 / alone_90, bound, us_90 <= bound ? "yes" : "no");
    report_note(r, "  %zu small wants alone, %zu behind %" PRIu32 " big ones of %.0f MiB, which alone move %.2f GB/s",
                alone->count, behind_it->count, competing, big_bytes / (1 << 20), 1 / ns_a_byte);
}

static void run_row(struct run *run, enum behind behind, uint32_t batch)
{
    const uint32_t stopped = behind == STOPPED ? run->bench->options.stop_engines : 0,
                   awake = run->num_engines - stopped;
    const struct phase loaded = {.batch = batch,
                                 .small_engines = behind == STOPPED ? awake : 1,
                                 .first = behind == STOPPED ? awake : behind == OTHERS,
                                 .last = behind == SAME ? 1 : run->num_engines,
                                 .stopped = stopped},
                       alone = {.batch = batch, .small_engines = loaded.small_engines};
    struct phase warm = loaded;
    struct samples s[3] = {{0}}, ignored = {0};
    struct pace pace;
    warm.stopped = 0;
    run_phase(run, &alone, &ignored);
    run_phase(run, &warm, &ignored);
    pace_begin(&pace, run->bench, ROUNDS_LEAST, ROUNDS_MOST, "%" PRIu64 " x %" PRIu32 ", behind %s", run->block_bytes,
               batch, behind_names[behind]);
    while (pace_next(&pace)) {
        move_one(run, &s[2]);
        run_phase(run, &alone, &s[0]);
        run_phase(run, &loaded, &s[1]);
    }
    if (bench_is_consumer(run->bench) && s[1].count == 0)
        fail("all big wants had ended before the small ones were called: make --pool or --load larger");
    print(run, behind, batch, (loaded.last - loaded.first) * DEPTH, s);
    for (unsigned i = 0; i < 3; i++)
        samples_fini(&s[i]);
    samples_fini(&ignored);
}

static void run_rows(struct run *run)
{
    const struct options *o = &run->bench->options;
    for (unsigned i = 0; i < o->batch.count; i++) {
        const uint32_t batch = (uint32_t)o->batch.value[i];
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
    const bool consumes = bench_is_consumer(run->bench);
    blocks_describe_plain(&run->cache, 1, block_bytes,
                          consumes ? run->num_engines * DEPTH * run->big + 2 * run->max_batch : DEPTH * run->big);
    context_open(run->bench, &run->context, &run->bench->roster.ranks[run->bench->roster.rank],
                 consumes || run->own >= 0 ? &run->cache : NULL, NULL);
    run->ids = room(run->big, sizeof *run->ids);
    run->from = room(run->max_batch, sizeof *run->from);
    run->slot = room(run->num_engines * DEPTH, sizeof *run->slot);
    run->offered = room(SMALL_A_PHASE + run->bigs, sizeof *run->offered);
    walk_init(&run->source, run->big, &seed);
    walk_init(&run->target, run->big, &seed);
    walk_init(&run->order, DEPTH * run->big, &seed);
    if (run->own >= 0)
        blocks_fill(&run->cache, 0);
    channel_barrier(run->bench->roster.comm);
}

static void close_run(struct run *run)
{
    channel_barrier(run->bench->roster.comm);
    context_close(run->bench, &run->context);
    blocks_fini(&run->cache);
    walk_fini(&run->source);
    walk_fini(&run->target);
    walk_fini(&run->order);
    free(run->ids);
    free(run->from);
    free(run->slot);
    free(run->offered);
}

void fairness_run(struct bench *b)
{
    const struct options *o = &b->options;
    struct run run = {.bench = b, .pool = o->pool ? o->pool : POOL, .max_batch = (uint32_t)option_list_most(&o->batch)};
    fail_on(settings_read(&run.settings, environ), "settings");
    find_engines(&run);
    if (o->stop_engines >= run.num_engines)
        fail("--stop-engines %" PRIu32 ": only %" PRIu32 " prefill engines of one rank run", o->stop_engines,
             run.num_engines);
    for (uint32_t e = run.num_engines - o->stop_engines; e < run.num_engines; e++)
        if (!run.engine[e].near)
            fail("--stop-engines: engine %s runs on another host than the decode rank", run.engine[e].name);
    for (unsigned i = 0; i < o->block.count; i++) {
        open_run(&run, o->block.value[i]);
        if (i == 0 && b->report.active) {
            context_note(b, &run.context);
            report_note(&b->report, "microseconds from the call of baton_want to its event; bound: %s",
                        o->stop_engines > 0
                            ? "2 x alone p90"
                            : "3 x alone p90, and the time of all that may be in flight over the path (rma_bytes, "
                              "copy_bytes a worker) and of one chunk_bytes a big want");
        }
        run_rows(&run);
        close_run(&run);
    }
    free(run.engine);
}
