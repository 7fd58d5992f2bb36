/* SPDX-License-Identifier: BSD-3-Clause */
/* report: the table. Each phase has a column. If there are two, a third column has the busy phase's times over the idle
   one's. */
#include "replay/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/cut.h"
#include "replay/clock.h"

#define CELL 24

static double rate(uint64_t bytes, uint64_t ns)
{
    return ns == 0 ? 0 : (double)bytes / (double)ns;
}

double report_ratio(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

double report_gb_per_s(const struct result_phase *p)
{
    return rate(p->tally.payload_bytes, p->wall_ns);
}

static void write_time(uint64_t ns, char *cell)
{
    if (ns < 10 * NS_PER_MS)
        snprintf(cell, CELL, "%.1f us", (double)ns / 1e3);
    else
        snprintf(cell, CELL, "%.2f ms", (double)ns / 1e6);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A row of `r`, whose cells are formed of `p`, a phase. */
#define ROW(label, ...)                                                                                                \
    do {                                                                                                               \
        printf("  %-34s", label);                                                                                      \
        for (const struct result_phase *p = r->phases; p < r->phases + r->num_phases; p++) {                           \
            char cell[CELL];                                                                                           \
            snprintf(cell, sizeof cell, __VA_ARGS__);                                                                  \
            printf(" %16s", cell);                                                                                     \
        }                                                                                                              \
        putchar('\n');                                                                                                 \
    } while (0)

static void time_row(const struct result *r, const char *label, uint64_t idle_ns, uint64_t busy_ns)
{
    char cell[CELL];
    write_time(idle_ns, cell);
    printf("  %-34s %16s", label, cell);
    if (r->num_phases > 1) {
        write_time(busy_ns, cell);
        printf(" %16s", cell);
        if (idle_ns > 0)
            printf(" %11.2f", (double)busy_ns / (double)idle_ns);
    }
    putchar('\n');
}

static void quantile_rows(const struct result *r, const char *what, const struct quantiles *idle,
                          const struct quantiles *busy)
{
    char label[40];
    snprintf(label, sizeof label, "%s p50", what);
    time_row(r, label, idle->p50_ns, busy->p50_ns);
    snprintf(label, sizeof label, "%*s p90", (int)strlen(what), "");
    time_row(r, label, idle->p90_ns, busy->p90_ns);
    snprintf(label, sizeof label, "%*s p99", (int)strlen(what), "");
    time_row(r, label, idle->p99_ns, busy->p99_ns);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void print_side(const struct result *r, enum side side, const char *name)
{
    char layout[32];
    const struct roster_engine *e = r->meet->roster.engines[side];
    printf("%s: %u engines, tp %u, pp %u each, %s, %u tokens a block\n", name, r->meet->roster.num[side], e->tp, e->pp,
           cut_layout_name(r->options->cut[side].layout, layout), r->options->cut[side].block_tokens);
}

static void print_stream(const struct result *r)
{
    const struct options *o = r->options;
    if (o->stream == 0)
        return;
    printf("stream: each request twice, streamed by %s and offered at its prefill's end; %u tokens/s a request",
           o->stream == BATON_OFFER_LAYERS   ? "layers"
           : o->stream == BATON_OFFER_CHUNKS ? "chunks"
                                             : "chunks in layers",
           o->prefill_tokens_per_s);
    if ((o->stream & BATON_OFFER_CHUNKS) != 0)
        printf(", %u a chunk", o->chunk_tokens);
    putchar('\n');
}

static void print_reuse(const struct result *r)
{
    if (r->options->cache_tokens > 0)
        printf("prefix cache: %llu tokens each decode engine; %u of %u requests find something; %.1f %% of blocks and "
               "%.1f %% of bytes are not fetched\n",
               (unsigned long long)r->options->cache_tokens, r->reuse.requests, r->trace->count,
               100 * report_ratio(r->reuse.blocks, r->blocks),
               100 * report_ratio(r->reuse.bytes, r->reuse.bytes_of_all));
}

static void print_head(const struct result *r)
{
    const struct options *o = r->options;
    const struct model_cut *cut = &o->cut[SIDE_PREFILL];
    const struct tally *t = &r->phases[0].tally;
    printf("baton-replay, libbaton %s\n", baton_version());
    printf("model: %s, %u of %u layers, %s\n", cut->model->name, cut->layers, cut->model->layers, cut->dtype->name);
    print_side(r, SIDE_PREFILL, "prefill");
    print_side(r, SIDE_DECODE, "decode");
    printf("trace: %s, %u requests, %llu tokens, %llu blocks; %u outstanding an engine\n", o->trace ? o->trace : "made",
           r->trace->count, (unsigned long long)r->tokens, (unsigned long long)r->blocks, o->inflight);
    if (o->pairs != NULL)
        printf("pairs: %s; %u requests go to the nearest decode engine of their prefill engine\n", o->pairs,
               r->route->nearest);
    printf(
        "paths: shm %llu, cma %llu, rma %llu, staged %llu (ordered pairs of ranks, each rank with itself among them)\n",
        (unsigned long long)t->peers[BATON_PATH_SHM], (unsigned long long)t->peers[BATON_PATH_CMA],
        (unsigned long long)t->peers[BATON_PATH_RMA], (unsigned long long)t->peers[BATON_PATH_STAGED]);
    print_stream(r);
    print_reuse(r);
    if (r->busy_threads > 0)
        printf("busy: %u computing threads beside each rank's own\n", r->busy_threads);
    putchar('\n');
}

static void print_times(const struct result *r)
{
    const struct result_phase *idle = &r->phases[0], *busy = &r->phases[1];
    quantile_rows(r, "want to received", &idle->received, &busy->received);
    quantile_rows(r, "  of it to the match", &idle->waited, &busy->waited);
    quantile_rows(r, "  of it moving", &idle->moved, &busy->moved);
}

static void print_after_prefill(const struct result *r)
{
    const struct result_phase *idle = &r->phases[0], *busy = &r->phases[1];
    if (r->options->stream == 0)
        return;
    if (idle->after_prefill_count[0] == 0 || idle->after_prefill_count[1] == 0) {
        puts("  prefill's end to received: not known (ranks on several machines, or all was wanted later)");
        return;
    }
    quantile_rows(r, "prefill's end to received, plain", &idle->after_prefill[0], &busy->after_prefill[0]);
    quantile_rows(r, "                       streamed", &idle->after_prefill[1], &busy->after_prefill[1]);
    ROW("  streamed / plain: p50, p90", "%.3f, %.3f",
        report_ratio(p->after_prefill[1].p50_ns, p->after_prefill[0].p50_ns),
        report_ratio(p->after_prefill[1].p90_ns, p->after_prefill[0].p90_ns));
    ROW("  of so many, streamed and plain", "%u, %u", p->after_prefill_count[1], p->after_prefill_count[0]);
}

/* ---- latency against load ---------------------------------------------------------------------------------------- */

static void print_point(const struct result_phase *p, uint32_t deadline_ms, uint32_t requests)
{
    const struct load *l = &p->load;
    const struct quantiles *q = &l->latency;
    printf("  %8g %10.4g %9.3f %10.4g %9.3f %10.2f %10.2f %10.2f %10.2f %9.2f %8u %8u", l->speed, l->offered_per_s,
           l->offered_gb_per_s, l->achieved_per_s, l->achieved_gb_per_s, (double)q->p50_ns / NS_PER_MS,
           (double)q->p90_ns / NS_PER_MS, (double)q->p99_ns / NS_PER_MS, (double)q->p999_ns / NS_PER_MS,
           (double)l->late.p99_ns / NS_PER_MS, l->failed, l->waited);
    if (deadline_ms > 0)
        printf(" %9.1f%% %10.4g", 100 * report_ratio(l->in_time, requests), l->in_time_per_s);
    putchar('\n');
}

static void print_load(const struct result *r)
{
    const uint32_t deadline_ms = r->options->deadline_ms;
    printf("  %8s %20s %20s %43s %9s %8s %8s", "", "offered", "achieved", "latency from the arrival, ms", "late, ms",
           "", "");
    if (deadline_ms > 0)
        printf("    within %u ms", deadline_ms);
    printf("\n  %8s %10s %9s %10s %9s %10s %10s %10s %10s %9s %8s %8s", "speed", "requests/s", "GB/s", "requests/s",
           "GB/s", "p50", "p90", "p99", "p99.9", "p99", "failed", "waited");
    if (deadline_ms > 0)
        printf(" %10s %10s", "share", "requests/s");
    putchar('\n');
    for (uint32_t p = 0; p < r->num_phases; p++)
        print_point(&r->phases[p], deadline_ms, r->trace->count);
    puts("\nA request's latency runs from its arrival by the trace's clock until the last rank of its decode engine "
         "has\n"
         "received it, however late it was called for; those that failed have none. Waited: it arrived and found no "
         "place, at a rank of either "
         "side,\n"
         "because of --inflight or --pool. The first contact of engines is part of the first run.\n");
}

static void print_runs(const struct result *r)
{
    if (r->num_phases > 1)
        printf("  %-34s %16s %16s %11s\n", "", r->phases[0].name, r->phases[1].name, "busy / idle");
    else
        ROW("", "%.*s", RESULT_NAME - 1, p->name);
    ROW("requests verified", "%u", p->verified_requests);
    ROW("bytes by shm", "%" PRIu64, p->tally.path_bytes[BATON_PATH_SHM]);
    ROW("bytes by cma", "%" PRIu64, p->tally.path_bytes[BATON_PATH_CMA]);
    ROW("bytes by rma", "%" PRIu64, p->tally.path_bytes[BATON_PATH_RMA]);
    ROW("bytes staged", "%" PRIu64, p->tally.path_bytes[BATON_PATH_STAGED]);
    ROW("wall time", "%.3f s", (double)p->wall_ns / NS_PER_S);
    ROW("payload / wall time", "%.3f GB/s", report_gb_per_s(p));
    ROW("wants, over all decode ranks", "%" PRIu64, p->tally.wants[0]);
    if (r->options->held > 0 || r->options->cache_tokens > 0)
        ROW("  that held a part, all of it", "%" PRIu64 ", %" PRIu64, p->tally.held_wants, p->tally.empty_wants);
    print_times(r);
    print_after_prefill(r);
    ROW("handshakes, time in all", "%" PRIu64 ", %.2f ms", p->tally.handshakes,
        (double)p->tally.handshake_ns / NS_PER_MS);
    ROW("calls postponed at a limit", "%" PRIu64, p->tally.postponed);
    ROW("filled, each prefill rank", "%.2f GB/s", rate(p->tally.fill_bytes, p->tally.fill_ns));
    ROW("checked, each decode rank", "%.2f GB/s", rate(p->tally.verify_bytes, p->tally.verify_ns));
    puts("\nWall time runs from the common start to the last event, and includes filling and checking every block.\n"
         "A want's time to the match includes the wait for its prefill; moving is what follows, up to its event.");
    if (r->options->stream != 0)
        puts("Prefill's end: the last rank has its last bytes in place. Received: so has the last rank that wants "
             "them;\n"
             "of what was wanted before prefill's end. What is streamed moves as long as prefill goes on.");
    putchar('\n');
}

void report_print(const struct result *r)
{
    print_head(r);
    if (r->phases[0].load.speed > 0)
        print_load(r);
    if (r->options->speeds.count == 1)
        print_runs(r);
    printf("verified %u/%u requests, %llu blocks, %llu mismatches\n", r->verified_requests, r->trace->count,
           (unsigned long long)r->verified_blocks, (unsigned long long)r->mismatches);
    fflush(stdout);
}
