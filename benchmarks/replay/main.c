/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-replay: Baton's main test under real traffic. It replays a trace of requests between the prefill and decode
 * ranks that batonrun started, and checks every element of every block.
 *
 *   batonrun --prefill 2x2 --decode 1x4 baton-replay --trace conversation_trace.jsonl --requests 50
 *
 * The program of every rank; the main thread is the engine's thread. It initialises MPI itself. Errors of the command
 * line and the trace are agreed upon before Baton is opened, so that all ranks leave with the same status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "bench/process.h"
#include "model/model.h"
#include "option/output.h"
#include "replay/decode.h"
#include "replay/engine.h"
#include "replay/meet.h"
#include "replay/prefill.h"
#include "replay/report.h"
#include "replay/result.h"
#include "replay/route.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2
#define MEETING_MS 120000 /* for meetings that last no longer than the start */
#define PHASE_MS 30000    /* added to what a phase's requests may take */

/* Bytes a second that even the slowest network moves, for a phase's deadline. */
#define SLOWEST_BYTES_PER_S 10000000

struct replay {
    struct options options;
    struct meet meet;
    baton_open_params_t self;
    struct trace trace;
    struct route route;
    struct prefix prefix;
    struct model_cache cache;
    baton_cache_t *memory;
    struct engine engine;
    struct result result;
};

/* ---- before Baton ------------------------------------------------------------------------------------------------ */

/* How long the model of a request's prefill takes. */
static uint64_t prefill_ms(const struct replay *r, uint32_t request)
{
    return r->options.stream == 0
               ? 0
               : UINT64_C(1000) * r->trace.requests[request].tokens / r->options.prefill_tokens_per_s;
}

static int read_role(struct replay *r, int thread_level, struct why *why)
{
    r->self = (baton_open_params_t){.size = sizeof(baton_open_params_t)};
    if (baton_role_from_env(&r->self) != 0)
        return why_set(why, "%s", baton_errmsg());
    r->self.progress = r->options.progress;
    if (r->self.progress == BATON_PROGRESS_AUTO)
        r->self.progress = thread_level >= MPI_THREAD_MULTIPLE ? BATON_PROGRESS_THREAD : BATON_PROGRESS_CALLER;
    return 0;
}

static int check_json(const struct replay *r, struct why *why)
{
    return r->meet.rank == 0 && r->options.json != NULL ? output_check_json(r->options.json, why) : 0;
}

/* Every prefill must end before its want's deadline, or there is no figure. */
static int check_prefills(const struct replay *r, struct why *why)
{
    const struct options *o = &r->options;
    for (uint32_t i = 0; i < r->trace.count; i++)
        if (prefill_ms(r, i) >= o->timeout_ms)
            return why_set(why, "request %u (%u tokens) takes --timeout-ms or longer at %u tokens/s", i,
                           r->trace.requests[i].tokens, o->prefill_tokens_per_s);
    return 0;
}

static int read_trace(struct replay *r, struct why *why)
{
    const struct options *o = &r->options;
    const int rc = o->trace == NULL ? trace_make(o->requests, o->seed, &r->trace, why)
                                    : trace_open(o->trace, o->requests, &r->trace, why);
    if (rc != 0)
        return -1;
    if (o->requests_given && r->trace.count < o->requests)
        return why_set(why, "%s has %u requests, and --requests asks for %u", o->trace, r->trace.count, o->requests);
    if (o->stream == 0)
        return 0;
    return check_prefills(r, why) != 0 ? -1 : trace_double(&r->trace, why);
}

static int find_route(struct replay *r, struct why *why)
{
    const struct options *o = &r->options;
    const struct roster *roster = &r->meet.roster;
    struct distances distances = {0};
    if (o->pairs != NULL && distances_open(o->pairs, roster, &distances, why) != 0)
        return -1;
    const int rc =
        route_init(&r->route, roster->num, r->trace.count, o->pairs != NULL ? &distances : NULL, o->inflight, why);
    distances_fini(&distances);
    return rc;
}

static int find_prefixes(struct replay *r, struct why *why)
{
    const struct options *o = &r->options;
    return o->cache_tokens == 0 ? 0
                                : prefix_init(&r->prefix, &r->trace, r->route.engine_of[SIDE_DECODE],
                                              r->meet.roster.num[SIDE_DECODE], o->cache_tokens, why);
}

/* The rank's cache: its geometry, with as many blocks as --pool or the trace say. */
static int size_cache(struct replay *r, struct why *why)
{
    const struct options *o = &r->options;
    struct model_cut cut = o->cut[r->meet.side];
    struct share *share = &r->engine.share;
    const struct model_seat seat = {r->self.tp, r->self.pp, r->self.tp_rank, r->self.pp_rank};
    const uint32_t spare = o->sabotage == SABOTAGE_STALE;
    uint64_t block_bytes[BATON_GROUPS_MAX];
    uint32_t num_blocks[BATON_GROUPS_MAX];
    *share =
        (struct share){.trace = &r->trace, .engine_of = r->route.engine_of[r->meet.side], .engine = r->meet.engine};
    share->num_groups = model_groups(&cut, 1, share->groups);
    if (model_cache_init(&r->cache, &cut, &seat, 1, why) != 0)
        return -1;
    for (uint32_t g = 0; g < share->num_groups; g++)
        block_bytes[g] = model_block_bytes(&r->cache.geometry, g);
    model_cache_fini(&r->cache);
    if (share_pool(share, block_bytes, o->pool_bytes, o->inflight, spare, num_blocks, why) != 0)
        return -1;
    for (uint32_t g = 1; g < share->num_groups; g++)
        cut.group_blocks[g] = num_blocks[g];
    return model_cache_init(&r->cache, &cut, &seat, num_blocks[0], why);
}

