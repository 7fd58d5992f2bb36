/* SPDX-License-Identifier: BSD-3-Clause */
/* frame: see frame.h. */
#include "metrics/frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S_NS 1e9
#define SICK_MOST 16 /* ranks that are not well, and are named */

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* NULL: there is none. */
static struct frame_engine *find_engine(const struct frame *f, const char *name)
{
    for (uint32_t i = 0; f != NULL && i < f->num_engines; i++)
        if (strcmp(f->engines[i].name, name) == 0)
            return (struct frame_engine *)&f->engines[i];
    return NULL;
}

static struct frame_engine *engine_of(struct frame *f, const char *name)
{
    struct frame_engine *e = find_engine(f, name);
    if (e != NULL || f->num_engines == FRAME_ROWS)
        return e;
    e = &f->engines[f->num_engines++];
    snprintf(e->name, sizeof e->name, "%s", name);
    return e;
}

static struct frame_pair *find_pair(const struct frame *f, const char *name, const char *peer)
{
    for (uint32_t i = 0; i < f->num_pairs; i++)
        if (strcmp(f->pairs[i].name, name) == 0 && strcmp(f->pairs[i].peer, peer) == 0)
            return (struct frame_pair *)&f->pairs[i];
    return NULL;
}

static struct frame_pair *pair_of(struct frame *f, const char *name, const char *peer)
{
    struct frame_pair *p = find_pair(f, name, peer);
    if (p != NULL || f->num_pairs == FRAME_ROWS)
        return p;
    p = &f->pairs[f->num_pairs++];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->peer, sizeof p->peer, "%s", peer);
    return p;
}

static bool is_up(const struct pages_rank *r)
{
    return r->view.is_alive && !r->view.body.is_closed;
}

static void add_rank(struct frame_engine *e, const struct pages_rank *r)
{
    const struct metrics_body *b = &r->view.body;
    const uint64_t *s = b->stats;
    const bool up = is_up(r);
    e->ranks++;
    e->up += up;
    for (unsigned i = 0; i < METRICS_PATHS; i++)
        e->received += b->received[i];
    for (unsigned i = 0; i < BATON_REASONS; i++)
        e->failures += b->reasons[i];
    for (unsigned p = 0; p <= METRICS_PEERS; p++)
        for (unsigned i = 0; i < METRICS_PATHS; i++)
            e->pushed += b->peer[p].bytes[i][METRICS_OUT];
    e->wants_done += s[METRICS_wants_done];
    e->offers_done += s[METRICS_offers_done];
    e->stalls += b->stalls;
    e->open += up ? s[METRICS_wants_live] + s[METRICS_leases_live] : 0;
    e->moving += up ? s[METRICS_legs_live] + s[METRICS_pushes_live] : 0;
}

static void add_peers(struct frame *f, const struct metrics_body *b)
{
    for (unsigned p = 0; p <= METRICS_PEERS; p++) {
        const struct metrics_peer *peer = &b->peer[p];
        uint64_t failures = 0;
        for (unsigned i = 0; i < BATON_REASONS; i++)
            failures += peer->failures[i];
        if (peer->engine[0] == '\0' || (peer->transfer_ns.count == 0 && failures == 0))
            continue;
        struct frame_pair *pair = pair_of(f, b->engine, peer->engine);
        if (pair == NULL)
            continue;
        for (unsigned i = 0; i < METRICS_PATHS * METRICS_DIRECTIONS; i++) {
            pair->bytes += peer->bytes[i / METRICS_DIRECTIONS][i % METRICS_DIRECTIONS];
            pair->transfers += peer->transfers[i / METRICS_DIRECTIONS][i % METRICS_DIRECTIONS];
        }
        pair->failures += failures;
        histogram_merge(&pair->transfer_ns, &peer->transfer_ns);
    }
}

/* The first rank of each host counts it. */
static bool is_new_host(struct pages_rank *const *ranks, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(ranks[k]->view.body.host, ranks[i]->view.body.host) == 0)
            return false;
    return true;
}

