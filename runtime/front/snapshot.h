/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot: what the reactor last said about itself: counts, handshakes under way, and why it closes without other
 * ranks. The reactor writes it, any thread reads it, each under the lock.
 */
#ifndef BATON_FRONT_SNAPSHOT_H
#define BATON_FRONT_SNAPSHOT_H

#include <pthread.h>
#include <stdint.h>

#include "baton.h"

#define SNAPSHOT_PENDING 64
#define SNAPSHOT_WHY 256

struct core;

struct snapshot {
    pthread_mutex_t lock;
    baton_stats_t stats;
    baton_pending_t pending[SNAPSHOT_PENDING];
    int num_pending;
    char why[SNAPSHOT_WHY]; /* why windows cannot be freed; empty if they can */
};

void snapshot_init(struct snapshot *s);
void snapshot_fini(struct snapshot *s);

void snapshot_put(struct snapshot *s, const baton_stats_t *stats, const struct core *core, uint64_t now);
void snapshot_put_why(struct snapshot *s, const char *why);

void snapshot_stats(struct snapshot *s, baton_stats_t *out);
/** Returns how many it wrote. */
int snapshot_pending(struct snapshot *s, baton_pending_t out[SNAPSHOT_PENDING]);
void snapshot_why(struct snapshot *s, char out[SNAPSHOT_WHY]);

#endif
