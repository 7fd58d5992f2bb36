/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: requests of a scene that are on offer before the first of them is wanted. In a stream the consumer wants them
 * one after the other, a few at a time, and when all were moved the producer offers as many again. A streak is a number
 * of them, each wanted at once after the one before, and timed. All ranks call all functions.
 */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

#include "bench/scene.h"

#define STREAM_DEPTH 2u   /* wants of a stream at a time */
#define STREAM_STREAK 33u /* transfers of a streak that is measured */

struct stream {
    struct scene *scene;
    uint32_t batch, count;     /* requests that are on offer at once */
    uint64_t serial, place;    /* of the first of them */
    baton_id_t *offers;        /* the producer's */
    uint32_t next, done, last; /* the consumer's: the next request, how many have ended, and which one did so last */
    struct stream_slot {
        bool open;
        uint32_t index;
        baton_id_t id;
    } slot[STREAM_DEPTH];
};

void stream_open(struct stream *t, struct scene *s, uint32_t batch, uint32_t count);
/** For the consumer, from time to time: wants until that moment. Returns the bytes that came. */
uint64_t stream_run(struct stream *t, uint64_t until_ns);
/** Both sides take back what is left, and the last request that was done is compared byte by byte. The producer comes
   here at once, and serves the stream. */
void stream_close(struct stream *t);

/**
 * `count` offers, then the pause, then their wants one after the other, each timed until its event; out[count]. What
 * all of them cost stands in the first. The last one moves into poisoned blocks, and is compared byte by byte. Not
 * with verdicts.
 */
void stream_streak(struct scene *s, uint32_t batch, uint32_t count, struct transfer *out);
/** A streak into a row (NULL: into none), but for its first transfer, which comes after a pause. */
void stream_take(struct scene *s, uint32_t batch, baton_path_t path, struct transfers *row);

#endif
