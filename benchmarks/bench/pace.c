/* SPDX-License-Identifier: BSD-3-Clause */
/* pace: see pace.h. */
#include "bench/pace.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

void pace_begin(struct pace *p, struct bench *b, uint64_t least, uint64_t most, const char *format, ...)
{
    const struct options *o = &b->options;
    va_list args;
    *p = (struct pace){.report = &b->report,
                       .seconds = o->seconds,
                       .least = o->iters ? o->iters : least,
                       .most = o->iters ? o->iters : most,
                       .begin_ns = clock_now_ns()};
    va_start(args, format);
    vsnprintf(p->what, sizeof p->what, format, args);
    va_end(args);
}

bool pace_next(struct pace *p)
{
    const double share = (double)(clock_now_ns() - p->begin_ns) / 1e9 / p->seconds;
    if (p->done >= p->most || (p->done >= p->least && share >= 1))
        return false;
    const double turns = (double)p->done / (double)p->most;
    report_progress(p->report, p->what, p->least == p->most || turns > share ? turns : share);
    p->done++;
    return true;
}

bool pace_next_together(struct pace *p, const struct bench *b)
{
    int more = pace_next(p);
    MPI_Bcast(&more, 1, MPI_INT, b->consumer, b->roster.comm);
    return more;
}
