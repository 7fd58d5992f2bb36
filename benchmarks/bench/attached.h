/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attached: process_vm_readv(2) alone, as the limit of cross-memory attach: like blocks of the producer's memory into
 * like blocks of the consumer's, up to 1,024 in one call, by as many threads as Baton has copy workers. The threads
 * are awake when the clock starts.
 */
#ifndef BENCH_ATTACHED_H
#define BENCH_ATTACHED_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "bench/stage.h"

struct attached {
    struct stage *stage;
    int process; /* the producer's */
    char *theirs;
    struct iovec *mine_piece, *their_piece; /* room for the largest batch */
    uint32_t batch;                         /* of the measurement under way */
    unsigned num_threads;
    pthread_t *threads; /* all but the caller's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t round; /* under the lock; changes when a measurement begins */
    bool ends;      /* under the lock */
    atomic_uint next, awake, done, failed;
    atomic_bool go;
};

/** Collective. The threads run on the consumer. */
void attached_open(struct attached *a, struct stage *s);
void attached_close(struct attached *a);

/** For the consumer: reads `batch` fresh blocks. The nanoseconds. */
uint64_t attached_read(struct attached *a, uint32_t batch);

#endif
