/* SPDX-License-Identifier: BSD-3-Clause */
/* measure: see measure.h. It looks inside Baton for one thing: the producer's pool, from which the limit copies. */
#include "engine/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "bench/samples.h"
#include "bench/scatter.h"
#include "front/inside.h"
#include "replay/clock.h"

#define BLOCKS 2048 /* of each rank: more than a processor's cache holds */
#define HANDOFFS 60
#define PAUSE_MS 15 /* before each, so that both ranks sleep */
#define HANDOFF_TOKENS 1024
#define RUNNING 8        /* requests that decode */
#define CONTEXT 512      /* tokens that each of them has */
#define STEPS 8          /* of a phase */
#define ALLOWED_US 300   /* beside 1.5 times the copy */
#define ALLOWED_SLOWER 5 /* per cent */
#define SCALE 8          /* so that the made requests are longer than CONTEXT */

struct measure {
    struct serve *serve;
    struct request *requests;
    uint32_t *blocks; /* of the transfer under way */
    uint32_t num_blocks, count, next;
    struct walk walk; /* over blocks behind those of the running requests */
    uint32_t reserved;
    struct carrier carrier;
    struct copies copies;
    struct ways ways; /* of copying */
};

void measure_options(struct options *o)
{
    o->trace = NULL;
    o->requests = HANDOFFS + o->measure * (STEPS + 1);
    o->scale = SCALE;
    o->cache[SIDE_PREFILL].layout = o->cache[SIDE_DECODE].layout = 0;
    o->cache[SIDE_DECODE].block_tokens = o->cache[SIDE_PREFILL].block_tokens;
    o->cache[SIDE_PREFILL].blocks = o->cache[SIDE_DECODE].blocks = BLOCKS;
}

static int measure_init(struct measure *m, struct serve *s, struct why *why)
{
    const struct pages *p = &s->glue.pages;
    const uint32_t running = (CONTEXT + p->block_tokens - 1) / p->block_tokens * RUNNING;
    const uint32_t each = HANDOFF_TOKENS / p->block_tokens;
    uint64_t seed = 1;
    *m = (struct measure){.serve = s, .num_blocks = each, .reserved = running, .carrier = glue_carrier(&s->glue)};
    if (s->mates.size != 1 || s->glue.num_engines[0] != 1 || s->glue.num_engines[1] != 1 || !s->glue.one_machine)
        return why_set(why, "--measure needs one rank for each side, on one machine: --prefill 1x1 --decode 1x1");
    if (each == 0 || running + 2 * each > p->num_blocks)
        return why_set(why, "--measure takes --block-tokens from 8 to 64");
    m->count = s->load->count;
    m->requests = room(m->count, sizeof *m->requests);
    m->blocks = room(2 * (size_t)each, sizeof *m->blocks);
    walk_init(&m->walk, p->num_blocks - running, &seed);
    return 0;
}