void frame_sum(struct frame *f, struct pages_rank *const *ranks, uint32_t num, uint64_t at_ns)
{
    *f = (struct frame){.at_ns = at_ns};
    for (uint32_t i = 0; i < num; i++) {
        struct frame_engine *e = engine_of(f, ranks[i]->view.body.engine);
        if (e != NULL)
            add_rank(e, ranks[i]);
        add_rank(&f->total, ranks[i]);
        add_peers(f, &ranks[i]->view.body);
        f->num_hosts += is_new_host(ranks, i);
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

struct page_out {
    frame_line put;
    void *arg;
};

static void print(const struct page_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print(const struct page_out *o, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    o->put(o->arg, text);
}

/* "1.50 GB" */
static const char *bytes_text(double bytes, char out[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    unsigned u = 0;
    for (; bytes >= 999.5 && u + 1 < sizeof units / sizeof units[0]; u++)
        bytes /= 1000;
    snprintf(out, 32, u == 0 ? "%.0f %s" : "%.2f %s", bytes, units[u]);
    return out;
}

static const char *time_text(double ns, char out[32])
{
    if (ns < 1e3)
        snprintf(out, 32, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out, 32, "%.1f us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(out, 32, "%.1f ms", ns / 1e6);
    else
        snprintf(out, 32, "%.1f s", ns / 1e9);
    return out;
}

/* How a counter grew between the looks, each second; its total where there is no look before. */
struct rate {
    double seconds; /* 0: totals */
};

static double grown(struct rate r, uint64_t now, uint64_t before)
{
    if (r.seconds == 0)
        return (double)now;
    return (now > before ? (double)(now - before) : 0) / r.seconds;
}

static void print_engine(const struct page_out *o, const char *name, const struct frame_engine *e,
                         const struct frame_engine *before, struct rate rate)
{
    static const struct frame_engine none;
    char received[32], pushed[32];
    before = before != NULL ? before : &none;
    print(o, "%-10.31s %3" PRIu32 "/%-3" PRIu32 " %9s %9s %7.0f %7.0f %6.0f %4" PRIu64 " %6" PRIu64 " %6" PRIu64, name,
          e->up, e->ranks, bytes_text(grown(rate, e->received, before->received), received),
          bytes_text(grown(rate, e->pushed, before->pushed), pushed), grown(rate, e->wants_done, before->wants_done),
          grown(rate, e->offers_done, before->offers_done), grown(rate, e->failures, before->failures), e->open,
          e->moving, e->stalls);
}

static void print_engines(const struct page_out *o, const struct frame *f, const struct frame *before, struct rate rate)
{
    print(o, "%-10s %7s %9s %9s %7s %7s %6s %4s %6s %6s", "ENGINE", "UP", "RECEIVED", "PUSHED", "WANTS", "OFFERS",
          "FAILED", "OPEN", "MOVING", "STALLS");
    for (uint32_t i = 0; i < f->num_engines; i++)
        print_engine(o, f->engines[i].name, &f->engines[i], find_engine(before, f->engines[i].name), rate);
    print_engine(o, "all", &f->total, before != NULL ? &before->total : NULL, rate);
}

/* ---- pairs, the slowest first ------------------------------------------------------------------------------------ */

static int slower(const void *a, const void *b)
{
    const uint64_t one = histogram_quantile(&((const struct frame_pair *)a)->transfer_ns, 0.99);
    const uint64_t other = histogram_quantile(&((const struct frame_pair *)b)->transfer_ns, 0.99);
    return (one < other) - (one > other);
}

static void print_pair(const struct page_out *o, const struct frame_pair *p, struct rate rate)
{
    char bytes[32], mean[32] = "-", p50[32] = "-", p99[32] = "-";
    const struct histogram *h = &p->transfer_ns;
    const uint64_t count = h->count;
    if (count > 0) {
        time_text((double)h->sum / (double)count, mean);
        time_text((double)histogram_quantile(h, 0.5), p50);
        time_text((double)histogram_quantile(h, 0.99), p99);
    }
    print(o, "%-10.31s %-10.31s %9.0f %9s %9s %9s %9s %6.0f", p->name, p->peer, grown(rate, p->transfers, 0),
          bytes_text(grown(rate, p->bytes, 0), bytes), mean, p50, p99, grown(rate, p->failures, 0));
}

static void print_pairs(const struct page_out *o, const struct frame *f, const struct frame *before, struct rate rate)
{
    struct frame_pair *pairs = calloc(FRAME_ROWS, sizeof *pairs);
    if (pairs == NULL)
        return;
    memcpy(pairs, f->pairs, sizeof f->pairs);
    for (uint32_t i = 0; i < f->num_pairs; i++) {
        const struct frame_pair *was = before != NULL ? find_pair(before, pairs[i].name, pairs[i].peer) : NULL;
        if (was == NULL)
            continue;
        pairs[i].transfers -= was->transfers < pairs[i].transfers ? was->transfers : pairs[i].transfers;
        pairs[i].bytes -= was->bytes < pairs[i].bytes ? was->bytes : pairs[i].bytes;
        pairs[i].failures -= was->failures < pairs[i].failures ? was->failures : pairs[i].failures;
        histogram_subtract(&pairs[i].transfer_ns, &was->transfer_ns);
    }
    qsort(pairs, f->num_pairs, sizeof *pairs, slower);
    print(o, "%-10s %-10s %9s %9s %9s %9s %9s %6s", "ENGINE", "WITH", "TRANSFERS", "BYTES", "MEAN", "P50", "P99",
          "FAILED");
    for (uint32_t i = 0; i < f->num_pairs; i++)
        print_pair(o, &pairs[i], rate);
    free(pairs);
}

/* ---- ranks that are not well ------------------------------------------------------------------------------------- */

/* What is the matter with a rank. False: nothing is. */
static bool is_sick(const struct pages_rank *r, uint64_t now_ns, char out[96])
{
    char since[32];
    if (r->view.body.is_closed)
        return false;
    if (!r->view.is_alive) {
        snprintf(out, 96, "its process has ended, and it had not closed");
        return true;
    }
    if (r->view.stalled_ns == 0)
        return false;
    if (r->view.stalled_ns > 1 && now_ns > r->view.stalled_ns)
        snprintf(out, 96, "it has been inside MPI for %s", time_text((double)(now_ns - r->view.stalled_ns), since));
    else
        snprintf(out, 96, "it is stuck inside MPI");
    return true;
}

static void print_sick(const struct page_out *o, struct pages_rank *const *ranks, uint32_t num, uint64_t now_ns)
{
    uint32_t n = 0;
    char what[96];
    for (uint32_t i = 0; i < num; i++) {
        const struct pages_rank *r = ranks[i];
        if (!is_sick(r, now_ns, what))
            continue;
        if (n == 0)
            print(o, "%s", "");
        if (n++ < SICK_MOST)
            print(o, "rank %" PRIu32 " (%s on %s): %s", r->number, r->view.body.engine, r->view.body.host, what);
    }
    if (n > SICK_MOST)
        print(o, "and %" PRIu32 " more ranks", n - SICK_MOST);
}

void frame_print(const struct frame *f, const struct frame *before, const char *job, struct pages_rank *const *ranks,
                 uint32_t num, uint64_t real_now_ns, frame_line put, void *arg)
{
    const struct page_out o = {put, arg};
    struct rate rate = {0};
    char what[64] = "since they started";
    if (before != NULL && f->at_ns > before->at_ns)
        rate.seconds = (double)(f->at_ns - before->at_ns) / S_NS;
    if (rate.seconds > 0)
        snprintf(what, sizeof what, "each second, of the last %.1f s", rate.seconds);
    print(&o, "%s: %" PRIu32 " of %" PRIu32 " ranks are up, %" PRIu32 " host%s; %s", job, f->total.up, f->total.ranks,
          f->num_hosts, f->num_hosts == 1 ? "" : "s", what);
    print(&o, "%s", "");
    print_engines(&o, f, before, rate);
    print(&o, "%s", "");
    print_pairs(&o, f, before, rate);
    print_sick(&o, ranks, num, real_now_ns);
}
