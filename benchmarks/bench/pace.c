/* SPDX-License-Identifier: BSD-3-Clause */
/* pace: see pace.h. */
#include "bench/pace.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/channel.h"

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

bool pace_next(struct pace *p)
{
    const struct bench *b = p->bench;
    const double share = (double)(clock_now_ns() - p->begin_ns) / 1e9 / p->seconds;
    bool more = p->done < p->most && (p->done < p->least || share < 1);
    const double turns = (double)p->done / (double)p->most;
    if (more && p->what[0] != '\0')
        report_progress(&p->bench->report, p->what, p->least == p->most || turns > share ? turns : share);
    channel_share(b->roster.comm, b->consumer, &more, sizeof more);
    p->done += more;
    return more;
}
