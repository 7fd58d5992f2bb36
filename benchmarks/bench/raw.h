/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw: what MPI alone makes of the same blocks. A window of the benchmark's own over the very bytes of the caches, on
 * a communicator of its own, locked for life with lock_all(NOCHECK): one MPI_Rget or MPI_Rput of contiguous bytes a block, up to
 * 64 outstanding, tested by MPI_Testsome, while the target waits inside MPI.
 *
 * Baton exposes the same bytes by windows of its own. That is sound since only one of the two moves bytes at a
 * time.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <mpi.h>

#include "bench/stage.h"

#define RAW_OUTSTANDING 64

struct raw {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Request request[RAW_OUTSTANDING];
    uint64_t stalls; /* reads that a flush had to end, since MPI lost a completion */
};

/** Collective over all ranks of the bench. */
void raw_open(struct raw *r, const struct stage *s);
void raw_close(struct raw *r);

/**
 * The blocks drawn last: the consumer reads them, the producer writes them. The nanoseconds until all requests are
 * complete, or 0 where it stalled.
 */
uint64_t raw_move(struct raw *r, const struct stage *s, uint32_t batch);

/** The window's name as MPI has it, which tells its component. */
void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME]);

#endif
