/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit: how fast the path itself is for the same kind of blocks, measured in turn with Baton in the same run.
 *
 * Path shm: the consumer copies scattered blocks from the producer's mapped pool into its own; path cma: it reads them
 * by process_vm_readv alone; both by as many threads as Baton has copy workers (scatter.h). Path rma: raw MPI, by each
 * of its ways in turn. Each measurement draws blocks of its own, so that neither side finds the other's blocks in the
 * processor's cache. All ranks call all functions.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/samples.h"
#include "bench/scatter.h"
#include "bench/scene.h"

/* ---- raw MPI ----------------------------------------------------------------------------------------------------- */

/*
 * The same bytes, moved by MPI alone. The benchmark has a window of its own over the bytes of the caches, on a
 * communicator of its own, locked until the end by lock_all(NOCHECK). The target waits inside MPI. Which way is the
 * fastest depends on the window's component, so there are three.
 *
 * Baton exposes the same bytes by windows of its own. That is sound, since only one of the two moves bytes at a time.
 */
#define RAW_OUTSTANDING 64

struct raw {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Request request[RAW_OUTSTANDING];
    uint64_t stalls; /* reads whose completion MPI lost, and a flush replaced */
};

enum raw_way {
    RAW_EACH,   /* an MPI_Rget or MPI_Rput a piece, up to 64 of them outstanding, tested by MPI_Testsome */
    RAW_FLUSH,  /* MPI_Get or MPI_Put of all pieces, then one MPI_Win_flush */
    RAW_GROUPS, /* 63 MPI_Get and an MPI_Rget in turn; its completion says that of those before, on osc/ucx: no puts */
    RAW_WAYS
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

/** Tells the next piece. False: there is none. */
typedef bool (*raw_next_fn)(void *arg, struct raw_piece *out);

/** How many of the ways, from the first on, there are for puts or for gets. */
unsigned raw_ways(bool put);
/** Its name, by the calls. */
const char *raw_way_name(enum raw_way way, bool put);

/**
 * Reads (or with `put`, writes) what next(arg, &piece) names until it returns false. The nanoseconds until all is
 * complete, or 0 where it stalled.
 */
uint64_t raw_move(struct raw *r, enum raw_way way, bool put, raw_next_fn next, void *arg);

/**
 * 64 gets of `bytes` each, at random in the first `span` bytes of the peer's pool, into `to`, and one flush: the
 * nanoseconds of one.
 */
double raw_get_ns(struct raw *r, int peer, char *to, uint64_t span, int bytes, uint64_t *random);

/** The window's name as MPI has it, which tells its component. */
void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME]);

/* ---- the limit of a path ----------------------------------------------------------------------------------------- */

struct limit {
    struct scene *scene;
    baton_path_t path;
    struct copies copies; /* of the consumer */
    struct raw raw;
    struct ways ways; /* samples of the consumer */
};

/** All ranks learn the path between the two from the consumer. */
void limit_open(struct limit *l, struct scene *s);
void limit_close(struct limit *l);

/** Notes in the report how the path is measured. */
void limit_note(const struct limit *l);

/** One measurement, of each way in turn. */
void limit_measure(struct limit *l, uint32_t batch);
/** What a pull has to do at least over path rma: a message to the producer and its answer, then MPI_Get and a flush.
   Both wait inside MPI. Nanoseconds, and 0 where it was not measured. */
uint64_t limit_ask_and_read(struct limit *l, uint32_t batch);

/** For the consumer: the best way's median, and 0 without samples. *way names that way. */
uint64_t limit_best_ns(struct limit *l, const char **way);

#endif
