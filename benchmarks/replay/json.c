/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json: the results for programs. A reader may rely on the names while "schema" stays the same. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "model/cut.h"
#include "replay/clock.h"
#include "replay/report.h"

#define SCHEMA_VERSION 1

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *quantiles_us(const struct quantiles *q)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", (double)q->p50_ns / 1e3, "p90", (double)q->p90_ns / 1e3, "p99",
                     (double)q->p99_ns / 1e3, "p99_9", (double)q->p999_ns / 1e3);
}

/* By the status that they ended with. */
static json_t *endings(const uint64_t *count)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "accepted", number(count[0]), "done",
                     number(count[BATON_STATUS_DONE]), "failed", number(count[BATON_STATUS_FAILED]), "expired",
                     number(count[BATON_STATUS_EXPIRED]), "cancelled", number(count[BATON_STATUS_CANCELLED]));
}

static json_t *paths(const uint64_t *count)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "shm", number(count[BATON_PATH_SHM]), "cma", number(count[BATON_PATH_CMA]),
                     "rma", number(count[BATON_PATH_RMA]), "staged", number(count[BATON_PATH_STAGED]));
}

static json_t *handshakes(const struct result_phase *p)
{
    return json_pack("{s:o, s:f, s:f}", "count", number(p->tally.handshakes), "time_ms",
                     (double)p->tally.handshake_ns / NS_PER_MS, "longest_ms", (double)p->handshake_ns_max / NS_PER_MS);
}

static double rate(uint64_t bytes, uint64_t ns)
{
    return ns == 0 ? 0 : (double)bytes / (double)ns;
}

static json_t *after_prefill(const struct result_phase *p)
{
    const struct quantiles *plain = &p->after_prefill[0], *streamed = &p->after_prefill[1];
    return json_pack("{s:o, s:o, s:o, s:o, s:f, s:f}", "plain", quantiles_us(plain), "streamed", quantiles_us(streamed),
                     "plain_requests", number(p->after_prefill_count[0]), "streamed_requests",
                     number(p->after_prefill_count[1]), "streamed_over_plain_p50",
                     report_ratio(streamed->p50_ns, plain->p50_ns), "streamed_over_plain_p90",
                     report_ratio(streamed->p90_ns, plain->p90_ns));
}

static json_t *phase(const struct result_phase *p)
{
    const struct tally *t = &p->tally;
    json_t *o = json_pack("{s:s, s:i, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "name", p->name,
                          "requests_verified", (int)p->verified_requests, "payload_bytes", number(t->payload_bytes),
                          "path_bytes", paths(t->path_bytes), "wall_s", (double)p->wall_ns / NS_PER_S,
                          "payload_gb_per_s", report_gb_per_s(p), "wants", endings(t->wants), "offers",
                          endings(t->offers), "want_to_received_us", quantiles_us(&p->received), "want_to_match_us",
                          quantiles_us(&p->waited), "moving_us", quantiles_us(&p->moved));
    if (p->after_prefill_count[0] > 0 && p->after_prefill_count[1] > 0)
        json_object_set_new(o, "prefill_end_to_received_us", after_prefill(p));
    json_object_update_new(o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f}", "handshakes", handshakes(p),
                                        "calls_refused", number(t->refused), "calls_postponed", number(t->postponed),
                                        "wants_that_held_a_part", number(t->held_wants), "wants_that_held_all",
                                        number(t->empty_wants), "wants_miscounted", number(t->miscounted), "mismatches",
                                        number(t->mismatches), "fill_gb_per_s", rate(t->fill_bytes, t->fill_ns),
                                        "verify_gb_per_s", rate(t->verify_bytes, t->verify_ns)));
    return o;
}

/* A run as a point of latency against load. */
static json_t *point(const struct result *r, const struct result_phase *p)
{
    const struct load *l = &p->load;
    json_t *o = json_pack("{s:f, s:s, s:f, s:f, s:f, s:f}", "speed", l->speed, "run", p->name, "offered_requests_per_s",
                          l->offered_per_s, "offered_gb_per_s", l->offered_gb_per_s, "achieved_requests_per_s",
                          l->achieved_per_s, "achieved_gb_per_s", l->achieved_gb_per_s);
    json_object_set_new(o, "latency_us", quantiles_us(&l->latency));
    json_object_set_new(o, "late_us", quantiles_us(&l->late));
    json_object_set_new(o, "failed", number(l->failed));
    json_object_set_new(o, "waited_for_a_place", number(l->waited));
    if (r->options->deadline_ms > 0) {
        json_object_set_new(o, "in_time_share", json_real(report_ratio(l->in_time, r->trace->count)));
        json_object_set_new(o, "in_time_requests_per_s", json_real(l->in_time_per_s));
    }
    return o;
}

