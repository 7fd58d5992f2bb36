/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command: what the consumer of a stage tells its producer, and what stage.c and stream.c share besides.
 */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "bench/effort.h"
#include "bench/stage.h"

enum command_kind {
    COMMAND_OFFER = 1,
    COMMAND_CALL, /* behind COMMAND_OFFER: make the call that is timed */
    COMMAND_RAW_WRITE,
    COMMAND_ECHO,
    COMMAND_HOLD,
    COMMAND_GO_ON,
    COMMAND_STREAM,
    COMMAND_STREAM_END,
    COMMAND_STREAK,
    COMMAND_FOOTPRINT,
    COMMAND_END
};

struct command {
    uint32_t kind, batch, stage;
    uint32_t way;   /* OFFER: enum bench_from; CALL: is_awake; RAW_WRITE: enum raw_way; HOLD: enum channel_wait */
    uint32_t count; /* STREAM, STREAK: requests, from this serial and place on */
    uint64_t place, serial;
    int64_t rest_ns; /* CALL */
};

struct answer {
    struct stage_footprint footprint; /* to COMMAND_FOOTPRINT, else 0 */
    struct effort effort;           /* to COMMAND_OFFER, COMMAND_CALL and COMMAND_STREAK, when the offers have ended */
    uint64_t ns;                    /* to COMMAND_RAW_WRITE */
    uint64_t begin_ns, returned_ns; /* to COMMAND_CALL: before and after the call */
};

/** For the consumer: waits for the answer, asleep. out may be NULL. */
void stage_command(struct stage *s, struct command c, struct answer *out);

/** The key of a request. */
void stage_key(uint64_t serial, char key[BATON_KEY_MAX]);

/** For the time that the stage says, Baton's threads fall asleep, and the caller too unless it is to be awake. */
void stage_rest(const struct stage *s);

/** A want of s->table. */
struct wanted {
    const char *key;
    uint32_t batch;
    bool scribble; /* over s->table, once it is wanted */
};

/** A transfer of what is on offer, timed; without what it cost. */
void stage_time_want(struct stage *s, const struct wanted *w, struct stage_transfer *out);

/** The producer's part of a stream: its offers, and what is left of them at the end. */
void stream_offer(struct stage *s, const struct command *c);
void stream_take_back(struct stage *s);

/** The producer's part of a streak: its offers, an answer, and one more when they have ended. */
void stream_serve_streak(struct stage *s, const struct command *c);

/** To the consumer. */
void stage_answer(struct stage *s, const struct answer *a);

#endif
