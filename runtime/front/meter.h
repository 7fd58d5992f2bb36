/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meter: this rank's metrics, and the page in shared memory that shows them to other processes (BATON_METRICS).
 *
 * It belongs to whoever makes turns. The page is renewed by time, not by event: METER_NS after the first change that it
 * does not show yet. A call that makes turns itself leaves that to the reactor. A rank to which nothing happens renews
 * nothing, and is woken once at most to show what happened before.
 */
#ifndef BATON_FRONT_METER_H
#define BATON_FRONT_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "observe/metrics_page.h"

#define METER_VARIABLE "BATON_METRICS"
#define METER_NS UINT64_C(100000000)

struct baton;
struct outcome;

struct meter {
    struct metrics *metrics;   /* NULL: there is no page, and nothing is counted for one */
    struct metrics_page *page; /* with them */
    uint64_t news_ns;          /* since when the page lacks something; 0: it does not */
    bool is_closing;           /* the next renewal is the last one, and is due */
    /* any thread */
    _Atomic uint64_t stalls; /* turns that lasted too long */
    _Atomic bool is_stalled; /* the page says that this rank is stuck */
};

/**
 * Makes the page, once the directory is known. 0, or BATON_ESETTING: the job's name is malformed. Where the page cannot
 * be made, it warns, and the rank runs without.
 */
int meter_start(struct baton *b, char *(*lookup)(const char *variable));
/** Removes the page, unless its name came from outside. */
void meter_fini(struct meter *m);

/** An outcome is handed out. */
void meter_hear(struct baton *b, const struct outcome *outcome);
/** Something has happened that the page lacks: it is due in METER_NS. */
void meter_news(struct meter *m, uint64_t now);
/** A snapshot is taken. Renews the page if it is due. */
void meter_take(struct baton *b, uint64_t now);
/** When meter_take is due, by the monotonic clock; UINT64_MAX: nothing has changed. */
uint64_t meter_due_ns(const struct meter *m);

/** The watchdog: the reactor has been inside MPI for so long. */
void meter_stall(struct meter *m, uint64_t inside_ns);

#endif