static json_t *points(const struct result *r)
{
    json_t *all = json_array();
    for (uint32_t p = 0; p < r->num_phases; p++)
        if (r->phases[p].load.speed > 0)
            json_array_append_new(all, point(r, &r->phases[p]));
    return all;
}

static json_t *reuse(const struct result *r)
{
    return json_pack("{s:o, s:o, s:f, s:f}", "cache_tokens", number(r->options->cache_tokens), "requests_that_hit",
                     number(r->reuse.requests), "blocks_not_fetched_share", report_ratio(r->reuse.blocks, r->blocks),
                     "bytes_not_fetched_share", report_ratio(r->reuse.bytes, r->reuse.bytes_of_all));
}

static json_t *side(const struct result *r, enum side which)
{
    char layout[32];
    const struct roster_engine *e = r->meet->roster.engines[which];
    return json_pack("{s:i, s:i, s:i, s:i, s:s}", "engines", (int)r->meet->roster.num[which], "tp", (int)e->tp, "pp",
                     (int)e->pp, "block_tokens", (int)r->options->cut[which].block_tokens, "layout",
                     cut_layout_name(r->options->cut[which].layout, layout));
}

static json_t *speeds(const struct speeds *s)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < s->count; i++)
        json_array_append_new(all, json_real(s->x[i]));
    return all;
}

static json_t *options(const struct result *r)
{
    const struct options *o = r->options;
    const struct model_cut *cut = &o->cut[SIDE_PREFILL];
    json_t *j =
        json_pack("{s:s?, s:s?, s:s, s:s, s:i, s:i, s:i, s:f, s:b}", "trace", o->trace, "pairs", o->pairs, "model",
                  cut->model->name, "dtype", cut->dtype->name, "layers", (int)cut->layers, "block_tokens",
                  (int)cut->block_tokens, "inflight", (int)o->inflight, "speed", o->speeds.x[0], "busy", o->busy);
    json_object_set_new(j, "speeds", speeds(&o->speeds));
    json_object_set_new(j, "deadline_ms", number(o->deadline_ms));
    json_object_set_new(j, "stream", json_string(options_stream_name(o->stream)));
    if (o->stream != 0) {
        json_object_set_new(j, "chunk_tokens", number(o->chunk_tokens));
        json_object_set_new(j, "prefill_tokens_per_s", number(o->prefill_tokens_per_s));
    }
    json_object_update_new(j, json_pack("{s:f, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:o}", "held", o->held, "pool_bytes",
                                        number(o->pool_bytes), "timeout_ms", number(o->timeout_ms), "seed",
                                        number(o->seed), "progress", options_progress_name(o->progress), "mode",
                                        options_mode_name(o->mode), "require_path", options_path_name(o->require_path),
                                        "sabotage", options_sabotage_name(o->sabotage), "busy_threads_per_rank",
                                        number(r->busy_threads)));
    return j;
}

static json_t *versions(void)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(mpi, &length);
    return json_pack("{s:s, s:s, s:s}", "baton_header", BATON_VERSION_STRING, "baton_library", baton_version(), "mpi",
                     mpi);
}

static json_t *whole(const struct result *r, bool good)
{
    json_t *phases = json_array();
    for (uint32_t p = 0; p < r->num_phases; p++)
        json_array_append_new(phases, phase(&r->phases[p]));
    json_t *o =
        json_pack("{s:i, s:s, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
                  SCHEMA_VERSION, "program", "baton-replay", "good", good, "requests", (int)r->trace->count,
                  "requests_verified", (int)r->verified_requests, "tokens", number(r->tokens), "blocks",
                  number(r->blocks), "blocks_verified", number(r->verified_blocks), "mismatches", number(r->mismatches),
                  "versions", versions(), "options", options(r), "prefill", side(r, SIDE_PREFILL), "decode",
                  side(r, SIDE_DECODE), "phases", phases, "latency_against_load", points(r));
    if (r->options->cache_tokens > 0)
        json_object_set_new(o, "prefix_reuse", reuse(r));
    if (r->num_phases > 1 && r->phases[0].received.p50_ns > 0)
        json_object_set_new(o, "busy_over_idle_want_to_received_p50",
                            json_real((double)r->phases[1].received.p50_ns / (double)r->phases[0].received.p50_ns));
    return o;
}

int report_json(const struct result *r, bool good, const char *path, struct why *why)
{
    json_t *o = whole(r, good);
    errno = 0;
    const int rc = o != NULL ? json_dump_file(o, path, JSON_INDENT(2)) : -1;
    json_decref(o);
    return rc == 0 ? 0 : why_set(why, "--json %s: %s", path, errno ? strerror(errno) : "cannot be written");
}
