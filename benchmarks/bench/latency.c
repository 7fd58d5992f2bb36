/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency: how long one transfer takes, from before a call to after the event of the want, in percentiles, beside the
 * limit of its path. --from says which calls have rows:
 *
 *   want        baton_want, of what is on offer
 *   offer       baton_offer, of what is wanted already
 *   ready       baton_ready of the second of two layers, for a want whose first layer has been moved. A block has
 *               block_bytes in each layer, so that batch * block_bytes move in the time
 *
 * A time from a call of the producer's begins by its clock and ends by the consumer's. It is CLOCK_MONOTONIC, which is
 * one clock on one host only: between hosts such rows are left out. With --verdicts all times end with the verdict on
 * the want. Each (call, block size, batch) has a row for each state of the two engines:
 *
 *   asleep      all threads of Baton sleep before the call, its caller too, and whoever takes the event sleeps on the
 *               event descriptor
 *   polled      the same, but the caller is awake before the call, and baton_poll is called until the event is there
 *   streak      as polled, but each rest is followed by 33 transfers, one at once after the other, whose offers were
 *               made before: what Baton takes where the processor's caches hold what it needs. The first, which is one
 *               of polled, is left out. Only from want, and without verdicts
 *   spinning    the reactors never sleep (the tunable spin_us), and baton_poll is called until the event is there
 *   busy        as asleep, and a thread of each rank computes
 *
 * Between nodes, ask_and_read_us is what a pull has to do at least, by MPI alone: a message to the producer and its
 * answer, then MPI_Get and a flush, both ranks inside MPI. Nobody sleeps in it. Rows from baton_want have it.
 *
 * With --busy, a thread of each rank computes in the other states. Transfers and the limit alternate. Blocks are fresh
 * and scattered, as in pull.
 *
 * submit: what baton_want costs the thread that calls it, while the reactor is at rest, so that the cost of waking it
 * counts. The caller overwrites its block table as soon as the call has returned. The bytes must still arrive in the
 * right blocks: this is checked briefly after every transfer, and byte by byte after the last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/fail.h"
#include "bench/limit.h"
#include "bench/pace.h"
#include "bench/stream.h"

#define POOL_LEAST (UINT64_C(128) << 20)
#define REST_NS 500000L /* a reactor spins for 20 us (spin_us), then sleeps */
#define ITERS_LEAST 20u
#define ITERS_MOST 2000u /* so that two samples lie above the last percentile */
#define WARM_UPS 20u
#define SUBMIT_ITERS_MOST 1000u
#define SUBMIT_WARM_UPS 10u
#define PLACE_MAX 64

/* Processes with the same one have one CLOCK_MONOTONIC: what the kernel calls its boot, and the namespace of times. */
struct clock_place {
    char boot[PLACE_MAX], space[PLACE_MAX];
};

/* What the rows of one context have in common. */
struct part {
    uint64_t block_bytes;
    enum bench_state state;
    unsigned from;               /* bits, as in the options */
    bool notes;                  /* the first one of the report */
    const char *tune, *spinning; /* BATON_TUNE, and with reactors that spin; NULL: not set */
};

struct row {
    enum bench_state state;
    enum bench_from from;
    uint32_t batch;
    uint64_t early; /* transfers that are left out */
    struct transfers transfers;
    struct samples asked;
    char name[PLACE_MAX]; /* "4096 x 1, asleep, from want" */
};

static void ask_and_read(struct limit *l, struct row *row, bool counts)
{
    const uint64_t ns = row->from == FROM_WANT ? limit_ask_and_read(l, row->batch) : 0;
    if (counts && ns > 0)
        samples_add(&row->asked, ns);
}

static void take_turn(struct scene *s, struct limit *l, struct row *row, bool counts)
{
    struct transfer t;
    scene_move(s, row->batch, false, &t);
    limit_measure(l, row->batch);
    ask_and_read(l, row, counts);
    scene_check_path(s, &t, l->path);
    row->early += counts && t.is_early;
    if (counts && !t.is_early)
        transfers_add(&row->transfers, &t, row->batch * s->form.block_bytes);
}

static void take_streak(struct scene *s, struct limit *l, struct row *row, bool counts)
{
    stream_take(s, row->batch, l->path, counts ? &row->transfers : NULL);
    for (unsigned i = 0; i < STREAM_STREAK; i++)
        limit_measure(l, row->batch);
    ask_and_read(l, row, counts);
}

