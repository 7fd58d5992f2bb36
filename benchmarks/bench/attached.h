/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attached: process_vm_readv(2) alone, as the limit of cross-memory attach: like blocks of the producer's memory into
 * like blocks of the consumer's, up to 1,024 in one call, by as many threads as Baton has copy workers (crew.h).
 */
#ifndef BENCH_ATTACHED_H
#define BENCH_ATTACHED_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "bench/stage.h"
#include "bench/crew.h"

struct attached {
    struct stage *stage;
    int process; /* the producer's */
    char *theirs;
    struct iovec *mine_piece, *their_piece; /* room for the largest batch */
    uint32_t batch;                         /* of the measurement under way */
    struct crew crew;
    atomic_uint failed;
};

/** Collective. The threads run on the consumer. */
void attached_open(struct attached *a, struct stage *s);
void attached_close(struct attached *a);

/** For the consumer: reads `batch` fresh blocks. The nanoseconds. */
uint64_t attached_read(struct attached *a, uint32_t batch);

#endif
