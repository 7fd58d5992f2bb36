/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy: worker threads that copy slices of a transfer between my pool and a peer's mapped one, and what else is done
 * with the bytes of a plan on this node.
 *
 * Whoever makes turns (front/turns.h) submits jobs and collects them. A worker copies, then fences (sfence: a release
 * store alone does not order streaming stores), then publishes the completion by a release store. The acquire of who
 * collects it pairs with that, so whatever is read afterwards is read after the last byte. Then a worker may make turns
 * itself (copy_done_fn).
 */
#ifndef BATON_SHM_COPY_H
#define BATON_SHM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/path.h"
#include "plan/plan.h"

struct process;

/** One side's cache. */
struct copy_side {
    char *const *bases;                 /* by region; may be NULL entries where unused */
    const struct path_regions *regions; /* how long they are; their places are not used */
};

/** Whether all of these runs lie within both. */
static inline bool copy_holds(const struct copy_side *src, const struct copy_side *dst, const struct plan_run *runs,
                              uint32_t n)
{
    bool holds = true;
    for (uint32_t i = 0; i < n; i++)
        holds &= path_holds(src->regions, runs[i].src_region, runs[i].src, runs[i].bytes) &&
                 path_holds(dst->regions, runs[i].dst_region, runs[i].dst, runs[i].bytes);
    return holds;
}

/**
 * A slice of a transfer to copy. Where `attached` is set, the bases of the side that is not mine are addresses of that
 * process; its slice is read (or with `write` written) by cross-memory attach. Where `proof` is set, that side is
 * mapped here, from a file that may be another program's by now: what was copied counts only if the process still runs
 * its program (process_program) behind the last byte, and nothing is written unless it does before. With `sums`
 * instead: parts [first, first + count) to hash, as they lie at src or, where that has no bases, at dst. With `zero`
 * instead: zeros for all of the destination. The transfer and its tables must live until the job was collected.
 */
struct copy_job {
    const struct plan_transfer *transfer;
    struct plan_cursor from;
    uint64_t bytes; /* as plan_skip returned */
    struct copy_side src, dst;
    uint64_t tag; /* the caller's */
    const struct process *attached, *proof;
    bool write;
    bool more; /* further jobs of its leg follow: its completion may be told with theirs */
    uint64_t *sums;
    uint32_t first, count;
    bool zero;
    bool is_timed; /* its end says when it began and ended */
};

/** Copies of at most this many bytes are short: they overtake longer jobs that wait. */
#define COPY_SHORT_BYTES (UINT64_C(256) << 10)

/** What became of a job. */
struct copy_end {
    uint64_t tag, bytes;
    int error;
    bool is_attached;            /* it was of another process's memory */
    int cause;                   /* with BATON_ESYSTEM: the kernel's errno */
    uint8_t worker;              /* that did it, from 1; 0: the caller */
    uint64_t began_ns, ended_ns; /* of a job that is timed */
};

struct copy_pool;

/** See copy_pool_create. */
typedef void copy_done_fn(void *arg, bool runs_out);

/**
 * Starts `workers` threads that hold at most `depth` jobs between them, on the hardware threads `cpus` (base/thread.h).
 * A worker calls `look(arg, runs_out)` after copy_ask, and after each completion that is to be collected soon: not
 * after those of jobs with `more` that did not fail while more than `workers` jobs wait. `runs_out`: no more than that
 * wait, or copy_ask was called, so the worker may collect it itself. `look` must not wait for anything. Returns 0,
 * BATON_ENOMEM or BATON_ESYSTEM.
 */
int copy_pool_create(unsigned workers, const char *cpus, size_t depth, copy_done_fn *look, void *arg,
                     struct copy_pool **out);

/** Wakes a worker to look for work, before its next job. False: jobs wait, or all have one. Any thread. */
bool copy_ask(struct copy_pool *pool);

/**
 * Does a slice of a long copy that a worker has begun, 128 KiB of most, in the calling thread. If the job ends by that,
 * `look` is called as by a worker. False: there is none to be done, and the next copy is shared with who asks again.
 * Any thread, until copy_pool_destroy.
 */
bool copy_help(struct copy_pool *pool);

/** The hardware threads that the first worker runs on, as a list. */
void copy_pool_cpus(const struct copy_pool *pool, char *list, size_t size);

/** Waits until all jobs are done, and joins the threads. */
void copy_pool_destroy(struct copy_pool *pool);

/** Does a job at once, in the calling thread: what became of it. */
struct copy_end copy_now(const struct copy_job *job);

/**
 * Hands over a job, which is copied. False: `depth` jobs are there; collect first. Jobs end in any order. Workers that
 * sleep are woken by copy_wake alone. By one thread at a time.
 */
bool copy_submit(struct copy_pool *pool, const struct copy_job *job);

/** Wakes the workers if jobs were handed over since the last call. Whoever may call copy_submit. */
void copy_wake(struct copy_pool *pool);

/**
 * Takes one completion. False: none. Whoever may call copy_submit. Without error every byte of the job is in place.
 */
bool copy_collect(struct copy_pool *pool, struct copy_end *end);

/* ---- attach.c: another process's memory -------------------------------------------------------------------------- */

/**
 * Reads (or with `write` writes) the next `bytes` of a transfer from a cursor on; `theirs` are addresses of the
 * process. 0: the sample proves that it is the right program. BATON_EPEER: the process has ended, or runs another
 * program, whose memory was not written but for the race that attach.c describes. BATON_ESYSTEM: the kernel refused.
 * BATON_EMESSAGE: the transfer leaves the regions.
 */
int attach_slice(const struct process *process, bool write, const struct plan_transfer *transfer,
                 struct plan_cursor from, uint64_t bytes, const struct copy_side *mine, const struct copy_side *theirs);

/* ---- sums.c: what else is done with the bytes of a plan ---------------------------------------------------------- */

/**
 * Hashes parts [first, first + count) of one side of a transfer: out[i] is XXH3_64bits of part first + i's bytes in the
 * order of the plan (plan_part). `bases`, by region, are those of the source or, without `source`, of the destination.
 */
void copy_sums(const struct plan_transfer *transfer, bool source, char *const *bases, uint32_t first, uint32_t count,
               uint64_t *out);

/** Stores zeros into all that a transfer names of its destination. */
void copy_zeros(const struct plan_transfer *transfer, char *const *dst_bases);

/* ---- kernels.c: the ways of copying ------------------------------------------------------------------------------ */

enum copy_kernel {
    COPY_AUTO,        /* what measured best for these runs */
    COPY_MEMCPY,      /* the C library's */
    COPY_STREAM,      /* streaming stores, the widest this CPU has, prefetch ahead */
    COPY_STREAM_AVX2, /* the same with stores of 32 bytes, if the CPU has them */
    COPY_STREAM_SSE2  /* and of 16 */
};

/** Copies `n` runs, prefetching ahead over all of them. Streaming stores are fenced (sfence) before it returns. */
void copy_runs(enum copy_kernel kernel, const struct plan_run *runs, uint32_t n, const char *const *src_bases,
               char *const *dst_bases);

/**
 * The same for the next `bytes` of a transfer from a cursor on, by COPY_AUTO. 0, or BATON_EMESSAGE: the transfer leaves
 * the regions, and what was copied of it lies within them.
 */
int copy_slice(const struct plan_transfer *transfer, struct plan_cursor from, uint64_t bytes,
               const struct copy_side *src, const struct copy_side *dst);

/** The name of the streaming kernel on this CPU: "avx512", "avx2", "sse2" or "none". */
const char *copy_stream_name(void);

#endif
