/* SPDX-License-Identifier: BSD-3-Clause */
/* result: see result.h. */
#include "replay/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "model/model.h"

#define PAIRS_RANKS_MAX 1024 /* pairs of larger worlds are not collected */
#define PAIRS_NAMED 16u

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

/* Quantiles of the `which`-th of the three numbers of each sample, by way of an array for all of them. */
static struct quantiles quantiles(const struct tally_samples *s, size_t which, uint64_t *sorted)
{
    for (size_t i = 0; i < s->count; i++)
        sorted[i] = ((const uint64_t *)&s->at[i])[which];
    return quantiles_of(sorted, s->count);
}

static int collect_times(struct result_phase *out, struct engine *e)
{
    struct tally_samples all;
    int rc = meet_gather(e->meet, &e->phase.samples, &all);
    if (rc != 0 || e->meet->rank != 0)
        return rc;
    uint64_t *sorted = room(all.count, sizeof *sorted);
    out->samples = all.count;
    out->received = quantiles(&all, 0, sorted);
    out->waited = quantiles(&all, 1, sorted);
    out->moved = quantiles(&all, 2, sorted);
    free(sorted);
    free(all.at);
    return 0;
}

/* ---- after prefill ----------------------------------------------------------------------------------------------- */

/*
 * Rank 0: the time from the moment when the last prefill rank had its part in place until the last decode rank had
 * received its own. It is 0 if the second moment is earlier, which happens if nobody reads from a rank, since others
 * hold the same. Requests do not count that were wanted later, by a decode rank that was busy with checking, nor those
 * that moved nothing.
 */
static void measure_after_prefill(struct result_phase *out, const struct engine *e, uint64_t *sorted)
{
    for (unsigned streamed = 0; streamed < 2; streamed++) {
        size_t count = 0;
        for (uint32_t i = 0; i < e->trace->count; i++) {
            const struct tally_moments *m = &e->phase.moments[i];
            if (stream_hits(e->options->seed, i) == streamed && m->wanted_ns != 0 && m->wanted_ns < m->filled_ns)
                sorted[count++] = m->received_ns > m->filled_ns ? m->received_ns - m->filled_ns : 0;
        }
        out->after_prefill[streamed] = quantiles_of(sorted, count);
        out->after_prefill_count[streamed] = (uint32_t)count;
    }
}

static void collect_after_prefill(struct result_phase *out, struct engine *e)
{
    if (e->options->stream == 0 || !meet_on_one_machine(e->meet))
        return;
    meet_most(e->meet, (uint64_t *)e->phase.moments, e->trace->count * TALLY_MOMENTS);
    if (e->meet->rank != 0)
        return;
    uint64_t *sorted = room(e->trace->count, sizeof *sorted);
    measure_after_prefill(out, e, sorted);
    free(sorted);
}

/* ---- latency against load ---------------------------------------------------------------------------------------- */