static void measure(struct scene *s, struct limit *l, struct row *row)
{
    struct pace pace;
    const bool streaks = row->state == STATE_STREAK;
    void (*take)(struct scene *, struct limit *, struct row *, bool) = streaks ? take_streak : take_turn;
    s->from = row->from;
    s->rest_ns = REST_NS;
    s->context.polls = s->consumes && (row->state == STATE_POLLED || row->state == STATE_SPINNING || streaks);
    s->is_awake = row->state == STATE_POLLED || streaks;
    snprintf(row->name, sizeof row->name, "%" PRIu64 " x %" PRIu32 ", %s, from %s", s->form.block_bytes, row->batch,
             options_state_name(row->state), options_from_name(row->from));
    ways_reset(&l->ways);
    for (unsigned i = 0; i < (streaks ? 1 : WARM_UPS); i++)
        take(s, l, row, false);
    ways_reset(&l->ways);
    pace_begin(&pace, s->bench, ITERS_LEAST, ITERS_MOST, "%s", row->name);
    while (pace_next(&pace))
        take(s, l, row, true);
    scene_verify(s, row->batch, false);
    if (s->consumes && row->transfers.total.count == 0)
        fail("none of %" PRIu64 " wants waited for its offer", row->early);
}

static void print(const struct scene *s, struct limit *l, struct row *row)
{
    struct bench *b = s->bench;
    struct samples *total = &row->transfers.total;
    const char *way;
    const double limit = (double)limit_best_ns(l, &way), ns = (double)samples_quantile(total, 0.5);
    report_row(&b->report,
               "path=%s|state=%s|from=%s|to=%s|block_bytes=%" PRIu64 "|batch=%" PRIu32
               "|samples=%zu|held_us=%.2f|us_p50=%.1f|us_p90=%.1f|us_p99=%.1f|us_p999=%.1f|limit_us=%.2f|times=%.2f"
               "|ask_and_read_us=%.1f" COST_COLUMNS,
               bench_path_name(l->path), options_state_name(row->state), options_from_name(row->from),
               b->options.latency.verdicts ? "verdict" : "event", s->form.block_bytes, row->batch, total->count,
               samples_us(&row->transfers.submit, 0.5), ns / 1e3, samples_us(total, 0.9), samples_us(total, 0.99),
               samples_us(total, 0.999), limit / 1e3, limit > 0 ? ns / limit : 0.0, samples_us(&row->asked, 0.5),
               COST_CELLS(&row->transfers.cost, ns, row->batch));
    report_osu(&b->report, "Latency (us)", s->form.block_bytes, ns / 1e3);
    if (row->early > 0)
        report_note(&b->report, "  %s: %" PRIu64 " transfers left out: their wants did not wait for the offer",
                    row->name, row->early);
    report_note(&b->report, "  %s: %zu transfers; limit by %s, %zu samples", row->name, total->count, way,
                ways_count(&l->ways));
}

static void run_row(struct scene *s, struct limit *l, struct row row)
{
    measure(s, l, &row);
    print(s, l, &row);
    transfers_fini(&row.transfers);
    samples_fini(&row.asked);
}

static void run_rows(struct scene *s, struct limit *l, const struct part *p)
{
    const struct option_list *batch = &s->bench->options.batch;
    for (enum bench_from from = FROM_WANT; from < FROM_CALLS; from++)
        for (unsigned i = 0; i < batch->count && (p->from >> from & 1) != 0; i++)
            run_row(s, l, (struct row){.state = p->state, .from = from, .batch = (uint32_t)batch->value[i]});
}

/* Each state has contexts of its own: one whose event descriptor was asked for writes it at each event. */
static void run_part(struct bench *b, uint32_t num_layers, const struct part *p)
{
    const struct options *o = &b->options;
    struct scene scene;
    struct limit limit;
    context_set("BATON_TUNE", p->state == STATE_SPINNING ? p->spinning : p->tune);
    b->busy.wanted = o->busy || p->state == STATE_BUSY;
    scene_open(b, &scene,
               &(struct scene_form){.memory = o->latency.memory,
                                    .num_layers = num_layers,
                                    .block_bytes = p->block_bytes,
                                    .num_blocks = blocks_pool_blocks(o, POOL_LEAST, num_layers * p->block_bytes),
                                    .max_batch = (uint32_t)option_list_most(&o->batch)});
    limit_open(&limit, &scene);
    if (p->notes) {
        context_note(b, &scene.context);
        limit_note(&limit);
    }
    run_rows(&scene, &limit, p);
    limit_close(&limit);
    scene_close(&scene);
    context_set("BATON_TUNE", p->tune);
}

/* The second layer has contexts of its own. */
static void run_state(struct bench *b, struct part p)
{
    if (p.state == STATE_STREAK)
        p.from &= 1u << FROM_WANT;
    const unsigned layers = p.from & (1u << FROM_READY);
    p.from &= ~layers;
    if (p.from != 0)
        run_part(b, 1, &p);
    p.notes = p.notes && p.from == 0;
    p.from = layers;
    if (p.from != 0)
        run_part(b, 2, &p);
}

