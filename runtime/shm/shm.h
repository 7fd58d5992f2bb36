/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: the paths to ranks whose segments are mapped here. Cards, tables and generations are read by loads, at once.
 * Blocks are copied by the copy workers (shm/copy.h), or at once, where that takes less time than a worker takes to
 * wake: by loads and stores where the rank's cache is mapped here too, else by cross-memory attach. One that is mapped
 * for reading alone may be written by that. What lies in this rank's own cache is hashed and zeroed by the same
 * workers.
 *
 * THE FENCE OF CROSS-MEMORY ATTACH. The kernel knows the other process by its id, which another process may have after
 * its end, and another program after execve(2), while the generation lives on in shared memory. So each call that reads
 * proves that its bytes are those of the right program (attach.c), and the generation is compared after the last one.
 * The same is true of files that engines own and that are mapped here.
 *
 * The reactor's, all of it. The segments are made elsewhere and outlive the path.
 */
#ifndef BATON_SHM_SHM_H
#define BATON_SHM_SHM_H

#include "base/process.h"
#include "core/port.h"
#include "shm/copy.h"
#include "shm/vicinity.h"

struct shm;

/** What is known here of one neighbour's segment. */
struct shm_segment {
    uint8_t *mapped; /* NULL: it is not mapped here, and this path does not lead there */
    uint64_t bytes;
    struct process process; /* with its sample. The path forgets it at the end, also if it cannot be made */
};

/**
 * Where a rank's cache is read and written, by region: addresses of this process, or of the rank's, for cross-memory
 * attach. By which path a region is reached, is for the caller of `move` to know. NULL: not at all. All of it must
 * outlive the path.
 */
struct shm_memory {
    char *const *read, *const *write;
    const struct path_regions *regions; /* how long they are; a leg that leaves them fails */
    bool is_engines;                    /* what is mapped of it lies in files of its engine's */
};

struct shm_wish {
    const struct vicinity *vicinity;    /* outlives this */
    const struct shm_segment *segments; /* by spot, mine too; that of spot 0 is nobody's. Copied */
    const struct shm_memory *memory;    /* likewise */
    uint64_t workers, worker_bytes;     /* threads that copy; bytes queued for each */
    uint64_t inline_bytes;              /* a move of at most so many is copied at once, by the reactor */
    const char *cpus;                   /* the hardware threads of these (base/thread.h) */
    copy_done_fn *look;                 /* called by a worker: a job was copied, or it was asked (shm/copy.h) */
    void *arg;                          /* its first */
    const struct logger *log;
};

/** Starts the copy workers. 0, BATON_ENOMEM or BATON_ESYSTEM. */
int shm_create(const struct shm_wish *wish, struct shm **out);

/**
 * The table of core/path.h, for regions that are mapped here and ranks that have none. Its `close` joins the copy
 * workers and frees *s.
 */
void shm_path(struct shm *s, struct path *out);

/** The same for regions that are reached by cross-memory attach. shm_path's `progress` tells of both. */
void shm_attach_path(struct shm *s, struct path *out);

/** As port.sum and port.zero. */
int shm_sum(struct shm *s, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
            uint64_t *out, uint64_t tag);
int shm_zero(struct shm *s, const struct plan_transfer *transfer, uint64_t tag);

/** After the core's step: wakes copy workers that sleep, for what was handed to them in it. */
void shm_wake(struct shm *s);

/** As copy_ask. */
bool shm_ask(struct shm *s);

/** As copy_help. */
bool shm_help(struct shm *s);

/** The hardware threads that the copy workers run on, as a list. */
void shm_worker_cpus(const struct shm *s, char *list, size_t size);

/** Whether a rank's process lives, as the system says. PORT_UNKNOWN: its id is not known here. */
enum port_alive shm_alive(struct shm *s, uint32_t peer);

#endif