/* Every rank takes every step, and all agree upon the result of each: 0 on all ranks, or -1 on all. */
static int prepare(struct replay *r, int options_rc, int thread_level, struct why *why)
{
    if (meet_agree(&r->meet, options_rc, why) != 0 || meet_agree(&r->meet, read_role(r, thread_level, why), why) != 0 ||
        meet_agree(&r->meet, meet_roster(&r->meet, &r->self, why), why) != 0 ||
        meet_agree(&r->meet, check_json(r, why), why) != 0 || meet_agree(&r->meet, read_trace(r, why), why) != 0 ||
        meet_agree(&r->meet, find_route(r, why), why) != 0 || meet_agree(&r->meet, find_prefixes(r, why), why) != 0)
        return -1;
    return meet_agree(&r->meet, size_cache(r, why), why);
}

/* ---- with Baton -------------------------------------------------------------------------------------------------- */

static int start_engine(struct replay *r, struct why *why)
{
    struct engine *e = &r->engine;
    e->options = &r->options;
    e->trace = &r->trace;
    e->route = &r->route;
    e->prefix = &r->prefix;
    e->meet = &r->meet;
    e->name = r->self.engine;
    e->rank_in_engine = r->self.pp_rank * r->self.tp + r->self.tp_rank;
    e->lends_thread = r->self.progress == BATON_PROGRESS_CALLER;
    if (e->lends_thread)
        r->meet.progress = e->baton;
    if (pattern_init(&e->pattern, &r->cache.geometry, baton_cache_base(r->memory), r->options.seed, why) != 0)
        return -1;
    const struct engine_job *job = r->meet.side == SIDE_PREFILL ? &prefill_job : &decode_job;
    return engine_init(e, job, &r->cache.geometry, why);
}

/* baton_open and baton_start give every rank the same error; cache_create is local. A start that ran out of time may
   have left a rank in the middle of it: then MPI cannot be finalised. */
static int start_baton(struct replay *r, struct why *why)
{
    int rc = baton_open(r->meet.comm, &r->self, &r->engine.baton);
    if (rc != 0)
        return why_set(why, "baton_open: %s: %s", baton_errname(rc), baton_errmsg());
    rc = baton_cache_create(r->engine.baton, &r->cache.geometry, BATON_MEMORY_HOST, &r->memory);
    if (rc != 0)
        why_set(why, "baton_cache_create: %s: %s", baton_errname(rc), baton_errmsg());
    if (meet_agree(&r->meet, rc, why) != 0)
        return -1;
    rc = baton_start(r->engine.baton);
    if (rc != 0)
        why_set(why, "baton_start: %s: %s", baton_errname(rc), baton_errmsg());
    if (rc == BATON_ETIMEDOUT || rc == BATON_EPEER) {
        fprintf(stderr, "baton-replay: rank %d: %s\n", r->meet.rank, why->text);
        baton_exit(STATUS_FAILED);
    }
    return rc != 0 ? -1 : meet_agree(&r->meet, start_engine(r, why), why);
}

/* The bytes of the trace that all ranks of a decode engine take together, if each holds a part of its own. */
static uint64_t trace_bytes(const struct replay *r)
{
    struct why why;
    struct model_cache whole;
    const struct model_seat seat = {1, 1, 0, 0};
    uint64_t bytes = 0;
    if (model_cache_init(&whole, &r->options.cut[SIDE_DECODE], &seat, 1, &why) != 0)
        return 0;
    for (uint32_t i = 0; i < r->trace.count; i++)
        bytes += model_wanted_bytes(&whole.geometry, 0, r->trace.requests[i].tokens);
    model_cache_fini(&whole);
    return bytes;
}

/* A time that a run cannot need: all arrivals of the trace, its prefills one after another, its bytes over the slowest
   network (to each rank of a decode engine, if all hold the same), and some deadlines. */
static uint64_t phase_ms(const struct replay *r, double speed)
{
    const struct trace *t = &r->trace;
    const uint64_t span_ms = t->requests[t->count - 1].arrival_ms - t->requests[0].arrival_ms;
    const uint64_t bytes = trace_bytes(r) * r->meet.roster.engines[SIDE_DECODE][0].tp;
    uint64_t ms = PHASE_MS + 3 * (uint64_t)r->options.timeout_ms + bytes / (SLOWEST_BYTES_PER_S / 1000);
    if (speed > 0)
        ms += (uint64_t)((double)span_ms / speed);
    for (uint32_t i = 0; i < t->count; i++)
        ms += prefill_ms(r, i);
    return ms;
}