static void measure_fini(struct measure *m)
{
    free(m->requests);
    free(m->blocks);
    walk_fini(&m->walk);
    copies_fini(&m->copies);
    ways_reset(&m->ways);
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

static void draw(struct measure *m, uint64_t place, uint32_t *out)
{
    walk_draw(&m->walk, place * m->num_blocks, m->num_blocks, out);
    for (uint32_t i = 0; i < m->num_blocks; i++)
        out[i] += m->reserved;
}

static struct request *begin(struct measure *m)
{
    struct request *r = &m->requests[m->next];
    *r = (struct request){.index = m->next++, .blocks = m->blocks, .num_blocks = m->num_blocks};
    r->in.until = r->out.until = HANDOFF_TOKENS;
    draw(m, r->index, m->blocks);
    return r;
}

/* Sleeps until the transfer has ended. */
static int sleep_until(struct measure *m, const struct transfer *t, struct why *why)
{
    while (t->mine == OUTCOME_OPEN) {
        glue_wait(&m->serve->glue, 1000);
        glue_poll(&m->serve->glue);
    }
    return t->mine == OUTCOME_DONE ? 0 : why_set(why, "a transfer failed");
}

static void offer(struct measure *m, struct request *r)
{
    const uint64_t now_ns = clock_ns();
    m->carrier.give(m->carrier.self, r, false, false, &now_ns, sizeof now_ns);
}

static int produce(struct measure *m, struct why *why)
{
    int rc = 0;
    while (rc == 0 && m->next < HANDOFFS) {
        struct request *r = begin(m);
        clock_sleep_ns(PAUSE_MS * NS_PER_MS);
        offer(m, r);
        rc = sleep_until(m, &r->out, why);
    }
    while (rc == 0 && m->next < m->count)
        offer(m, begin(m));
    for (uint32_t i = HANDOFFS; rc == 0 && i < m->count; i++)
        rc = sleep_until(m, &m->requests[i].out, why);
    return rc;
}

/* ---- the hand-off ------------------------------------------------------------------------------------------------ */

/* The same pieces as a hand-off has: a block of each layer and plane is one. */
static void copy(struct measure *m, uint64_t place)
{
    const struct pages *p = &m->serve->glue.pages;
    uint32_t *from = m->blocks, *to = m->blocks + m->num_blocks, n = 0;
    draw(m, place, from);
    draw(m, place + 7, to);
    for (uint32_t l = 0; l < p->num_layers; l++)
        for (unsigned plane = PLANE_KEY; plane <= PLANE_VALUE; plane++)
            for (uint32_t b = 0; b < m->num_blocks; b++) {
                const uint64_t offset = (uint64_t)(p->layer[l] - p->layer[0]) + plane * (uint64_t)p->plane;
                m->copies.runs[n++] = (struct plan_run){.src = offset + from[b] * (uint64_t)p->block,
                                                        .dst = offset + to[b] * (uint64_t)p->block,
                                                        .bytes = (uint64_t)p->head * p->num_heads};
            }
    const unsigned way = ways_next(&m->ways);
    samples_add(&m->ways.of[way], copies_run(&m->copies, way, n));
}

static uint64_t handoff_bytes(const struct measure *m)
{
    const struct pages *p = &m->serve->glue.pages;
    return 2 * (uint64_t)p->num_layers * m->num_blocks * (uint64_t)p->head * p->num_heads;
}

static int measure_handoff(struct measure *m, bool *within, struct why *why)
{
    struct samples handed = {0};
    uint64_t offered_ns;
    unsigned way = 0;
    int rc = 0;
    while (rc == 0 && m->next < HANDOFFS) {
        struct request *r = begin(m);
        m->carrier.take(m->carrier.self, r, false);
        rc = sleep_until(m, &r->in, why);
        memcpy(&offered_ns, r->in.attach, sizeof offered_ns);
        if (rc != 0)
            break;
        samples_add(&handed, r->in.ended_ns - offered_ns);
        copy(m, 3 * (uint64_t)m->next);
    }
    const double limit_us = (double)ways_best_ns(&m->ways, &way) / 1e3, bound_us = 1.5 * limit_us + ALLOWED_US;
    const double handed_us = samples_us(&handed, 0.5);
    *within = handed_us <= bound_us;
    if (rc == 0)
        printf("hand-off               p50 %.0f us, p90 %.0f us for %.2f MB, both engines asleep; 1.5 x %.0f us (%s) + "
               "%d us = %.0f us\n",
               handed_us, samples_us(&handed, 0.9), (double)handoff_bytes(m) / 1e6, limit_us,
               copies_way_name(&m->copies, way), ALLOWED_US, bound_us);
    samples_fini(&handed);
    return rc;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Requests whose keys and values are in place, but for their last token. */
static void fill_running(struct measure *m, uint32_t *tables)
{
    struct batch *b = &m->serve->batch;
    for (uint32_t i = 0; i < m->reserved; i++)
        tables[i] = i;
    for (uint32_t i = 0; i < RUNNING; i++)
        for (uint32_t at = 0; at + 1 < CONTEXT;) {
            batch_clear(b);
            for (; at + 1 < CONTEXT && b->count < b->room; at++)
                batch_add(b, (struct batch_token){(i + at) % m->serve->options->shape.vocab, at,
                                                  tables + i * (m->reserved / RUNNING), false});
            llama_step(&m->serve->llama, b, NULL, NULL);
        }
    batch_clear(b);
    for (uint32_t i = 0; i < RUNNING; i++)
        batch_add(b, (struct batch_token){i, CONTEXT - 1, tables + i * (m->reserved / RUNNING), true});
}

/* The same steps again and again. While blocks arrive, the next want follows the step in which the last one was
   done. */
static int run_phase(struct measure *m, bool arriving, uint64_t *ns, uint64_t *arrived, struct why *why)
{
    struct request *r = NULL;
    const uint64_t begun_ns = clock_ns();
    for (unsigned step = 0; step < STEPS; step++) {
        glue_poll(&m->serve->glue);
        if (arriving && (r == NULL || r->in.mine != OUTCOME_OPEN)) {
            r = begin(m);
            m->carrier.take(m->carrier.self, r, false);
            *arrived += handoff_bytes(m);
        }
        llama_step(&m->serve->llama, &m->serve->batch, NULL, NULL);
    }
    *ns = clock_ns() - begun_ns;
    return r != NULL ? sleep_until(m, &r->in, why) : 0;
}

static int measure_decoding(struct measure *m, bool *within, struct why *why)
{
    const uint32_t pairs = m->serve->options->measure;
    struct samples ratios = {0}, steps = {0};
    uint64_t ns[2] = {0}, arrived = 0, all_ns = 0;
    uint32_t *tables = room(m->reserved, sizeof *tables);
    int rc = 0;
    fill_running(m, tables);
    for (uint32_t pair = 0; pair < pairs && rc == 0; pair++) {
        const unsigned first = pair % 2;
        rc = run_phase(m, first != 0, &ns[first], &arrived, why);
        if (rc == 0)
            rc = run_phase(m, first == 0, &ns[!first], &arrived, why);
        if (rc == 0) {
            samples_add(&ratios, ns[1] * 1000000 / ns[0]);
            samples_add(&steps, ns[0] / STEPS);
        }
        all_ns += ns[1];
    }
    const double slower = (double)samples_quantile(&ratios, 0.5) / 1e4 - 100;
    *within = slower <= ALLOWED_SLOWER;
    if (rc == 0)
        printf("decoding               %.1f %% slower while %.2f GB/s arrive; %d %% are allowed (p50 of %u pairs of %d "
               "steps, %.3f ms a step)\n",
               slower, (double)arrived / (double)all_ns, ALLOWED_SLOWER, pairs, STEPS, samples_us(&steps, 0.5) / 1e3);
    samples_fini(&ratios);
    samples_fini(&steps);
    free(tables);
    return rc;
}

/* Wants that the phases had no time for: the producer need not keep those offers until they expire. */
static int take_rest(struct measure *m, struct why *why)
{
    int rc = 0;
    while (rc == 0 && m->next < m->count) {
        struct request *r = begin(m);
        m->carrier.take(m->carrier.self, r, false);
        rc = sleep_until(m, &r->in, why);
    }
    return rc;
}

static int consume(struct measure *m, struct why *why)
{
    const struct glue *g = &m->serve->glue;
    const struct pages *p = &g->pages;
    bool handoff_within = false, decoding_within = false;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *pool = baton_inside_peer_pool(g->baton, rank == 0 ? 1 : 0);
    copies_init(&m->copies, pool != NULL ? pool : p->layer[0], 0, g->geometry.bytes, p->layer[0],
                2 * p->num_layers * m->num_blocks);
    m->ways.num = copies_ways(&m->copies);
    if (measure_handoff(m, &handoff_within, why) != 0 || measure_decoding(m, &decoding_within, why) != 0 ||
        take_rest(m, why) != 0)
        return -1;
    printf("hand-off %s, decoding %s\n", handoff_within ? "within its bound" : "above its bound",
           decoding_within ? "within its bound" : "above its bound");
    return 0;
}

int measure_run(struct serve *s, struct why *why)
{
    struct measure m;
    int rc = measure_init(&m, s, why);
    if (rc == 0)
        rc = glue_side(&s->glue) == SIDE_PREFILL ? produce(&m, why) : consume(&m, why);
    measure_fini(&m);
    return rc;
}