/* After the tally, whose bytes it uses. */
static void collect_load(struct result_phase *out, struct engine *e)
{
    if (e->phase.speed == 0)
        return;
    meet_most(e->meet, (uint64_t *)e->phase.times, e->trace->count * LOAD_TIMES);
    if (e->meet->rank != 0)
        return;
    uint64_t *sorted = room(e->trace->count, sizeof *sorted);
    out->load = load_point(e->trace, e->phase.speed, e->phase.times,
                           (struct load_bytes){out->tally.wanted_bytes, out->tally.payload_bytes},
                           e->options->deadline_ms, sorted);
    free(sorted);
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static void collect_tally(struct result_phase *out, struct engine *e, const baton_stats_t *before)
{
    baton_stats_t now = BATON_INIT(baton_stats_t);
    struct tally t = e->phase.tally;
    uint64_t numbers[TALLY_NUMBERS], most[2] = {e->phase.end_ns - e->phase.start_ns, 0};
    if (baton_stats(e->baton, &now) == 0) {
        t.handshakes = now.handshakes - before->handshakes;
        t.handshake_ns = now.handshake_ns_sum - before->handshake_ns_sum;
        most[1] = t.handshakes > 0 ? now.handshake_ns_max : 0;
        for (unsigned path = 0; path < BATON_PATHS; path++)
            t.peers[path] = now.peers[path];
    }
    memcpy(numbers, &t, sizeof t);
    meet_sum(e->meet, numbers, TALLY_NUMBERS);
    meet_most(e->meet, most, 2);
    memcpy(&out->tally, numbers, sizeof out->tally);
    out->wall_ns = most[0];
    out->handshake_ns_max = most[1];
}

static bool is_prefill(const struct meet *m, const char *engine)
{
    for (uint32_t i = 0; i < m->roster.num[SIDE_PREFILL]; i++)
        if (strcmp(m->roster.engines[SIDE_PREFILL][i].name, engine) == 0)
            return true;
    return false;
}

/* By which path each decode rank reaches each prefill rank. */
static int collect_pairs(struct result_phase *out, struct engine *e, struct why *why)
{
    const struct meet *m = e->meet;
    const size_t ranks = (size_t)m->size, count = ranks * ranks;
    baton_peer_stats_t peer;
    baton_stats_t stats = {.size = sizeof stats, .peer_stats = &peer, .num_peers = 1};
    if (e->options->require_path == BATON_PATH_NONE || ranks > PAIRS_RANKS_MAX)
        return 0;
    uint32_t *pairs = calloc(count, sizeof *pairs); /* 4 MiB at most */
    if (pairs == NULL)
        why_set(why, "no memory for the pairs of %zu ranks", ranks);
    if (meet_agree(e->meet, pairs == NULL ? -1 : 0, why) != 0) { /* before the sum, in which all ranks take part */
        free(pairs);
        return -1;
    }
    for (; stats.first_peer < ranks && m->side == SIDE_DECODE; stats.first_peer++)
        if (baton_stats(e->baton, &stats) == 0 && is_prefill(m, peer.engine))
            pairs[(size_t)m->rank * ranks + stats.first_peer] = peer.path;
    meet_sum_u32(e->meet, pairs, count);
    if (m->rank == 0)
        out->pairs = pairs;
    else
        free(pairs);
    return 0;
}

static void collect_verified(struct result_phase *out, struct engine *e)
{
    const struct meet *m = e->meet;
    const uint32_t count = e->trace->count;
    meet_sum_u32(e->meet, e->phase.verified, count);
    if (m->rank != 0)
        return;
    out->verified = room(count, sizeof *out->verified);
    for (uint32_t i = 0; i < count; i++) {
        const struct roster_engine *decode = &m->roster.engines[SIDE_DECODE][e->route->engine_of[SIDE_DECODE][i]];
        out->verified[i] = e->phase.verified[i] == decode->tp * decode->pp;
        out->verified_requests += out->verified[i];
    }
}

int result_collect(struct result_phase *out, struct engine *e, const baton_stats_t *before, struct why *why)
{
    *out = (struct result_phase){0};
    snprintf(out->name, sizeof out->name, "%s", e->phase.name);
    meet_barrier(e->meet);
    collect_tally(out, e, before);
    int rc = collect_pairs(out, e, why);
    collect_verified(out, e);
    rc |= collect_times(out, e);
    collect_after_prefill(out, e);
    collect_load(out, e);
    if (rc != 0)
        why_set(why, "no memory for the results");
    return meet_agree(e->meet, rc, why);
}

/* ---- all phases -------------------------------------------------------------------------------------------------- */

static bool verified_always(const struct result *r, uint32_t request)
{
    for (uint32_t p = 0; p < r->num_phases; p++)
        if (!r->phases[p].verified[request])
            return false;
    return true;
}

/* Blocks of a request that hold a token that is wanted. */
static uint64_t blocks_wanted(const baton_group_t *groups, uint32_t num_groups, uint32_t held, uint32_t tokens)
{
    uint64_t blocks = 0;
    for (uint32_t g = 0; g < num_groups; g++) {
        const struct model_span s = model_wanted(&groups[g], held, tokens);
        if (s.first < s.end)
            blocks += (s.end - 1) / groups[g].block_tokens - s.first / groups[g].block_tokens + 1;
    }
    return blocks;
}

static int count_reuse(struct result *r, const baton_group_t *groups, uint32_t num_groups, struct why *why)
{
    const struct model_seat whole = {1, 1, 0, 0};
    struct model_cache cache;
    if (r->prefix->held == NULL)
        return 0;
    if (model_cache_init(&cache, &r->options->cut[SIDE_DECODE], &whole, 1, why) != 0)
        return -1;
    for (uint32_t i = 0; i < r->trace->count; i++) {
        const uint32_t tokens = r->trace->requests[i].tokens, held = r->prefix->held[i];
        const uint64_t bytes = model_wanted_bytes(&cache.geometry, 0, tokens);
        r->reuse.requests += held > 0;
        r->reuse.blocks +=
            blocks_wanted(groups, num_groups, 0, tokens) - blocks_wanted(groups, num_groups, held, tokens);
        r->reuse.bytes += bytes - model_wanted_bytes(&cache.geometry, held, tokens);
        r->reuse.bytes_of_all += bytes;
    }
    model_cache_fini(&cache);
    return 0;
}

int result_finish(struct result *r, struct why *why)
{
    baton_group_t groups[BATON_GROUPS_MAX];
    const uint32_t num_groups = model_groups(&r->options->cut[SIDE_DECODE], 1, groups);
    for (uint32_t i = 0; i < r->trace->count; i++) {
        const uint32_t tokens = r->trace->requests[i].tokens;
        uint64_t blocks = 0;
        for (uint32_t g = 0; g < num_groups; g++)
            blocks += model_table_blocks(&groups[g], tokens);
        const bool verified = verified_always(r, i);
        r->tokens += tokens;
        r->blocks += blocks;
        r->verified_requests += verified;
        r->verified_blocks += verified ? blocks : 0;
    }
    for (uint32_t p = 0; p < r->num_phases; p++)
        r->mismatches += r->phases[p].tally.mismatches;
    return count_reuse(r, groups, num_groups, why);
}

void result_fini(struct result *r)
{
    for (uint32_t p = 0; p < r->num_phases; p++) {
        free(r->phases[p].pairs);
        free(r->phases[p].verified);
    }
}

/* ---- judgement --------------------------------------------------------------------------------------------------- */

static bool refuse(const struct result_phase *p, uint64_t count, const char *what)
{
    if (count == 0)
        return true;
    fprintf(stderr, "baton-replay: %s run: %llu %s\n", p->name, (unsigned long long)count, what);
    return false;
}

/* Names the pairs that go by another path, and counts those of each path. */
static void print_pairs(const struct result *r, const struct result_phase *p)
{
    const baton_path_t required = r->options->require_path;
    const size_t ranks = (size_t)r->meet->size;
    uint32_t by_path[BATON_PATHS] = {0}, named = 0, others = 0;
    for (size_t i = 0; p->pairs != NULL && i < ranks * ranks; i++) {
        const uint32_t path = p->pairs[i];
        if (path == BATON_PATH_NONE || path >= BATON_PATHS)
            continue;
        by_path[path]++;
        if (path == (uint32_t)required)
            continue;
        others++;
        if (named++ < PAIRS_NAMED)
            fprintf(stderr, "baton-replay: --require-path %s: decode rank %zu reaches prefill rank %zu by %s\n",
                    options_path_name(required), i / ranks, i % ranks, options_path_name((baton_path_t)path));
    }
    if (others > PAIRS_NAMED)
        fprintf(stderr, "baton-replay: and %u more pairs\n", others - PAIRS_NAMED);
    if (p->pairs != NULL)
        fprintf(stderr,
                "baton-replay: of %u pairs of a decode and a prefill rank %u go by shm, %u by cma, %u by rma, %u are "
                "staged: ranks of one node share memory\n",
                by_path[BATON_PATH_SHM] + by_path[BATON_PATH_CMA] + by_path[BATON_PATH_RMA] +
                    by_path[BATON_PATH_STAGED],
                by_path[BATON_PATH_SHM], by_path[BATON_PATH_CMA], by_path[BATON_PATH_RMA], by_path[BATON_PATH_STAGED]);
}

static bool path_is_good(const struct result *r, const struct result_phase *p)
{
    const baton_path_t required = r->options->require_path;
    const char *name = options_path_name(required);
    uint64_t other = 0;
    if (required == BATON_PATH_NONE)
        return true;
    for (unsigned path = 0; path < BATON_PATHS; path++)
        other += path != required ? p->tally.path_bytes[path] : 0;
    if (other == 0 && p->tally.path_bytes[required] == p->tally.payload_bytes && p->tally.payload_bytes > 0)
        return true;
    fprintf(stderr, "baton-replay: %s run: --require-path %s: %llu of %llu bytes moved by %s, %llu by another path\n",
            p->name, name, (unsigned long long)p->tally.path_bytes[required],
            (unsigned long long)p->tally.payload_bytes, name, (unsigned long long)other);
    print_pairs(r, p);
    return false;
}

static bool phase_is_good(const struct result *r, const struct result_phase *p)
{
    const struct tally *t = &p->tally;
    bool good = refuse(p, t->refused, "calls that were refused");
    good &= refuse(p, t->wants[0] - t->wants[BATON_STATUS_DONE], "wants that did not end done");
    good &= refuse(p, t->offers[0] - t->offers[BATON_STATUS_DONE], "offers that did not end done");
    good &= refuse(p, t->miscounted, "wants whose events named another number of bytes than was demanded");
    good &= refuse(p, t->mismatches, "wrong elements");
    return path_is_good(r, p) && good;
}

bool result_is_good(const struct result *r)
{
    bool good = r->verified_requests == r->trace->count && r->mismatches == 0;
    for (uint32_t p = 0; p < r->num_phases; p++)
        good &= phase_is_good(r, &r->phases[p]);
    return good;
}