static int run_phase(struct replay *r, const char *name, double speed, struct why *why)
{
    baton_stats_t before = BATON_INIT(baton_stats_t);
    struct result *result = &r->result;
    baton_stats(r->engine.baton, &before);
    meet_deadline(&r->meet, phase_ms(r, speed));
    engine_run(&r->engine, result->num_phases, name, speed);
    return result_collect(&result->phases[result->num_phases++], &r->engine, &before, why);
}

/* Run after run, each at its own speed. */
static int run_speeds(struct replay *r, struct why *why)
{
    const struct speeds *s = &r->options.speeds;
    for (uint32_t i = 0; i < s->count; i++) {
        char name[RESULT_NAME] = "idle";
        if (s->count > 1)
            snprintf(name, sizeof name, "x%g", s->x[i]);
        if (run_phase(r, name, s->x[i], why) != 0)
            return -1;
    }
    return 0;
}

/* While every CPU of the node computes: its CPUs are shared out among the ranks that have the same ones. */
static int run_busy_phase(struct replay *r, struct why *why)
{
    struct pin cpus;
    pin_init(&cpus);
    const int sharers = meet_cpu_sharers(&r->meet);
    const uint32_t count = (uint32_t)((CPU_COUNT(&cpus.allowed) + sharers - 1) / sharers);
    struct busy *threads = room(count, sizeof *threads);
    for (uint32_t i = 0; i < count; i++)
        busy_start(&threads[i], &cpus);
    r->result.busy_threads = count;
    const int ran = run_phase(r, "busy", r->options.speeds.x[0], why);
    for (uint32_t i = 0; i < count; i++)
        busy_stop(&threads[i]);
    free(threads);
    return ran;
}

/* Rank 0 judges and prints. Its status is the exit status of all. */
static int conclude(struct replay *r)
{
    struct why why;
    int status = 0;
    if (r->meet.rank == 0) {
        status = result_finish(&r->result, &why) == 0 && result_is_good(&r->result) ? 0 : STATUS_FAILED;
        if (r->options.json && report_json(&r->result, status == 0, r->options.json, &why) != 0) {
            fprintf(stderr, "baton-replay: %s\n", why.text);
            status = STATUS_FAILED;
        }
        report_print(&r->result);
    }
    meet_tell(&r->meet, &status);
    return status;
}

static int replay(struct replay *r, struct why *why)
{
    r->result = (struct result){
        .options = &r->options, .trace = &r->trace, .route = &r->route, .prefix = &r->prefix, .meet = &r->meet};
    if (start_baton(r, why) != 0 || run_speeds(r, why) != 0)
        return -1;
    if (r->options.busy && run_busy_phase(r, why) != 0)
        return -1;
    meet_deadline(&r->meet, MEETING_MS);
    return conclude(r);
}

/* Closes Baton and returns the process's exit status. If a peer was lost, the process exits here. */
static int end(struct replay *r, int status)
{
    if (r->engine.baton == NULL)
        return status;
    r->meet.progress = NULL;
    const int rc = baton_close(r->engine.baton);
    if (rc == 0)
        return status;
    fprintf(stderr, "baton-replay: rank %d: baton_close: %s: %s\n", r->meet.rank, baton_errname(rc), baton_errmsg());
    fflush(NULL);
    if (rc == BATON_EPEER)
        baton_exit(STATUS_FAILED);
    return STATUS_FAILED;
}

static void free_all(struct replay *r)
{
    engine_fini(&r->engine);
    result_fini(&r->result);
    model_cache_fini(&r->cache);
    prefix_fini(&r->prefix);
    route_fini(&r->route);
    trace_fini(&r->trace);
    meet_fini(&r->meet);
}

static int report_error(const struct replay *r, const struct why *why, int status)
{
    if (r->meet.rank == 0)
        fprintf(stderr, "baton-replay: %s\n", why->text);
    return status;
}

int main(int argc, char **argv)
{
    struct why why = {0};
    struct replay r = {0};
    int level, status;
    const int rc = options_read(&r.options, argc, argv, &why);
    if (rc == 0 && (r.options.help || r.options.version))
        return output_asked("baton-replay", r.options.help ? options_help : NULL, baton_version(), STATUS_FAILED);
    /* UCX writes its warnings to standard output by default, and the last line there must be the verdict. */
    setenv("UCX_LOG_FILE", "stderr", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS || meet_init(&r.meet, MPI_COMM_WORLD)) {
        fputs("baton-replay: MPI does not start\n", stderr);
        return STATUS_FAILED;
    }
    meet_deadline(&r.meet, MEETING_MS);
    if (prepare(&r, rc, level, &why) != 0) {
        status = report_error(&r, &why, STATUS_USAGE);
    } else {
        status = replay(&r, &why);
        if (status < 0)
            status = report_error(&r, &why, STATUS_FAILED);
        status = end(&r, status);
    }
    free_all(&r);
    MPI_Finalize();
    return status;
}
