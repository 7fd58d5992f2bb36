/* SPDX-License-Identifier: BSD-3-Clause */
/* ringing: see the header. */
#include "mpi/ringing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/textbuf.h"

#define TRY_NS (300 * CLOCK_NS_PER_MS)

/* The first rank after mine, round about, that is of another node and can be rung. My own: there is none. */
static uint32_t rank_to_try(const struct world *w, const struct doorbell_card *cards)
{
    const uint32_t size = (uint32_t)w->size, me = (uint32_t)w->rank;
    for (uint32_t i = 1; i < size; i++) {
        uint32_t r = (me + i) % size;
        if (w->node_of[r] != w->node_of[me] && cards[r].port != 0)
            return r;
    }
    return me;
}

static bool works(struct ringing *r, const struct world *w, const struct doorbell_card *cards)
{
    const uint32_t rank = rank_to_try(w, cards), me = (uint32_t)w->rank;
    if (!r->doorbell.is_open || doorbell_know(&r->doorbell, cards, (uint32_t)w->size) != 0)
        return false;
    if (rank == me || doorbell_try(&r->doorbell, rank, TRY_NS))
        return true;
    snprintf(r->why_not, sizeof r->why_not, "no answer by UDP from rank %" PRIu32, rank);
    return false;
}

static void open_mine(struct ringing *r, const struct world *w)
{
    const char *why = "BATON_DOORBELL is 0";
    r->doorbell.slice_us = w->settings.slice_us;
    r->doorbell.nice = w->settings.nice;
    if (w->settings.doorbell == 0 ||
        doorbell_open(&r->doorbell, (uint32_t)w->rank, w->mode == BATON_PROGRESS_THREAD, &why) != 0)
        snprintf(r->why_not, sizeof r->why_not, "%s", why);
}

int ringing_open(struct ringing *r, struct world *w, doorbell_rung_fn *rung, void *arg, const char *cpus)
{
    bool all = false;
    if (w->nodes < 2)
        return 0;
    struct doorbell_card *cards = calloc((size_t)w->size, sizeof *cards);
    r->doorbell.rung_fn = rung;
    r->doorbell.arg = arg;
    r->doorbell.cpus = cpus;
    open_mine(r, w);
    int error = steps_agree(&w->steps, "table of doorbells",
                            cards != NULL ? 0 : error_set(BATON_ENOMEM, "no memory for the table of doorbells"));
    if (error == 0)
        error = steps_allgather(&w->steps, "doorbells", &r->doorbell.card, sizeof *cards, cards);
    if (error && w->steps.is_lost)
        return error; /* MPI may still write into the table */
    if (error == 0)
        error = steps_unanimous(&w->steps, "do doorbells ring", works(r, w, cards), &all);
    free(cards);
    r->listens = r->was_rung = error == 0 && all && w->mode == BATON_PROGRESS_THREAD;
    if (error == 0 && all)
        return 0;
    if (r->why_not[0] == '\0')
        snprintf(r->why_not, sizeof r->why_not, "another rank has none: its log says why");
    log_line(w->log, LOG_INFO, "no rank can wake one of another node: %s", r->why_not);
    doorbell_close(&r->doorbell);
    return error;
}

/* A rank that does not answer, or -1, and why this one does not listen, or 0. */
struct obstacle {
    int64_t silent;
    int deaf;
};

static struct obstacle obstacle_of(const struct ringing *r)
{
    if (!r->doorbell.is_open)
        return (struct obstacle){.silent = -1};
    return (struct obstacle){atomic_load_explicit(&r->doorbell.silent, memory_order_relaxed),
                             atomic_load_explicit(&r->doorbell.deaf, memory_order_relaxed)};
}

static bool has_none(const struct obstacle *o)
{
    return o->silent < 0 && o->deaf == 0;
}

/* What holds rings up. */
static void print_why(const struct ringing *r, const struct obstacle *o, char text[80])
{
    if (o->deaf != 0)
        snprintf(text, 80, "rings cannot be waited for: %s", strerror(o->deaf));
    else if (o->silent >= 0)
        snprintf(text, 80, "rank %" PRId64 " does not answer rings by UDP", o->silent);
    else
        snprintf(text, 80, "%s", r->why_not);
}

bool ringing_is_rung(const struct ringing *r)
{
    const struct obstacle o = obstacle_of(r);
    return r->listens && has_none(&o);
}

void ringing_flush(struct ringing *r, const struct world *w)
{
    char why[80];
    doorbell_flush(&r->doorbell);
    const struct obstacle o = obstacle_of(r);
    if (!r->listens || has_none(&o) == r->was_rung)
        return;
    r->was_rung = has_none(&o);
    print_why(r, &o, why);
    if (r->was_rung)
        log_line(w->log, LOG_WARN, "rings are answered again: messages of other nodes ring");
    else
        log_line(w->log, LOG_WARN, "%s: messages of other nodes are looked for every %" PRIu64 " us", why,
                 w->settings.idle_us);
}

void ringing_describe(const struct ringing *r, const struct world *w, struct textbuf *p)
{
    const struct doorbell *d = &r->doorbell;
    const struct obstacle o = obstacle_of(r);
    char why[80];
    if (w->nodes < 2)
        return;
    print_why(r, &o, why);
    if (!d->is_open || !has_none(&o))
        textbuf_print(p, "doorbell: none, other nodes are looked for every %" PRIu64 " us: %s\n", w->settings.idle_us,
                      why);
    else if (!r->listens)
        textbuf_print(p, "doorbell: the caller makes progress and is not woken; it wakes others by UDP\n");
    else
        textbuf_print(
            p, "doorbell: ranks of other nodes wake this one by UDP, at port %u; %" PRIu64 " other datagrams came\n",
            d->card.port, atomic_load_explicit(&d->strange, memory_order_relaxed));
}
