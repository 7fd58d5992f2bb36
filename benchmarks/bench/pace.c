/* SPDX-License-Identifier: BSD-3-Clause */
/* pace: see pace.h. */
#include "bench/pace.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/roster.h"

void pace_begin(struct pace *p, struct bench *b, uint64_t least, uint64_t most, const char *format, ...)
{
    const struct options *o = &b->options;
    va_list args;
    *p = (struct pace){.bench = b,
                       .seconds = o->seconds,
                       .least = o->iters ? o->iters : least,
                       .most = o->iters ? o->iters : most,
                       .begin_ns = clock_now_ns()};
    va_start(args, format);
    vsnprintf(p->what, sizeof p->what, format, args);
    va_end(args);
}

void pace_begin_warming(struct pace *p, struct bench *b, uint64_t most, double seconds)
{
    *p = (struct pace){.bench = b, .seconds = seconds, .least = 1, .most = most, .begin_ns = clock_now_ns()};
}

/* How many turns follow: those that must, or half of what fits into the time that is left. A message before each turn
   would be in its time: what it touches lies in the processor's caches in place of what a transfer needs. */
static uint64_t grant(const struct pace *p, double share)
{
    const uint64_t left = p->most - p->done;
    const double half = (double)p->done * (1 - share) / share / 2;
    if (p->done < p->least)
        return p->least - p->done;
    if (left == 0 || share >= 1)
        return 0;
    return half < 1 ? 1 : half < (double)left ? (uint64_t)half : left;
}

bool pace_next(struct pace *p)
{
    const struct bench *b = p->bench;
    const double share = (double)(clock_now_ns() - p->begin_ns) / 1e9 / p->seconds;
    const double turns = (double)p->done / (double)p->most;
    if (p->granted == 0) {
        p->granted = grant(p, share);
        channel_share(b->roster.comm, b->consumer, &p->granted, sizeof p->granted);
    }
    if (p->granted == 0)
        return false;
    if (p->what[0] != '\0')
        report_progress(&p->bench->report, p->what, p->least == p->most || turns > share ? turns : share);
    p->granted--;
    p->done++;
    return true;
}
