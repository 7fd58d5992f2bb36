/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load: a run at the trace's clock (--speed) as one point of latency against load. A request's latency runs from the
 * moment when it arrives, whether or not it could be called for then, until the last rank of its decode engine has all
 * that it wanted. So what waits for a place counts, and a run that falls behind cannot look fast. Pure.
 */
#ifndef REPLAY_LOAD_H
#define REPLAY_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/quantiles.h"
#include "replay/trace.h"

/** What a rank knows of a request. Over several ranks the most of each counts. */
struct load_times {
    uint64_t latency_ns;  /* 0: not wanted here; LOAD_FAILED: it did not end done */
    uint64_t late_ns;     /* how long after the arrival it was called for */
    uint64_t received_ns; /* since the run's start */
    uint64_t waited;      /* 1: it arrived and found no place */
};

#define LOAD_FAILED UINT64_MAX
#define LOAD_TIMES (sizeof(struct load_times) / sizeof(uint64_t))

/** Of a want that was called for at begin_ns and ended total_ns later. The other moments are of the same clock.
   `waited` is not set. */
struct load_times load_times(uint64_t start_ns, uint64_t arrival_ns, uint64_t begin_ns, bool done, uint64_t total_ns);

struct load {
    double speed;             /* 0: the run had no clock, and there is no point */
    double offered_per_s;     /* requests; 0: all arrive at one moment */
    double offered_gb_per_s;  /* of what is wanted */
    double achieved_per_s;    /* until the last one was received, and a mean gap more: as what is offered is counted */
    double achieved_gb_per_s; /* likewise */
    struct quantiles latency, late;
    uint32_t waited;                /* requests that found no place at a rank of either side */
    uint32_t done, failed, in_time; /* requests; in time: within the deadline */
    double in_time_per_s;
};

/** In bytes: what was wanted in all, and of that what came. */
struct load_bytes {
    uint64_t wanted, done;
};

/** `room` holds a number for each request. deadline_ms 0: there is none. */
struct load load_point(const struct trace *trace, double speed, const struct load_times *times, struct load_bytes bytes,
                       uint32_t deadline_ms, uint64_t *room);

#endif
