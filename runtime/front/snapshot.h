/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot: what the reactor last said about itself: handshakes under way, and why it closes without other ranks. The
 * reactor writes it, any thread reads it, each under the lock; whoever makes turns does not wait for that.
 */
#ifndef BATON_FRONT_SNAPSHOT_H
#define BATON_FRONT_SNAPSHOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#define SNAPSHOT_PENDING 64
#define SNAPSHOT_WHY 256

struct core;

struct snapshot {
    pthread_mutex_t lock;
    baton_pending_t pending[SNAPSHOT_PENDING];
    int num_pending;
    char why[SNAPSHOT_WHY]; /* why windows cannot be freed; empty if they can */
};

void snapshot_init(struct snapshot *s);
void snapshot_fini(struct snapshot *s);

/** The handshakes under way by now. False: a thread reads just now, and nothing has changed. */
bool snapshot_put(struct snapshot *s, const struct core *core, uint64_t now);
void snapshot_put_why(struct snapshot *s, const char *why);

/** Writes `max` at most. Returns how many. */
uint32_t snapshot_pending(struct snapshot *s, baton_pending_t *out, uint32_t max);
void snapshot_why(struct snapshot *s, char out[SNAPSHOT_WHY]);

#endif
