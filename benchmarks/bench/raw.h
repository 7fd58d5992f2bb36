/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw: moves the same bytes by MPI alone. The benchmark has a window of its own over the bytes of the caches, on a
 * communicator of its own, locked until the end by lock_all(NOCHECK). One MPI_Rget or MPI_Rput moves each contiguous
 * piece. Up to 64 are outstanding and tested by MPI_Testsome, while the target waits inside MPI.
 *
 * Baton exposes the same bytes by windows of its own. That is sound, since only one of the two moves bytes at a time.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define RAW_OUTSTANDING 64

struct raw {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Request request[RAW_OUTSTANDING];
    uint64_t stalls; /* reads whose completion MPI lost, and a flush replaced */
};

/** Contiguous bytes of one pool and of another rank's. */
struct raw_piece {
    int peer;
    char *mine;
    MPI_Aint theirs;
    int bytes;
};

/** Collective over `comm`. `pool` may be NULL, and bytes 0. */
void raw_open(struct raw *r, MPI_Comm comm, char *pool, uint64_t bytes);
void raw_close(struct raw *r);

/**
 * Reads (or with `put`, writes) what next(arg, &piece) names until it returns false. The nanoseconds until all requests
 * are complete, or 0 where it stalled.
 */
uint64_t raw_move(struct raw *r, bool put, bool (*next)(void *arg, struct raw_piece *out), void *arg);

/**
 * 64 gets of `bytes` each, at random in the first `span` bytes of the peer's pool, into `to`, and one flush: the
 * nanoseconds of one.
 */
double raw_get_ns(struct raw *r, int peer, char *to, uint64_t span, int bytes, uint64_t *random);

/** The window's name as MPI has it, which tells its component. */
void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME]);

#endif
