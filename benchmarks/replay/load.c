/* SPDX-License-Identifier: BSD-3-Clause */
/* load: see load.h. */
#include "replay/load.h"

static uint64_t behind(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

struct load_times load_times(uint64_t start_ns, uint64_t arrival_ns, uint64_t begin_ns, bool done, uint64_t total_ns)
{
    const uint64_t received_ns = begin_ns + total_ns, latency_ns = behind(arrival_ns, received_ns);
    return (struct load_times){.latency_ns = !done            ? LOAD_FAILED
                                             : latency_ns > 0 ? latency_ns
                                                              : 1,
                               .late_ns = behind(arrival_ns, begin_ns),
                               .received_ns = behind(start_ns, received_ns)};
}

static double per_s(double amount, double ns)
{
    return ns > 0 ? amount * 1e9 / ns : 0;
}

/* Requests a second between the first arrival and the last. */
static double offered(const struct trace *t, double speed)
{
    const double ms = (double)(t->requests[t->count - 1].arrival_ms - t->requests[0].arrival_ms);
    return speed > 0 ? per_s(t->count - 1, ms * 1e6 / speed) : 0;
}

static uint64_t last_received(const struct trace *t, const struct load_times *times)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->count; i++)
        last = times[i].received_ns > last ? times[i].received_ns : last;
    return last;
}

struct load load_point(const struct trace *trace, double speed, const struct load_times *times, struct load_bytes bytes,
                       uint32_t deadline_ms, uint64_t *room)
{
    struct load l = {.speed = speed, .offered_per_s = offered(trace, speed)};
    /* A request counts with the mean time to the next one, as in what is offered: a run that keeps up achieves that. */
    const double gap_ns = l.offered_per_s > 0 ? 1e9 / l.offered_per_s : 0;
    const double end_ns = (double)last_received(trace, times) + gap_ns;
    for (uint32_t i = 0; i < trace->count; i++) {
        room[i] = times[i].late_ns;
        l.waited += times[i].waited > 0;
    }
    l.late = quantiles_of(room, trace->count);
    for (uint32_t i = 0; i < trace->count; i++) {
        l.failed += times[i].latency_ns == LOAD_FAILED;
        if (times[i].latency_ns == LOAD_FAILED || times[i].latency_ns == 0)
            continue;
        l.in_time += times[i].latency_ns <= (uint64_t)deadline_ms * 1000000;
        room[l.done++] = times[i].latency_ns;
    }
    l.latency = quantiles_of(room, l.done);
    l.achieved_per_s = per_s(l.done, end_ns);
    l.achieved_gb_per_s = per_s((double)bytes.done / 1e9, end_ns);
    l.in_time_per_s = per_s(l.in_time, end_ns);
    l.offered_gb_per_s = l.offered_per_s * (double)bytes.wanted / 1e9 / trace->count;
    return l;
}