/* With --busy, a sleeping engine is a busy one. In a streak nobody takes verdicts. */
static bool is_measured(const struct options *o, enum bench_state state)
{
    if (state == STATE_STREAK && o->latency.verdicts)
        return false;
    return o->latency.state == state || (o->latency.state == STATE_ALL && !(o->busy && state == STATE_BUSY));
}

/* What cannot be read stays empty. */
static void read_clock_place(struct clock_place *out)
{
    *out = (struct clock_place){0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL && fgets(out->boot, sizeof out->boot, file) == NULL)
        out->boot[0] = '\0';
    if (file != NULL)
        fclose(file);
    if (readlink("/proc/self/ns/time", out->space, sizeof out->space - 1) < 0)
        out->space[0] = '\0';
}

/* Collective: whether the producer's clock is the consumer's. */
static bool has_one_clock(struct bench *b)
{
    struct clock_place own, producer;
    int is_one = 0;
    read_clock_place(&own);
    if (bench_is_producer(b))
        channel_send(b->roster.comm, b->consumer, &own, sizeof own);
    if (bench_is_consumer(b)) {
        channel_receive(b->roster.comm, b->producer, &producer, sizeof producer, CHANNEL_ASLEEP);
        is_one = own.boot[0] != '\0' && memcmp(&own, &producer, sizeof own) == 0;
    }
    channel_share(b->roster.comm, b->consumer, &is_one, sizeof is_one);
    return is_one;
}

/* Collective: the calls that can be timed between these two ranks. */
static unsigned calls_of(struct bench *b)
{
    const unsigned from = b->options.latency.from, producers = from & ~(1u << FROM_WANT);
    if (producers == 0 || has_one_clock(b))
        return from;
    report_note(&b->report,
                "no rows from offer and ready: they begin by the clock of rank %d and end by that of rank %d,"
                " which are not one clock, since these two ranks are on two hosts or in two namespaces of time",
                b->producer, b->consumer);
    return from & ~producers;
}

void latency_run(struct bench *b)
{
    const struct options *o = &b->options;
    const char *given = getenv("BATON_TUNE");
    char *tune = given != NULL ? strdup(given) : NULL, *spinning = options_tuned(given, "spin_us=1000000");
    if (spinning == NULL)
        fail("out of memory");
    unsigned notes = 0;
    const unsigned from = calls_of(b);
    for (unsigned i = 0; i < o->block.count; i++)
        for (enum bench_state state = STATE_ASLEEP; state < STATE_ALL; state++)
            if (is_measured(o, state))
                run_state(b, (struct part){.block_bytes = o->block.value[i],
                                           .state = state,
                                           .from = from,
                                           .notes = notes++ == 0,
                                           .tune = tune,
                                           .spinning = spinning});
    free(tune);
    free(spinning);
}

/* ---- submit ------------------------------------------------------------------------------------------------------ */

static void run_submits(struct scene *s, uint32_t batch)
{
    struct bench *b = s->bench;
    struct transfer t;
    struct transfers row = {0};
    struct pace pace;
    for (unsigned i = 0; i < SUBMIT_WARM_UPS; i++)
        scene_move(s, batch, true, &t);
    pace_begin(&pace, b, 1, SUBMIT_ITERS_MOST, "%" PRIu32 " blocks of %" PRIu64, batch, s->form.block_bytes);
    while (pace_next(&pace)) {
        scene_move(s, batch, true, &t);
        scene_glance(s, batch);
        transfers_add(&row, &t, 0);
    }
    scene_verify(s, batch, true);
    report_row(&b->report, "blocks=%" PRIu32 "|us_p50=%.3f|us_p99=%.3f", batch, samples_us(&row.submit, 0.5),
               samples_us(&row.submit, 0.99));
    report_note(&b->report, "  %" PRIu32 " blocks of %" PRIu64 " bytes: %zu calls, the most %.3f us", batch,
                s->form.block_bytes, row.submit.count, samples_us(&row.submit, 1));
    transfers_fini(&row);
}

void submit_run(struct bench *b)
{
    const struct options *o = &b->options;
    const uint32_t most = (uint32_t)option_list_most(&o->batch);
    for (unsigned i = 0; i < o->block.count; i++) {
        struct scene scene;
        scene_open(b, &scene,
                   &(struct scene_form){.block_bytes = o->block.value[i], .num_blocks = 4 * most, .max_batch = most});
        if (i == 0)
            context_note(b, &scene.context);
        for (unsigned j = 0; j < o->batch.count; j++)
            run_submits(&scene, (uint32_t)o->batch.value[j]);
        scene_close(&scene);
    }
}
